//! Common setup of the verbs about submissions: configuration, database, and how its faults end a verb.
//!
//! Connects on first use and keeps nothing running.

use std::ops::Deref;

use uuid::Uuid;

use super::id::{self, IdArg};
use super::{CliError, Context, Exit, output};
use crate::db::{DbError, DbErrorKind};
use crate::ops::rng::Rng;
use crate::parts::{self, PartError};
use crate::queries::{QueryError, Reader};
use crate::routing::store::Store;
use crate::routing::store::audit_key::AuditKey;
use crate::routing::store::overrides::ReadinessOverrides;
use crate::routing::store::view::{Named, SubmissionView};
use crate::routing::submission::text::one_line;
use crate::routing::upkeep::pauses::PauseError;

/// One more than is named where a prefix is ambiguous.
const SOME: i64 = id::MOST as i64 + 1;

/// A reader with the exits of a verb (module header).
pub(super) struct Setup(Reader);

/// Reading is the [`Reader`]'s.
impl Deref for Setup {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.0
    }
}

impl Setup {
    /// Reads the configuration; connects to nothing yet.
    pub(super) fn open(ctx: &Context) -> Result<Self, CliError> {
        let config = ctx.config()?.config;
        let pool = parts::verbs_pool(&config).map_err(part)?;
        Ok(Self(Reader::new(config, pool, crate::daemon::ROOMS).map_err(database)?))
    }

    /// The readiness overrides, which also record a person's reason.
    pub(super) fn overrides(&self) -> ReadinessOverrides {
        ReadinessOverrides::new(
            self.pool.clone(),
            &self.readiness,
            self.config.readiness.finalized_column.as_deref(),
        )
    }

    /// The store as the daemon reads with it.
    pub(super) fn store(&self) -> Result<Store, CliError> {
        parts::store(&self.config, self.pool.clone()).map_err(part)
    }

    /// The store as the daemon writes with it: its writes may be audited.
    pub(super) fn writing_store(&self) -> Result<Store, CliError> {
        Ok(self.store()?.with_audit_key(self.audit_key()?))
    }

    /// The key of the audit log's digests. Without the right to read it recipients are domains alone, with a note.
    fn audit_key(&self) -> Result<AuditKey, CliError> {
        match parts::audit_key(&self.config, &Rng::from_system()) {
            Err(PartError::Audit(why)) => {
                output::note(&format!("the audit log will name recipients by their domains alone: {why}"))?;
                Ok(AuditKey::default())
            }
            made => made.map_err(part),
        }
    }

    /// Reads one submission; the error says that there is none.
    pub(super) async fn look(&self, id: Uuid) -> Result<SubmissionView, CliError> {
        self.view().look(id).await.map_err(database)?.ok_or_else(|| unknown("submission", id))
    }

    /// The id of the submission that is meant.
    pub(super) async fn submission(&self, id: &IdArg) -> Result<Uuid, CliError> {
        let (text, first, last) = match id {
            IdArg::Whole(id) => return Ok(*id),
            IdArg::Beginning { text, first, last } => (text, *first, *last),
        };
        meant("submission", text, self.view().submissions_between(first, last, SOME).await)
    }

    /// The ids of the submissions that are meant, in their order.
    pub(super) async fn submissions(&self, ids: &[IdArg]) -> Result<Vec<Uuid>, CliError> {
        let mut meant = Vec::with_capacity(ids.len());
        for id in ids {
            meant.push(self.submission(id).await?);
        }
        Ok(meant)
    }

    /// The id of the attachment that is meant.
    pub(super) async fn attachment(&self, id: &IdArg) -> Result<Uuid, CliError> {
        let (text, first, last) = match id {
            IdArg::Whole(id) => return Ok(*id),
            IdArg::Beginning { text, first, last } => (text, *first, *last),
        };
        meant("attachment", text, self.view().attachments_between(first, last, SOME).await)
    }

    /// Advice where no form has this name: the nearest name there is. A database that does not answer is reported
    /// elsewhere.
    pub(super) async fn unknown_form(&self, wanted: Option<&str>) -> Option<String> {
        let wanted = wanted?;
        let forms = self.view().forms().await.ok()?;
        (!forms.iter().any(|form| form == wanted)).then(|| no_form(wanted, &forms))
    }
}

/// The only thing whose id begins with `text`.
fn meant(what: &str, text: &str, found: Result<Vec<Named>, DbError>) -> Result<Uuid, CliError> {
    let about = |one: Named| (one.id, one_line(&format!("{} {}", one.status, one.about)));
    id::only(what, text, &found.map_err(database)?.into_iter().map(about).collect::<Vec<_>>())
}

/// The known word that is most like one that is not known, where any is.
pub(super) fn nearest<'a>(wanted: &str, known: &'a [String]) -> Option<&'a String> {
    let near =
        |word: &str| strsim::normalized_damerau_levenshtein(&word.to_lowercase(), &wanted.to_lowercase());
    known.iter().max_by(|a, b| near(a).total_cmp(&near(b))).filter(|word| near(word) > 0.5)
}

fn no_form(wanted: &str, forms: &[String]) -> String {
    let hint = nearest(wanted, forms).map(|form| format!("; did you mean {}?", one_line(form)));
    format!("there is no form {}{}", one_line(wanted), hint.unwrap_or_default())
}

/// The error of an unknown id.
pub(super) fn unknown(what: &str, id: Uuid) -> CliError {
    CliError::new(
        Exit::FoundWanting,
        anyhow::anyhow!("there is no {what} {id} that this database role can see"),
    )
    .remedy("compare the id, and the database named by [database] url")
}

/// The end of a verb by a database fault.
pub(super) fn database(error: DbError) -> CliError {
    match error.kind() {
        DbErrorKind::Unreachable | DbErrorKind::Busy => CliError::new(Exit::Unavailable, error)
            .remedy("is PostgreSQL up, and reachable from this host? `maple-router check` tells more"),
        DbErrorKind::Contract => CliError::new(Exit::BadConfig, error)
            .remedy("compare the database with the contract: `maple-router check`"),
        DbErrorKind::Bug => CliError::new(Exit::FoundWanting, error),
    }
}

/// The end of a verb by a failed query.
pub(super) fn query(error: QueryError) -> CliError {
    match error {
        QueryError::Database(error) => database(error),
        QueryError::Pauses(error) => pauses(error),
    }
}

/// The end of a verb by a part that cannot be made.
pub(super) fn part(error: PartError) -> CliError {
    if let PartError::Database(error) = error {
        return database(error);
    }
    // Every other part depends on the configuration alone.
    CliError::new(Exit::BadConfig, error)
}

pub(super) fn pauses(error: PauseError) -> CliError {
    match error {
        PauseError::Database(error) => database(error),
        PauseError::File { .. } | PauseError::Damaged { .. } => CliError::new(Exit::Unavailable, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_form_is_named() {
        let forms = ["contact".to_owned(), "press".to_owned()];
        assert_eq!(no_form("conatct", &forms), "there is no form conatct; did you mean contact?");
        assert_eq!(no_form("PRESS", &forms), "there is no form PRESS; did you mean press?");
        assert_eq!(no_form("something else", &forms), "there is no form something else");
        assert_eq!(no_form("x\u{1b}[2J", &[]), "there is no form x [2J");
    }
}
