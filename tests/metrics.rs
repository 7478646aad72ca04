//! Dashboards and alerts rely on every series of the interfaces page being there from the start, at 0.

use std::time::Duration;

use maple_router::daemon::ROOMS;
use maple_router::ops::dependency::{BREAKER_OPEN, Dependency};
use maple_router::ops::metrics::{RELOAD_OK, recorder, start};
use maple_router::ports::Outcome;
use maple_router::routing::metrics::{self, PauseScope, SubmissionOutcome};
use maple_router::routing::submission::plan::ActionType;
use maple_router::routing::table::Status;

/// The interfaces page, "Metrics", written out by hand on purpose: renaming one must fail this test.
const SERIES: &[(&str, &str, &[&str])] = &[
    ("submissions_total", "outcome", &["routed", "failed", "released"]),
    ("redelivered_total", "", &[]),
    ("stale_settle_total", "", &[]),
    ("in_doubt_total", "resolution", &["found", "disproved", "neither_resent", "neither_held"]),
    ("rescued_total", "", &[]),
    ("orphans_total", "", &[]),
    ("dead_letters_total", "kind", &["unreadable", "unknown_submission", "exhausted", "premature", "closed"]),
    ("alerts_total", "result", &["sent", "retried", "suppressed"]),
    ("delivery_status_total", "status", &["delivered", "deferred", "bounced", "expired"]),
    ("relay_log_flaws_total", "flaw", &["gap", "suppressed", "unproved"]),
    ("returned_mails_total", "result", &["reported", "auto_reply", "receipt", "foreign", "not_understood"]),
    ("queue_depth", "status", &["received", "processing", "routed", "failed", "purged"]),
    ("oldest_age_seconds", "status", &["received", "processing", "routed", "failed", "purged"]),
    ("in_flight", "", &[]),
    ("waiting", "", &[]),
    ("paused", "scope", &["all", "form", "destination"]),
    ("breaker_open", "dependency", &["postgres", "relay", "signer", "pubsub", "contract", "help_desk"]),
    ("last_success_timestamp_seconds", "", &[]),
    ("action_duration_seconds_count", "type", &["happyfox_template", "email_template", "email_raw"]),
    ("db_transaction_seconds_count", "name", &["claim", "outbox_claim"]),
    ("routing_lag_seconds_count", "", &[]),
    ("signed_url_seconds_count", "", &[]),
    // Beside the page's: what alerts need to know of the daemon itself.
    ("ready", "", &[]),
    ("start_timestamp_seconds", "", &[]),
    (
        "incident_open",
        "incident",
        &[
            "breaker_postgres",
            "breaker_relay",
            "breaker_signer",
            "breaker_pubsub",
            "breaker_contract",
            "breaker_help_desk",
            "stream",
            "canary",
            "spool",
            "unready",
            "outbox",
            "bounces",
            "relay_queue",
            "relay_log",
            "set_aside",
            "review_reconciled",
            "review_retention",
            "desk",
            "uploads_unavailable",
            "scanner_doubted",
            "uploads_store",
            "unscanned",
            "unscannable",
            "staging_stuck",
            "policy_away",
            "forms_drift",
            "gc_overdue",
            "gc_failed",
            "gc_objects_lost",
            "screening_dead",
            "screening_stalled",
            "screening_judge",
            "screening_budget",
            "screening_review",
            "grading_timeouts",
            "grading_stalled",
            "grading_messages",
            "grading_review",
            "grading_judge",
            "grading_drift",
        ],
    ),
    ("rows_set_aside", "", &[]),
    ("relay_queue_messages", "", &[]),
    ("relay_slowed", "", &[]),
    ("relay_undelivered", "", &[]),
    ("relay_undelivered_oldest_seconds", "", &[]),
    ("unalerted", "", &[]),
    ("infected_after_routing", "", &[]),
    ("sweeps_total", "result", &["completed", "failed"]),
    // Tickets.
    ("help_desk_wait_seconds_count", "", &[]),
    ("help_desk_throttled", "", &[]),
    ("help_desk_daemons", "", &[]),
    ("canaries_total", "result", &["published", "unpublished", "returned", "overdue"]),
    ("canary_interval_seconds", "", &[]),
    ("heartbeats_total", "result", &["sent", "failed", "withheld"]),
    // States of the outbox.
    ("outbox_depth", "state", &["pending", "delivering", "retry_wait", "dead_letter"]),
    ("outbox_oldest_age_seconds", "state", &["pending", "delivering", "retry_wait", "dead_letter"]),
    (
        "outbox_transitions_total",
        "command",
        &["claim", "succeed", "fail", "give_up", "release", "expire", "fall_due"],
    ),
    // The review queue.
    ("grey_queue_depth", "state", &["Pending", "Processing", "Retrying", "UnderReview", "Escalated"]),
    (
        "grey_queue_oldest_seconds",
        "state",
        &["Pending", "Processing", "Retrying", "UnderReview", "Escalated"],
    ),
    (
        "grey_queue_opened_total",
        "cause",
        &["failed", "infected", "bounced", "dead_letter", "late_infection", "other"],
    ),
    (
        "grey_queue_transitions_total",
        "command",
        &[
            "assign",
            "unassign",
            "escalate",
            "de_escalate",
            "resolve",
            "reject",
            "dismiss",
            "reopen",
            "reset",
            "start",
        ],
    ),
    ("grey_queue_remedies_total", "outcome", &["asked", "tried", "refused", "succeeded", "failed"]),
    ("grey_queue_conflicts_total", "", &[]),
    ("grey_queue_reconciled_total", "", &[]),
    // Its desk.
    ("desk_problems_total", "kind", &["version_conflict", "guard", "csrf", "database_away"]),
    ("desk_logins_total", "outcome", &["logged_in"]),
    ("desk_request_seconds_count", "", &[]),
    // Uploads and their scanner.
    ("upload_requests_total", "answer", &["done", "refused", "failed"]),
    ("upload_sessions", "state", &["initiated", "parts_uploading", "pending_commit"]),
    ("uploads_total", "outcome", &["committed", "deduplicated", "mismatch", "expired", "aborted", "lost"]),
    ("upload_verify_seconds_count", "", &[]),
    ("scans_total", "verdict", &["unscanned", "clean", "infected", "unscannable"]),
    ("scanner_trusted", "", &[]),
    ("unscanned", "", &[]),
    ("unscanned_oldest_seconds", "", &[]),
    ("unscannable", "", &[]),
    ("staging_due", "", &[]),
    // Form versions.
    ("form_publish_total", "outcome", &["published", "quarantined", "promoted", "restored", "refused"]),
    ("forms_managed", "", &[]),
    ("forms_drifted", "", &[]),
    // Retention.
    ("gc_blobs", "state", &["tombstoned", "eligible_for_gc", "deleted"]),
    ("gc_deletes_total", "result", &["deleted", "missing", "replaced", "failed"]),
    ("purged_total", "outcome", &["purged", "kept", "refused"]),
    ("gc_since_run_seconds", "", &[]),
    ("holds", "", &[]),
    ("screening_submissions_received_total", "", &[]),
    ("screening_tier1_scan_duration_seconds_count", "", &[]),
    ("screening_tier2_scan_duration_seconds_count", "", &[]),
    ("screening_queue_depth", "job_type", &["tier1-scan", "tier2-scan", "publish"]),
    ("screening_queue_oldest_seconds", "job_type", &["tier1-scan", "tier2-scan", "publish"]),
    (
        "screening_decisions_total",
        "decision",
        &[
            "vendor_approved",
            "tier1_failed",
            "auto_approved",
            "needs_review",
            "unavailable",
            "rejected",
            "review_approved",
            "review_rejected",
        ],
    ),
    ("screening_stage_seconds_count", "stage", &["tier1", "tier2", "publish", "end_to_end", "review"]),
    ("screening_judge_tokens", "", &[]),
    ("screening_judge_tokens_limit", "", &[]),
    ("screening_review_oldest_seconds", "", &[]),
    ("grading_queue_depth", "queue", &["request", "callback", "dead"]),
    ("grading_jobs", "status", &["pending", "queued", "processing", "error", "retrying"]),
    ("grading_retries_total", "", &[]),
    ("grading_timeouts_total", "", &[]),
    ("grading_late_total", "", &[]),
    ("grading_review_pending", "priority", &["Critical", "High", "Medium"]),
    ("grading_review_age_seconds", "", &[]),
    ("grading_disagreement_score_count", "", &[]),
];

