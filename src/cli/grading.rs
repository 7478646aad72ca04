//! `grading`: what is graded, how its attempts stand, and what people do about them. Nothing that people wrote or said is shown, nor what was said of
//! it: states, scores and codes are.
//!
//! Setting is the publisher's; looking, grading again and letting a mail go the daemon's role may do. Each write is one transaction: if we die
//! before its commit nothing happened.

mod calibrate;
mod disable;
mod enable;
mod forms;
mod list;
mod messages;
mod question;
mod regrade;
mod release;
mod show;
mod sla;

use clap::Subcommand;
use uuid::Uuid;

use super::id::IdArg;
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, role};
use crate::config::Database;
use crate::grading::core::skill::{Skill, Task};
use crate::grading::store::GradingStore;
use crate::parts;

/// Arguments of `grading`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Have a form graded, and its mail wait for the grade
    Enable(enable::Args),
    /// Have a form graded no more
    Disable(disable::Args),
    /// List the forms that are graded
    Forms(forms::Args),
    /// Set a question, or the key of a test
    Question(question::Args),
    /// List attempts, the latest first
    List(list::Args),
    /// Tell everything about the attempts at a submission
    Show(show::Args),
    /// Have a submission graded again whose attempt failed
    Regrade(regrade::Args),
    /// Let the mail of a submission go without its grade
    Release(release::Args),
    /// Say how many messages wait, or list those that nobody could take in
    Messages(messages::Args),
    /// Say how long each stage took, and whether that is good enough
    Sla(sla::Args),
    /// Try the models on a corpus that people have graded, and record whether they may grade alone
    Calibrate(calibrate::Args),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.verb {
        Verb::Enable(args) => enable::run(ctx, &args).await,
        Verb::Disable(args) => disable::run(ctx, &args).await,
        Verb::Forms(args) => forms::run(ctx, &args).await,
        Verb::Question(args) => question::run(ctx, &args).await,
        Verb::List(args) => list::run(ctx, args).await,
        Verb::Show(args) => show::run(ctx, &args).await,
        Verb::Regrade(args) => regrade::run(ctx, &args).await,
        Verb::Release(args) => release::run(ctx, &args).await,
        Verb::Messages(args) => messages::run(ctx, &args).await,
        Verb::Sla(args) => sla::run(ctx, &args).await,
        Verb::Calibrate(args) => calibrate::run(ctx, &args).await,
    }
}

/// The publisher of what is graded.
#[derive(Debug, clap::Args)]
struct PublisherUrl {
    /// Connection string of the publisher's role [default: forms.publisher_url]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_PUBLISHER_URL", hide_env_values = true)]
    publisher_url: Option<String>,
}

/// The attempts as the daemon's role sees them, and whoever acts.
struct Room {
    setup: Setup,
    store: GradingStore,
    actor: String,
}

impl Room {
    async fn open(ctx: &Context) -> Result<Self, CliError> {
        let setup = Setup::open(ctx)?;
        let store = parts::grading_store(&setup.config, setup.pool.clone());
        if !store.is_there().await.map_err(setup::database)? {
            let none =
                anyhow::anyhow!("there is no schema assessment that this role may use: nothing is graded");
            return Err(
                CliError::new(Exit::BadConfig, none).remedy("as the owner: maple-router migrate --grading")
            );
        }
        Ok(Self { setup, store, actor: operator::actor(&ctx.env) })
    }

    /// The same as the publisher's role, which sets.
    async fn publisher(&self, ctx: &Context, url: &PublisherUrl) -> Result<GradingStore, CliError> {
        let config = &self.setup.config;
        let url = url.publisher_url.as_deref().filter(|url| !url.trim().is_empty());
        let url = url.or(config.forms.publisher_url.as_deref());
        let database = Database { max_connections: 1, ..config.database.clone() };
        let pool = role::pool(ctx, config, database, url, "maple-router grading")?;
        let store = GradingStore::new(pool, &self.actor);
        if !store.may_set().await.map_err(setup::database)? {
            let other =
                anyhow::anyhow!("this database role may not set what is graded: the publisher's does");
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

    /// The submission that is meant: by its id or its beginning, or by an attempt's id.
    async fn submission(&self, id: &IdArg) -> Result<Uuid, CliError> {
        if let IdArg::Whole(id) = id
            && let Some(found) = self.store.one(*id).await.map_err(setup::database)?
        {
            return Ok(found.attempt.subject);
        }
        self.setup.submission(id).await
    }
}

fn skill(text: &str) -> Result<Skill, String> {
    let known: Vec<&str> = Skill::ALL.iter().map(|skill| skill.label()).collect();
    Skill::parse(text).ok_or_else(|| format!("there is no such skill; known are {}", known.join(", ")))
}

fn task(text: &str) -> Result<Task, String> {
    let known: Vec<&str> = Task::ALL.iter().map(|task| task.label()).collect();
    Task::parse(text).ok_or_else(|| format!("there is no such task; known are {}", known.join(", ")))
}
