//! Whether the configuration makes sense as a whole: required keys, ranges, and every inequality of the protocol's
//! "Defaults, and what must hold between them".
//!
//! Pure. All problems are collected, because whoever mends one wants to see the next. Each inequality is a row of
//! [`RULES`]; nothing about timeouts is checked anywhere else.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value as Json;

use super::dsn::Dsn;
use super::{Config, SignerKind, SourceKind};

/// Longest life Google gives a signed URL: 7 days (V4 signing).
const SIGNED_URL_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Allowance for closing connections, spooling facts and flushing the journal at a stop.
const STOP_ALLOWANCE: Duration = Duration::from_secs(5);
/// The key under which [`Config::timeout_stop`] is shown: it comes from systemd, not from the file.
const TIMEOUT_STOP_KEY: &str = "MAPLE_ROUTER_TIMEOUT_STOP_SEC";

/// Something that keeps the daemon from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The keys concerned with their values, as `section.key`.
    pub keys: Vec<(String, String)>,
    /// The rule that is broken, or what is missing.
    pub rule: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        write!(f, "{}: {}; {}", keys.join(", "), self.rule, self.remedy)
    }
}

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

/// Everything that keeps the daemon from starting; empty when all is well.
#[must_use]
pub fn problems(config: &Config) -> Vec<Problem> {
    let values = Values(config);
    let mut found = Vec::new();
    found.extend(database_problems(config));
    found.extend(checks(config).into_iter().filter(|check| !check.holds).map(|check| Problem {
        keys: vec![(check.key.to_owned(), values.of(check.key))],
        rule: check.rule.to_owned(),
        remedy: check.remedy.to_owned(),
    }));
    found.extend(RULES.iter().filter(|rule| !rule.holds(config)).map(|rule| Problem {
        keys: rule.keys.iter().map(|key| ((*key).to_owned(), values.of(key))).collect(),
        rule: format!("must satisfy {}, because {}", rule.formula, rule.because),
        remedy: format!("change one of {}", rule.keys.join(", ")),
    }));
    found
}

