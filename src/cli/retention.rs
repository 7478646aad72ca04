//! `retention`: how long what has ended is kept. The publisher says it, the collector goes by it.

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, output, role};
use crate::config::Database;
use crate::parts;
use crate::retention::journal;
use crate::retention::store::RetentionStore;
use crate::retention::store::holds::Rule;
use crate::routing::submission::text::one_line;

/// The shortest time that a rule can say: what a slip of the pen removes cannot be brought back.
const SHORTEST: Duration = Duration::from_secs(86_400);

/// Arguments of `retention`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say how long submissions of a form are kept, or of every form that has no rule of its own
    Set(Set),
    /// Remove the rule of a form, or the rule of all others
    Unset(Unset),
    /// Show the rules
    List(List),
}

/// Whom a rule is for.
#[derive(Debug, clap::Args)]
struct Whose {
    /// The form; without one: every form that has no rule of its own
    #[arg(value_name = "FORM")]
    form: Option<String>,
    /// Connection string of the publisher's role [default: forms.publisher_url]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_PUBLISHER_URL", hide_env_values = true)]
    publisher_url: Option<String>,
}

/// Arguments of `retention set`.
#[derive(Debug, clap::Args)]
struct Set {
    #[command(flatten)]
    whose: Whose,
    /// Time for which routed submissions are kept, from their arrival, e.g. 400d
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    routed: Duration,
    /// Time for which failed ones are kept [default: as long]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    failed: Option<Duration>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `retention unset`.
#[derive(Debug, clap::Args)]
struct Unset {
    #[command(flatten)]
    whose: Whose,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `retention list`.
#[derive(Debug, clap::Args)]
struct List {
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.verb {
        Verb::Set(set) => self::set(ctx, set).await,
        Verb::Unset(unset) => self::unset(ctx, unset).await,
        Verb::List(list) => {
            let setup = Setup::open(ctx)?;
            let store = parts::retention_store(&setup.config, setup.pool.clone());
            let rules = store.rules().await.map_err(setup::database)?;
            output::either(list.json, &rules, || {
                if rules.is_empty() {
                    return "no form says how long it keeps: submissions end by retention_expires_at alone\n"
                        .to_owned();
                }
                rules.iter().map(|rule| format!("{}\n", words(rule))).collect()
            })?;
            Ok(Exit::Done)
        }
    }
}

async fn set(ctx: &Context, args: Set) -> Result<Exit, CliError> {
    let failed = args.failed.unwrap_or(args.routed);
    if args.routed.min(failed) < SHORTEST {
        return Err(CliError::new(Exit::Usage, anyhow::anyhow!("nothing is kept for less than a day"))
            .remedy("a person's data goes by maple-router erase, at once"));
    }
    let (store, actor) = (publisher(ctx, &args.whose)?, operator::actor(&ctx.env));
    let form = args.whose.form.unwrap_or_default();
    store.set_rule(&form, args.routed, failed, &actor).await.map_err(setup::database)?;
    let (routed, kept) = (humantime::format_duration(args.routed), humantime::format_duration(failed));
    journal::retention_set(&form, Some((args.routed, failed)), &actor);
    let document = json!({"form_id": form, "keep_routed": args.routed.as_secs_f64(), "keep_failed": failed.as_secs_f64()});
    output::either(args.json, &document, || {
        format!(
            "{}: routed submissions are kept for {routed}, failed ones for {kept}, from their arrival\n",
            whom(&form)
        )
    })?;
    Ok(Exit::Done)
}

async fn unset(ctx: &Context, args: Unset) -> Result<Exit, CliError> {
    let (store, actor) = (publisher(ctx, &args.whose)?, operator::actor(&ctx.env));
    let form = args.whose.form.unwrap_or_default();
    if !store.remove_rule(&form).await.map_err(setup::database)? {
        return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("{} has no rule", whom(&form)))
            .remedy("maple-router retention list"));
    }
    journal::retention_set(&form, None, &actor);
    output::either(args.json, &json!({"form_id": form}), || {
        format!("{} has no rule any more\n", whom(&form))
    })?;
    Ok(Exit::Done)
}

fn publisher(ctx: &Context, whose: &Whose) -> Result<RetentionStore, CliError> {
    let config = ctx.config()?.config;
    let url = whose.publisher_url.as_deref().filter(|url| !url.trim().is_empty());
    let url = url.or(config.forms.publisher_url.as_deref());
    let database = Database { max_connections: 1, ..config.database.clone() };
    let pool = role::pool(ctx, &config, database, url, "maple-router retention")?;
    Ok(RetentionStore::new(pool, &operator::actor(&ctx.env)))
}

fn whom(form: &str) -> String {
    if form.is_empty() {
        "every form without a rule of its own".to_owned()
    } else {
        format!("form {}", one_line(form))
    }
}

/// A rule in words.
pub(super) fn words(rule: &Rule) -> String {
    let span =
        |seconds: f64| humantime::format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    format!(
        "{}: routed submissions are kept for {}, failed ones for {} (by {})",
        whom(&rule.form_id),
        span(rule.keep_routed),
        span(rule.keep_failed),
        one_line(&rule.set_by)
    )
}