/// The labels are the lifecycle's own words: what is delivered is over, and a redrive is no daemon's.
#[test]
fn the_outbox_is_counted_in_the_words_of_its_lifecycle() {
    use maple_router::outbox::table::{Command, State};
    let labels = |family: &str| {
        let (.., values) = SERIES.iter().find(|(name, ..)| *name == family).expect("a family");
        values.to_vec()
    };
    let states = State::ALL.iter().filter(|state| **state != State::Delivered);
    assert_eq!(labels("outbox_depth"), states.map(|state| state.label()).collect::<Vec<_>>());
    let commands = Command::ALL.iter().filter(|command| **command != Command::Redrive);
    assert_eq!(labels("outbox_transitions_total"), commands.map(|c| c.label()).collect::<Vec<_>>());
}

fn rendered(count: impl FnOnce()) -> String {
    let recorder = recorder(ROOMS).expect("buckets are sound");
    ::metrics::with_local_recorder(&recorder, || {
        start(ROOMS);
        count();
    });
    recorder.handle().render()
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|l| l == line)
}

#[test]
fn every_series_exists_at_zero_from_the_start() {
    let text = rendered(|| ());
    for (name, label, values) in SERIES {
        if values.is_empty() {
            assert!(has(&text, &format!("maple_router_{name} 0")), "{name} is missing in:\n{text}");
        }
        for value in *values {
            let line = format!("maple_router_{name}{{{label}=\"{value}\"}} 0");
            assert!(has(&text, &line), "{line} is missing in:\n{text}");
        }
        let family = format!("maple_router_{}", name.trim_end_matches("_count"));
        assert!(text.contains(&format!("# HELP {family} ")), "{family} is not described");
    }
    for kind in ["happyfox_template", "email_template", "email_raw"] {
        for outcome in ["accepted", "refused", "deferred", "unknown", "not_implemented"] {
            let line =
                format!("maple_router_action_attempts_total{{type=\"{kind}\",outcome=\"{outcome}\"}} 0");
            assert!(has(&text, &line), "{line} is missing in:\n{text}");
        }
    }
    for route in ["login", "page", "api", "stream", "asset", "other"] {
        for status in ["2xx", "3xx", "4xx", "5xx"] {
            let line = format!("maple_router_desk_requests_total{{route=\"{route}\",status=\"{status}\"}} 0");
            assert!(has(&text, &line), "{line} is missing in:\n{text}");
        }
    }
    for job in ["tier1-scan", "tier2-scan", "publish"] {
        for outcome in ["done", "failed"] {
            let line =
                format!("maple_router_screening_jobs_total{{job_type=\"{job}\",outcome=\"{outcome}\"}} 0");
            assert!(has(&text, &line), "{line} is missing in:\n{text}");
        }
    }
    for skill in ["writing", "speaking", "listening", "reading"] {
        for outcome in ["opened", "auto", "reviewed", "failed"] {
            let line = format!(
                "maple_router_grading_submissions_total{{skill=\"{skill}\",outcome=\"{outcome}\"}} 0"
            );
            assert!(has(&text, &line), "{line} is missing in:\n{text}");
        }
        for stage in ["queued", "processing", "review", "end_to_end"] {
            let line =
                format!("maple_router_grading_stage_seconds_count{{skill=\"{skill}\",stage=\"{stage}\"}} 0");
            assert!(has(&text, &line), "{line} is missing in:\n{text}");
        }
    }
    assert!(has(&text, "maple_router_config_last_reload_successful 1"), "{text}");
    let build = format!("maple_router_build_info{{version=\"{}\",commit=", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&build), "{text}");
}

