//! `screening`: what is screened, how its runs stand, and what people do about them. Nothing that people entered is shown: rules, places,
//! scores and the judge's scrubbed notes are.
//!
//! Setting and waiving is the publisher's; looking and screening again the daemon's role may do. Each write is one transaction: if we die
//! before its commit nothing happened.

mod backtest;
mod calibrate;
mod corpus;
mod disable;
mod enable;
mod forms;
mod jobs;
mod list;
mod rescreen;
mod show;
mod sla;
mod waive;
mod waivers;

use clap::Subcommand;
use uuid::Uuid;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, role};
use crate::config::Database;
use crate::parts;
use crate::routing::submission::text::one_line;
use crate::screening::run::Profile;
use crate::screening::store::ScreeningStore;

/// Arguments of `screening`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Have a form screened, in shadow or enforced
    Enable(enable::Args),
    /// Have a form screened no more
    Disable(disable::Args),
    /// List the forms that are screened
    Forms(forms::Args),
    /// List runs, the latest first
    List(list::Args),
    /// Tell everything about a run, and what follows
    Show(show::Args),
    /// Have a submission screened again
    Rescreen(rescreen::Args),
    /// Have a rule not block in a form, or end that
    Waive(waive::Args),
    /// List the waivers that stand
    Waivers(waivers::Args),
    /// List jobs, the longest due first
    Jobs(jobs::Args),
    /// Say how long each stage took, and whether that is good enough
    Sla(sla::Args),
    /// Try the judge on a labelled corpus, and record whether it may approve
    Calibrate(calibrate::Args),
    /// Try the rules on a labelled corpus
    Backtest(backtest::Args),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.verb {
        Verb::Enable(args) => enable::run(ctx, &args).await,
        Verb::Disable(args) => disable::run(ctx, &args).await,
        Verb::Forms(args) => forms::run(ctx, &args).await,
        Verb::List(args) => list::run(ctx, args).await,
        Verb::Show(args) => show::run(ctx, &args).await,
        Verb::Rescreen(args) => rescreen::run(ctx, &args).await,
        Verb::Waive(args) => waive::run(ctx, &args).await,
        Verb::Waivers(args) => waivers::run(ctx, &args).await,
        Verb::Jobs(args) => jobs::run(ctx, &args).await,
        Verb::Sla(args) => sla::run(ctx, &args).await,
        Verb::Calibrate(args) => calibrate::run(ctx, &args).await,
        Verb::Backtest(args) => backtest::run(ctx, &args),
    }
}

/// Whoever sets what is screened.
#[derive(Debug, clap::Args)]
struct PublisherUrl {
    /// Connection string of the publisher's role [default: forms.publisher_url]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_PUBLISHER_URL", hide_env_values = true)]
    publisher_url: Option<String>,
}

/// The runs as the daemon's role sees them, and whoever acts.
struct Room {
    setup: Setup,
    store: ScreeningStore,
    actor: String,
}

impl Room {
    async fn open(ctx: &Context) -> Result<Self, CliError> {
        let setup = Setup::open(ctx)?;
        let store = parts::screening_store(&setup.config, setup.pool.clone());
        if !store.is_there().await.map_err(setup::database)? {
            let none =
                anyhow::anyhow!("there is no schema screening that this role may use: nothing is screened");
            return Err(
                CliError::new(Exit::BadConfig, none).remedy("as the owner: maple-router migrate --screening")
            );
        }
        Ok(Self { setup, store, actor: operator::actor(&ctx.env) })
    }

    /// The same as the publisher's role, which sets and records.
    async fn publisher(&self, ctx: &Context, url: &PublisherUrl) -> Result<ScreeningStore, CliError> {
        let config = &self.setup.config;
        let url = url.publisher_url.as_deref().filter(|url| !url.trim().is_empty());
        let url = url.or(config.forms.publisher_url.as_deref());
        let database = Database { max_connections: 1, ..config.database.clone() };
        let pool = role::pool(ctx, config, database, url, "maple-router screening")?;
        let store = ScreeningStore::new(pool, &self.actor);
        if !store.may_set().await.map_err(setup::database)? {
            let other =
                anyhow::anyhow!("this database role may not set what is screened: the publisher's does");
            return Err(CliError::new(Exit::BadConfig, other)
                .remedy("name its connection string: forms.publisher_url, MAPLE_ROUTER_PUBLISHER_URL, or --publisher-url"));
        }
        Ok(store)
    }

    /// Refuses a form that there is not, with the nearest name.
    async fn known_form(&self, form: &str) -> Result<(), CliError> {
        match self.setup.unknown_form(Some(form)).await {
            Some(why) => Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!(why))),
            None => Ok(()),
        }
    }

    /// The id that is meant: a run's, or a submission's, whether it was ever screened or not.
    async fn meant(&self, id: &IdArg) -> Result<Uuid, CliError> {
        let (text, first, last) = match id {
            IdArg::Whole(id) => return Ok(*id),
            IdArg::Beginning { text, first, last } => (text, *first, *last),
        };
        let most = id::MOST + 1;
        let mut found = self.store.between(first, last, most).await.map_err(setup::database)?;
        let rows = i64::try_from(most).unwrap_or(i64::MAX);
        let others =
            self.setup.view().submissions_between(first, last, rows).await.map_err(setup::database)?;
        for other in others {
            if !found.iter().any(|(known, _)| *known == other.id) {
                found.push((other.id, format!("submission, {}", one_line(&other.status))));
            }
        }
        id::only("run or submission", text, &found)
    }
}

fn profile(text: &str) -> Result<Profile, String> {
    let known: Vec<&str> = Profile::ALL.iter().map(|profile| profile.label()).collect();
    Profile::parse(text).ok_or_else(|| format!("there is no such profile; known are {}", known.join(", ")))
}
