//! What opens an entry, and that one event opens one.

use std::sync::Arc;

use maple_router::grey_queue::table::State;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::harness::Bench;

#[tokio::test]
async fn a_failure_has_its_entry_when_its_transaction_commits_and_not_before() {
    let bench = Bench::new().await;
    let id = Uuid::new_v4();
    let new = format!("INSERT INTO submissions (id, form_id) VALUES ('{id}', 'f')");
    bench.app.batch_execute(&new).await.expect("submitted");
    let fail = |token: &str| {
        format!(
            "UPDATE submissions SET status = 'failed', routing_result = '{{\"finished\": {{\"reason\": \"exhausted\",
             \"token\": \"{token}\"}}}}' WHERE id = '{id}'"
        )
    };
    bench.app.batch_execute(&format!("BEGIN; {}; ROLLBACK", fail("a"))).await.expect("rolled back");
    assert!(bench.about(id).await.is_empty());
    bench.app.batch_execute(&format!("BEGIN; {}", fail("a"))).await.expect("begun");
    assert!(bench.about(id).await.is_empty(), "not before the commit");
    bench.app.batch_execute("COMMIT").await.expect("committed");
    let entry = bench.only(id).await;
    assert_eq!(
        (entry.cause.as_str(), entry.reason.as_str(), entry.queue.as_str()),
        ("failed", "exhausted", "operations")
    );
    assert_eq!((entry.state, entry.version, entry.occurrences), (State::Pending, 1, 1));
    assert_eq!(entry.form_id.as_deref(), Some("f"));
    assert_eq!(bench.chain(entry.id).await, ["open Pending"]);
    // Whatever else changes about the row, it is the same failure.
    bench
        .app
        .batch_execute(&format!("UPDATE submissions SET updated_at = now() WHERE id = '{id}'"))
        .await
        .expect("touched");
    bench.app.batch_execute(&fail("a")).await.expect("written again");
    assert_eq!(bench.only(id).await.version, 1);
    // Another failure of the same submission raises the open entry; a person who saw the former version will know.
    bench.app.batch_execute(&fail("b")).await.expect("failed again");
    let entry = bench.only(id).await;
    assert_eq!((entry.version, entry.occurrences), (2, 2));
}

#[tokio::test]
async fn an_infected_submission_is_the_security_teams() {
    let bench = Bench::new().await;
    let id = Uuid::new_v4();
    let sql = format!(
        "INSERT INTO submissions (id, form_id) VALUES ('{id}', 'f');
         INSERT INTO attachments (id, submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
         VALUES (gen_random_uuid(), '{id}', 'a', 'b', 'o', 'infected');
         UPDATE submissions SET status = 'failed' WHERE id = '{id}'"
    );
    bench.eyes.batch_execute(&sql).await.expect("failed");
    let entry = bench.only(id).await;
    assert_eq!(
        (entry.cause.as_str(), entry.reason.as_str(), entry.queue.as_str()),
        ("infected", "infected", "security")
    );
}

#[tokio::test]
async fn a_closed_entry_stays_closed_and_a_new_failure_opens_another() {
    let bench = Bench::new().await;
    let id = bench.failed("refused").await;
    let first = bench.only(id).await;
    let close = format!("UPDATE router.grey_queue SET state = 'Dismissed' WHERE id = '{}'", first.id);
    bench.eyes.batch_execute(&close).await.expect("closed");
    bench
        .eyes
        .batch_execute(&format!("UPDATE submissions SET updated_at = now() WHERE id = '{id}'"))
        .await
        .expect("touched");
    assert_eq!(bench.about(id).await.len(), 1);
    let again = format!(
        "UPDATE submissions SET routing_result = '{{\"finished\": {{\"reason\": \"refused\", \"token\": \"2\"}}}}' WHERE id = '{id}'"
    );
    bench.eyes.batch_execute(&again).await.expect("failed again");
    let entries = bench.about(id).await;
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].state, State::Pending);
    assert_eq!(entries[1].state, State::Dismissed);
}

