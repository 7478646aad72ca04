//! Transactions that meet. Each test sees where the others stand before it lets any go on, so that it has met the
//! race and not missed it. No client ever gets a deadlock, a conflict or a time-out for the outbox's sake.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use uuid::Uuid;

use super::Role::{Backend, Owner, Scanner};
use super::{Bench, Subject};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
/// Keeps a transaction at its end, with its locks, until the test lets it go: a deferred trigger that comes last.
const GATE: &str = "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN IF current_setting('gate.number', true) <> '' THEN
       PERFORM pg_advisory_xact_lock_shared(current_setting('gate.number')::bigint); END IF; RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER zz_gate AFTER UPDATE ON attachments DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION gate()";

async fn flip(client: &Client, attachment: Uuid) {
    let sql = "UPDATE attachments SET clamav_status = 'clean' WHERE id = $1";
    client.execute(sql, &[&attachment]).await.expect("flipped");
}

/// Starts a transaction and flips these, in this order.
async fn flipping(bench: &Bench, level: &str, attachments: &[Uuid]) -> Client {
    let client = bench.client(Scanner).await;
    client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await.expect("begun");
    for attachment in attachments {
        flip(&client, *attachment).await;
    }
    client
}

/// The commit ends by itself, whatever locks others have: a minute is for a busy machine.
fn commit(client: Client) -> JoinHandle<Result<(), tokio_postgres::Error>> {
    tokio::spawn(async move {
        let end = client.batch_execute("COMMIT");
        tokio::time::timeout(Duration::from_secs(60), end).await.expect("a commit that ends by itself")
    })
}

/// Two scanners have flipped before either commits: neither sees the other's flip in its statements.
#[tokio::test]
async fn two_scanners_flip_the_last_two_at_once() {
    let bench = Bench::new().await;
    for one in LEVELS {
        for two in LEVELS {
            let Subject { id, a, b } = bench.submitted("pending", "pending").await;
            let (first, second) = (flipping(&bench, one, &[a]).await, flipping(&bench, two, &[b]).await);
            commit(first).await.expect("no panic").unwrap_or_else(|error| panic!("{one}, {two}: {error:?}"));
            commit(second).await.expect("no panic").unwrap_or_else(|error| panic!("{one}, {two}: {error:?}"));
            let reasons = bench.reasons(id).await;
            assert!(
                !reasons.is_empty() && reasons.iter().all(|why| why == "scan_clean"),
                "{one}, {two}: {reasons:?}"
            );
            if (one, two) == (LEVELS[0], LEVELS[0]) {
                assert_eq!(reasons.len(), 1, "{reasons:?}");
            }
        }
    }
}

/// A transaction that sees the past writes an event in any case, but not for what has ended or is being routed.
#[tokio::test]
async fn nothing_is_announced_for_what_is_closed() {
    let bench = Bench::new().await;
    for level in &LEVELS[1..] {
        for status in ["processing", "failed", "routed", "purged"] {
            let Subject { id, b, .. } = bench.submitted("clean", "pending").await;
            let sql = "UPDATE submissions SET status = $2::text::submission_status WHERE id = $1";
            bench.backend.execute(sql, &[&id, &status]).await.expect("closed");
            commit(flipping(&bench, level, &[b]).await).await.expect("no panic").expect("committed");
            assert!(bench.reasons(id).await.is_empty(), "{level} {status}");
        }
    }
}

/// The first stands at its commit with the submission locked; the second comes to its end meanwhile, asks for the lock,
/// and sees what the first has done once it is gone.
#[tokio::test]
async fn the_second_waits_for_the_commit_of_the_first() {
    let bench = Bench::new().await;
    bench.db.alter(GATE).await.expect("a gate");
    let Subject { id, a, b } = bench.submitted("pending", "pending").await;
    bench.eyes.batch_execute("SELECT pg_advisory_lock(1)").await.expect("closed");
    let first = flipping(&bench, LEVELS[0], &[a]).await;
    first.batch_execute("SET LOCAL gate.number = '1'").await.expect("to the gate");
    let first = commit(first);
    bench.queueing(1).await;
    let second = commit(flipping(&bench, LEVELS[0], &[b]).await);
    bench.asking(1).await;
    assert!(bench.reasons(id).await.is_empty(), "nothing while both stand there");
    bench.eyes.batch_execute("SELECT pg_advisory_unlock(1)").await.expect("open");
    first.await.expect("no panic").expect("committed");
    second.await.expect("no panic").expect("committed");
    assert_eq!(bench.reasons(id).await, ["scan_clean"]);
}

