//! The versions' table, as the kernel locks and writes its rows. Versions have no jobs: people alone move them.

use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::Facts;
use crate::db::DbError;
use crate::forms::table::{Command, State, Version};
use crate::kernel::rows::{Commands, Log, Relation, Stored, Transactions, word_in};

/// The table.
pub(super) const TABLE: &str = "content.versions";

/// What [`Facts`] are read from, beside id and state.
macro_rules! columns {
    () => {
        "o.form_id, o.number, encode(o.digest, 'hex') AS digest, o.source, o.author, o.created_at, o.published_at, o.tombstoned_at,
  o.deadline"
    };
}
pub(super) use columns;

impl Stored for Version {
    type Id = Uuid;
    type Columns = Facts;
    const RELATION: Relation<State> = Relation {
        name: TABLE,
        transactions: Transactions::one("version_settle"),
        kind: "o.state",
        columns: columns!(),
        written: &[("deadline", "timestamptz")],
        // The schema's own trigger says when a version was published, and when it was taken out of use.
        stamped: &[],
        born: "created_at",
        versioned: false,
        // There are no leases: an edge that stays is a refusal, or a promotion.
        leases_recorded: true,
        log: Log::Transitions,
        beside: "",
        returned: "",
        shared: None,
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = None;

    fn columns(row: &PgRow) -> Result<Facts, DbError> {
        let number: i32 = row.try_get("number")?;
        Ok(Facts {
            form_id: row.try_get("form_id")?,
            number: u32::try_from(number).unwrap_or_default(),
            digest: row.try_get("digest")?,
            source: word_in(row, TABLE, "source")?,
            author: row.try_get("author")?,
            created_at: row.try_get("created_at")?,
            published_at: row.try_get("published_at")?,
            tombstoned_at: row.try_get("tombstoned_at")?,
            deadline: row.try_get("deadline")?,
        })
    }
}
