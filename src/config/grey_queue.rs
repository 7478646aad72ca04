//! `[grey_queue]`: how long an entry that waits for a person may wait, and what is tried without one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::s;

section! {
    /// `[grey_queue]`: entries that wait for a person, where schema `router` is there; the desk is not needed for it.
    GreyQueue {
        /// Time after which an entry that nobody took expires.
        #[serde(with = "humantime_serde")] ttl: Duration = s(30 * 86_400),
        /// Time before the expiry at which people are warned.
        #[serde(with = "humantime_serde")] expire_warn: Duration = s(3 * 86_400),
        /// Reasons whose remedy is tried without a person.
        auto: Vec<String> = ["exhausted", "no_actions", "unknown_submission"].map(str::to_owned).to_vec(),
        /// Remedies of one entry, before a person is needed.
        max_attempts: u32 = 3,
        /// Longest wait for the evidence that a remedy worked.
        #[serde(with = "humantime_serde")] evidence_timeout: Duration = s(6 * 3600),
        /// Time after which anybody may take over what its assignee has not moved.
        #[serde(with = "humantime_serde")] takeover_after: Duration = s(4 * 3600),
        /// Retention of closed entries.
        #[serde(with = "humantime_serde")] keep: Duration = s(400 * 86_400),
    }
}
