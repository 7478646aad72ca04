//! Statements that meet on one row. Each test sees in `pg_locks` that the one waits before it lets the other go on, so
//! that it has met the race and not missed it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_router::ports::Outcome;
use maple_router::routing::store::{BeginAnswer, Claimed, Conclusion, Recorded};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::claims::waiting;
use super::stuck::bounds;
use super::*;

/// Every write to a submission stands still, with its row locked, until the gate is open.
const GATE: &str = "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$;
  CREATE TRIGGER gate BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION gate()";

impl Bench {
    pub(crate) async fn gated(&self) {
        self.db.alter(GATE).await.expect("a gate");
        self.eyes.batch_execute("SELECT pg_advisory_lock(7)").await.expect("closed");
    }

    pub(crate) async fn open_the_gate(&self) {
        self.eyes.batch_execute("SELECT pg_advisory_unlock(7)").await.expect("open");
    }
}

/// Each look at a row of `submissions` waits, after the statement's snapshot and before its lock: policies are asked in between.
const LATE: &str = "CREATE FUNCTION late() RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock_shared(8); RETURN true; END $$;
  CREATE POLICY late ON submissions AS RESTRICTIVE FOR ALL TO forms_app USING (late())";

/// One statement locks the row and reads it: what it answers is the version that it locked, and not that of its snapshot.
#[tokio::test]
async fn a_record_is_decided_on_the_row_that_it_locked() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    bench.db.alter(LATE).await.expect("a policy");
    bench.eyes.batch_execute("SELECT pg_advisory_lock(8)").await.expect("closed");
    let store = bench.store.clone();
    let record = tokio::spawn(async move {
        let sent = entries("t", "n", &[(A, accepted("QA")), (B, Outcome::Deferred(fault(451)))]);
        store.record(scope(id, "t", &BTreeSet::from([1])), &sent).await
    });
    waiting(&bench.eyes, 1).await;
    bench.tamper(id, "routing_result = jsonb_set(routing_result, '{claim,token}', '\"other\"')").await;
    bench.eyes.batch_execute("SELECT pg_advisory_unlock(8)").await.expect("open");
    assert!(matches!(record.await.expect("no panic"), Ok(Recorded::Stale)), "the claim is lost");
    let row = bench.row(id).await;
    assert_eq!(
        (&row.entry(A)["queue_id"], row.entry(B).get("error")),
        (&json!("QA"), None),
        "the fact alone"
    );
}

const ATTACH: &str = "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object)
  VALUES ($1, 'late.pdf', 'b', 'o')";

/// The backend adds an attachment while a `begin` waits for the row: it is there when the `begin` decides.
#[tokio::test]
async fn an_attachment_inserted_while_a_begin_waits_is_seen() {
    let mut bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let adding = bench.backend.transaction().await.expect("a transaction");
    adding.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", &[&id]).await.expect("locked");
    let store = bench.store.clone();
    let begin = tokio::spawn(async move { store.begin(id, "t", &keys(&[A, B])).await });
    waiting(&bench.eyes, 1).await;
    adding.execute(ATTACH, &[&id]).await.expect("inserted");
    adding.commit().await.expect("committed");
    assert_eq!(begin.await.expect("no panic").expect("answered"), BeginAnswer::NotClean);
    assert!(bench.row(id).await.entry(A).get("begun").is_none());
}

/// An attachment still being inserted delays nobody, and nobody sees it; once committed, it stops the next `begin`.
#[tokio::test]
async fn an_attachment_being_inserted_is_seen_by_the_first_begin_after_its_commit() {
    let mut bench = Bench::new().await;
    let id = bench.ready().await;
    let adding = bench.backend.transaction().await.expect("a transaction");
    adding.execute(ATTACH, &[&id]).await.expect("inserted");
    assert!(matches!(claim(&bench.store, id, "t").await, Claimed::Taken(_)), "it does not wait");
    assert_eq!(bench.store.begin(id, "t", &keys(&[A, B])).await.expect("answered"), BeginAnswer::Stands);
    adding.commit().await.expect("committed");
    assert_eq!(bench.store.begin(id, "t", &keys(&[C])).await.expect("answered"), BeginAnswer::NotClean);
    assert!(bench.row(id).await.entry(C).get("begun").is_none());
}

