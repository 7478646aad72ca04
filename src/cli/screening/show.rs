//! `screening show ID`.

use serde::Serialize;
use serde_json::Value;

use super::Room;
use crate::cli::id::{self, IdArg};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::State as Entered;
use crate::parts;
use crate::routing::explain::{Remedy, at};
use crate::routing::submission::text::one_line;
use crate::screening::store::results::StateEvent;
use crate::screening::store::views::{FindingView, RunStory, VerdictView};
use crate::screening::table::State;

/// Arguments of `screening show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A run, or a submission for its current one, or the beginning of its id
    #[arg(value_name = "ID", value_parser = id::parse)]
    id: IdArg,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    story: &'a RunStory,
    next: &'a [Remedy],
}

/// Prints everything about a run.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let id = room.meant(&args.id).await?;
    let Some(story) = room.store.story(id).await.map_err(setup::database)? else {
        let form = one_line(&room.setup.look(id).await?.form_id);
        let none =
            anyhow::anyhow!("submission {id} has no run: its form {form} was not screened when it came");
        return Err(CliError::new(Exit::FoundWanting, none)
            .remedy("maple-router screening forms; maple-router screening rescreen opens one"));
    };
    let entries = parts::review_store(&room.setup.config, room.setup.pool.clone());
    let entries = entries.about(story.view.id).await.map_err(setup::database)?;
    let next = next(&story, &entries);
    output::either(args.json, &Document { story: &story, next: &next }, || text(&story, &next))?;
    Ok(Exit::Done)
}

fn command(question: Option<&'static str>, line: &str) -> Remedy {
    Remedy { question, line: format!("maple-router {line}"), verb: None }
}

/// What follows, or what to do.
fn next(story: &RunStory, entries: &[Entry]) -> Vec<Remedy> {
    let (view, run) = (&story.view, &story.view.run);
    let again = || format!("screening rescreen {} --reason TEXT", run.subject);
    if !run.is_current || run.closed_at.is_some() {
        return vec![command(Some("What became of the submission?"), &format!("explain {}", run.subject))];
    }
    let entry = entries.iter().find(|entry| entry.state.is_open());
    if run.dead_reason.is_some() {
        let redrive = entry.map_or_else(
            || "review list --cause screening_job".to_owned(),
            |entry| format!("review resolve {} --remedy redrive --reason TEXT", entry.id),
        );
        return vec![
            command(Some("Is its cause mended?"), &redrive),
            command(Some("Has the submission changed?"), &again()),
        ];
    }
    match State::parse(&view.state) {
        Some(State::NeedsReview | State::Tier3Review) => decisions(entry),
        Some(State::Tier1Failed) => {
            let blocks = |finding: &&FindingView| finding.severity == "block" && finding.waived.is_none();
            let rule = story.findings.iter().find(blocks).map_or("RULE", |finding| finding.rule.as_str());
            let waive = format!(
                "screening waive {} {rule} --reason false_positive --why TEXT",
                one_line(&run.form_id)
            );
            vec![
                command(Some("Is the rule wrong?"), &waive),
                command(Some("Then, or where the submission has changed:"), &again()),
            ]
        }
        Some(State::Rejected) => vec![command(Some("Is that wrong?"), &again())],
        Some(State::Published) => {
            vec![command(Some("What became of it?"), &format!("explain {}", run.subject))]
        }
        Some(
            State::Received
            | State::VendorApproved
            | State::Tier1Scanning
            | State::Tier2Scanning
            | State::AutoApproved,
        )
        | None => vec![command(Some("A worker goes on with it; does it wait?"), "screening jobs")],
    }
}

