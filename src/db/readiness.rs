//! The one SQL fragment that says whether a submission is ready, not yet, or infected (protocol, "Terms").
//!
//! Text only: whoever needs readiness puts these predicates into a statement of its own. They ask the database anew each
//! time; nothing here remembers an answer. An attachment whose status is NULL, or unknown to us, is not clean.
//!
//! `OFFSET 0` in them: each row's own attachments are looked up. PostgreSQL would rather begin with all that were ever
//! infected, of which there are more the longer the table is kept.

use super::error::DbError;

/// The predicates, for one database. Made once from `[readiness]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Quoted already.
    finalized_column: Option<String>,
}

impl Readiness {
    /// `finalized_column`: a timestamptz of `submissions` that must be set, for backends that insert before finalize.
    ///
    /// # Errors
    /// [`DbError::Settings`]: not the plain name of a column.
    pub fn new(finalized_column: Option<&str>) -> Result<Self, DbError> {
        let Some(name) = finalized_column else { return Ok(Self::default()) };
        let plain = name.len() <= 63
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
        if !plain {
            return Err(DbError::Settings(format!(
                "readiness.finalized_column {name:?} is not the plain name of a column (letters, digits, underscores)"
            )));
        }
        Ok(Self { finalized_column: Some(format!("\"{name}\"")) })
    }

    /// SQL, boolean, never NULL: the row is finalized. `alias` is the alias of `submissions` in the statement.
    #[must_use]
    pub fn is_finalized(&self, alias: &str) -> String {
        match &self.finalized_column {
            Some(column) => format!("({alias}.{column} IS NOT NULL)"),
            None => "true".to_owned(),
        }
    }

    /// SQL, time or NULL: since when the row is ready, where the database knows it. Without attachments that is since it
    /// was finalized; when a scan ended is nowhere recorded. Never infinite. For measuring only.
    #[must_use]
    pub fn ready_at(&self, alias: &str) -> String {
        let finalized = match &self.finalized_column {
            Some(column) => format!("{alias}.{column}"),
            None => format!("{alias}.created_at"),
        };
        format!(
            "(CASE WHEN isfinite({finalized}) AND NOT EXISTS \
             (SELECT FROM attachments x WHERE x.submission_id = {alias}.id) THEN {finalized} END)"
        )
    }

    /// SQL, boolean, never NULL: no attachment is anything but clean. True without attachments.
    #[must_use]
    pub fn all_clean(&self, alias: &str) -> String {
        format!(
            "(NOT EXISTS (SELECT FROM attachments x WHERE x.submission_id = {alias}.id AND {NOT_CLEAN} OFFSET 0))"
        )
    }

    /// SQL, boolean, never NULL: finalized, and every attachment clean.
    #[must_use]
    pub fn is_ready(&self, alias: &str) -> String {
        format!("({} AND {})", self.is_finalized(alias), self.all_clean(alias))
    }

    /// SQL, boolean, never NULL: at least one attachment is infected, whatever else is the case.
    #[must_use]
    pub fn any_infected(&self, alias: &str) -> String {
        format!(
            "(EXISTS (SELECT FROM attachments x WHERE x.submission_id = {alias}.id AND x.clamav_status = 'infected' OFFSET 0))"
        )
    }

    /// SQL, bigint: attachments that are neither clean nor infected.
    #[must_use]
    pub fn pending_count(&self, alias: &str) -> String {
        format!(
            "(SELECT count(*) FROM attachments x WHERE x.submission_id = {alias}.id AND {NOT_CLEAN} \
             AND x.clamav_status IS DISTINCT FROM 'infected')"
        )
    }
}

/// Not `<>`: that is NULL for a NULL, and the attachment would count as clean.
const NOT_CLEAN: &str = "x.clamav_status IS DISTINCT FROM 'clean'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_name_cannot_smuggle_sql() {
        for name in ["", "1st", "finalized at", "x\" OR true --", "x;", "submitted.at", &"x".repeat(64)] {
            assert!(Readiness::new(Some(name)).is_err(), "{name:?}");
        }
        let readiness = Readiness::new(Some("finalized_at")).expect("a plain name");
        assert_eq!(readiness.is_finalized("s"), "(s.\"finalized_at\" IS NOT NULL)");
    }
}
