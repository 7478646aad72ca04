//! Dead-letter records of one host: lines of `dead_letters.jsonl` in the state directory, where there is no schema
//! `router`.
//!
//! Lines are only ever added: a record, that people were told of it, that it was closed. If we die in the middle of one,
//! it is skipped. Payloads are held in memory one at a time.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::letter::{Closed, Record};
use crate::ops::state_dir::StateDir;

/// The file.
const NAME: &str = "dead_letters.jsonl";

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Record(Record),
    Alerted { id: Uuid, at: Timestamp },
    Closed { id: Uuid, closed: Closed },
}

/// The records of this host.
#[derive(Debug, Clone)]
pub(super) struct RecordFile {
    dir: StateDir,
    /// One at a time looks whether a letter is known and adds it.
    adding: Arc<Mutex<()>>,
}

impl RecordFile {
    /// In this state directory.
    #[must_use]
    pub(super) fn new(dir: StateDir) -> Self {
        Self { dir, adding: Arc::default() }
    }

    /// Adds a record; `false` where the same letter is recorded already.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn add(&self, record: &Record) -> io::Result<bool> {
        let _alone = self.adding.lock().await;
        if self.all().await?.iter().any(|known| known.message_id == record.message_id) {
            return Ok(false);
        }
        self.append(&Line::Record(record.clone())).await?;
        Ok(true)
    }

    /// People have been told of it.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn alerted(&self, id: Uuid, at: Timestamp) -> io::Result<()> {
        self.append(&Line::Alerted { id, at }).await
    }

    /// Closes a record.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn close(&self, id: Uuid, closed: Closed) -> io::Result<()> {
        self.append(&Line::Closed { id, closed }).await
    }

    /// Every record, oldest first, without payloads.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn all(&self) -> io::Result<Vec<Record>> {
        self.read(None).await
    }

    /// One record with its payload.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn get(&self, id: Uuid) -> io::Result<Option<Record>> {
        Ok(self.read(Some(id)).await?.into_iter().find(|record| record.id == id))
    }

    async fn read(&self, whole: Option<Uuid>) -> io::Result<Vec<Record>> {
        let records = self
            .dir
            .fold(NAME, (Vec::new(), BTreeMap::new()), move |(records, places), line| {
                // What cannot be read is the rest of a death; it spoils nothing but itself.
                let Ok(line) = serde_json::from_slice::<Line>(line) else { return };
                apply(records, places, line, whole);
            })
            .await?;
        Ok(records.0)
    }

    async fn append(&self, line: &Line) -> io::Result<()> {
        self.dir.append(NAME, serde_json::to_string(line)?).await
    }
}

fn apply(records: &mut Vec<Record>, places: &mut BTreeMap<Uuid, usize>, line: Line, whole: Option<Uuid>) {
    match line {
        Line::Record(mut record) => {
            if whole != Some(record.id) {
                record.payload = Vec::new();
            }
            places.insert(record.id, records.len());
            records.push(record);
        }
        Line::Alerted { id, at } => {
            if let Some(record) = places.get(&id).and_then(|place| records.get_mut(*place)) {
                record.alerted_at.get_or_insert(at);
            }
        }
        Line::Closed { id, closed } => {
            if let Some(record) = places.get(&id).and_then(|place| records.get_mut(*place)) {
                record.closed.get_or_insert(closed);
            }
        }
    }
}
