//! A submission as the subject of a review: looks, remedies and refusals, on the real statements and in the caller's
//! transaction.

use std::sync::Arc;

use maple_router::kernel::subject::{Evidence, Looked, OnAccount, Remedied, Remedy, Subject};
use maple_router::ops::rng::Rng;
use maple_router::parts;
use maple_router::ports::{Outcome, RelayStatus};
use maple_router::routing::subject::SubmissionSubject;
use serde_json::json;

use super::delivery::seen;
use super::*;
use crate::subjects::{ACCOUNT, Lines, committed, rolled_back, words};

/// The subject, and the pool of whoever asks for its remedies.
struct Desk {
    subject: SubmissionSubject,
    pool: Pool,
}

impl Bench {
    fn desk(&self, followed: bool) -> Desk {
        let mut config = config(&self.db, 4);
        config.relay_log.enabled = followed;
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let rng = Arc::new(Rng::seeded(5));
        let subject = parts::submission_subject(&config, self.store.clone(), pool.clone(), rng);
        Desk { subject: subject.expect("a subject"), pool }
    }

    /// A submission of which B was refused.
    async fn failed(&self) -> Uuid {
        let id = self.claimed("t").await;
        let all = [(A, accepted("QA")), (B, Outcome::Refused(fault(550))), (C, accepted("QC"))];
        self.store.record(scope(id, "t", &all_tried()), &entries("t", "n1", &all)).await.expect("recorded");
        assert_eq!(self.row(id).await.status, "failed");
        id
    }

    /// Sends what is open under `token`, all of it accepted.
    async fn routed_again(&self, id: Uuid, token: &str, keys: &[&str]) {
        let Claimed::Taken(_) = self.claim(id, token).await else { panic!("it is free") };
        let sent: Vec<_> = keys.iter().map(|key| (*key, accepted("QZ"))).collect();
        let sent = entries(token, "n2", &sent);
        self.store.record(scope(id, token, &all_tried()), &sent).await.expect("recorded");
        assert_eq!(self.row(id).await.status, "routed");
    }
}

impl Desk {
    async fn remedy(&self, id: Uuid, remedy: Remedy) -> Remedied {
        committed(&self.subject, &self.pool, id, remedy, ACCOUNT).await
    }

    async fn refused(&self, id: Uuid, remedy: Remedy) -> String {
        words(self.remedy(id, remedy).await)
    }

    async fn look(&self, id: Uuid) -> Looked {
        self.subject.look(id).await.expect("a look")
    }

