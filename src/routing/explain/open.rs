//! Submissions on their way: `received` and `processing`. Checks in the order of the claim's (protocol §2).

use jiff::Timestamp;

use super::super::decide::{self, ClaimDecision, DropReason, RowView};
use super::{
    Case, Explanation, INFECTED, Next, Remedy, Rules, Step, deliveries, is_in_doubt, number, plus, tickets,
    trouble,
};
use crate::ports::Stage;
use crate::routing::submission::grading::GradingAttempt;
use crate::routing::submission::ledger::{DeliveryState, FailReason, Ledger, LedgerFault};
use crate::routing::submission::screening::ScreeningRun;
use crate::routing::submission::text::{bounded, one_line};
use crate::routing::submission::ticket;

pub(super) fn received(case: &Case<'_>, rules: &Rules) -> Explanation {
    // The claim's own function decides, so that the explanation is a true promise.
    let ledger: Result<Ledger, LedgerFault> = case.ledger.cloned().map_err(Clone::clone);
    let view = RowView {
        status: case.status,
        ledger: &ledger,
        finalized: case.finalized,
        pending: i64::try_from(case.pending.len()).unwrap_or(i64::MAX),
        infected: !case.infected.is_empty(),
        gate: case.gate,
        touched: Some(case.updated_at),
        longest_pause: rules.longest_pause,
    };
    match (decide::claim(&view, case.now, rules.max_attempts), &ledger) {
        (ClaimDecision::Fail(reason), _) => will_fail(case, rules, reason),
        (ClaimDecision::Drop(DropReason::NotFinalized), _) => not_finalized(case, rules),
        (ClaimDecision::Drop(DropReason::NotScreened), _) => being_screened(case, rules),
        (ClaimDecision::Drop(DropReason::NotGraded), _) => being_graded(case, rules),
        (ClaimDecision::Drop(_), _) => scanning(case, rules),
        (ClaimDecision::Take | ClaimDecision::Defer(_) | ClaimDecision::Nack(_), Ok(ledger)) => {
            waiting(case, rules, ledger)
        }
        // A damaged ledger is never taken; only the compiler needs this arm.
        (ClaimDecision::Take | ClaimDecision::Defer(_) | ClaimDecision::Nack(_), Err(_)) => {
            will_fail(case, rules, FailReason::LedgerDamaged)
        }
    }
}

fn will_fail(case: &Case<'_>, rules: &Rules, reason: FailReason) -> Explanation {
    let (why, mut remedy) = match reason {
        FailReason::Infected => (
            format!(
                "the scan found malware in {}; nothing may be sent",
                number(case.infected.len(), "attachment")
            ),
            {
                let mut remedy = vec![Remedy::advice(format!("follow {INFECTED}"))];
                let from = remedy.len();
                remedy.extend(case.marked_clean(case.infected));
                if let Some(first) = remedy.get_mut(from) {
                    *first = first.clone().when("a false positive, proven as such?");
                }
                remedy
            },
        ),
        FailReason::Exhausted => (
            format!("all {} attempts are spent and something is still open", rules.max_attempts),
            vec![
                Remedy::command("check", ""),
                case.command("replay", "--reason TEXT")
                    .when("once it has failed, and what check names is mended:"),
            ],
        ),
        FailReason::LedgerDamaged => (
            match case.ledger {
                Err(fault) => fault.to_string(),
                Ok(_) => "the ledger is damaged".to_owned(),
            },
            vec![
                Remedy::advice(
                    "find out who wrote to submissions.routing_result; what stood there goes to the audit log",
                ),
                case.command("replay", "--reason TEXT")
                    .when("once it has failed, and nothing was sent before:"),
            ],
        ),
        FailReason::ScreenedOut => (
            "its screening keeps it out".to_owned(),
            vec![
                case.command("screening show", ""),
                case.command("screening rescreen", "--reason TEXT").when("wrongly?"),
            ],
        ),
        FailReason::Refused | FailReason::NoActions | FailReason::InDoubt => {
            ("it ends at its next claim".to_owned(), vec![case.command("explain", "")])
        }
    };
    let by_event = format!("it fails as {} when its event comes", reason.label());
    let by_sweep = match reason {
        FailReason::Infected | FailReason::ScreenedOut => plus(case.now, rules.sweep_interval),
        FailReason::Refused
        | FailReason::Exhausted
        | FailReason::NoActions
        | FailReason::LedgerDamaged
        | FailReason::InDoubt => found_by(case, rules),
    };
    let next = if case.is_history(rules) {
        Next::now(Step::Fail, format!("{by_event}; the sweep leaves it alone (routing.not_before)"))
    } else {
        Next::at(Step::Fail, format!("{by_event}, by the sweep at the latest"), by_sweep)
    };
    if case.older_than(case.updated_at, rules.orphan_after) {
        remedy.push(case.command("publish", ""));
    }
    Explanation { why, next, remedy }
}

