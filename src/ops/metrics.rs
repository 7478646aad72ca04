//! Every metric of the interfaces page, with its unit, its closed labels and a typed function to count it.
//!
//! [`start`] makes every series exist at 0, so that a rate over the first minute is right and an alert on a missing
//! series never fires by mistake. Counting never fails and never blocks. Nothing is kept over a restart.

mod labels;

use std::sync::LazyLock;
use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

pub use self::labels::{
    ActionType, AlertResult, CanaryResult, DeadLetterKind, DeliveryStatus, Dependency, HeartbeatResult,
    LogFlaw, PauseScope, Resolution, ReturnedResult, SubmissionOutcome, SweepResult,
};
use super::incident::IncidentKey;
use super::tally;
use crate::kernel::{Card, Word};
use crate::ports::Outcome;

/// Version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of this build, where `MAPLE_ROUTER_COMMIT` was set while compiling, as `make release` does. An argument, and not
/// looked up by a build script: so it costs no development build anything, and needs no repository.
pub const COMMIT: &str = match option_env!("MAPLE_ROUTER_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Version and commit, as `--version` tells them.
#[must_use]
pub fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| format!("{VERSION} (commit {COMMIT})"));
    &BUILD
}

/// Labels of `action_attempts_total{outcome}`; [`Outcome::label`] yields no other.
const ACTION_OUTCOMES: [&str; 5] = ["accepted", "refused", "deferred", "unknown", "not_implemented"];

macro_rules! names {
    ($($constant:ident = $name:literal),* $(,)?) => { $(const $constant: &str = concat!("maple_router_", $name);)* };
}
names! {
    SUBMISSIONS = "submissions_total",
    ACTION_ATTEMPTS = "action_attempts_total",
    REDELIVERED = "redelivered_total",
    STALE_SETTLE = "stale_settle_total",
    IN_DOUBT = "in_doubt_total",
    RESCUED = "rescued_total",
    ORPHANS = "orphans_total",
    DEAD_LETTERS = "dead_letters_total",
    ALERTS = "alerts_total",
    DELIVERY_STATUS = "delivery_status_total",
    RELAY_LOG_FLAWS = "relay_log_flaws_total",
    RELAY_QUEUE = "relay_queue_messages",
    RELAY_SLOWED = "relay_slowed",
    RELAY_UNDELIVERED = "relay_undelivered",
    RELAY_UNDELIVERED_OLDEST = "relay_undelivered_oldest_seconds",
    RETURNED_MAILS = "returned_mails_total",
    ROUTING_LAG = "routing_lag_seconds",
    ACTION_DURATION = "action_duration_seconds",
    DB_TRANSACTION = "db_transaction_seconds",
    SIGNED_URL = "signed_url_seconds",
    QUEUE_DEPTH = "queue_depth",
    OLDEST_AGE = "oldest_age_seconds",
    IN_FLIGHT = "in_flight",
    WAITING = "waiting",
    PAUSED = "paused",
    BREAKER_OPEN = "breaker_open",
    LAST_SUCCESS = "last_success_timestamp_seconds",
    RELOAD_OK = "config_last_reload_successful",
    BUILD_INFO = "build_info",
    READY = "ready",
    STARTED = "start_timestamp_seconds",
    INCIDENT_OPEN = "incident_open",
    UNALERTED = "unalerted",
    INFECTED_AFTER_ROUTING = "infected_after_routing",
    SWEEPS = "sweeps_total",
    CANARIES = "canaries_total",
    CANARY_INTERVAL = "canary_interval_seconds",
    HEARTBEATS = "heartbeats_total",
    ROWS_SET_ASIDE = "rows_set_aside",
}

/// Readiness to finish: from a blink to the hours an outage lasts.
const LAG_BUCKETS: [f64; 15] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0, 21600.0];
/// One SMTP transaction, up to `delivery_deadline`.
const ACTION_BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 30.0, 120.0, 180.0];
/// One transaction, up to `statement_timeout`.
const DB_BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 5.0, 15.0];
/// One signed URL: offline under a millisecond, IAM some tens of them.
const SIGN_BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0];

