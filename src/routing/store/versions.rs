//! Which version a form follows, read beside its actions: where schema `content` keeps versions, and this role may read them.
//!
//! The schema is optional, and comes and goes while daemons run. A statement that names a missing table is an error, so what
//! reads plans has two texts. The text without versions asks beside its rows, once for each batch and of the catalog's caches,
//! whether there are any; so they count from the first claim after the migration, whoever claims, and no plan of a managed
//! form is pinned without its version. Asked at the start, or each minute, they would be missed until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::Row;

use crate::db::{DbError, DbErrorKind};
use crate::routing::submission::version::FormVersion;

/// SQL, boolean: whether this role can read which versions forms follow. A table of a schema without USAGE cannot be named,
/// so the schema is asked first.
pub(super) const ARE_THERE: &str =
    "(SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('content'), 'USAGE'), false)
    THEN COALESCE(has_table_privilege(to_regclass('content.current'), 'SELECT'), false)
      AND COALESCE(has_table_privilege(to_regclass('content.versions'), 'SELECT'), false) ELSE false END)";

/// SQL, jsonb: a version as the ledger has it.
pub(super) const VERSION: &str =
    "jsonb_build_object('id', v.id, 'number', v.number, 'digest', encode(v.digest, 'hex'))";

/// SQL: where [`VERSION`] is read from.
pub(super) const FOLLOWED: &str =
    "FROM content.current c JOIN content.versions v ON v.id = c.version_id WHERE c.form_id =";

/// A statement that reads plans, in two texts. Read in one statement, a plan and a version belong together: at each commit the
/// rows of a managed form are those of its current version.
#[derive(Debug)]
pub(super) struct PlanRead {
    /// Names nothing of schema `content`.
    pub(super) plain: String,
    /// Reads the version of each plan, too.
    pub(super) versioned: String,
}

impl PlanRead {
    /// Both texts; `text` makes one of its name, of the version (SQL, jsonb) and of whether there are versions (SQL, boolean).
    pub(super) fn new(name: &str, form_id: &str, text: impl Fn(&str, &str, &str) -> String) -> Self {
        let version = format!("(SELECT {VERSION} {FOLLOWED} {form_id})");
        Self {
            plain: text(name, "NULL::jsonb", ARE_THERE),
            versioned: text(&format!("{name}_versioned"), &version, "true"),
        }
    }
}

/// Whether versions were there when they were asked for last; shared by the store's copies. Decides only which text is
/// tried first.
#[derive(Debug, Clone, Default)]
pub(super) struct Noticed(Arc<AtomicBool>);

impl Noticed {
    pub(super) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, there: bool) {
        if self.0.swap(there, Ordering::Relaxed) != there {
            tracing::info!(there, "whether plans are pinned with the versions of their forms has changed");
        }
    }
}

/// The version in a row of a [`PlanRead`].
pub(super) fn version(row: &Row) -> Result<Option<FormVersion>, DbError> {
    let version: Option<serde_json::Value> = row.try_get("version")?;
    Ok(version.as_ref().and_then(FormVersion::read))
}

/// Whether a statement may have failed because of what it names: then the same without versions may work.
pub(super) fn may_be_theirs(error: &DbError) -> bool {
    error.sqlstate().is_some() && error.kind() == DbErrorKind::Contract
}
