//! The configuration: typed, layered once at start (file, then environment), validated as a whole.
//!
//! Types and defaults are here; [`load`] layers and explains faults, [`validate`] asks whether it all makes sense
//! (with the protocol's "Defaults, and what must hold between them" in [`inequalities`]), [`reload`] names the keys
//! that need no restart, [`secret`] reads secrets, [`surroundings`] other systems' variables.
//!
//! Nothing is kept, so there is nothing to lose. Never log a whole [`Config`]: `database.url` may carry a development password.

pub mod dsn;
pub(crate) mod explain;
pub mod inequalities;
pub mod load;
mod problem;
pub mod reload;
mod requirements;
pub mod secret;
pub mod surroundings;
pub mod validate;

pub use load::{ConfigError, DEFAULT_PATH, Loaded, Origin};
pub(crate) use requirements::loud_library;
pub use surroundings::{Environment, Surroundings, environment};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Shorthand for the defaults below.
const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident : $ty:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty),* }
        impl Default for $name {
            fn default() -> Self { Self { $($field: $default),* } }
        }
    };
}

mod attachments;
mod desk;
mod forms;
mod grading;
mod grey_queue;
mod happyfox;
mod retention;
mod scan;
mod screening;
mod size;
mod uploads;

pub use attachments::{Attachments, MailForm};
pub use desk::{Assertion, AssertionAlgorithm, Desk, DeskAuth, DeskUser, Role};
pub use forms::Forms;
pub use grading::{
    Grading, GradingBands, GradingJudge, GradingMerge, GradingMode, GradingPubsub, GradingSla, GradingStt,
    GradingThresholds, GradingTransport,
};
pub use grey_queue::GreyQueue;
pub use happyfox::{HappyFox, HappyFoxForm, happyfox_api};
pub use retention::Retention;
pub use scan::{Scan, ScanSocket, scan_socket};
pub use screening::{Screening, ScreeningForm, ScreeningGit, ScreeningJudge, ScreeningMode, Send};
pub use size::Size;
pub use uploads::{Dedupe, UploadForm, UploadRules, Uploads};

section! {
    /// The whole configuration.
    Config {
        /// `[database]`
        database: Database = Database::default(),
        /// `[source]`
        source: Source = Source::default(),
        /// `[outbox]`
        outbox: Outbox = Outbox::default(),
        /// `[pubsub]`
        pubsub: Pubsub = Pubsub::default(),
        /// `[readiness]`
        readiness: Readiness = Readiness::default(),
        /// `[smtp]`
        smtp: Smtp = Smtp::default(),
        /// `[mail]`
        mail: Mail = Mail::default(),
        /// `[happyfox]`
        happyfox: HappyFox = HappyFox::default(),
        /// `[signed_url]`
        signed_url: SignedUrl = SignedUrl::default(),
        /// `[routing]`
        routing: Routing = Routing::default(),
        /// `[relay_log]`
        relay_log: RelayLog = RelayLog::default(),
        /// `[bounces]`
        bounces: Bounces = Bounces::default(),
        /// `[grey_queue]`
        grey_queue: GreyQueue = GreyQueue::default(),
        /// `[desk]`
        desk: Desk = Desk::default(),
        /// `[scan]`
        scan: Scan = Scan::default(),
        /// `[uploads]`
        uploads: Uploads = Uploads::default(),
        /// `[forms]`
        forms: Forms = Forms::default(),
        /// `[retention]`
        retention: Retention = Retention::default(),
        /// `[screening]`
        screening: Screening = Screening::default(),
        /// `[grading]`
        grading: Grading = Grading::default(),
        /// `[audit]`
        audit: Audit = Audit::default(),
        /// `[slack]`
        slack: Slack = Slack::default(),
        /// `[canary]`
        canary: Canary = Canary::default(),
        /// `[http]`
        http: Http = Http::default(),
        /// `[log]`
        log: Log = Log::default(),
        /// `[state]`
        state: State = State::default(),
        /// Values of environment variables whose names are not ours (`PUBSUB_EMULATOR_HOST`, …).
        #[serde(skip)] surroundings: Surroundings = Surroundings::default(),
    }
}

/// Authentication of the daemon to PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseAuth {
    /// A password (file), or none where the server asks for none.
    #[default]
    Password,
    /// A Cloud SQL IAM access token, fetched per connection.
    Iam,
}

/// Owner of the PostgreSQL sessions that connections lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Our own sessions, each for as long as its connection: no proxy, or one that pools sessions.
    #[default]
    Session,
    /// A proxy's sessions: each is given to a transaction and taken back afterwards. Nothing is prepared or set
    /// beyond a transaction then.
    Transaction,
}

