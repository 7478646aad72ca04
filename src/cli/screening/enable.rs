//! `screening enable FORM`.

use serde_json::json;

use super::{PublisherUrl, Room};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::config::ScreeningMode;
use crate::routing::submission::text::one_line;
use crate::screening::journal;
use crate::screening::run::Profile;

/// Arguments of `screening enable`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form
    #[arg(value_name = "FORM")]
    form: String,
    /// What is screened: fields (what people enter), or git (a repository that they name)
    #[arg(long, value_name = "PROFILE", value_parser = super::profile)]
    profile: Profile,
    /// Submissions wait for their run, and what it refuses is not routed
    #[arg(long)]
    enforce: bool,
    /// Runs are made, and nothing waits for them: the default
    #[arg(long, conflicts_with = "enforce")]
    shadow: bool,
    /// No run is approved without a person
    #[arg(long)]
    force_review: bool,
    #[command(flatten)]
    publisher: PublisherUrl,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Has a form screened from now on.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let Args { form, profile, enforce, force_review, .. } = args;
    room.known_form(form).await?;
    let publisher = room.publisher(ctx, &args.publisher).await?;
    let settings = (*profile, *enforce, *force_review);
    publisher.enable(form, settings, &room.actor).await.map_err(setup::database)?;
    let mode = if *enforce { "enforced" } else { "in shadow" };
    let people = if *force_review { ", each by a person" } else { "" };
    let how = format!("screened from now on by profile {profile}, {mode}{people}");
    journal::set(form, &how, &room.actor);
    let document =
        json!({"form_id": form, "profile": profile, "enforced": enforce, "force_review": force_review});
    output::either(args.json, &document, || {
        let follows = if *enforce {
            "a submission is routed when its run is published"
        } else {
            "nothing waits for a run"
        };
        format!("form {} is {how}: {follows}\n", one_line(form))
    })?;
    for note in notes(&room, *enforce) {
        output::note(note)?;
    }
    Ok(Exit::Done)
}

/// What the configuration says otherwise.
fn notes(room: &Room, enforce: bool) -> Vec<&'static str> {
    let config = &room.setup.config.screening;
    let mut notes = Vec::new();
    if enforce && config.mode == ScreeningMode::Off {
        notes.push(
            "screening.mode is off: its submissions are claimed by nobody until it is on and the daemon was restarted",
        );
    }
    if config.judge.base_url.is_none() {
        notes.push(
            "no judge is configured ([screening.judge]): people decide about what the rules let through",
        );
    }
    notes
}
