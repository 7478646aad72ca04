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

/// Whoever writes the log has suppressed so many lines, or does not say how many (0).
#[must_use]
pub fn suppressed(count: u64) -> String {
    let many = if count == 0 { "lines".to_owned() } else { format!("{count} lines") };
    format!(
        "{many} were suppressed by a rate limit (journald.conf: RateLimitBurst=, the unit's LogRateLimitBurst=; rsyslog: \
         SysSock.RateLimit.Burst, imjournal's Ratelimit.Burst)"
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
