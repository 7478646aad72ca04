//! What is said of tickets: made, in doubt, made twice, on hold, waiting for the help desk.

use super::*;
use crate::routing::explain::tickets::HelpDesk;

/// The tag of action 2 of the tables' submission.
const TAG: &str = "maple-00000000000000000000000000000001-2-0";

/// A mail and a ticket.
fn both(mail: &Value, ticket: &Value) -> Value {
    let mut plan = plan();
    plan.as_array_mut()
        .expect("a plan")
        .push(json!({"action_order": 2, "action_type": "happyfox_template", "destination": ""}));
    json!({"v": 1, "attempts": 1, "plan": plan, "deliveries": {"1|a@x": mail, "2|happyfox": ticket}})
}

fn accepted() -> Value {
    json!({"state": "accepted"})
}

fn made(more: &[u64]) -> Value {
    let ticket = |id: u64| json!({"id": id, "display_id": format!("HF{id}")});
    json!({"state": "accepted", "ticket": ticket(3), "also": more.iter().map(|id| ticket(*id)).collect::<Vec<_>>()})
}

#[test]
fn what_the_help_desk_made_is_named_beside_what_the_relay_took() {
    let routed = |stored| Row { status: Status::Routed, stored, ..Row::default() };
    let only = json!({"v": 1, "deliveries": {"1|happyfox": made(&[])}});
    for (row, why) in [
        (
            routed(both(&accepted(), &made(&[]))),
            "the relay accepted every delivery (1 of 1), and the help desk made its ticket HF3",
        ),
        (routed(only), "the help desk made its ticket HF3"),
        (
            routed(both(&accepted(), &json!({"state": "not_implemented"}))),
            "the relay accepted 1 delivery; 1 action is of a type that is not implemented yet",
        ),
    ] {
        let said = explained(&row, &rules());
        assert_eq!(said.why, why);
        assert!(said.remedy.is_empty(), "{said:?}");
    }
    let said = explained(&routed(both(&accepted(), &made(&[4, 5, 6, 7]))), &rules());
    assert!(
        said.why
            .ends_with("; the help desk has 4 further tickets with the same tag: HF4, HF5, HF6 and 1 more"),
        "{said:?}"
    );
    assert_eq!(
        said.remedy[0].line,
        format!("search the help desk for the tag {TAG}; keep HF3, and close the others")
    );
}

#[test]
fn a_ticket_in_doubt_is_looked_for_by_its_tag_and_a_mail_by_nothing_of_the_kind() {
    let doubt = json!({"state": "open", "doubt": true});
    let received = |stored| Row { stored, ..Row::default() };
    let ticket = explained(&received(both(&accepted(), &doubt)), &rules());
    assert!(
        ticket.why.ends_with("; 1 ticket in doubt: perhaps made, and searched for by its tag"),
        "{ticket:?}"
    );
    assert!(!ticket.why.contains("perhaps delivered"), "{ticket:?}");
    assert!(ticket.next.what.contains("; first the ticket is searched for by its tag"), "{ticket:?}");
    assert!(!ticket.next.what.contains("Message-ID"), "{ticket:?}");
    let mail = explained(&received(both(&doubt, &json!({"state": "open"}))), &rules());
    assert!(mail.why.contains("1 delivery in doubt") && !mail.why.contains("ticket"), "{mail:?}");
    assert!(mail.next.what.contains("Message-ID") && !mail.next.what.contains("tag"), "{mail:?}");
    let hold = explained(&received(both(&accepted(), &doubt)), &Rules { resend: false, ..rules() });
    assert!(hold.next.what.contains("by its tag: not found, it fails (routing.in_doubt)"), "{hold:?}");
}

#[test]
fn a_ticket_on_hold_names_the_tag_and_no_relays_log() {
    let held = json!({"state": "failed", "error": {"class": "in_doubt", "stage": "dot", "reply": "perhaps"}});
    let finished = json!({"token": "f", "at": NOW, "status": "failed", "reason": "in_doubt"});
    let failed = |mail: &Value, ticket: &Value| {
        let mut stored = both(mail, ticket);
        stored["finished"] = finished.clone();
        explained(&Row { status: Status::Failed, stored, ..Row::default() }, &rules())
    };
    let lines = |said: &Explanation| said.remedy.iter().map(|remedy| remedy.line.clone()).collect::<Vec<_>>();
    let ticket = lines(&failed(&accepted(), &held));
    assert!(
        ticket[0].starts_with(&format!("search the help desk for the tag {TAG};")) && ticket.len() == 2,
        "{ticket:?}"
    );
    let mail = lines(&failed(&held, &made(&[])));
    assert!(mail[0].contains("relay's log") && mail.len() == 2, "{mail:?}");
    assert_eq!(lines(&failed(&held, &held)).len(), 3);
}

#[test]
fn a_ticket_that_waits_for_the_help_desk_says_so_and_lets_mails_go() {
    let row = Row { stored: both(&accepted(), &json!({"state": "open"})), ..Row::default() };
    let said = |help_desk| {
        explained(&row, &rules()).within(&Around {
            id: Uuid::from_u128(1),
            daemon: Daemon::Working,
            help_desk,
            pause: None,
            letter: None,
        })
    };
    assert_eq!(said(HelpDesk::Works), explained(&row, &rules()));
    let out = said(HelpDesk::Out);
    assert!(out.why.contains("(breaker open)") && out.why.contains("mails go on"), "{out:?}");
    assert!(out.next.what.starts_with("the ticket once the help desk works again;"), "{out:?}");
    assert_eq!((out.next.code, out.remedy[0].verb), (Step::Attempt, Some("check")), "{out:?}");
    let throttles = said(HelpDesk::Throttles);
    assert!(throttles.why.contains("throttles us"), "{throttles:?}");
    assert!(throttles.next.what.starts_with("the ticket once the throttle has ended"), "{throttles:?}");
}
