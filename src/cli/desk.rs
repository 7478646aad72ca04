//! `desk`: the review desk's secret, and the credentials of its people.
//!
//! Whoever may read the secret on this host may log anybody in: that is the operator's right, and each use is in the journal.
//! A credential is printed once, and kept nowhere but as a keyed digest.

mod init;
mod issue;
mod sessions;

use std::sync::Arc;

use clap::Subcommand;
use tokio::sync::watch;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit};
use crate::config::Config;
use crate::db::{DbError, DbErrorKind};
use crate::desk::access::credential::DeskKey;
use crate::desk::access::{User, Users};
use crate::desk::store::credentials::Credentials;

/// Arguments of `desk`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make the secret that credentials are kept with
    Init(init::Init),
    /// Print a link that logs a user in, once
    Login(issue::Login),
    /// Print a token for the API
    Token(issue::Token),
    /// List who is logged in, and what else counts; or end it
    Sessions(sessions::Sessions),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.verb {
        Verb::Init(args) => init::run(ctx, &args),
        Verb::Login(args) => issue::login(ctx, args).await,
        Verb::Token(args) => issue::token(ctx, args).await,
        Verb::Sessions(args) => sessions::run(ctx, args).await,
    }
}

/// What the verbs about credentials need.
struct Office {
    config: Config,
    key: DeskKey,
    credentials: Credentials,
    users: Users,
}

impl Office {
    /// Reads configuration and secret; connects to nothing yet.
    fn open(ctx: &Context) -> Result<Self, CliError> {
        let setup = Setup::open(ctx)?;
        let config = setup.config.clone();
        if config.desk.listen.is_none() {
            return Err(CliError::new(
                Exit::BadConfig,
                anyhow::anyhow!("there is no desk: desk.listen is not set"),
            )
            .remedy("set [desk] listen, e.g. 127.0.0.1:9465, and restart the service"));
        }
        let no_secret = |what: String| {
            CliError::new(Exit::BadConfig, anyhow::anyhow!("{what}"))
                .remedy("sudo maple-router desk init makes it")
        };
        let secret = config
            .desk_secret()
            .map_err(|error| no_secret(error.to_string()))?
            .ok_or_else(|| no_secret("the desk has no secret yet".to_owned()))?;
        let key = DeskKey::new(secret.secret.expose())
            .map_err(|why| no_secret(format!("{}: {why}", secret.path.display())))?;
        let credentials = Credentials::new(setup.pool.clone());
        let (_, seen) = watch::channel(Arc::new(config.clone()));
        Ok(Self { config, key, credentials, users: Users::new(seen) })
    }

    /// The user of this name.
    fn user(&self, name: &str) -> Result<User, CliError> {
        self.users.named(name).ok_or_else(|| {
            let known: Vec<String> = self.users.all().into_iter().map(|user| user.name).collect();
            let known = if known.is_empty() { "nobody yet".to_owned() } else { known.join(", ") };
            CliError::new(Exit::FoundWanting, anyhow::anyhow!("{name} is no user of the desk")).remedy(
                format!("add [desk.users.{name}] to the configuration and reload; there are: {known}"),
            )
        })
    }
}

/// The end of a verb by a database fault: mostly that the tables are not there.
fn database(error: DbError) -> CliError {
    match error.kind() {
        DbErrorKind::Contract => CliError::new(Exit::BadConfig, error)
            .remedy("as the owner: maple-router migrate --router; `maple-router check` tells more"),
        DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Bug => setup::database(error),
    }
}
