//! Submissions that have ended: `routed` and `failed`. Nothing moves them but retention, and a person.

use super::super::ledger::{Delivery, DeliveryState, FailReason, Ledger, LedgerFault};
use super::{Case, Explanation, Next, Remedy, Rules, Step, deliveries, number, trouble};

pub(super) fn routed(case: &Case<'_>) -> Explanation {
    let next = kept(case);
    let ledger = match case.ledger {
        Ok(ledger) => ledger,
        Err(fault) => {
            return Explanation {
                why: format!("it was routed; what was sent cannot be told, because {fault}"),
                next,
                remedy: Vec::new(),
            };
        }
    };
    let accepted = deliveries(ledger, DeliveryState::Accepted).count();
    let waiting = deliveries(ledger, DeliveryState::NotImplemented).count();
    let mut why = match (accepted, waiting) {
        (0, 0) => {
            "it is routed, and its ledger names no delivery: it was not routed by this program".to_owned()
        }
        (0, _) => "nothing was sent: every action is of a type that is not implemented yet".to_owned(),
        (_, 0) => format!("the relay accepted every delivery ({accepted} of {accepted})"),
        (_, _) => format!(
            "the relay accepted {}; {} of a type that is not implemented yet",
            number(accepted, "delivery"),
            if waiting == 1 { "1 action is".to_owned() } else { format!("{waiting} actions are") }
        ),
    };
    let twice = ledger.deliveries.values().filter(|d| d.repeats() > 0).count();
    if twice > 0 {
        why.push_str(&format!(
            "; {} accepted more than once, under the same Message-ID",
            number(twice, "delivery")
        ));
    }
    let stale = ledger.deliveries.values().filter(|d| d.late).count();
    if stale > 0 {
        why.push_str(&format!("; {} recorded after the end", number(stale, "acceptance")));
    }
    Explanation { why, next, remedy: Vec::new() }
}

pub(super) fn failed(case: &Case<'_>, rules: &Rules) -> Explanation {
    let (ledger, finished) = match case.ledger {
        Err(fault) => return unreadable(fault),
        Ok(ledger) => match &ledger.finished {
            Some(finished) => (ledger, finished),
            None => return elsewhere(case, rules, ledger),
        },
    };
    let Some(reason) = finished.reason else {
        return Explanation {
            why: "it failed, and its ledger gives no reason".to_owned(),
            next: alert(case, rules, ledger),
            remedy: vec![case.command("replay", "--reason TEXT")],
        };
    };
    let (mut why, remedy) = for_reason(case, ledger, reason);
    let accepted = deliveries(ledger, DeliveryState::Accepted).count();
    if accepted > 0 {
        why.push_str(&format!(
            "; {accepted} of {} had been accepted and stay so",
            number(ledger.deliveries.len(), "delivery")
        ));
    }
    if reason == FailReason::Exhausted {
        let doubtful = deliveries(ledger, DeliveryState::Failed).filter(|(_, d)| is_doubtful(d)).count();
        if doubtful > 0 {
            why.push_str(&format!("; {} perhaps delivered all the same", number(doubtful, "delivery")));
        }
    }
    Explanation { why, next: alert(case, rules, ledger), remedy }
}

/// Its doubt was never resolved.
fn is_doubtful(delivery: &Delivery) -> bool {
    delivery.doubt || delivery.begun.is_some()
}