/// The sweep has the row and is writing when the worker comes to finish: the worker finds its claim gone, and its fact
/// stands all the same.
#[tokio::test]
async fn a_finish_that_waits_for_a_reset_is_stale_and_its_fact_is_not() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun");
    bench.untouched(id, 700).await;
    bench.gated().await;
    let (store, here) = (bench.store.clone(), bounds());
    let sweep = tokio::spawn(async move { store.sweep_stuck(&here, None, 500, "s", &[]).await });
    waiting(&bench.eyes, 1).await;
    let store = bench.store.clone();
    let finish = tokio::spawn(async move {
        let sent =
            entries("t", "n", &[(A, accepted("QA")), (B, Outcome::Refused(fault(550))), (C, accepted("QC"))]);
        store.record(scope(id, "t", &all_tried()), &sent).await
    });
    waiting(&bench.eyes, 2).await;
    bench.open_the_gate().await;
    assert_eq!(sweep.await.expect("no panic").expect("swept").expect("alone").rows.len(), 1);
    assert!(matches!(finish.await.expect("no panic").expect("answered"), Recorded::Stale));
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), row.ledger.get("claim")), ("received", None), "{row:?}");
    assert_eq!(
        (&row.entry(A)["state"], &row.entry(A)["doubted"]),
        (&json!("accepted"), &json!(true)),
        "{row:?}"
    );
    assert_eq!((&row.entry(B)["state"], &row.entry(B)["doubt"]), (&json!("open"), &json!(true)), "{row:?}");
    assert_eq!(bench.audited(id).await, ["email_sent", "email_sent"]);
}

/// The worker has the row and is finishing when the sweep comes: the sweep waits for nobody and takes nothing.
#[tokio::test]
async fn a_sweep_that_meets_a_finish_leaves_it_alone() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    bench.untouched(id, 700).await;
    bench.gated().await;
    let store = bench.store.clone();
    let finish =
        tokio::spawn(
            async move { store.record(scope(id, "t", &all_tried()), &all_accepted("t", "n")).await },
        );
    waiting(&bench.eyes, 1).await;
    let page = bench.store.sweep_stuck(&bounds(), None, 500, "s", &[]).await.expect("swept").expect("alone");
    assert_eq!(page.rows, [], "while the worker stands at the gate");
    bench.open_the_gate().await;
    let finished = finish.await.expect("no panic").expect("answered");
    assert!(matches!(finished, Recorded::Concluded(Conclusion::Routed { .. })), "{finished:?}");
    assert_eq!(bench.row(id).await.status, "routed");
}

/// A refusal that waits for another process's fact on the same delivery does not take it back.
#[tokio::test]
async fn a_refusal_that_waits_for_a_fact_leaves_it_standing() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun");
    bench.gated().await;
    let record = |store: Store, entries: Entries| {
        tokio::spawn(async move { store.record(scope(id, "t", &BTreeSet::from([1])), &entries).await })
    };
    let fact = record(store(&bench.db, 1), entries("older", "n1", &[(A, accepted("QA"))]));
    waiting(&bench.eyes, 1).await;
    let refusal = record(bench.store.clone(), entries("t", "n2", &[(A, Outcome::Refused(fault(550)))]));
    waiting(&bench.eyes, 2).await;
    bench.open_the_gate().await;
    fact.await.expect("no panic").expect("recorded");
    refusal.await.expect("no panic").expect("recorded");
    let row = bench.row(id).await;
    assert_eq!(
        (&row.entry(A)["state"], &row.entry(A)["queue_id"]),
        (&json!("accepted"), &json!("QA")),
        "{row:?}"
    );
    assert_eq!(bench.audited(id).await, ["email_sent"]);
}