section! {
    /// `[database]`
    Database {
        /// `postgres://user@host:port/db?sslmode=…` or a keyword/value string; `DATABASE_URL` overrides.
        url: String = String::new(),
        /// Authentication ([`DatabaseAuth`]).
        auth: DatabaseAuth = DatabaseAuth::Password,
        /// File holding the password.
        password_file: Option<PathBuf> = None,
        /// CA certificate (PEM) to verify the server with.
        ssl_root_cert: Option<PathBuf> = None,
        /// Upper bound of the pool.
        max_connections: usize = 8,
        /// Connecting.
        #[serde(with = "humantime_serde")] connect_timeout: Duration = s(5),
        /// Waiting for a lock.
        #[serde(with = "humantime_serde")] lock_timeout: Duration = s(5),
        /// One statement.
        #[serde(with = "humantime_serde")] statement_timeout: Duration = s(15),
        /// Connection string for LISTEN where `url` leads through a transaction-pooling proxy.
        listen_url: Option<String> = None,
        /// Owner of the sessions ([`Pooling`]); where absent, `listen_url` implies it, and else it is detected.
        pooling: Option<Pooling> = None,
    }
}

impl Database {
    /// The configured or implied [`Pooling`].
    #[must_use]
    pub fn said_pooling(&self) -> Option<Pooling> {
        self.pooling.or(self.listen_url.as_ref().map(|_| Pooling::Transaction))
    }
}

/// Source of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Google Pub/Sub.
    #[default]
    Pubsub,
    /// The outbox of schema `router` in PostgreSQL.
    Postgres,
}

section! {
    /// `[source]`
    Source {
        /// Source of events ([`SourceKind`]).
        kind: SourceKind = SourceKind::Pubsub,
        /// Interval of looks into the database for rows to be routed, or published, without a notification.
        #[serde(with = "humantime_serde")] poll: Duration = s(1),
    }
}

section! {
    /// `[outbox]`: how rows of `router.outbox` are delivered, where schema `router` is there.
    Outbox {
        /// Lease of a row: its process loses it after this long without a sign of life.
        #[serde(with = "humantime_serde")] lease: Duration = s(60),
        /// Failures of a row's own (it cannot be read, or names no submission) after which it is a dead letter.
        max_attempts: u32 = 5,
        /// Shortest pause before a row is tried again.
        #[serde(with = "humantime_serde")] backoff_min: Duration = s(1),
        /// Longest pause before a row is tried again.
        #[serde(with = "humantime_serde")] backoff_max: Duration = s(300),
        /// Retention of delivered rows.
        #[serde(with = "humantime_serde")] keep: Duration = s(7 * 86_400),
    }
}

section! {
    /// `[pubsub]`: short names, or full `projects/…` names.
    Pubsub {
        /// Google Cloud project id.
        project: String = String::new(),
        /// Routing subscription.
        subscription: String = String::new(),
        /// Routing topic.
        topic: String = String::new(),
        /// Dead-letter topic.
        dead_letter_topic: String = String::new(),
        /// Subscription on the dead-letter topic.
        dead_letter_subscription: String = String::new(),
        /// Messages leased at once, per stream.
        max_outstanding: u32 = 256,
        /// StreamingPull streams.
        streams: u32 = 1,
        /// Endpoint override, e.g. `http://127.0.0.1:8085`; `PUBSUB_EMULATOR_HOST` overrides.
        endpoint: Option<String> = None,
        /// Longest redelivery back-off of the subscription, where the role may not read it.
        #[serde(with = "humantime_serde")] retry_max: Duration = s(600),
        /// Ack deadline of the subscription, where the role may not read it.
        #[serde(with = "humantime_serde")] ack_deadline: Duration = s(60),
        /// Longest time a message is kept leased.
        #[serde(with = "humantime_serde")] max_lease: Duration = s(1800),
    }
}

section! {
    /// `[readiness]`
    Readiness {
        /// A timestamptz column of `submissions` that must be set, for backends that insert before finalize.
        finalized_column: Option<String> = None,
    }
}

section! {
    /// `[smtp]`: the relay.
    Smtp {
        /// Host of the relay.
        host: String = "localhost".to_owned(),
        /// Port of the relay.
        port: u16 = 25,
        /// Connections kept, one SMTP transaction at a time on each.
        lanes: usize = 8,
        /// EHLO name; this host's name when absent.
        hello_name: Option<String> = None,
        /// TCP connect.
        #[serde(with = "humantime_serde")] connect_timeout: Duration = s(5),
        /// Banner, EHLO, MAIL, each RCPT, DATA.
        #[serde(with = "humantime_serde")] command_timeout: Duration = s(30),
        /// From the final dot to its reply, as far as `delivery_deadline` allows; with less than half of it left no
        /// dot is written.
        #[serde(with = "humantime_serde")] dot_timeout: Duration = s(120),
        /// One whole SMTP transaction, from connect to the reply to the final dot.
        #[serde(with = "humantime_serde")] delivery_deadline: Duration = s(180),
        /// Messages a minute at most; absent: no limit.
        max_per_minute: Option<u32> = None,
    }
}

