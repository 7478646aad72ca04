//! Applies the SQL files of `migrations/`, each once, recorded in a history table of its own.
//!
//! Every file runs in a transaction with its history entry: if we die in the middle, the files before it stay applied. A
//! database with the backend's tables and no history of ours is never altered; there, only `--only 011` is meant.

pub mod online;

use std::time::Duration;

use refinery::error::Kind;
use refinery::{Migration, Runner};
use tokio_postgres::Client;

use super::error::{DbError, DbErrorKind};

/// A sequence of files that belong together, and their history table.
#[derive(Debug, Clone, Copy)]
pub struct MigrationSet {
    /// The set's name in messages.
    pub name: &'static str,
    /// The table with one row for each applied file.
    pub history_table: &'static str,
    /// Idempotent SQL that must run before the history table can be made, e.g. `CREATE SCHEMA IF NOT EXISTS …`.
    pub prepare: &'static str,
    /// A table that the first file makes: where it exists without history, somebody else made it.
    pub witness: &'static str,
    /// A table of the schema that this one stands on, which has to be there first; empty: none.
    pub foundation: &'static str,
    /// File stems (`001_init`) and texts, in order.
    pub files: &'static [(&'static str, &'static str)],
}

/// The one file that production needs; idempotent.
const ROUTING_AUDIT_ACTIONS: (&str, &str) =
    ("011_routing_audit_actions", include_str!("../../migrations/forms/011_routing_audit_actions.sql"));

/// The forms backend's schema, or its stand-in.
pub const FORMS: MigrationSet = MigrationSet {
    name: "forms",
    history_table: "maple_router_forms_history",
    prepare: "",
    witness: "submissions",
    foundation: "",
    files: &[
        ("001_init", include_str!("../../migrations/forms/001_init.sql")),
        ("002_rls", include_str!("../../migrations/forms/002_rls.sql")),
        ROUTING_AUDIT_ACTIONS,
    ],
};

/// The daemon's own records, in a schema of their own; optional.
pub const ROUTER: MigrationSet = MigrationSet {
    name: "router",
    history_table: "router.history",
    prepare: "CREATE SCHEMA IF NOT EXISTS router",
    witness: "router.dead_letters",
    foundation: "",
    files: &[
        ("001_records", include_str!("../../migrations/router/001_records.sql")),
        ("002_outbox", include_str!("../../migrations/router/002_outbox.sql")),
        ("003_daemons", include_str!("../../migrations/router/003_daemons.sql")),
        ("004_grey_queue", include_str!("../../migrations/router/004_grey_queue.sql")),
        ("005_outbox_order", include_str!("../../migrations/router/005_outbox_order.sql")),
        ("006_late_infection", include_str!("../../migrations/router/006_late_infection.sql")),
    ],
};

/// Uploads and what they become, the versions of forms, and how what has ended is removed, in a schema of their own; optional, on top of schema router.
pub const CONTENT: MigrationSet = MigrationSet {
    name: "content",
    history_table: "content.history",
    prepare: "CREATE SCHEMA IF NOT EXISTS content",
    witness: "content.uploads",
    foundation: "router.transitions",
    files: &[
        ("001_uploads", include_str!("../../migrations/content/001_uploads.sql")),
        ("002_versions", include_str!("../../migrations/content/002_versions.sql")),
        ("003_retention", include_str!("../../migrations/content/003_retention.sql")),
    ],
};

/// Runs of screening and the gate behind which enforced forms wait, in a schema of their own; optional, on top of schema router.
pub const SCREENING: MigrationSet = MigrationSet {
    name: "screening",
    history_table: "screening.history",
    prepare: "CREATE SCHEMA IF NOT EXISTS screening",
    witness: "screening.submissions",
    foundation: "router.grey_queue_causes",
    files: &[("001_screening", include_str!("../../migrations/screening/001_screening.sql"))],
};

/// Attempts at grading and the gate behind which gated forms wait, the grader's jobs, and the queues between them, in three schemas of their
/// own; optional, on top of schema router.
pub const GRADING: MigrationSet = MigrationSet {
    name: "grading",
    history_table: "assessment.history",
    prepare: "CREATE SCHEMA IF NOT EXISTS assessment; CREATE SCHEMA IF NOT EXISTS mq; CREATE SCHEMA IF NOT EXISTS grading",
    witness: "assessment.submissions",
    foundation: "router.grey_queue_causes",
    files: &[
        ("001_assessment", include_str!("../../migrations/grading/001_assessment.sql")),
        GRADER_FILE,
        ("003_sides", include_str!("../../migrations/grading/003_sides.sql")),
    ],
};

