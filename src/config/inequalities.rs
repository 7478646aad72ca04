//! Every inequality of the protocol's "Defaults, and what must hold between them": one row each.
//!
//! Pure. Nothing about timeouts is checked anywhere else.

use std::time::Duration;

use super::{Config, SourceKind};

/// Longest life Google gives a signed URL: 7 days (V4 signing).
const SIGNED_URL_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Time between a confirmed warning and the expiry it warns of.
const WARNED_BEFORE: Duration = Duration::from_secs(86_400);
/// Shortest retention of closed entries; the database refuses a shorter one.
const GREY_QUEUE_KEEP_MIN: Duration = Duration::from_secs(30 * 86_400);
/// Age at which the staging bucket's lifecycle removes objects, as the runbook sets it up.
const STAGING_LIFE: Duration = Duration::from_secs(2 * 86_400);
/// Allowance for closing connections, spooling facts and flushing the journal at a stop.
const STOP_ALLOWANCE: Duration = Duration::from_secs(5);
/// The key under which [`Config::timeout_stop`] is shown: it comes from systemd, not from the file.
pub(super) const TIMEOUT_STOP_KEY: &str = "MAPLE_ROUTER_TIMEOUT_STOP_SEC";

/// One inequality between durations.
pub struct Rule {
    /// The formula as the protocol page has it, with the keys' names.
    pub formula: &'static str,
    /// Consequence of breaking the rule.
    pub because: &'static str,
    /// Keys of the formula.
    pub keys: &'static [&'static str],
    kept: fn(&Config) -> bool,
}

impl Rule {
    /// Says whether this configuration keeps the rule. One about Pub/Sub counts only where that is the source:
    /// nobody should have to tune unused keys.
    #[must_use]
    pub fn holds(&self, config: &Config) -> bool {
        let unused = config.source.kind != SourceKind::Pubsub;
        unused && self.keys.iter().any(|key| key.starts_with("pubsub.")) || (self.kept)(config)
    }
}

/// `n` times a duration; too long counts as forever.
fn times(n: u32, duration: Duration) -> Duration {
    duration.saturating_mul(n)
}

/// The sum; too long counts as forever.
fn sum(durations: &[Duration]) -> Duration {
    durations.iter().fold(Duration::ZERO, |total, duration| total.saturating_add(*duration))
}

macro_rules! rules {
    ($($formula:literal, $because:literal, $keys:expr, $kept:expr;)*) => {
        &[$(Rule { formula: $formula, because: $because, keys: &$keys, kept: $kept }),*]
    };
}

