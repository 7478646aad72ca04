//! Two scanners flip the last two attachments at the same time: how nobody publishes, and what keeps it from happening.

use devkit::forms::Seeded;
use devkit::postgres::{TestDatabase, Variant};
use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::harness::{Python, database, readiness, submission};

/// A submission with two attachments still to be scanned, and two scanners.
struct Race {
    db: TestDatabase,
    seeded: Seeded,
    one: Python,
    other: Python,
    eyes: Client,
}

impl Race {
    async fn new() -> Self {
        let db = database(Variant::default()).await;
        Self {
            seeded: submission(&db, &["pending", "pending"]).await,
            one: Python::connect(&db, "forms_scanner", None).await,
            other: Python::connect(&db, "forms_scanner", None).await,
            eyes: db.superuser().await.expect("superuser"),
            db,
        }
    }

    fn set_scan_status(&self, n: usize) -> Value {
        json!({"do": "mark", "attachment": self.seeded.attachments[n], "status": "clean"})
    }

    fn look(&self) -> Value {
        json!({"do": "look", "submission": self.seeded.id})
    }

    fn evaluate(&self) -> Value {
        json!({"do": "evaluate", "submission": self.seeded.id})
    }

    /// Both set the status, each in an open transaction: the second waits until the first has committed. Returns
    /// what each sees before its commit.
    async fn both_set_status(&mut self, begin: &str) -> [Value; 2] {
        let pids = (self.one.ask(json!({"do": "pid"})).await, self.other.ask(json!({"do": "pid"})).await);
        let (first, second, look) = (self.set_scan_status(0), self.set_scan_status(1), self.look());
        self.one.sql(begin).await;
        self.one.ask(first).await;
        self.other.sql(begin).await;
        self.other.tell(second).await;
        self.other.waits_for(&pids.1, &pids.0, &self.eyes).await;
        let before = self.one.ask(look.clone()).await;
        self.one.sql("COMMIT").await;
        self.other.answer().await.expect("the lock is free");
        let after = self.other.ask(look).await;
        self.other.sql("COMMIT").await;
        [before, after]
    }
}

/// The race itself: without the lock, and evaluated before the commit, each sees the other's as pending. A query
/// after both commits sees everything.
#[tokio::test]
async fn without_lock_and_before_the_commit_nobody_would_publish() {
    let db = database(Variant::default()).await;
    let seeded = submission(&db, &["pending", "pending"]).await;
    let scanners = [(); 2].map(|()| db.client_as("forms_scanner"));
    let [one, other] = scanners;
    let (one, other) = (one.await.expect("a scanner"), other.await.expect("a scanner"));
    for (scanner, attachment) in [(&one, seeded.attachments[0]), (&other, seeded.attachments[1])] {
        scanner.batch_execute("BEGIN").await.expect("begun");
        devkit::forms::scan(scanner, attachment, "clean").await.expect("flipped");
    }
    for scanner in [&one, &other] {
        assert_eq!(readiness(scanner, seeded.id).await, Some(("waiting".to_owned(), 1)));
    }
    for scanner in [&one, &other] {
        scanner.batch_execute("COMMIT").await.expect("committed");
    }
    assert_eq!(readiness(&one, seeded.id).await, Some(("ready".to_owned(), 0)), "and nobody has said so");
}

/// With the lock the verdicts on one submission come one after the other: exactly one sees the last, even before its commit.
#[tokio::test]
async fn the_lock_makes_the_second_scanner_wait_and_see_the_first() {
    let mut race = Race::new().await;
    let seen = race.both_set_status("BEGIN").await;
    assert_eq!(seen, [json!(["waiting", 1]), json!(["ready", 0])]);
}

/// A snapshot is older than the lock that was waited for: before the commit nobody sees it; after it the second does.
#[tokio::test]
async fn after_the_commit_it_is_seen_under_repeatable_read_as_well() {
    let mut race = Race::new().await;
    for python in [&mut race.one, &mut race.other] {
        python.sql("SET default_transaction_isolation = 'repeatable read'").await;
    }
    let seen = race.both_set_status("BEGIN").await;
    assert_eq!(seen, [json!(["waiting", 1]), json!(["waiting", 1])]);
    let evaluate = race.evaluate();
    assert_eq!(race.other.ask(evaluate).await, json!(["ready", 0]));
}

/// The first scanner evaluates between the two commits, the second after both: the last to commit always sees it.
#[tokio::test]
async fn whoever_commits_last_sees_that_it_is_ready() {
    let mut race = Race::new().await;
    let (first, second, evaluate) = (race.set_scan_status(0), race.set_scan_status(1), race.evaluate());
    race.one.ask(first).await;
    assert_eq!(race.one.ask(evaluate.clone()).await, json!(["waiting", 1]));
    race.other.ask(second).await;
    assert_eq!(race.other.ask(evaluate.clone()).await, json!(["ready", 0]));
    assert_eq!(
        race.one.ask(evaluate).await,
        json!(["ready", 0]),
        "who asks late sees it as well: twice is harmless"
    );
}