/// Makes a recorder with our buckets; tests use it locally, [`install`] for the process.
pub fn recorder() -> Result<PrometheusRecorder, BuildError> {
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(ROUTING_LAG.to_owned()), &LAG_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(ACTION_DURATION.to_owned()), &ACTION_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(DB_TRANSACTION.to_owned()), &DB_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(SIGNED_URL.to_owned()), &SIGN_BUCKETS)?
        .build_recorder())
}

/// Metrics that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Our buckets are wrong.
    #[error("metrics cannot be set up: {0}")]
    Build(#[from] BuildError),
    /// Something else in this process counts already.
    #[error("metrics are set up already in this process")]
    Twice,
}

/// Sets metrics up for this process, once, and makes every series exist.
///
/// What the rooms count they bring themselves, on their cards.
pub fn install(rooms: &[&Card]) -> Result<PrometheusHandle, MetricsError> {
    let recorder = recorder()?;
    let handle = recorder.handle();
    ::metrics::set_global_recorder(recorder).map_err(|_| MetricsError::Twice)?;
    start(rooms);
    Ok(handle)
}

/// Describes every metric and makes every series exist; the names of the rooms' transactions are labels of
/// `db_transaction_seconds`.
pub fn start(rooms: &[&Card]) {
    describe();
    rooms.iter().for_each(|room| (room.metrics)());
    for outcome in SubmissionOutcome::ALL {
        counter!(SUBMISSIONS, "outcome" => outcome.label()).increment(0);
    }
    for kind in ActionType::ALL {
        for outcome in ACTION_OUTCOMES {
            counter!(ACTION_ATTEMPTS, "type" => kind.label(), "outcome" => outcome).increment(0);
        }
        drop(histogram!(ACTION_DURATION, "type" => kind.label()));
    }
    for name in [REDELIVERED, STALE_SETTLE, RESCUED, ORPHANS] {
        counter!(name).increment(0);
    }
    for resolution in Resolution::ALL {
        counter!(IN_DOUBT, "resolution" => resolution.label()).increment(0);
    }
    for kind in DeadLetterKind::ALL {
        counter!(DEAD_LETTERS, "kind" => kind.label()).increment(0);
    }
    for result in AlertResult::ALL {
        counter!(ALERTS, "result" => result.label()).increment(0);
    }
    for status in DeliveryStatus::ALL {
        counter!(DELIVERY_STATUS, "status" => status.label()).increment(0);
    }
    for flaw in LogFlaw::ALL {
        counter!(RELAY_LOG_FLAWS, "flaw" => flaw.label()).increment(0);
    }
    for result in ReturnedResult::ALL {
        counter!(RETURNED_MAILS, "result" => result.label()).increment(0);
    }
    for name in [ROUTING_LAG, SIGNED_URL] {
        drop(histogram!(name));
    }
    for name in rooms.iter().flat_map(|room| room.transactions) {
        drop(histogram!(DB_TRANSACTION, "name" => *name));
    }
    for scope in PauseScope::ALL {
        paused(*scope, 0);
    }
    for dependency in Dependency::ALL {
        breaker_open(*dependency, false);
    }
    for result in SweepResult::ALL {
        counter!(SWEEPS, "result" => result.label()).increment(0);
    }
    for result in CanaryResult::ALL {
        counter!(CANARIES, "result" => result.label()).increment(0);
    }
    for result in HeartbeatResult::ALL {
        counter!(HEARTBEATS, "result" => result.label()).increment(0);
    }
    rows_set_aside(0);
    relay_queue(0);
    relay_slowed(false);
    relay_undelivered(0, Duration::ZERO);
    for key in IncidentKey::all() {
        incident_open(key, false);
    }
    ready(false);
    unalerted(0);
    infected_after_routing(0);
    canary_interval(None);
    gauge!(STARTED).set(0.0);
    in_flight(0);
    waiting(0);
    gauge!(LAST_SUCCESS).set(0.0);
    config_reloaded(true);
    gauge!(BUILD_INFO, "version" => VERSION, "commit" => COMMIT).set(1.0);
}

