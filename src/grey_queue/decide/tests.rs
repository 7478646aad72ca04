use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::grey_queue::entry::SubjectRef;
use crate::grey_queue::table::SECURITY;

pub(in crate::grey_queue) fn entry(state: State, assignee: Option<&str>) -> Entry {
    let at = Timestamp::UNIX_EPOCH;
    Entry {
        id: Uuid::nil(),
        version: 3,
        state,
        cause: "failed".to_owned(),
        reason: "refused".to_owned(),
        queue: "operations".to_owned(),
        subject: SubjectRef { kind: "submission".to_owned(), id: Uuid::nil() },
        form_id: None,
        detail: json!({}),
        occurrences: 1,
        opened_at: at,
        seen_at: at,
        state_since: at,
        expires_at: None,
        closed_at: None,
        assignee: assignee.map(ToOwned::to_owned),
        assigned_at: assignee.map(|_| at),
        escalation: None,
        rejection: None,
        resolution: None,
        job: None,
    }
}

fn person(name: &str, role: Who) -> Person {
    Person { name: name.to_owned(), role, label: format!("{role}:{name}") }
}

const REMEDIES: &[Remedy] = &[Remedy::Check, Remedy::Replay, Remedy::ForceDelivery];

fn of(
    entry: &Entry,
    ask: &Ask,
    person: &Person,
    looked: Option<&Looked>,
    hours: i64,
) -> Result<Plan, Refusal> {
    let role_of = |name: &str| match name {
        "anna" | "ben" => Some(REVIEWER),
        "vera" => Some(Who::named("viewer")),
        "sam" => Some(SECURITY),
        _ => None,
    };
    let now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(hours);
    let takeover_after = Duration::from_secs(4 * 3600);
    decide(
        entry,
        ask,
        person,
        &Rules { now, takeover_after, role_of: &role_of, remedies: REMEDIES, deciding: None, looked },
    )
}

fn way(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| format!("{} {}", step.transition.command(), step.transition.to())).collect()
}

#[test]
fn a_remedy_asked_for_in_a_review_is_all_the_steps_between() {
    let ask = Ask { remedy: Some(Remedy::Replay), ..Ask::because(Verb::Resolve, "mended") };
    let anna = person("anna", REVIEWER);
    let plan = of(&entry(State::UnderReview, Some("anna")), &ask, &anna, None, 0).expect("a plan");
    assert_eq!(way(&plan), ["unassign Pending", "start Processing"]);
    assert_eq!(plan.remedy, Some((Remedy::Replay, None)));
    assert_eq!(plan.steps[1].columns["requested_by"], "anna", "it comes back to its asker");
    let sam = person("sam", SECURITY);
    let plan = of(&entry(State::Escalated, Some("anna")), &ask, &sam, None, 0).expect("a plan");
    assert_eq!(way(&plan), ["de_escalate UnderReview", "unassign Pending", "start Processing"]);
    assert!(plan.assigned.is_none(), "nobody is told of what they have for no time");
}

#[test]
fn resolving_is_honest() {
    let anna = person("anna", REVIEWER);
    let mine = entry(State::UnderReview, Some("anna"));
    let ask = Ask::because(Verb::Resolve, "done");
    let sufficient = Looked::Sufficient(Evidence::Delivered);
    let plan = of(&mine, &ask, &anna, Some(&sufficient), 0).expect("evidence");
    assert_eq!(plan.steps[0].columns["resolution"], "delivered");
    let missing = Looked::Missing { what: vec!["1 of 2 bounced".to_owned()], failure: None, mendable: true };
    for looked in [Some(&missing), Some(&Looked::Gone), None] {
        let refused = of(&mine, &ask, &anna, looked, 0).expect_err("no evidence");
        assert!(matches!(refused, Refusal::EvidenceMissing(_)), "{refused}");
    }
    let vouched = Ask { vouch: true, ..ask.clone() };
    let plan = of(&mine, &vouched, &anna, Some(&missing), 0).expect("vouched for");
    assert_eq!(plan.steps[0].columns["resolution"], "vouched");
    let both = Ask { remedy: Some(Remedy::Replay), ..vouched };
    assert!(matches!(of(&mine, &both, &anna, None, 0), Err(Refusal::Guard { field: "vouch", .. })));
    let plan = of(&entry(State::Pending, None), &ask, &anna, Some(&sufficient), 0).expect("evidence");
    assert_eq!(way(&plan), ["assign UnderReview", "resolve Resolved"], "from Pending it is taken first");
}

#[test]
fn an_entry_is_taken_over_by_an_admin_or_after_a_while() {
    let ask = Ask { take_over: true, ..Ask::plain(Verb::Assign) };
    let annas = entry(State::UnderReview, Some("anna"));
    let (ben, ada) = (person("ben", REVIEWER), person("ada", ADMIN));
    assert!(
        matches!(of(&annas, &ask, &ben, None, 3), Err(Refusal::NotAllowed(why)) if why.contains("less than 4h"))
    );
    let plan = of(&annas, &ask, &ben, None, 4).expect("long enough");
    assert_eq!(way(&plan), ["unassign Pending", "assign UnderReview"]);
    assert!(of(&annas, &ask, &ada, None, 0).is_ok());
    let politely = Ask::plain(Verb::Assign);
    assert!(matches!(of(&annas, &politely, &ada, None, 9), Err(Refusal::Guard { field: "take_over", .. })));
    let anna = person("anna", REVIEWER);
    assert!(matches!(of(&annas, &ask, &anna, None, 9), Err(Refusal::Guard { field: "assignee", .. })));
}

