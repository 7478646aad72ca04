//! `screening waive`: a rule does not block in a form. What it finds is a person's then, never a machine's.

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::{PublisherUrl, Room};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::parts;
use crate::routing::submission::text::one_line;
use crate::screening::journal;
use crate::screening::run::Profile;
use crate::screening::store::setup::WaiverReason;

/// Arguments of `screening waive`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form
    #[arg(value_name = "FORM", required_unless_present = "end")]
    form: Option<String>,
    /// The rule
    #[arg(value_name = "RULE", required_unless_present = "end")]
    rule: Option<String>,
    /// Only there, as screening show names it; without it everywhere
    #[arg(long, value_name = "PLACE", value_parser = NonEmptyStringValueParser::new())]
    place: Option<String>,
    /// Why, in a word: false_positive, used_in_tests, will_fix
    #[arg(long, value_name = "REASON", value_parser = reason, required_unless_present = "end")]
    reason: Option<WaiverReason>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), required_unless_present = "end")]
    why: Option<String>,
    /// End the waiver of this number: its rule blocks again
    #[arg(long, value_name = "ID", conflicts_with_all = ["form", "rule", "place", "reason", "why"])]
    end: Option<i64>,
    #[command(flatten)]
    publisher: PublisherUrl,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

fn reason(text: &str) -> Result<WaiverReason, String> {
    let known: Vec<&str> = WaiverReason::ALL.iter().map(|reason| reason.label()).collect();
    WaiverReason::parse(text).ok_or_else(|| format!("one of: {}", known.join(", ")))
}

/// Waives a rule, or ends a waiver.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    if let Some(id) = args.end {
        return end(ctx, &room, args, id).await;
    }
    let (Some(form), Some(rule), Some(reason), Some(why)) = (&args.form, &args.rule, args.reason, &args.why)
    else {
        return Err(CliError::new(Exit::Usage, anyhow::anyhow!("name a form, a rule, --reason and --why")));
    };
    room.known_form(form).await?;
    known_rule(&room, form, rule).await?;
    let publisher = room.publisher(ctx, &args.publisher).await?;
    let place = args.place.as_deref();
    let by = (why.as_str(), room.actor.as_str());
    let waived = publisher.waive(form, (rule, place), reason, by).await.map_err(setup::database)?;
    let everywhere = place.map_or_else(|| "everywhere".to_owned(), |place| format!("at {}", one_line(place)));
    let Some(id) = waived else {
        let twice = anyhow::anyhow!("rule {rule} is waived {everywhere} in form {} already", one_line(form));
        return Err(CliError::new(Exit::FoundWanting, twice)
            .remedy(format!("maple-router screening waivers --form {}", one_line(form))));
    };
    let how = format!("rule {rule} blocks {everywhere} no more, waiver {id} ({reason}: {})", one_line(why));
    journal::set(form, &how, &room.actor);
    let document = json!({"waiver": id, "form_id": form, "rule": rule, "place": place, "reason": reason});
    output::either(args.json, &document, || {
        format!(
            "waiver {id}: rule {rule} blocks {everywhere} no more in form {}; a person decides about what it finds\nended by: maple-router \
             screening waive --end {id}\n",
            one_line(form)
        )
    })?;
    Ok(Exit::Done)
}

async fn end(ctx: &Context, room: &Room, args: &Args, id: i64) -> Result<Exit, CliError> {
    let standing = room.store.waivers(None).await.map_err(setup::database)?;
    let found = standing.into_iter().find(|waiver| waiver.id == id);
    let publisher = room.publisher(ctx, &args.publisher).await?;
    let ended = publisher.end_waiver(id, &room.actor).await.map_err(setup::database)?;
    let Some(waiver) = found.filter(|_| ended) else {
        return Err(CliError::new(
            Exit::FoundWanting,
            anyhow::anyhow!("there is no waiver {id} that stands"),
        )
        .remedy("maple-router screening waivers"));
    };
    let (form, rule) = (&waiver.form_id, one_line(&waiver.rule));
    journal::set(form, &format!("rule {rule} blocks again, waiver {id} ended"), &room.actor);
    output::either(
        args.json,
        &json!({"waiver": id, "form_id": form, "rule": waiver.rule, "ended": true}),
        || format!("waiver {id} is ended: rule {rule} blocks again in form {}\n", one_line(form)),
    )?;
    Ok(Exit::Done)
}

/// Refuses a rule that the form's profile has not, or of a form that is not screened no profile, with the nearest name.
async fn known_rule(room: &Room, form: &str, rule: &str) -> Result<(), CliError> {
    let rulesets = parts::rulesets(&room.setup.config).map_err(setup::part)?;
    let screened = room.store.forms().await.map_err(setup::database)?;
    let own = screened.into_iter().find(|screened| screened.form_id == form).map(|screened| screened.profile);
    let of = |profile: &Profile| rulesets.of(form, *profile).rule_ids();
    let of_any = || Profile::ALL.iter().flat_map(of).collect();
    let known: Vec<String> = own.as_ref().map_or_else(of_any, of);
    if known.iter().any(|known| known == rule) {
        return Ok(());
    }
    let nearest = setup::nearest(rule, &known);
    let hint = nearest.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let of = own.map(|profile| format!(" in profile {profile}")).unwrap_or_default();
    let unknown = anyhow::anyhow!("there is no rule {}{of}{hint}", one_line(rule));
    Err(CliError::new(Exit::FoundWanting, unknown)
        .remedy("maple-router screening show ID names the rules that found something"))
}