fn describe() {
    describe_counter!(SUBMISSIONS, Unit::Count, "Submissions whose work ended, by how it ended");
    describe_counter!(ACTION_ATTEMPTS, Unit::Count, "Deliveries attempted, by action type and outcome");
    describe_counter!(REDELIVERED, Unit::Count, "Events that came more than once");
    describe_counter!(STALE_SETTLE, Unit::Count, "Transitions that found their claim token outdated");
    describe_counter!(IN_DOUBT, Unit::Count, "Deliveries in doubt that were resolved, by how");
    describe_counter!(RESCUED, Unit::Count, "Stuck claims the sweep reset");
    describe_counter!(ORPHANS, Unit::Count, "Ready submissions the sweep found without an event");
    describe_counter!(DEAD_LETTERS, Unit::Count, "Dead letters, by kind");
    describe_counter!(ALERTS, Unit::Count, "Alerts, by what became of them");
    describe_counter!(DELIVERY_STATUS, Unit::Count, "What the relay's log says of accepted mails");
    describe_counter!(
        RELAY_LOG_FLAWS,
        Unit::Count,
        "What keeps the relay's log from proving something: lines missing, lines suppressed, mails that are not proved to be ours"
    );
    describe_counter!(RETURNED_MAILS, Unit::Count, "Mails that came back, by what they were");
    describe_histogram!(
        ROUTING_LAG,
        Unit::Seconds,
        "From a submission's readiness, as the database knows it or else its event, to routed or failed"
    );
    describe_histogram!(ACTION_DURATION, Unit::Seconds, "One send of one action");
    describe_histogram!(DB_TRANSACTION, Unit::Seconds, "One named database transaction");
    describe_histogram!(SIGNED_URL, Unit::Seconds, "Making one signed URL");
    describe_gauge!(QUEUE_DEPTH, Unit::Count, "Submissions by status, at the last sweep");
    describe_gauge!(OLDEST_AGE, Unit::Seconds, "Age of the oldest submission by status, at the last sweep");
    describe_gauge!(IN_FLIGHT, Unit::Count, "Submissions claimed by this process");
    describe_gauge!(WAITING, Unit::Count, "Submissions in hand of this process that wait for their claim");
    describe_gauge!(PAUSED, Unit::Count, "Pauses in force, by scope");
    describe_gauge!(BREAKER_OPEN, Unit::Count, "1 while a dependency is treated as down");
    describe_gauge!(
        LAST_SUCCESS,
        Unit::Seconds,
        "Unix time of the last submission routed; 0 before the first"
    );
    describe_gauge!(RELOAD_OK, Unit::Count, "1 when the configuration in use is what the last reload read");
    describe_gauge!(BUILD_INFO, Unit::Count, "1; version and commit are in the labels");
    describe_gauge!(READY, Unit::Count, "1 while /-/ready says so");
    describe_gauge!(STARTED, Unit::Seconds, "Unix time at which this process started");
    describe_gauge!(INCIDENT_OPEN, Unit::Count, "1 while this is wrong with us or with what we depend on");
    describe_gauge!(UNALERTED, Unit::Count, "Failures that wait to be told of, at the last look");
    describe_gauge!(
        INFECTED_AFTER_ROUTING,
        Unit::Count,
        "Routed submissions with an attachment that was found infected afterwards, at the last look"
    );
    describe_counter!(SWEEPS, Unit::Count, "Passes of the sweep, by how they ended");
    describe_counter!(CANARIES, Unit::Count, "Canary events, by what became of them");
    describe_gauge!(
        CANARY_INTERVAL,
        Unit::Seconds,
        "Configured interval of canary events; 0: there are none"
    );
    describe_counter!(HEARTBEATS, Unit::Count, "Calls of the heartbeat URL, by what became of them");
    describe_gauge!(
        ROWS_SET_ASIDE,
        Unit::Count,
        "Submissions that refuse a write which all others take: left for a while, and tried again"
    );
    describe_gauge!(
        RELAY_QUEUE,
        Unit::Count,
        "Messages in the relay's queue at the last look, counted up to twice relay_log.queue_limit; 0 where nobody looks"
    );
    describe_gauge!(
        RELAY_SLOWED,
        Unit::Count,
        "1 while mails are sent slowly, because the relay's queue is too long"
    );
    describe_gauge!(
        RELAY_UNDELIVERED,
        Unit::Count,
        "Mails the relay accepted within a week and nothing final is known of; 0 where its log is not followed"
    );
    describe_gauge!(
        RELAY_UNDELIVERED_OLDEST,
        Unit::Seconds,
        "Age of the oldest of them, since its acceptance"
    );
}

