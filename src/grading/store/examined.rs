//! Questions of `check` about the grader's side, over a connection of whichever role may see it. Reads only, and no words of anybody.

use crate::db::DbError;
use crate::db::pool::Client;
use crate::grading::core::skill::Skill;

/// Naming a table of a schema that may not be used is an error, so the schemas are asked first.
const STANDING: &str = "SELECT r.role, r.there, r.uses,
  CASE WHEN r.uses THEN COALESCE(has_any_column_privilege(to_regclass('mq.grading_callback'), 'INSERT'), false) ELSE false END AS answers,
  ARRAY(SELECT n.nspname::text FROM pg_namespace n WHERE n.nspname IN ('assessment', 'router', 'content', 'screening')
    AND has_schema_privilege(n.oid, 'USAGE') ORDER BY 1) AS sees
FROM (SELECT current_user::text AS role, to_regnamespace('grading') IS NOT NULL AND to_regnamespace('mq') IS NOT NULL AS there,
  COALESCE(has_schema_privilege(to_regnamespace('grading'), 'USAGE') AND has_schema_privilege(to_regnamespace('mq'), 'USAGE'), false) AS uses) AS r";

const WAITING: &str = "SELECT d.waiting, d.oldest FROM mq.depths() AS d WHERE d.queue = 'request'";

/// Skills and rubrics of the forms that models grade.
const GRADED: &str = "SELECT DISTINCT q.skill, q.rubric FROM assessment.profiles p JOIN assessment.questions q ON q.id = p.question
WHERE p.skill IN ('writing', 'speaking') ORDER BY 1, 2";

const THERE: &str =
    "SELECT COALESCE(has_schema_privilege(to_regnamespace('assessment'), 'USAGE'), false) AS there";

const NEWEST: &str = "SELECT c.suffices FROM grading.calibrations c WHERE c.skill = $1 AND c.models = $2 AND c.prompt = $3 AND c.rubric = $4
ORDER BY c.id DESC LIMIT 1";

/// A role's standing with the grader's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::grading) struct Standing {
    /// The role's name.
    pub(in crate::grading) role: String,
    /// Schemas `grading` and `mq` are there.
    pub(in crate::grading) is_there: bool,
    /// The role may use both.
    pub(in crate::grading) uses: bool,
    /// The role may send callbacks: a right on columns.
    pub(in crate::grading) answers: bool,
    /// Other schemas of ours that it may use.
    pub(in crate::grading) sees: Vec<String>,
}

/// Returns the standing of this connection's role.
///
/// # Errors
/// [`DbError`].
pub(in crate::grading) async fn standing(client: &Client) -> Result<Standing, DbError> {
    let row = client.query_one(STANDING, &[]).await?;
    Ok(Standing {
        role: row.try_get("role")?,
        is_there: row.try_get("there")?,
        uses: row.try_get("uses")?,
        answers: row.try_get("answers")?,
        sees: row.try_get("sees")?,
    })
}

/// Requests that nobody has taken, and the age of the oldest in seconds.
///
/// # Errors
/// [`DbError`].
pub(in crate::grading) async fn requests_waiting(client: &Client) -> Result<(i64, f64), DbError> {
    let row = client.query_one(WAITING, &[]).await?;
    Ok((row.try_get("waiting")?, row.try_get("oldest")?))
}

/// Returns what models grade, by skill and rubric; nothing where this role may not look, or the schema is away.
///
/// # Errors
/// [`DbError`].
pub(in crate::grading) async fn graded(client: &Client) -> Result<Vec<(String, String)>, DbError> {
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        return Ok(Vec::new());
    }
    let rows = client.query(GRADED, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get("skill")?, row.try_get("rubric")?))).collect()
}

/// Returns whether the newest trial of these models, with this prompt and rubric, sufficed; none: there was none.
///
/// # Errors
/// [`DbError`].
pub(in crate::grading) async fn newest_trial(
    client: &Client,
    skill: Skill,
    (models, prompt, rubric): (&str, &str, &str),
) -> Result<Option<bool>, DbError> {
    let row = client.query_opt(NEWEST, &[&skill.label(), &models, &prompt, &rubric]).await?;
    row.map(|row| row.try_get("suffices").map_err(DbError::from)).transpose()
}
