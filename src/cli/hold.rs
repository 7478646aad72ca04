//! `hold`: legal holds. Whatever one names is not removed, whatever else asks for it; the collector cannot lift one.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use uuid::Uuid;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, output};
use crate::parts;
use crate::retention::journal;
use crate::retention::store::holds::{Hold, Scope};
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;

/// Holds that are shown.
const MOST: usize = 1000;

/// Arguments of `hold`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Place a hold
    Place(Place),
    /// Lift a hold
    Lift(Lift),
    /// List holds
    List(List),
}

/// Arguments of `hold place`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["submission", "form", "blob", "all"])))]
struct Place {
    /// A submission, with its files
    #[arg(long, value_name = "ID")]
    submission: Option<Uuid>,
    /// A form: its submissions, files and versions
    #[arg(long, value_name = "FORM", value_parser = NonEmptyStringValueParser::new())]
    form: Option<String>,
    /// An object
    #[arg(long, value_name = "BLOB")]
    blob: Option<Uuid>,
    /// Everything
    #[arg(long)]
    all: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `hold lift`.
#[derive(Debug, clap::Args)]
struct Lift {
    /// Its number
    #[arg(value_name = "HOLD")]
    hold: i64,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `hold list`.
#[derive(Debug, clap::Args)]
struct List {
    /// Lifted ones as well
    #[arg(long)]
    all: bool,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let store = parts::retention_store(&setup.config, setup.pool.clone());
    if !store.is_there().await.map_err(setup::database)? {
        return Err(CliError::new(
            Exit::BadConfig,
            anyhow::anyhow!(
                "schema content has no retention: nothing is ever removed, so that nothing is to be held"
            ),
        )
        .remedy("as the owner: maple-router migrate --content"));
    }
    let actor = operator::actor(&ctx.env);
    match args.verb {
        Verb::Place(place) => {
            let (scope, value) = named(&setup, &place).await?;
            let reason = &place.reason;
            let id = store.place_hold(scope, &value, reason, &actor).await.map_err(setup::database)?;
            journal::hold_placed(id, scope, &thing(scope.label(), &value), &actor, reason);
            let document = json!({"hold": id, "scope": scope, "value": value});
            output::either(place.json, &document, || {
                format!(
                    "hold {id} keeps {}: nothing of it is removed from now on\nlifted by: maple-router hold lift {id} --reason TEXT\n",
                    thing(scope.label(), &value)
                )
            })?;
            Ok(Exit::Done)
        }
        Verb::Lift(lift) => {
            let (id, reason) = (lift.hold, &lift.reason);
            if !store.release_hold(id, &actor, reason).await.map_err(setup::database)? {
                return Err(CliError::new(
                    Exit::FoundWanting,
                    anyhow::anyhow!("there is no hold {id} that stands"),
                )
                .remedy("maple-router hold list --all"));
            }
            journal::hold_released(id, &actor, reason);
            output::either(lift.json, &json!({"hold": id, "lifted": true}), || {
                format!("hold {id} is lifted: what it named is removed when its time has come\n")
            })?;
            Ok(Exit::Done)
        }
        Verb::List(list) => {
            let holds = store.holds(list.all, MOST).await.map_err(setup::database)?;
            output::either(list.json, &holds, || text(&holds))?;
            Ok(Exit::Done)
        }
    }
}

/// What a hold is to name; a submission or a form that there is.
async fn named(setup: &Setup, place: &Place) -> Result<(Scope, String), CliError> {
    if let Some(id) = place.submission {
        setup.look(id).await?;
        return Ok((Scope::Submission, id.to_string()));
    }
    if let Some(form) = &place.form {
        if let Some(why) = setup.unknown_form(Some(form)).await {
            return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!(why)));
        }
        return Ok((Scope::Form, form.clone()));
    }
    Ok(place.blob.map_or((Scope::All, String::new()), |blob| (Scope::Blob, blob.to_string())))
}

fn thing(scope: &str, value: &str) -> String {
    if value.is_empty() { "everything".to_owned() } else { format!("{scope} {}", one_line(value)) }
}

fn text(holds: &[Hold]) -> String {
    if holds.is_empty() {
        return "no hold stands\n".to_owned();
    }
    let line = |hold: &Hold| {
        let lifted = match (&hold.released_at, &hold.released_by, &hold.released_why) {
            (Some(when), Some(by), Some(why)) => {
                format!("; lifted {} by {}: {}", at(*when), one_line(by), one_line(why))
            }
            _ => String::new(),
        };
        format!(
            "{}  {}, since {} by {}: {}{lifted}\n",
            hold.id,
            thing(&hold.scope, &hold.value),
            at(hold.at),
            one_line(&hold.actor),
            one_line(&hold.reason)
        )
    };
    holds.iter().map(line).collect()
}