/// Body of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailBody {
    /// Submission id, form name, "details to follow", links; no field values.
    #[default]
    Interim,
    /// The pinned template's text and HTML.
    Template,
}

/// Media types whose bytes tell what they are, and that no program runs.
const INLINE_TYPES: [&str; 6] =
    ["application/pdf", "image/gif", "image/jpeg", "image/png", "text/csv", "text/plain"];

section! {
    /// `[mail]`
    Mail {
        /// Sender, header and envelope. Required.
        from: String = String::new(),
        /// Body of a mail ([`MailBody`]).
        body: MailBody = MailBody::Interim,
        /// IANA time zone for times shown in mails.
        time_zone: String = "UTC".to_owned(),
        /// Domains that may be written to; empty: any.
        allowed_destination_domains: Vec<String> = Vec::new(),
        /// Recipients an action may have.
        max_recipients: usize = 50,
        /// Fields whose address an answer goes to (`Reply-To`), the first that has one; empty: nobody's.
        reply_to_fields: Vec<String> = Vec::new(),
        /// Most that files take in one mail or ticket, as they are encoded there; what goes beyond is linked.
        inline_max_total: Size = Size::mebibytes(10),
        /// Media types that may travel as files, by what is said and by what the bytes say; others are linked.
        inline_types: Vec<String> = INLINE_TYPES.map(str::to_owned).to_vec(),
        /// `[mail.forms.FORM]`
        forms: BTreeMap<String, MailForm> = BTreeMap::new(),
    }
}

/// Signer of URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignerKind {
    /// IAM `signBlob` as the identity of the metadata server.
    #[default]
    Metadata,
    /// A service-account key file.
    KeyFile,
}

section! {
    /// `[signed_url]`
    SignedUrl {
        /// Longest life of a link; at most 7 d.
        #[serde(with = "humantime_serde")] ttl: Duration = s(7 * 86_400),
        /// Signer of URLs ([`SignerKind`]).
        signer: SignerKind = SignerKind::Metadata,
        /// Service-account key (JSON) for `key-file`; `GOOGLE_APPLICATION_CREDENTIALS` when absent.
        key_file: Option<PathBuf> = None,
        /// IAM credentials endpoint.
        endpoint: String = "https://iamcredentials.googleapis.com".to_owned(),
        /// Object store endpoint; `STORAGE_EMULATOR_HOST` overrides.
        storage_endpoint: String = "https://storage.googleapis.com".to_owned(),
        /// `bucket/object` that `check` fetches through a signed URL.
        probe_object: Option<String> = None,
    }
}

/// Treatment of a delivery in doubt that nothing resolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InDoubt {
    /// Send again with the same Message-ID.
    #[default]
    Resend,
    /// That delivery fails with `in_doubt`.
    Hold,
}

/// Process that sweeps (protocol, "Sweep").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SweepBy {
    /// The daemon itself.
    #[default]
    Builtin,
    /// `maple-router-sweep.timer`; the daemon only counts, for its metrics.
    Timer,
}

section! {
    /// `[routing]`
    Routing {
        /// Submissions claimed at once.
        max_in_flight: usize = 64,
        /// Attempts a submission has.
        max_attempts: u32 = 5,
        /// Interval at which live claims are touched.
        #[serde(with = "humantime_serde")] heartbeat: Duration = s(120),
        /// No final dot is written when the last confirmed touch is older.
        #[serde(with = "humantime_serde")] fence_after: Duration = s(300),
        /// `processing` untouched for this long is stuck.
        #[serde(with = "humantime_serde")] stuck_after: Duration = s(600),
        /// Longest life of a claim.
        #[serde(with = "humantime_serde")] claim_deadline: Duration = s(1200),
        /// Process that sweeps ([`SweepBy`]).
        sweep: SweepBy = SweepBy::Builtin,
        /// Interval of the sweep; with the timer, of the counting, and what the timer is taken to keep.
        #[serde(with = "humantime_serde")] sweep_interval: Duration = s(60),
        /// A due retry is left to its event for this long.
        #[serde(with = "humantime_serde")] due_grace: Duration = s(120),
        /// A ready row without an event is an orphan after this long.
        #[serde(with = "humantime_serde")] orphan_after: Duration = s(900),
        /// A row not ready for this long is alerted.
        #[serde(with = "humantime_serde")] unready_alert_after: Duration = s(3600),
        /// Shortest back-off.
        #[serde(with = "humantime_serde")] backoff_min: Duration = s(10),
        /// Longest back-off.
        #[serde(with = "humantime_serde")] backoff_max: Duration = s(300),
        /// Time a stop gives to what is being sent.
        #[serde(with = "humantime_serde")] drain_timeout: Duration = s(200),
        /// Whether the sweep publishes events again.
        republish: bool = true,
        /// Treatment of deliveries in doubt ([`InDoubt`]).
        in_doubt: InDoubt = InDoubt::Resend,
        /// Rows created before are left alone.
        not_before: Option<Timestamp> = None,
        /// Name of this worker in claims; `host/pid` when absent.
        worker_name: Option<String> = None,
    }
}

