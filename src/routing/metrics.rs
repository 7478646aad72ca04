//! Routing's metrics, with the closed sets of their label values (interfaces, "Metrics").

use std::time::Duration;

use super::table::Status;
use crate::kernel::metric::{Counter, Gauge, Histogram, Labels as _};
use crate::kernel::words;
use crate::ops::tally;
use crate::ports::{Outcome, RelayStatus};
use crate::routing::submission::plan::ActionType;

words! {
    /// End of the work on a submission.
    SubmissionOutcome {
        /// Every delivery is done.
        Routed = "routed",
        /// Ended with a failure.
        Failed = "failed",
        /// Given back for another attempt.
        Released = "released",
    }
}
words! {
    /// Resolution of a delivery in doubt (protocol, "Crash, doubt, stop, replay").
    Resolution {
        /// The relay's log, or a returned mail, proves the acceptance.
        Found = "found",
        /// The relay's log proves the contrary.
        Disproved = "disproved",
        /// Neither; sent again.
        NeitherResent = "neither_resent",
        /// Neither; put on hold.
        NeitherOnHold = "neither_held",
    }
}
words! {
    /// Flaw of the relay's log as a proof.
    LogFlaw {
        /// Lines cannot be read any more.
        Gap = "gap",
        /// Lines were suppressed by a rate limit.
        Suppressed = "suppressed",
        /// A mail under a Message-ID of ours that is not known to have come from us.
        Unproved = "unproved",
    }
}
words! {
    /// Kind of a returned mail.
    ReturnedResult {
        /// A delivery status notification about a mail of ours.
        Reported = "reported",
        /// An absence notice, or another automatic answer.
        AutoReply = "auto_reply",
        /// A receipt: the mail was read.
        Receipt = "receipt",
        /// Not proved to concern a mail of ours.
        Foreign = "foreign",
        /// Concerns a mail of ours, and was not understood.
        NotUnderstood = "not_understood",
    }
}
words! {
    /// Scope of a pause.
    PauseScope {
        /// Everything.
        All = "all",
        /// A form.
        Form = "form",
        /// A destination domain.
        Destination = "destination",
    }
}
words! {
    /// Result of a pass of the sweep.
    SweepResult {
        /// Every part was done.
        Completed = "completed",
        /// The database prevented a part.
        Failed = "failed",
    }
}

/// Every label of [`Outcome::label`].
const ACTION_OUTCOMES: [&str; 5] = ["accepted", "refused", "deferred", "unknown", "not_implemented"];

/// Seconds from readiness to end: from a blink to the hours an outage lasts.
const LAG_BUCKETS: &[f64] =
    &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0, 21600.0];
/// Seconds of one SMTP transaction, up to `delivery_deadline`.
const ACTION_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 30.0, 120.0, 180.0];

/// Seconds of a ticket's wait for its turn, up to the longest throttle.
const TURN_BUCKETS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 120.0, 300.0, 600.0];

/// Counted by [`submission`].
pub static SUBMISSIONS: Counter<SubmissionOutcome> =
    Counter::new("maple_router_submissions_total", "Submissions whose work ended, by how it ended")
        .by(&["outcome"]);
/// Counted by [`action_attempt`].
pub static ACTION_ATTEMPTS: Counter<(ActionType, &str)> =
    Counter::new("maple_router_action_attempts_total", "Deliveries attempted, by action type and outcome")
        .by(&["type", "outcome"])
        .only(|| {
            let all = ActionType::all().into_iter();
            all.flat_map(|kind| ACTION_OUTCOMES.map(|outcome| (kind, outcome))).collect()
        });
/// Repeated events.
pub static REDELIVERED: Counter =
    Counter::new("maple_router_redelivered_total", "Events that came more than once");
/// Transitions refused because of an outdated claim token.
pub static STALE_SETTLE: Counter =
    Counter::new("maple_router_stale_settle_total", "Transitions that found their claim token outdated");
/// Deliveries in doubt that were resolved.
pub static IN_DOUBT: Counter<Resolution> =
    Counter::new("maple_router_in_doubt_total", "Deliveries in doubt that were resolved, by how")
        .by(&["resolution"]);
/// Stuck claims that the sweep reset.
pub static RESCUED: Counter = Counter::new("maple_router_rescued_total", "Stuck claims the sweep reset");
/// Ready submissions without an event, as seen by the sweep.
pub static ORPHANS: Counter =
    Counter::new("maple_router_orphans_total", "Ready submissions the sweep found without an event");
/// Statuses of accepted mails, by the relay's log or by returned mails.
pub static DELIVERY_STATUS: Counter<RelayStatus> =
    Counter::new("maple_router_delivery_status_total", "What the relay's log says of accepted mails")
        .by(&["status"]);
