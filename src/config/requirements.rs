//! Rules of each key by itself: required, in range, of a shape. One row each.
//!
//! Pure. How keys must fit together is in [`super::inequalities`].

use std::net::SocketAddr;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::attachments::is_media_type;
use super::desk::is_origin;
use super::scan::scan_socket;
use super::{Config, GradingTransport, SignerKind, Size, SourceKind, SweepBy};

/// One requirement on one key.
pub(super) struct Requirement {
    /// `section.key`
    pub(super) key: &'static str,
    /// Says whether this configuration meets the requirement.
    pub(super) holds: fn(&Config) -> bool,
    /// The requirement in words.
    pub(super) rule: &'static str,
    /// Remedy.
    pub(super) remedy: &'static str,
}

/// Rule of durations of which zero would switch the daemon off rather than a limit.
const ABOVE_ZERO: &str = "must be longer than 0s";
/// Octets of a local part (64 by RFC 5321) that a token and its delimiter leave.
const LONGEST_RETURN_LOCAL: usize = 15;
const DEFAULT: &str = "leave the key out for the default";
const WITH_HELP_DESK: &str = "is required with happyfox.base_url";
/// Rules of a name in Pub/Sub, and the remedy where grading has need of it.
const A_TOPIC: &str = "must be a topic: its short name, with pubsub.project, or projects/PROJECT/topics/NAME";
const A_SUBSCRIPTION: &str =
    "must be a subscription: its short name, with pubsub.project, or projects/PROJECT/subscriptions/NAME";
const WITH_TOPICS: &str =
    "leave it out for the default, and set pubsub.project; `maple-router provision` makes it";
const WITH_PUBSUB: &str = "is required with source.kind = \"pubsub\"";

macro_rules! requirements {
    ($($key:literal : $holds:expr, $rule:expr, $remedy:expr;)*) => {
        &[$(Requirement { key: $key, holds: $holds, rule: $rule, remedy: $remedy }),*]
    };
}

