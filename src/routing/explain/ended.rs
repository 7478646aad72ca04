//! Submissions that have ended: `routed` and `failed`. Only retention and people change them.

use super::{
    Case, Explanation, INFECTED, Next, Remedy, Retained, Rules, Step, deferred, deliveries, number, tickets,
    tracking, trouble,
};
use crate::routing::submission::ledger::{Delivery, DeliveryState, FailReason, Ledger, LedgerFault};
use crate::routing::submission::link_life::{last_accepted, links_live};

pub(super) fn routed(case: &Case<'_>, rules: &Rules) -> Explanation {
    let mut next = kept(case, "nothing more is done");
    let ledger = match case.ledger {
        Ok(ledger) => ledger,
        Err(fault) => {
            return Explanation {
                why: format!("it was routed; what was sent is not known, because {fault}"),
                next,
                remedy: Vec::new(),
            };
        }
    };
    let mut why = sent(ledger);
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
    if let Some(known) = tracking::words(ledger) {
        why.push_str(&format!("; {known}"));
    }
    if let Some(telling) = tracking::telling(ledger, rules.alerts) {
        next.what = format!("{telling}; {}", next.what);
    }
    let mut remedy = tracking::remedy(case, ledger);
    remedy.extend(deferred::remedy(case, rules, ledger));
    if let Some((words, advice)) = tickets::twice(case, ledger) {
        why.push_str(&format!("; {words}"));
        remedy.push(advice);
    }
    if !case.infected.is_empty() {
        why.push_str(&format!(
            "; after it was sent the scan found malware in {} (rb-008), and {}",
            number(case.infected.len(), "attachment"),
            links(case, rules, ledger)
        ));
        next.what = format!("{}; {}", late_alert(case, rules, ledger), next.what);
        remedy.splice(0..0, revoked(case));
    }
    Explanation { why, next, remedy }
}

/// What was accepted, by whom, and what nobody could take.
fn sent(ledger: &Ledger) -> String {
    let mails = deliveries(ledger, DeliveryState::Accepted).count() - tickets::count(ledger);
    let waiting = deliveries(ledger, DeliveryState::NotImplemented).count();
    let tickets = tickets::made(ledger);
    let accepted = match (mails, waiting, tickets) {
        (0, 0, None) => {
            return "it is routed, and its ledger names no delivery: it was not routed by this program"
                .to_owned();
        }
        (0, _, None) => {
            return "nothing was sent: every action is of a type that is not implemented yet".to_owned();
        }
        (0, _, Some(made)) => made,
        (_, 0, tickets) => {
            let made = tickets.map_or(String::new(), |made| format!(", and {made}"));
            format!("the relay accepted every delivery ({mails} of {mails}){made}")
        }
        (_, _, tickets) => {
            let made = tickets.map_or(String::new(), |made| format!(", and {made}"));
            format!("the relay accepted {}{made}", number(mails, "delivery"))
        }
    };
    match waiting {
        0 => accepted,
        1 => format!("{accepted}; 1 action is of a type that is not implemented yet"),
        more => format!("{accepted}; {more} actions are of a type that is not implemented yet"),
    }
}