fn not_finalized(case: &Case<'_>, rules: &Rules) -> Explanation {
    let mut remedy = Vec::new();
    if case.older_than(case.created_at, rules.unready_alert_after) {
        remedy.push(Remedy::advice("ask the forms backend why it was not finalized"));
        remedy.push(case.command("finalize", "--reason TEXT"));
    }
    Explanation {
        why: "the forms backend has not finalized it yet (readiness.finalized_column is empty)".to_owned(),
        next: unready(
            case,
            rules,
            Step::Finalize,
            "it is claimed once it is finalized and every attachment is clean",
        ),
        remedy,
    }
}

fn being_screened(case: &Case<'_>, rules: &Rules) -> Explanation {
    let Some(run) = case.run else {
        return Explanation {
            why: "its form is screened, and it has no run yet: the screener makes one within a minute"
                .to_owned(),
            next: unready(case, rules, Step::Screen, "it is claimed once its run is published"),
            remedy: vec![Remedy::command("check", "")],
        };
    };
    let mut remedy = vec![case.command("screening show", "")];
    let why = match (run.dead.as_deref(), run.state.as_str()) {
        (Some(dead), state) => {
            remedy
                .push(Remedy::command("review list", "--cause screening_job").when("somebody has to look:"));
            format!("its screening was given up on in {state} ({dead}): a person has it at the review desk")
        }
        (None, "NEEDS_REVIEW" | "TIER3_REVIEW") => {
            remedy.push(Remedy::command("review list", "--cause screening"));
            format!("a person decides about its screening ({}), at the review desk", doubts(run))
        }
        (None, "PUBLISHED") => {
            remedy.push(case.command("screening rescreen", "--reason TEXT"));
            "it was changed after it was screened: another run has to look at it".to_owned()
        }
        (None, state) => format!("its screening goes on ({state} since {})", super::at(run.since)),
    };
    Explanation {
        why,
        next: Next::now(
            Step::Screen,
            "it is claimed once its run is published; it fails if the run ends otherwise",
        ),
        remedy,
    }
}

/// Why a run waits for a person.
fn doubts(run: &ScreeningRun) -> String {
    let score = run.score.map_or("no verdict".to_owned(), |score| format!("score {score}"));
    if run.bars.is_empty() { score } else { format!("{score}, {}", run.bars.join(", ")) }
}