/// Uncommitted changes are not published: neither in an explicit transaction, nor in the one that psycopg opens by
/// itself where autocommit is off.
#[tokio::test]
async fn nothing_is_evaluated_while_a_transaction_is_open() {
    let mut race = Race::new().await;
    let (set_scan_status, look, evaluate) = (race.set_scan_status(0), race.look(), race.evaluate());
    race.one.sql("BEGIN").await;
    race.one.ask(set_scan_status.clone()).await;
    let error = race.one.refused(evaluate.clone()).await;
    assert!(error.starts_with("RuntimeError: commit first"), "{error}");
    race.one.sql("ROLLBACK").await;
    assert_eq!(
        race.one.ask(evaluate.clone()).await,
        json!(["waiting", 2]),
        "rolled back with the caller's own"
    );

    race.one.ask(json!({"do": "autocommit", "on": false})).await;
    race.one.ask(look).await;
    race.one.ask(set_scan_status.clone()).await;
    let error = race.one.refused(evaluate.clone()).await;
    assert!(error.starts_with("RuntimeError: commit first"), "{error}");
    race.one.sql("COMMIT").await;
    assert_eq!(race.one.ask(evaluate.clone()).await, json!(["waiting", 1]));
    // No transaction is open before: then both calls leave none open behind them.
    let again = json!({"do": "mark", "attachment": race.seeded.attachments[1], "status": "clean"});
    race.one.ask(again).await;
    assert_eq!(race.one.ask(evaluate).await, json!(["ready", 0]));
    let idle =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND state LIKE 'idle in transaction%'";
    let open: i64 = race.eyes.query_one(idle, &[&race.db.name()]).await.expect("a count").get(0);
    assert_eq!(open, 0);
}

/// Neither a late "clean" nor a word that is none changes what a scan has found.
#[tokio::test]
async fn an_infected_attachment_is_not_marked_clean_by_a_scan() {
    let mut race = Race::new().await;
    let (clean, evaluate) = (race.set_scan_status(0), race.evaluate());
    let mut infected = clean.clone();
    infected["status"] = json!("infected");
    let reply = race.one.ask(infected).await;
    assert_eq!(reply, json!([race.seeded.id, "f"]), "whose it is, and of which form");
    race.other.ask(clean.clone()).await;
    assert_eq!(race.other.ask(evaluate.clone()).await, json!(["infected", 1]));
    let mut other = race.set_scan_status(1);
    other["status"] = json!("cleen");
    let error = race.one.refused(other).await;
    assert!(error.contains("invalid input value for enum clamav_status"), "{error}");
    assert_eq!(race.one.ask(evaluate).await, json!(["infected", 1]));
}

/// Also where the caller has opened no transaction: lock and verdict are one.
#[tokio::test]
async fn the_lock_is_held_until_the_verdict_is_committed() {
    let mut race = Race::new().await;
    let [set_scan_status, pid] = [race.set_scan_status(0), race.one.ask(json!({"do": "pid"})).await];
    let slow = race.db.client_as("forms_scanner").await.expect("a scanner");
    let locked = "SELECT pg_backend_pid() FROM attachments WHERE id = $1 FOR UPDATE";
    slow.batch_execute("BEGIN").await.expect("begun");
    let holder: i32 = slow.query_one(locked, &[&race.seeded.attachments[0]]).await.expect("the row").get(0);
    race.one.tell(set_scan_status).await;
    race.one.waits_for(&pid, &json!(holder), &race.eyes).await;
    let free = "SELECT FROM submissions WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED";
    let found = race.eyes.query_opt(free, &[&race.seeded.id]).await.expect("an answer");
    assert!(found.is_none(), "the submission is not locked while its attachment is written");
    slow.batch_execute("COMMIT").await.expect("committed");
    race.one.answer().await.expect("marked");
    assert!(race.eyes.query_opt(free, &[&race.seeded.id]).await.expect("an answer").is_some());
}

/// README's grants are enough, and less is refused with an error instead of an unlocked write.
#[tokio::test]
async fn the_lock_needs_one_column_and_a_policy() {
    let mut race = Race::new().await;
    let (set_scan_status, again) = (race.set_scan_status(0), race.set_scan_status(1));
    race.db.alter("REVOKE UPDATE (status) ON submissions FROM forms_scanner").await.expect("revoked");
    race.one.ask(set_scan_status).await;
    race.db.alter("DROP POLICY submissions_scanner_write ON submissions").await.expect("dropped");
    let error = race.one.refused(again.clone()).await;
    assert!(error.starts_with("LookupError: no attachment"), "{error}");
    race.db.alter("REVOKE UPDATE (updated_at) ON submissions FROM forms_scanner").await.expect("revoked");
    let error = race.one.refused(again).await;
    assert!(error.starts_with("InsufficientPrivilege: "), "{error}");
    assert_eq!(readiness(&race.eyes, race.seeded.id).await, Some(("waiting".to_owned(), 1)));
}
