//! The fetcher of repositories, against git's own server and against hosts and repositories that mean harm: the right code comes
//! out, within its bounds, and nothing is left of the attempt.
//!
//! Needs Debian's git and prlimit (util-linux).

mod bounds;
mod ends;
mod hosts;
mod repositories;
mod snapshot;
mod trust;
mod world;
