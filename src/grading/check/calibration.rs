//! Line `grading_calibration`: whether the configured models may grade alone whatever forms are graded, by skill, prompt and rubric.
//!
//! The daemon's role knows the forms, the grader's role the trials: neither sees the other's. Without a trial nothing is lost, people review each
//! result; so this line never fails.

use super::{ELSEWHERE, daemons_pool, graders_pool};
use crate::config::Config;
use crate::db::{DbError, Pool};
use crate::grading::core::skill::Skill;
use crate::grading::grader::texts::version;
use crate::grading::store::examined::{graded, newest_trial};
use crate::ports::CheckLine;

pub(super) const NAME: &str = "grading_calibration";

pub(super) async fn line(config: &Config) -> CheckLine {
    let Some(graders) = graders_pool(config) else {
        return CheckLine::ok(NAME, format!("not tried: the grader is {ELSEWHERE}"));
    };
    let graded = async { graded(&daemons_pool(config)?.get().await?).await };
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
        let newest = newest_trial(&client, of, (models, &prompt, rubric)).await?;
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
