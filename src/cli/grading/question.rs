//! `grading question ID --file FILE`.

use std::path::PathBuf;

use serde_json::json;

use super::{PublisherUrl, Room};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::core::key::Key;
use crate::grading::journal;
use crate::grading::store::setup::Question;

/// Largest file, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Arguments of `grading question`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its name: letters, digits, dots, dashes
    #[arg(value_name = "QUESTION", value_parser = named)]
    id: String,
    /// A JSON object: skill, prompt, answer_key (item: answer, or a list of them), known (texts), rubric
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    publisher: PublisherUrl,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

fn named(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=80).contains(&text.len()) && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("a question's name has 1 to 80 letters, digits, dots, dashes and underscores".to_owned())
    }
}

/// Sets a question.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let question = read(&args.file)?;
    let room = Room::open(ctx).await?;
    let publisher = room.publisher(ctx, &args.publisher).await?;
    publisher.put_question(&args.id, &question, &room.actor).await.map_err(setup::database)?;
    let items = question.answer_key.as_ref().and_then(|key| key.as_object().map(serde_json::Map::len));
    let what = match items {
        Some(items) => format!("a key of {items} items"),
        None => format!("{} characters", question.prompt.chars().count()),
    };
    let how = format!("a question of {}, {what}, rubric {}", question.skill, question.rubric);
    journal::set(&args.id, &how, &room.actor);
    let document =
        json!({"question": args.id, "skill": question.skill, "items": items, "rubric": question.rubric});
    output::either(args.json, &document, || {
        format!("question {} is {how}; it counts for requests that are sent from now on\n", args.id)
    })?;
    Ok(Exit::Done)
}

fn read(path: &std::path::Path) -> Result<Question, CliError> {
    let wrong = |why: String| {
        CliError::new(Exit::Usage, anyhow::anyhow!("{}: {why}", path.display()))
            .remedy("an object with skill, and prompt or answer_key; maple-router grading question --help")
    };
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if size > LARGEST {
        return Err(wrong("the file is larger than 1 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let question: Question = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match (&question.answer_key, question.skill.is_keyed()) {
        (Some(key), true) => drop(Key::parse(key).map_err(|fault| wrong(fault.to_string()))?),
        (None, true) => return Err(wrong(format!("{} needs an answer_key", question.skill))),
        (Some(_), false) => return Err(wrong(format!("{} has no answer_key", question.skill))),
        (None, false) if question.prompt.trim().is_empty() => {
            return Err(wrong(format!("{} needs a prompt", question.skill)));
        }
        (None, false) => {}
    }
    Ok(question)
}
