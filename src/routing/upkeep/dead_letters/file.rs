//! Dead-letter records of one host: lines of `dead_letters.jsonl` in the state directory, where there is no schema
//! `router`.
//!
//! Lines are only ever added: a record, its notification, its closing. If we die in the middle of a line, that line is
//! skipped. One payload at a time is in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::ops::state_dir::StateDir;
use crate::routing::dead_letter::{Closed, Record};

/// Name of the file.
const NAME: &str = "dead_letters.jsonl";

/// One line of the file.
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
    /// Lock from the check for a known letter to its addition.
    adding: Arc<Mutex<()>>,
}

impl RecordFile {
    /// Uses the file in this state directory.
    #[must_use]
    pub(super) fn new(dir: StateDir) -> Self {
        Self { dir, adding: Arc::default() }
    }

    /// Adds a record; `false` where the same letter is recorded already.
    ///
    /// # Errors
    /// The system's error.
    pub(super) async fn add(&self, record: &Record) -> io::Result<bool> {
        let _alone = self.adding.lock().await;
        if self.all().await?.iter().any(|known| known.message_id == record.message_id) {
            return Ok(false);
        }
        self.append(&Line::Record(record.clone())).await?;
        Ok(true)
    }

    /// Records that people were notified.
    ///
    /// # Errors
    /// The system's error.
    pub(super) async fn alerted(&self, id: Uuid, at: Timestamp) -> io::Result<()> {
        self.append(&Line::Alerted { id, at }).await
    }

    /// Closes a record.
    ///
    /// # Errors
    /// The system's error.
    pub(super) async fn close(&self, id: Uuid, closed: Closed) -> io::Result<()> {
        self.append(&Line::Closed { id, closed }).await
    }

    /// Every record, oldest first, without payloads.
    ///
    /// # Errors
    /// The system's error.
    pub(super) async fn all(&self) -> io::Result<Vec<Record>> {
        self.read(None).await
    }

    /// One record with its payload.
    ///
    /// # Errors
    /// The system's error.
    pub(super) async fn get(&self, id: Uuid) -> io::Result<Option<Record>> {
        Ok(self.read(Some(id)).await?.into_iter().find(|record| record.id == id))
    }

    async fn read(&self, whole: Option<Uuid>) -> io::Result<Vec<Record>> {
        let records = self
            .dir
            .fold(NAME, (Vec::new(), BTreeMap::new()), move |(records, indexes), line| {
                // An unreadable line is the rest of a crash; no other line is affected.
                let Ok(line) = serde_json::from_slice::<Line>(line) else { return };
                apply(records, indexes, line, whole);
            })
            .await?;
        Ok(records.0)
    }

    async fn append(&self, line: &Line) -> io::Result<()> {
        self.dir.append(NAME, serde_json::to_string(line)?).await
    }
}

fn apply(records: &mut Vec<Record>, indexes: &mut BTreeMap<Uuid, usize>, line: Line, whole: Option<Uuid>) {
    match line {
        Line::Record(mut record) => {
            if whole != Some(record.id) {
                record.payload = Vec::new();
            }
            indexes.insert(record.id, records.len());
            records.push(record);
        }
        Line::Alerted { id, at } => {
            if let Some(record) = indexes.get(&id).and_then(|index| records.get_mut(*index)) {
                record.alerted_at.get_or_insert(at);
            }
        }
        Line::Closed { id, closed } => {
            if let Some(record) = indexes.get(&id).and_then(|index| records.get_mut(*index)) {
                record.closed.get_or_insert(closed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Attributes;
    use crate::ports::RecordKind;
    use crate::routing::dead_letter::Closing;

    fn record(n: u128, message_id: &str) -> Record {
        Record {
            id: Uuid::from_u128(n),
            kind: RecordKind::Unreadable,
            at: Timestamp::UNIX_EPOCH,
            submission_id: None,
            reason: "not_an_object".to_owned(),
            payload_sha256: String::new(),
            payload: b"payload".to_vec(),
            message_id: message_id.to_owned(),
            attributes: Attributes::new(),
            alerted_at: None,
            closed: None,
        }
    }

    #[tokio::test]
    async fn a_letter_is_kept_once_and_what_became_of_it_is_added() {
        let temporary = tempfile::tempdir().expect("a directory");
        let file = RecordFile::new(StateDir::new(temporary.path()));
        assert!(file.add(&record(1, "m1")).await.expect("added"));
        assert!(!file.add(&record(2, "m1")).await.expect("known"), "it came again");
        std::fs::OpenOptions::new()
            .append(true)
            .open(temporary.path().join(NAME))
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"{\"record\": {"))
            .expect("half a line");
        assert!(file.add(&record(3, "m3")).await.expect("added"));
        let (id, at) = (Uuid::from_u128(1), Timestamp::UNIX_EPOCH);
        file.alerted(id, at).await.expect("recorded");
        let (actor, reason) = ("operator:a".to_owned(), "r".to_owned());
        file.close(id, Closed { how: Closing::Discarded, at, actor, reason }).await.expect("closed");
        let all = file.all().await.expect("read");
        assert_eq!(all.iter().map(|record| record.message_id.as_str()).collect::<Vec<_>>(), ["m1", "m3"]);
        assert!(all[0].alerted_at.is_some() && all[0].closed.is_some() && all[1].closed.is_none(), "{all:?}");
        assert!(all.iter().all(|record| record.payload.is_empty()), "payloads are not kept");
        assert_eq!(file.get(id).await.expect("read").expect("there").payload, b"payload");
    }
}