    async fn missing(&self, id: Uuid) -> (Vec<String>, Option<String>) {
        match self.look(id).await {
            Looked::Missing { what, failure, .. } => (what, failure),
            other @ (Looked::Sufficient(_) | Looked::Gone) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_look_says_what_the_row_and_the_relays_reports_say() {
    let bench = Bench::new().await;
    let (followed, unfollowed) = (bench.desk(true), bench.desk(false));
    let id = bench.failed().await;
    let said = (keys(&["the submission is failed: refused"]), Some("t".to_owned()));
    assert_eq!((followed.missing(id).await, unfollowed.missing(id).await), (said.clone(), said));
    assert_eq!(followed.remedy(id, Remedy::Replay).await, Remedied::Done);
    assert_eq!(followed.missing(id).await, (keys(&["the submission is received: it has not ended"]), None));
    bench.routed_again(id, "t2", &[B]).await;
    assert_eq!(unfollowed.look(id).await, Looked::Sufficient(Evidence::Routed));
    let unreported = "3 of 3 deliveries are not reported as delivered: no report yet 3";
    assert_eq!(followed.missing(id).await, (keys(&[unreported]), None));
    let reports = [
        seen(id, A, RelayStatus::Delivered, "QA"),
        seen(id, B, RelayStatus::Bounced, "QZ"),
        seen(id, C, RelayStatus::Delivered, "QC"),
    ];
    bench.store.record_seen(&reports, "me").await.expect("recorded");
    let (what, _) = followed.missing(id).await;
    assert_eq!(what, ["1 of 3 deliveries is not reported as delivered: bounced 1"]);
    assert!(!what.concat().contains('@'), "{what:?}");
    // Another mail of the same delivery got through.
    bench.store.record_seen(&[seen(id, B, RelayStatus::Delivered, "QY")], "me").await.expect("recorded");
    assert_eq!(followed.look(id).await, Looked::Sufficient(Evidence::Delivered));
    bench.tamper(id, "routing_result = routing_result || '{\"attempts\": \"a@x.test\"}'").await;
    let (what, failure) = followed.missing(id).await;
    assert_eq!(what[1..], ["its ledger is damaged: what was sent is not known"]);
    assert_eq!(failure, None);
    bench.tamper(id, "status = 'purged'").await;
    assert_eq!((followed.look(id).await, followed.look(Uuid::nil()).await), (Looked::Gone, Looked::Gone));
}

#[tokio::test]
async fn a_remedy_leaves_what_the_verb_leaves_and_the_attempt_that_asked() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let lines = Lines::default();
    let _kept = lines.keep();
    let id = bench.failed().await;
    let by_verb = bench.failed().await;
    assert_eq!(desk.remedy(id, Remedy::Replay).await, Remedied::Done);
    let by_hand = Override { actor: ACCOUNT.actor, reason: Some(ACCOUNT.reason), ..OPERATOR };
    drop(bench.store.replay(by_verb, Default::default(), by_hand, false).await.expect("replayed"));
    let (row, of_verb) = (bench.row(id).await, bench.row(by_verb).await);
    assert_eq!((row.status.as_str(), &row.entry(B)["state"]), ("received", &json!("open")), "{row:?}");
    let noted = |row: &Row| {
        let mut noted = row.ledger["overrides"][0].as_object().expect("an override").clone();
        let review = noted.remove("review");
        noted.remove("at").expect("a time");
        noted["finished"].as_object_mut().expect("an end").remove("at").expect("a time");
        (Value::Object(noted), review)
    };
    let ((by_desk, review), (by_verb, none)) = (noted(&row), noted(&of_verb));
    assert_eq!((by_desk, review, none), (by_verb, Some(json!("entry:1")), None));

    let said = lines.overrides();
    assert_eq!(said.len(), 1, "{said:?}");
    for (field, value) in [
        ("submission_id", json!(id.to_string())),
        ("form_id", json!("f")),
        ("actor", json!("reviewer:ada")),
        ("verb", json!("replay")),
        ("reason", json!("a test")),
        ("replan", json!(false)),
        ("message", json!("an operator has it routed again: 1 deliveries are open")),
    ] {
        assert_eq!(said[0][field], value, "{said:?}");
    }
}

#[tokio::test]
async fn a_replan_takes_the_forms_present_actions() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let id = bench.failed().await;
    devkit::forms::load_into(&bench.db, &[Form::new("f").mail_to("z@x.test")]).await.expect("forms");
    assert_eq!(desk.remedy(id, Remedy::Replan).await, Remedied::Done);
    let row = bench.row(id).await;
    assert_eq!(row.ledger["plan"][0]["destination"], "z@x.test");
    let noted = &row.ledger["overrides"][0];
    assert_eq!((&noted["verb"], &noted["replan"]), (&json!("replay"), &json!(true)), "{noted}");
    // The recipients of before keep what happened to them, and the plan wants only z.
    bench.routed_again(id, "t2", &["1|z@x.test"]).await;
    let (what, _) = desk.missing(id).await;
    assert_eq!(what, ["1 of 1 deliveries is not reported as delivered: no report yet 1"]);
}

#[tokio::test]
async fn a_forced_delivery_is_sent_again_alone_and_no_word_of_it_has_its_address() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let lines = Lines::default();
    let _kept = lines.keep();
    let id = bench.failed().await;
    desk.remedy(id, Remedy::Replay).await;
    bench.routed_again(id, "t2", &[B]).await;
    let said = lines.overrides().len();
    let account = |delivery| OnAccount { delivery, review: "entry:2", ..ACCOUNT };
    for (delivery, why) in [
        (None, "say which delivery shall be sent again"),
        (Some("1|z@x.test"), "its plan has no such delivery"),
    ] {
        let answer = committed(&desk.subject, &desk.pool, id, Remedy::ForceDelivery, account(delivery)).await;
        let answer = words(answer);
        assert!(answer.starts_with(why) && !answer.contains('@'), "{answer}");
    }
    let before = bench.row(id).await;
    assert_eq!((before.status.as_str(), lines.overrides().len()), ("routed", said));
    let forced = committed(&desk.subject, &desk.pool, id, Remedy::ForceDelivery, account(Some(A))).await;
    assert_eq!(forced, Remedied::Done);
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), &row.entry(A)["state"]), ("received", &json!("open")), "{row:?}");
    assert_eq!((row.entry(B), row.entry(C)), (before.entry(B), before.entry(C)));
    let noted = &row.ledger["overrides"][1];
    assert_eq!(
        (&noted["verb"], &noted["force_action"], &noted["force_delivery"], &noted["review"]),
        (&json!("replay"), &json!(1), &json!("1/2"), &json!("entry:2"))
    );
    let line = lines.overrides().pop().expect("a line");
    assert_eq!((&line["force_action"], &line["delivery"]), (&json!(1), &json!("1/2")), "{line}");
    assert!(!format!("{noted} {line}").contains('@'), "{noted} {line}");
}