#[test]
fn nothing_is_exported_that_the_page_does_not_name() {
    let text = rendered(|| ());
    let mut families: Vec<&str> = SERIES.iter().map(|(name, ..)| name.trim_end_matches("_count")).collect();
    families.extend([
        "action_attempts_total",
        "desk_requests_total",
        "screening_jobs_total",
        "grading_submissions_total",
        "grading_stage_seconds",
        "config_last_reload_successful",
        "build_info",
    ]);
    for line in text.lines().filter_map(|l| l.strip_prefix("# TYPE maple_router_")) {
        let family = line.split(' ').next().expect("name");
        assert!(families.contains(&family), "{family} is not on the interfaces page");
    }
}

#[test]
fn counting_moves_the_series_it_names() {
    let text = rendered(|| {
        metrics::submission(SubmissionOutcome::Routed);
        metrics::action_attempt(ActionType::EmailRaw, &Outcome::NotImplemented);
        metrics::ACTION_DURATION.record(ActionType::EmailRaw, Duration::from_millis(30));
        metrics::queue(Status::Received, 7, Duration::from_secs(90));
        BREAKER_OPEN.set(Dependency::RELAY.label(), true);
        metrics::PAUSED.set(PauseScope::Form, 2_usize);
        metrics::LAST_SUCCESS.set((), 1_793_491_200_u64);
        RELOAD_OK.set((), false);
    });
    for line in [
        "maple_router_submissions_total{outcome=\"routed\"} 1",
        "maple_router_action_attempts_total{type=\"email_raw\",outcome=\"not_implemented\"} 1",
        "maple_router_action_duration_seconds_bucket{type=\"email_raw\",le=\"0.025\"} 0",
        "maple_router_action_duration_seconds_bucket{type=\"email_raw\",le=\"0.05\"} 1",
        "maple_router_queue_depth{status=\"received\"} 7",
        "maple_router_oldest_age_seconds{status=\"received\"} 90",
        "maple_router_breaker_open{dependency=\"relay\"} 1",
        "maple_router_paused{scope=\"form\"} 2",
        "maple_router_last_success_timestamp_seconds 1793491200",
        "maple_router_config_last_reload_successful 0",
    ] {
        assert!(has(&text, line), "{line} is missing in:\n{text}");
    }
}
