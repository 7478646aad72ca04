//! The rows of the outbox about a submission. Reads only.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::db::DbError;
use crate::outbox::store::About;
use crate::outbox::table::State;
use crate::queries::Reader;
use crate::routing::explain::Event;

/// Rows that are looked at; a replay writes another one.
const MOST: usize = 20;

/// One row.
#[derive(Debug, Serialize)]
pub(crate) struct EventPart {
    pub(crate) outbox_row: i64,
    pub(crate) state: &'static str,
    /// Cause of the row: `finalized`, `scan_clean`, …
    pub(crate) reason: Option<String>,
    pub(crate) written_at: Timestamp,
    /// Time of the next delivery; absent where none is due.
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) delivered_at: Option<Timestamp>,
    /// Pub/Sub's id of the event; absent where a worker took the row directly.
    pub(crate) message_id: Option<String>,
    /// Deliveries started.
    pub(crate) tries: u32,
    pub(crate) error: Option<String>,
}

/// The rows, the youngest first; absent where there is no outbox.
pub(super) async fn of(reader: &Reader, id: Uuid) -> Result<Option<Vec<EventPart>>, DbError> {
    let Some(outbox) = reader.outbox().await? else { return Ok(None) };
    let rows = outbox.about(id, MOST).await?;
    Ok(Some(rows.into_iter().map(EventPart::of).collect()))
}

/// The rows' meaning for the submission: undelivered rows come first.
pub(super) fn event(rows: Option<&[EventPart]>) -> Event {
    let Some(rows) = rows else { return Event::NotKept };
    let open = rows.iter().find(|row| row.delivered_at.is_none());
    let Some(row) = open.or(rows.first()) else { return Event::None };
    let said = row.error.clone();
    match State::parse(row.state) {
        Some(State::Pending | State::RetryWait) => {
            Event::Waiting { since: row.written_at, tries: row.tries, said }
        }
        Some(State::Delivering) => Event::OnItsWay,
        Some(State::Delivered) => Event::Delivered {
            at: row.delivered_at.unwrap_or(row.written_at),
            message_id: row.message_id.clone(),
        },
        Some(State::DeadLetter) => Event::GivenUp { said },
        None => Event::NotKept,
    }
}

impl EventPart {
    fn of(row: About) -> Self {
        let waits = matches!(row.state, State::Pending | State::RetryWait);
        Self {
            outbox_row: row.id,
            state: row.state.label(),
            reason: row.reason,
            written_at: row.created_at,
            due_at: waits.then_some(row.available_at),
            delivered_at: row.delivered_at,
            message_id: row.message_id,
            tries: row.claims,
            error: row.error,
        }
    }
}
