//! A dead letter as the subject of a review: looks, the redrive and its refusals, on the real statements and in the caller's
//! transaction.

use std::sync::Arc;

use maple_router::config::Config;
use maple_router::db::{Pool, PoolOptions};
use maple_router::kernel::rows::{Fence, Write};
use maple_router::kernel::subject::{Evidence, Looked, OnAccount, Remedied, Remedy, Subject};
use maple_router::kernel::{Transition, Who};
use maple_router::ops::clock::SystemClock;
use maple_router::outbox::subject::DeadLetterSubject;
use maple_router::outbox::table::{Command, State};
use maple_router::parts;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{ALL, Bench, LEASE};
use crate::subjects::{ACCOUNT, Lines, committed, rolled_back, words};

/// The subject, and the pool of whoever asks for its remedies.
struct Desk {
    bench: Bench,
    subject: DeadLetterSubject,
    pool: Pool,
}

impl Desk {
    async fn new() -> Self {
        let bench = Bench::new().await;
        bench.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await;
        let mut config = Config::default();
        config.database.url = bench.db.url_as("forms_app");
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let subject = parts::dead_letter_subject(&config, pool.clone());
        Self { bench, subject, pool }
    }

    /// An outbox row that was given up on, and its record.
    async fn given_up(&self) -> (i64, Uuid) {
        let row = self.bench.row(State::Delivering).await;
        let transition = Transition::of(State::Delivering, Command::GiveUp, Who::WORKER).expect("an end");
        let columns = Some(json!({"error": "no good", "dead_letter": "unknown_submission"}));
        let reason = Some("no good".to_owned());
        let end = Write { reason, columns, ..Write::plain(row, Fence::Lease(Uuid::nil()), transition) };
        self.bench.store.settle(&[end]).await.expect("settled");
        let sql = "SELECT id FROM router.dead_letters WHERE message_id = 'outbox:' || $1::bigint || ':1'";
        (row, self.bench.eyes.query_one(sql, &[&row]).await.expect("a record").get(0))
    }

    /// A record of a message that Pub/Sub gave up on.
    async fn of_pubsub(&self, submission: Option<Uuid>) -> Uuid {
        let id = Uuid::new_v4();
        let kind = if submission.is_some() { "unknown_submission" } else { "unreadable" };
        let sql = "INSERT INTO router.dead_letters (id, kind, at, submission_id, reason, message_id, payload, payload_sha256)
            VALUES ($1, $2, now(), $3, 'no good', $4, '', repeat('0', 64))";
        let message = id.as_u128().to_string();
        self.bench.eyes.execute(sql, &[&id, &kind, &submission, &message]).await.expect("a record");
        id
    }

    /// A submission in a status; it leaves no event.
    async fn submission(&self, status: &str) -> Uuid {
        let id = Uuid::new_v4();
        let sql = format!(
            "SET session_replication_role = replica;
             INSERT INTO submissions (id, form_id, status) VALUES ('{id}', 'f', '{status}');
             SET session_replication_role = origin"
        );
        self.bench.alter(&sql).await;
        id
    }

    async fn record(&self, id: Uuid) -> Value {
        let sql = "SELECT to_jsonb(d) FROM router.dead_letters d WHERE d.id = $1";
        self.bench.eyes.query_one(sql, &[&id]).await.expect("the record").get(0)
    }

    /// Everything that a redrive could touch.
    async fn all(&self) -> Vec<Value> {
        let sql =
            "SELECT to_jsonb(d) FROM router.dead_letters d UNION ALL SELECT to_jsonb(o) FROM router.outbox o
            UNION ALL SELECT to_jsonb(t) FROM router.transitions t ORDER BY 1";
        self.bench.eyes.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect()
    }

    async fn redrive(&self, id: Uuid) -> Remedied {
        committed(&self.subject, &self.pool, id, Remedy::Redrive, ACCOUNT).await
    }

