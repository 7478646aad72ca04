//! Every inequality of the protocol's "Defaults, and what must hold between them": one row each.
//!
//! Pure. Nothing about timeouts is checked anywhere else.

use std::time::Duration;

use super::{Config, SourceKind};

/// Longest life Google gives a signed URL: 7 days (V4 signing).
const SIGNED_URL_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Allowance for closing connections, spooling facts and flushing the journal at a stop.
const STOP_ALLOWANCE: Duration = Duration::from_secs(5);
/// The key under which [`Config::timeout_stop`] is shown: it comes from systemd, not from the file.
pub(super) const TIMEOUT_STOP_KEY: &str = "MAPLE_ROUTER_TIMEOUT_STOP_SEC";

/// How the two sides of a rule compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `≤`
    AtMost,
}

/// When a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// Only with `source.kind = "pubsub"`: nobody should have to tune what is not used.
    Pubsub,
}

/// One inequality between durations.
pub struct Rule {
    /// The formula as the protocol page has it, with the keys' names.
    pub formula: &'static str,
    /// What goes wrong otherwise.
    pub because: &'static str,
    /// The keys that occur in it.
    pub keys: &'static [&'static str],
    when: When,
    relation: Relation,
    left: fn(&Config) -> Duration,
    right: fn(&Config) -> Duration,
}