fn being_graded(case: &Case<'_>, rules: &Rules) -> Explanation {
    let claimed = "it is claimed once it is graded, or its mail is released without a grade";
    let Some(attempt) = case.attempt else {
        return Explanation {
            why: "its mail waits for a grade, and it has no attempt at one yet: the daemon makes one within a minute".to_owned(),
            next: unready(case, rules, Step::Grade, claimed),
            remedy: vec![Remedy::command("check", "")],
        };
    };
    let mut remedy = vec![case.command("grading show", "")];
    let release = case
        .command("grading release", "--reason TEXT")
        .when("need it not wait? To mail it without a grade:");
    let (why, next) = match attempt.state.as_str() {
        "FAILED" => {
            remedy.push(case.command("grading regrade", "--reason TEXT"));
            remedy.push(release);
            remedy.push(Remedy::command("review list", "--cause grading_failed"));
            let why =
                format!("its mail waits for a grade, and attempt {} {}", attempt.attempt, ended(attempt));
            (why, Next::now(Step::Grade, format!("nothing by itself; {claimed}")))
        }
        "REVIEW_PENDING" => {
            remedy.push(Remedy::command("review list", "--cause grading"));
            remedy.push(release);
            let why =
                "its mail waits for a grade, and a person has the last word about it, at the review desk"
                    .to_owned();
            (why, Next::now(Step::Grade, claimed))
        }
        state => {
            let why = format!(
                "its mail waits for a grade, and grading goes on ({state} since {})",
                super::at(attempt.since)
            );
            (
                why,
                Next::at(
                    Step::Grade,
                    format!("{claimed}; the attempt fails if it is not graded by then"),
                    attempt.deadline,
                ),
            )
        }
    };
    Explanation { why, next, remedy }
}

/// How an attempt that has failed ended.
fn ended(attempt: &GradingAttempt) -> String {
    match attempt.failed.as_deref() {
        Some("timeout") => format!("was not done by {}", super::at(attempt.deadline)),
        Some(reason) => format!("failed ({})", bounded(one_line(reason), 60)),
        None => "failed".to_owned(),
    }
}

fn scanning(case: &Case<'_>, rules: &Rules) -> Explanation {
    let mut remedy = Vec::new();
    if case.older_than(case.created_at, rules.unready_alert_after) {
        remedy.push(Remedy::advice("is the scan worker running? Its queue and its log tell"));
        let from = remedy.len();
        remedy.extend(case.marked_clean(case.pending));
        if let Some(first) = remedy.get_mut(from) {
            *first = first.clone().when("scanned by other means, and clean?");
        }
    }
    Explanation {
        why: format!(
            "{} of {} still to be scanned for viruses",
            case.pending.len(),
            number(case.attachments, "attachment")
        ),
        next: unready(case, rules, Step::Scan, "it is claimed once the last of them is clean"),
        remedy,
    }
}

/// The next step of an unready submission, and the time at which its long wait is alerted.
fn unready(case: &Case<'_>, rules: &Rules, step: Step, what: &str) -> Next {
    if case.older_than(case.created_at, rules.unready_alert_after) || case.is_history(rules) {
        return Next::now(step, what);
    }
    Next::at(
        step,
        format!("{what}; alerted if that has not happened by then"),
        plus(case.created_at, rules.unready_alert_after),
    )
}

