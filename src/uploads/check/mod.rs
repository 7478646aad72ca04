//! Lines of `check` outside the database: whether the scanner is to be believed, and whether the buckets are as uploads need them.
//!
//! Asks, and changes nothing.

mod buckets;
mod scanner;

use futures::FutureExt as _;

use crate::db::contract::{Check, Look};

/// Line `upload_buckets`.
pub(super) const BUCKETS: Check =
    Check { line: buckets::NAME, order: 152, look: Look::Outside(|config| buckets::line(config).boxed()) };
/// Line `scanner`.
pub(super) const SCANNER: Check =
    Check { line: scanner::NAME, order: 154, look: Look::Outside(|config| scanner::line(config).boxed()) };