impl Rule {
    /// Whether this configuration keeps the rule.
    #[must_use]
    pub fn holds(&self, config: &Config) -> bool {
        if self.when == When::Pubsub && config.source.kind != SourceKind::Pubsub {
            return true;
        }
        let (left, right) = ((self.left)(config), (self.right)(config));
        match self.relation {
            Relation::Below => left < right,
            Relation::AtMost => left <= right,
        }
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

/// Every inequality (protocol, "Defaults, and what must hold between them").
pub const RULES: &[Rule] = &[
    Rule {
        formula: "smtp.connect_timeout + 3·smtp.command_timeout < smtp.delivery_deadline − 1s",
        because: "a slow greeting must leave room for the message itself",
        keys: &["smtp.connect_timeout", "smtp.command_timeout", "smtp.delivery_deadline"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| sum(&[c.smtp.connect_timeout, times(3, c.smtp.command_timeout)]),
        right: |c| c.smtp.delivery_deadline.saturating_sub(Duration::from_secs(1)),
    },
    Rule {
        formula: "smtp.dot_timeout < smtp.delivery_deadline",
        because: "the wait for the relay's last word is part of the delivery",
        keys: &["smtp.dot_timeout", "smtp.delivery_deadline"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| c.smtp.dot_timeout,
        right: |c| c.smtp.delivery_deadline,
    },
    Rule {
        formula: "2·(routing.heartbeat + database.statement_timeout) < routing.fence_after",
        because: "one lost heartbeat must not stop a healthy send",
        keys: &["routing.heartbeat", "database.statement_timeout", "routing.fence_after"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| times(2, sum(&[c.routing.heartbeat, c.database.statement_timeout])),
        right: |c| c.routing.fence_after,
    },
    Rule {
        formula: "routing.fence_after + smtp.dot_timeout + 2·database.statement_timeout < routing.stuck_after",
        because: "a claim must not look stuck while its worker may still be sending",
        keys: &[
            "routing.fence_after",
            "smtp.dot_timeout",
            "database.statement_timeout",
            "routing.stuck_after",
        ],
        when: When::Always,
        relation: Relation::Below,
        left: |c| sum(&[c.routing.fence_after, c.smtp.dot_timeout, times(2, c.database.statement_timeout)]),
        right: |c| c.routing.stuck_after,
    },
    Rule {
        formula: "smtp.delivery_deadline + database.statement_timeout < routing.stuck_after",
        because: "a delivery must be recorded before its claim looks stuck",
        keys: &["smtp.delivery_deadline", "database.statement_timeout", "routing.stuck_after"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| sum(&[c.smtp.delivery_deadline, c.database.statement_timeout]),
        right: |c| c.routing.stuck_after,
    },
    Rule {
        formula: "smtp.delivery_deadline + database.statement_timeout < routing.claim_deadline",
        because: "no send starts that the claim's remaining time does not cover",
        keys: &["smtp.delivery_deadline", "database.statement_timeout", "routing.claim_deadline"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| sum(&[c.smtp.delivery_deadline, c.database.statement_timeout]),
        right: |c| c.routing.claim_deadline,
    },
    Rule {
        formula: "routing.claim_deadline < pubsub.max_lease",
        because: "the event must stay leased for as long as its submission may be worked on",
        keys: &["routing.claim_deadline", "pubsub.max_lease"],
        when: When::Pubsub,
        relation: Relation::Below,
        left: |c| c.routing.claim_deadline,
        right: |c| c.pubsub.max_lease,
    },
    Rule {
        formula: "database.lock_timeout < database.statement_timeout",
        because: "a wait for a lock must end as such, not as a slow statement",
        keys: &["database.lock_timeout", "database.statement_timeout"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| c.database.lock_timeout,
        right: |c| c.database.statement_timeout,
    },
    Rule {
        formula: "database.statement_timeout < routing.heartbeat",
        because: "a heartbeat must have ended before the next is due",
        keys: &["database.statement_timeout", "routing.heartbeat"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| c.database.statement_timeout,
        right: |c| c.routing.heartbeat,
    },
    Rule {
        formula: "5·routing.sweep_interval ≤ routing.stuck_after",
        because: "the sweep must look often enough to find a stuck claim soon after it is stuck",
        keys: &["routing.sweep_interval", "routing.stuck_after"],
        when: When::Always,
        relation: Relation::AtMost,
        left: |c| times(5, c.routing.sweep_interval),
        right: |c| c.routing.stuck_after,
    },
    Rule {
        formula: "1.1·pubsub.retry_max + pubsub.ack_deadline + routing.sweep_interval < routing.orphan_after",
        because: "an event that is only waiting for its redelivery is no orphan",
        keys: &["pubsub.retry_max", "pubsub.ack_deadline", "routing.sweep_interval", "routing.orphan_after"],
        when: When::Pubsub,
        relation: Relation::Below,
        left: |c| sum(&[times(11, c.pubsub.retry_max) / 10, c.pubsub.ack_deadline, c.routing.sweep_interval]),
        right: |c| c.routing.orphan_after,
    },
    Rule {
        formula: "2·routing.sweep_interval ≤ routing.due_grace",
        because: "a due retry belongs to its event first, the sweep comes second",
        keys: &["routing.sweep_interval", "routing.due_grace"],
        when: When::Always,
        relation: Relation::AtMost,
        left: |c| times(2, c.routing.sweep_interval),
        right: |c| c.routing.due_grace,
    },
    Rule {
        formula: "routing.backoff_min ≤ routing.backoff_max",
        because: "the shortest wait cannot be longer than the longest",
        keys: &["routing.backoff_min", "routing.backoff_max"],
        when: When::Always,
        relation: Relation::AtMost,
        left: |c| c.routing.backoff_min,
        right: |c| c.routing.backoff_max,
    },
    Rule {
        formula: "outbox.backoff_min ≤ outbox.backoff_max",
        because: "the shortest wait cannot be longer than the longest",
        keys: &["outbox.backoff_min", "outbox.backoff_max"],
        when: When::Always,
        relation: Relation::AtMost,
        left: |c| c.outbox.backoff_min,
        right: |c| c.outbox.backoff_max,
    },
    Rule {
        formula: "outbox.lease/3 + 2·database.statement_timeout < outbox.lease",
        because: "a row's lease is made longer every third of it, and one slow answer must not lose it",
        keys: &["outbox.lease", "database.statement_timeout"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| sum(&[c.outbox.lease / 3, times(2, c.database.statement_timeout)]),
        right: |c| c.outbox.lease,
    },
    Rule {
        formula: "routing.backoff_max < routing.orphan_after",
        because: "a retry that waits for its time is no orphan",
        keys: &["routing.backoff_max", "routing.orphan_after"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| c.routing.backoff_max,
        right: |c| c.routing.orphan_after,
    },
    Rule {
        formula: "smtp.delivery_deadline + database.statement_timeout ≤ routing.drain_timeout",
        because: "a stop must let the message that is being sent end and be recorded",
        keys: &["smtp.delivery_deadline", "database.statement_timeout", "routing.drain_timeout"],
        when: When::Always,
        relation: Relation::AtMost,
        left: |c| sum(&[c.smtp.delivery_deadline, c.database.statement_timeout]),
        right: |c| c.routing.drain_timeout,
    },
    Rule {
        formula: "routing.drain_timeout + 2·database.statement_timeout + 5s ≤ TimeoutStopSec",
        because: "systemd kills what has not stopped by then",
        keys: &["routing.drain_timeout", "database.statement_timeout", TIMEOUT_STOP_KEY],
        when: When::Always,
        relation: Relation::AtMost,
        left: |c| sum(&[c.routing.drain_timeout, times(2, c.database.statement_timeout), STOP_ALLOWANCE]),
        right: Config::timeout_stop,
    },
    Rule {
        formula: "3·slack.timeout < slack.lease",
        because: "two senders must not post the same alert",
        keys: &["slack.timeout", "slack.lease"],
        when: When::Always,
        relation: Relation::Below,
        left: |c| times(3, c.slack.timeout),
        right: |c| c.slack.lease,
    },
    Rule {
        formula: "signed_url.ttl ≤ 7d",
        because: "the object store refuses a link that lives longer",
        keys: &["signed_url.ttl"],
        when: When::Always,
        relation: Relation::AtMost,
        left: |c| c.signed_url.ttl,
        right: |_| SIGNED_URL_MAX,
    },
    Rule {
        formula: "1s ≤ signed_url.ttl",
        because: "the object store refuses a link that never lives",
        keys: &["signed_url.ttl"],
        when: When::Always,
        relation: Relation::AtMost,
        left: |_| Duration::from_secs(1),
        right: |c| c.signed_url.ttl,
    },
];

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
        ];
        assert_eq!(breaks.len(), RULES.len(), "one row a rule");
        for (rule, change) in RULES.iter().zip(breaks) {
            let mut config = sound();
            change(&mut config);
            let broken: Vec<&str> = RULES.iter().filter(|r| !r.holds(&config)).map(|r| r.formula).collect();
            assert_eq!(broken, vec![rule.formula]);
            let told = problems(&config).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert!(told.contains(rule.formula), "{told}");
            for key in rule.keys {
                assert!(told.contains(&format!("{key} = ")), "{key} is missing in: {told}");
            }
        }
    }

    #[test]
    fn every_rule_names_keys_that_exist() {
        let known = crate::config::load::known_keys();
        for key in RULES.iter().flat_map(|rule| rule.keys).filter(|key| **key != TIMEOUT_STOP_KEY) {
            let (section, name) = key.split_once('.').expect("section.key");
            assert!(known[section].contains_key(name), "{key}");
        }
    }
}