/// Flaws of the relay's log.
pub static RELAY_LOG_FLAWS: Counter<LogFlaw> = Counter::new(
    "maple_router_relay_log_flaws_total",
    "What keeps the relay's log from proving something: lines missing, lines suppressed, mails that are not proved to be ours",
)
.by(&["flaw"]);
/// Returned mails that were processed.
pub static RETURNED_MAILS: Counter<ReturnedResult> =
    Counter::new("maple_router_returned_mails_total", "Mails that came back, by what they were")
        .by(&["result"]);
/// Seconds from a submission's readiness to its end.
pub static ROUTING_LAG: Histogram = Histogram::new(
    "maple_router_routing_lag_seconds",
    "From a submission's readiness, as the database knows it or else its event, to routed or failed",
    LAG_BUCKETS,
);
/// Seconds of one send.
pub static ACTION_DURATION: Histogram<ActionType> =
    Histogram::new("maple_router_action_duration_seconds", "One send of one action", ACTION_BUCKETS)
        .by(&["type"]);
/// Counted by [`queue`].
pub static QUEUE_DEPTH: Gauge<Status> =
    Gauge::new("maple_router_queue_depth", "Submissions by status, at the last sweep").by(&["status"]);
/// Counted by [`queue`].
pub static OLDEST_AGE: Gauge<Status> = Gauge::new(
    "maple_router_oldest_age_seconds",
    "Age of the oldest submission by status, at the last sweep",
)
.by(&["status"]);
/// Gauge of submissions in work; `in_flight` sets it.
pub static IN_FLIGHT: Gauge = Gauge::new("maple_router_in_flight", "Submissions claimed by this process");
/// Gauge of submissions that wait for their claim; `waiting` sets it.
pub static WAITING: Gauge =
    Gauge::new("maple_router_waiting", "Submissions that wait in this process for their claim");
/// Number of pauses in force, by scope.
pub static PAUSED: Gauge<PauseScope> =
    Gauge::new("maple_router_paused", "Pauses in force, by scope").by(&["scope"]);
/// Time of the last routed submission (database time).
pub static LAST_SUCCESS: Gauge = Gauge::new(
    "maple_router_last_success_timestamp_seconds",
    "Unix time of the last submission routed; 0 before the first",
);
/// Number of routed submissions with an attachment judged infected afterwards.
pub static INFECTED_AFTER_ROUTING: Gauge = Gauge::new(
    "maple_router_infected_after_routing",
    "Routed submissions with an attachment that was found infected afterwards, at the last look",
);
/// Passes of the sweep that ended.
pub static SWEEPS: Counter<SweepResult> =
    Counter::new("maple_router_sweeps_total", "Passes of the sweep, by how they ended").by(&["result"]);

/// Seconds of a ticket's wait for its turn, by our own pace and by the help desk's throttle.
pub static HELP_DESK_WAIT: Histogram = Histogram::new(
    "maple_router_help_desk_wait_seconds",
    "A ticket's wait for its turn, by happyfox.max_per_minute and by the help desk's throttle",
    TURN_BUCKETS,
);
/// Whether the help desk has named a time before which it wants no request.
pub static HELP_DESK_THROTTLED: Gauge = Gauge::new(
    "maple_router_help_desk_throttled",
    "1 while the help desk throttles us: neither a ticket nor a question goes to it",
);
/// Daemons that share the allowance of tickets, as this one sees it.
pub static HELP_DESK_DAEMONS: Gauge = Gauge::new(
    "maple_router_help_desk_daemons",
    "Daemons that share happyfox.max_per_minute, this one among them; 0 without a help desk",
);

/// Counts the end of work on a submission, here and for the status line, so that the two cannot diverge.
pub fn submission(outcome: SubmissionOutcome) {
    match outcome {
        SubmissionOutcome::Routed => tally::routed(),
        SubmissionOutcome::Failed => tally::failed(),
        SubmissionOutcome::Released => {}
    }
    SUBMISSIONS.add(outcome, 1);
}

/// Sets the number of submissions claimed by this process.
pub(super) fn in_flight(submissions: usize) {
    tally::in_flight(submissions);
    IN_FLIGHT.set((), submissions);
}

/// Sets the number of pending submissions that wait for their claim.
pub(super) fn waiting(submissions: usize) {
    tally::waiting(submissions);
    WAITING.set((), submissions);
}

/// Counts one attempted delivery.
pub fn action_attempt(kind: ActionType, outcome: &Outcome) {
    ACTION_ATTEMPTS.add((kind, outcome.label()), 1);
}

/// Sets the last sweep's measurements of a status.
pub fn queue(status: Status, depth: u64, oldest: Duration) {
    QUEUE_DEPTH.set(status, depth);
    OLDEST_AGE.set(status, oldest);
}
