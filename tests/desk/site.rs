//! The desk's pages over the real server and real rows, as browsers without JavaScript meet them.

mod away;
mod forms;
mod grading;
mod hostile;
mod live;
mod pages;
mod scene;
mod search;
mod status;
mod versions;