/// Explains a ready submission: never claimed, given back, or between two attempts.
fn waiting(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> Explanation {
    let spent = ledger.attempts;
    let attempt = (spent + 1).min(rules.max_attempts);
    let due = due(case, rules).filter(|due| *due > case.now);
    let of = format!("attempt {attempt} of {}", rules.max_attempts);
    if ledger.plan.is_empty() && case.actions.is_none() {
        return Explanation {
            why: "its form has an action of a type this version does not know; it is left untouched"
                .to_owned(),
            next: Next::now(Step::Upgrade, "nothing by this version"),
            remedy: vec![Remedy::advice(
                "upgrade maple-router on this host, or correct the form and reload the YAML",
            )],
        };
    }
    if ledger.plan.is_empty() && case.actions == Some(0) {
        return Explanation {
            why: "its form has no actions: there is nobody to send it to".to_owned(),
            next: attempt_by(case, rules, &format!("{of}; after the last it fails as no_actions")),
            remedy: vec![Remedy::advice("add actions to the form and reload the YAML")],
        };
    }
    if spent == 0 && ledger.plan.is_empty() {
        return unclaimed(case, rules, &of);
    }
    let mut why = match (spent, trouble(ledger, DeliveryState::Open)) {
        (0, None) => "it was given back without an attempt being spent".to_owned(),
        (0, Some(said)) => format!("it was given back; last answer: {said}"),
        (_, None) => {
            format!("attempt {spent} of {} ended with {} open", rules.max_attempts, open_count(ledger))
        }
        (_, Some(said)) => {
            format!("attempt {spent} of {} left {} open: {said}", rules.max_attempts, open_count(ledger))
        }
    };
    let tickets = tickets::in_doubt(case, ledger);
    why.push_str(&doubt(case, ledger));
    let mut next = attempt_by(case, rules, &of);
    next.what.push_str(match (doubtful_mails(case, ledger), rules.resend) {
        (0, _) => "",
        (_, true) => "; what is in doubt is sent again then, with the same Message-ID",
        (_, false) => "; what is in doubt is not sent again, and fails (routing.in_doubt)",
    });
    if tickets > 0 {
        next.what.push_str(tickets::searched(rules.resend));
    }
    let mut remedy = advice(ledger);
    // An event that comes before the due time changes nothing.
    if due.is_none() {
        remedy.push(case.command("publish", ""));
    }
    Explanation { why, next, remedy }
}

fn unclaimed(case: &Case<'_>, rules: &Rules, of: &str) -> Explanation {
    let late = case.older_than(case.created_at, rules.orphan_after);
    let why = case.event.of_unclaimed(late);
    let (next, mut remedy) = if case.is_history(rules) {
        let what = format!(
            "{of} when its event comes; the sweep leaves it alone (created before routing.not_before)"
        );
        (Next::now(Step::Claim, what), Vec::new())
    } else {
        let what = format!("{of} when its event comes, by the sweep at the latest");
        (Next::at(Step::Claim, what, found_by(case, rules)), Vec::new())
    };
    if late || case.event.needs_a_look() {
        remedy.push(Remedy::command("check", ""));
        remedy.push(case.command("publish", ""));
    }
    Explanation { why, next, remedy }
}

/// The next attempt, at its due time or later; brought by the event, else by the sweep.
fn attempt_by(case: &Case<'_>, rules: &Rules, of: &str) -> Next {
    match due(case, rules) {
        Some(_) | None if case.is_history(rules) => Next::now(
            Step::Attempt,
            format!(
                "{of}: when its event returns; the sweep leaves it alone (created before routing.not_before)"
            ),
        ),
        Some(due) if due > case.now => Next::at(
            Step::Attempt,
            format!("{of} as soon as it is due: its event returns, else the sweep takes it"),
            due,
        ),
        Some(_) | None => Next::at(
            Step::Attempt,
            format!("{of}: when its event returns, by the sweep at the latest"),
            found_by(case, rules),
        ),
    }
}

/// Due time of the next attempt, by the claim's own function.
fn due(case: &Case<'_>, rules: &Rules) -> Option<Timestamp> {
    decide::due(case.ledger.ok()?, Some(case.updated_at), case.now, rules.longest_pause)
}

/// Latest time at which the sweep finds a waiting submission that no event brings back.
fn found_by(case: &Case<'_>, rules: &Rules) -> Timestamp {
    let found = match due(case, rules) {
        Some(due) => plus(due.max(case.updated_at.min(case.now)), rules.due_grace),
        None => plus(case.updated_at, rules.orphan_after),
    };
    plus(found, rules.sweep_interval).max(case.now)
}

fn open_count(ledger: &Ledger) -> String {
    number(deliveries(ledger, DeliveryState::Open).count(), "delivery")
}

/// Mails in doubt.
fn doubtful_mails(case: &Case<'_>, ledger: &Ledger) -> usize {
    let all = ledger.deliveries.iter().filter(|(key, _)| !ticket::is_ticket(key));
    all.filter(|(_, delivery)| is_in_doubt(case.status, ledger, delivery)).count()
}

/// Describes the doubt; empty where there is none.
fn doubt(case: &Case<'_>, ledger: &Ledger) -> String {
    let mut words = String::new();
    let mails = doubtful_mails(case, ledger);
    if mails > 0 {
        let mails = number(mails, "delivery");
        words.push_str(&format!("; {mails} in doubt: perhaps delivered, its outcome is not known"));
    }
    let tickets = tickets::in_doubt(case, ledger);
    if tickets > 0 {
        words.push_str(&format!("; {}", tickets::doubt(tickets)));
    }
    words
}

/// Advice by the stage at which the last attempt stopped.
fn advice(ledger: &Ledger) -> Vec<Remedy> {
    let stage = deliveries(ledger, DeliveryState::Open).find_map(|(_, d)| d.error.as_ref()).map(|e| e.stage);
    match stage {
        Some(Stage::Connect | Stage::Banner | Stage::Ehlo | Stage::Starttls | Stage::Auth | Stage::Mail) => {
            vec![Remedy::advice("systemctl status postfix"), Remedy::command("check", "")]
        }
        Some(Stage::Sign | Stage::Get | Stage::Post) => vec![Remedy::command("check", "")],
        Some(Stage::Rcpt | Stage::Data | Stage::Dot) => vec![Remedy::advice(
            "nothing as long as it goes on by itself; if it lasts, ask whoever runs that mailbox's server",
        )],
        Some(
            Stage::Fence | Stage::Address | Stage::Template | Stage::Contact | Stage::Category | Stage::Field,
        )
        | None => Vec::new(),
    }
}

pub(super) fn processing(case: &Case<'_>, rules: &Rules) -> Explanation {
    let (ledger, claim) = match case.ledger {
        Ok(Ledger { claim: None, .. }) => return claimless(case, rules, "its ledger names no claim"),
        Err(fault) => return claimless(case, rules, &fault.to_string()),
        Ok(ledger @ Ledger { claim: Some(claim), .. }) => (ledger, claim),
    };
    let worker = bounded(one_line(&claim.worker), 60);
    let sending =
        ledger.deliveries.values().any(|d| d.intent.as_ref().is_some_and(|b| b.token == claim.token));
    let doubt = doubt(case, ledger);
    let intent = if sending { "; what it had begun to send is in doubt" } else { "" };
    let stuck_at = plus(case.updated_at, rules.stuck_after);
    if stuck_at <= case.now {
        return Explanation {
            why: format!(
                "worker {worker} took it and has not touched it for longer than {}{intent}{doubt}",
                humantime::format_duration(rules.stuck_after),
            ),
            next: Next::at(
                Step::Rescue,
                "the sweep takes it back for another attempt",
                swept_at(case, rules),
            ),
            remedy: vec![
                Remedy::advice("on the host of that worker: systemctl status maple-router"),
                case.command("release", "--reason TEXT")
                    .when("is it gone, or hung? To have it taken back now:"),
            ],
        };
    }
    let next = Next::at(
        Step::Finish,
        "the worker ends its claim; untouched until then, the sweep takes it back",
        stuck_at.min(claim.deadline.max(case.now)),
    );
    Explanation {
        why: format!(
            "worker {worker} has it (attempt {} of {}){}{doubt}",
            ledger.attempts,
            rules.max_attempts,
            if sending { " and is sending" } else { "" }
        ),
        next,
        remedy: Vec::new(),
    }
}

/// Latest time at which the sweep takes back an untouched claim.
fn swept_at(case: &Case<'_>, rules: &Rules) -> Timestamp {
    plus(plus(case.updated_at, rules.stuck_after), rules.sweep_interval).max(case.now)
}

fn claimless(case: &Case<'_>, rules: &Rules, but: &str) -> Explanation {
    let next = if case.ledger.is_ok() && case.is_history(rules) {
        Next::now(
            Step::Nothing,
            "nothing by itself: it was created before routing.not_before, so the sweep leaves it alone",
        )
    } else {
        Next::at(Step::Rescue, "the sweep takes it back or fails it", swept_at(case, rules))
    };
    Explanation {
        why: format!("it is marked as being worked on, but {but}"),
        next,
        remedy: vec![
            Remedy::advice("find out who changed the row: the router writes status and claim together"),
            case.command("release", "--reason TEXT"),
        ],
    }
}
