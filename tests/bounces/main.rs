//! Returned mails: what they say, what is believed of them, and what becomes of them and of the deliveries they are about.

mod follower;
mod harness;
mod hostile;
mod maildir;
mod postfix;
mod process;
mod reports;
mod returns;