/// The audit row that the daemon writes beside the mark of a lost mail.
fn lost(id: Uuid, queue_id: &str) -> String {
    format!(
        "INSERT INTO audit_log (actor, action, submission_id, form_id, detail) VALUES ('r', 'email_failed', '{id}', 'f',
         '{{\"action_order\": 1, \"generation\": 0, \"recipient\": {{\"hmac\": \"ab12\", \"domain\": \"x.test\"}},
         \"queue_id\": \"{queue_id}\", \"error\": {{\"class\": \"bounced\", \"stage\": \"delivery\", \"enhanced\": \"5.1.1\"}}}}')"
    )
}

#[tokio::test]
async fn a_lost_mail_has_its_entry_and_a_refused_one_its_submissions() {
    let bench = Bench::new().await;
    let id = Uuid::new_v4();
    let new = format!("INSERT INTO submissions (id, form_id, status) VALUES ('{id}', 'f', 'routed')");
    bench.eyes.batch_execute(&new).await.expect("routed");
    let refused = lost(id, "4X").replace("\"delivery\"", "\"rcpt\"");
    bench.app.batch_execute(&refused).await.expect("refused at the relay");
    assert!(bench.about(id).await.is_empty(), "its finish opens one, if it fails for it");
    bench.app.batch_execute(&lost(id, "4X")).await.expect("lost");
    let entry = bench.only(id).await;
    assert_eq!((entry.cause.as_str(), entry.reason.as_str()), ("bounced", "bounced"));
    assert_eq!(entry.detail, serde_json::json!({"action": 1, "domain": "x.test", "code": "5.1.1"}));
    bench.app.batch_execute(&lost(id, "4X")).await.expect("the same once more");
    assert_eq!(bench.only(id).await.occurrences, 1);
    bench.app.batch_execute(&lost(id, "5Y")).await.expect("another mail");
    assert_eq!(bench.only(id).await.occurrences, 2);
    bench.db.alter("ALTER TABLE audit_log DISABLE TRIGGER router_lost_mail").await.expect("off");
    bench.app.batch_execute(&lost(id, "6Z")).await.expect("a third");
    let since = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    assert_eq!(bench.store.reconcile(since, false, 100).await.expect("reconciled"), 1);
    assert_eq!(bench.only(id).await.occurrences, 3);
}

#[tokio::test]
async fn a_dead_letter_has_its_entry_whoever_records_it() {
    let bench = Bench::new().await;
    for (message, source) in [("8321", "pubsub"), ("outbox:7:3", "outbox")] {
        let id = Uuid::new_v4();
        let sql =
            "INSERT INTO router.dead_letters (id, kind, at, reason, message_id, payload, payload_sha256)
            VALUES ($1, 'unreadable', now(), 'no JSON', $2, '', repeat('a', 64))";
        bench.app.execute(sql, &[&id, &message]).await.expect("recorded");
        let entry = bench.only(id).await;
        assert_eq!((entry.cause.as_str(), entry.reason.as_str()), ("dead_letter", "unreadable"));
        assert_eq!(
            (entry.subject.kind.as_str(), entry.detail["source"].as_str()),
            ("dead_letter", Some(source))
        );
    }
}