/// The first's changes are taken back: the second found the submission as it was, and the next flip reports it.
#[tokio::test]
async fn the_second_waits_for_a_first_that_is_killed() {
    let bench = Bench::new().await;
    bench.db.alter(GATE).await.expect("a gate");
    let Subject { id, a, b } = bench.submitted("pending", "pending").await;
    bench.eyes.batch_execute("SELECT pg_advisory_lock(1)").await.expect("closed");
    let first = flipping(&bench, LEVELS[0], &[a]).await;
    let pid: i32 = first.query_one("SELECT pg_backend_pid()", &[]).await.expect("its pid").get(0);
    first.batch_execute("SET LOCAL gate.number = '1'").await.expect("to the gate");
    let first = commit(first);
    bench.queueing(1).await;
    let second = commit(flipping(&bench, LEVELS[0], &[b]).await);
    bench.asking(1).await;
    bench.eyes.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.expect("killed");
    first.await.expect("no panic").expect_err("killed in the middle of its commit");
    second.await.expect("no panic").expect("committed");
    assert!(bench.reasons(id).await.is_empty(), "one is still to be scanned");
    flip(&bench.client(Scanner).await, a).await;
    assert_eq!(bench.reasons(id).await, ["scan_clean"]);
}

/// Two submissions in opposite order: each has one and asks for the other.
#[tokio::test]
async fn opposite_orders_both_commit() {
    let bench = Bench::new().await;
    bench.db.alter(GATE).await.expect("a gate");
    let (x, y) = (bench.submitted("pending", "pending").await, bench.submitted("pending", "pending").await);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let mut ends = Vec::new();
    for order in [[x.a, y.a], [y.b, x.b]] {
        // Between its two submissions each stands still for a moment: its first constraint is checked at once.
        let client = flipping(&bench, LEVELS[0], &order[..1]).await;
        client
            .batch_execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
            .await
            .expect("locked");
        flip(&client, order[1]).await;
        ends.push(client);
    }
    let ends: Vec<_> = ends.into_iter().map(commit).collect();
    bench.asking(2).await;
    for end in ends {
        end.await.expect("no panic").expect("committed");
    }
    assert_eq!(bench.reasons(x.id).await, ["scan_clean"]);
    assert_eq!(bench.reasons(y.id).await, ["scan_clean"]);
    assert_eq!(bench.eyes.query_one(deadlocks, &[]).await.expect("statistics").get::<_, i64>(0), 0);
}

/// A statement that has long waited for a scanner must not fail because that scanner comes to wait for it: retention
/// deletes the submission and waits for the attachment that is being flipped. Its deadlock detector must find nothing.
#[tokio::test]
async fn whoever_waits_for_a_scanner_is_not_the_one_that_fails() {
    let bench = Bench::new().await;
    let subject = bench.submitted("clean", "pending").await;
    let scanner = flipping(&bench, LEVELS[0], &[subject.b]).await;
    let owner = bench.client(Owner).await;
    let id = subject.id;
    let deleting =
        tokio::spawn(async move { owner.execute("DELETE FROM submissions WHERE id = $1", &[&id]).await });
    bench.queueing(1).await;
    commit(scanner).await.expect("no panic").expect("the scanner commits");
    assert_eq!(deleting.await.expect("no panic").expect("retention deletes"), 1);
}

/// Another session locks the submission: the scanner's commit waits a while, writes its event, and is done.
#[tokio::test]
async fn a_submission_that_somebody_keeps_holds_up_nobody_for_long() {
    let bench = Bench::new().await;
    let (one, two) = (bench.submitted("clean", "pending").await, bench.submitted("clean", "pending").await);
    let keeper = bench.client(Owner).await;
    keeper.batch_execute("BEGIN; SELECT FROM submissions FOR UPDATE").await.expect("kept");
    // Both in one transaction: the wait's bound is for all of it, not for each. And nothing of it is spent on its
    // time-out, which would end the commit.
    let scanner = flipping(&bench, LEVELS[0], &[one.b, two.b]).await;
    scanner.batch_execute("SET LOCAL lock_timeout = '10ms'").await.expect("impatient");
    let sql = "SELECT clock_timestamp() - $1::timestamptz < interval '10 s', clock_timestamp()::text";
    let now: jiff::Timestamp =
        bench.eyes.query_one("SELECT clock_timestamp()", &[]).await.expect("the time").get(0);
    let end = commit(scanner);
    bench.asking(1).await;
    end.await.expect("no panic").expect("committed");
    let waited: bool = bench.eyes.query_one(sql, &[&now]).await.expect("the time").get(0);
    assert!(waited, "twenty and more seconds are what each waiting after the other would come to");
    for id in [one.id, two.id] {
        assert_eq!(bench.reasons(id).await, ["scan_clean"]);
    }
    keeper.batch_execute("COMMIT").await.expect("let go");
}

