//! What time brings: nothing expires unwarned, nothing that a person has is touched, what was mended elsewhere is found.

use std::sync::Arc;
use std::time::Duration;

use maple_router::grey_queue::commands::Subjects;
use maple_router::grey_queue::decide::{Ask, Verb};
use maple_router::grey_queue::store::Notice;
use maple_router::grey_queue::table::State;
use maple_router::grey_queue::upkeep::{Bounds, Upkeep};
use maple_router::kernel::subject::{Evidence, Looked, Remedy, Subject};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;

use crate::harness::{Bench, missing};

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn upkeep(bench: &Bench) -> (Upkeep, Incidents) {
    let incidents = Incidents::new().0;
    let upkeep = Upkeep {
        store: bench.store.clone(),
        subjects: Subjects::new([Arc::clone(&bench.room) as Arc<dyn Subject>]),
        bounds: Bounds {
            ttl: 30 * DAY,
            auto: ["exhausted", "no_actions"].map(str::to_owned).into(),
            max_attempts: 3,
            keep: 400 * DAY,
            every: Duration::from_secs(60),
        },
        clock: Arc::new(SystemClock),
        incidents: incidents.clone(),
        actor: "maple-router@test".into(),
    };
    (upkeep, incidents)
}

/// The days until the planned expiry, rounded.
async fn days(bench: &Bench, id: uuid::Uuid) -> Option<i64> {
    let sql = "SELECT round(extract(epoch FROM expiry_planned_at - now()) / 86400)::bigint FROM router.grey_queue WHERE id = $1";
    bench.eyes.query_one(sql, &[&id]).await.expect("asked").get(0)
}

#[tokio::test]
async fn nothing_expires_before_people_were_warned_for_a_day() {
    let bench = Bench::new().await;
    let (upkeep, _) = upkeep(&bench);
    let entry = bench.pending().await;
    upkeep.once().await.expect("a pass");
    assert_eq!(days(&bench, entry.id).await, Some(30));
    let late = format!(
        "UPDATE router.grey_queue SET expiry_planned_at = now() - interval '10 days' WHERE id = '{}'",
        entry.id
    );
    bench.eyes.batch_execute(&late).await.expect("long over");
    upkeep.once().await.expect("a pass");
    assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 0, "nobody was warned");
    let leased = bench
        .store
        .lease_notice(Notice::Expiring, 3 * DAY, 10, Duration::from_secs(60))
        .await
        .expect("leased");
    assert_eq!(leased.iter().map(|due| due.id).collect::<Vec<_>>(), [entry.id]);
    let again = bench
        .store
        .lease_notice(Notice::Expiring, 3 * DAY, 10, Duration::from_secs(60))
        .await
        .expect("asked");
    assert!(again.is_empty(), "one process tells people");
    assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 0, "a message on its way is no warning");
    bench.store.notified(Notice::Expiring, &[entry.id]).await.expect("confirmed");
    assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 0, "and then it is a day");
    let day = format!(
        "UPDATE router.grey_queue SET expires_at = expires_at - interval '24 hours' WHERE id = '{}'",
        entry.id
    );
    bench.eyes.batch_execute(&day).await.expect("a day later");
    assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 1);
    assert_eq!(bench.entry(entry.id).await.state, State::Expired);
    bench.chain(entry.id).await;
}

#[tokio::test]
async fn what_is_taken_does_not_expire_and_what_comes_back_has_its_time_anew() {
    let bench = Bench::new().await;
    let (upkeep, _) = upkeep(&bench);
    let entry = bench.pending().await;
    upkeep.once().await.expect("a pass");
    bench.store.notified(Notice::Expiring, &[entry.id]).await.expect("warned");
    let entry = bench.done(&bench.entry(entry.id).await, &Ask::plain(Verb::Assign), "anna").await;
    let over = format!(
        "UPDATE router.grey_queue SET expires_at = now() - interval '1 day' WHERE id = '{}'",
        entry.id
    );
    bench.eyes.batch_execute(&over).await.expect("over");
    assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 0, "a person has it");
    let entry = bench.done(&entry, &Ask::plain(Verb::Unassign), "anna").await;
    assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 0, "its time begins anew");
    assert_eq!(days(&bench, entry.id).await, None);
    upkeep.once().await.expect("a pass");
    assert_eq!(days(&bench, entry.id).await, Some(30));
}