/// What the triggers swallow is found, once, and what is older than the queue only when somebody asks.
#[tokio::test]
async fn what_no_trigger_opened_is_found() {
    let bench = Bench::new().await;
    let since = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    bench.db.alter("ALTER TABLE submissions DISABLE TRIGGER router_born_failed").await.expect("off");
    bench
        .db
        .alter("ALTER TABLE router.dead_letters DISABLE TRIGGER grey_queue_dead_letter")
        .await
        .expect("off");
    let (missed, letter) = (bench.failed("refused").await, Uuid::new_v4());
    let sql = "INSERT INTO router.dead_letters (id, kind, at, reason, message_id, payload, payload_sha256)
        VALUES ($1, 'unreadable', now(), 'no JSON', 'm', '', repeat('a', 64))";
    bench.app.execute(sql, &[&letter]).await.expect("recorded");
    let old = bench.failed("refused").await;
    let age = format!("ALTER TABLE submissions DISABLE TRIGGER USER; UPDATE submissions SET updated_at = now() - interval '30 min'
        WHERE id = '{old}'; ALTER TABLE submissions ENABLE TRIGGER USER;
        ALTER TABLE submissions DISABLE TRIGGER router_born_failed;
        UPDATE router.grey_queue_causes SET since = now() - interval '20 min'");
    bench.eyes.batch_execute(&age).await.expect("older than the queue");
    assert!(bench.about(missed).await.is_empty());
    assert_eq!(bench.store.reconcile(since, false, 100).await.expect("reconciled"), 2);
    assert_eq!(bench.only(missed).await.reason, "refused");
    assert_eq!(bench.only(letter).await.reason, "unreadable");
    assert!(bench.about(old).await.is_empty(), "history is opened only when asked");
    assert_eq!(bench.store.reconcile(since, false, 100).await.expect("again"), 0, "once");
    assert_eq!(bench.store.reconcile(since, true, 100).await.expect("history"), 1);
    assert_eq!(bench.only(old).await.occurrences, 1);
}

/// Nobody's transaction fails because an entry cannot be opened.
#[tokio::test]
async fn an_opener_that_cannot_fails_nobody() {
    let bench = Bench::new().await;
    bench
        .eyes
        .batch_execute("DELETE FROM router.grey_queue_causes WHERE cause <> 'x'")
        .await
        .expect("no words");
    let id = bench.failed("refused").await;
    assert!(bench.about(id).await.is_empty());
}

#[tokio::test]
async fn fifty_at_once_open_one_entry_for_a_problem_and_count_each_event() {
    let bench = Arc::new(Bench::new().await);
    let subject = Uuid::new_v4();
    let mut callers = Vec::new();
    for n in 0..50 {
        let bench = Arc::clone(&bench);
        callers.push(tokio::spawn(async move {
            let app = bench.db.client_as("forms_app").await.expect("forms_app");
            for key in 0..4 {
                let sql = "SELECT router.open_entry('failed', 'refused', 'submission', $1, 'f', $2, '{}')";
                app.execute(sql, &[&subject, &format!("{}", (n + key) % 4)]).await.expect("opened");
            }
        }));
    }
    for caller in callers {
        caller.await.expect("ended");
    }
    let entry = bench.only(subject).await;
    assert_eq!((entry.occurrences, entry.version), (4, 4), "four events, each once");
}

#[tokio::test]
async fn the_daemons_role_appends_to_what_is_recorded_and_removes_nothing() {
    let bench = Bench::new().await;
    let entry = bench.pending().await;
    for denied in [
        "DELETE FROM router.grey_queue",
        "INSERT INTO router.grey_queue (cause, reason, subject_kind, subject_id, queue) VALUES ('failed', 'x', 'submission', gen_random_uuid(), 'operations')",
        "UPDATE router.grey_queue_state_transitions SET reason = 'x'",
        "DELETE FROM router.grey_queue_state_transitions",
        "DELETE FROM router.grey_queue_occurrences",
        "UPDATE router.desk_access_log SET user_name = 'x'",
        "DELETE FROM router.desk_access_log",
        "INSERT INTO router.grey_queue_causes (cause, subject_kind, queue) VALUES ('mine', 'submission', 'operations')",
        "SELECT * FROM router.failure_of(gen_random_uuid())",
    ] {
        let refused = bench.app.batch_execute(denied).await.expect_err(denied);
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{denied}");
    }
    let scanner = bench.db.client_as("forms_scanner").await.expect("forms_scanner");
    let refused =
        scanner.batch_execute("SELECT 1 FROM router.grey_queue").await.expect_err("not the scanner's");
    assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    // The table's own guards, for whoever may write.
    let of = |set: &str| format!("UPDATE router.grey_queue SET {set} WHERE id = '{}'", entry.id);
    for broken in [
        "state = 'UnderReview'",
        "state = 'Escalated', assignee = 'anna'",
        "state = 'Rejected'",
        "state = 'Resolved'",
        "resolution = 'vouched'",
        "state = 'Processing'",
        "lease_token = gen_random_uuid()",
        "lease_token = gen_random_uuid(), leased_until = now()",
        "attempts = -1",
        "assignee = 'An Na'",
        "detail = '[]'",
        "queue = NULL",
    ] {
        bench.app.batch_execute(&of(broken)).await.expect_err(broken);
    }
    let under: bool = bench
        .app
        .query_one("SELECT router.is_under_review($1)", &[&entry.subject.id])
        .await
        .expect("asked")
        .get(0);
    assert!(under);
}
