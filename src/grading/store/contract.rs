//! Line `grading`: whether the gate is shut as it should be, and each side can write its own alone.
//!
//! Judged from the catalogs. The line must not fail open: without a trigger a submission could be claimed ungraded, or an attempt moved by an
//! edge that is not tabled.

use futures::FutureExt as _;

use super::THERE;
use crate::db::DbError;
use crate::db::contract::guards::{right_faults, trigger_faults};
use crate::db::contract::{Check, ContractOptions, Look};
use crate::db::pool::Client;
use crate::ports::CheckLine;

const NAME: &str = "grading";
/// The line of `check` that the database answers.
pub const CHECK: Check =
    Check { line: NAME, order: 82, look: Look::Database(|client, options| line(client, options).boxed()) };

/// Triggers of 001 and 002, and their tables.
const TRIGGERS: [(&str, &str); 5] = [
    ("assessment_guard_claim", "public.submissions"),
    ("assessment_subject_ended", "public.submissions"),
    ("guard", "assessment.submissions"),
    ("moved", "assessment.submissions"),
    ("dead", "mq.grading_dlq"),
];

/// Rights that the daemon's role needs, and rights that it must not have: the grader's side is not its own.
const RIGHTS: [(&str, &str, bool); 9] = [
    ("assessment.submissions", "SELECT", true),
    ("assessment.submissions", "INSERT", false),
    ("assessment.submissions", "DELETE", false),
    ("assessment.events", "INSERT", true),
    ("assessment.events", "UPDATE", false),
    ("assessment.results", "UPDATE", false),
    ("mq.grading_callback", "DELETE", true),
    ("mq.grading_callback", "INSERT", false),
    ("mq.grading_request", "SELECT", false),
];

/// Whether the daemon's role may review as a person, or see the grader's schema.
const CROSSES: &str = "SELECT has_function_privilege('assessment.review(uuid, bigint, jsonb, jsonb, text[], text, text)', 'EXECUTE') AS reviews,
  has_schema_privilege(to_regnamespace('grading'), 'USAGE') AS sees";

const STANDING: &str = "SELECT (SELECT count(*) FROM assessment.profiles) AS forms,
  (SELECT count(*) FROM assessment.profiles WHERE gate) AS gated,
  (SELECT count(*) FROM assessment.profiles p JOIN assessment.questions q ON q.id = p.question
   WHERE p.skill IN ('listening', 'reading') AND q.answer_key IS NULL) AS keyless,
  (SELECT d.waiting FROM mq.depths() AS d WHERE d.queue = 'dead') AS dead";

async fn line(client: &Client, options: &ContractOptions) -> Result<CheckLine, DbError> {
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        if options.grading {
            return Ok(CheckLine::fail(
                NAME,
                "grading.mode is on, and there is no schema assessment that this role may use: nothing is claimed",
                "as the owner: maple-router migrate --grading; or set grading.mode = \"off\"",
            ));
        }
        return Ok(CheckLine::ok(NAME, "absent (optional): every submission is routed ungraded"));
    }
    let mut faults = trigger_faults(client, &TRIGGERS).await?;
    faults.extend(right_faults(client, &RIGHTS).await?);
    let crosses = client.query_one(CROSSES, &[]).await?;
    if crosses.try_get("reviews")? {
        faults.push("the daemon's role, which is the backend's, may execute assessment.review".to_owned());
    }
    if crosses.try_get("sees")? {
        faults.push("the daemon's role may use schema grading, which is the grader's alone".to_owned());
    }
    if !faults.is_empty() {
        return Ok(CheckLine::fail(
            NAME,
            format!("present, but not as it should be: {}", faults.join("; ")),
            "as the owner: maple-router migrate --grading; where that changes nothing, enable the triggers (ALTER TABLE … ENABLE TRIGGER), \
             grant or revoke what is named (rb-015)",
        ));
    }
    let row = client.query_one(STANDING, &[]).await?;
    let (forms, gated): (i64, i64) = (row.get("forms"), row.get("gated"));
    let (keyless, dead): (i64, i64) = (row.get("keyless"), row.get("dead"));
    if gated > 0 && !options.grading {
        return Ok(CheckLine::fail(
            NAME,
            format!(
                "{gated} forms are gated, and grading.mode is off: their submissions are claimed by nobody"
            ),
            "set grading.mode = \"on\" and restart; or maple-router grading enable FORM … --no-gate",
        ));
    }
    let detail = format!("present: {forms} forms, {gated} gated");
    if keyless > 0 {
        let detail = format!("{detail}; {keyless} of listening or reading without an answer key");
        return Ok(CheckLine::warn(
            NAME,
            detail,
            "maple-router grading question QUESTION --file FILE (rb-015)",
        ));
    }
    if dead > 0 {
        let detail = format!("{detail}; {dead} messages that nobody could take in");
        return Ok(CheckLine::warn(NAME, detail, "maple-router grading messages --dead (rb-015)"));
    }
    Ok(CheckLine::ok(NAME, detail))
}
