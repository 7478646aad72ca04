//! The help desk, judged from outside: by the published client `hfox` of somebody else, unchanged (`hfox.rs`); by requests that
//! no careful server takes (`hostile.rs`); and each of its scripted faults, seen with a plain HTTP client (`faults.rs`).
//!
//! hfox comes with `.venv` at the top of the workspace, which `make python` makes; without it its tests fail.

mod client;
mod faults;
mod hfox;
mod hostile;
