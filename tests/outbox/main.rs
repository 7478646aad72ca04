//! The outbox against a real PostgreSQL: its writers, and the fate of its events.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "ids are made on the spot; the crowd prints its figures"
)]

mod crowd;
mod harness;
#[path = "../kernel/holds.rs"]
mod holds;
mod rate;
mod readiness;
mod relay;
mod statements;
mod subject;
#[path = "../kernel/subjects.rs"]
mod subjects;
mod triggers;
mod triggers_access;
mod triggers_columns;
mod triggers_infected;
mod triggers_prepared;
mod triggers_races;
mod upkeep;

use std::time::Duration;

use devkit::postgres::{Cluster, TestDatabase, Variant};
use tokio_postgres::Client;
use uuid::Uuid;

/// The plain roles of the trade, and two submissions.
struct Bench {
    db: TestDatabase,
    /// `forms_app`: finalizes.
    backend: Client,
    /// Whom nothing is hidden from.
    eyes: Client,
}

/// Role of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Backend,
    Scanner,
    /// The owner of the tables: retention, repair, deletes.
    Owner,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Backend => "forms_app",
            Self::Scanner => "forms_scanner",
            Self::Owner => "forms_owner",
        }
    }
}

/// A submission with two attachments.
#[derive(Debug, Clone, Copy)]
struct Subject {
    id: Uuid,
    a: Uuid,
    b: Uuid,
}

impl Bench {
    async fn new() -> Self {
        let variant = Variant { router: true, audit_readable: true, ..Variant::default() };
        let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
        db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("a form");
        let backend = db.client_as("forms_app").await.expect("forms_app");
        let eyes = db.superuser().await.expect("superuser");
        Self { db, backend, eyes }
    }

    async fn client(&self, role: Role) -> Client {
        self.db.client_as(role.name()).await.expect("a role")
    }

    /// Finalized by the backend in one transaction with two attachments of these statuses.
    async fn submitted(&self, a: &str, b: &str) -> Subject {
        let subject = Subject { id: Uuid::new_v4(), a: Uuid::new_v4(), b: Uuid::new_v4() };
        let Subject { id, a: first, b: second } = subject;
        let sql = format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'f');
             INSERT INTO attachments (id, submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
             VALUES ('{first}', '{id}', 'a', 'b', 'o', '{a}'), ('{second}', '{id}', 'b', 'b', 'o', '{b}'); COMMIT"
        );
        self.backend.batch_execute(&sql).await.expect("submitted");
        subject
    }

    /// The reasons of what was written for a submission, in order; each event is looked at as a whole.
    async fn reasons(&self, id: Uuid) -> Vec<String> {
        let sql = "SELECT kind, payload, state, attempts, claims, xid IS NOT NULL
                   FROM router.outbox WHERE entity_id = $1 ORDER BY id";
        let rows = self.eyes.query(sql, &[&id]).await.expect("the outbox");
        let reason = |row: &tokio_postgres::Row| {
            let payload: serde_json::Value = row.get(1);
            let (kind, state): (String, String) = (row.get(0), row.get(2));
            assert_eq!((kind.as_str(), state.as_str()), ("routing.ready", "pending"));
            assert_eq!((row.get::<_, i32>(3), row.get::<_, i32>(4), row.get::<_, bool>(5)), (0, 0, true));
            assert_eq!(payload["submission_id"], id.to_string());
            assert_eq!(payload["form_id"], "f");
            assert_eq!(payload.as_object().map(serde_json::Map::len), Some(3), "{payload}");
            payload["reason"].as_str().expect("a reason").to_owned()
        };
        rows.iter().map(reason).collect()
    }

    /// Deletes the events so far, as if they had long been delivered and pruned.
    async fn forget(&self) {
        self.eyes.batch_execute("DELETE FROM router.outbox").await.expect("forgotten");
    }

    /// Waits until `n` sessions are asking for a submission's lock at the end of their transaction.
    async fn asking(&self, n: i64) {
        self.sessions(n, "wait_event = 'PgSleep'").await;
    }

    /// Waits until `n` sessions wait in the queue of a lock.
    async fn queueing(&self, n: i64) {
        self.sessions(n, "wait_event_type = 'Lock'").await;
    }

    async fn sessions(&self, n: i64, whose: &str) {
        let sql =
            format!("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {whose}");
        for _ in 0..1500 {
            if self.eyes.query_one(&sql, &[]).await.expect("sessions").get::<_, i64>(0) >= n {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("fewer than {n} sessions with {whose}");
    }
}