/// Life of the links in the mails already sent.
fn links(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> String {
    let sent = last_accepted(ledger);
    let left = links_live(sent, rules.link_ttl, case.retention_expires_at, case.now);
    match case.now.checked_add(left) {
        _ if left.is_zero() => "links in its mails have run out by now".to_owned(),
        Ok(end) => format!("links in its mails work until {} at most", super::at(end)),
        Err(_) => "links in its mails work".to_owned(),
    }
}

/// Whether people have been or will be notified of the infection.
fn late_alert(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> String {
    let token = ledger.finished.as_ref().and_then(|finished| finished.token.as_ref());
    let alert = ledger.late_infection.as_ref().filter(|alert| alert.finish.as_ref() == token);
    match alert.and_then(|alert| alert.confirmed_at) {
        Some(at) => format!("Slack took the alert of the malware at {}", super::at(at)),
        None if case.is_history(rules) || ledger.finished.is_none() => {
            "nobody is alerted of the malware, because it was not routed by this program after routing.not_before".to_owned()
        }
        None if rules.alerts => "the alert of the malware is sent until Slack confirms it".to_owned(),
        None => "nobody is alerted of the malware, because no slack.webhook_file is set".to_owned(),
    }
}

/// Remedies for links already sent.
fn revoked(case: &Case<'_>) -> Vec<Remedy> {
    let mut remedy = vec![Remedy::advice(format!(
        "follow {INFECTED}, section infected_after_routing: a link cannot be revoked, so take its object away, then tell the \
         recipients"
    ))];
    let from = remedy.len();
    remedy.extend(case.marked_clean(case.infected));
    if let Some(first) = remedy.get_mut(from) {
        *first = first.clone().when("a false positive, proven as such? Then:");
    }
    remedy
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
    let (mut why, mut remedy) = for_reason(case, ledger, reason);
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
    if let Some(known) = tracking::words(ledger) {
        why.push_str(&format!("; {known}"));
        remedy.extend(tracking::remedy(case, ledger));
    }
    Explanation { why, next: alert(case, rules, ledger), remedy }
}

/// Whether the delivery's doubt was never resolved.
fn is_doubtful(delivery: &Delivery) -> bool {
    delivery.doubt || delivery.intent.is_some()
}

fn for_reason(case: &Case<'_>, ledger: &Ledger, reason: FailReason) -> (String, Vec<Remedy>) {
    let failed = number(deliveries(ledger, DeliveryState::Failed).count(), "delivery");
    let with_trouble = |text: String| match trouble(ledger, DeliveryState::Failed) {
        Some(said) => format!("{text}: {said}"),
        None => text,
    };
    match reason {
        FailReason::Refused => (
            with_trouble(format!("{failed} refused for good")),
            vec![
                Remedy::advice(
                    "correct the address or the template in the form and reload the YAML, or have the mailbox mended; then:",
                ),
                case.command("replay", "--replan --reason TEXT"),
            ],
        ),
        FailReason::Exhausted => (
            with_trouble(format!(
                "{} spent, {failed} still open, so it is a dead letter now",
                number(to_count(ledger.attempts), "attempt")
            )),
            vec![
                Remedy::command("check", ""),
                case.command("replay", "--reason TEXT").when("is what it names mended?"),
            ],
        ),
        FailReason::Infected => (infected(case), cured(case)),
        FailReason::ScreenedOut => (
            "its screening kept it out".to_owned(),
            vec![
                case.command("screening show", ""),
                case.command("screening rescreen", "--reason TEXT")
                    .when("wrongly? Then another run decides, and it is routed:"),
            ],
        ),
        FailReason::NoActions => (
            "its form had no actions in any attempt: there was nobody to send it to".to_owned(),
            vec![
                Remedy::advice("add actions to the form and reload the YAML; then:"),
                case.command("replay", "--replan --reason TEXT"),
            ],
        ),
        FailReason::LedgerDamaged => (
            "its ledger could not be read; the original stands in the audit log".to_owned(),
            vec![
                Remedy::advice(
                    "a replay sends to everybody; what was sent before stands in the audit log. If that is right:",
                ),
                case.command("replay", "--reason TEXT"),
            ],
        ),
        FailReason::InDoubt => (
            format!("{failed} perhaps delivered, and on hold, because routing.in_doubt is \"hold\""),
            on_hold(case, ledger),
        ),
    }
}

/// Remedies for deliveries in doubt that the policy holds: who can tell whether they arrived, and how they are sent again.
fn on_hold(case: &Case<'_>, ledger: &Ledger) -> Vec<Remedy> {
    let tags = tickets::held(case, ledger);
    let failed = deliveries(ledger, DeliveryState::Failed).count();
    let mut remedy = Vec::new();
    if failed > tags.len() || tags.is_empty() {
        remedy.push(Remedy::advice(
            "ask the recipient, or search the relay's log for the Message-ID; if it was not delivered:",
        ));
    }
    remedy.extend(tags.iter().map(|tag| {
        Remedy::advice(format!(
            "search the help desk for the tag {tag}; a replay does so too, and makes the ticket only where it is not there:"
        ))
    }));
    remedy.push(case.command("replay", "--reason TEXT"));
    remedy
}

/// Remedies for an infected attachment: the runbook, and the commands for a false positive.
fn cured(case: &Case<'_>) -> Vec<Remedy> {
    let mut remedy = vec![Remedy::advice(format!("follow {INFECTED}; the submission stays as it is"))];
    let from = remedy.len();
    remedy.extend(case.marked_clean(case.infected));
    remedy.push(case.command("replay", "--reason TEXT"));
    remedy[from] = remedy[from].clone().when("a false positive, proven as such? Then:");
    remedy
}

fn infected(case: &Case<'_>) -> String {
    match case.infected.len() {
        0 => "an attachment was infected (rb-008); by now none is marked so any more".to_owned(),
        n => format!("the scan found malware in {} (rb-008)", number(n, "attachment")),
    }
}

/// Failed by another program: the scan worker does that where an attachment is infected.
fn elsewhere(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> Explanation {
    if case.infected.is_empty() {
        return Explanation {
            why: "it was failed by somebody else than the router: its ledger records no end".to_owned(),
            next: Next::now(Step::Nothing, "it stays as it is until a person acts"),
            remedy: vec![case.command("replay", "--reason TEXT")],
        };
    }
    let next = if case.is_history(rules) {
        Next::now(
            Step::Nothing,
            "it stays as it is until a person acts; nobody is alerted, because it lies before routing.not_before",
        )
    } else {
        alert(case, rules, ledger)
    };
    Explanation { why: format!("{}; the scan worker failed it", infected(case)), next, remedy: cured(case) }
}

fn unreadable(fault: &LedgerFault) -> Explanation {
    Explanation {
        why: format!("it failed; why is not known, because {fault}"),
        next: Next::now(Step::Nothing, "it stays as it is until a person acts"),
        remedy: vec![
            Remedy::advice("the audit log tells what was sent and why it failed"),
            Remedy::advice("find out who wrote to submissions.routing_result"),
        ],
    }
}

/// Whether the failure has been reported; if so, only a person or retention follows.
fn alert(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> Next {
    let token = ledger.finished.as_ref().and_then(|finished| finished.token.as_ref());
    let confirmed = ledger
        .alert
        .as_ref()
        .filter(|alert| alert.finish.as_ref() == token)
        .and_then(|alert| alert.confirmed_at);
    match (confirmed, rules.alerts) {
        // The ledger's record stays true, whichever host alerted.
        (Some(at), _) => kept(
            case,
            &format!("it stays as it is until a person acts (Slack took its alert at {})", super::at(at)),
        ),
        (None, false) => Next::now(
            Step::Nothing,
            "it stays as it is until a person acts; nobody is alerted, because no slack.webhook_file is set",
        ),
        (None, true) => Next::now(
            Step::Alert,
            "it stays as it is until a person acts; its alert is sent until Slack confirms it",
        ),
    }
}

/// Ended and reported: only retention follows.
fn kept(case: &Case<'_>, stays: &str) -> Next {
    let retained = case.retained.unwrap_or(Retained { ends_at: case.retention_expires_at, kept: None });
    if let Some(why) = retained.kept {
        return Next::now(Step::Nothing, format!("{stays}; retention leaves it: {why}"));
    }
    match retained.ends_at {
        Some(end) if end > case.now => {
            Next::at(Step::Purge, format!("{stays}; then retention empties it"), end)
        }
        Some(_) => Next::now(Step::Purge, format!("{stays}; retention empties it at its next run")),
        None => Next::now(Step::Nothing, format!("{stays}; no retention period is set for it")),
    }
}

fn to_count(attempts: u32) -> usize {
    usize::try_from(attempts).unwrap_or(usize::MAX)
}