#[tokio::test]
async fn an_entry_expires_before_retention_empties_its_submission() {
    let bench = Bench::new().await;
    let (upkeep, _) = upkeep(&bench);
    let entry = bench.pending().await;
    let soon = format!(
        "UPDATE submissions SET retention_expires_at = now() + interval '10 days' WHERE id = '{}'",
        entry.subject.id
    );
    bench.eyes.batch_execute(&soon).await.expect("ten days");
    upkeep.once().await.expect("a pass");
    assert_eq!(days(&bench, entry.id).await, Some(9));
}

#[tokio::test]
async fn the_policy_begins_what_nobody_has_touched_and_may_be_mended() {
    let bench = Bench::new().await;
    let (upkeep, _) = upkeep(&bench);
    let exhausted = bench.failed("exhausted").await;
    let empty = bench.failed("no_actions").await;
    let refused = bench.failed("refused").await;
    let touched = bench.failed("exhausted").await;
    let hopeless = Looked::Missing { what: Vec::new(), failure: None, mendable: false };
    bench.room.says(empty, hopeless);
    let entry = bench.only(touched).await;
    let entry = bench.done(&entry, &Ask::plain(Verb::Assign), "anna").await;
    bench.done(&entry, &Ask::plain(Verb::Unassign), "anna").await;
    upkeep.once().await.expect("a pass");
    let entry = bench.only(exhausted).await;
    assert_eq!((entry.state, entry.job.map(|job| job.remedy)), (State::Processing, Some(Remedy::Replay)));
    assert_eq!(bench.only(empty).await.state, State::Pending, "its form still has no action");
    assert_eq!(bench.only(refused).await.state, State::Pending, "a person has to look at it");
    assert_eq!(bench.only(touched).await.state, State::Pending, "a person has looked at it");
    bench.room.says(empty, missing());
    upkeep.once().await.expect("a pass");
    let entry = bench.only(empty).await;
    assert_eq!((entry.state, entry.job.map(|job| job.remedy)), (State::Processing, Some(Remedy::Replan)));
    let history = bench.store.history(entry.id).await.expect("asked");
    assert_eq!(
        history.last().map(|line| (line.command.as_str(), line.reason.as_deref())),
        Some(("start", Some("policy")))
    );
}

#[tokio::test]
async fn what_was_mended_elsewhere_is_found() {
    let bench = Bench::new().await;
    let (upkeep, _) = upkeep(&bench);
    let entry = bench.pending().await;
    bench.room.says(entry.subject.id, Looked::Sufficient(Evidence::Delivered));
    upkeep.once().await.expect("a pass");
    let entry = bench.entry(entry.id).await;
    assert_eq!((entry.state, entry.job.map(|job| job.remedy)), (State::Processing, Some(Remedy::Check)));
    assert!(bench.remedies(entry.subject.id).await.is_empty(), "a check only looks");
}

#[tokio::test]
async fn entries_of_a_submission_that_is_gone_end_and_say_so() {
    let bench = Bench::new().await;
    let (upkeep, _) = upkeep(&bench);
    let mut entries = Vec::new();
    for state in [State::Pending, State::Retrying, State::UnderReview, State::Escalated, State::Processing] {
        entries.push(bench.in_state(state, "operations", "anna").await);
    }
    let sql = "UPDATE submissions SET status = 'purged', routing_result = '{}'";
    bench.eyes.batch_execute(sql).await.expect("emptied");
    upkeep.once().await.expect("a pass");
    let mut ends = Vec::new();
    for entry in &entries {
        ends.push(bench.entry(entry.id).await.state);
    }
    let expected = [State::Expired, State::Failed, State::Rejected, State::Rejected, State::Processing];
    assert_eq!(ends, expected, "what a worker has ends by its next look");
    let rejected = bench.entry(entries[2].id).await;
    let rejection = rejected.rejection.expect("a rejection");
    assert_eq!(
        (rejection.by.as_str(), rejection.reason.as_str()),
        ("system", "retention has emptied its subject")
    );
}

