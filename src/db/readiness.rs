//! The one SQL fragment that says whether a submission is ready, not yet, or infected (protocol, "Terms").
//!
//! Text only: a caller puts these predicates into a statement of its own. They ask the database anew each time; nothing here
//! remembers an answer. An attachment whose status is NULL, or unknown to us, is not clean; and where a policy may hide one,
//! no submission is ready.
//!
//! Their `OFFSET 0` makes PostgreSQL look up each row's own attachments. The planner would rather start with all that were
//! ever infected, of which there are more the longer the table is kept.

use super::error::DbError;

/// The predicates, for one database. Made once from `[readiness]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// The column's name, quoted already.
    finalized_column: Option<String>,
    /// Whether schema screening is asked.
    is_screened: bool,
    /// Whether schema assessment is asked.
    is_graded: bool,
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
        Ok(Self { finalized_column: Some(format!("\"{name}\"")), ..Self::default() })
    }

    /// The predicates of a deployment with schema screening, where `on`: a submission of an enforced form is ready when its run is
    /// published.
    #[must_use]
    pub fn screened(self, on: bool) -> Self {
        Self { is_screened: on, ..self }
    }

    /// The predicates of a deployment with schema assessment, where `on`: a submission of a gated form is ready when it is graded.
    #[must_use]
    pub fn graded(self, on: bool) -> Self {
        Self { is_graded: on, ..self }
    }

    /// SQL, text, never NULL: what screening says, `passed`, `waiting` or `out` (`screening.gates`), and behind it what grading says, `passed`
    /// or, where that is `waiting`, `ungraded` (`assessment.gates`).
    #[must_use]
    pub fn gate(&self, alias: &str) -> String {
        let asked =
            |schema: &str| format!("{schema}.gates({alias}.id, {alias}.form_id::text, {alias}.created_at)");
        match (self.is_screened, self.is_graded) {
            (false, false) => "'passed'::text".to_owned(),
            (true, false) => format!("(SELECT g.says FROM {} AS g)", asked("screening")),
            (false, true) => format!("(SELECT {UNGRADED} FROM {} AS a)", asked("assessment")),
            (true, true) => format!(
                "(SELECT CASE WHEN g.says = 'passed' THEN {UNGRADED} ELSE g.says END FROM {} AS g, {} AS a)",
                asked("screening"),
                asked("assessment")
            ),
        }
    }

    /// SQL, a join: what [`Self::gate`] says of each row, as `gate.says`, asked once.
    #[must_use]
    pub fn gate_of(&self, alias: &str) -> String {
        // Not flattened: each mention of it would ask again.
        format!("CROSS JOIN LATERAL (SELECT {} AS says OFFSET 0) AS gate", self.gate(alias))
    }

    /// SQL, text: tells the schemas, until the transaction ends, that a claim has asked [`Self::gate_of`] for its rows and each of them has
    /// passed, so that their guards of claims (`screening_guard_claim`, `assessment_guard_claim`) do not ask for each again. From the first
    /// that has not, the guards ask for all of them: a router that decides against the answer is stopped. A guard whose schema was not asked
    /// is told nothing.
    #[must_use]
    pub fn gate_is_asked(&self) -> String {
        let told = |setting: &str| {
            format!(
                "set_config('{setting}', CASE WHEN gate.says = 'passed' \
                 AND current_setting('{setting}', true) IS DISTINCT FROM 'shut' THEN 'asked' ELSE 'shut' END, true)"
            )
        };
        match (self.is_screened, self.is_graded) {
            (false, false) => "NULL::text".to_owned(),
            (true, false) => told("maple_router.gate"),
            (false, true) => told("maple_router.graded"),
            (true, true) => format!("({} || {})", told("maple_router.gate"), told("maple_router.graded")),
        }
    }

    /// SQL, boolean, never NULL: its screening goes on, and whoever watches screening watches it.
    #[must_use]
    pub fn is_being_screened(&self, alias: &str) -> String {
        if self.is_screened {
            format!(
                "(EXISTS (SELECT FROM screening.submissions x WHERE x.subject = {alias}.id AND x.current AND x.enforced \
                 AND x.ended_at IS NULL AND x.closed_at IS NULL))"
            )
        } else {
            "false".to_owned()
        }
    }

    /// SQL, boolean, never NULL: its grading goes on, or has failed, and whoever watches grading watches it.
    #[must_use]
    pub fn is_being_graded(&self, alias: &str) -> String {
        if self.is_graded {
            format!(
                "(EXISTS (SELECT FROM assessment.submissions x WHERE x.subject = {alias}.id AND x.current AND x.gate \
                 AND x.closed_at IS NULL AND x.released_at IS NULL AND x.state <> 'COMPLETED'))"
            )
        } else {
            "false".to_owned()
        }
    }

    /// SQL, jsonb or NULL: the submission's current attempt at grading, in codes and counts.
    #[must_use]
    pub fn attempt(&self, alias: &str) -> String {
        if self.is_graded {
            format!(
                "(SELECT jsonb_build_object('id', x.id, 'attempt', x.attempt, 'state', x.state, 'since', x.state_since, 'gate', x.gate, \
                 'deadline', x.deadline, 'failed', x.failed_reason, 'released', x.released_at IS NOT NULL) FROM assessment.submissions x \
                 WHERE x.subject = {alias}.id AND x.current)"
            )
        } else {
            "NULL::jsonb".to_owned()
        }
    }

    /// SQL, jsonb or NULL: the submission's final grade, as templates see it. A mail that did not wait for the grade has it only when it goes
    /// again: else it would depend on who was faster.
    #[must_use]
    pub fn grade(&self, alias: &str) -> String {
        if self.is_graded {
            format!(
                "(SELECT r.result FROM assessment.submissions x JOIN assessment.results r ON r.request_id = x.id AND r.kind = 'final' \
                 WHERE x.subject = {alias}.id AND x.current AND x.state = 'COMPLETED' \
                 AND (x.gate OR {alias}.routing_result ? 'generations'))"
            )
        } else {
            "NULL::jsonb".to_owned()
        }
    }

    /// SQL, jsonb or NULL: the submission's current run, in codes and counts.
    #[must_use]
    pub fn run(&self, alias: &str) -> String {
        if self.is_screened {
            format!(
                "(SELECT jsonb_build_object('id', x.id, 'run', x.run, 'state', x.state, 'since', x.state_since, 'enforced', x.enforced, \
                 'score', x.score, 'bars', x.bars, 'dead', x.dead_reason) FROM screening.submissions x \
                 WHERE x.subject = {alias}.id AND x.current)"
            )
        } else {
            "NULL::jsonb".to_owned()
        }
    }

    /// SQL, boolean, never NULL: the row is finalized. `alias` is the alias of `submissions` in the statement.
    #[must_use]
    pub fn is_finalized(&self, alias: &str) -> String {
        match &self.finalized_column {
            Some(column) => format!("({alias}.{column} IS NOT NULL)"),
            None => "true".to_owned(),
        }
    }

    /// SQL, time or NULL: the time since when the row is ready, where the database knows it. Without attachments that is the time of
    /// finalizing, or of its publication where it is screened; the end of a scan is recorded nowhere. Never infinite. For measuring only.
    #[must_use]
    pub fn ready_at(&self, alias: &str) -> String {
        let finalized = match &self.finalized_column {
            Some(column) => format!("{alias}.{column}"),
            None => format!("{alias}.created_at"),
        };
        let mut ready = finalized.clone();
        if self.is_screened {
            ready = format!(
                "COALESCE((SELECT x.ended_at FROM screening.submissions x WHERE x.subject = {alias}.id AND x.current AND x.enforced \
                 AND x.state = 'PUBLISHED'), {ready})"
            );
        }
        if self.is_graded {
            ready = format!(
                "COALESCE((SELECT COALESCE(x.released_at, x.ended_at) FROM assessment.submissions x WHERE x.subject = {alias}.id \
                 AND x.current AND x.gate), {ready})"
            );
        }
        format!(
            "(CASE WHEN isfinite({finalized}) AND NOT EXISTS \
             (SELECT FROM attachments x WHERE x.submission_id = {alias}.id) THEN {ready} END)"
        )
    }

    /// SQL, boolean, never NULL: this role sees every row of `attachments`, so that a missing one does not exist.
    ///
    /// The same condition as line `rls_attachments` of `check`, evaluated once per statement. A statement that reads the
    /// table has its lock before the snapshot it is executed with, and no policy is dropped or altered beside that lock: so
    /// the result is true of the very rows that the statement reads.
    #[must_use]
    pub fn is_visible(&self) -> String {
        VISIBLE.to_owned()
    }

    /// SQL, boolean, never NULL: no attachment is anything but clean. True without attachments. A conclusion from it needs
    /// [`Self::is_visible`] as well.
    #[must_use]
    pub fn all_clean(&self, alias: &str) -> String {
        format!(
            "(NOT EXISTS (SELECT FROM attachments x WHERE x.submission_id = {alias}.id AND {NOT_CLEAN} OFFSET 0))"
        )
    }

    /// SQL, boolean, never NULL: finalized, every attachment clean, and published by its screening; false where one can be hidden.
    #[must_use]
    pub fn is_ready(&self, alias: &str) -> String {
        let gate = if self.is_screened || self.is_graded {
            format!(" AND {} = 'passed'", self.gate(alias))
        } else {
            String::new()
        };
        format!(
            "({} AND {} AND {}{gate})",
            self.is_finalized(alias),
            self.is_visible(),
            self.all_clean(alias)
        )
    }

    /// SQL, boolean, never NULL: at least one attachment is infected, whatever else is the case. A conclusion from its
    /// absence needs [`Self::is_visible`] as well.
    #[must_use]
    pub fn any_infected(&self, alias: &str) -> String {
        format!(
            "(EXISTS (SELECT FROM attachments x WHERE x.submission_id = {alias}.id AND x.clamav_status = 'infected' OFFSET 0))"
        )
    }

    /// SQL, bigint: attachments that are neither clean nor infected. A conclusion from its absence needs
    /// [`Self::is_visible`] as well.
    #[must_use]
    pub fn pending_count(&self, alias: &str) -> String {
        format!(
            "(SELECT count(*) FROM attachments x WHERE x.submission_id = {alias}.id AND {NOT_CLEAN} \
             AND x.clamav_status IS DISTINCT FROM 'infected')"
        )
    }
}

/// A policy binds PUBLIC (0) or roles whose privileges this one has. Only a condition that is literally `true` shows every
/// row, and a view or another object under the table's name may show anything. Correlated with nothing.
const VISIBLE: &str = "(SELECT c.relkind IN ('r', 'p') AND (NOT row_security_active(c.oid) OR COALESCE((
    SELECT bool_or(q.open) FILTER (WHERE q.permissive) AND COALESCE(bool_and(q.open) FILTER (WHERE NOT q.permissive), true)
    FROM (SELECT p.polpermissive AS permissive, pg_get_expr(p.polqual, p.polrelid) IS NOT DISTINCT FROM 'true' AS open
      FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd IN ('*', 'r')
        AND EXISTS (SELECT FROM unnest(p.polroles) AS r (oid) WHERE r.oid = 0 OR pg_has_role(r.oid, 'USAGE'))) AS q), false))
  FROM pg_class c WHERE c.oid = 'attachments'::regclass)";

/// What `assessment.gates` says, in words that are not screening's.
const UNGRADED: &str = "CASE a.says WHEN 'waiting' THEN 'ungraded' ELSE a.says END";

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