/// Work on a submission ended.
pub fn submission(outcome: SubmissionOutcome) {
    tally::submission(outcome);
    counter!(SUBMISSIONS, "outcome" => outcome.label()).increment(1);
}

/// One delivery was attempted.
pub fn action_attempt(kind: impl Into<ActionType>, outcome: &Outcome) {
    counter!(ACTION_ATTEMPTS, "type" => kind.into().label(), "outcome" => outcome.label()).increment(1);
}

/// An event came again.
pub fn redelivered() {
    counter!(REDELIVERED).increment(1);
}

/// A claim token was outdated.
pub fn stale_settle() {
    counter!(STALE_SETTLE).increment(1);
}

/// Deliveries in doubt were resolved.
pub fn in_doubt(resolution: Resolution, deliveries: u64) {
    counter!(IN_DOUBT, "resolution" => resolution.label()).increment(deliveries);
}

/// The sweep reset stuck claims.
pub fn rescued(submissions: u64) {
    counter!(RESCUED).increment(submissions);
}

/// The sweep found orphans.
pub fn orphans(submissions: u64) {
    counter!(ORPHANS).increment(submissions);
}

/// A dead letter was dealt with.
pub fn dead_letter(kind: DeadLetterKind) {
    counter!(DEAD_LETTERS, "kind" => kind.label()).increment(1);
}

/// This became of so many alerts.
pub fn alerts(result: AlertResult, alerts: usize) {
    counter!(ALERTS, "result" => result.label()).increment(u64::try_from(alerts).unwrap_or(u64::MAX));
}

/// The relay's log told of an accepted mail.
pub fn delivery_status(status: DeliveryStatus) {
    counter!(DELIVERY_STATUS, "status" => status.label()).increment(1);
}

/// The relay's log did not prove what it could have.
pub fn relay_log_flaw(flaw: LogFlaw) {
    counter!(RELAY_LOG_FLAWS, "flaw" => flaw.label()).increment(1);
}

/// A mail came back, and was treated.
pub fn returned_mail(result: ReturnedResult) {
    counter!(RETURNED_MAILS, "result" => result.label()).increment(1);
}

/// A submission was finished this long after it was ready.
pub fn routing_lag(lag: Duration) {
    histogram!(ROUTING_LAG).record(lag);
}

/// A send took this long.
pub fn action_duration(kind: impl Into<ActionType>, took: Duration) {
    histogram!(ACTION_DURATION, "type" => kind.into().label()).record(took);
}

/// A named transaction took this long, retries included.
pub fn db_transaction(name: &'static str, took: Duration) {
    histogram!(DB_TRANSACTION, "name" => name).record(took);
}

/// A signed URL took this long.
pub fn signed_url(took: Duration) {
    histogram!(SIGNED_URL).record(took);
}

/// What the last sweep saw of a status.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
pub fn queue(status: impl Word, depth: u64, oldest: Duration) {
    gauge!(QUEUE_DEPTH, "status" => status.label()).set(depth as f64);
    gauge!(OLDEST_AGE, "status" => status.label()).set(oldest);
}