#[tokio::test]
async fn people_are_told_of_escalations_and_of_remedies_that_were_given_up() {
    let bench = Bench::new().await;
    let escalated = bench.in_state(State::Escalated, "operations", "anna").await;
    let failed = bench.in_state(State::Failed, "operations", "anna").await;
    for (notice, entry) in [(Notice::Escalated, &escalated), (Notice::Failed, &failed)] {
        let ids = async || {
            let due = bench.store.unnotified(notice, DAY, 10).await.expect("asked");
            due.iter().map(|due| due.id).collect::<Vec<_>>()
        };
        assert_eq!(ids().await, [entry.id], "{notice}");
        bench.store.lease_notice(notice, DAY, 10, Duration::from_secs(60)).await.expect("leased");
        assert!(ids().await.is_empty(), "{notice}: on its way");
        bench.store.give_notice_back(&[entry.id]).await.expect("given back");
        assert_eq!(ids().await, [entry.id], "{notice}: not taken");
        bench.store.notified(notice, &[entry.id]).await.expect("confirmed");
        assert!(ids().await.is_empty(), "{notice}: told");
    }
    assert!(bench.entry(escalated.id).await.escalation.expect("escalated").notified_at.is_some());
    // Asked once more, people are told once more.
    let entry = bench.done(&bench.entry(escalated.id).await, &Ask::plain(Verb::DeEscalate), "sam").await;
    let again = Ask { escalation_reason: Some("again".to_owned()), ..Ask::plain(Verb::Escalate) };
    bench.done(&entry, &again, "anna").await;
    assert_eq!(bench.store.unnotified(Notice::Escalated, DAY, 10).await.expect("asked").len(), 1);
}

#[tokio::test]
async fn old_entries_go_with_their_history_but_not_while_they_would_be_opened_anew() {
    let bench = Bench::new().await;
    let (gone, kept) = (
        bench.in_state(State::Dismissed, "operations", "anna").await,
        bench.in_state(State::Dismissed, "operations", "anna").await,
    );
    let young = bench.in_state(State::Dismissed, "operations", "anna").await;
    let sql = format!(
        "ALTER TABLE router.grey_queue DISABLE TRIGGER USER;
         UPDATE router.grey_queue SET closed_at = now() - interval '500 days' WHERE id IN ('{}', '{}');
         ALTER TABLE router.grey_queue ENABLE TRIGGER USER;
         UPDATE submissions SET status = 'routed' WHERE id IN ('{}', '{}')",
        gone.id, kept.id, gone.subject.id, young.subject.id
    );
    bench.eyes.batch_execute(&sql).await.expect("old");
    assert_eq!(bench.store.prune_closed(400 * DAY, 100).await.expect("pruned"), 1);
    assert!(bench.store.get(gone.id).await.expect("asked").is_none());
    assert!(bench.store.history(gone.id).await.expect("asked").is_empty());
    assert!(
        bench.store.get(kept.id).await.expect("asked").is_some()
            && bench.store.get(young.id).await.expect("asked").is_some()
    );
    assert!(bench.store.prune_closed(Duration::from_secs(3600), 100).await.is_err(), "never what is young");
}

#[tokio::test]
async fn a_failure_without_an_entry_is_an_incident_until_the_next_look() {
    let bench = Bench::new().await;
    let (upkeep, incidents) = upkeep(&bench);
    bench.db.alter("ALTER TABLE submissions DISABLE TRIGGER router_born_failed").await.expect("off");
    let missed = bench.failed("refused").await;
    upkeep.once().await.expect("a pass");
    assert_eq!(bench.only(missed).await.state, State::Pending);
    let open: Vec<&str> = incidents.keys().iter().map(|key| key.label()).collect();
    assert_eq!(open, ["review_reconciled"]);
    upkeep.once().await.expect("a pass");
    assert!(incidents.keys().is_empty());
}
