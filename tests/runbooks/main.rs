//! The runbooks hold: every command in them is run, every alert has a section, every link leads somewhere.

mod booted;
mod buckets;
mod commands;
mod forms;
mod gcloud;
mod grading;
mod here;
mod retention;
mod scene;
mod screening;
mod sections;
mod uploads;
