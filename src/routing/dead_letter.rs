//! Dead letters: what Pub/Sub gave up on is understood, recorded where no row tells of it, and only then acked
//! (protocol, "Dead letters"). People are told of every record here, also of those that the outbox wrote itself.
//!
//! If we die before the ack, the letter comes again and is known by its id. A record that people were not told of says
//! so itself, so that its alert outlives us: the ack waits for the record, and the record for the alert. Bounded: so
//! many letters at once, each at most once in memory. Never logs a payload.

mod file;
mod letter;
mod records;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use letter::{
    Closed, Closing, EXHAUSTED, Kind, Letter, Origin, Record, Silent, Standing, original_attributes,
};
pub use records::{RecordError, Records};

use super::event;
use super::journal;
use crate::ops::alerting::{Alerts, Notice};
use crate::ops::chance::Chance;
use crate::ops::metrics::{self, DeadLetterKind};
use crate::ports::{Attributes, Clock, EventSource, Incoming, Runbook, SourceError};
use crate::scrub::scrub;

/// Letters in work at once; a payload may have ten megabytes.
pub const AT_ONCE: usize = 8;
/// Waits before a letter is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Records people are being told of at once.
const TELLING: usize = 200;
/// Whoever leased a record's alert has this long before another daemon tells of it too.
const LEASE: Duration = Duration::from_secs(30 * 60);
/// Waits before silent records are looked for again.
const LOOK: Duration = Duration::from_secs(20);

/// Takes dead letters in.
#[derive(Debug)]
pub struct DeadLetters {
    /// Where they are recorded.
    pub records: Records,
    /// Measures.
    pub clock: Arc<dyn Clock>,
    /// Ids of records.
    pub chance: Arc<Chance>,
    /// Rung when there is something to tell people.
    pub news: Notify,
}

impl DeadLetters {
    /// Takes letters in until `stop`; what is in work then goes back.
    ///
    /// # Errors
    /// [`SourceError`] of a source that does not mend itself.
    pub async fn run(
        self: &Arc<Self>,
        source: &mut dyn EventSource,
        stop: &CancellationToken,
    ) -> Result<(), SourceError> {
        let mut working = JoinSet::new();
        let ended = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ok(()),
                Some(done) = working.join_next() => if let Err(error) = done {
                    tracing::error!("a dead letter was not dealt with, it comes again: {error}");
                },
                incoming = source.next(), if working.len() < AT_ONCE => match incoming {
                    Ok(incoming) => {
                        let own = Arc::clone(self);
                        working.spawn(async move { own.deal(incoming).await });
                    }
                    Err(error) => break Err(error),
                },
            }
        };
        source.quiet().await;
        // Dropped, they go back; what is recorded already is known when they come again.
        working.shutdown().await;
        ended
    }

    /// One letter, until what must be stored is stored.
    async fn deal(&self, incoming: Incoming) {
        let Incoming { message_id, attributes, data, settle, .. } = incoming;
        let mut said = String::new();
        loop {
            match self.keep(&message_id, &attributes, &data).await {
                Ok((letter, is_new)) => {
                    if is_new {
                        metrics::dead_letter(kind(letter));
                        journal::dead_letter(letter, kind(letter), &message_id, &attributes, &data);
                    }
                    settle.ack();
                    return;
                }
                Err(error) => {
                    let now = scrub(&error.to_string());
                    if now != said {
                        tracing::error!("a dead letter waits until it can be kept: {now}");
                        said = now;
                    }
                }
            }
            self.clock.sleep(AGAIN).await;
        }
    }

    /// What it is; and whether it is the first time that it comes.
    async fn keep(
        &self,
        message_id: &str,
        attributes: &Attributes,
        data: &[u8],
    ) -> Result<(Letter, bool), RecordError> {
        let letter = match Letter::of(&event::parse(attributes, data)) {
            Ok(letter) => letter,
            Err(id) => Letter::of_row(id, self.records.store.standing(id).await?),
        };
        let Some((kind, reason)) = letter.to_record() else { return Ok((letter, true)) };
        let record = Record {
            id: self.chance.uuid(),
            kind,
            at: Timestamp::UNIX_EPOCH,
            submission_id: letter.submission(),
            reason,
            payload_sha256: hex::encode(Sha256::digest(data)),
            payload: data.to_vec(),
            message_id: message_id.to_owned(),
            attributes: attributes.clone(),
            alerted_at: None,
            closed: None,
        };
        let is_new = self.records.add(record).await?;
        self.news.notify_one();
        Ok((letter, is_new))
    }

    /// Has people told of records they were not told of, until `stop`.
    pub async fn tell(&self, alerts: &Alerts, stop: &CancellationToken) {
        let (mut telling, mut hearing) = (BTreeSet::new(), FuturesUnordered::new());
        let mut said = String::new();
        loop {
            let silent = match self.records.unalerted(TELLING, LEASE).await {
                Ok(silent) => silent,
                Err(error) => {
                    let now = scrub(&error.to_string());
                    if now != said {
                        tracing::warn!("dead letters to be told of cannot be looked for: {now}");
                        said = now;
                    }
                    Vec::new()
                }
            };
            for silent in silent {
                let id = silent.id;
                if telling.len() < TELLING && telling.insert(id) {
                    let heard = alerts.notice(notice(silent));
                    hearing.push(async move { (id, heard.await.is_ok()) });
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                Some((id, told)) = hearing.next(), if !hearing.is_empty() => {
                    telling.remove(&id);
                    if !told {
                        // Nobody will be told of it this time.
                        self.clock.sleep(AGAIN).await;
                    } else if let Err(error) = self.records.alerted(id).await {
                        tracing::warn!("that people were told of dead letter {id} is not recorded, they are told again: {}", scrub(&error.to_string()));
                    }
                }
                () = self.news.notified() => {}
                () = self.clock.sleep(LOOK) => {}
            }
        }
    }
}

fn notice(Silent { id, kind, origin }: Silent) -> Notice {
    Notice {
        cause: match (kind, origin) {
            (Kind::Unreadable, Origin::Pubsub) => "messages that nobody can read were dead-lettered",
            (Kind::UnknownSubmission, Origin::Pubsub) => {
                "events of submissions that do not exist were dead-lettered"
            }
            (Kind::Unreadable, Origin::Outbox(_)) => {
                "the outbox gave up on events that nobody can read, or that the topic does not take"
            }
            (Kind::UnknownSubmission, Origin::Outbox(_)) => {
                "the outbox gave up on events of submissions that do not exist"
            }
        },
        sample: id.to_string(),
        command: "maple-router dlq list".to_owned(),
        runbook: Runbook { file: "rb-009-routing-failure.md", section: kind.label() },
    }
}

fn kind(letter: Letter) -> DeadLetterKind {
    match letter {
        Letter::Unreadable(_) => DeadLetterKind::Unreadable,
        Letter::UnknownSubmission(_) => DeadLetterKind::UnknownSubmission,
        Letter::Exhausted(_) => DeadLetterKind::Exhausted,
        Letter::Premature(_) => DeadLetterKind::Premature,
        Letter::Closed(_) => DeadLetterKind::Closed,
    }
}