#[tokio::test]
async fn a_release_gives_the_claim_back_and_a_claim_that_is_none_is_refused() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let lines = Lines::default();
    let _kept = lines.keep();
    let id = bench.claimed("t").await;
    bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun");
    assert_eq!(desk.remedy(id, Remedy::Release).await, Remedied::Done);
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), &row.entry(A)["doubt"]), ("received", &json!(true)), "{row:?}");
    let noted = &row.ledger["overrides"][0];
    assert_eq!(
        (&noted["actor"], &noted["verb"], &noted["reason"], &noted["review"]),
        (&json!("reviewer:ada"), &json!("release"), &json!("a test"), &json!("entry:1"))
    );
    let said = lines.overrides();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (&said[0]["verb"], &said[0]["message"]),
        (&json!("release"), &json!("an operator took a claim back from worker host/1"))
    );
    // Another attempt finds nothing to give back.
    let account = OnAccount { review: "entry:2", ..ACCOUNT };
    let why = words(committed(&desk.subject, &desk.pool, id, Remedy::Release, account).await);
    assert!(why.starts_with("it is received, not processing: "), "{why}");
}

#[tokio::test]
async fn what_the_verb_refuses_is_refused_in_its_words_and_leaves_no_trace() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let lines = Lines::default();
    let _kept = lines.keep();
    let open = bench.ready().await;
    let claimed = bench.claimed("t").await;
    let infected = bench.insert(&SubmissionSeed::of("f").attachment("a", "infected")).await;
    bench.claim(infected, "t").await;
    let purged = bench.insert(&SubmissionSeed::of("f").status("purged")).await;
    let newer = bench.insert(&SubmissionSeed::of("f").status("failed").ledger(json!({"v": 9}))).await;
    let newer_claim =
        bench.insert(&SubmissionSeed::of("f").status("processing").ledger(json!({"v": 9}))).await;
    let unknown = Uuid::nil();
    let routed = bench.failed().await;
    desk.remedy(routed, Remedy::Replay).await;
    bench.routed_again(routed, "t2", &[B]).await;
    bench.tamper(routed, "routing_result = routing_result - 'overrides'").await;
    let before = lines.overrides().len();
    let there = [open, claimed, infected, purged, newer, newer_claim, routed];
    let rows = async || futures::future::join_all(there.map(|id| bench.row(id))).await;
    let as_they_were = rows().await;
    for (id, remedy, why) in [
        (open, Remedy::Replay, "it is received: it has not ended"),
        (claimed, Remedy::Replan, "it is processing: it has not ended"),
        (infected, Remedy::Replay, "an attachment is infected (rb-008)"),
        (purged, Remedy::Replay, "it is purged"),
        (newer, Remedy::Replay, "the ledger is of version 9"),
        (routed, Remedy::Replay, "it is routed: say what shall be sent again"),
        (routed, Remedy::Replan, "every recipient of the form's current actions has its mail already"),
        (unknown, Remedy::Replay, "there is no such submission"),
        (open, Remedy::Release, "it is received, not processing: nobody holds a claim of it"),
        (routed, Remedy::Release, "it is routed, not processing: it has ended"),
        (newer_claim, Remedy::Release, "a newer version of this program wrote its ledger"),
        (unknown, Remedy::Release, "there is no such submission"),
        (open, Remedy::Redrive, "a submission has no remedy redrive"),
    ] {
        let said = desk.refused(id, remedy).await;
        assert!(said.starts_with(why), "{remedy}: {said}");
    }
    for id in there.into_iter().chain([unknown]) {
        assert_eq!(desk.remedy(id, Remedy::Check).await, Remedied::Done, "only looked at");
    }
    assert_eq!(rows().await, as_they_were);
    assert_eq!(lines.overrides().len(), before);
}

