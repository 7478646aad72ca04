//! One client: the backend that finalizes, or a scan worker. Plain SQL, as programs in any language would write it;
//! no client knows of an outbox or publishes.
//!
//! A client may be killed at any moment. A session that is ended from outside is opened again; every other refusal
//! is reported: no client may ever see a deadlock, a conflict or a time-out for the outbox's sake.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_postgres::{Client, Error, NoTls};
use uuid::Uuid;

/// The form of every submission.
pub const FORM: &str = "crowd";

/// A client's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Finalizes, as `forms_app`.
    Backend,
    /// Scans, as `forms_scanner`.
    Scanner,
}

impl Part {
    /// The part's name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Scanner => "scanner",
        }
    }

    /// The part of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Backend, Self::Scanner].into_iter().find(|part| part.name() == name)
    }

    /// The part's role in the database.
    #[must_use]
    pub fn role(self) -> &'static str {
        match self {
            Self::Backend => "forms_app",
            Self::Scanner => "forms_scanner",
        }
    }
}

/// One in so many attachments is infected; the id decides which.
const INFECTED_ONE_IN: u8 = 40;

fn verdict(attachment: Uuid) -> &'static str {
    if attachment.as_bytes()[15] % INFECTED_ONE_IN == 7 { "infected" } else { "clean" }
}

/// Plays until it is dropped; `tell` gets what no client should ever see.
///
/// # Errors
/// The database is gone for good.
pub async fn play(part: Part, url: &str, seed: u64, tell: impl Fn(String)) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut refused = 0;
    loop {
        let (client, connection) = match tokio_postgres::connect(url, NoTls).await {
            Ok(both) => both,
            Err(error) if refused >= 100 => return Err(error.into()),
            Err(_) => {
                refused += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        refused = 0;
        // The session ends with this loop's round, or when the whole client is dropped.
        let mut sessions = tokio::task::JoinSet::new();
        sessions.spawn(connection);
        loop {
            let done = match part {
                Part::Backend => finalize(&client, &mut rng).await,
                Part::Scanner => scan(&client, &mut rng).await,
            };
            let Err(error) = done else { continue };
            if client.is_closed()
                || error.is_closed()
                || error.code().is_some_and(|code| code.code() == "57P01")
            {
                break;
            }
            tell(format!("{}: {error:?}", part.name()));
            if client.batch_execute("ROLLBACK").await.is_err() {
                break;
            }
        }
    }
}

/// A moment in which to be killed.
async fn dawdle(rng: &mut StdRng) {
    if rng.random_bool(0.3) {
        tokio::time::sleep(Duration::from_millis(rng.random_range(1..20))).await;
    }
}

async fn finalize(client: &Client, rng: &mut StdRng) -> Result<(), Error> {
    let id = Uuid::from_bytes(rng.random());
    client.batch_execute("BEGIN").await?;
    client.execute("INSERT INTO submissions (id, form_id) VALUES ($1, $2)", &[&id, &FORM]).await?;
    let field = "INSERT INTO submission_fields (submission_id, field_key, field_value) VALUES ($1, 'name', 'somebody')";
    client.execute(field, &[&id]).await?;
    let attachment =
        "INSERT INTO attachments (id, submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
        VALUES ($1, $2, 'a.pdf', 'maple-attachments', 'a/b', $3::text::clamav_status)";
    let count = [0, 1, 1, 2, 2, 3][rng.random_range(0..6)];
    for _ in 0..count {
        let one = Uuid::from_bytes(rng.random());
        // Some files have been scanned before the form was sent.
        let status = if rng.random_bool(0.2) { verdict(one) } else { "pending" };
        client.execute(attachment, &[&one, &id, &status]).await?;
        dawdle(rng).await;
    }
    end(client, rng).await
}

/// Takes a few of what is pending; workers take the same, and meet.
async fn scan(client: &Client, rng: &mut StdRng) -> Result<(), Error> {
    let some = "SELECT id, submission_id FROM attachments
        WHERE clamav_status = 'pending' AND clamav_status IS DISTINCT FROM 'clean' AND submission_id >= $1
        ORDER BY submission_id, id LIMIT 6";
    // Few distinct values, so that several clients meet the same submission.
    let mut from = [0_u8; 16];
    from[0] = rng.random_range(0..8) * 32;
    let mut rows = client.query(some, &[&Uuid::from_bytes(from)]).await?;
    if rows.is_empty() {
        rows = client.query(some, &[&Uuid::nil()]).await?;
    }
    if rows.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        return Ok(());
    }
    let skipped = rng.random_range(0..rows.len());
    let taken = rng.random_range(1..=3);
    client.batch_execute("BEGIN").await?;
    let flip = "UPDATE attachments SET clamav_status = $2::text::clamav_status WHERE id = $1 AND clamav_status = 'pending'";
    // Locks in one order, as workers do that lock several rows.
    for row in rows.iter().skip(skipped).take(taken) {
        let id: Uuid = row.get(0);
        match rng.random_range(0..10) {
            0 => {
                client.batch_execute("SAVEPOINT s").await?;
                client.execute(flip, &[&id, &verdict(id)]).await?;
                client.batch_execute("ROLLBACK TO s; RELEASE s").await?;
            }
            1 => {
                client.batch_execute("SAVEPOINT s").await?;
                client.execute(flip, &[&id, &verdict(id)]).await?;
                client.batch_execute("RELEASE s").await?;
            }
            _ => {
                client.execute(flip, &[&id, &verdict(id)]).await?;
            }
        }
        dawdle(rng).await;
    }
    end(client, rng).await
}

/// Most commit.
async fn end(client: &Client, rng: &mut StdRng) -> Result<(), Error> {
    dawdle(rng).await;
    client.batch_execute(if rng.random_bool(0.04) { "ROLLBACK" } else { "COMMIT" }).await
}