#[test]
fn an_assignee_is_somebody_who_may_decide() {
    let pending = entry(State::Pending, None);
    let security = Entry { queue: "security".to_owned(), ..pending.clone() };
    let to = |name: &str| Ask { assignee: Some(name.to_owned()), ..Ask::plain(Verb::Assign) };
    let ada = person("ada", ADMIN);
    for nobody in ["vera", "zoe", ""] {
        let refused = of(&pending, &to(nobody), &ada, None, 0).expect_err(nobody);
        assert!(matches!(refused, Refusal::Guard { field: "assignee", .. }), "{nobody}: {refused}");
    }
    assert_eq!(
        of(&pending, &to("anna"), &ada, None, 0).expect("a reviewer").assigned.as_deref(),
        Some("anna")
    );
    assert!(of(&security, &to("anna"), &ada, None, 0).is_err(), "the security queue is its team's");
    assert!(of(&security, &to("sam"), &ada, None, 0).is_ok());
    let ben = person("ben", REVIEWER);
    assert!(
        matches!(of(&pending, &to("anna"), &ben, None, 0), Err(Refusal::NotAllowed(_))),
        "others: an admin"
    );
    assert!(of(&pending, &to("ben"), &ben, None, 0).expect("oneself").assigned.is_none());
}

#[test]
fn whoever_ends_or_opens_says_why_and_names_nobody() {
    let anna = person("anna", REVIEWER);
    let mine = |state| entry(state, Some("anna"));
    let ends = [
        (State::UnderReview, Verb::Resolve),
        (State::UnderReview, Verb::Reject),
        (State::Pending, Verb::Dismiss),
        (State::Rejected, Verb::Reopen),
        (State::Failed, Verb::Reset),
    ];
    for (state, verb) in ends {
        for reason in [None, Some(" \n")] {
            let ask = Ask { vouch: true, reason: reason.map(ToOwned::to_owned), ..Ask::plain(verb) };
            let refused = of(&mine(state), &ask, &anna, None, 0).expect_err("no reason");
            assert!(matches!(refused, Refusal::Guard { field: "reason", .. }), "{verb}: {refused}");
        }
    }
    let refused =
        of(&mine(State::UnderReview), &Ask::plain(Verb::Escalate), &anna, None, 0).expect_err("no reason");
    assert!(matches!(refused, Refusal::Guard { field: "escalation_reason", .. }));
    let ask = Ask::because(Verb::Reject, "asked jane.doe@example.org, \0 no");
    let plan = of(&mine(State::UnderReview), &ask, &anna, None, 0).expect("rejected");
    assert_eq!(plan.steps[0].columns["reject_reason"], "asked <address>,  no");
    let long = Ask::because(Verb::Reject, &"x".repeat(LONGEST + 1));
    assert!(matches!(
        of(&mine(State::UnderReview), &long, &anna, None, 0),
        Err(Refusal::Guard { field: "reason", .. })
    ));
}

#[test]
fn one_delivery_is_forced_by_its_key() {
    let anna = person("anna", REVIEWER);
    let ask = Ask { remedy: Some(Remedy::ForceDelivery), ..Ask::because(Verb::Start, "wrong address") };
    let pending = entry(State::Pending, None);
    assert!(matches!(of(&pending, &ask, &anna, None, 0), Err(Refusal::Guard { field: "delivery", .. })));
    let named = Ask { delivery: Some("1|a@x.test".to_owned()), ..ask.clone() };
    assert!(of(&pending, &named, &anna, None, 0).is_ok());
    let not_here = Ask { remedy: Some(Remedy::Redrive), ..ask };
    assert!(matches!(of(&pending, &not_here, &anna, None, 0), Err(Refusal::Guard { field: "remedy", .. })));
}

#[test]
fn what_is_possible_says_why_the_rest_is_not() {
    let anna = person("anna", REVIEWER);
    let role_of = |_: &str| Some(REVIEWER);
    let rules = Rules {
        now: Timestamp::UNIX_EPOCH,
        takeover_after: Duration::from_secs(60),
        role_of: &role_of,
        remedies: REMEDIES,
        deciding: None,
        looked: None,
    };
    let found = possible(&entry(State::UnderReview, Some("ben")), &anna, &rules);
    let commands: Vec<(&str, bool)> = found.iter().map(|one| (one.command.label(), one.allowed)).collect();
    assert_eq!(
        commands,
        [("assign", false), ("unassign", false), ("escalate", false), ("resolve", false), ("reject", false)]
    );
    assert!(found.iter().all(|one| one.why_not.as_ref().is_some_and(|why| why.contains("ben"))), "{found:?}");
    assert!(possible(&entry(State::Expired, None), &anna, &rules).is_empty());
}

#[test]
fn an_infected_file_that_was_mailed_is_a_persons_to_close() {
    let entry = Entry { cause: LATE_INFECTION.to_owned(), ..entry(State::UnderReview, Some("anna")) };
    let anna = person("anna", REVIEWER);
    let resolve = Ask::because(Verb::Resolve, "r");
    let delivered = Looked::Sufficient(Evidence::Delivered);
    let refused =
        of(&entry, &resolve, &anna, Some(&delivered), 1).expect_err("that it arrived is what is wrong");
    assert!(matches!(refused, Refusal::EvidenceMissing(_)), "{refused:?}");
    let vouched = Ask { vouch: true, ..resolve };
    let plan = of(&entry, &vouched, &anna, Some(&delivered), 1).expect("a person knows");
    assert_eq!(plan.ends_in(), Some(State::Resolved));
}
