//! Line `grading_calibration`: whether the configured models may grade alone whatever forms are graded, by skill, prompt and rubric.
//!
//! The daemon's role knows the forms, the grader's role the trials: neither sees the other's. Without a trial nothing is lost, people review each
//! result; so this line never fails.

use super::{ELSEWHERE, daemons_pool, graders_pool};
use crate::config::Config;
use crate::db::{DbError, Pool};
use crate::grading::core::skill::Skill;
use crate::grading::grader::texts::version;
use crate::ports::CheckLine;

pub(super) const NAME: &str = "grading_calibration";

/// Skills and rubrics of the forms that models grade.
const GRADED: &str = "SELECT DISTINCT q.skill, q.rubric FROM assessment.profiles p JOIN assessment.questions q ON q.id = p.question
WHERE p.skill IN ('writing', 'speaking') ORDER BY 1, 2";
/// Whether this role may look at the forms that are graded.
const THERE: &str =
    "SELECT COALESCE(has_schema_privilege(to_regnamespace('assessment'), 'USAGE'), false) AS there";
/// The newest trial, if any.
const NEWEST: &str = "SELECT c.suffices FROM grading.calibrations c WHERE c.skill = $1 AND c.models = $2 AND c.prompt = $3 AND c.rubric = $4
ORDER BY c.id DESC LIMIT 1";

pub(super) async fn line(config: &Config) -> CheckLine {
    let Some(graders) = graders_pool(config) else {
        return CheckLine::ok(NAME, format!("not tried: the grader is {ELSEWHERE}"));
    };
    let graded = async { graded(&daemons_pool(config)?).await };
    let Ok(graded) = graded.await else { return not_tried("database") };
    if graded.is_empty() {
        return CheckLine::ok(NAME, "no form of writing or speaking is graded");
    }
    let models = config.grading.judge.models.join(",");
    if models.is_empty() {
        return CheckLine::warn(
            NAME,
            "forms of writing or speaking are graded, and no models are named on this host",
            "name them in [grading.judge] as the grader's host does, so that their trials can be looked for (rb-015, \"The judge\")",
        );
    }
    let untried = async { untried(&graders?, &graded, &models).await };
    match untried.await {
        Err(_) => not_tried("grader"),
        Ok(untried) if untried.is_empty() => CheckLine::ok(
            NAME,
            format!("{models} may grade alone in all that is graded ({} rubrics)", graded.len()),
        ),
        Ok(untried) => {
            let whats: Vec<&str> = untried.iter().map(|untried| untried.what.as_str()).collect();
            let commands: Vec<&str> = untried.iter().map(|untried| untried.command.as_str()).collect();
            CheckLine::warn(
                NAME,
                format!("{models}: {}; a person reviews each of these results", whats.join("; ")),
                format!("{} (rb-015, \"The judge\")", commands.join("; ")),
            )
        }
    }
}

fn not_tried(see: &str) -> CheckLine {
    CheckLine::warn(NAME, format!("not tried: {see} failed"), format!("see line {see}"))
}

/// What is graded, by skill and rubric; nothing where the schema is away.
async fn graded(pool: &Pool) -> Result<Vec<(String, String)>, DbError> {
    let client = pool.get().await?;
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        return Ok(Vec::new());
    }
    let rows = client.query(GRADED, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get("skill")?, row.try_get("rubric")?))).collect()
}

/// Something that is graded, and that the models may not grade alone.
struct Untried {
    what: String,
    command: String,
}

async fn untried(pool: &Pool, graded: &[(String, String)], models: &str) -> Result<Vec<Untried>, DbError> {
    let client = pool.get().await?;
    let mut untried = Vec::new();
    for (skill, rubric) in graded {
        let Some(of) = Skill::parse(skill) else { continue };
        let prompt = version(of);
        let newest = client.query_opt(NEWEST, &[skill, &models, &prompt, rubric]).await?;
        let newest = newest.map(|row| row.try_get::<_, bool>("suffices")).transpose()?;
        let why = match newest {
            Some(true) => continue,
            Some(false) => "did not suffice in their last trial",
            None => "were never tried",
        };
        untried.push(Untried {
            what: format!("with {skill}, prompt {prompt}, rubric {rubric} they {why}"),
            command: format!(
                "maple-router grading calibrate --skill {skill} --rubric {rubric} --corpus CORPUS"
            ),
        });
    }
    Ok(untried)
}
