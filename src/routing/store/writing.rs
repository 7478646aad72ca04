//! Begins and records share transactions: under load half of the submissions in hand begin while the other half record.
//!
//! If we die before the commit, none of it happened. What each may write is decided for itself, under its row's lock.

use std::sync::Arc;

use uuid::Uuid;

use super::begin::{Beginning, Begun};
use super::group::{Answers, OfOne, Rows};
use super::record::{Record, Recorded};
use super::{Store, sql};
use crate::db::DbError;
use crate::db::pool::Transaction;

/// What is to be written to one submission.
#[derive(Debug)]
pub(super) enum Writing {
    Begin(Beginning),
    Record(Record),
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Written {
    Begun(Begun),
    /// Nothing: attachments may be hidden.
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

impl Store {
    /// Writes it, together with what others have to write at this moment.
    pub(super) async fn write(&self, writing: Writing) -> Result<Written, DbError> {
        let store = self.clone();
        let commit = move |all: Vec<Arc<Writing>>, rows| {
            let store = store.clone();
            async move { store.write_all(&all, rows).await }
        };
        self.writes.share(writing, commit).await
    }

    /// A transaction with a record in it is called so.
    async fn write_all(&self, all: &[Arc<Writing>], rows: Rows) -> Result<Answers<Written>, DbError> {
        let is_begin = |one: &Arc<Writing>| matches!(**one, Writing::Begin(_));
        let write = async |tx: Transaction| {
            let read = if all.iter().any(is_begin) { &self.statements.read_begin } else { sql::READ_HELD };
            self.write_in(&tx, all, rows, read).await
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
        read: &str,
    ) -> Result<Answers<Written>, DbError> {
        let ids: Vec<Uuid> = all.iter().map(|one| one.id()).collect();
        let mut held = self.hold(tx, &ids, rows, read).await?;
        let (mut answers, mut changes) = (Vec::with_capacity(all.len()), Vec::new());
        for one in all {
            let id = one.id();
            if !held.has(id) {
                answers.push(None);
                continue;
            }
            let (written, change) = match &**one {
                Writing::Begin(beginning) => beginning.decide(&mut held)?,
                Writing::Record(record) => {
                    let (recorded, change) = record.decide(&mut held, self.settings.max_attempts)?;
                    (Written::Recorded(recorded), change)
                }
            };
            changes.extend(change.map(|change| (id, change)));
            answers.push(Some(written));
        }
        self.write_held(tx, &changes).await?;
        Ok(answers)
    }
}
