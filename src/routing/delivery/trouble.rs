//! What people are told when the relay's log cannot be followed.
//!
//! Pure: whoever follows it raises the incident, and has the notice told.

use crate::ops::alerting::Notice;
use crate::ops::incident::{Incident, IncidentKey};

/// The log cannot be read; `said` is scrubbed.
#[must_use]
pub fn unreadable(said: &str) -> Incident {
    let what = format!(
        "{said}; mails are sent all the same, what becomes of them beyond the relay is not known meanwhile"
    );
    Incident::new(IncidentKey::RelayLog, what, &["maple-router check"]).advising(
        "deliveries in doubt are resolved by routing.in_doubt alone; what was logged meanwhile is read when it can be",
    )
}

/// Lines of the log are gone; `why` is scrubbed.
#[must_use]
pub fn gap(why: &str) -> Notice {
    Notice {
        cause: "lines of the relay's log are missing: what they told of mails is not known",
        sample: why.to_owned(),
        command: "maple-router status".to_owned(),
        runbook: IncidentKey::RelayLog.runbook(),
    }
}