/// Every requirement.
pub(super) const REQUIREMENTS: &[Requirement] = requirements! {
    "database.max_connections": |c| c.database.max_connections >= 2,
        "must be at least 2", "heartbeats need a connection while work holds one; the default is 8";
    "source.poll": |c| (Duration::from_millis(10)..=Duration::from_secs(60)).contains(&c.source.poll),
        "must be from 10ms to 1min", "the default is 1s; longer spares the database, and lets submissions wait as long";
    "outbox.lease": |c| within(c.outbox.lease, 10, 1800),
        "must be from 10s to 30min", "the default is 1min; a row whose process was killed waits as long";
    "outbox.max_attempts": |c| c.outbox.max_attempts >= 1,
        "must be at least 1", "the default is 5";
    "outbox.backoff_min": |c| !c.outbox.backoff_min.is_zero(),
        ABOVE_ZERO, DEFAULT;
    "outbox.keep": |c| c.outbox.keep >= Duration::from_secs(3600),
        "must be at least 1h", "the default is 7d; `explain` tells of an event for as long";
    "pubsub.project": |c| without_pubsub(c) || given(&c.pubsub.project) || qualified(c),
        WITH_PUBSUB, "set it to the Google Cloud project id";
    "grading.metrics_listen": |c| c.grading.metrics_listen.as_deref().is_none_or(is_loopback),
        "must be a loopback address with a port", "leave it out for none; a proxy in front may serve others";
    "grading.pubsub.request_topic": |c| in_database(c) || is_topic(c, &c.grading.pubsub.request_topic), A_TOPIC, WITH_TOPICS;
    "grading.pubsub.callback_topic": |c| in_database(c) || is_topic(c, &c.grading.pubsub.callback_topic), A_TOPIC, WITH_TOPICS;
    "grading.pubsub.request_subscription": |c| in_database(c) || is_named(c, "subscriptions", &c.grading.pubsub.request_subscription),
        A_SUBSCRIPTION, WITH_TOPICS;
    "grading.pubsub.callback_subscription": |c| in_database(c) || is_named(c, "subscriptions", &c.grading.pubsub.callback_subscription),
        A_SUBSCRIPTION, WITH_TOPICS;
    "pubsub.subscription": |c| without_pubsub(c) || given(&c.pubsub.subscription),
        WITH_PUBSUB, "set it to the routing subscription; `maple-router provision` creates it";
    "pubsub.topic": |c| without_pubsub(c) || given(&c.pubsub.topic),
        WITH_PUBSUB, "set it to the routing topic; `maple-router provision` creates it";
    "pubsub.dead_letter_topic": |c| without_pubsub(c) || given(&c.pubsub.dead_letter_topic),
        WITH_PUBSUB, "set it to the dead-letter topic; `maple-router provision` creates it";
    "pubsub.dead_letter_subscription": |c| without_pubsub(c) || given(&c.pubsub.dead_letter_subscription),
        WITH_PUBSUB, "set it to the subscription on the dead-letter topic; `maple-router provision` creates it";
    "pubsub.max_outstanding": |c| c.pubsub.max_outstanding >= 1,
        "must be at least 1", "the default is 256";
    "pubsub.streams": |c| (1..=32).contains(&c.pubsub.streams),
        "must be from 1 to 32", "the default is 1; four suffice for thousands of events a second";
    "pubsub.endpoint": |c| c.pubsub.endpoint.as_deref().is_none_or(is_http_url),
        "must be an http(s) URL", "e.g. http://127.0.0.1:8085 for the emulator";
    "pubsub.retry_max": |c| within(c.pubsub.retry_max, 0, 600),
        "must be at most 10min", "Pub/Sub allows no longer redelivery back-off";
    "pubsub.ack_deadline": |c| within(c.pubsub.ack_deadline, 10, 600),
        "must be from 10s to 10min", "those are Pub/Sub's own bounds";
    "readiness.finalized_column": |c| c.readiness.finalized_column.as_deref().is_none_or(is_identifier),
        "must be a plain lower-case column name",
        "name a timestamptz column of submissions, or leave the key out";
    "smtp.host": |c| given(&c.smtp.host),
        "is required", "the default is localhost";
    "smtp.port": |c| c.smtp.port >= 1,
        "must be at least 1", "the default is 25";
    "smtp.lanes": |c| (1..=64).contains(&c.smtp.lanes),
        "must be from 1 to 64", "the default is 8; more than about 10 bring nothing on a local Postfix";
    "smtp.hello_name": |c| c.smtp.hello_name.as_deref().is_none_or(is_host_name),
        "must be a host name", "leave the key out to use this host's name";
    "smtp.max_per_minute": |c| c.smtp.max_per_minute != Some(0),
        "must be at least 1", "leave the key out for no limit; `maple-router pause` stops sending";
    "mail.from": |c| is_address(&c.mail.from),
        "must be one e-mail address", "set it to the sender, e.g. forms@example.org";
    "mail.time_zone": |c| jiff::tz::TimeZone::get(&c.mail.time_zone).is_ok(),
        "must be an IANA time zone that this machine knows",
        "e.g. UTC or Europe/Amsterdam; install tzdata if the name is right";
    "mail.max_recipients": |c| (1..=1000).contains(&c.mail.max_recipients),
        "must be from 1 to 1000", "the default is 50";
    "mail.allowed_destination_domains": |c| c.mail.allowed_destination_domains.iter().all(|d| is_host_name(d)),
        "must be a list of domain names, without @", "e.g. [\"example.org\"]; an empty list allows any";
    "mail.reply_to_fields": |c| c.mail.reply_to_fields.iter().all(|field| given(field)),
        "must be a list of field keys", "e.g. [\"email\"]; an empty list sets no Reply-To";
    "mail.inline_max_total": |c| (Size::bytes(1024)..=Size::mebibytes(25)).contains(&c.mail.inline_max_total),
        "must be from 1KiB to 25MiB", "the default is 10MiB; many mail servers take no more than 25";
    "mail.inline_types": |c| c.mail.inline_types.iter().all(|name| is_media_type(name)),
        "must be a list of media types in lower case, without parameters",
        "e.g. [\"application/pdf\"]; an empty list links everything";
    "mail.forms": |c| c.mail.forms.keys().all(|form| given(form)),
        "must be sections with the name of a form", "e.g. [mail.forms.contact]";
    "happyfox.api_key_file": |c| !c.happyfox.is_on() || c.has_happyfox_api_key(),
        WITH_HELP_DESK, "name a file with the API key, or pass the credential happyfox-api-key";
    "happyfox.auth_code_file": |c| !c.happyfox.is_on() || c.has_happyfox_auth_code(),
        WITH_HELP_DESK, "name a file with the auth code, or pass the credential happyfox-auth-code";
    "happyfox.fallback_contact_email": |c| c.happyfox.fallback_contact_email.as_deref()
        .map_or(!c.happyfox.is_on(), is_address),
        "must be one e-mail address, and is required with happyfox.base_url",
        "set it to an address of your own: it is the contact where a submission has none, e.g. forms@example.org";
    "happyfox.fallback_contact_name": |c| given(&c.happyfox.fallback_contact_name),
        "is required", "the default is \"Web form\"";
    "happyfox.contact_email_field": |c| c.happyfox.contact_email_field.as_deref().is_none_or(given),
        "must be the key of a field", "e.g. \"email\"; leave the key out for the fallback contact";
    "happyfox.contact_name_field": |c| c.happyfox.contact_name_field.as_deref().is_none_or(given),
        "must be the key of a field", "e.g. \"name\"; leave the key out for the fallback contact";
    "happyfox.max_per_minute": |c| (1..=300).contains(&c.happyfox.max_per_minute),
        "must be from 1 to 300", "the default is 120; beyond 300 the help desk refuses the account everything for ten minutes";
    "happyfox.doubt_window": |c| within(c.happyfox.doubt_window, 10, 1800),
        "must be from 10s to 30min", "the default is 2min; the help desk's search may be behind by as much";
    "happyfox.connect_timeout": |c| !c.happyfox.connect_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "happyfox.read_timeout": |c| !c.happyfox.read_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "signed_url.key_file": |c| c.signed_url.signer != SignerKind::KeyFile || c.signing_key_file().is_some(),
        "is required with signed_url.signer = \"key-file\"",
        "name the service-account key, set GOOGLE_APPLICATION_CREDENTIALS, or pass the credential signing-key";
    "signed_url.endpoint": |c| is_http_url(&c.signed_url.endpoint),
        "must be an http(s) URL", "the default is https://iamcredentials.googleapis.com";
    "signed_url.storage_endpoint": |c| is_http_url(&c.signed_url.storage_endpoint),
        "must be an http(s) URL", "the default is https://storage.googleapis.com";
    "signed_url.probe_object": |c| c.signed_url.probe_object.as_deref().is_none_or(is_object),
        "must be BUCKET/OBJECT", "name a small object that the signer may read";
    "routing.max_in_flight": |c| (1..=10_000).contains(&c.routing.max_in_flight),
        "must be from 1 to 10000", "the default is 64";
    "routing.max_attempts": |c| c.routing.max_attempts >= 1,
        "must be at least 1", "the default is 5";
    "routing.sweep": |c| c.routing.sweep == SweepBy::Builtin || (c.routing.republish && !without_pubsub(c)),
        "\"timer\" needs routing.republish = true and source.kind = \"pubsub\"",
        "what a sweep outside the daemon finds is announced by events only: set routing.republish = true, or leave \
         routing.sweep out";
    "routing.worker_name": |c| c.routing.worker_name.as_deref().is_none_or(|name| given(name) && name.len() <= 128),
        "must be from 1 to 128 characters", "leave the key out for HOST/PID";
    "relay_log.enabled": |c| !c.relay_log.enabled || (c.relay_log.unit.is_some() != c.relay_log.file.is_some()),
        "needs exactly one of relay_log.unit and relay_log.file", "e.g. unit = \"postfix@-.service\"";
    "bounces.address": |c| c.bounces.address.as_deref().is_none_or(is_return_address),
        "must be one plain address whose part before the @ has no + and at most 15 characters",
        "behind it stand a + and a token of 48 characters, and 64 is all a mail server takes: choose a shorter one, e.g. \
         bounces@maple.example.org";
    "bounces.secret_file": |c| c.bounces.address.is_none() || c.has_bounce_secret(),
        "is required with bounces.address",
        "name a file with a line of `openssl rand -hex 32`, or pass the credential bounce-secret";
    "bounces.keep": |c| c.bounces.keep >= Duration::from_secs(3600),
        "must be at least 1h", "the default is 7d; a daemon reads kept mails again at its start, so that no notice is lost";
    "bounces.maildir": |c| c.bounces.maildir.is_absolute(),
        "must be an absolute path", "the default is /var/lib/maple-router/bounces";
    "grey_queue.max_attempts": |c| c.grey_queue.max_attempts >= 1,
        "must be at least 1", "the default is 3; an empty grey_queue.auto leaves everything to people";
    "grey_queue.auto": |c| c.grey_queue.auto.iter().all(|reason| is_reason(reason)),
        "must be a list of reasons as they are written, e.g. \"exhausted\"",
        "leave the key out for the default; an empty list leaves everything to people";
    "grey_queue.evidence_timeout": |c| !c.grey_queue.evidence_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "grey_queue.takeover_after": |c| !c.grey_queue.takeover_after.is_zero(), ABOVE_ZERO, DEFAULT;
    "desk.listen": |c| c.desk.listen.as_deref().is_none_or(|listen| listen.parse::<SocketAddr>().is_ok()),
        "must be an address with a port",
        "e.g. 127.0.0.1:9465, reached by `ssh -L`; leave the key out for no desk";
    "desk.origin": |c| is_origin(&c.desk.origin),
        "must be the origin that browsers show: https, or http on this machine, and no path",
        "the default is http://desk.localhost:9465; behind a proxy it is https://NAME. Browsers keep the cookie of no other";
    "scan.socket": |c| c.scan.socket.as_deref().is_none_or(|socket| scan_socket(socket).is_ok()),
        "must be the absolute path of clamd's socket, or its HOST:PORT",
        "e.g. /run/clamav/clamd.ctl (LocalSocket in clamd.conf); leave the key out for no scanner";
    "scan.timeout": |c| within(c.scan.timeout, 1, 1800),
        "must be from 1s to 30min", "the default is 3min; clamd itself gives up after its MaxScanTime, two minutes";
    "scan.rescan_after": |c| c.scan.rescan_after >= Duration::from_secs(3600),
        "must be at least 1h", "the default is 7d; new signatures come a few times a day";
    "uploads.listen": |c| c.uploads.listen.as_deref().is_none_or(|listen| listen.parse::<SocketAddr>().is_ok()),
        "must be an address with a port",
        "e.g. 127.0.0.1:9466, with a proxy in front that speaks TLS; leave the key out for no uploads";
    "uploads.origin": |c| is_origin(&c.uploads.origin),
        "must be the origin that clients use: https, or http on this machine, and no path",
        "the default is http://127.0.0.1:9466; behind a proxy it is https://NAME";
    "uploads.allowed_origins": |c| c.uploads.allowed_origins.iter().all(|origin| is_origin(origin)),
        "must be origins of pages: https, or http on this machine, and no path", "e.g. [\"https://forms.example.org\"]";
    "uploads.bucket": |c| c.uploads.listen.is_none() || !c.uploads.bucket.trim().is_empty(),
        "is required with uploads.listen", "name the bucket of the attachments";
    "uploads.staging_bucket": |c| c.uploads.listen.is_none()
        || !(c.uploads.staging_bucket.trim().is_empty() || c.uploads.staging_bucket == c.uploads.bucket),
        "is required with uploads.listen, and is another than uploads.bucket",
        "name a bucket of the same location and class, without soft delete, whose lifecycle removes what is two days old";
    "scan.socket": |c| c.uploads.listen.is_none() || c.scan.socket.is_some(),
        "is required with uploads.listen: what nobody scans is never routed",
        "name clamd's socket, e.g. /run/clamav/clamd.ctl";
    "uploads.types": |c| c.uploads.types.iter().chain(c.uploads.forms.values().flat_map(|f| f.types.iter().flatten()))
        .all(|one| is_media_type(one)),
        "must be media types without parameters", "e.g. [\"application/pdf\", \"image/png\"]";
    "uploads.max_file": |c| c.uploads.longest().as_bytes() < (2 << 30)
        && c.uploads.forms.values().filter_map(|form| form.max_file).chain([c.uploads.max_file]).all(|one| one.as_bytes() > 0),
        "must be above 0 and below 2GiB, which clamd scans at most", "the default is 100MiB";
    "uploads.url_ttl": |c| within(c.uploads.url_ttl, 60, 7 * 86_400),
        "must be from 1min to 7d", "the default is 15min; a client may ask for fresh links";
    "uploads.sessions_per_owner": |c| c.uploads.sessions_per_owner >= 1, ABOVE_ZERO, DEFAULT;
    "uploads.bytes_per_owner": |c| c.uploads.bytes_per_owner >= c.uploads.longest(),
        "must be no less than the longest file, uploads.max_file", "the default is 1GiB";
    "uploads.verify_slots": |c| (1..=64).contains(&c.uploads.verify_slots), "must be from 1 to 64", DEFAULT;
    "uploads.unattached_ttl": |c| c.uploads.unattached_ttl >= Duration::from_secs(60), "must be at least 1min", DEFAULT;
    "forms.policy_dir": |c| c.forms.policy_dir.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "e.g. /etc/maple-router/policy; leave the key out, and nothing is published";
    "forms.require_signatures": |c| c.forms.require_signatures <= 16, "must be 16 people at most", "the default is 0: none";
    "forms.allowed_signers": |c| c.forms.require_signatures == 0 || c.forms.allowed_signers.is_some(),
        "is required with forms.require_signatures", "e.g. /etc/maple-router/allowed_signers, as ssh-keygen(1) says";
    "forms.allowed_signers": |c| c.forms.allowed_signers.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "e.g. /etc/maple-router/allowed_signers";
    "retention.key_file": |c| c.retention.key_file.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "e.g. /etc/maple-router/collector/gc-key.json";
    "retention.rest": |c| c.retention.rest <= 100, "must be 100 at most", "the default is 3; 0 pauses never";
    "retention.grace": |c| c.retention.grace <= Duration::from_secs(366 * 86_400), "must be a year at most", "the default is 7d";
    "screening.patience": |c| within(c.screening.patience, 60, 30 * 86_400), "must be from 1min to 30d", "the default is 4h";
    "screening.slots": |c| (1..=64).contains(&c.screening.slots), "must be from 1 to 64", DEFAULT;
    "screening.rules_file": |c| c.screening.rules_file.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "e.g. /etc/maple-router/screening.toml";
    "screening.judge.base_url": |c| c.screening.judge.base_url.as_deref().is_none_or(is_http_url),
        "must be an http(s) URL", "e.g. https://api.example.org/v1; leave the key out, and people decide";
    "screening.judge.pause": |c| !c.screening.judge.pause.is_zero(), ABOVE_ZERO, DEFAULT;
    "screening.judge.model": |c| c.screening.judge.base_url.is_none() || given(&c.screening.judge.model),
        "is required with screening.judge.base_url", "the name by which the endpoint knows it";
    "screening.judge.key_file": |c| c.screening.judge.key_file.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "e.g. /etc/maple-router/screener/judge-key";
    "screening.judge.timeout": |c| within(c.screening.judge.timeout, 1, 120), "must be from 1s to 2min", "the default is 25s";
    "screening.judge.slots": |c| (1..=64).contains(&c.screening.judge.slots), "must be from 1 to 64", DEFAULT;
    "grading.samples": |c| (1..=9).contains(&c.grading.samples), "must be from 1 to 9", "the default is 3";
    "grading.spot_check": |c| c.grading.spot_check <= 100, "must be from 0 to 100", "the default is 5, percent";
    "grading.keep": |c| within(c.grading.keep, 3600, 30 * 86_400), "must be from 1h to 30d", "the default is 24h";
    "grading.thresholds": |c| {
            let t = &c.grading.thresholds;
            t.auto <= 100 && t.auto > t.audit && t.audit > t.medium && t.medium > t.high
        },
        "must fall from auto to audit, medium and high, and be at most 100", DEFAULT;
    "grading.bands": |c| {
            let b = &c.grading.bands;
            let tenth = |score: f64| (0.0..=10.0).contains(&score) && (score * 10.0 - (score * 10.0).round()).abs() < 1e-9;
            b.c1 > b.b2 && b.b2 > b.b1 && b.b1 > b.a2 && [b.c1, b.b2, b.b1, b.a2].into_iter().all(tenth)
        },
        "must fall from c1 to b2, b1 and a2, from 10 to 0 by 0.1", DEFAULT;
    "grading.sla": |c| {
            let s = &c.grading.sla;
            [s.writing, s.speaking, s.listening, s.reading].into_iter().all(|of| within(of, 10, 7 * 86_400))
        },
        "must each be from 10s to 7d", DEFAULT;
    "grading.judge.base_url": |c| c.grading.judge.base_url.as_deref().is_none_or(is_http_url),
        "must be an address such as https://api.example.org/v1", "leave the key out where nobody grades";
    "grading.judge.models": |c| c.grading.judge.base_url.is_none()
            || (!c.grading.judge.models.is_empty() && c.grading.judge.models.iter().all(|model| given(model))),
        "is required with grading.judge.base_url", "the names by which the endpoint knows them, one or more";
    "grading.judge.key_file": |c| c.grading.judge.key_file.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "or leave it out, and pass the credential grader-key";
    "grading.judge.timeout": |c| within(c.grading.judge.timeout, 1, 600), "must be from 1s to 10min", "the default is 1min";
    "grading.judge.pause": |c| !c.grading.judge.pause.is_zero(), ABOVE_ZERO, DEFAULT;
    "grading.judge.slots": |c| (1..=64).contains(&c.grading.judge.slots), "must be from 1 to 64", DEFAULT;
    "grading.stt.base_url": |c| c.grading.stt.base_url.as_deref().is_none_or(is_http_url),
        "must be an address such as https://api.example.org/v1", "leave the key out where nobody transcribes";
    "grading.stt.model": |c| c.grading.stt.base_url.is_none() || given(&c.grading.stt.model),
        "is required with grading.stt.base_url", "the name by which the endpoint knows it";
    "grading.stt.key_file": |c| c.grading.stt.key_file.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "or leave it out, and pass the credential stt-key";
    "grading.stt.timeout": |c| within(c.grading.stt.timeout, 1, 1800), "must be from 1s to 30min", "the default is 5min";
    "screening.git.timeout": |c| within(c.screening.git.timeout, 1, 120), "must be from 1s to 2min", "the default is 20s";
    "screening.git.max_files": |c| (1..=100_000).contains(&c.screening.git.max_files), "must be from 1 to 100000", DEFAULT;
    "screening.git.trusted": |c| c.screening.git.trusted.iter().all(|name| is_owner(name)),
        "must be owners of github.com, or host/owner", "e.g. \"anthropics\", or \"gitlab.com/gitlab-org\"";
    "screening.git.topic": |c| c.screening.git.topic.as_deref().is_none_or(|topic| is_topic(c, topic)),
        A_TOPIC, "leave it out where no registry listens";
    "screening.git.ca_file": |c| c.screening.git.ca_file.as_deref().is_none_or(std::path::Path::is_absolute),
        "must be an absolute path", "leave the key out for the system's certificates";
    "forms.keep": |c| c.forms.keep >= Duration::from_secs(86_400), "must be at least 1d", "the default is 90d";
    "http.listen": |c| is_loopback(&c.http.listen),
        "must be a loopback address with a port",
        "the default is 127.0.0.1:9464; a proxy in front may serve others";
    "log.level": |c| is_log_filter(&c.log.level),
        "must be error, warn, info, debug, trace or a filter directive", "the default is info";
    "log.level": |c| !is_log_filter(&c.log.level) || loud_library(&c.log.level).is_none(),
        "opens a library beyond warn, and libraries log parameters, addresses and signed URLs",
        "a bare level is for this program, and so is maple_router=debug; RUST_LOG on a terminal opens the others";
    "state.dir": |c| c.state.dir.is_absolute(),
        "must be an absolute path", "the default is /var/lib/maple-router";
    "database.connect_timeout": |c| !c.database.connect_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "database.lock_timeout": |c| !c.database.lock_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "smtp.connect_timeout": |c| !c.smtp.connect_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "smtp.command_timeout": |c| !c.smtp.command_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "smtp.dot_timeout": |c| !c.smtp.dot_timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "routing.heartbeat": |c| !c.routing.heartbeat.is_zero(), ABOVE_ZERO, DEFAULT;
    "routing.sweep_interval": |c| !c.routing.sweep_interval.is_zero(), ABOVE_ZERO, DEFAULT;
    "routing.due_grace": |c| !c.routing.due_grace.is_zero(), ABOVE_ZERO, DEFAULT;
    "routing.unready_alert_after": |c| !c.routing.unready_alert_after.is_zero(), ABOVE_ZERO, DEFAULT;
    "routing.backoff_min": |c| !c.routing.backoff_min.is_zero(), ABOVE_ZERO, DEFAULT;
    "slack.runbooks_url": |c| c.slack.runbooks_url.as_deref().is_none_or(is_linkable),
        "must be an http(s) URL without spaces and without <, > and |",
        "the address of a folder, below which a browser finds rb-009-routing-failure.md; or leave the key out";
    "slack.dashboard_url": |c| c.slack.dashboard_url.as_deref().is_none_or(is_linkable),
        "must be an http(s) URL without spaces and without <, > and |",
        "the address of the dashboard, as a browser shows it; or leave the key out";
    "slack.timeout": |c| !c.slack.timeout.is_zero(), ABOVE_ZERO, DEFAULT;
    "slack.repeat_interval": |c| !c.slack.repeat_interval.is_zero(), ABOVE_ZERO, DEFAULT;
    "pubsub.max_lease": |c| !c.pubsub.max_lease.is_zero(), ABOVE_ZERO, DEFAULT;
    "canary.interval": |c| c.canary.interval != Some(Duration::ZERO),
        ABOVE_ZERO, DEFAULT;
};