/// The migration that the grader needs, and no other.
const GRADER_FILE: (&str, &str) = ("002_grader", include_str!("../../migrations/grading/002_grader.sql"));

/// The grader's jobs and its ends of the queues in a database of its own; schema assessment is in another.
pub const GRADER: MigrationSet = MigrationSet {
    name: "grader",
    history_table: "grading.history",
    prepare: "CREATE SCHEMA IF NOT EXISTS mq; CREATE SCHEMA IF NOT EXISTS grading",
    witness: "grading.jobs",
    foundation: "pg_catalog.pg_class",
    files: &[GRADER_FILE],
};

/// The choice of files to apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrateOptions {
    /// This file alone, without history: `011` for a database that is not ours.
    pub only: Option<String>,
    /// The stand-in's variant in which `forms_app` may read `audit_log`.
    pub audit_readable: bool,
}

/// One file and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// File stem, e.g. `011_routing_audit_actions`.
    pub name: String,
    /// Whether the file changed anything; false: all of it existed already.
    pub changed: bool,
}

/// Why migrating stopped. Files before the failing one stay applied.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// `--only` names another file than `011`.
    #[error(
        "--only {0}: only 011 can be applied by itself; without --only every file is applied that has not been yet"
    )]
    NotAlone(String),
    /// The tables exist, our history does not.
    #[error(
        "this database has a table {witness} that these migrations did not make: it belongs to somebody else, who \
         changes it; what routing needs there is `maple-router migrate --only 011`"
    )]
    NotOurs {
        /// The existing table.
        witness: &'static str,
    },
    /// The history and the files of this version disagree.
    #[error("the history in {table} and this version's files disagree: {what}; nothing was changed")]
    Diverged {
        /// The history table.
        table: &'static str,
        /// The file, and how it differs.
        what: String,
    },
    /// `--back` names a file that cannot be reverted.
    #[error("--back {stem}: {why}; nothing was changed")]
    NoWayBack {
        /// The file asked for.
        stem: String,
        /// The reason.
        why: &'static str,
    },
    /// A schema that this one stands on is not there.
    #[error(
        "schema {name} stands on schema router: maple-router migrate --router first; nothing was changed"
    )]
    Foundation {
        /// The schema.
        name: &'static str,
    },
    /// The grader's own database is asked for where both sides are.
    #[error(
        "schema assessment is in this database, and its migrations have what the grader needs: maple-router migrate --grading; nothing was changed"
    )]
    BothSides,
    /// Reverting the outbox would lose events.
    #[error(
        "the outbox holds {left} events that nobody has delivered, and stays; nobody writes any more. Let the daemon deliver \
         them and repeat, or --force: then the sweep finds their submissions, after routing.orphan_after"
    )]
    Undelivered {
        /// Number of undelivered events.
        left: i64,
    },
    /// Another migration is running.
    #[error("another migration has been running for {after:?}; nothing was changed")]
    Occupied {
        /// The time waited.
        after: Duration,
    },
    /// The database refused.
    #[error("{what}: {source}{}", hint(source))]
    Database {
        /// The step that failed.
        what: String,
        /// The refusal.
        source: DbError,
    },
}

fn hint(source: &DbError) -> &'static str {
    if source.sqlstate() == Some("42501") {
        "; migrations run as the owner of the tables: --owner-url or MAPLE_ROUTER_OWNER_URL"
    } else {
        ""
    }
}

impl MigrateError {
    /// Returns the kind of trouble, for the exit code.
    #[must_use]
    pub fn kind(&self) -> DbErrorKind {
        match self {
            Self::NotAlone(_)
            | Self::Diverged { .. }
            | Self::NotOurs { .. }
            | Self::NoWayBack { .. }
            | Self::Foundation { .. }
            | Self::BothSides
            | Self::Undelivered { .. } => DbErrorKind::Contract,
            Self::Occupied { .. } => DbErrorKind::Busy,
            Self::Database { source, .. } => source.kind(),
        }
    }
}

/// Brings the forms database up to date, or applies the one file asked for. Run as the owner of the tables.
///
/// # Errors
/// [`MigrateError`].
pub async fn migrate(client: &mut Client, options: &MigrateOptions) -> Result<Vec<Applied>, MigrateError> {
    if let Some(only) = &options.only {
        let (stem, sql) = ROUTING_AUDIT_ACTIONS;
        if only.trim_start_matches('0') != "11" && only != stem {
            return Err(MigrateError::NotAlone(only.clone()));
        }
        let before = audit_words(client).await?;
        client.batch_execute(sql).await.map_err(|error| failed(stem, error))?;
        let changed = audit_words(client).await? != before;
        return Ok(vec![Applied { name: stem.to_owned(), changed }]);
    }
    let readable = if options.audit_readable { "on" } else { "off" };
    client
        .batch_execute(&format!("SET maple_router.audit_readable = '{readable}'"))
        .await
        .map_err(|error| failed("choosing the variant", error))?;
    run(client, &FORMS).await
}