/// How many submissions this process holds.
#[expect(clippy::cast_precision_loss, reason = "bounded by max_in_flight")]
pub fn in_flight(submissions: usize) {
    tally::in_flight(submissions);
    gauge!(IN_FLIGHT).set(submissions as f64);
}

/// How many submissions in hand wait for their claim.
#[expect(clippy::cast_precision_loss, reason = "bounded by max_outstanding")]
pub fn waiting(submissions: usize) {
    tally::waiting(submissions);
    gauge!(WAITING).set(submissions as f64);
}

/// How many pauses of a scope are in force.
#[expect(clippy::cast_precision_loss, reason = "operators set a handful of pauses")]
pub fn paused(scope: PauseScope, pauses: usize) {
    gauge!(PAUSED, "scope" => scope.label()).set(pauses as f64);
}

/// A breaker opened or closed.
pub fn breaker_open(dependency: Dependency, open: bool) {
    gauge!(BREAKER_OPEN, "dependency" => dependency.label()).set(f64::from(u8::from(open)));
}

/// A submission was routed at this time (the database's).
#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
pub fn last_success(at: jiff::Timestamp) {
    gauge!(LAST_SUCCESS).set(at.as_second() as f64);
}

/// A reload ended.
pub fn config_reloaded(successfully: bool) {
    gauge!(RELOAD_OK).set(f64::from(u8::from(successfully)));
}

/// Whether `/-/ready` says so.
pub fn ready(ready: bool) {
    gauge!(READY).set(f64::from(u8::from(ready)));
}

/// The process started at this time (the machine's).
pub fn started(since_epoch: Duration) {
    gauge!(STARTED).set(since_epoch);
}

/// An incident opened or closed.
pub fn incident_open(key: IncidentKey, open: bool) {
    gauge!(INCIDENT_OPEN, "incident" => key.label()).set(f64::from(u8::from(open)));
}

/// So many failures wait to be told of.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
pub fn unalerted(failures: u64) {
    gauge!(UNALERTED).set(failures as f64);
}

/// So many routed submissions have an attachment that was found infected afterwards.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
pub fn infected_after_routing(submissions: usize) {
    gauge!(INFECTED_AFTER_ROUTING).set(submissions as f64);
}

/// A pass of the sweep ended.
pub fn sweep(result: SweepResult) {
    counter!(SWEEPS, "result" => result.label()).increment(1);
}

/// This became of a canary event.
pub fn canary(result: CanaryResult) {
    counter!(CANARIES, "result" => result.label()).increment(1);
}

/// How often canary events are published; `None`: never.
pub fn canary_interval(interval: Option<Duration>) {
    gauge!(CANARY_INTERVAL).set(interval.unwrap_or_default());
}

/// This became of a heartbeat.
pub fn heartbeat(result: HeartbeatResult) {
    counter!(HEARTBEATS, "result" => result.label()).increment(1);
}

/// So many submissions are set aside, because they refuse a write.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
pub fn rows_set_aside(rows: usize) {
    gauge!(ROWS_SET_ASIDE).set(rows as f64);
}

/// So many messages were in the relay's queue at the last look.
#[expect(clippy::cast_precision_loss, reason = "counts of messages are far below 2^52")]
pub fn relay_queue(messages: usize) {
    gauge!(RELAY_QUEUE).set(messages as f64);
}

/// Whether mails are sent slowly, because the relay's queue is too long.
pub fn relay_slowed(slowed: bool) {
    gauge!(RELAY_SLOWED).set(f64::from(u8::from(slowed)));
}

/// So many mails were accepted by the relay and nothing final is known of them, the oldest of them for so long.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
pub fn relay_undelivered(mails: u64, oldest: Duration) {
    gauge!(RELAY_UNDELIVERED).set(mails as f64);
    gauge!(RELAY_UNDELIVERED_OLDEST).set(oldest);
}