/// The part that concerns the database alone: enough for verbs that do nothing else (`migrate`).
#[must_use]
pub fn database_problems(config: &Config) -> Vec<Problem> {
    let database = &config.database;
    let mut found = Vec::new();
    let mut add = |key: &str, value: &str, rule: &str, remedy: &str| {
        found.push(Problem {
            keys: vec![(key.to_owned(), value.to_owned())],
            rule: rule.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    if database.url.trim().is_empty() {
        add(
            "database.url",
            "\"\"",
            "is required",
            "set it to postgres://USER@HOST/DATABASE, or set DATABASE_URL",
        );
    }
    let urls = [
        ("database.url", Some(&database.url), config.surroundings.database_url_from_environment),
        ("database.listen_url", database.listen_url.as_ref(), false),
    ];
    for (key, url, from_environment) in urls {
        let Some(url) = url else { continue };
        let dsn = Dsn::read(url);
        if dsn.has_password && !dsn.local && !from_environment {
            add(
                key,
                "<not shown>",
                "holds a password for a server that is not on this machine",
                "put the password into a file of its own and name it in database.password_file, or pass the \
                 credential database-password",
            );
        }
    }
    found
}

/// One requirement on one key.
struct Check {
    key: &'static str,
    holds: bool,
    rule: &'static str,
    remedy: &'static str,
}

#[expect(clippy::too_many_lines, reason = "one table, one row a requirement")]
fn checks(c: &Config) -> Vec<Check> {
    let pubsub = c.source.kind == SourceKind::Pubsub;
    let check = |key, holds, rule, remedy| Check { key, holds, rule, remedy };
    let given = |text: &str| !text.trim().is_empty();
    let listen = c.http.listen.parse::<SocketAddr>();
    let mut all = vec![
        check(
            "database.max_connections",
            c.database.max_connections >= 2,
            "must be at least 2",
            "heartbeats need a connection while work holds one; the default is 8",
        ),
        check(
            "pubsub.project",
            !pubsub || given(&c.pubsub.project) || qualified(c),
            "is required with source.kind = \"pubsub\"",
            "set it to the Google Cloud project id",
        ),
        check(
            "pubsub.subscription",
            !pubsub || given(&c.pubsub.subscription),
            "is required with source.kind = \"pubsub\"",
            "set it to the routing subscription; `maple-router provision` creates it",
        ),
        check(
            "pubsub.topic",
            !pubsub || given(&c.pubsub.topic),
            "is required with source.kind = \"pubsub\"",
            "set it to the routing topic; `maple-router provision` creates it",
        ),
        check(
            "pubsub.dead_letter_topic",
            !pubsub || given(&c.pubsub.dead_letter_topic),
            "is required with source.kind = \"pubsub\"",
            "set it to the dead-letter topic; `maple-router provision` creates it",
        ),
        check(
            "pubsub.dead_letter_subscription",
            !pubsub || given(&c.pubsub.dead_letter_subscription),
            "is required with source.kind = \"pubsub\"",
            "set it to the subscription on the dead-letter topic; `maple-router provision` creates it",
        ),
        check(
            "pubsub.max_outstanding",
            c.pubsub.max_outstanding >= 1,
            "must be at least 1",
            "the default is 256",
        ),
        check(
            "pubsub.streams",
            (1..=32).contains(&c.pubsub.streams),
            "must be from 1 to 32",
            "the default is 1; four suffice for thousands of events a second",
        ),
        check(
            "pubsub.endpoint",
            c.pubsub.endpoint.as_deref().is_none_or(is_http_url),
            "must be an http(s) URL",
            "e.g. http://127.0.0.1:8085 for the emulator",
        ),
        check(
            "pubsub.retry_max",
            within(c.pubsub.retry_max, 0, 600),
            "must be at most 10min",
            "Pub/Sub allows no longer redelivery back-off",
        ),
        check(
            "pubsub.ack_deadline",
            within(c.pubsub.ack_deadline, 10, 600),
            "must be from 10s to 10min",
            "those are Pub/Sub's own bounds",
        ),
        check(
            "readiness.finalized_column",
            c.readiness.finalized_column.as_deref().is_none_or(is_identifier),
            "must be a plain lower-case column name",
            "name a timestamptz column of submissions, or leave the key out",
        ),
        check("smtp.host", given(&c.smtp.host), "is required", "the default is localhost"),
        check("smtp.port", c.smtp.port >= 1, "must be at least 1", "the default is 25"),
        check(
            "smtp.lanes",
            (1..=64).contains(&c.smtp.lanes),
            "must be from 1 to 64",
            "the default is 8; more than about 10 bring nothing on a local Postfix",
        ),
        check(
            "smtp.hello_name",
            c.smtp.hello_name.as_deref().is_none_or(is_host_name),
            "must be a host name",
            "leave the key out to use this host's name",
        ),
        check(
            "smtp.max_per_minute",
            c.smtp.max_per_minute != Some(0),
            "must be at least 1",
            "leave the key out for no limit; `maple-router pause` stops sending",
        ),
        check(
            "mail.from",
            is_address(&c.mail.from),
            "must be one e-mail address",
            "set it to the sender, e.g. forms@example.org",
        ),
        check(
            "mail.time_zone",
            jiff::tz::TimeZone::get(&c.mail.time_zone).is_ok(),
            "must be an IANA time zone that this machine knows",
            "e.g. UTC or Europe/Amsterdam; install tzdata if the name is right",
        ),
        check(
            "mail.max_recipients",
            (1..=1000).contains(&c.mail.max_recipients),
            "must be from 1 to 1000",
            "the default is 50",
        ),
        check(
            "mail.allowed_destination_domains",
            c.mail.allowed_destination_domains.iter().all(|d| is_host_name(d)),
            "must be a list of domain names, without @",
            "e.g. [\"example.org\"]; an empty list allows any",
        ),
        check(
            "signed_url.key_file",
            c.signed_url.signer != SignerKind::KeyFile || c.signing_key_file().is_some(),
            "is required with signed_url.signer = \"key-file\"",
            "name the service-account key, set GOOGLE_APPLICATION_CREDENTIALS, or pass the credential signing-key",
        ),
        check(
            "signed_url.endpoint",
            is_http_url(&c.signed_url.endpoint),
            "must be an http(s) URL",
            "the default is https://iamcredentials.googleapis.com",
        ),
        check(
            "signed_url.storage_endpoint",
            is_http_url(&c.signed_url.storage_endpoint),
            "must be an http(s) URL",
            "the default is https://storage.googleapis.com",
        ),
        check(
            "signed_url.probe_object",
            c.signed_url.probe_object.as_deref().is_none_or(is_object),
            "must be BUCKET/OBJECT",
            "name a small object that the signer may read",
        ),
        check(
            "routing.max_in_flight",
            (1..=10_000).contains(&c.routing.max_in_flight),
            "must be from 1 to 10000",
            "the default is 64",
        ),
        check("routing.max_attempts", c.routing.max_attempts >= 1, "must be at least 1", "the default is 5"),
        check(
            "routing.worker_name",
            c.routing.worker_name.as_deref().is_none_or(|name| given(name) && name.len() <= 128),
            "must be from 1 to 128 characters",
            "leave the key out for HOST/PID",
        ),
        check(
            "relay_log.enabled",
            !c.relay_log.enabled || (c.relay_log.unit.is_some() != c.relay_log.file.is_some()),
            "needs exactly one of relay_log.unit and relay_log.file",
            "e.g. unit = \"postfix@-.service\"",
        ),
        check(
            "http.listen",
            listen.is_ok_and(|address| address.ip().is_loopback()),
            "must be a loopback address with a port",
            "the default is 127.0.0.1:9464; a proxy in front may serve others",
        ),
        check(
            "log.level",
            is_log_filter(&c.log.level),
            "must be error, warn, info, debug, trace or a filter directive",
            "the default is info",
        ),
        check(
            "state.dir",
            c.state.dir.is_absolute(),
            "must be an absolute path",
            "the default is /var/lib/maple-router",
        ),
    ];
    all.extend(durations_above_zero(c).into_iter().map(|(key, duration)| {
        check(key, !duration.is_zero(), "must be longer than 0s", "leave the key out for the default")
    }));
    all
}

/// Durations of which zero would switch the daemon off rather than a limit.
fn durations_above_zero(c: &Config) -> [(&'static str, Duration); 14] {
    [
        ("database.connect_timeout", c.database.connect_timeout),
        ("database.lock_timeout", c.database.lock_timeout),
        ("smtp.connect_timeout", c.smtp.connect_timeout),
        ("smtp.command_timeout", c.smtp.command_timeout),
        ("smtp.dot_timeout", c.smtp.dot_timeout),
        ("routing.heartbeat", c.routing.heartbeat),
        ("routing.sweep_interval", c.routing.sweep_interval),
        ("routing.due_grace", c.routing.due_grace),
        ("routing.unready_alert_after", c.routing.unready_alert_after),
        ("routing.backoff_min", c.routing.backoff_min),
        ("slack.timeout", c.slack.timeout),
        ("slack.repeat_interval", c.slack.repeat_interval),
        ("pubsub.max_lease", c.pubsub.max_lease),
        ("canary.interval", c.canary.interval.unwrap_or(Duration::from_secs(1))),
    ]
}

/// What works, but is probably not meant. Shown by `check`.
#[must_use]
pub fn warnings(config: &Config) -> Vec<Problem> {
    let values = Values(config);
    let mut found = Vec::new();
    let mut add = |keys: &[&str], rule: &str, remedy: &str| {
        found.push(Problem {
            keys: keys.iter().map(|key| ((*key).to_owned(), values.of(key))).collect(),
            rule: rule.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    if config.routing.max_in_flight < config.smtp.lanes {
        add(
            &["routing.max_in_flight", "smtp.lanes"],
            "fewer submissions are taken than could be sent at once",
            "raise routing.max_in_flight or lower smtp.lanes",
        );
    }
    if config.routing.not_before.is_none() {
        add(
            &["routing.not_before"],
            "the sweep takes every open submission that exists, however old",
            "set it to the time of installation if the database has a history",
        );
    }
    found
}

/// Looks values up by `section.key`, as people would write them.
struct Values<'a>(&'a Config);

impl Values<'_> {
    fn of(&self, key: &str) -> String {
        if key == TIMEOUT_STOP_KEY {
            return match self.0.timeout_stop() {
                Duration::MAX => "infinity".to_owned(),
                limit => humantime::format_duration(limit).to_string(),
            };
        }
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let value = serde_json::to_value(self.0).ok();
        match value.as_ref().and_then(|v| v.get(section)).and_then(|s| s.get(name)) {
            None | Some(Json::Null) => "(not set)".to_owned(),
            Some(value) => value.to_string(),
        }
    }
}

fn within(duration: Duration, low: u64, high: u64) -> bool {
    (Duration::from_secs(low)..=Duration::from_secs(high)).contains(&duration)
}

/// Full `projects/…` names need no `pubsub.project`.
fn qualified(c: &Config) -> bool {
    [&c.pubsub.subscription, &c.pubsub.topic, &c.pubsub.dead_letter_topic, &c.pubsub.dead_letter_subscription]
        .iter()
        .all(|name| name.starts_with("projects/"))
}

fn is_http_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn is_address(text: &str) -> bool {
    text.parse::<lettre::Address>().is_ok()
}

fn is_identifier(text: &str) -> bool {
    let head = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    head && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn is_host_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    let literal = text.starts_with('[') && text.ends_with(']');
    literal
        || (!text.is_empty()
            && text.len() <= 253
            && text.bytes().all(allowed)
            && !text.starts_with(['.', '-']))
}

fn is_object(text: &str) -> bool {
    text.split_once('/').is_some_and(|(bucket, object)| !bucket.is_empty() && !object.is_empty())
}

fn is_log_filter(text: &str) -> bool {
    !text.trim().is_empty() && text.parse::<tracing_subscriber::EnvFilter>().is_ok()
}

/// The keys of one section that differ between two configurations, as `section.key`: what a reload would change.
#[must_use]
pub fn differences(old: &Config, new: &Config) -> BTreeSet<String> {
    let (Ok(Json::Object(old)), Ok(Json::Object(new))) =
        (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return BTreeSet::new();
    };
    let mut found = BTreeSet::new();
    for (section, keys) in &new {
        for (key, value) in keys.as_object().into_iter().flatten() {
            if old.get(section).and_then(|s| s.get(key)) != Some(value) {
                found.insert(format!("{section}.{key}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest configuration that passes.
    fn sound() -> Config {
        let mut config = Config::default();
        config.database.url = "postgres://forms_app@db.example/forms".to_owned();
        config.mail.from = "forms@example.org".to_owned();
        config.pubsub.project = "p".to_owned();
        config.pubsub.subscription = "s".to_owned();
        config.pubsub.topic = "t".to_owned();
        config.pubsub.dead_letter_topic = "dt".to_owned();
        config.pubsub.dead_letter_subscription = "ds".to_owned();
        config
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_defaults_keep_every_rule() {
        assert_eq!(problems(&sound()), vec![]);
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
        let known = super::super::load::known_keys();
        for key in RULES.iter().flat_map(|rule| rule.keys).filter(|key| **key != TIMEOUT_STOP_KEY) {
            let (section, name) = key.split_once('.').expect("section.key");
            assert!(known[section].contains_key(name), "{key}");
        }
        for check in checks(&sound()) {
            let (section, name) = check.key.split_once('.').expect("section.key");
            assert!(known[section].contains_key(name), "{}", check.key);
        }
    }

    #[test]
    fn each_requirement_is_told_with_its_key() {
        type Break = fn(&mut Config);
        let cases: &[(&str, Break)] = &[
            ("database.url", |c| c.database.url.clear()),
            ("database.url", |c| c.database.url = "postgres://u:secret-word@db.example/f".to_owned()),
            ("database.listen_url", |c| {
                c.database.listen_url = Some("host=db.example password=secret-word".to_owned())
            }),
            ("database.max_connections", |c| c.database.max_connections = 1),
            ("pubsub.project", |c| c.pubsub.project.clear()),
            ("pubsub.subscription", |c| c.pubsub.subscription = " ".to_owned()),
            ("pubsub.topic", |c| c.pubsub.topic.clear()),
            ("pubsub.dead_letter_topic", |c| c.pubsub.dead_letter_topic.clear()),
            ("pubsub.dead_letter_subscription", |c| c.pubsub.dead_letter_subscription.clear()),
            ("pubsub.streams", |c| c.pubsub.streams = 0),
            ("pubsub.max_outstanding", |c| c.pubsub.max_outstanding = 0),
            ("pubsub.endpoint", |c| c.pubsub.endpoint = Some("127.0.0.1:8085".to_owned())),
            ("pubsub.ack_deadline", |c| c.pubsub.ack_deadline = s(9)),
            ("readiness.finalized_column", |c| c.readiness.finalized_column = Some("a; drop".to_owned())),
            ("smtp.lanes", |c| c.smtp.lanes = 0),
            ("smtp.host", |c| c.smtp.host.clear()),
            ("smtp.port", |c| c.smtp.port = 0),
            ("smtp.hello_name", |c| c.smtp.hello_name = Some("a b".to_owned())),
            ("smtp.max_per_minute", |c| c.smtp.max_per_minute = Some(0)),
            ("mail.from", |c| c.mail.from = "not an address".to_owned()),
            ("mail.from", |c| c.mail.from.clear()),
            ("mail.time_zone", |c| c.mail.time_zone = "Mars/Olympus".to_owned()),
            ("mail.max_recipients", |c| c.mail.max_recipients = 0),
            ("mail.allowed_destination_domains", |c| {
                c.mail.allowed_destination_domains = vec!["@example.org".to_owned()]
            }),
            ("signed_url.key_file", |c| c.signed_url.signer = SignerKind::KeyFile),
            ("signed_url.probe_object", |c| c.signed_url.probe_object = Some("bucket".to_owned())),
            ("routing.max_in_flight", |c| c.routing.max_in_flight = 0),
            ("routing.max_attempts", |c| c.routing.max_attempts = 0),
            ("routing.worker_name", |c| c.routing.worker_name = Some(String::new())),
            ("relay_log.enabled", |c| c.relay_log.enabled = true),
            ("http.listen", |c| c.http.listen = "0.0.0.0:9464".to_owned()),
            ("http.listen", |c| c.http.listen = "here".to_owned()),
            ("log.level", |c| c.log.level = "info=loud=".to_owned()),
            ("state.dir", |c| c.state.dir = "state".into()),
            ("smtp.connect_timeout", |c| c.smtp.connect_timeout = Duration::ZERO),
            ("canary.interval", |c| c.canary.interval = Some(Duration::ZERO)),
        ];
        for (key, change) in cases {
            let mut config = sound();
            change(&mut config);
            let found = problems(&config);
            assert_eq!(found.len(), 1, "{key}: {found:?}");
            assert_eq!(found[0].keys[0].0, *key);
            assert!(!found[0].to_string().contains("secret-word"), "a password must not be shown");
        }
    }

    #[test]
    fn a_password_is_allowed_where_it_says_development() {
        let mut config = sound();
        config.database.url = "postgres://u:pw@127.0.0.1/f".to_owned();
        assert_eq!(problems(&config), vec![]);
        config.database.url = "postgres://u:pw@db.example/f".to_owned();
        config.surroundings.database_url_from_environment = true;
        assert_eq!(problems(&config), vec![]);
    }

    #[test]
    fn without_pubsub_its_keys_are_not_asked_for() {
        let mut config = sound();
        config.source.kind = SourceKind::Postgres;
        config.pubsub = super::super::Pubsub::default();
        config.pubsub.max_lease = s(1);
        config.routing.orphan_after = s(400);
        assert_eq!(problems(&config), vec![]);
    }

    #[test]
    fn a_reload_is_told_key_by_key() {
        let old = sound();
        let mut new = old.clone();
        new.log.level = "debug".to_owned();
        new.routing.max_attempts = 6;
        let changed: Vec<String> = differences(&old, &new).into_iter().collect();
        assert_eq!(changed, ["log.level", "routing.max_attempts"]);
    }
}
