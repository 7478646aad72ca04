//! `grading enable FORM`.

use std::time::Duration;

use serde_json::json;

use super::{PublisherUrl, Room};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::config::{Config, GradingMode, Send};
use crate::grading::core::skill::{Skill, Task};
use crate::grading::journal;
use crate::grading::store::setup::{NewProfile, OnFailed};
use crate::routing::submission::text::one_line;

/// Arguments of `grading enable`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form
    #[arg(value_name = "FORM")]
    form: String,
    /// What is graded: writing, speaking, listening or reading
    #[arg(long, value_name = "SKILL", value_parser = super::skill)]
    skill: Skill,
    /// The question, as `grading question` has set it
    #[arg(long, value_name = "QUESTION")]
    question: String,
    /// Writing: the field with the text
    #[arg(long, value_name = "FIELD")]
    text_field: Option<String>,
    /// Writing: email or essay
    #[arg(long, value_name = "TASK", value_parser = super::task)]
    task: Option<Task>,
    /// Speaking: the part, 1 to 3; the recording is the first attachment that is audio
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3))]
    part: Option<u8>,
    /// The field in which the learner consents to a model outside this house; without consent nothing is sent
    #[arg(long, value_name = "FIELD")]
    consent_field: Option<String>,
    /// The mail goes at once, without a grade
    #[arg(long)]
    no_gate: bool,
    /// What becomes of the mail where there will be no grade: hold (a person decides) or send (it goes without)
    #[arg(long, value_name = "WHAT", default_value = "hold", value_parser = on_failed)]
    on_failed: OnFailed,
    /// Time until an attempt fails [default: grading.sla of the skill]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    sla: Option<Duration>,
    #[command(flatten)]
    publisher: PublisherUrl,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

fn on_failed(text: &str) -> Result<OnFailed, String> {
    OnFailed::parse(text).ok_or_else(|| "known are hold, send".to_owned())
}

/// Has a form graded from now on.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    fitting(args)?;
    let room = Room::open(ctx).await?;
    room.known_form(&args.form).await?;
    let publisher = room.publisher(ctx, &args.publisher).await?;
    let question = one_line(&args.question);
    match publisher.question_skill(&args.question).await.map_err(setup::database)? {
        Some(of) if of == args.skill => {}
        Some(of) => {
            let other = anyhow::anyhow!("question {question} is one of {of}, not of {}", args.skill);
            return Err(CliError::new(Exit::FoundWanting, other));
        }
        None => {
            return Err(CliError::new(
                Exit::FoundWanting,
                anyhow::anyhow!("there is no question {question}"),
            )
            .remedy(format!("maple-router grading question {question} --file FILE")));
        }
    }
    let sla = args.sla.unwrap_or_else(|| usual(&room.setup.config, args.skill));
    let profile = NewProfile {
        form: args.form.clone(),
        skill: args.skill,
        question: args.question.clone(),
        text_field: args.text_field.clone(),
        task: args.task,
        part: args.part,
        consent_field: args.consent_field.clone(),
        gate: !args.no_gate,
        on_failed: args.on_failed,
        sla,
    };
    publisher.enable(&profile, &room.actor).await.map_err(setup::database)?;
    let waits = if profile.gate { "its mail waits for the grade" } else { "its mail goes at once" };
    let how = format!(
        "graded from now on ({}, question {question}, within {}): {waits}",
        args.skill,
        humantime::format_duration(sla)
    );
    journal::set(&args.form, &how, &room.actor);
    let document = json!({
        "form_id": args.form, "skill": args.skill, "question": args.question, "gate": profile.gate,
        "on_failed": args.on_failed, "sla_seconds": sla.as_secs(),
    });
    output::either(args.json, &document, || format!("form {} is {how}\n", one_line(&args.form)))?;
    for note in notes(&room.setup.config, &profile) {
        output::note(note)?;
    }
    Ok(Exit::Done)
}

/// Whether the switches fit the skill.
fn fitting(args: &Args) -> Result<(), CliError> {
    let needs: [(bool, bool, &str); 3] = [
        (args.skill == Skill::Writing, args.text_field.is_some(), "--text-field"),
        (args.skill == Skill::Writing, args.task.is_some(), "--task"),
        (args.skill == Skill::Speaking, args.part.is_some(), "--part"),
    ];
    for (needed, given, switch) in needs {
        if needed != given {
            let what = if needed { "needs" } else { "has no place for" };
            let wrong = anyhow::anyhow!("{} {what} {switch}", args.skill);
            return Err(CliError::new(Exit::Usage, wrong).remedy("maple-router grading enable --help"));
        }
    }
    Ok(())
}

fn usual(config: &Config, skill: Skill) -> Duration {
    let sla = &config.grading.sla;
    match skill {
        Skill::Writing => sla.writing,
        Skill::Speaking => sla.speaking,
        Skill::Listening => sla.listening,
        Skill::Reading => sla.reading,
    }
}

/// What the configuration says otherwise.
fn notes(config: &Config, profile: &NewProfile) -> Vec<&'static str> {
    let grading = &config.grading;
    let mut notes = Vec::new();
    if profile.gate && grading.mode == GradingMode::Off {
        notes.push("grading.mode is off: its submissions are claimed by nobody until it is on and the daemon was restarted");
    }
    if !profile.skill.is_keyed() {
        if grading.judge.base_url.is_none() {
            notes.push("nobody grades ([grading.judge]): each attempt fails at its deadline");
        } else if grading.judge.send != Send::Full {
            notes.push("grading.judge.send is not full: a work cannot be graded without its words, and nothing is sent");
        }
        if profile.skill == Skill::Speaking && grading.stt.base_url.is_none() {
            notes.push("nobody transcribes ([grading.stt]): what is spoken is not graded");
        }
    }
    notes
}
