//! Replay against the real statements, and what becomes of facts that come after it.

use maple_router::routing::decide::replay::{Force, ReplayOptions, ReplayRefusal};
use maple_router::routing::store::{Claimed, Conclusion, Recorded, Replayed};
use serde_json::json;

use super::*;

const PLAIN: ReplayOptions<'_> = ReplayOptions { force: None, replan: false };
const FORCED: ReplayOptions<'_> = ReplayOptions { force: Some(Force::Action(1)), replan: false };

impl Bench {
    async fn replay(&self, id: Uuid, options: ReplayOptions<'_>) -> Replayed {
        self.store.replay(id, options, OPERATOR, false).await.expect("answered")
    }

    /// A submission with everything accepted, under the nonce `n1`.
    async fn routed(&self) -> Uuid {
        let id = self.claimed("t").await;
        let ended = self.store.record(scope(id, "t", &all_tried()), &all_accepted("t", "n1")).await;
        assert!(matches!(ended, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{ended:?}");
        id
    }

    async fn late(&self, id: Uuid, entries: &Entries) -> Row {
        let recorded = self.store.record(scope(id, "gone", &all_tried()), entries).await;
        assert!(matches!(recorded, Ok(Recorded::Stale)), "{recorded:?}");
        self.row(id).await
    }
}

#[tokio::test]
async fn a_replay_opens_what_failed_and_leaves_who_why_and_what_was() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let all =
        [(A, accepted("QA")), (B, maple_router::ports::Outcome::Refused(fault(550))), (C, accepted("QC"))];
    bench.store.record(scope(id, "t", &all_tried()), &entries("t", "n1", &all)).await.expect("recorded");
    bench
        .tamper(
            id,
            "routing_result = routing_result || '{\"theirs\": 7, \"resets\": 4, \"next_attempt_at\": \"2036-01-01T00:00:00Z\",
             \"alert\": {\"for\": \"t\", \"confirmed_at\": \"2026-01-01T00:00:00Z\"}}'",
        )
        .await;
    let before = bench.row(id).await;
    let dry = bench.store.replay(id, PLAIN, OPERATOR, true).await.expect("answered");
    assert!(matches!(dry, Replayed::Done { .. }), "{dry:?}");
    assert_eq!(bench.row(id).await, before, "a dry run writes nothing");
    let Replayed::Done { form_id, replay } = bench.replay(id, PLAIN).await else { panic!("it failed") };
    assert_eq!((form_id.as_str(), replay.open), ("f", keys(&[B])));
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
    assert!(row.updated_at > before.updated_at, "the sweep counts from here");
    for gone in ["finished", "alert", "next_attempt_at", "claim"] {
        assert!(row.ledger.get(gone).is_none(), "{gone}: {row:?}");
    }
    assert_eq!((&row.ledger["theirs"], &row.ledger["resets"]), (&json!(7), &json!(0)), "{row:?}");
    assert_eq!((row.entry(A), row.entry(C)), (before.entry(A), before.entry(C)));
    assert_eq!((&row.entry(B)["state"], &row.entry(B)["error"]["code"]), (&json!("open"), &json!(550)));
    assert_eq!(row.ledger["plan"], before.ledger["plan"]);
    let noted = &row.ledger["overrides"][0];
    assert_eq!((&noted["actor"], &noted["verb"]), (&json!("operator:test"), &json!("replay")));
    assert_eq!((&noted["reason"], &noted["finished"]), (&json!("a test"), &before.ledger["finished"]));
    assert!(noted["at"].is_string(), "{noted}");
    // Twice is once.
    let again = bench.replay(id, PLAIN).await;
    assert_eq!(
        again,
        Replayed::Refused(ReplayRefusal::NotEnded(maple_router::routing::table::Status::Received))
    );
    let Claimed::Taken(taken) = bench.claim(id, "t2").await else { panic!("it is free") };
    assert_eq!(taken.ledger.attempts, 1);
    assert_eq!(bench.replay(Uuid::nil(), PLAIN).await, Replayed::Unknown);
}

#[tokio::test]
async fn an_infected_submission_is_not_replayed_while_it_is_infected() {
    let bench = Bench::new().await;
    let id = bench.insert(&SubmissionSeed::of("f").attachment("a", "infected")).await;
    bench.claim(id, "t").await;
    assert_eq!(bench.replay(id, PLAIN).await, Replayed::Refused(ReplayRefusal::Infected));
    assert_eq!(bench.row(id).await.status, "failed");
    bench.eyes.execute("UPDATE attachments SET clamav_status = 'clean'", &[]).await.expect("clean");
    assert!(matches!(bench.replay(id, PLAIN).await, Replayed::Done { .. }));
    assert!(matches!(bench.claim(id, "t2").await, Claimed::Taken(_)));
}

#[tokio::test]
async fn a_fact_of_a_former_generation_closes_nothing_and_is_kept() {
    let bench = Bench::new().await;
    let id = bench.routed().await;
    bench.replay(id, FORCED).await;
    let opened = bench.row(id).await;
    assert_eq!(
        (&opened.entry(A)["state"], &opened.entry(A)["history"][0]["nonce"]),
        (&json!("open"), &json!("n1"))
    );
    // The record whose answer was lost, repeated: known by its nonce in the history.
    let again = bench.late(id, &all_accepted("t", "n1")).await;
    assert_eq!(again.text, opened.text, "nothing is recorded twice");
    // Another acceptance of the former mail: the forced one is still to be sent.
    let row = bench.late(id, &entries("gone", "n2", &[(A, accepted("Q2")), (C, accepted("Q3"))])).await;
    let entry = row.entry(A);
    assert_eq!((&entry["state"], &entry["dups"][0]["nonce"]), (&json!("open"), &json!("n2")), "{entry}");
    assert_eq!(row.entry(C)["dups"][0]["nonce"], "n2", "action 2 is of the same generation as ever");
    let trail = bench.audit(id).await;
    let flags: Vec<_> = trail[trail.len() - 2..].iter().map(|(_, detail)| &detail["duplicate"]).collect();
    assert_eq!(flags, [&json!(true), &json!(true)], "both are the second of their mail: {trail:?}");
    // The mail that was asked for.
    let Claimed::Taken(taken) = bench.claim(id, "t2").await else { panic!("it is free") };
    assert_eq!(taken.ledger.generation(1), 1);
    let sent = entries_of(1, "t2", "n4", &[(A, accepted("Q4")), (B, accepted("Q4"))]);
    let ended = bench.store.record(scope(id, "t2", &all_tried()), &sent).await;
    assert!(matches!(ended, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{ended:?}");
    let row = bench.row(id).await;
    assert_eq!(
        (&row.entry(A)["queue_id"], &row.entry(A)["generation"]),
        (&json!("Q4"), &json!(1)),
        "{row:?}"
    );
    assert_eq!(bench.late(id, &sent).await.text, row.text, "known by its nonce");
    let (_, detail) = &bench.audit(id).await[trail.len()];
    assert_eq!((&detail["generation"], &detail["duplicate"]), (&json!(1), &json!(false)), "{detail}");
}

#[tokio::test]
async fn a_fact_without_a_generation_is_of_the_first() {
    let bench = Bench::new().await;
    let id = bench.routed().await;
    bench.replay(id, FORCED).await;
    let mut old = entries("gone", "n2", &[(A, accepted("Q2"))]);
    old.facts[A]["fact"].as_object_mut().expect("a fact").remove("generation");
    let row = bench.late(id, &old).await;
    assert_eq!((&row.entry(A)["state"], &row.entry(A)["dups"][0]["nonce"]), (&json!("open"), &json!("n2")));
    // Without a forced action it closes, as it did before generations were written.
    let id = bench.claimed("t").await;
    let row = bench.late(id, &old).await;
    assert_eq!(row.entry(A)["state"], "accepted", "{row:?}");
}

#[tokio::test]
async fn a_late_fact_saves_the_mail_that_a_plain_replay_would_send() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let refused = || maple_router::ports::Outcome::Refused(fault(550));
    let all = [(A, refused()), (B, accepted("QB")), (C, accepted("QC"))];
    bench.store.record(scope(id, "t", &all_tried()), &entries("t", "n1", &all)).await.expect("recorded");
    bench.replay(id, PLAIN).await;
    let row = bench.late(id, &entries("gone", "n0", &[(A, accepted("Q0"))])).await;
    assert_eq!(row.entry(A)["state"], "accepted", "the same mail: {row:?}");
    bench.claim(id, "t2").await;
    let ended = bench.store.record(scope(id, "t2", &BTreeSet::new()), &Entries::default()).await;
    assert!(matches!(ended, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{ended:?}");
}

#[tokio::test]
async fn a_damaged_ledger_replays_as_a_fresh_one_and_a_fact_meanwhile_hides_nobody() {
    let bench = Bench::new().await;
    let id = bench.insert(&SubmissionSeed::of("f").ledger(json!({"v": 1, "attempts": "many"}))).await;
    bench.claim(id, "t").await;
    let failed = bench.row(id).await;
    assert_eq!((failed.status.as_str(), failed.reason()), ("failed", Some("ledger_damaged")));
    bench.late(id, &entries_of(3, "gone", "n0", &[(A, accepted("Q0"))])).await;
    assert!(matches!(bench.replay(id, PLAIN).await, Replayed::Done { .. }));
    let Claimed::Taken(taken) = bench.claim(id, "t2").await else { panic!("it is free") };
    let states = taken.ledger.counts();
    assert_eq!((states["accepted"], states["open"]), (1, 2), "A was sent to, B and C were not: {states:?}");
}

#[tokio::test]
async fn a_new_plan_is_what_the_form_says_now() {
    let bench = Bench::new().await;
    let id = bench.routed().await;
    let replan = ReplayOptions { force: None, replan: true };
    assert_eq!(bench.replay(id, replan).await, Replayed::Refused(ReplayRefusal::NothingToSend));
    devkit::forms::load_into(&bench.db, &[Form::new("f").mail_to("b@x.test, z@x.test")])
        .await
        .expect("forms");
    let before = bench.row(id).await;
    assert!(matches!(bench.replay(id, replan).await, Replayed::Done { .. }));
    let row = bench.row(id).await;
    assert_eq!(row.ledger["plan"][0]["destination"], "b@x.test, z@x.test", "{row:?}");
    for key in [A, B, C] {
        assert_eq!(row.entry(key), before.entry(key), "what happened stays");
    }
    assert_eq!(row.entry("1|z@x.test")["state"], "open");
    // A late fact of a recipient that is gone is visible as well, and the end is an end.
    bench.claim(id, "t2").await;
    let sent = entries("t2", "n2", &[("1|z@x.test", accepted("QZ"))]);
    let ended = bench.store.record(scope(id, "t2", &BTreeSet::from([1])), &sent).await;
    assert!(matches!(ended, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{ended:?}");
}

#[tokio::test]
async fn another_acceptance_of_a_neighbours_mail_is_a_duplicate_of_it() {
    let bench = Bench::new().await;
    let id = bench.routed().await;
    let only_b = ReplayOptions { force: Some(Force::Delivery(B)), replan: false };
    let Replayed::Done { replay, .. } = bench.replay(id, only_b).await else { panic!("it is routed") };
    assert_eq!(replay.open, [B]);
    let row = bench.late(id, &entries("gone", "n2", &[(A, accepted("Q2")), (B, accepted("Q2"))])).await;
    assert_eq!(
        (&row.entry(A)["state"], &row.entry(A)["dups"][0]["nonce"]),
        (&json!("accepted"), &json!("n2"))
    );
    assert_eq!((&row.entry(B)["state"], &row.entry(B)["dups"][0]["nonce"]), (&json!("open"), &json!("n2")));
    let trail = bench.audit(id).await;
    let flags: Vec<_> = trail[trail.len() - 2..].iter().map(|(_, detail)| &detail["duplicate"]).collect();
    assert_eq!(flags, [&json!(true), &json!(true)], "both recipients have theirs twice: {trail:?}");
    let noted = row.ledger["overrides"][0].clone();
    assert_eq!((&noted["force_action"], &noted["force_delivery"]), (&json!(1), &json!("2/2")), "{noted}");
    assert!(!noted.to_string().contains('@'), "{noted}");
    let twice = bench.replay(id, only_b).await;
    assert!(matches!(twice, Replayed::Refused(ReplayRefusal::NotEnded(_))), "{twice:?}");
}
