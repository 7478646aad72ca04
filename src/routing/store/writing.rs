//! Begins and records share transactions: under load half of the pending submissions begin while the other half record.
//!
//! If we die before the commit, none of it happened. Each write is decided for itself, under its row's lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::Store;
use super::group::{Answers, OfOne, Rows};
use super::locked::{LockedRows, Reading};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::routing::decide;
use crate::routing::decide::draft::{Attachments, BeginAnswer, Change, Draft, Ending, Recorded};
use crate::routing::pause::Pauses;
use crate::routing::submission::ledger::{Ledger, LedgerFault};
use crate::routing::submission::outcome::Entries;

/// The intents of one action.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) id: Uuid,
    pub(super) token: String,
    pub(super) keys: Vec<String>,
    pub(super) log_position: Option<String>,
}

/// A permit is reserved for the mail after the one that is recorded, and the relay is fast (`routing::in_doubt_permits`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextMail {
    /// Position up to which the relay's log was read by then.
    pub log_position: Option<String>,
}

/// One record, as it waits for its transaction.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: Uuid,
    pub(super) token: String,
    pub(super) tried: BTreeSet<i32>,
    pub(super) pause: Duration,
    pub(super) refund: bool,
    pub(super) entries: Arc<Entries>,
    /// The next mail, whose intent is recorded too where the claim goes on with one.
    pub(super) next: Option<NextMail>,
}

/// A write to one submission.
#[derive(Debug)]
pub(super) enum Writing {
    Begin(Beginning),
    Record(Record),
}

/// The outcome of a [`Writing`].
#[derive(Debug)]
pub(super) enum Written {
    BeginAnswer(BeginAnswer),
    /// Nothing is written: attachments may be hidden.
    Hidden,
    Recorded(Recorded),
}

impl OfOne for Writing {
    fn id(&self) -> Uuid {
        match self {
            Self::Begin(beginning) => beginning.id,
            Self::Record(record) => record.id,
        }
    }
}

impl Writing {
    /// Whether an intent may be recorded, for which the attachments are read too.
    fn begins(&self) -> bool {
        match self {
            Self::Begin(_) => true,
            Self::Record(record) => record.next.is_some(),
        }
    }
}

impl Store {
    /// Carries out one write, together with other requests of this moment.
    pub(super) async fn write(&self, writing: Writing) -> Result<Written, DbError> {
        let store = self.clone();
        let commit = move |all: Vec<Arc<Writing>>, rows| {
            let store = store.clone();
            async move { store.write_all(&all, rows).await }
        };
        self.writes.share(writing, commit).await
    }

    /// Writes requests in one transaction, named `record` where one of them is a record.
    async fn write_all(&self, all: &[Arc<Writing>], rows: Rows) -> Result<Answers<Written>, DbError> {
        let is_begin = |one: &Arc<Writing>| matches!(**one, Writing::Begin(_));
        let begins = |one: &Arc<Writing>| one.begins();
        let write = async |tx: Transaction| {
            let reading = if all.iter().any(begins) {
                Reading::Also(&self.statements.read_begin)
            } else {
                Reading::Row
            };
            self.write_in(&tx, all, rows, reading).await
        };
        if all.iter().all(is_begin) {
            self.pool.keyed_transaction("begin", write).await
        } else {
            self.pool.keyed_transaction("record", write).await
        }
    }

    async fn write_in(
        &self,
        tx: &Transaction,
        all: &[Arc<Writing>],
        rows: Rows,
        reading: Reading<'_>,
    ) -> Result<Answers<Written>, DbError> {
        let ids: Vec<Uuid> = all.iter().map(|one| one.id()).collect();
        let mut locked = self.hold(tx, &ids, rows, reading).await?;
        let (mut answers, mut changes) = (Vec::with_capacity(all.len()), Vec::new());
        for one in all {
            let id = one.id();
            if !locked.has(id) {
                answers.push(None);
                continue;
            }
            let (written, change) = match &**one {
                Writing::Begin(beginning) => beginning.decide(&mut locked)?,
                Writing::Record(record) => {
                    let (recorded, change) = record.decide(&mut locked, self)?;
                    (Written::Recorded(recorded), change)
                }
            };
            changes.extend(change.map(|change| (id, change)));
            answers.push(Some(written));
        }
        self.write_locked(tx, changes).await?;
        Ok(answers)
    }
}

impl Beginning {
    /// The answer that a row under its lock allows, and its change. Hidden attachments are an answer of their own and no
    /// error: other requests share the transaction.
    fn decide(&self, locked: &mut LockedRows) -> Result<(Written, Option<Change>), DbError> {
        let (Some(mut draft), Some(row)) = (locked.draft(self.id)?, locked.row(self.id)) else {
            return Ok((Written::BeginAnswer(BeginAnswer::Stale), None));
        };
        let Some(attachments) = attachments(row)? else { return Ok((Written::Hidden, None)) };
        let intent = draft.begin(&self.token, &self.keys, self.log_position.as_deref(), attachments);
        Ok((Written::BeginAnswer(intent), Some(draft.into_change())))
    }
}

/// The attachments of a row read for a begin; `None`: some may be hidden.
fn attachments(row: &Row) -> Result<Option<Attachments>, DbError> {
    let visible: bool = row.try_get("visible")?;
    let attachments = Attachments { pending: row.try_get("pending")?, infected: row.try_get("infected")? };
    Ok(visible.then_some(attachments))
}

impl Record {
    /// The row's change by this record, decided under its lock.
    fn decide(&self, locked: &mut LockedRows, store: &Store) -> Result<(Recorded, Option<Change>), DbError> {
        let Some(mut draft) = locked.draft(self.id)? else { return Ok((Recorded::NoRow, None)) };
        let ending = Ending {
            token: &self.token,
            tried: &self.tried,
            pause: self.pause,
            refund: self.refund,
            max_attempts: store.settings.max_attempts,
        };
        let mut recorded = readable(self.id, draft.record(&self.entries, &ending));
        if let (Recorded::Continue(goes_on), Some(next), Some(row)) =
            (&mut recorded, &self.next, locked.row(self.id))
            && let Ok(Some(attachments)) = attachments(row)
        {
            goes_on.intents =
                self.begin_next(&mut draft, &goes_on.ledger, next, attachments, &store.pauses());
        }
        Ok((recorded, Some(draft.into_change())))
    }

    /// Records the intent of the next mail, and answers its deliveries; none where a begin of its own is to say why not.
    fn begin_next(
        &self,
        draft: &mut Draft,
        ledger: &Ledger,
        next: &NextMail,
        attachments: Attachments,
        pauses: &Pauses,
    ) -> Vec<String> {
        let mut keys = decide::next_mail(ledger, &self.tried, &self.token);
        keys.retain(|key| pauses.of_delivery(key).is_none());
        if keys.is_empty() {
            return keys;
        }
        match draft.begin(&self.token, &keys, next.log_position.as_deref(), attachments) {
            BeginAnswer::Stands => keys,
            BeginAnswer::Infected | BeginAnswer::NotClean | BeginAnswer::Changed | BeginAnswer::Stale => {
                Vec::new()
            }
        }
    }
}

/// An unreadable ledger was damaged meanwhile by somebody else's write: the claim is not ours to end.
pub(super) fn readable(id: Uuid, ended: Result<Recorded, LedgerFault>) -> Recorded {
    ended.unwrap_or_else(|fault| {
        tracing::error!(submission_id = %id, "{fault}; the claim is left as it is");
        Recorded::Stale
    })
}
