//! Line `grader`: whether the grader's role may do its work, sees nothing else, and somebody takes what waits.
//!
//! Judged from the catalogs, as that role. Whether submissions are hidden from it is asked here alone: nobody else can see what it may.

use super::{ELSEWHERE, graders_pool};
use crate::config::Config;
use crate::db::contract::guards::right_faults;
use crate::db::{DbError, Pool};
use crate::ports::CheckLine;
use crate::scrub::scrub;

pub(super) const NAME: &str = "grader";
/// Age of the oldest request from which nobody takes them.
const STALE: f64 = 120.0;

/// Rights on tables that the role needs, and rights that it must not have: routing's side and people are not its own.
const RIGHTS: [(&str, &str, bool); 18] = [
    ("grading.jobs", "SELECT", true),
    ("grading.jobs", "INSERT", true),
    ("grading.jobs", "DELETE", false),
    ("grading.events", "INSERT", true),
    ("grading.events", "UPDATE", false),
    ("grading.steps", "INSERT", true),
    ("grading.spent", "UPDATE", true),
    ("grading.calibrations", "SELECT", true),
    ("grading.calibrations", "INSERT", true),
    ("grading.calibrations", "UPDATE", false),
    ("mq.grading_request", "SELECT", true),
    ("mq.grading_request", "DELETE", true),
    ("mq.grading_request", "INSERT", false),
    ("mq.grading_callback", "SELECT", false),
    ("mq.grading_callback", "DELETE", false),
    ("public.submissions", "SELECT", false),
    ("public.submission_fields", "SELECT", false),
    ("public.attachments", "SELECT", false),
];

/// Naming a table of a schema that may not be used is an error, so the schemas are asked first: whether they are there, the role may send callbacks (a right on columns) and look how much waits, and which other schemas it may use.
const ROLE: &str = "SELECT r.role, r.there, r.uses,
  CASE WHEN r.uses THEN COALESCE(has_any_column_privilege(to_regclass('mq.grading_callback'), 'INSERT'), false) ELSE false END AS answers,
  ARRAY(SELECT n.nspname::text FROM pg_namespace n WHERE n.nspname IN ('assessment', 'router', 'content', 'screening')
    AND has_schema_privilege(n.oid, 'USAGE') ORDER BY 1) AS sees
FROM (SELECT current_user::text AS role, to_regnamespace('grading') IS NOT NULL AND to_regnamespace('mq') IS NOT NULL AS there,
  COALESCE(has_schema_privilege(to_regnamespace('grading'), 'USAGE') AND has_schema_privilege(to_regnamespace('mq'), 'USAGE'), false) AS uses) AS r";

const WAITING: &str = "SELECT d.waiting, d.oldest FROM mq.depths() AS d WHERE d.queue = 'request'";

pub(super) async fn line(config: &Config) -> CheckLine {
    let Some(pool) = graders_pool(config) else { return CheckLine::ok(NAME, ELSEWHERE) };
    let judged = async { judged(&pool?).await };
    judged.await.unwrap_or_else(|error| {
        CheckLine::fail(
            NAME,
            scrub(&error.to_string()),
            "correct grading.grader_url or MAPLE_ROUTER_GRADER_URL: rb-015-grading.md, \"The grader's identity\"",
        )
    })
}

async fn judged(pool: &Pool) -> Result<CheckLine, DbError> {
    let client = pool.get().await?;
    let row = client.query_one(ROLE, &[]).await?;
    let role: String = row.try_get("role")?;
    let away = |what: &str| {
        let remedy = "as the owner: maple-router migrate --grading; and is the url that of role maple_grader? (rb-015, \"The grader's identity\")";
        CheckLine::fail(NAME, format!("as {role}: {what}"), remedy)
    };
    if !row.try_get::<_, bool>("there")? {
        return Ok(away("there are no schemas grading and mq"));
    }
    if !row.try_get::<_, bool>("uses")? {
        return Ok(away("it may not use schemas grading and mq: it can take no request"));
    }
    let mut faults = right_faults(&client, &RIGHTS).await?;
    if !row.try_get::<_, bool>("answers")? {
        faults.push("this role has no INSERT on mq.grading_callback".to_owned());
    }
    let sees: Vec<String> = row.try_get("sees")?;
    faults.extend(sees.iter().map(|schema| format!("this role may use schema {schema}, and should not")));
    if !faults.is_empty() {
        return Ok(CheckLine::fail(
            NAME,
            format!("as {role}: {}", faults.join("; ")),
            "as the owner: maple-router migrate --grading; where that changes nothing, grant or revoke what is named, and let the url be that of \
             role maple_grader (rb-015, \"The grader's identity\")",
        ));
    }
    let waiting = client.query_one(WAITING, &[]).await?;
    let (count, oldest): (i64, f64) = (waiting.try_get("waiting")?, waiting.try_get("oldest")?);
    let detail = format!("{role} may grade, and sees no submission");
    if count > 0 && oldest >= STALE {
        return Ok(CheckLine::warn(
            NAME,
            format!("{detail}; but {count} requests wait, the oldest for {oldest:.0} s: nobody takes them"),
            "systemctl status maple-router-grader.service; systemctl restart maple-router-grader.service (rb-015, \"grading_stalled\")",
        ));
    }
    Ok(CheckLine::ok(NAME, format!("{detail}; {count} requests wait")))
}