/// With immediate constraints the lock is asked for in a statement of the client's: its time-out must not end it.
#[tokio::test]
async fn a_short_statement_timeout_survives_the_waiting() {
    let bench = Bench::new().await;
    let subject = bench.submitted("pending", "pending").await;
    let keeper = bench.client(Owner).await;
    keeper.batch_execute("BEGIN; SELECT FROM submissions FOR UPDATE").await.expect("kept");
    let scanner = bench.client(Scanner).await;
    scanner.batch_execute("SET statement_timeout = '1200ms'").await.expect("a time-out");
    scanner.batch_execute("BEGIN").await.expect("begun");
    scanner.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await.expect("immediate");
    flip(&scanner, subject.a).await;
    scanner.batch_execute("COMMIT").await.expect("committed");
    // Not the last one; without the lock no transaction can know.
    assert_eq!(bench.reasons(subject.id).await, ["scan_clean"]);
    keeper.batch_execute("COMMIT").await.expect("let go");
}

/// A finalize with its attachments is certain of them, under each level; no event comes too early.
#[tokio::test]
async fn a_finalize_is_exact_but_under_serializable() {
    let bench = Bench::new().await;
    for (level, early) in [(LEVELS[0], 0), (LEVELS[1], 0), (LEVELS[2], 1)] {
        bench
            .backend
            .batch_execute(&format!("SET default_transaction_isolation = '{}'", level.to_lowercase()))
            .await
            .expect("a level");
        let waiting = bench.submitted("clean", "pending").await.id;
        assert_eq!(bench.reasons(waiting).await.len(), early, "{level}");
        let ready = bench.submitted("clean", "clean").await.id;
        assert_eq!(bench.reasons(ready).await, ["finalized"], "{level}");
    }
}

/// The triggers' reads must not make strangers' transactions conflict: without the outbox none of these would.
#[tokio::test]
async fn serializable_strangers_do_not_fail_because_of_us() {
    let bench = Bench::new().await;
    let (x, y) = (bench.submitted("clean", "pending").await, bench.submitted("clean", "pending").await);
    let level = LEVELS[2];
    let one = flipping(&bench, level, &[x.b]).await;
    let two = flipping(&bench, level, &[y.b]).await;
    let mut finalizing = Vec::new();
    for number in 0..2 {
        let client = bench.client(Backend).await;
        let sql = format!(
            "BEGIN ISOLATION LEVEL {level}; INSERT INTO submissions (id, form_id)
             VALUES ('00000000-0000-0000-0000-00000000000{number}', 'f');
             INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object)
             VALUES ('00000000-0000-0000-0000-00000000000{number}', 'n', 'b', 'o')"
        );
        client.batch_execute(&sql).await.expect("finalizing");
        finalizing.push(client);
    }
    let clients: Vec<Client> = [one, two].into_iter().chain(finalizing).collect();
    for client in &clients {
        client.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await.expect("everybody has looked");
    }
    for client in clients {
        commit(client).await.expect("no panic").expect("committed");
    }
    assert_eq!(bench.reasons(x.id).await, ["scan_clean"]);
    assert_eq!(bench.reasons(y.id).await, ["scan_clean"]);
}

/// The delivery of an event and the transaction that takes back its cause never wait for each other.
#[tokio::test]
async fn taking_back_waits_for_no_delivery() {
    let bench = Bench::new().await;
    let subject = bench.submitted("infected", "clean").await;
    bench
        .backend
        .batch_execute("BEGIN; SELECT FROM router.outbox FOR UPDATE")
        .await
        .expect("being delivered");
    let scanner = bench.client(Scanner).await;
    scanner.batch_execute("SET lock_timeout = '100ms'").await.expect("impatient");
    for status in ["pending", "infected"] {
        let sql = "UPDATE attachments SET clamav_status = $2::text::clamav_status WHERE id = $1";
        scanner.execute(sql, &[&subject.a, &status]).await.expect("at once");
    }
    bench.backend.batch_execute("COMMIT").await.expect("delivered");
    assert_eq!(bench.reasons(subject.id).await, ["scan_infected", "scan_infected"]);
}

/// Finalized by one, the last attachment flipped by another, neither committed: the last to commit writes the event.
#[tokio::test]
async fn a_late_finalize_meets_the_last_flip() {
    let bench = Bench::new().await;
    bench
        .db
        .alter("ALTER TABLE submissions ADD finalized_at timestamptz; SELECT router.set_finalized_column('finalized_at')")
        .await
        .expect("a column");
    for first in [Backend, Scanner] {
        let subject = bench.submitted("clean", "pending").await;
        let scanner = flipping(&bench, LEVELS[0], &[subject.b]).await;
        let backend = bench.client(Backend).await;
        let sql = format!("BEGIN; UPDATE submissions SET finalized_at = now() WHERE id = '{}'", subject.id);
        backend.batch_execute(&sql).await.expect("finalizing");
        let ends = if first == Backend { [backend, scanner] } else { [scanner, backend] }.map(commit);
        for end in ends {
            end.await.expect("no panic").expect("committed");
        }
        assert_eq!(bench.reasons(subject.id).await.len(), 1, "{first:?}");
    }
}
