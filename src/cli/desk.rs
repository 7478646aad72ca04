//! What the verbs about submissions sit at: configuration, database, and how its faults end a verb.
//!
//! Connects on first use and keeps nothing running.

use uuid::Uuid;

use super::id::{self, IdArg};
use super::{CliError, Context, Exit, output};
use crate::config::Config;
use crate::db::pool::Pool;
use crate::db::readiness::Readiness;
use crate::db::{DbError, DbErrorKind};
use crate::ops::chance::Chance;
use crate::parts::{self, PartError};
use crate::routing::audit_key::AuditKey;
use crate::routing::dead_letter::Records;
use crate::routing::store::Store;
use crate::routing::store::seams::Seams;
use crate::routing::store::view::{Named, Sight, View};
use crate::routing::text::one_line;

/// One more than is named where a beginning is ambiguous.
const SOME: i64 = id::MOST as i64 + 1;

/// See the module's header.
pub(super) struct Desk {
    pub(super) config: Config,
    pool: Pool,
    readiness: Readiness,
}

impl Desk {
    /// Reads the configuration; connects to nothing yet.
    pub(super) fn open(ctx: &Context) -> Result<Self, CliError> {
        let config = ctx.config()?.config;
        let pool = parts::verbs_pool(&config).map_err(part)?;
        let readiness = Readiness::new(config.readiness.finalized_column.as_deref()).map_err(database)?;
        Ok(Self { config, pool, readiness })
    }

    /// For looking.
    pub(super) fn view(&self) -> View {
        View::new(self.pool.clone(), &self.readiness, &self.config)
    }

    /// The connections to the database.
    pub(super) fn pool(&self) -> Pool {
        self.pool.clone()
    }

    /// For the readiness seams and for recording overrides.
    pub(super) fn seams(&self) -> Seams {
        Seams::new(self.pool.clone(), &self.readiness, self.config.readiness.finalized_column.as_deref())
    }

    /// What the daemon itself reads with.
    pub(super) fn store(&self) -> Result<Store, CliError> {
        parts::store(&self.config, self.pool.clone()).map_err(part)
    }

    /// What the daemon itself works with: whatever it writes may be audited.
    pub(super) fn writing_store(&self) -> Result<Store, CliError> {
        Ok(self.store()?.with_audit_key(self.audit_key()?))
    }

    /// What the audit log's digests are made with. Who may not read it names recipients by their domains alone, and is told so.
    fn audit_key(&self) -> Result<AuditKey, CliError> {
        match parts::audit_key(&self.config, &Chance::from_system()) {
            Err(PartError::Audit(why)) => {
                output::note(&format!("the audit log will name recipients by their domains alone: {why}"))?;
                Ok(AuditKey::default())
            }
            made => made.map_err(part),
        }
    }

    /// Dead-letter records.
    pub(super) fn records(&self) -> Records {
        Records::new(self.pool.clone(), &self.config.state.dir)
    }

    /// One submission, or the error that says there is none.
    pub(super) async fn look(&self, id: Uuid) -> Result<Sight, CliError> {
        self.view().look(id).await.map_err(database)?.ok_or_else(|| unknown("submission", id))
    }

    /// The submission that is meant.
    pub(super) async fn submission(&self, id: &IdArg) -> Result<Uuid, CliError> {
        match id {
            IdArg::Whole(id) => Ok(*id),
            IdArg::Beginning { text, first, last } => {
                let found = self.view().submissions_between(*first, *last, SOME).await.map_err(database)?;
                let about = |one: Named| (one.id, one_line(&format!("{} {}", one.status, one.about)));
                id::only("submission", text, &found.into_iter().map(about).collect::<Vec<_>>())
            }
        }
    }

    /// The submissions that are meant, in their order.
    pub(super) async fn submissions(&self, ids: &[IdArg]) -> Result<Vec<Uuid>, CliError> {
        let mut meant = Vec::with_capacity(ids.len());
        for id in ids {
            meant.push(self.submission(id).await?);
        }
        Ok(meant)
    }

    /// The attachment that is meant.
    pub(super) async fn attachment(&self, id: &IdArg) -> Result<Uuid, CliError> {
        match id {
            IdArg::Whole(id) => Ok(*id),
            IdArg::Beginning { text, first, last } => {
                let found = self.view().attachments_between(*first, *last, SOME).await.map_err(database)?;
                let about = |one: Named| (one.id, one_line(&format!("{} {}", one.status, one.about)));
                id::only("attachment", text, &found.into_iter().map(about).collect::<Vec<_>>())
            }
        }
    }

    /// What to say where a form of this name is not there: the next name there is. A database that does not answer says
    /// so elsewhere.
    pub(super) async fn unknown_form(&self, wanted: Option<&str>) -> Option<String> {
        let wanted = wanted?;
        let forms = self.view().forms().await.ok()?;
        (!forms.iter().any(|form| form == wanted)).then(|| no_form(wanted, &forms))
    }
}

fn no_form(wanted: &str, forms: &[String]) -> String {
    let near =
        |form: &str| strsim::normalized_damerau_levenshtein(&form.to_lowercase(), &wanted.to_lowercase());
    let nearest = forms.iter().max_by(|a, b| near(a).total_cmp(&near(b))).filter(|form| near(form) > 0.5);
    let hint = nearest.map(|form| format!("; did you mean {}?", one_line(form))).unwrap_or_default();
    format!("there is no form {}{hint}", one_line(wanted))
}

/// Nothing has this id.
pub(super) fn unknown(what: &str, id: Uuid) -> CliError {
    CliError::new(
        Exit::FoundWanting,
        anyhow::anyhow!("there is no {what} {id} that this database role can see"),
    )
    .remedy("compare the id, and the database named by [database] url")
}

/// How a database fault ends a verb.
pub(super) fn database(error: DbError) -> CliError {
    match error.kind() {
        DbErrorKind::Unreachable | DbErrorKind::Busy => CliError::new(Exit::Unavailable, error)
            .remedy("is PostgreSQL up, and reachable from this host? `maple-router check` tells more"),
        DbErrorKind::Contract => CliError::new(Exit::BadConfig, error)
            .remedy("compare the database with the contract: `maple-router check`"),
        DbErrorKind::Bug => CliError::new(Exit::FoundWanting, error),
    }
}

/// How a part that cannot be made ends a verb.
pub(super) fn part(error: PartError) -> CliError {
    match error {
        PartError::Database(error) => database(error),
        PartError::Secret(_)
        | PartError::Pubsub(_)
        | PartError::Signer(_)
        | PartError::Slack(_)
        | PartError::Heartbeat(_)
        | PartError::Outbox(_)
        | PartError::Mail(_)
        | PartError::Audit(_) => CliError::new(Exit::BadConfig, error),
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