section! {
    /// `[relay_log]`
    RelayLog {
        /// Follow the relay's log.
        enabled: bool = false,
        /// systemd unit to follow.
        unit: Option<String> = None,
        /// File to follow.
        file: Option<PathBuf> = None,
        /// Postfix's `syslog_name`: what its log lines begin with.
        syslog_name: String = "postfix".to_owned(),
        /// Postfix's `queue_directory`: its queue is asked for there.
        queue_directory: PathBuf = PathBuf::from("/var/spool/postfix"),
        /// Messages in the relay's queue above which the throttle is set; 0: never.
        queue_limit: usize = 10_000,
        /// Directory of journal files, instead of this host's own.
        journal_directory: Option<PathBuf> = None,
    }
}

section! {
    /// `[bounces]`: returned mails, a second source of delivery tracking.
    Bounces {
        /// Envelope sender of our mails, without the token that goes behind its local part; absent: `mail.from`, and
        /// returned mails are not read.
        address: Option<String> = None,
        /// Maildir that the relay delivers mail to this address into.
        maildir: PathBuf = PathBuf::from("/var/lib/maple-router/bounces"),
        /// File holding the secrets that tokens are signed with, a line each: the first signs, all verify.
        secret_file: Option<PathBuf> = None,
        /// Retention of understood mails in `cur`.
        #[serde(with = "humantime_serde")] keep: Duration = s(7 * 86_400),
    }
}

section! {
    /// `[audit]`: what the audit log knows of recipients.
    Audit {
        /// File holding the key that digests of addresses are made with; absent: systemd's credential `audit-key`, else one that
        /// is made once in the state directory. Several hosts share one.
        key_file: Option<PathBuf> = None,
    }
}

section! {
    /// `[slack]`
    Slack {
        /// File holding the incoming-webhook URL.
        webhook_file: Option<PathBuf> = None,
        /// File holding the incoming-webhook URL of the security team, for what the review escalates; absent: systemd's
        /// credential `security-webhook`, else the other webhook.
        security_webhook_file: Option<PathBuf> = None,
        /// Channel label shown in the text.
        channel: String = String::new(),
        /// Address of the runbooks for a browser: messages link to the file and its section below it. Absent: they name the file
        /// on the host.
        runbooks_url: Option<String> = None,
        /// The dashboard that messages link to. Absent: none.
        dashboard_url: Option<String> = None,
        /// Wait for more of the same cause before the first message.
        #[serde(with = "humantime_serde")] group_wait: Duration = s(30),
        /// Repeat an unresolved group after.
        #[serde(with = "humantime_serde")] repeat_interval: Duration = s(4 * 3600),
        /// One request.
        #[serde(with = "humantime_serde")] timeout: Duration = s(10),
        /// Lease on an alert being sent.
        #[serde(with = "humantime_serde")] lease: Duration = s(120),
    }
}

section! {
    /// `[canary]`
    Canary {
        /// Interval of canary events; absent: none.
        #[serde(with = "humantime_serde")] interval: Option<Duration> = None,
        /// File holding the heartbeat URL.
        heartbeat_url_file: Option<PathBuf> = None,
    }
}

section! {
    /// `[http]`
    Http {
        /// Loopback address of `/metrics`, `/-/healthy`, `/-/ready`.
        listen: String = "127.0.0.1:9464".to_owned(),
    }
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Native journal fields; text where no journal socket exists.
    #[default]
    Journald,
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}

section! {
    /// `[log]`
    Log {
        /// Form of the log ([`LogFormat`]).
        format: LogFormat = LogFormat::Journald,
        /// `error`, `warn`, `info`, `debug`, `trace`, or an env-filter directive; `RUST_LOG` overrides.
        level: String = "info".to_owned(),
    }
}

section! {
    /// `[state]`
    State {
        /// Directory for what must outlive the process and cannot be in the database.
        dir: PathBuf = PathBuf::from("/var/lib/maple-router"),
    }
}