/// What people do about a run that waits for them: its entry is taken, escalated, and then resolved; or rejected.
fn decisions(entry: Option<&Entry>) -> Vec<Remedy> {
    let Some(Entry { id, state, .. }) = entry else {
        return vec![command(Some("A person decides:"), "review list --cause screening")];
    };
    let reject = || command(Some("Is it unwanted?"), &format!("review reject {id} --reason TEXT"));
    let mut all = vec![command(Some("Look at it:"), &format!("review show {id}"))];
    match state {
        Entered::Pending => {
            all.push(command(Some("Who reviews it?"), &format!("review assign {id} --to NAME")));
        }
        Entered::UnderReview => {
            let escalate = format!("review escalate {id} --escalation-reason TEXT");
            all.extend([command(Some("May it be wanted?"), &escalate), reject()]);
        }
        Entered::Escalated => {
            let resolve = format!("review resolve {id} --reason TEXT");
            all.extend([command(Some("Is it wanted?"), &resolve), reject()]);
        }
        Entered::Processing
        | Entered::Retrying
        | Entered::Resolved
        | Entered::Rejected
        | Entered::Failed
        | Entered::Expired
        | Entered::Dismissed => {}
    }
    all
}

fn text(story: &RunStory, next: &[Remedy]) -> String {
    let (view, run) = (&story.view, &story.view.run);
    let mut text = format!(
        "run {} of submission {} is {} since {}\n",
        run.run,
        run.subject,
        view.state,
        at(run.state_since)
    );
    let mut line = |name: &str, what: String| text.push_str(&format!("  {name:<11} {what}\n"));
    line("id", view.id.to_string());
    let waits =
        if run.is_enforced { "the submission waits for it" } else { "in shadow: nothing waits for it" };
    line("form", format!("{}, profile {}; {waits}", one_line(&run.form_id), run.profile));
    if let Some(closed) = run.closed_at {
        line("closed", format!("{}, without an end", at(closed)));
    }
    if !run.is_current {
        line("superseded", "another run took its place".to_owned());
    }
    if let Some(reason) = &run.dead_reason {
        line("given up on", reason.clone());
    }
    if let Some(score) = run.score {
        line("score", score.to_string());
    }
    if !run.bars.is_empty() {
        line("barred by", run.bars.join(", "));
    }
    if let Some(origin) = &run.origin {
        line("origin", one_line(origin));
    }
    if let Some(ruleset) = &run.ruleset {
        line("rules", ruleset.clone());
    }
    text.push_str("what happened\n");
    text.extend(story.events.iter().map(event));
    if !story.findings.is_empty() {
        text.push_str("what the rules found\n");
        text.extend(story.findings.iter().map(finding));
    }
    if !story.verdicts.is_empty() {
        text.push_str("what the judge said\n");
        text.extend(story.verdicts.iter().map(verdict));
    }
    text.push_str("what follows\n");
    for Remedy { question, line, .. } in next {
        text.push_str(&format!("  {}\n    {line}\n", question.unwrap_or_default()));
    }
    text
}

fn event(event: &StateEvent) -> String {
    let StateEvent { from_state, to_state, trigger, actor, actor_type, created_at, .. } = event;
    let from = from_state.as_deref().unwrap_or("-");
    let actor = one_line(actor);
    format!("  {}  {from} -> {to_state}  {trigger}, by {actor} ({actor_type})\n", at(*created_at))
}

fn finding(finding: &FindingView) -> String {
    let FindingView { rule, severity, place, times, waived } = finding;
    let times = if *times > 1 { format!(", {times} times") } else { String::new() };
    let waived = waived.as_deref().map(|reason| format!("; waived: {reason}")).unwrap_or_default();
    format!("  {severity:<6} {}  in {}{times}{waived}\n", one_line(rule), one_line(place))
}

fn verdict(verdict: &VerdictView) -> String {
    let VerdictView { model, score, injection, concerns, created_at } = verdict;
    let speaks = if *injection { "; the content speaks to whoever judges it" } else { "" };
    let mut text = format!("  {}  {}: score {score}{speaks}\n", at(*created_at), one_line(model));
    for concern in concerns.as_array().into_iter().flatten() {
        let of = |name: &str| one_line(concern.get(name).and_then(Value::as_str).unwrap_or_default());
        let (severity, code, place, note) = (of("severity"), of("code"), of("place"), of("note"));
        text.push_str(&format!("    {severity:<6} {code}  in {place}: {note}\n"));
    }
    text
}