    async fn missing(&self, id: Uuid) -> String {
        match self.subject.look(id).await.expect("a look") {
            Looked::Missing { what, failure: None, .. } => what.join("; "),
            other @ (Looked::Missing { .. } | Looked::Sufficient(_) | Looked::Gone) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_row_of_the_outbox_is_delivered_again_and_its_record_closed() {
    let desk = Desk::new().await;
    let lines = Lines::default();
    let _kept = lines.keep();
    let (row, record) = desk.given_up().await;
    let (_, other) = desk.given_up().await;
    let open =
        "the dead letter is open: nobody has had it delivered again; the submission it names is not known";
    assert_eq!(desk.missing(record).await, open);
    assert_eq!(desk.redrive(record).await, Remedied::Done);
    assert_eq!(desk.bench.state(row).await, State::Pending);
    let recorded = desk.bench.recorded(row).await.pop().expect("a transition");
    assert_eq!((recorded.2.as_str(), recorded.4.as_str()), ("redrive", "reviewer:ada"));
    let closed = desk.record(record).await;
    assert!(closed["redriven_at"].is_string(), "{closed}");
    assert_eq!((&closed["actor"], &closed["reason_closed"]), (&json!("reviewer:ada"), &json!("a test")));
    assert!(desk.record(other).await["redriven_at"].is_null(), "another's record is another's");
    let said = lines.overrides();
    assert_eq!(said.len(), 1, "{said:?}");
    let submission = desk.bench.look(row).await["entity_id"].clone();
    for (field, value) in [
        ("dead_letter", json!(record.to_string())),
        ("submission_id", submission),
        ("actor", json!("reviewer:ada")),
        ("verb", json!("dlq redrive")),
        ("reason", json!("a test")),
        ("message", json!("an operator closed a dead letter")),
    ] {
        assert_eq!(said[0][field], value, "{said:?}");
    }
    // The same act once more changes nothing; another one is told.
    let before = desk.all().await;
    assert_eq!(desk.redrive(record).await, Remedied::Done);
    let account = OnAccount { actor: "reviewer:bob", ..ACCOUNT };
    let why = words(committed(&desk.subject, &desk.pool, record, Remedy::Redrive, account).await);
    assert_eq!(why, "it is closed already");
    assert_eq!((desk.all().await, lines.overrides().len()), (before, 1));
}

#[tokio::test]
async fn a_message_of_pubsubs_is_replaced_by_an_event_and_is_well_when_its_submission_has_ended() {
    let desk = Desk::new().await;
    let submission = desk.submission("received").await;
    let record = desk.of_pubsub(Some(submission)).await;
    assert_eq!(desk.redrive(record).await, Remedied::Done);
    let rows =
        desk.bench.store.claim(State::Pending, &ALL, 10, LEASE, Uuid::new_v4()).await.expect("claimed");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.columns.submission(), Some(submission));
    let payload: Value = serde_json::from_slice(&row.columns.payload).expect("JSON");
    assert_eq!((&payload["reason"], &payload["form_id"]), (&json!("operator"), &json!("f")), "{payload}");
    assert!(desk.record(record).await["redriven_at"].is_string());
    assert_eq!(desk.missing(record).await, "the submission it names has not ended");
    for status in ["routed", "failed", "purged"] {
        desk.bench.alter(&format!("UPDATE submissions SET status = '{status}'")).await;
        let looked = desk.subject.look(record).await.expect("a look");
        assert_eq!(looked, Looked::Sufficient(Evidence::Redriven), "{status}");
    }
    assert_eq!(desk.subject.look(Uuid::nil()).await.expect("a look"), Looked::Gone);
}

#[tokio::test]
async fn what_cannot_be_redriven_is_refused_in_words_and_nothing_is_written() {
    let desk = Desk::new().await;
    let lines = Lines::default();
    let _kept = lines.keep();
    let unreadable = desk.of_pubsub(None).await;
    let discarded = desk.of_pubsub(Some(Uuid::new_v4())).await;
    let discard =
        "UPDATE router.dead_letters SET discarded_at = now(), actor = 'a', reason_closed = 'b' WHERE id = $1";
    desk.bench.eyes.execute(discard, &[&discarded]).await.expect("discarded");
    let (delivered, of_delivered) = desk.given_up().await;
    let sql =
        format!("UPDATE router.outbox SET state = 'delivered', delivered_at = now() WHERE id = {delivered}");
    desk.bench.alter(&sql).await;
    let (gone, of_gone) = desk.given_up().await;
    desk.bench.alter(&format!("DELETE FROM router.outbox WHERE id = {gone}")).await;
    let before = desk.all().await;
    for (id, why) in [
        (unreadable, "its message names no submission"),
        (discarded, "it is closed already"),
        (of_delivered, "redrive is not possible while delivered"),
        (of_gone, "its row in the outbox is not there any more"),
        (Uuid::nil(), "there is no such dead letter"),
    ] {
        let said = words(desk.redrive(id).await);
        assert!(said.starts_with(why), "{said}");
    }
    let replay = committed(&desk.subject, &desk.pool, unreadable, Remedy::Replay, ACCOUNT).await;
    assert_eq!(words(replay), "a dead letter has no remedy replay");
    let check = committed(&desk.subject, &desk.pool, unreadable, Remedy::Check, ACCOUNT).await;
    assert_eq!((check, desk.all().await, lines.overrides().len()), (Remedied::Done, before, 0));
    let discarded = desk.missing(discarded).await;
    assert!(discarded.starts_with("the dead letter was discarded by somebody"), "{discarded}");
}

#[tokio::test]
async fn whoever_owns_the_transaction_can_undo_a_redrive_and_nothing_happened() {
    let desk = Desk::new().await;
    let lines = Lines::default();
    let _kept = lines.keep();
    let (_, of_outbox) = desk.given_up().await;
    let of_pubsub = desk.of_pubsub(Some(Uuid::new_v4())).await;
    let before = desk.all().await;
    for id in [of_outbox, of_pubsub] {
        let answer = rolled_back(&desk.subject, &desk.pool, id, Remedy::Redrive, ACCOUNT).await;
        assert_eq!(answer, Remedied::Done);
        assert_eq!(desk.all().await, before);
    }
    assert!(lines.overrides().is_empty(), "a line is the commit's");
    assert_eq!(desk.redrive(of_pubsub).await, Remedied::Done);
}

#[tokio::test]
async fn a_verb_and_the_desk_close_one_letter_together_and_it_is_closed_once() {
    let desk = Desk::new().await;
    for _ in 0..20 {
        let (row, record) = desk.given_up().await;
        let verb = desk.bench.store.redrive(row, "operator:x", "y");
        let (by_verb, by_desk) = tokio::join!(verb, desk.redrive(record));
        let by_verb = by_verb.expect("answered").refusal().is_none();
        assert_ne!(by_verb, by_desk == Remedied::Done);
        assert_eq!(desk.bench.commands(row).await, ["give_up", "redrive"]);
    }
}

/// A redrive at the command line locks the row, then its record: in the other order the two would wait for each other.
#[tokio::test]
async fn the_lock_is_the_rows_first_and_then_its_records() {
    let desk = Desk::new().await;
    let (row, record) = desk.given_up().await;
    let holder = desk.bench.db.superuser().await.expect("superuser");
    let hold = format!("BEGIN; SELECT FROM router.outbox WHERE id = {row} FOR UPDATE");
    holder.batch_execute(&hold).await.expect("locked");
    let free = async || {
        let sql = "SELECT FROM router.dead_letters WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED";
        desk.bench.eyes.query(sql, &[&record]).await.expect("asked").len() == 1
    };
    let lock = async |tx| {
        desk.subject.lock(&tx, record).await?;
        Ok(free().await)
    };
    let meanwhile = async {
        let waits = "SELECT count(*) = 1 FROM pg_stat_activity
            WHERE datname = current_database() AND usename = 'forms_app' AND wait_event_type = 'Lock'";
        desk.bench.until("waiting for the row", waits).await;
        assert!(free().await, "the record is not locked before its row");
        holder.batch_execute("COMMIT").await.expect("let go");
    };
    let (locked, ()) = tokio::join!(desk.pool.transaction("lock", lock), meanwhile);
    assert!(!locked.expect("committed"), "nobody else has the record meanwhile");
    assert!(free().await);
}
