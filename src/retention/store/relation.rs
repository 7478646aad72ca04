//! The blobs' table, as the kernel locks and writes its rows. A run is the job; blobs have none.

use jiff::Timestamp;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use crate::db::DbError;
use crate::kernel::rows::{Commands, Log, Relation, Stored, Transactions, word_in};
use crate::retention::table::{Blob, Command, State};
use crate::words;

/// The table.
const TABLE: &str = "content.blobs";

words! {
    /// `content.blobs.origin`.
    Origin {
        /// An upload, whose bytes were proven.
        Upload = "upload",
        /// An attachment's object that came another way.
        Adopted = "adopted",
    }
}

/// A blob's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its form.
    pub form_id: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The generation of its object, where it is known.
    pub generation: Option<i64>,
    /// Until when it can be taken back, while it is tombstoned.
    pub deadline: Option<Timestamp>,
    /// The run that marked it last.
    pub marked_run: Option<i64>,
}

impl Stored for Blob {
    type Id = Uuid;
    type Columns = Facts;
    const RELATION: Relation<State> = Relation {
        name: TABLE,
        transactions: Transactions::one("gc_settle"),
        kind: "o.state",
        columns: "o.form_id, o.origin, o.generation, o.deadline, o.marked_run",
        written: &[("marked_run", "bigint"), ("generation", "bigint")],
        // The schema's own trigger clears a deadline; gone_at is when the store answered, and no state.
        stamped: &[],
        born: "created_at",
        versioned: false,
        // A mark that is made anew is no news.
        leases_recorded: false,
        log: Log::Transitions,
        beside: "",
        returned: "",
        shared: None,
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = None;

    fn columns(row: &PgRow) -> Result<Facts, DbError> {
        Ok(Facts {
            form_id: row.try_get("form_id")?,
            origin: word_in(row, TABLE, "origin")?,
            generation: row.try_get("generation")?,
            deadline: row.try_get("deadline")?,
            marked_run: row.try_get("marked_run")?,
        })
    }
}
