//! Writes of many submissions that share a transaction: each gets what it would have got alone, and nothing of one hangs
//! on another.

use futures::future::join_all;
use maple_router::db::DbErrorKind;
use maple_router::routing::store::{BeginAnswer, Conclusion, Recorded};
use maple_router::routing::submission::ledger::FailReason;
use serde_json::json;

use super::claims::waiting;
use super::*;

const MANY: usize = 40;
const DEFERRED: &str = "CONSTRAINT TRIGGER poison AFTER UPDATE ON submissions DEFERRABLE INITIALLY DEFERRED";

impl Bench {
    async fn many_claimed(&self, n: usize) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for _ in 0..n {
            ids.push(self.claimed("t").await);
        }
        ids
    }

    /// Transactions that wrote these rows last.
    async fn transactions(&self, ids: &[Uuid]) -> i64 {
        let sql = "SELECT count(DISTINCT xmin::text) FROM submissions WHERE id = ANY($1)";
        self.eyes.query_one(sql, &[&ids]).await.expect("counted").get(0)
    }
}

#[tokio::test]
async fn what_waits_while_one_commits_shares_the_next_commit() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(MANY).await;
    bench.gated().await;
    let begins = ids.iter().map(|id| {
        let (store, id) = (bench.store.clone(), *id);
        tokio::spawn(async move { store.begin(id, "t", &keys(&[A, B])).await })
    });
    let begins: Vec<_> = begins.collect();
    waiting(&bench.eyes, 1).await;
    bench.open_the_gate().await;
    for intents in join_all(begins).await {
        assert_eq!(intents.expect("no panic").expect("answered"), BeginAnswer::Stands);
    }
    let wrote = bench.transactions(&ids).await;
    assert!(wrote <= 3, "{MANY} begins were written by {wrote} transactions");
    let tried = all_tried();
    let sent = all_accepted("t", "n");
    let ends = join_all(ids.iter().map(|id| bench.store.record(scope(*id, "t", &tried), &sent))).await;
    for (id, end) in ids.iter().zip(ends) {
        assert!(matches!(end, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{end:?}");
        let row = bench.row(*id).await;
        assert_eq!(row.status, "routed");
        for key in [A, B, C] {
            assert_eq!((&row.entry(key)["state"], row.entry(key).get("begun")), (&json!("accepted"), None));
        }
        assert_eq!(bench.audited(*id).await, ["email_sent", "email_sent", "email_sent", "submission_routed"]);
    }
    let wrote = bench.transactions(&ids).await;
    assert!(wrote <= 3, "{MANY} ends were written by {wrote} transactions");
}

/// A batch is bounded, whatever waits.
#[tokio::test]
async fn no_transaction_takes_more_than_its_share() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(150).await;
    let wanted = keys(&[A]);
    let begins = join_all(ids.iter().map(|id| bench.store.begin(*id, "t", &wanted))).await;
    assert!(begins.iter().all(|intents| matches!(intents, Ok(BeginAnswer::Stands))), "{begins:?}");
    let sql = "SELECT max(n) FROM (SELECT count(*) AS n FROM submissions GROUP BY xmin::text) AS t";
    let largest: i64 = bench.eyes.query_one(sql, &[]).await.expect("counted").get(0);
    assert_eq!(largest, 64);
}

#[tokio::test]
async fn each_begin_of_a_batch_has_its_own_answer() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(6).await;
    let [first, good, infected, pending, changed, stale] = ids[..] else { panic!("six") };
    let attach = "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
                  VALUES ($1, 'a', 'b', 'o', $2::text)";
    let attach = attach.replace("$2::text", "$2::text::clamav_status");
    for (id, scan) in [(infected, "infected"), (pending, "pending")] {
        bench.eyes.execute(&attach, &[&id, &scan]).await.expect("attached");
    }
    let sent = entries("t", "n", &[(A, accepted("QA"))]);
    bench.store.record(scope(changed, "t", &BTreeSet::from([1])), &sent).await.expect("recorded");
    bench.tamper(stale, "routing_result = jsonb_set(routing_result, '{claim,token}', '\"other\"')").await;
    let mut before = Vec::new();
    for id in [infected, pending, changed, stale] {
        before.push(bench.row(id).await);
    }
    let wanted = keys(&[A, B]);
    let begins = [first, good, infected, pending, changed, stale, Uuid::nil()]
        .map(|id| bench.store.begin(id, "t", &wanted));
    let answers: Vec<BeginAnswer> =
        join_all(begins).await.into_iter().map(|intents| intents.expect("answered")).collect();
    let expected = [
        BeginAnswer::Stands,
        BeginAnswer::Stands,
        BeginAnswer::Infected,
        BeginAnswer::NotClean,
        BeginAnswer::Changed,
        BeginAnswer::Stale,
        BeginAnswer::Stale,
    ];
    assert_eq!(answers, expected);
    for (id, before) in [infected, pending, changed, stale].into_iter().zip(before) {
        assert_eq!(bench.row(id).await, before, "untouched");
    }
}

