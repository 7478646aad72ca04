//! The parts of the daemon and the verbs: each part of the configuration turned into the object it describes. Nothing here
//! connects to anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::secret::{Secret, SecretError};
use crate::config::{Config, Database, GradingMerge, GradingMode, Pooling, ScreeningMode, Send, SourceKind};
use crate::db::DbError;
use crate::db::contract::{Check, ContractOptions};
use crate::db::readiness::Readiness;
use crate::db::{Pool, PoolOptions};
use crate::forms::commands::Versions;
use crate::forms::policies::{PolicyDir, Signing};
use crate::forms::store::VersionStore;
use crate::gateway::happyfox::{Credentials, HelpDeskClient, HelpDeskError, HelpDeskSettings};
use crate::gateway::heartbeat::{Heartbeat, HeartbeatError};
use crate::gateway::judge::{Judge, JudgeSettings, JudgeSetupError, base_url};
use crate::gateway::objects::Objects;
use crate::gateway::objects::store::ObjectStore;
use crate::gateway::pubsub::{PubsubSettings, SettingsError};
use crate::gateway::signed_url::{SignError, UrlSigner};
use crate::gateway::slack::{Slack, SlackError};
use crate::gateway::transcriber::{FETCH_TIMEOUT, Transcriber, TranscriberSettings};
use crate::grading::core::band::Bands;
use crate::grading::core::merge::Merge;
use crate::grading::core::review::Thresholds;
use crate::grading::core::score::Score;
use crate::grading::link::ends::Ends;
use crate::grading::link::topics::topics;
use crate::grading::link::{Arrivals, Link};
use crate::grading::queue::QueueName;
use crate::grading::store::GradingStore;
use crate::grading::subject::{AttemptSubject, FailedSubject, MessageSubject};
use crate::grading::worker::Grading;
use crate::grey_queue::commands::{Commands, People, Subjects};
use crate::grey_queue::notices::Notices;
use crate::grey_queue::store::{GreyQueueStore, Notice};
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Retries;
use crate::kernel::jobs::{IDLE, Settings};
use crate::kernel::subject::Subject;
use crate::ops::alerting::{AlertIntervals, AlertSender, Letterhead};
use crate::ops::clock::SystemClock;
use crate::ops::gate::Gate;
use crate::ops::rng::Rng;
use crate::ops::set_aside::SetAside;
use crate::ops::state_dir::made_once;
use crate::outbox;
use crate::outbox::store::OutboxStore;
use crate::outbox::subject::DeadLetterSubject;
use crate::ports::{Clock, Failures};
use crate::queries::preview::Compositor;
use crate::retention::store::RetentionStore;
use crate::routing::follow::pending_notices::PendingNotices;
use crate::routing::pause::presence::Identity;
use crate::routing::store::Store;
use crate::routing::store::alerts::AlertStore;
use crate::routing::store::audit_key::AuditKey;
use crate::routing::store::delivery_notified::NotificationStore;
use crate::routing::store::pauses::PauseTable;
use crate::routing::store::view::View;
use crate::routing::subject::SubmissionSubject;
use crate::routing::upkeep::alerts::FailureAlerts;
use crate::routing::upkeep::late_infection::LateInfections;
use crate::routing::upkeep::pauses::PauseStore;
use crate::routing::worker::prepare::ticket::TicketRules;
use crate::routing::worker::prepare::{MailRules, Preparer};
use crate::screening::store::ScreeningStore;
use crate::screening::subject::{JobSubject, RunSubject};
use crate::screening::tier1::RulesetError;
use crate::screening::worker::{Judging, Rulesets};
use crate::uploads::digest::UploadsKey;
use crate::uploads::store::UploadStore;

