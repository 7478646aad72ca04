//! Dead letters: messages given up by Pub/Sub are parsed, recorded where no row shows them, and only then acked
//! (protocol, "Dead letters"). People are notified of every record here, also of the outbox's own ones.
//!
//! If we die before the ack, the letter comes again and is known by its id. A record says itself whether people were
//! notified, so that its alert outlives us: the ack waits for the record, and the record for the alert. Bounded:
//! [`AT_ONCE`] letters at a time, each at most once in memory. Never logs a payload.

mod file;
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

pub use records::{RecordError, Records};

use crate::ops::alerting::{Alerts, Notice};
use crate::ops::metrics::{DEAD_LETTERS, DeadLetterKind};
use crate::ops::rng::Rng;
use crate::ports::RecordKind;
use crate::ports::{Attributes, Clock, EventSource, Incoming, Runbook, SourceError};
use crate::routing::dead_letter::{Letter, Origin, Record, Silent};
use crate::routing::event;
use crate::routing::journal;
use crate::scrub::scrub;

/// Largest number of letters processed at once; a payload may have ten megabytes.
pub const AT_ONCE: usize = 8;
/// Pause before a letter is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Largest number of records whose notice is being sent.
const TELLING: usize = 200;
/// Lease of a record's alert, after which another daemon alerts too.
const LEASE: Duration = Duration::from_secs(30 * 60);
/// Interval of looks for records without a notification.
const LOOK: Duration = Duration::from_secs(20);

/// Processor of dead letters.
#[derive(Debug)]
pub struct DeadLetters {
    /// Store of the records.
    pub records: Records,
    /// Clock of waits.
    pub clock: Arc<dyn Clock>,
    /// Source of record ids.
    pub rng: Arc<Rng>,
    /// Wake-up of [`Self::tell`] for a new record.
    pub news: Notify,
}

impl DeadLetters {
    /// Processes letters until `stop`; unfinished ones then go back.
    ///
    /// # Errors
    /// [`SourceError`] of a source that does not recover by itself.
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
        // Dropped letters go back; those already recorded are known when they come again.
        working.shutdown().await;
        ended
    }

    /// Processes one letter, until its record is stored.
    async fn deal(&self, incoming: Incoming) {
        let Incoming { message_id, attributes, data, settle, .. } = incoming;
        let mut said = String::new();
        loop {
            match self.keep(&message_id, &attributes, &data).await {
                Ok((letter, is_new)) => {
                    if is_new {
                        DEAD_LETTERS.add(kind(letter), 1);
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

    /// Judges the letter and stores its record; returns whether the letter is new.
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
            id: self.rng.uuid(),
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

    /// Sends notices of records without a notification, until `stop`.
    pub async fn tell(&self, alerts: &Alerts, stop: &CancellationToken) {
        let (mut telling, mut notifying) = (BTreeSet::new(), FuturesUnordered::new());
        let mut said = String::new();
        loop {
            let silent = match self.records.unalerted(TELLING, LEASE).await {
                Ok(silent) => silent,
                Err(error) => {
                    let now = scrub(&error.to_string());
                    if now != said {
                        tracing::warn!("dead letters without an alert cannot be looked for: {now}");
                        said = now;
                    }
                    Vec::new()
                }
            };
            for silent in silent {
                let id = silent.id;
                if telling.len() < TELLING && telling.insert(id) {
                    let notified = alerts.notice(notice(silent));
                    notifying.push(async move { (id, notified.await.is_ok()) });
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                Some((id, notified)) = notifying.next(), if !notifying.is_empty() => {
                    telling.remove(&id);
                    if !notified {
                        // The notice was dropped, and is sent again later.
                        self.clock.sleep(AGAIN).await;
                    } else if let Err(error) = self.records.alerted(id).await {
                        tracing::warn!("that people were notified of dead letter {id} is not recorded, they are notified again: {}", scrub(&error.to_string()));
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
            (RecordKind::Unreadable, Origin::Pubsub) => "messages that nobody can read were dead-lettered",
            (RecordKind::UnknownSubmission, Origin::Pubsub) => {
                "events of submissions that do not exist were dead-lettered"
            }
            (RecordKind::Notification, _) => {
                "notifications of the review queue could not be sent to whom they were for"
            }
            (RecordKind::Unreadable, Origin::Outbox(_)) => {
                "the outbox gave up on events that nobody can read, or that the topic does not take"
            }
            (RecordKind::UnknownSubmission, Origin::Outbox(_)) => {
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