#[tokio::test]
async fn each_record_of_a_batch_has_its_own_end() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(6).await;
    let [first, routed, failed, released, goes_on, stale] = ids[..] else { panic!("six") };
    bench.tamper(stale, "routing_result = jsonb_set(routing_result, '{claim,token}', '\"other\"')").await;
    let (all, one) = (all_tried(), BTreeSet::from([1]));
    let good = all_accepted("t", "n");
    let refused =
        entries("t", "n", &[(A, Outcome::Refused(fault(550))), (B, accepted("QB")), (C, accepted("QC"))]);
    let deferred = entries("t", "n", &[(A, Outcome::Deferred(fault(450)))]);
    let partly = entries("t", "n", &[(A, accepted("QA")), (B, accepted("QB"))]);
    let records = [
        (first, &all, &good),
        (routed, &all, &good),
        (failed, &all, &refused),
        (released, &all, &deferred),
        (goes_on, &one, &partly),
        (stale, &all, &good),
    ];
    let records = records.map(|(id, tried, entries)| bench.store.record(scope(id, "t", tried), entries));
    let ends = join_all(records).await.into_iter().map(|end| match end.expect("recorded") {
        Recorded::Continue(_) => "continue",
        Recorded::Stale => "stale",
        Recorded::NoRow => "nowhere",
        Recorded::Concluded(Conclusion::Routed { .. }) => "routed",
        Recorded::Concluded(Conclusion::Failed { reason: FailReason::Refused, .. }) => "refused",
        Recorded::Concluded(Conclusion::Failed { .. }) => "failed otherwise",
        Recorded::Concluded(Conclusion::Released { .. }) => "released",
    });
    assert_eq!(ends.collect::<Vec<_>>(), ["routed", "routed", "refused", "released", "continue", "stale"]);
    for (id, status, audit) in [
        (routed, "routed", &["email_sent", "email_sent", "email_sent", "submission_routed"][..]),
        (failed, "failed", &["email_sent", "email_sent", "email_failed", "submission_route_failed"]),
        (released, "received", &[]),
        (goes_on, "processing", &["email_sent", "email_sent"]),
        // The row's facts stand, whoever has the claim now.
        (stale, "processing", &["email_sent", "email_sent", "email_sent"]),
    ] {
        assert_eq!(bench.row(id).await.status, status);
        assert_eq!(bench.audited(id).await, audit);
    }
}

/// Attempts run out for one of a batch: what it has open fails with it, and nothing of its neighbour does.
#[tokio::test]
async fn what_is_open_fails_with_its_own_submission_only() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(3).await;
    bench.tamper(ids[1], "routing_result = routing_result || '{\"attempts\": 5}'").await;
    let tried = all_tried();
    let deferred = entries("t", "n", &[(A, accepted("QA")), (B, Outcome::Deferred(fault(450)))]);
    let ends = join_all(ids.iter().map(|id| bench.store.record(scope(*id, "t", &tried), &deferred))).await;
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
    let mut statuses = Vec::new();
    for id in &ids {
        statuses.push(bench.row(*id).await.status);
    }
    assert_eq!(statuses, ["received", "failed", "received"]);
    assert_eq!(bench.row(ids[1]).await.reason(), Some("exhausted"));
    assert_eq!(bench.row(ids[2]).await.entry(B)["state"], "open");
}

/// A row that somebody else has locked keeps only its own writer waiting.
#[tokio::test]
async fn a_locked_row_holds_up_nobody_else() {
    let mut bench = Bench::new().await;
    let ids = bench.many_claimed(MANY).await;
    let locking = bench.backend.transaction().await.expect("a transaction");
    locking.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", &[&ids[7]]).await.expect("locked");
    let begin = |id: Uuid| {
        let store = bench.store.clone();
        tokio::spawn(async move { store.begin(id, "t", &keys(&[A, B])).await })
    };
    // The first of all, and alone: every later one meets its lock.
    let locked = begin(ids[7]);
    waiting(&bench.eyes, 1).await;
    let others: Vec<_> = ids.iter().filter(|id| **id != ids[7]).map(|id| begin(*id)).collect();
    for intents in join_all(others).await {
        assert_eq!(intents.expect("no panic").expect("answered"), BeginAnswer::Stands);
    }
    assert!(!locked.is_finished(), "it waits for its row");
    locking.rollback().await.expect("let go");
    assert_eq!(locked.await.expect("no panic").expect("answered"), BeginAnswer::Stands);
}