fn for_reason(case: &Case<'_>, ledger: &Ledger, reason: FailReason) -> (String, Vec<Remedy>) {
    let failed = number(deliveries(ledger, DeliveryState::Failed).count(), "delivery");
    let told = |text: String| match trouble(ledger, DeliveryState::Failed) {
        Some(said) => format!("{text}: {said}"),
        None => text,
    };
    match reason {
        FailReason::Refused => (
            told(format!("{failed} refused for good")),
            vec![
                Remedy::advice(
                    "correct the address or the template in the form and reload the YAML, or have the mailbox mended",
                ),
                case.command("replay", "--replan --reason TEXT"),
            ],
        ),
        FailReason::Exhausted => (
            told(format!("{} spent, {failed} still open", number(to_count(ledger.attempts), "attempt"))),
            vec![Remedy::command("check", ""), case.command("replay", "--reason TEXT")],
        ),
        FailReason::Infected => {
            let mut remedy = vec![Remedy::advice("follow runbook rb-008; the submission stays as it is")];
            remedy.extend(
                case.infected
                    .iter()
                    .map(|id| {
                        Remedy::command("mark-attachment", &format!("{id} --clean --reason TEXT"))
                            .when("a false positive, proven as such?")
                    })
                    .take(3),
            );
            if case.infected.is_empty() {
                remedy.push(case.command("replay", "--reason TEXT"));
            }
            (infected(case), remedy)
        }
        FailReason::NoActions => (
            "its form had no actions in any attempt: there was nobody to send it to".to_owned(),
            vec![
                Remedy::advice("add actions to the form and reload the YAML"),
                case.command("replay", "--replan --reason TEXT"),
            ],
        ),
        FailReason::LedgerDamaged => (
            "its ledger could not be read; the original stands in the audit log".to_owned(),
            vec![
                Remedy::advice(
                    "find out who wrote to submissions.routing_result, and what was sent before, from the audit log",
                ),
                case.command("replay", "--reason TEXT"),
            ],
        ),
        FailReason::InDoubt => (
            format!("{failed} perhaps delivered, and held, because routing.in_doubt is \"hold\""),
            vec![
                Remedy::advice("ask the recipient, or search the relay's log for the Message-ID"),
                case.command("replay", "--reason TEXT"),
            ],
        ),
    }
}

fn infected(case: &Case<'_>) -> String {
    match case.infected.len() {
        0 => "an attachment was infected (rb-008); by now none is marked so any more".to_owned(),
        n => format!("the scan found malware in {} (rb-008)", number(n, "attachment")),
    }
}

/// Failed by somebody else: the scan worker does that where an attachment is infected.
fn elsewhere(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> Explanation {
    if case.infected.is_empty() {
        return Explanation {
            why: "it was failed by somebody else than the router: its ledger records no end".to_owned(),
            next: Next::now(Step::Nothing, "nothing by itself"),
            remedy: vec![case.command("replay", "--reason TEXT")],
        };
    }
    let next = if case.is_history(rules) {
        Next::now(Step::Nothing, "nothing by itself; it lies before routing.not_before")
    } else {
        alert(case, rules, ledger)
    };
    Explanation {
        why: format!("{}; the scan worker failed it", infected(case)),
        next,
        remedy: vec![Remedy::advice("follow runbook rb-008; the submission stays as it is")],
    }
}

fn unreadable(fault: &LedgerFault) -> Explanation {
    Explanation {
        why: format!("it failed; why cannot be told, because {fault}"),
        next: Next::now(Step::Nothing, "nothing by itself"),
        remedy: vec![
            Remedy::advice("the audit log tells what was sent and why it failed"),
            Remedy::advice("find out who wrote to submissions.routing_result"),
        ],
    }
}

/// Whether its failure has been reported; reported, it only waits for its retention to end.
fn alert(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> Next {
    let token = ledger.finished.as_ref().and_then(|finished| finished.token.as_ref());
    let confirmed = ledger
        .alert
        .as_ref()
        .filter(|alert| alert.finish.as_ref() == token)
        .and_then(|alert| alert.confirmed_at);
    match (confirmed, rules.alerts) {
        // What the ledger records stays true, whoever alerted.
        (Some(at), _) => {
            let mut next = kept(case);
            next.what = format!("nothing by itself; alerted in Slack at {}; {}", super::at(at), next.what);
            next
        }
        (None, false) if !case.infected.is_empty() => Next::now(Step::Nothing, "nothing by itself"),
        (None, false) => Next::now(Step::Nothing, "nothing by itself: correct the cause"),
        (None, true) => Next::now(
            Step::Alert,
            "nothing by itself; its alert is not confirmed by Slack yet, and is sent until it is",
        ),
    }
}

/// Ended and told.
fn kept(case: &Case<'_>) -> Next {
    match case.retention_expires_at {
        Some(end) if end > case.now => Next::at(Step::Purge, "retention empties it", end),
        Some(_) => Next::now(Step::Purge, "retention empties it at its next run"),
        None => Next::now(Step::Nothing, "nothing; no retention period is set"),
    }
}

fn to_count(attempts: u32) -> usize {
    usize::try_from(attempts).unwrap_or(usize::MAX)
}
