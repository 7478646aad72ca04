//! Events of a stage, whatever carries them: said once, so that a test reads the same with either source.
//!
//! With [`Source::Postgres`] and schema `router` the database writes an event when a submission becomes ready; one more is one
//! more row, as a plain client would write it. If the stage goes, so does what it had not written yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::{SUBSCRIPTION, Source, Stage, TOPIC};
use crate::broker::Stats;
use crate::forms::{Seeded, SubmissionSeed};

/// Before a database that does not answer is asked again.
const REST: Duration = Duration::from_millis(200);

/// Writes one more event for a submission: `$1`, and why: `$2`.
const WRITE: &str = "WITH w AS (INSERT INTO router.outbox (kind, entity_id, payload)
  VALUES ('routing.ready', $1, jsonb_build_object('submission_id', $1::uuid, 'reason', $2::text)) RETURNING id)
SELECT pg_notify('maple_router_outbox', '') FROM w";

/// States of the outbox's rows, in the words of a subscription.
const COUNT: &str = "SELECT count(*) FILTER (WHERE o.state = 'delivering'),
  count(*) FILTER (WHERE o.state IN ('pending', 'retry_wait')), COALESCE(sum(o.claims), 0)::bigint,
  count(*) FILTER (WHERE o.state = 'delivered'), count(*) FILTER (WHERE o.state = 'dead_letter'),
  (SELECT count(*) FROM router.transitions t WHERE t.lifecycle = 'outbox' AND t.command IN ('release', 'fail')),
  (SELECT count(*) FROM router.transitions t WHERE t.lifecycle = 'outbox' AND t.command = 'expire')
FROM router.outbox o";

/// Writer of a stage's events, with the database's own outbox.
#[derive(Debug)]
pub(super) struct Outbox {
    further: mpsc::UnboundedSender<(Uuid, String)>,
    unwritten: Arc<AtomicUsize>,
    /// Looks at the rows; absent before the first look, and after the server went.
    eyes: Mutex<Option<Client>>,
}

impl Outbox {
    /// Writes over a connection of its own. Must be called inside a tokio runtime.
    pub(super) fn on(url: String) -> Self {
        let (further, queue) = mpsc::unbounded_channel();
        let unwritten = Arc::<AtomicUsize>::default();
        tokio::spawn(write(url, queue, Arc::clone(&unwritten)));
        Self { further, unwritten, eyes: Mutex::default() }
    }
}

/// Until the stage is gone. A server that is away is waited for.
async fn write(url: String, mut queue: mpsc::UnboundedReceiver<(Uuid, String)>, unwritten: Arc<AtomicUsize>) {
    let mut backend: Option<Client> = None;
    while let Some((submission, reason)) = queue.recv().await {
        loop {
            if backend.is_none()
                && let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await
            {
                tokio::spawn(async move { drop(connection.await) });
                backend = Some(client);
            }
            if let Some(client) = &backend
                && client.execute(WRITE, &[&submission, &reason]).await.is_ok()
            {
                break;
            }
            backend = None;
            tokio::time::sleep(REST).await;
        }
        unwritten.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Stage {
    /// The event of a submission that has just become ready: published, as its backend would; nothing where the database
    /// announces by itself.
    ///
    /// # Errors
    /// The broker's.
    pub fn announce(&self, submission: Uuid, reason: &str) -> Result<String> {
        match self.source {
            Source::Pubsub => self.publish(submission, reason),
            Source::Postgres => Ok(String::new()),
        }
    }

    /// Publishes one more event that names a submission.
    ///
    /// # Errors
    /// The broker's.
    pub fn publish(&self, submission: Uuid, reason: &str) -> Result<String> {
        match (&self.source, &self.outbox) {
            (Source::Pubsub, _) => {
                let data = serde_json::json!({"submission_id": submission, "reason": reason}).to_string();
                let attributes = [("type", "routing.ready"), ("v", "1")];
                Ok(self.broker.publish(TOPIC, data.into_bytes(), attributes)?)
            }
            (Source::Postgres, Some(outbox)) => {
                outbox.unwritten.fetch_add(1, Ordering::SeqCst);
                outbox.further.send((submission, reason.to_owned()))?;
                Ok(String::new())
            }
            (Source::Postgres, None) => bail!("this stage's database has no outbox"),
        }
    }

    /// Inserts a submission whose event is never published.
    ///
    /// # Errors
    /// The form does not exist, or the database refuses.
    pub async fn submit_unannounced(&self, seed: &SubmissionSeed, backend: &Client) -> Result<Seeded> {
        if self.outbox.is_none() {
            return seed.insert(backend).await;
        }
        backend.batch_execute("BEGIN").await?;
        let seeded = seed.insert(backend).await?;
        backend.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await?;
        backend.execute("DELETE FROM router.outbox WHERE entity_id = $1", &[&seeded.id]).await?;
        backend.batch_execute("COMMIT").await?;
        Ok(seeded)
    }

    /// Counts of the routing events so far.
    ///
    /// # Errors
    /// The database is gone.
    pub async fn events(&self) -> Result<Stats> {
        if self.source == Source::Pubsub {
            return Ok(self.broker.stats(SUBSCRIPTION)?);
        }
        let outbox = self.outbox.as_ref().context("this stage's database has no outbox")?;
        let mut eyes = outbox.eyes.lock().await;
        let client = match eyes.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.database.superuser().await?,
        };
        let row = client.query_one(COUNT, &[]).await?;
        *eyes = Some(client);
        let total = |column| counted(&row, column).map(|n| n as u64);
        Ok(Stats {
            outstanding: counted(&row, 0)?,
            backlog: counted(&row, 1)? + outbox.unwritten.load(Ordering::SeqCst),
            delivered: total(2)?,
            acked: total(3)?,
            forwarded: total(4)?,
            nacked: total(5)?,
            expired: total(6)?,
            streams: 0,
        })
    }
}

fn counted(row: &tokio_postgres::Row, column: usize) -> Result<usize> {
    Ok(usize::try_from(row.try_get::<_, i64>(column)?)?)
}

/// Makes of tests that take a [`Source`] one for each, as `pubsub::NAME` and `postgres::NAME`. Tests after
/// `at_night` run with the second only by `make nightly`: what they add to the others is no matter of the source. Those after
/// `only_at_night` run with neither before: what they add is one more of the same. Those after `by_day_from_the_outbox` run with the
/// first only then: by day another test plays the same with it.
#[macro_export]
macro_rules! with_either_source {
    ($($name:ident),* $(,)? $(; at_night: $($late:ident),+)? $(; only_at_night: $($latest:ident),+)?
     $(; by_day_from_the_outbox: $($early:ident),+)?) => {
        mod pubsub {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::stage::Source::Pubsub).await;
            })*
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $late() {
                super::$late($crate::stage::Source::Pubsub).await;
            })+)?
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "for make nightly"]
            async fn $latest() {
                super::$latest($crate::stage::Source::Pubsub).await;
            })+)?
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "for make nightly"]
            async fn $early() {
                super::$early($crate::stage::Source::Pubsub).await;
            })+)?
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::stage::Source::Postgres).await;
            })*
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "for make nightly"]
            async fn $late() {
                super::$late($crate::stage::Source::Postgres).await;
            })+)?
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "for make nightly"]
            async fn $latest() {
                super::$latest($crate::stage::Source::Postgres).await;
            })+)?
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $early() {
                super::$early($crate::stage::Source::Postgres).await;
            })+)?
        }
    };
}
