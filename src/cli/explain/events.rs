//! The rows of the outbox about a submission, as `explain` tells them. Reads only.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::cli::CliError;
use crate::cli::desk::{self, Desk};
use crate::outbox::store::About;
use crate::outbox::table::State;
use crate::parts;
use crate::routing::explain::Event;

/// Rows that are looked at; a replay writes another one.
const MOST: usize = 20;

/// One row.
#[derive(Debug, Serialize)]
pub(super) struct EventPart {
    pub(super) outbox_row: i64,
    pub(super) state: &'static str,
    /// Why it was written: `finalized`, `scan_clean`, …
    pub(super) reason: Option<String>,
    pub(super) written_at: Timestamp,
    /// When it is due, or tried again; absent where it is not.
    pub(super) due_at: Option<Timestamp>,
    pub(super) delivered_at: Option<Timestamp>,
    /// Pub/Sub's id of it; absent where a worker took it straight from there.
    pub(super) message_id: Option<String>,
    /// How often somebody took it to deliver it.
    pub(super) tries: u32,
    pub(super) error: Option<String>,
}

/// The rows, the youngest first; absent where there is no outbox.
pub(super) async fn of(desk: &Desk, id: Uuid) -> Result<Option<Vec<EventPart>>, CliError> {
    let outbox = parts::outbox(&desk.config, desk.pool());
    if !outbox.is_there().await.map_err(desk::database)? {
        return Ok(None);
    }
    let rows = outbox.about(id, MOST).await.map_err(desk::database)?;
    Ok(Some(rows.into_iter().map(EventPart::of).collect()))
}

/// What the rows mean for the submission: what is still to be delivered comes first.
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
