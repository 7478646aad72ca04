//! The relation of a lifecycle: what the kernel must know of a room's table to claim, write and count its rows.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use tokio_postgres::Row as PgRow;
use tokio_postgres::types::FromSqlOwned;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::statement::Scalar;
use crate::kernel::{Lifecycle, Word};

/// The key of a row.
pub trait Id: Scalar + FromSqlOwned + Copy + Ord + Hash + Debug + Display + Send + Sync + 'static {
    /// The key's type in SQL.
    const SQL: &'static str;
}

impl Id for i64 {
    const SQL: &'static str = "bigint";
}

impl Id for Uuid {
    const SQL: &'static str = "uuid";
}

/// A lifecycle whose rows the kernel may claim, write and count. Its table has `id` and `state`, and where its rows have jobs
/// `available_at`, `attempts`, `claims`, `lease_token` and `leased_until`.
pub trait Stored: Lifecycle {
    /// The key of a row.
    type Id: Id;
    /// The room's columns of a row.
    type Columns: Clone + Debug + Send + Sync + 'static;
    /// The table of its rows.
    const RELATION: Relation<Self::State>;
    /// The commands that the kernel gives on a worker's account; absent where rows have no jobs: people and programs alone write
    /// them, under their lock.
    const WORK: Option<Commands<Self::Command>>;

    /// Reads the room's columns of a row ([`Relation::columns`]).
    ///
    /// # Errors
    /// [`DbError::Shape`]: a column is not what the room's migration made it.
    fn columns(row: &PgRow) -> Result<Self::Columns, DbError>;
}

/// The commands that jobs give.
#[derive(Debug, Clone, Copy)]
pub struct Commands<C> {
    /// A worker claims a row. The state may stay, where the edge leads back to it.
    pub claim: C,
    /// The row is fine: it comes again, and no attempt is spent.
    pub release: C,
    /// The row itself is at fault; another attempt follows.
    pub fail: C,
    /// The row itself is at fault, once too often.
    pub give_up: C,
}

/// A room's table.
#[derive(Debug, Clone, Copy)]
pub struct Relation<S: 'static> {
    /// Schema and name.
    pub name: &'static str,
    /// Names of the transactions, labels of `db_transaction_seconds` ([`transactions!`](crate::kernel::rows::transactions)).
    pub transactions: Transactions,
    /// The kind of work of a row, as an expression on `o`; `o.state` where the state gives it.
    pub kind: &'static str,
    /// The room's columns, as a select list on `o`.
    pub columns: &'static str,
    /// Columns that a write may set, with their types in SQL.
    pub written: &'static [(&'static str, &'static str)],
    /// Columns that are set to the time at which a row enters a state, and are null in every other.
    pub stamped: &'static [(&'static str, S)],
    /// The column of the row's creation time.
    pub born: &'static str,
    /// Whether the table has a `version`, which every transition raises: the fence of people.
    pub versioned: bool,
    /// Whether edges that lead back to their own state, which only leases take, are recorded and raise the version. Not where
    /// a row is looked at again and again: what people read would drown.
    pub leases_recorded: bool,
    /// The log of transitions.
    pub log: Log,
    /// Further CTEs of the statement that ends a job, on `u` (`u.id`, `u.to_state`, `u.reason`, `u.columns` of the write,
    /// and [`Self::returned`]); led by a comma.
    pub beside: &'static str,
    /// Columns on `o` for [`Self::beside`]; led by a comma.
    pub returned: &'static str,
    /// The column, of type `text`, by whose values claims are shared: each value has its turn, those with fewest leased rows
    /// first, so that what waits behind one of them does not wait for all of its rows. Each state with jobs has a partial index of
    /// this column, `available_at` and `id`. Absent: rows are claimed in the order in which they are due.
    pub shared: Option<&'static str>,
    /// The state whose rows are removed when they are old, with the column of the time since when.
    pub pruned: Option<(S, &'static str)>,
}

/// Names of a lifecycle's transactions.
#[derive(Debug, Clone, Copy)]
pub struct Transactions {
    /// Claiming rows.
    pub claim: &'static str,
    /// Firing timers.
    pub wake: &'static str,
    /// Ending jobs.
    pub settle: &'static str,
    /// Extending leases.
    pub extend: &'static str,
    /// Removing old rows.
    pub prune: &'static str,
}

impl Transactions {
    /// The same name for all, of rows without jobs: people's commands bring transactions of their own.
    #[must_use]
    pub const fn one(name: &'static str) -> Self {
        Self { claim: name, wake: name, settle: name, extend: name, prune: name }
    }
}

/// `transactions!("outbox")`: the names of a lifecycle's transactions.
#[macro_export]
macro_rules! transactions {
    ($name:literal) => {
        $crate::kernel::rows::Transactions {
            claim: concat!($name, "_claim"),
            wake: concat!($name, "_wake"),
            settle: concat!($name, "_settle"),
            extend: concat!($name, "_extend"),
            prune: concat!($name, "_prune"),
        }
    };
}

/// The log in which transitions are recorded, each by the statement that makes it.
#[derive(Debug, Clone, Copy)]
pub enum Log {
    /// The table `router.transitions`.
    Transitions,
    /// A log of the room's own: its INSERT, which reads `l.id`, `l.from_state`, `l.to_state`, `l.command`, `l.actor`,
    /// `l.actor_type`, `l.reason`, `l.columns` (of a write; else null) and, where the table has one, `l.version`.
    Own(&'static str),
}

impl<S: Word> Relation<S> {
    /// Returns the column that is stamped in `state`, if any.
    #[must_use]
    pub fn stamp_of(&self, state: S) -> Option<&'static str> {
        self.stamped.iter().find(|(_, of)| *of == state).map(|(column, _)| *column)
    }
}