fn without_pubsub(c: &Config) -> bool {
    c.source.kind != SourceKind::Pubsub
}

fn given(text: &str) -> bool {
    !text.trim().is_empty()
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

fn is_loopback(listen: &str) -> bool {
    listen.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}

/// Whether no topic carries the messages of grading.
fn in_database(c: &Config) -> bool {
    c.grading.transport == GradingTransport::Postgres
}

/// A topic by its full name, or by its short one where there is a project.
fn is_topic(c: &Config, text: &str) -> bool {
    is_named(c, "topics", text)
}

/// The same of one of another collection.
fn is_named(c: &Config, collection: &str, text: &str) -> bool {
    let is_name = |name: &&str| given(name);
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [short] => given(short) && given(&c.pubsub.project),
        ["projects", project, found, name] => {
            *found == collection && [project, name].into_iter().all(is_name)
        }
        _ => false,
    }
}

/// An owner of repositories, alone or behind its host.
fn is_owner(text: &str) -> bool {
    let (host, owner) = text.rsplit_once('/').unwrap_or(("github.com", text));
    let is_name = |name: &str, more: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    is_name(owner, "-_.") && is_name(host, "-.:")
}

fn is_http_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Slack ends a link at these characters; text after them would be read as words, or as a mention.
fn is_linkable(text: &str) -> bool {
    is_http_url(text)
        && !text.contains(['<', '>', '|'])
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_address(text: &str) -> bool {
    text.parse::<lettre::Address>().is_ok()
}

/// Characters of a local part that every mail server takes without quotes; not the delimiter itself.
fn is_return_address(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*/=?^_`{|}~.-".contains(&b);
    is_address(text)
        && text.split_once('@').is_some_and(|(local, domain)| {
            (1..=LONGEST_RETURN_LOCAL).contains(&local.len())
                && local.bytes().all(plain)
                && is_host_name(domain)
        })
}

fn is_identifier(text: &str) -> bool {
    let head = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    head && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Reasons are written into rows and labels (`^[a-z_]{1,40}$` in the database).
fn is_reason(text: &str) -> bool {
    (1..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
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

/// The first directive of a filter that opens something else than this program beyond `warn`; a bare level by itself is
/// for this program.
pub(crate) fn loud_library(filter: &str) -> Option<&str> {
    let is_level = |text: &str| text.parse::<LevelFilter>().is_ok();
    if is_level(filter.trim()) {
        return None;
    }
    filter.split(',').map(str::trim).find(|directive| {
        let (target, level) = match directive.rsplit_once('=') {
            Some((target, level)) if is_level(level) => (target, level),
            // A field of a span, or a target for which everything is wanted.
            _ if !is_level(directive) => (*directive, "trace"),
            _ => ("everything", *directive),
        };
        let ours = target
            .strip_prefix("maple_router")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('['));
        !ours && level.parse::<LevelFilter>().is_ok_and(|level| level > LevelFilter::WARN)
    })
}

fn is_log_filter(text: &str) -> bool {
    !text.trim().is_empty() && text.parse::<tracing_subscriber::EnvFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::validate::problems;
    use crate::config::validate::tests::sound;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_requirement_is_about_a_key_that_exists() {
        let known = crate::config::load::known_keys();
        for requirement in REQUIREMENTS {
            let (section, name) = requirement.key.split_once('.').expect("section.key");
            // A section of a section is one of its keys.
            let name = name.split('.').next().unwrap_or(name);
            assert!(known[section].contains_key(name), "{}", requirement.key);
        }
    }

    /// The names of grading's topics, where there are some.
    fn linked(c: &mut Config) -> &mut crate::config::GradingPubsub {
        c.grading.transport = GradingTransport::Pubsub;
        "p".clone_into(&mut c.pubsub.project);
        &mut c.grading.pubsub
    }

    #[test]
    fn each_requirement_is_told_with_its_key() {
        type Break = fn(&mut Config);
        let cases: &[(&str, Break)] = &[
            ("database.url", |c| c.database.url.clear()),
            ("database.url", |c| c.database.url = "postgres://u:secret-word@db.example/f".to_owned()),
            ("database.listen_url", |c| {
                c.database.listen_url = Some("host=db.example password=secret-word".to_owned());
            }),
            ("database.max_connections", |c| c.database.max_connections = 1),
            ("source.poll", |c| c.source.poll = Duration::ZERO),
            ("grading.metrics_listen", |c| c.grading.metrics_listen = Some("0.0.0.0:9465".to_owned())),
            ("grading.pubsub.request_topic", |c| linked(c).request_topic = "a/b".to_owned()),
            ("grading.pubsub.callback_topic", |c| {
                linked(c).callback_topic = "projects/p/subscriptions/s".to_owned();
            }),
            ("grading.pubsub.request_subscription", |c| linked(c).request_subscription.clear()),
            ("grading.pubsub.callback_subscription", |c| {
                linked(c).callback_subscription = "projects//subscriptions/s".to_owned();
            }),
            ("source.poll", |c| c.source.poll = s(61)),
            ("outbox.lease", |c| c.outbox.lease = s(1801)),
            ("outbox.max_attempts", |c| c.outbox.max_attempts = 0),
            ("outbox.backoff_min", |c| c.outbox.backoff_min = Duration::ZERO),
            ("outbox.keep", |c| c.outbox.keep = s(3599)),
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
                c.mail.allowed_destination_domains = vec!["@example.org".to_owned()];
            }),
            ("mail.reply_to_fields", |c| c.mail.reply_to_fields = vec![" ".to_owned()]),
            ("mail.inline_max_total", |c| c.mail.inline_max_total = Size::bytes(1023)),
            ("mail.inline_max_total", |c| c.mail.inline_max_total = Size::mebibytes(26)),
            ("mail.inline_types", |c| c.mail.inline_types = vec!["image/*".to_owned()]),
            ("mail.forms", |c| {
                c.mail.forms.entry(String::new()).or_default();
            }),
            ("happyfox.base_url", |c| help_desk(c, "http://acme.happyfox.com")),
            ("happyfox.base_url", |c| help_desk(c, "https://acme.happyfox.com/staff")),
            ("happyfox.api_key_file", |c| {
                help_desk(c, "https://acme.happyfox.com");
                c.happyfox.api_key_file = None;
                c.surroundings.credentials_directory = Some("/nowhere".into());
            }),
            ("happyfox.auth_code_file", |c| {
                help_desk(c, "https://acme.happyfox.com");
                c.happyfox.auth_code_file = None;
                c.surroundings.credentials_directory = Some("/nowhere".into());
            }),
            ("happyfox.fallback_contact_email", |c| {
                help_desk(c, "https://acme.happyfox.com");
                c.happyfox.fallback_contact_email = None;
            }),
            ("happyfox.fallback_contact_email", |c| c.happyfox.fallback_contact_email = Some("x".to_owned())),
            ("happyfox.fallback_contact_name", |c| c.happyfox.fallback_contact_name.clear()),
            ("happyfox.contact_email_field", |c| c.happyfox.contact_email_field = Some(String::new())),
            ("happyfox.contact_name_field", |c| c.happyfox.contact_name_field = Some(" ".to_owned())),
            ("happyfox.max_per_minute", |c| c.happyfox.max_per_minute = 0),
            ("happyfox.max_per_minute", |c| c.happyfox.max_per_minute = 301),
            ("happyfox.doubt_window", |c| c.happyfox.doubt_window = s(9)),
            ("happyfox.connect_timeout", |c| c.happyfox.connect_timeout = Duration::ZERO),
            ("happyfox.read_timeout", |c| c.happyfox.read_timeout = Duration::ZERO),
            ("signed_url.key_file", |c| c.signed_url.signer = SignerKind::KeyFile),
            ("signed_url.probe_object", |c| c.signed_url.probe_object = Some("bucket".to_owned())),
            ("slack.runbooks_url", |c| c.slack.runbooks_url = Some("wiki/runbooks".to_owned())),
            ("slack.dashboard_url", |c| c.slack.dashboard_url = Some("https://x.test/|<!here>".to_owned())),
            ("routing.max_in_flight", |c| c.routing.max_in_flight = 0),
            ("routing.max_attempts", |c| c.routing.max_attempts = 0),
            ("routing.sweep", |c| {
                c.routing.sweep = SweepBy::Timer;
                c.routing.republish = false;
            }),
            ("routing.worker_name", |c| c.routing.worker_name = Some(String::new())),
            ("relay_log.enabled", |c| c.relay_log.enabled = true),
            ("bounces.address", |c| returning(c, "maple-bounces-too-long@example.org")),
            ("bounces.address", |c| returning(c, "maple+bounces@example.org")),
            ("bounces.address", |c| returning(c, "\"maple bounces\"@example.org")),
            ("bounces.address", |c| returning(c, "b\u{fc}nces@example.org")),
            ("bounces.address", |c| returning(c, "bounces")),
            ("bounces.secret_file", |c| {
                returning(c, "bounces@example.org");
                c.bounces.secret_file = None;
                c.surroundings.credentials_directory = Some("/nowhere".into());
            }),
            ("bounces.keep", |c| c.bounces.keep = s(3599)),
            ("bounces.maildir", |c| c.bounces.maildir = "bounces".into()),
            ("grey_queue.max_attempts", |c| c.grey_queue.max_attempts = 0),
            ("grey_queue.auto", |c| c.grey_queue.auto = vec!["Exhausted".to_owned()]),
            ("grey_queue.evidence_timeout", |c| c.grey_queue.evidence_timeout = Duration::ZERO),
            ("grey_queue.takeover_after", |c| c.grey_queue.takeover_after = Duration::ZERO),
            ("desk.listen", |c| c.desk.listen = Some("desk.localhost:9465".to_owned())),
            ("desk.origin", |c| c.desk.origin = "http://desk.example.org".to_owned()),
            ("forms.policy_dir", |c| c.forms.policy_dir = Some("policy".into())),
            ("forms.require_signatures", |c| {
                c.forms.require_signatures = 17;
                c.forms.allowed_signers = Some("/etc/maple-router/allowed_signers".into());
            }),
            ("forms.allowed_signers", |c| c.forms.require_signatures = 1),
            ("forms.allowed_signers", |c| c.forms.allowed_signers = Some("allowed_signers".into())),
            ("retention.key_file", |c| c.retention.key_file = Some("gc-key.json".into())),
            ("retention.rest", |c| c.retention.rest = 101),
            ("retention.grace", |c| c.retention.grace = s(367 * 86_400)),
            ("screening.patience", |c| c.screening.patience = s(59)),
            ("screening.slots", |c| c.screening.slots = 0),
            ("screening.rules_file", |c| c.screening.rules_file = Some("rules.toml".into())),
            ("screening.judge.pause", |c| c.screening.judge.pause = Duration::ZERO),
            ("screening.judge.base_url", |c| {
                c.screening.judge.base_url = Some("judge".to_owned());
                c.screening.judge.model = "m".to_owned();
            }),
            ("screening.judge.model", |c| {
                c.screening.judge.base_url = Some("https://judge.example/v1".to_owned());
            }),
            ("screening.judge.key_file", |c| c.screening.judge.key_file = Some("key".into())),
            ("screening.judge.timeout", |c| c.screening.judge.timeout = s(121)),
            ("screening.judge.slots", |c| c.screening.judge.slots = 65),
            ("grading.samples", |c| c.grading.samples = 0),
            ("grading.spot_check", |c| c.grading.spot_check = 101),
            ("grading.keep", |c| c.grading.keep = s(3599)),
            ("grading.thresholds", |c| c.grading.thresholds.audit = 90),
            ("grading.bands", |c| c.grading.bands.b2 = 3.0),
            ("grading.bands", |c| c.grading.bands.b2 = 6.05),
            ("grading.sla", |c| c.grading.sla.reading = s(9)),
            ("grading.judge.base_url", |c| {
                c.grading.judge.base_url = Some("judge".to_owned());
                c.grading.judge.models = vec!["m".to_owned()];
            }),
            ("grading.judge.models", |c| {
                c.grading.judge.base_url = Some("https://judge.example/v1".to_owned());
            }),
            ("grading.judge.key_file", |c| c.grading.judge.key_file = Some("key".into())),
            ("grading.judge.timeout", |c| c.grading.judge.timeout = s(601)),
            ("grading.judge.pause", |c| c.grading.judge.pause = Duration::ZERO),
            ("grading.judge.slots", |c| c.grading.judge.slots = 65),
            ("grading.stt.base_url", |c| {
                c.grading.stt.base_url = Some("stt".to_owned());
                c.grading.stt.model = "m".to_owned();
            }),
            ("grading.stt.model", |c| {
                c.grading.stt.base_url = Some("https://stt.example/v1".to_owned());
            }),
            ("grading.stt.key_file", |c| c.grading.stt.key_file = Some("key".into())),
            ("grading.stt.timeout", |c| c.grading.stt.timeout = Duration::ZERO),
            ("screening.git.timeout", |c| c.screening.git.timeout = Duration::ZERO),
            ("screening.git.max_files", |c| c.screening.git.max_files = 0),
            ("screening.git.trusted", |c| c.screening.git.trusted = vec!["https://github.com/a".into()]),
            ("screening.git.trusted", |c| c.screening.git.trusted = vec!["github.com/".into()]),
            ("screening.git.topic", |c| {
                c.screening.git.topic = Some("projects/acme/subscriptions/skills".into());
            }),
            ("screening.git.topic", |c| c.screening.git.topic = Some("acme/skills".into())),
            ("screening.git.ca_file", |c| c.screening.git.ca_file = Some("ca.pem".into())),
            ("forms.keep", |c| c.forms.keep = s(86_399)),
            ("scan.socket", |c| c.scan.socket = Some("clamd.ctl".to_owned())),
            ("scan.socket", |c| c.scan.socket = Some(String::new())),
            ("scan.timeout", |c| c.scan.timeout = Duration::from_millis(999)),
            ("scan.timeout", |c| c.scan.timeout = s(1801)),
            ("scan.rescan_after", |c| c.scan.rescan_after = s(3599)),
            ("uploads.listen", |c| {
                c.uploads.listen = Some("localhost".to_owned());
                c.scan.socket = Some("/run/clamd".to_owned());
                c.uploads.bucket = "content".to_owned();
                c.uploads.staging_bucket = "staging".to_owned();
            }),
            ("scan.socket", |c| {
                c.uploads.listen = Some("127.0.0.1:9466".to_owned());
                c.uploads.bucket = "content".to_owned();
                c.uploads.staging_bucket = "staging".to_owned();
            }),
            ("uploads.bucket", |c| {
                c.uploads.listen = Some("127.0.0.1:9466".to_owned());
                c.scan.socket = Some("/run/clamd".to_owned());
                c.uploads.staging_bucket = "staging".to_owned();
            }),
            ("uploads.staging_bucket", |c| {
                c.uploads.listen = Some("127.0.0.1:9466".to_owned());
                c.scan.socket = Some("/run/clamd".to_owned());
                c.uploads.bucket = "content".to_owned();
                c.uploads.staging_bucket = "content".to_owned();
            }),
            ("uploads.origin", |c| c.uploads.origin = "http://uploads.example.org".to_owned()),
            ("uploads.allowed_origins", |c| c.uploads.allowed_origins = vec!["*".to_owned()]),
            ("uploads.types", |c| c.uploads.types = vec!["image/*".to_owned()]),
            ("uploads.max_file", |c| c.uploads.max_file = Size::bytes(0)),
            ("uploads.max_file", |c| {
                c.uploads.max_file = Size::mebibytes(2048);
                c.uploads.bytes_per_owner = Size::mebibytes(2048);
            }),
            ("uploads.url_ttl", |c| c.uploads.url_ttl = s(59)),
            ("uploads.sessions_per_owner", |c| c.uploads.sessions_per_owner = 0),
            ("uploads.bytes_per_owner", |c| c.uploads.bytes_per_owner = Size::mebibytes(99)),
            ("uploads.verify_slots", |c| c.uploads.verify_slots = 0),
            ("uploads.unattached_ttl", |c| c.uploads.unattached_ttl = s(59)),
            ("http.listen", |c| c.http.listen = "0.0.0.0:9464".to_owned()),
            ("http.listen", |c| c.http.listen = "here".to_owned()),
            ("log.level", |c| c.log.level = "info=loud=".to_owned()),
            ("log.level", |c| c.log.level = "info,tokio_postgres=debug".to_owned()),
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

    /// With `[bounces]` on.
    fn returning(config: &mut Config, address: &str) {
        config.bounces.address = Some(address.to_owned());
        config.bounces.secret_file = Some("/etc/maple-router/credentials/bounce-secret".into());
    }

    /// With `[happyfox]` on.
    fn help_desk(config: &mut Config, address: &str) {
        config.happyfox.base_url = Some(address.to_owned());
        config.happyfox.api_key_file = Some("/etc/maple-router/credentials/happyfox-api-key".into());
        config.happyfox.auth_code_file = Some("/etc/maple-router/credentials/happyfox-auth-code".into());
        config.happyfox.fallback_contact_email = Some("forms@example.org".to_owned());
    }

    #[test]
    fn a_help_desk_needs_an_address_credentials_and_a_contact() {
        let mut config = sound();
        help_desk(&mut config, "https://acme.happyfox.com");
        assert_eq!(problems(&config), vec![]);
    }

    #[test]
    fn an_address_of_the_longest_allowed_length_is_allowed() {
        let mut config = sound();
        returning(&mut config, "router-bounces1@example.org");
        assert_eq!(problems(&config), vec![]);
    }

    #[test]
    fn a_filter_that_opens_libraries_is_recognised() {
        for quiet in [
            "debug",
            " TRACE ",
            "warn,maple_router=trace",
            "error",
            "maple_router::routing=debug,hyper=warn",
            "maple_router[claim]=debug",
            "off",
        ] {
            assert_eq!(loud_library(quiet), None, "{quiet}");
        }
        for (loud, by) in [
            ("warn,tokio_postgres=debug", "tokio_postgres=debug"),
            ("info,maple_router=debug", "info"),
            ("hyper", "hyper"),
            ("maple_router=debug, reqwest::connect=trace", "reqwest::connect=trace"),
            ("maple_routers=debug", "maple_routers=debug"),
            ("warn,[send]=debug", "[send]=debug"),
            ("lettre=5", "lettre=5"),
        ] {
            assert_eq!(loud_library(loud), Some(by), "{loud}");
        }
    }
}