const ROWS: usize = 30;
const ROUNDS: usize = 40;

/// Claims, intents, records, releases, heartbeats and sweeps over the same rows in every order: nobody ever waits
/// in a circle, whatever the pool would make of it, and every row has one end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_writers_in_mixed_orders_never_deadlock() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..ROWS {
        ids.push(bench.ready().await);
    }
    let met = Arc::new(AtomicUsize::new(0));
    let mut writers = Vec::new();
    for writer in 0..12_u64 {
        let (store, ids, met) = (store(&bench.db, 2), ids.clone(), Arc::clone(&met));
        let aging = bench.db.client_as("forms_app").await.expect("forms_app");
        writers.push(tokio::spawn(async move {
            let mut rng = rand::rngs::StdRng::seed_from_u64(writer);
            for round in 0..ROUNDS {
                let mut batch = ids.clone();
                batch.shuffle(&mut rng);
                batch.truncate(rng.random_range(1..ROWS));
                let token = |id: Uuid| format!("{}/{id}", writer % 4);
                match writer % 4 {
                    0 => {
                        let requests: Vec<_> =
                            batch.iter().map(|id| ClaimRequest { id: *id, token: token(*id) }).collect();
                        let answers = labels(&store.claim(&requests).await.expect("an answer"));
                        met.fetch_add(answers.values().filter(|l| **l == "busy").count(), Ordering::Relaxed);
                    }
                    1 => {
                        let claims: Vec<_> = batch.iter().map(|id| (*id, format!("0/{id}"))).collect();
                        let beat = store.heartbeat(&claims).await.expect("a heartbeat");
                        let unknown = claims.len() - beat.confirmed.len() - beat.lost.len();
                        met.fetch_add(unknown, Ordering::Relaxed);
                        let old =
                            "UPDATE submissions SET updated_at = now() - interval '2000 s' WHERE id = $1";
                        aging.execute(old, &[&batch[0]]).await.expect("old");
                    }
                    2 => {
                        store.sweep_stuck(&bounds(), None, 500, "sweep", &[]).await.expect("swept");
                        store.sweep_orphans(&bounds(), 500, &[]).await.expect("swept");
                    }
                    _ => {
                        let (id, token) = (batch[0], format!("0/{}", batch[0]));
                        let tried = all_tried();
                        store.begin(id, &token, &keys(&[A, B])).await.expect("answered");
                        let nonce = format!("{writer}/{round}");
                        let sent = match round % 3 {
                            0 => entries(&token, &nonce, &[(A, accepted("Q"))]),
                            1 => entries(&token, &nonce, &[(B, Outcome::Deferred(fault(451)))]),
                            _ => Entries::default(),
                        };
                        store.record(scope(id, &token, &tried), &sent).await.expect("recorded");
                        store
                            .release(scope(batch[batch.len() - 1], &token, &tried), true)
                            .await
                            .expect("released");
                    }
                }
            }
        }));
    }
    for writer in writers {
        writer.await.expect("no fault");
    }
    // A session tells its numbers at its end at the latest.
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                    AND application_name LIKE 'maple-router%'";
    drop(bench.store);
    for _ in 0..500 {
        if bench.eyes.query_one(sessions, &[]).await.expect("sessions").get::<_, i64>(0) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(bench.eyes.query_one(sql, &[]).await.expect("statistics").get::<_, i64>(0), 0);
    let met = met.load(Ordering::Relaxed);
    println!("{met} rows were met while somebody else had them");
    assert!(met > 0, "nobody met anybody: this test proves nothing");
    let ends = "SELECT count(*) FROM submissions s WHERE (s.status IN ('routed', 'failed'))
        <> (1 = (SELECT count(*) FROM audit_log a WHERE a.submission_id = s.id AND a.action::text LIKE 'submission_rout%'))";
    assert_eq!(bench.eyes.query_one(ends, &[]).await.expect("ends").get::<_, i64>(0), 0, "one end each");
}