#[tokio::test]
async fn whoever_owns_the_transaction_can_undo_a_remedy_and_nothing_happened() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let lines = Lines::default();
    let _kept = lines.keep();
    let (failed, claimed) = (bench.failed().await, bench.claimed("t").await);
    for (id, remedy) in [(failed, Remedy::Replay), (failed, Remedy::Replan), (claimed, Remedy::Release)] {
        let before = (bench.row(id).await, bench.audited(id).await);
        let answer = rolled_back(&desk.subject, &desk.pool, id, remedy, ACCOUNT).await;
        assert_eq!(answer, Remedied::Done, "{remedy}");
        assert_eq!((bench.row(id).await, bench.audited(id).await), before, "{remedy}");
    }
    assert_eq!(lines.overrides(), Vec::<Value>::new(), "a line is the commit's");
    // Nothing stands in the way of the next one.
    assert_eq!(desk.remedy(failed, Remedy::Replay).await, Remedied::Done);
    assert_eq!(lines.overrides().len(), 1);
}

#[tokio::test]
async fn an_attempt_is_carried_out_once_however_often_it_is_asked_for() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let id = bench.failed().await;
    assert_eq!(desk.remedy(id, Remedy::Replay).await, Remedied::Done);
    let once = bench.row(id).await;
    assert_eq!(desk.remedy(id, Remedy::Replay).await, Remedied::Done, "the answer to the commit was lost");
    assert_eq!(bench.row(id).await, once);
    // Failed anew: the same attempt is over, the next one is not.
    bench.claim(id, "t2").await;
    let refused = entries("t2", "n2", &[(B, Outcome::Refused(fault(550)))]);
    bench.store.record(scope(id, "t2", &all_tried()), &refused).await.expect("recorded");
    assert_eq!(desk.missing(id).await.1.as_deref(), Some("t2"), "another failure, with a key of its own");
    let failed = bench.row(id).await;
    desk.remedy(id, Remedy::Replay).await;
    assert_eq!(bench.row(id).await, failed);
    let account = OnAccount { review: "entry:2", ..ACCOUNT };
    committed(&desk.subject, &desk.pool, id, Remedy::Replay, account).await;
    assert_eq!(bench.row(id).await.status, "received");
}

#[tokio::test]
async fn the_lock_is_the_rows_and_is_held_until_the_transaction_ends() {
    let bench = Bench::new().await;
    let desk = bench.desk(true);
    let id = bench.failed().await;
    let held = async || {
        let sql = "SELECT FROM submissions WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED";
        bench.eyes.query(sql, &[&id]).await.expect("asked").is_empty()
    };
    let body = async |tx| {
        desk.subject.lock(&tx, id).await?;
        Ok(held().await)
    };
    assert!(desk.pool.transaction("lock", body).await.expect("committed"), "nobody else has it meanwhile");
    assert!(!held().await);
}
