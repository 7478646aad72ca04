//! Line `grader`: whether the grader's role may do its work, sees nothing else, and somebody takes what waits.
//!
//! Judged from the catalogs, as that role. Whether submissions are hidden from it is asked here alone: nobody else can see what it may.

use super::{ELSEWHERE, graders_pool};
use crate::config::Config;
use crate::db::contract::guards::right_faults;
use crate::db::{DbError, Pool};
use crate::grading::store::examined::{Standing, requests_waiting, standing};
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
    let Standing { role, is_there, uses, answers, sees } = standing(&client).await?;
    let away = |what: &str| {
        let remedy = "as the owner: maple-router migrate --grading, or --grader in a database of its own; and is the url that of role maple_grader? (rb-015, \"The \
             grader's identity\")";
        CheckLine::fail(NAME, format!("as {role}: {what}"), remedy)
    };
    if !is_there {
        return Ok(away("there are no schemas grading and mq"));
    }
    if !uses {
        return Ok(away("it may not use schemas grading and mq: it can take no request"));
    }
    let mut faults = right_faults(&client, &RIGHTS).await?;
    if !answers {
        faults.push("this role has no INSERT on mq.grading_callback".to_owned());
    }
    faults.extend(sees.iter().map(|schema| format!("this role may use schema {schema}, and should not")));
    if !faults.is_empty() {
        return Ok(CheckLine::fail(
            NAME,
            format!("as {role}: {}", faults.join("; ")),
            "as the owner: maple-router migrate --grading; where that changes nothing, grant or revoke what is named, and let the url be that of \
             role maple_grader (rb-015, \"The grader's identity\")",
        ));
    }
    let (count, oldest) = requests_waiting(&client).await?;
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
