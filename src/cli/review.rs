//! `review`: the queue of what waits for a person, from the command line of the host: lists, one entry, the next one, and
//! every decision. Whoever may run this acts with role admin, and is named in the history.
//!
//! A decision is on the entry as it is read now, or as it was at `--version`. If we die before its commit nothing happened.

mod decide;
mod list;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Subcommand;
use uuid::Uuid;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator};
use crate::config::Config;
use crate::grey_queue::commands::{Commands, People};
use crate::grey_queue::decide::{Person, Verb as Decision};
use crate::grey_queue::table::{ADMIN, who};
use crate::kernel::Who;
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::parts;

/// Arguments of `review`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List entries: the open ones, the one that waits longest first
    List(list::Args),
    /// Show an entry: what it is, what is missing, what is possible, what happened
    Show(show::One),
    /// Show what happened to an entry
    History(show::One),
    /// Show the entry to look at next: the oldest that nobody has
    Next(show::Next),
    /// Open entries for failures that have none, from before there was a queue as well
    Open(decide::Open),
    /// Give an entry to a user of the desk
    Assign(decide::Assign),
    /// Give an entry back to the queue
    Unassign(decide::Plain),
    /// Ask the security team
    Escalate(decide::Escalate),
    /// Give an entry back to a reviewer
    DeEscalate(decide::DeEscalate),
    /// Resolve an entry: by its evidence, by a remedy, or because you vouch for it
    Resolve(decide::Resolve),
    /// Reject an entry
    Reject(decide::Reasoned),
    /// Set an entry aside
    Dismiss(decide::Reasoned),
    /// Open a closed entry again
    Reopen(decide::Reasoned),
    /// Have a failed entry tried from the beginning
    Reset(decide::Reasoned),
    /// Begin a remedy
    Start(decide::Start),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let desk = Review::open(ctx, &setup).await?;
    match args.verb {
        Verb::List(args) => list::run(&desk, args).await,
        Verb::Show(args) => show::show(&desk, &args).await,
        Verb::History(args) => show::history(&desk, &args).await,
        Verb::Next(args) => show::next(&desk, args).await,
        Verb::Open(args) => decide::open(&desk, &args).await,
        Verb::Assign(args) => decide::run(&desk, args.into()).await,
        Verb::Unassign(args) => decide::run(&desk, args.into_ask(Decision::Unassign)).await,
        Verb::Escalate(args) => decide::run(&desk, args.into()).await,
        Verb::DeEscalate(args) => decide::run(&desk, args.into()).await,
        Verb::Resolve(args) => decide::run(&desk, args.into()).await,
        Verb::Reject(args) => decide::run(&desk, args.into_ask(Decision::Reject)).await,
        Verb::Dismiss(args) => decide::run(&desk, args.into_ask(Decision::Dismiss)).await,
        Verb::Reopen(args) => decide::run(&desk, args.into_ask(Decision::Reopen)).await,
        Verb::Reset(args) => decide::run(&desk, args.into_ask(Decision::Reset)).await,
        Verb::Start(args) => decide::run(&desk, args.into()).await,
    }
}

/// The queue, and whoever acts.
struct Review {
    commands: Commands,
    person: Person,
}

impl Review {
    async fn open(ctx: &Context, setup: &Setup) -> Result<Self, CliError> {
        let config = setup.config.clone();
        let (name, clock) = ("maple-router review", Arc::new(SystemClock));
        let pool = parts::desk_pool(&config, config.database.clone(), name, clock).map_err(setup::part)?;
        let store = setup.writing_store()?;
        let people = Arc::new(Known::of(&config));
        let commands =
            parts::review(&config, pool, store, people, Arc::new(Rng::from_system())).map_err(setup::part)?;
        if !commands.store.is_there().await.map_err(setup::database)? {
            let none = anyhow::anyhow!("there is no review queue in this database that this role may use");
            return Err(
                CliError::new(Exit::BadConfig, none).remedy("as the owner: maple-router migrate --router")
            );
        }
        let label = operator::actor(&ctx.env);
        let name = label.split_once(':').map_or(label.as_str(), |(_, name)| name);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) { c.to_ascii_lowercase() } else { '-' }
        };
        let name = name.chars().take(40).map(plain).collect();
        Ok(Self { commands, person: Person { name, role: ADMIN, label } })
    }

    /// The entry that is meant.
    async fn entry(&self, id: &IdArg) -> Result<Uuid, CliError> {
        match id {
            IdArg::Whole(id) => Ok(*id),
            IdArg::Beginning { text, first, last } => {
                let found = self.commands.store.beginning(*first, *last).await.map_err(setup::database)?;
                let found: Vec<id::Candidate> = found.into_iter().map(|id| (id, String::new())).collect();
                id::only("entry", text, &found)
            }
        }
    }
}

/// The users of the configuration.
#[derive(Debug)]
struct Known(BTreeMap<String, Who>);

impl Known {
    fn of(config: &Config) -> Self {
        Self(config.desk.users.iter().map(|(name, user)| (name.clone(), who(user.role))).collect())
    }
}

impl People for Known {
    fn role_of(&self, name: &str) -> Option<Who> {
        self.0.get(name).copied()
    }
}