/// Applies every file of a set that its history does not list. Two runs at once wait for each other.
///
/// # Errors
/// [`MigrateError`].
pub async fn run(client: &mut Client, set: &MigrationSet) -> Result<Vec<Applied>, MigrateError> {
    locked(client, set, async |client| run_locked(client, set).await).await
}

/// The time to wait for another migration, and the pause between two looks.
const OTHERS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(100));

/// Runs `work` while no other migration of this set runs.
async fn locked<T>(
    client: &mut Client,
    set: &MigrationSet,
    work: impl AsyncFnOnce(&mut Client) -> Result<T, MigrateError>,
) -> Result<T, MigrateError> {
    // A session's lock, since each file commits by itself: migrate over a direct connection, not a pooling proxy's. Polled
    // rather than waited for: an index built concurrently waits for every running statement.
    let lock = format!("pg_try_advisory_lock(hashtext('maple_router'), hashtext('{}'))", set.history_table);
    let unlock = lock.replace("pg_try_advisory_lock", "pg_advisory_unlock");
    let (after, pause) = OTHERS;
    let mut waited = Duration::ZERO;
    loop {
        let asked = client.query_one(&format!("SELECT {lock}"), &[]).await;
        if asked.map_err(|error| failed("waiting for another migration", error))?.get(0) {
            break;
        }
        if waited >= after {
            return Err(MigrateError::Occupied { after });
        }
        tokio::time::sleep(pause).await;
        waited += pause;
    }
    let result = work(client).await;
    // If this fails, the lock ends with the session.
    drop(client.execute(&format!("SELECT {unlock}"), &[]).await);
    result
}

async fn run_locked(client: &mut Client, set: &MigrationSet) -> Result<Vec<Applied>, MigrateError> {
    client.batch_execute(set.prepare).await.map_err(|error| failed(set.name, error))?;
    let sql = "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NULL";
    let strangers: bool = client
        .query_one(sql, &[&set.witness, &set.history_table])
        .await
        .map_err(|error| failed("looking for tables", error))?
        .get(0);
    if strangers {
        return Err(MigrateError::NotOurs { witness: set.witness });
    }
    let mut migrations = Vec::new();
    for (stem, sql) in set.files {
        let (number, name) = stem.split_once('_').unwrap_or((stem, "unnamed"));
        let named = format!("V{}__{name}", number.trim_start_matches('0'));
        migrations.push(Migration::unapplied(&named, sql).map_err(|error| from_refinery(set, &error))?);
    }
    let mut runner = Runner::new(&migrations);
    runner.set_migration_table_name(set.history_table);
    let report = runner.run_async(client).await.map_err(|error| from_refinery(set, &error))?;
    let stem_of = |migration: &Migration| format!("{:03}_{}", migration.version(), migration.name());
    Ok(report
        .applied_migrations()
        .iter()
        .map(|done| Applied { name: stem_of(done), changed: true })
        .collect())
}

async fn audit_words(client: &Client) -> Result<Vec<String>, MigrateError> {
    let sql = "SELECT enumlabel::text FROM pg_enum WHERE enumtypid = to_regtype('audit_action') ORDER BY 1";
    let rows =
        client.query(sql, &[]).await.map_err(|error| failed("reading the enum audit_action", error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn failed(what: &str, error: tokio_postgres::Error) -> MigrateError {
    MigrateError::Database { what: what.to_owned(), source: error.into() }
}

fn from_refinery(set: &MigrationSet, error: &refinery::Error) -> MigrateError {
    match error.kind() {
        Kind::Connection(what, source) => MigrateError::Database {
            what: what.clone(),
            source: match source.downcast_ref::<tokio_postgres::Error>() {
                Some(error) => error.into(),
                None => DbError::Connection(source.to_string()),
            },
        },
        Kind::InvalidName
        | Kind::InvalidVersion
        | Kind::RepeatedVersion(_)
        | Kind::DivergentVersion(..)
        | Kind::MissingVersion(_)
        | Kind::InvalidMigrationPath(..)
        | Kind::ConfigError(_)
        | Kind::InvalidMigrationFile(..) => {
            MigrateError::Diverged { table: set.history_table, what: error.to_string() }
        }
    }
}