/// Every inequality (protocol, "Defaults, and what must hold between them").
pub const RULES: &[Rule] = rules! {
    "smtp.connect_timeout + 3·smtp.command_timeout < smtp.delivery_deadline − 1s",
        "a slow greeting must leave room for the message itself",
        ["smtp.connect_timeout", "smtp.command_timeout", "smtp.delivery_deadline"],
        |c| sum(&[c.smtp.connect_timeout, times(3, c.smtp.command_timeout)])
            < c.smtp.delivery_deadline.saturating_sub(Duration::from_secs(1));
    "smtp.dot_timeout < smtp.delivery_deadline",
        "the wait for the relay's last word is part of the delivery",
        ["smtp.dot_timeout", "smtp.delivery_deadline"],
        |c| c.smtp.dot_timeout < c.smtp.delivery_deadline;
    "2·(routing.heartbeat + database.statement_timeout) < routing.fence_after",
        "one lost heartbeat must not stop a healthy send",
        ["routing.heartbeat", "database.statement_timeout", "routing.fence_after"],
        |c| times(2, sum(&[c.routing.heartbeat, c.database.statement_timeout])) < c.routing.fence_after;
    "routing.fence_after + smtp.dot_timeout + 2·database.statement_timeout < routing.stuck_after",
        "a claim must not look stuck while its worker may still be sending",
        ["routing.fence_after", "smtp.dot_timeout", "database.statement_timeout", "routing.stuck_after"],
        |c| sum(&[c.routing.fence_after, c.smtp.dot_timeout, times(2, c.database.statement_timeout)])
            < c.routing.stuck_after;
    "smtp.delivery_deadline + database.statement_timeout < routing.stuck_after",
        "a delivery must be recorded before its claim looks stuck",
        ["smtp.delivery_deadline", "database.statement_timeout", "routing.stuck_after"],
        |c| sum(&[c.smtp.delivery_deadline, c.database.statement_timeout]) < c.routing.stuck_after;
    "smtp.delivery_deadline + database.statement_timeout < routing.claim_deadline",
        "no send starts that the claim's remaining time does not cover",
        ["smtp.delivery_deadline", "database.statement_timeout", "routing.claim_deadline"],
        |c| sum(&[c.smtp.delivery_deadline, c.database.statement_timeout]) < c.routing.claim_deadline;
    "happyfox.connect_timeout < happyfox.timeout",
        "a slow connect must leave room for the request itself",
        ["happyfox.connect_timeout", "happyfox.timeout"],
        |c| c.happyfox.connect_timeout < c.happyfox.timeout;
    "happyfox.read_timeout ≤ happyfox.timeout",
        "the silence of a connection is part of the request",
        ["happyfox.read_timeout", "happyfox.timeout"],
        |c| c.happyfox.read_timeout <= c.happyfox.timeout;
    "routing.fence_after + happyfox.timeout + 2·database.statement_timeout < routing.stuck_after",
        "a claim must not look stuck while its worker may still be making a ticket",
        ["routing.fence_after", "happyfox.timeout", "database.statement_timeout", "routing.stuck_after"],
        |c| !c.happyfox.is_on()
            || sum(&[c.routing.fence_after, c.happyfox.timeout, times(2, c.database.statement_timeout)])
                < c.routing.stuck_after;
    "happyfox.timeout + database.statement_timeout ≤ routing.drain_timeout",
        "a stop must let the ticket that is being made end and be recorded",
        ["happyfox.timeout", "database.statement_timeout", "routing.drain_timeout"],
        |c| !c.happyfox.is_on()
            || sum(&[c.happyfox.timeout, c.database.statement_timeout]) <= c.routing.drain_timeout;
    "2·happyfox.doubt_window < routing.claim_deadline",
        "a claim must outlive the search for a ticket that may exist, or the search begins anew for ever",
        ["happyfox.doubt_window", "routing.claim_deadline"],
        |c| !c.happyfox.is_on() || times(2, c.happyfox.doubt_window) < c.routing.claim_deadline;
    "routing.claim_deadline < pubsub.max_lease",
        "the event must stay leased for as long as its submission may be worked on",
        ["routing.claim_deadline", "pubsub.max_lease"],
        |c| c.routing.claim_deadline < c.pubsub.max_lease;
    "database.lock_timeout < database.statement_timeout",
        "a wait for a lock must end as such, not as a slow statement",
        ["database.lock_timeout", "database.statement_timeout"],
        |c| c.database.lock_timeout < c.database.statement_timeout;
    "database.statement_timeout < routing.heartbeat",
        "a heartbeat must have ended before the next is due",
        ["database.statement_timeout", "routing.heartbeat"],
        |c| c.database.statement_timeout < c.routing.heartbeat;
    "5·routing.sweep_interval ≤ routing.stuck_after",
        "the sweep must look often enough to find a stuck claim soon after it is stuck",
        ["routing.sweep_interval", "routing.stuck_after"],
        |c| times(5, c.routing.sweep_interval) <= c.routing.stuck_after;
    "1.1·pubsub.retry_max + pubsub.ack_deadline + routing.sweep_interval < routing.orphan_after",
        "an event that is only waiting for its redelivery is no orphan",
        ["pubsub.retry_max", "pubsub.ack_deadline", "routing.sweep_interval", "routing.orphan_after"],
        |c| sum(&[times(11, c.pubsub.retry_max) / 10, c.pubsub.ack_deadline, c.routing.sweep_interval])
            < c.routing.orphan_after;
    "2·routing.sweep_interval ≤ routing.due_grace",
        "a due retry belongs to its event first, the sweep comes second",
        ["routing.sweep_interval", "routing.due_grace"],
        |c| times(2, c.routing.sweep_interval) <= c.routing.due_grace;
    "routing.backoff_min ≤ routing.backoff_max",
        "the shortest wait cannot be longer than the longest",
        ["routing.backoff_min", "routing.backoff_max"],
        |c| c.routing.backoff_min <= c.routing.backoff_max;
    "outbox.backoff_min ≤ outbox.backoff_max",
        "the shortest wait cannot be longer than the longest",
        ["outbox.backoff_min", "outbox.backoff_max"],
        |c| c.outbox.backoff_min <= c.outbox.backoff_max;
    "outbox.lease/3 + 2·database.statement_timeout < outbox.lease",
        "a row's lease is made longer every third of it, and one slow answer must not lose it",
        ["outbox.lease", "database.statement_timeout"],
        |c| sum(&[c.outbox.lease / 3, times(2, c.database.statement_timeout)]) < c.outbox.lease;
    "routing.backoff_max < routing.orphan_after",
        "a retry that waits for its time is no orphan",
        ["routing.backoff_max", "routing.orphan_after"],
        |c| c.routing.backoff_max < c.routing.orphan_after;
    "smtp.delivery_deadline + database.statement_timeout ≤ routing.drain_timeout",
        "a stop must let the message that is being sent end and be recorded",
        ["smtp.delivery_deadline", "database.statement_timeout", "routing.drain_timeout"],
        |c| sum(&[c.smtp.delivery_deadline, c.database.statement_timeout]) <= c.routing.drain_timeout;
    "routing.drain_timeout + 2·database.statement_timeout + 5s ≤ TimeoutStopSec",
        "systemd kills what has not stopped by then",
        ["routing.drain_timeout", "database.statement_timeout", TIMEOUT_STOP_KEY],
        |c| sum(&[c.routing.drain_timeout, times(2, c.database.statement_timeout), STOP_ALLOWANCE])
            <= c.timeout_stop();
    "3·slack.timeout < slack.lease",
        "two senders must not post the same alert",
        ["slack.timeout", "slack.lease"],
        |c| times(3, c.slack.timeout) < c.slack.lease;
    "signed_url.ttl ≤ 7d",
        "the object store refuses a link that lives longer",
        ["signed_url.ttl"],
        |c| c.signed_url.ttl <= SIGNED_URL_MAX;
    "1s ≤ signed_url.ttl",
        "the object store refuses a link that never lives",
        ["signed_url.ttl"],
        |c| Duration::from_secs(1) <= c.signed_url.ttl;
    "grey_queue.expire_warn + 24h < grey_queue.ttl",
        "nothing expires that nobody was warned of a day before",
        ["grey_queue.expire_warn", "grey_queue.ttl"],
        |c| sum(&[c.grey_queue.expire_warn, WARNED_BEFORE]) < c.grey_queue.ttl;
    "grey_queue.ttl < grey_queue.keep",
        "what has expired must be there for a while, to be looked at",
        ["grey_queue.ttl", "grey_queue.keep"],
        |c| c.grey_queue.ttl < c.grey_queue.keep;
    "30d ≤ grey_queue.keep",
        "the database removes no decision that is younger",
        ["grey_queue.keep"],
        |c| GREY_QUEUE_KEEP_MIN <= c.grey_queue.keep;
    "uploads.url_ttl < uploads.session_ttl",
        "a link to a part is of no use to a session that has ended",
        ["uploads.url_ttl", "uploads.session_ttl"],
        |c| c.uploads.url_ttl < c.uploads.session_ttl;
    "uploads.session_ttl < 2d",
        "the staging bucket's lifecycle removes what is two days old",
        ["uploads.session_ttl"],
        |c| c.uploads.session_ttl < STAGING_LIFE;
    "4·grading.samples·grading.judge.timeout + 14s < grading.sla",
        "four tries and the pauses between them must fit into the time for writing (grading)",
        ["grading.samples", "grading.judge.timeout", "grading.sla"],
        |c| c.grading.judge.base_url.is_none()
            || sum(&[times(4 * u32::from(c.grading.samples), c.grading.judge.timeout), Duration::from_secs(14)])
                < c.grading.sla.writing;
    "4·(grading.stt.timeout + grading.samples·grading.judge.timeout) + 14s < grading.sla",
        "four tries and the pauses between them must fit into the time for speaking (grading)",
        ["grading.stt.timeout", "grading.samples", "grading.judge.timeout", "grading.sla"],
        |c| c.grading.stt.base_url.is_none()
            || sum(&[
                times(4, sum(&[c.grading.stt.timeout, times(u32::from(c.grading.samples), c.grading.judge.timeout)])),
                Duration::from_secs(14),
            ]) < c.grading.sla.speaking;
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::validate::problems;
    use crate::config::validate::tests::sound;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_inequality_can_be_broken_alone() {
        type Break = fn(&mut Config);
        // In the order of RULES. The first change breaks the rule at its edge; a row is the only one broken.
        let breaks: &[Break] = &[
            |c| {
                c.smtp.command_timeout = s(58);
                c.smtp.connect_timeout = s(5); // 5 + 174 = 179 = 180 − 1
            },
            |c| {
                c.smtp.dot_timeout = s(180);
                c.routing.stuck_after = s(1000);
            },
            |c| c.routing.heartbeat = s(135),
            |c| c.routing.stuck_after = s(450),
            |c| {
                c.routing.stuck_after = s(500);
                c.smtp.delivery_deadline = s(485);
                c.routing.drain_timeout = s(500);
                c.surroundings.timeout_stop = Some(Duration::MAX);
            },
            |c| c.routing.claim_deadline = s(195),
            |c| {
                c.happyfox.timeout = s(5);
                c.happyfox.read_timeout = s(5);
            },
            |c| c.happyfox.timeout = s(29),
            |c| {
                help_desk(c);
                c.happyfox.timeout = s(200);
                c.routing.stuck_after = s(530);
                c.routing.drain_timeout = s(215);
                c.surroundings.timeout_stop = Some(Duration::MAX);
            },
            |c| {
                help_desk(c);
                c.happyfox.timeout = s(186);
            },
            |c| {
                help_desk(c);
                c.happyfox.doubt_window = s(600);
            },
            |c| c.pubsub.max_lease = s(1200),
            |c| c.database.lock_timeout = s(15),
            |c| {
                c.routing.heartbeat = s(15);
            },
            |c| {
                c.routing.sweep_interval = s(121);
                c.routing.due_grace = s(242);
                c.routing.orphan_after = s(2000);
            },
            |c| c.routing.orphan_after = s(780),
            |c| c.routing.due_grace = s(119),
            |c| c.routing.backoff_min = s(301),
            |c| c.outbox.backoff_min = s(301),
            |c| c.outbox.lease = s(45),
            |c| c.routing.backoff_max = s(900),
            |c| c.routing.drain_timeout = s(194),
            |c| c.surroundings.timeout_stop = Some(s(234)),
            |c| c.slack.lease = s(30),
            |c| c.signed_url.ttl = s(7 * 86_400 + 1),
            |c| c.signed_url.ttl = Duration::from_millis(999),
            |c| c.grey_queue.expire_warn = s(29 * 86_400),
            |c| c.grey_queue.keep = s(30 * 86_400),
            |c| {
                c.grey_queue.ttl = s(20 * 86_400);
                c.grey_queue.keep = s(30 * 86_400 - 1);
            },
            |c| c.uploads.session_ttl = s(900),
            |c| c.uploads.session_ttl = s(2 * 86_400),
            |c| {
                c.grading.judge.base_url = Some("https://judge.example/v1".to_owned());
                c.grading.sla.writing = s(734); // 4·3·60 + 14
            },
            |c| {
                c.grading.stt.base_url = Some("https://stt.example/v1".to_owned());
                c.grading.sla.speaking = s(1934); // 4·(300 + 3·60) + 14
            },
        ];
        assert_eq!(breaks.len(), RULES.len(), "one row a rule");
        for (rule, change) in RULES.iter().zip(breaks) {
            let mut config = sound();
            change(&mut config);
            let broken: Vec<&str> = RULES.iter().filter(|r| !r.holds(&config)).map(|r| r.formula).collect();
            assert_eq!(broken, vec![rule.formula]);
            let shown = problems(&config).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert!(shown.contains(rule.formula), "{shown}");
            for key in rule.keys {
                assert!(shown.contains(&format!("{key} = ")), "{key} is missing in: {shown}");
            }
        }
    }

    fn help_desk(c: &mut Config) {
        c.happyfox.base_url = Some("https://acme.happyfox.com".to_owned());
    }

    #[test]
    fn every_rule_names_keys_that_exist() {
        let known = crate::config::load::known_keys();
        for key in RULES.iter().flat_map(|rule| rule.keys).filter(|key| **key != TIMEOUT_STOP_KEY) {
            let (section, name) = key.split_once('.').expect("section.key");
            // In a nested section `judge.timeout`.
            let mut path = name.split('.');
            let first = path.next().and_then(|first| known[section].get(first));
            let found = path.fold(first, |found, name| found.and_then(|found| found.get(name)));
            assert!(found.is_some(), "{key}");
        }
    }
}
