//! `[retention]`: how what has ended is removed, by a process of its own (`maple-router gc run`).

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::s;

section! {
    /// `[retention]`: the collector, where schema `content` is there. The daemon removes nothing.
    Retention {
        /// Connection string of the collector's role, `maple_gc`; `MAPLE_ROUTER_COLLECTOR_URL` instead where it has a password.
        collector_url: Option<String> = None,
        /// File holding the key of the collector's service account; absent: systemd's credential `gc-key`, else the account of
        /// `[signed_url]` on a host where that one is the collector's.
        key_file: Option<PathBuf> = None,
        /// Time for which an object that nothing refers to any more can be taken back.
        #[serde(with = "humantime_serde")] grace: Duration = s(7 * 86_400),
        /// Pause after a page of submissions that were emptied, as a multiple of the time that the page took: the rest is the routing's.
        rest: u32 = 3,
    }
}