/// A row whose every write fails takes nobody with it.
#[tokio::test]
async fn a_row_that_cannot_be_written_fails_alone() {
    // Refused at the statement, and, by a deferred trigger, at the commit.
    for trigger in ["TRIGGER poison BEFORE UPDATE ON submissions", DEFERRED] {
        let bench = Bench::new().await;
        let ids = bench.many_claimed(MANY).await;
        let poison = format!(
            "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF NEW.id = '{}' THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;
             CREATE {trigger} FOR EACH ROW EXECUTE FUNCTION poison()",
            ids[7]
        );
        bench.db.alter(&poison).await.expect("poisoned");
        let tried = all_tried();
        let sent = all_accepted("t", "n");
        let ends = join_all(ids.iter().map(|id| bench.store.record(scope(*id, "t", &tried), &sent))).await;
        for (i, end) in ends.iter().enumerate() {
            match (i, end) {
                (7, Err(error)) => {
                    assert_eq!(error.sqlstate(), Some("P0001"));
                    assert_ne!(error.kind(), DbErrorKind::Unreachable, "{trigger}: it is there, and says no");
                }
                (_, end) => assert!(matches!(end, Ok(Recorded::Concluded(_))), "{trigger}: {i}: {end:?}"),
            }
        }
    }
}

/// A stranger's trigger quietly keeps one row as it is: no caller gets the answer that it was written.
#[tokio::test]
async fn a_row_that_takes_no_write_is_not_reported_as_written() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(5).await;
    let deaf = format!(
        "CREATE FUNCTION deaf() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF NEW.id = '{}' THEN RETURN NULL; END IF; RETURN NEW; END $$;
         CREATE TRIGGER deaf BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION deaf()",
        ids[3]
    );
    bench.db.alter(&deaf).await.expect("deaf");
    let wanted = keys(&[A, B]);
    let begins = join_all(ids.iter().map(|id| bench.store.begin(*id, "t", &wanted))).await;
    let sent = all_accepted("t", "n");
    let tried = all_tried();
    let ends = join_all(ids.iter().map(|id| bench.store.record(scope(*id, "t", &tried), &sent))).await;
    for (i, (intents, end)) in begins.iter().zip(&ends).enumerate() {
        if i == 3 {
            for error in [intents.as_ref().err(), end.as_ref().err()] {
                let said = error.expect("not written").to_string();
                assert!(said.contains("took no write") && said.contains("trigger"), "{said}");
            }
        } else {
            assert!(matches!(intents, Ok(BeginAnswer::Stands)), "{i}: {intents:?}");
            assert!(matches!(end, Ok(Recorded::Concluded(_))), "{i}: {end:?}");
        }
    }
    assert!(bench.audited(ids[3]).await.is_empty(), "nor is there an audit row of it");
}

/// A worker that lost its claim records a fact while the one that has it now ends: two writes to one row, and both stand.
#[tokio::test]
async fn two_records_of_one_row_both_stand() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(2).await;
    bench.gated().await;
    let record = |id: Uuid, token: &'static str, nonce: &str| {
        // Queue ids differ from mail to mail.
        let sent = [A, B, C].map(|key| (key, accepted(&format!("{nonce}{key}"))));
        let (store, sent) = (bench.store.clone(), entries(token, nonce, &sent));
        tokio::spawn(async move { store.record(scope(id, token, &all_tried()), &sent).await })
    };
    // The first keeps the others waiting, so that they meet.
    let first = record(ids[0], "t", "n0");
    waiting(&bench.eyes, 1).await;
    let (older, own) = (record(ids[1], "older", "n1"), record(ids[1], "t", "n2"));
    bench.open_the_gate().await;
    for (end, is_stale) in [(first, false), (older, true), (own, false)] {
        let end = end.await.expect("no panic").expect("recorded");
        assert_eq!(matches!(end, Recorded::Stale), is_stale, "{end:?}");
    }
    let row = bench.row(ids[1]).await;
    for key in [A, B, C] {
        assert_eq!(
            (&row.entry(key)["nonce"], row.entry(key)["dups"][0]["nonce"].as_str()),
            (&json!("n1"), Some("n2"))
        );
    }
}

/// A caller that stops waiting for the answer takes no other with it.
#[tokio::test]
async fn one_that_is_dropped_leaves_the_others() {
    let bench = Bench::new().await;
    let ids = bench.many_claimed(10).await;
    bench.gated().await;
    let begin = |id: Uuid| {
        let store = bench.store.clone();
        tokio::spawn(async move { store.begin(id, "t", &keys(&[A, B])).await })
    };
    let begins: Vec<_> = ids.iter().map(|id| begin(*id)).collect();
    waiting(&bench.eyes, 1).await;
    // The first runs the transaction that all wait for; another only waits.
    begins[0].abort();
    begins[5].abort();
    bench.open_the_gate().await;
    for (i, intents) in join_all(begins).await.into_iter().enumerate() {
        match intents {
            Ok(intents) => assert_eq!(intents.expect("answered"), BeginAnswer::Stands),
            Err(gone) => assert!(gone.is_cancelled() && (i == 0 || i == 5)),
        }
    }
}