/// Why a part cannot be made from this configuration.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A secret cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// `[database]` or `[readiness]`.
    #[error(transparent)]
    Database(#[from] DbError),
    /// `[pubsub]`.
    #[error(transparent)]
    Pubsub(#[from] SettingsError),
    /// `[signed_url]`.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// `[slack]`
    #[error("{0}; see slack.webhook_file")]
    Slack(#[from] SlackError),
    /// `[canary]`
    #[error("{0}; see canary.heartbeat_url_file")]
    Heartbeat(#[from] HeartbeatError),
    /// `[mail]`.
    #[error("{0}")]
    Mail(String),
    /// The reader of objects.
    #[error(
        "no HTTPS client for the object store can be made: {0}; install the host's CA certificates (ca-certificates)"
    )]
    Objects(String),
    /// `[audit]`.
    #[error("{0}")]
    Audit(String),
    /// `[happyfox]`.
    #[error(transparent)]
    HelpDesk(#[from] HelpDeskError),
    /// `[uploads]`: the key by which the backend makes sessions.
    #[error("[uploads] {0}")]
    UploadsKey(String),
    /// `[scan]`: no scanner is configured.
    #[error("[scan] socket names no scanner")]
    Scanner,
    /// `[screening.judge]`.
    #[error(transparent)]
    Judge(#[from] JudgeSetupError),
    /// `screening.rules_file`, or what it says.
    #[error("screening.rules_file {}: {why}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The rules of a form do not compile.
    #[error("[screening] {0}")]
    Ruleset(#[from] RulesetError),
    /// `[source]`: the database lacks the outbox that events are to come from.
    #[error("{0}")]
    Outbox(&'static str),
}

/// The pool of connections to PostgreSQL.
///
/// # Errors
/// [`PartError`].
pub fn pool(config: &Config, clock: Arc<dyn Clock>) -> Result<Pool, PartError> {
    Ok(Pool::new(&config.database, pool_options(config, clock)?)?)
}

/// The pool of a verb, which runs briefly: where the configuration does not say how sessions are pooled, it assumes a
/// transaction-pooling proxy, which is right in any case, and does not probe.
///
/// # Errors
/// [`PartError`].
pub fn verbs_pool(config: &Config) -> Result<Pool, PartError> {
    let pooling = config.database.said_pooling().or(Some(Pooling::Transaction));
    let database = Database { pooling, ..config.database.clone() };
    Ok(Pool::new(&database, pool_options(config, Arc::new(SystemClock))?)?)
}

/// A pool of another part of the daemon, with settings of its own and this name in `pg_stat_activity`. As with
/// [`verbs_pool`], nothing is probed.
///
/// # Errors
/// [`PartError`].
pub fn other_pool(
    config: &Config,
    settings: Database,
    name: &str,
    clock: Arc<dyn Clock>,
) -> Result<Pool, PartError> {
    let pooling = settings.said_pooling().or(Some(Pooling::Transaction));
    let mut options = pool_options(config, clock)?;
    name.clone_into(&mut options.application_name);
    Ok(Pool::new(&Database { pooling, ..settings }, options)?)
}

/// The connections of people's decisions, at the desk and by `review`: as the desk's own role where `[desk] database_url` names it,
/// else as the daemon's, which may not decide about screening.
///
/// # Errors
/// [`PartError`].
pub fn desk_pool(
    config: &Config,
    settings: Database,
    name: &str,
    clock: Arc<dyn Clock>,
) -> Result<Pool, PartError> {
    let Some((own, password)) = config.desk_database(settings.clone())? else {
        return other_pool(config, settings, name, clock);
    };
    let mut options = PoolOptions::new(clock);
    name.clone_into(&mut options.application_name);
    options.password = password.map(|password| password.expose().to_owned());
    let pooling = own.pooling.or(Some(Pooling::Transaction));
    Ok(Pool::new(&Database { pooling, ..own }, options)?)
}

fn pool_options(config: &Config, clock: Arc<dyn Clock>) -> Result<PoolOptions, PartError> {
    let mut options = PoolOptions::new(clock);
    options.password = config.database_password()?.map(|found| found.secret.expose().to_owned());
    Ok(options)
}

/// The listener to writes of the outbox, where notifications can come through. Must be called inside a tokio runtime.
///
/// # Errors
/// [`PartError`].
pub fn outbox_listener(
    config: &Config,
    pooling: Pooling,
    clock: Arc<dyn Clock>,
) -> Result<Listener, PartError> {
    if pooling == Pooling::Transaction && config.database.listen_url.is_none() {
        tracing::info!(
            "the outbox is only polled: a proxy that pools transactions carries no notifications; see database.listen_url"
        );
    }
    listener(config, pooling, outbox::CHANNEL, clock)
}

/// The listener to a channel, silent where a proxy carries no notifications. Must be called inside a tokio runtime.
///
/// # Errors
/// [`PartError`].
pub fn listener(
    config: &Config,
    pooling: Pooling,
    channel: &'static str,
    clock: Arc<dyn Clock>,
) -> Result<Listener, PartError> {
    if pooling == Pooling::Transaction && config.database.listen_url.is_none() {
        return Ok(Listener::silent());
    }
    Ok(Listener::start(channel, config.database.clone(), pool_options(config, clock)?))
}

/// The store of the outbox, whether one exists yet or not.
#[must_use]
pub fn outbox(config: &Config, pool: Pool) -> OutboxStore {
    OutboxStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

/// The bounds within which outbox rows are claimed: up to `most` at once.
#[must_use]
pub fn outbox_settings(config: &Config, most: usize) -> Settings {
    let outbox = &config.outbox;
    let retries = Retries {
        max_attempts: outbox.max_attempts,
        min: outbox.backoff_min,
        max: outbox.backoff_max,
        doublings: 1,
    };
    Settings { most, lease: outbox.lease, poll: config.source.poll, retries, idle: IDLE }
}

/// The contract's options, from the configuration and the rooms' `checks`.
#[must_use]
pub fn contract_options(config: &Config, checks: Vec<&'static Check>) -> ContractOptions {
    ContractOptions {
        checks,
        finalized_column: config.readiness.finalized_column.clone(),
        not_before: config.routing.not_before,
        needs_outbox: config.source.kind == SourceKind::Postgres,
        tickets: config.happyfox.is_on(),
        uploads: config.uploads.listen.is_some(),
        screening: config.screening.mode == ScreeningMode::On,
        grading: config.grading.mode == GradingMode::On,
        form_sections: form_sections(config),
    }
}

/// The sections of single forms, by their tables.
fn form_sections(config: &Config) -> Vec<(&'static str, String)> {
    let mails = config.mail.forms.keys().map(|form| ("mail.forms", form.clone()));
    let tickets = config.happyfox.forms.keys().map(|form| ("happyfox.forms", form.clone()));
    mails.chain(tickets).collect()
}

/// The name of this host, for audit log and claims.
#[must_use]
pub fn host() -> String {
    hostname::get().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown-host".to_owned())
}

/// The name of this worker: as configured, else `host/pid`.
#[must_use]
pub fn worker_name(config: &Config) -> String {
    config.routing.worker_name.clone().unwrap_or_else(|| format!("{}/{}", host(), std::process::id()))
}

/// What a submission's readiness is.
fn readiness(config: &Config) -> Result<Readiness, PartError> {
    let readiness = Readiness::new(config.readiness.finalized_column.as_deref())?;
    Ok(readiness
        .screened(config.screening.mode == ScreeningMode::On)
        .graded(config.grading.mode == GradingMode::On))
}

/// The store of the mission.
///
/// # Errors
/// [`PartError`].
pub fn store(config: &Config, pool: Pool) -> Result<Store, PartError> {
    let readiness = readiness(config)?;
    Ok(Store::new(pool, &readiness, config, &host(), &worker_name(config)))
}

/// File name, in the state directory, of the audit key made where none is configured.
const MADE_AUDIT_KEY: &str = "audit-key";

/// The submissions as subjects of a review; `store` as it writes elsewhere in this process.
///
/// # Errors
/// [`PartError`].
pub fn submission_subject(
    config: &Config,
    store: Store,
    pool: Pool,
    rng: Arc<Rng>,
) -> Result<SubmissionSubject, PartError> {
    let readiness = readiness(config)?;
    let view = View::new(pool, &readiness, config);
    Ok(SubmissionSubject { store, view, followed: config.relay_log.enabled, rng })
}

/// The dead letters as subjects of a review.
#[must_use]
pub fn dead_letter_subject(config: &Config, pool: Pool) -> DeadLetterSubject {
    DeadLetterSubject { store: outbox(config, pool) }
}

/// The key of the audit log's digests of addresses: as configured, else made once in the state directory.
///
/// # Errors
/// [`PartError`]. A caller that goes on without a key names recipients by their domains alone.
pub fn audit_key(config: &Config, rng: &Rng) -> Result<AuditKey, PartError> {
    if let Some(found) = config.audit_key()? {
        return AuditKey::new(found.secret.expose())
            .map_err(|why| PartError::Audit(format!("{}: {why}", found.path.display())));
    }
    let dir = &config.state.dir;
    let made = || format!("{}{}\n", rng.uuid().simple(), rng.uuid().simple());
    made_once(dir, MADE_AUDIT_KEY, made)
        .map_err(|error| error.to_string())
        .and_then(|text| AuditKey::new(&text))
        .map_err(|why| {
            let path = dir.join(MADE_AUDIT_KEY);
            PartError::Audit(format!(
                "no audit key is configured, and {} cannot be used: {why}",
                path.display()
            ))
        })
}

/// The audit key that is used on this host, and its path; nothing where it has not been made yet.
///
/// # Errors
/// [`PartError`].
pub fn audit_key_there(config: &Config) -> Result<Option<(AuditKey, PathBuf)>, PartError> {
    let refused = |path: &Path| {
        let path = path.display().to_string();
        move |why: String| PartError::Audit(format!("{path}: {why}"))
    };
    if let Some(found) = config.audit_key()? {
        let key = AuditKey::new(found.secret.expose()).map_err(refused(&found.path))?;
        return Ok(Some((key, found.path)));
    }
    let path = config.state.dir.join(MADE_AUDIT_KEY);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((AuditKey::new(&text).map_err(refused(&path))?, path))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(&path)(error.to_string())),
    }
}

/// The store of pauses.
#[must_use]
pub fn pause_store(config: &Config, pool: Pool) -> PauseStore {
    PauseStore::new(PauseTable::new(pool), &config.state.dir)
}

/// The identity under which this process announces itself among the daemons.
#[must_use]
pub fn identity(config: &Config, rng: &Rng) -> Identity {
    Identity { id: rng.uuid(), worker: worker_name(config), host: host() }
}

/// Makes alerts and posts them to Slack; `None` where no webhook is configured: then nobody is notified.
///
/// # Errors
/// [`PartError`].
pub fn alert_sender(
    config: &Config,
    pool: Pool,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
    set_aside: SetAside,
) -> Result<Option<AlertSender>, PartError> {
    let Some(webhook) = config.slack_webhook()? else { return Ok(None) };
    let readiness = readiness(config)?;
    let store = AlertStore::new(pool, &readiness, config);
    let failures: Vec<Arc<dyn Failures>> = vec![Arc::new(FailureAlerts { store, clock, rng, set_aside })];
    sender(config, &webhook.secret, failures).map(Some)
}

/// Posts to the security team's webhook; `None` where there is none: then it goes to the others' channel.
///
/// # Errors
/// [`PartError`].
pub fn security_sender(config: &Config) -> Result<Option<AlertSender>, PartError> {
    let Some(webhook) = config.security_webhook()? else { return Ok(None) };
    sender(config, &webhook.secret, Vec::new()).map(Some)
}

fn sender(
    config: &Config,
    webhook: &Secret,
    failures: Vec<Arc<dyn Failures>>,
) -> Result<AlertSender, PartError> {
    let slack = Slack::new(webhook, &config.slack.channel, config.slack.timeout)?;
    let head = Letterhead {
        host: host(),
        channel: config.slack.channel.clone(),
        runbooks: config.slack.runbooks_url.clone(),
        dashboard: config.slack.dashboard_url.clone(),
    };
    Ok(AlertSender { webhook: Arc::new(slack), failures, head })
}

/// The lost mails that nobody was notified of: a source of failures for [`alert_sender`], filled by delivery tracking.
#[must_use]
pub fn lost_mails(config: &Config, pool: Pool, clock: Arc<dyn Clock>, rng: Arc<Rng>) -> PendingNotices {
    PendingNotices::new(NotificationStore::new(pool), config.slack.lease, clock, rng)
}

/// Attachments that proved infected after sending: a source of failures for [`alert_sender`], filled by its own looks.
///
/// # Errors
/// [`PartError`].
pub fn late_infections(
    config: &Config,
    pool: Pool,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
    set_aside: SetAside,
) -> Result<Arc<LateInfections>, PartError> {
    let readiness = readiness(config)?;
    let store = AlertStore::new(pool, &readiness, config);
    Ok(Arc::new(LateInfections::new(store, config.signed_url.ttl, clock, rng, set_aside)))
}

/// The runs of screening, whether there are any or not; `pool` is a role's that may look at them.
#[must_use]
pub fn screening_store(config: &Config, pool: Pool) -> ScreeningStore {
    ScreeningStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

/// The judge of screening; `None` where none is configured: then a person decides. Connects to nothing.
///
/// # Errors
/// [`PartError`].
pub fn judging(config: &Config, clock: Arc<dyn Clock>) -> Result<Option<Judging>, PartError> {
    let judge = &config.screening.judge;
    let Some(address) = judge.base_url.as_deref().filter(|address| !address.trim().is_empty()) else {
        return Ok(None);
    };
    let section = "screening.judge";
    let base_url = base_url(address).map_err(|rule| JudgeSetupError::Address { section, rule })?;
    let settings = JudgeSettings { section, base_url, model: judge.model.clone(), timeout: judge.timeout };
    let key = config.judge_key()?.map(|found| found.secret);
    Ok(Some(Judging::new(Judge::new(&settings, key, clock)?, judge)))
}

/// The attempts at grading, whether there are any or not; `pool` is a role's that may look at them.
#[must_use]
pub fn grading_store(config: &Config, pool: Pool) -> GradingStore {
    GradingStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

/// A side's link; `None` where the database's queues are enough.
///
/// # Errors
/// [`PartError`]: a name of `[grading.pubsub]` or `[pubsub]` is missing, or cannot be one.
pub fn grading_link(
    config: &Config,
    pool: Pool,
    sends: QueueName,
    (clock, rng): (Arc<dyn Clock>, Arc<Rng>),
) -> Result<Option<Link>, PartError> {
    let topics = topics(config)?;
    Ok(topics.map(|topics| Link {
        ends: Ends::new(pool, sends),
        publishing: topics.of(sends).clone(),
        receiving: topics.of(sends.other()).clone(),
        arrivals: Arrivals::default(),
        clock,
        rng,
    }))
}

/// Thresholds of the bands.
#[must_use]
pub fn bands(config: &Config) -> Bands {
    let bands = &config.grading.bands;
    let of = |score: f64, or: Score| Score::of_tenth(score).unwrap_or(or);
    let usual = Bands::default();
    Bands {
        c1: of(bands.c1, usual.c1),
        b2: of(bands.b2, usual.b2),
        b1: of(bands.b1, usual.b1),
        a2: of(bands.a2, usual.a2),
    }
}

/// What a final grade is made of, where a person has reviewed it.
#[must_use]
pub const fn merge(config: &Config) -> Merge {
    match config.grading.merge {
        GradingMerge::Hybrid => Merge::Weighted,
        GradingMerge::Human => Merge::Human,
    }
}

/// Whoever grades, and whoever transcribes. Connects to nothing.
///
/// # Errors
/// [`PartError`].
pub fn graders(config: &Config, clock: Arc<dyn Clock>) -> Result<Grading, PartError> {
    let (room, judge, stt) = (&config.grading, &config.grading.judge, &config.grading.stt);
    let named = |address: &Option<String>| address.clone().filter(|address| !address.trim().is_empty());
    let at = |section: &'static str, address: &str| {
        base_url(address).map_err(|rule| JudgeSetupError::Address { section, rule })
    };
    let mut judges = Vec::new();
    if let Some(address) = named(&judge.base_url) {
        let key = config.grader_key()?.map(|found| found.secret);
        for model in &judge.models {
            let settings = JudgeSettings {
                section: "grading.judge",
                base_url: at("grading.judge", &address)?,
                model: model.clone(),
                timeout: judge.timeout,
            };
            judges.push(Judge::new(&settings, key.clone(), Arc::clone(&clock))?);
        }
    }
    let transcriber = match named(&stt.base_url) {
        None => None,
        Some(address) => {
            let key = config.stt_key()?.map(|found| found.secret);
            let api = JudgeSettings {
                section: "grading.stt",
                base_url: at("grading.stt", &address)?,
                model: stt.model.clone(),
                timeout: stt.timeout,
            };
            let settings =
                TranscriberSettings { api, hosts: stt.audio_hosts.clone(), fetch_timeout: FETCH_TIMEOUT };
            Some(Transcriber::new(&settings, key, clock)?)
        }
    };
    let thresholds = &room.thresholds;
    Ok(Grading {
        judges,
        transcriber,
        models: judge.models.join(","),
        samples: u32::from(room.samples),
        tokens_per_day: judge.tokens_per_day,
        may_send: judge.send == Send::Full,
        allow_scripted: judge.allow_scripted,
        bands: bands(config),
        thresholds: Thresholds {
            auto: thresholds.auto,
            audit: thresholds.audit,
            medium: thresholds.medium,
            high: thresholds.high,
        },
        spot_check: room.spot_check,
        slots: judge.slots,
        pause: judge.pause,
        gate: Gate::new(),
        away: tokio::sync::Notify::new(),
        faults: std::sync::Mutex::default(),
    })
}

/// The rules of screening, compiled, with the operator's own ones of `screening.rules_file`.
///
/// # Errors
/// [`PartError`]: the file cannot be read, or a rule does not compile.
pub fn rulesets(config: &Config) -> Result<Rulesets, PartError> {
    let Some(path) = &config.screening.rules_file else {
        return Ok(Rulesets::new(&config.screening, "")?);
    };
    let refused = |why: String| PartError::Rules { path: path.clone(), why };
    let extra = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    Rulesets::new(&config.screening, &extra).map_err(|error| refused(error.to_string()))
}

/// The store of the review's entries, whether there are any or not.
#[must_use]
pub fn review_store(config: &Config, pool: Pool) -> GreyQueueStore {
    GreyQueueStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

/// What commands of the review need: the entries, the rooms that own subjects, and `people`. `store` writes submissions.
///
/// # Errors
/// [`PartError`].
pub fn review(
    config: &Config,
    pool: Pool,
    store: Store,
    people: Arc<dyn People>,
    rng: Arc<Rng>,
) -> Result<Commands, PartError> {
    let submissions: Arc<dyn Subject> = Arc::new(submission_subject(config, store, pool.clone(), rng)?);
    let dead_letters: Arc<dyn Subject> = Arc::new(dead_letter_subject(config, pool.clone()));
    let screened = screening_store(config, pool.clone());
    let four_eyes = config.screening.four_eyes;
    let runs: Arc<dyn Subject> = Arc::new(RunSubject { store: screened.clone(), four_eyes });
    let jobs: Arc<dyn Subject> = Arc::new(JobSubject { store: screened });
    let graded = grading_store(config, pool.clone());
    let attempts: Arc<dyn Subject> = Arc::new(AttemptSubject { store: graded.clone() });
    let ungraded: Arc<dyn Subject> = Arc::new(FailedSubject { store: graded });
    let messages: Arc<dyn Subject> = Arc::new(MessageSubject);
    Ok(Commands {
        store: review_store(config, pool),
        subjects: Subjects::new([submissions, dead_letters, runs, jobs, attempts, ungraded, messages]),
        people,
        takeover_after: config.grey_queue.takeover_after,
        clock: Arc::new(SystemClock),
    })
}

/// What people are told of the review's entries: sources of failures for [`alert_sender`].
#[must_use]
pub fn review_notices(config: &Config, pool: &Pool, rng: &Arc<Rng>) -> Vec<Notices> {
    let store = review_store(config, pool.clone());
    let notices = |notice: &Notice| Notices {
        store: store.clone(),
        notice: *notice,
        warn: config.grey_queue.expire_warn,
        lease: config.slack.lease,
        origin: config.desk.listen.as_ref().map(|_| config.desk.origin.clone()),
        rng: Arc::clone(rng),
    };
    Notice::ALL.iter().map(notices).collect()
}

/// The client that pings the heartbeat's URL while all is well; `None` where no URL is configured.
///
/// # Errors
/// [`PartError`].
pub fn heartbeat(config: &Config) -> Result<Option<Heartbeat>, PartError> {
    let Some(url) = config.heartbeat_url()? else { return Ok(None) };
    Ok(Some(Heartbeat::new(&url.secret)?))
}

/// The intervals between alerts to people.
#[must_use]
pub fn alert_intervals(config: &Config) -> AlertIntervals {
    AlertIntervals { group_wait: config.slack.group_wait, repeat_interval: config.slack.repeat_interval }
}

/// The signer of links.
///
/// # Errors
/// [`PartError`].
pub fn signer(config: &Config) -> Result<UrlSigner, PartError> {
    Ok(UrlSigner::new(&config.signed_url, config.surroundings.metadata_host.as_deref())?)
}

/// The maker of mails and tickets.
///
/// # Errors
/// [`PartError`].
pub fn preparer(config: &Config, store: Store, rng: Arc<Rng>) -> Result<Preparer, PartError> {
    let rules = MailRules::new(config).map_err(PartError::Mail)?;
    let settings = config.happyfox.is_on().then(|| config.happyfox.clone());
    let tickets = settings.map(|settings| TicketRules { settings, gate: Gate::new() });
    let signer = Arc::new(signer(config)?.sharing(Arc::new(SystemClock)));
    let objects = Arc::new(Objects::new(&config.state.dir).map_err(PartError::Objects)?);
    Ok(Preparer { rules, store, signer, objects, rng, tickets })
}

/// The client of the help desk, where there is one.
///
/// # Errors
/// [`PartError`].
pub fn help_desk(config: &Config, clock: Arc<dyn Clock>) -> Result<Option<Arc<HelpDeskClient>>, PartError> {
    if !config.happyfox.is_on() {
        return Ok(None);
    }
    let missing = || PartError::Mail("[happyfox] needs its api_key_file and auth_code_file".to_owned());
    let credentials = Credentials {
        api_key: config.happyfox_api_key()?.ok_or_else(missing)?.secret,
        auth_code: config.happyfox_auth_code()?.ok_or_else(missing)?.secret,
    };
    let settings = HelpDeskSettings::new(&config.happyfox)?;
    Ok(Some(Arc::new(HelpDeskClient::new(&settings, credentials, clock)?)))
}

/// Uploads over `pool`; transitions by workers and timers are recorded as this host's.
#[must_use]
pub fn upload_store(config: &Config, pool: Pool) -> UploadStore {
    UploadStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

/// The object store, as the daemon's account.
///
/// # Errors
/// [`PartError`].
pub fn object_store(config: &Config) -> Result<ObjectStore, PartError> {
    let host = config.surroundings.metadata_host.as_deref();
    Ok(ObjectStore::new(&config.signed_url, host)?)
}

/// The key by which the backend makes upload sessions.
///
/// # Errors
/// [`PartError`]: there is none, or it could be guessed.
pub fn uploads_key(config: &Config) -> Result<UploadsKey, PartError> {
    let missing = || {
        let what = "the backend's key is missing: name uploads.key_file, or pass the credential uploads-key";
        PartError::UploadsKey(what.to_owned())
    };
    let secret = config.uploads_key()?.ok_or_else(missing)?;
    UploadsKey::new(secret.secret.expose()).map_err(PartError::UploadsKey)
}

/// Names and endpoint of Pub/Sub.
///
/// # Errors
/// [`PartError`].
pub fn pubsub(config: &Config) -> Result<PubsubSettings, PartError> {
    Ok(PubsubSettings::from_config(&config.pubsub)?)
}

/// Versions of forms over the publisher's pool, or the daemon's for a desk's admin.
///
/// # Errors
/// [`PartError`]: the sender of mails is none.
pub fn versions(config: &Config, pool: Pool) -> Result<Versions, PartError> {
    let composer = Compositor::new(config).map_err(PartError::Mail)?;
    Ok(Versions {
        store: version_store(config, pool),
        composer: Arc::new(composer),
        policies: Arc::new(PolicyDir::new(config.forms.policy_dir.clone())),
        signing: Signing::new(&config.forms),
        allowed_domains: config.mail.allowed_destination_domains.clone(),
    })
}

/// The statements of retention.
#[must_use]
pub fn retention_store(config: &Config, pool: Pool) -> RetentionStore {
    RetentionStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

/// The object store, as the collector's account.
///
/// # Errors
/// [`PartError`].
pub fn collector_objects(config: &Config) -> Result<ObjectStore, PartError> {
    let host = config.surroundings.metadata_host.as_deref();
    Ok(ObjectStore::new(&crate::retention::check::account(config), host)?)
}

/// The statements of form versions.
#[must_use]
pub fn version_store(config: &Config, pool: Pool) -> VersionStore {
    VersionStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_key_is_the_configured_one_else_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = Config::default();
        config.surroundings.credentials_directory = Some(dir.path().join("none"));
        config.state.dir = dir.path().join("state");
        assert!(audit_key_there(&config).expect("asked").is_none(), "asking makes none");
        let name =
            |seed: u64| audit_key(&config, &Rng::seeded(seed)).expect("a key").name().map(str::to_owned);
        let made = name(1);
        assert!(made.is_some());
        assert_eq!(name(2), made, "made once");
        let (there, path) = audit_key_there(&config).expect("asked").expect("there");
        assert_eq!((there.name(), path), (made.as_deref(), config.state.dir.join(MADE_AUDIT_KEY)));
        let shared = dir.path().join("shared");
        std::fs::write(&shared, "0123456789abcdef0123456789abcdef\n").expect("written");
        config.audit.key_file = Some(shared.clone());
        let configured = audit_key(&config, &Rng::seeded(3)).expect("a key");
        assert_ne!(configured.name().map(str::to_owned), made);
        std::fs::write(&shared, "short\n").expect("written");
        let shown = audit_key(&config, &Rng::seeded(4)).expect_err("it could be guessed").to_string();
        assert!(shown.contains("shared") && !shown.contains("short"), "{shown}");
    }
}
