//! `grading show SUBMISSION`.

use super::Room;
use crate::cli::id::{self, IdArg};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::store::views::{AttemptEvent, AttemptStory, ResultView};
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;

/// Arguments of `grading show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A submission or one of its attempts, or the beginning of the submission's id
    #[arg(value_name = "ID", value_parser = id::parse)]
    id: IdArg,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Prints what is known of the attempts at a submission.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let submission = room.submission(&args.id).await?;
    let stories = room.store.stories(submission).await.map_err(setup::database)?;
    if stories.is_empty() {
        let none = anyhow::anyhow!("submission {submission} was never graded");
        return Err(CliError::new(Exit::FoundWanting, none).remedy("maple-router grading forms"));
    }
    output::either(args.json, &stories, || {
        let mut text = format!("submission {submission}\n");
        stories.iter().for_each(|story| text.push_str(&told(story)));
        text.push_str(&follows(&stories));
        text
    })?;
    Ok(Exit::Done)
}

fn told(story: &AttemptStory) -> String {
    let AttemptStory { view, events, results } = story;
    let attempt = &view.attempt;
    let mut text = format!(
        "\nattempt {} ({}), form {}, {}: {} since {}, deadline {}\n",
        attempt.attempt,
        view.id,
        one_line(&attempt.form_id),
        attempt.skill,
        view.state,
        at(attempt.state_since),
        at(attempt.deadline)
    );
    events.iter().for_each(|event| text.push_str(&line(event)));
    results.iter().for_each(|result| text.push_str(&result_line(result)));
    text
}

fn line(event: &AttemptEvent) -> String {
    let mut words = Vec::new();
    if let Some(of) = event.metadata.as_object() {
        for (name, value) in of.iter().filter(|(name, value)| *name != "by" && !value.is_null()) {
            words.push(format!("{name} {}", one_line(&value.to_string().replace('"', ""))));
        }
    }
    let detail = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    format!(
        "  {}  {} → {}  {} by {}{detail}\n",
        at(event.created_at),
        event.from_state.as_deref().unwrap_or("-"),
        event.to_state,
        event.trigger,
        one_line(&event.actor)
    )
}

fn result_line(result: &ResultView) -> String {
    let mut words = Vec::new();
    words.extend(result.is_late.then_some("late: it counts nowhere"));
    words.extend(result.dup.then_some("the twin of one that was first"));
    words.extend(result.emptied.then_some("its words are gone"));
    let detail = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    format!("  result {} {:.1} {} at {}{detail}\n", result.kind, result.score, result.band, at(result.at))
}

/// What follows, for whoever looks.
fn follows(stories: &[AttemptStory]) -> String {
    let Some(last) = stories.last() else { return String::new() };
    let attempt = &last.view.attempt;
    let subject = attempt.subject;
    let what = match last.view.state.as_str() {
        "COMPLETED" => "it is graded: nothing is left to do".to_owned(),
        "REVIEW_PENDING" => "a person gives the grade: maple-router review list --cause grading".to_owned(),
        "FAILED" if attempt.released_at.is_some() => "it has no grade, and its mail goes without".to_owned(),
        "FAILED" => format!(
            "a grade is owed: maple-router grading regrade {subject} --reason TEXT, or let its mail go: maple-router grading release {subject} \
             --reason TEXT"
        ),
        _ => "it goes on by itself until its deadline".to_owned(),
    };
    format!("\n{what}\n")
}
