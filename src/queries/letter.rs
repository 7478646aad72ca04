//! One dead letter, as people see it. Reads only; the payload is what was published, and may be anybody's text.

use jiff::Timestamp;
use uuid::Uuid;

use super::Reader;
use crate::db::DbError;
use crate::routing::dead_letter::{Closing, Record};
use crate::routing::upkeep::dead_letters::RecordError;

/// A dead letter.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) id: Uuid,
    pub(crate) kind: &'static str,
    pub(crate) source: &'static str,
    pub(crate) at: Timestamp,
    pub(crate) reason: String,
    pub(crate) submission: Option<Uuid>,
    pub(crate) redriven_at: Option<Timestamp>,
    pub(crate) payload: Vec<u8>,
}

/// The letter of this id; `None` where there is none, or its record cannot be read here.
pub(crate) async fn letter(reader: &Reader, id: Uuid) -> Result<Option<Letter>, DbError> {
    match reader.records().get(id).await {
        Ok(found) => Ok(found.map(Letter::of)),
        Err(RecordError::Database(error)) => Err(error),
        Err(RecordError::File { .. }) => Ok(None),
    }
}

impl Letter {
    fn of(record: Record) -> Self {
        let source = record.origin().label();
        Self {
            id: record.id,
            kind: record.kind.label(),
            source,
            at: record.at,
            reason: record.reason,
            submission: record.submission_id,
            redriven_at: record
                .closed
                .filter(|closed| closed.how == Closing::Redriven)
                .map(|closed| closed.at),
            payload: record.payload,
        }
    }
}
