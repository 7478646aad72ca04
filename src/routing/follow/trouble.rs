//! Alerts of a relay log that cannot be followed.
//!
//! Pure: the follower raises the incident and sends the notice.

use crate::ops::alerting::Notice;
use crate::ops::incident::Incident;
use crate::routing::card;

/// Incident of an unreadable log; `said` is scrubbed.
#[must_use]
pub(super) fn unreadable(said: &str) -> Incident {
    let what = format!(
        "{said}; mails are sent all the same, what becomes of them after the relay is not known meanwhile"
    );
    Incident::new(card::RELAY_LOG, what, &["maple-router check"]).advising(
        "deliveries in doubt are resolved by routing.in_doubt alone; what was logged meanwhile is read when it can be",
    )
}

/// Describes suppressed lines, `count` of them; 0 where their number is unknown.
#[must_use]
pub(super) fn suppressed(count: u64) -> String {
    let many = if count == 0 { "lines".to_owned() } else { format!("{count} lines") };
    format!(
        "{many} were suppressed by a rate limit (journald.conf: RateLimitBurst=, the unit's LogRateLimitBurst=; rsyslog: \
         SysSock.RateLimit.Burst, imjournal's Ratelimit.Burst)"
    )
}

/// Notice of missing lines; `why` is scrubbed.
#[must_use]
pub(super) fn gap(why: &str) -> Notice {
    Notice {
        cause: "lines of the relay's log are missing: what they said of mails is not known",
        sample: why.to_owned(),
        command: "maple-router status".to_owned(),
        runbook: card::RELAY_LOG.runbook(),
    }
}
