//! `forms`: versions of forms. Reading is everybody's who may run this; drafting, publishing and promoting are the publisher's, whose
//! connection string is named by `--publisher-url`, `MAPLE_ROUTER_PUBLISHER_URL` or `forms.publisher_url`.
//!
//! Destinations and texts are shown to whoever may run this.

mod adopt;
mod bury;
mod diff;
mod list;
mod load;
mod move_to;
mod publish;
mod show;
mod sign;

use clap::Subcommand;

use super::operator;
use super::{CliError, Context, Exit, output, role};
use crate::config::{Config, Database};
use crate::forms::commands::{By, CommandError, Judged, Versions};
use crate::forms::signing::NAMESPACE;
use crate::forms::table::{PUBLISHER, Version};
use crate::kernel::rows::Row;
use crate::parts;

/// Arguments of `forms`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Connection string of the publisher's role [default: forms.publisher_url]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MAPLE_ROUTER_PUBLISHER_URL",
        hide_env_values = true
    )]
    publisher_url: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a draft of a form's file
    Load(load::Args),
    /// List forms, or the versions of one
    List(list::Args),
    /// Tell everything about a version, and what can be done with it
    Show(show::Args),
    /// Show what a version changes: actions, texts, and the mails of its samples
    Diff(diff::Args),
    /// Publish a draft, if the checks and the policy allow it
    Publish(publish::Args),
    /// Print what a signature of a version is made of: ssh-keygen -Y sign -n maple-router-form
    Statement(sign::Statement),
    /// Keep somebody's signature of a version
    Sign(sign::Sign),
    /// Make a form follow a published version
    Promote(move_to::Promote),
    /// Make a form follow the version before its current one
    Rollback(move_to::Rollback),
    /// Take a published version out of use
    Tombstone(bury::Tombstone),
    /// Take a tombstoned version back
    Restore(bury::Restore),
    /// Give a draft up
    Discard(bury::Discard),
    /// Make what the tables have of a form its first version
    Adopt(adopt::Args),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let office = Office::open(ctx, args.publisher_url.as_deref())?;
    if !office.versions.store.is_there().await.map_err(super::setup::database)? {
        return Err(CliError::new(
            Exit::BadConfig,
            anyhow::anyhow!("schema content has no versions that this role may use"),
        )
        .remedy("as the owner: maple-router migrate --content"));
    }
    match args.verb {
        Verb::Load(args) => load::run(&office, &args).await,
        Verb::List(args) => list::run(&office, &args).await,
        Verb::Show(args) => show::run(&office, &args).await,
        Verb::Diff(args) => diff::run(&office, &args).await,
        Verb::Publish(args) => publish::run(&office, &args).await,
        Verb::Statement(args) => sign::statement(&office, &args).await,
        Verb::Sign(args) => sign::sign(&office, &args).await,
        Verb::Promote(args) => move_to::promote(&office, &args).await,
        Verb::Rollback(args) => move_to::rollback(&office, &args).await,
        Verb::Tombstone(args) => bury::tombstone(&office, &args).await,
        Verb::Restore(args) => bury::restore(&office, &args).await,
        Verb::Discard(args) => bury::discard(&office, &args).await,
        Verb::Adopt(args) => adopt::run(&office, &args).await,
    }
}

/// What the verbs need.
struct Office {
    config: Config,
    versions: Versions,
    by: By,
}

impl Office {
    fn open(ctx: &Context, url: Option<&str>) -> Result<Self, CliError> {
        let config = ctx.config()?.config;
        let url = url.filter(|url| !url.trim().is_empty()).or(config.forms.publisher_url.as_deref());
        let database = Database { max_connections: 2, ..config.database.clone() };
        let pool = role::pool(ctx, &config, database, url, "maple-router forms")?;
        let versions = parts::versions(&config, pool).map_err(super::setup::part)?;
        let by = By { who: PUBLISHER, name: operator::actor(&ctx.env) };
        Ok(Self { config, versions, by })
    }

    /// A version as people name it: `FORM` for the newest, `FORM@N`, `FORM@current`.
    async fn version(&self, named: &str) -> Result<Row<Version>, CliError> {
        let store = &self.versions.store;
        let (form, number) =
            named.rsplit_once('@').map_or((named, None), |(form, number)| (form, Some(number)));
        let found = match number {
            None => store.of_form(form).await.map_err(super::setup::database)?.into_iter().next(),
            Some("current") => match store.current(form).await.map_err(super::setup::database)? {
                Some(current) => store.by_id(current.version).await.map_err(super::setup::database)?,
                None => return Err(refused(CommandError::NotManaged(form.to_owned()), form)),
            },
            Some(number) => {
                let number = number.parse().map_err(|_| {
                    CliError::new(Exit::Usage, anyhow::anyhow!("{named:?} names no version"))
                        .remedy("write FORM@NUMBER, FORM@current, or FORM for the newest")
                })?;
                store.by_number(form, number).await.map_err(super::setup::database)?
            }
        };
        found.ok_or_else(|| {
            CliError::new(Exit::FoundWanting, anyhow::anyhow!("there is no version {named}"))
                .remedy("maple-router forms list; with a form its versions")
        })
    }

    /// `FORM@N` of a row.
    fn name(row: &Row<Version>) -> String {
        format!("{}@{}", row.columns.form_id, row.columns.number)
    }
}

/// The end of a verb whose command was not carried out.
fn refused(error: CommandError, form: &str) -> CliError {
    match error {
        CommandError::Database(error) => super::setup::database(error),
        CommandError::TooShort | CommandError::NoReason => CliError::new(Exit::Usage, error),
        CommandError::Moved | CommandError::Digest { .. } => {
            CliError::new(Exit::FoundWanting, error).remedy(format!("maple-router forms show {form}"))
        }
        CommandError::NoSigners(_) => CliError::new(Exit::BadConfig, error)
            .remedy("forms.allowed_signers, and ssh-keygen(1), ALLOWED SIGNERS"),
        CommandError::Unsigned(ref version, _) => {
            let remedy = format!(
                "maple-router forms statement {version} | ssh-keygen -Y sign -n {NAMESPACE} -f KEY | maple-router forms sign {version} -"
            );
            CliError::new(Exit::FoundWanting, error).remedy(remedy)
        }
        CommandError::NotManaged(_) => CliError::new(Exit::FoundWanting, error)
            .remedy(format!("maple-router forms adopt {form}, or promote a version of it")),
        CommandError::NotPossible(_)
        | CommandError::Faults(_)
        | CommandError::Unreadable(_)
        | CommandError::NoForm(_)
        | CommandError::NoVersion
        | CommandError::Managed(..)
        | CommandError::NoPrevious(_)
        | CommandError::IsCurrent
        | CommandError::Followed(_)
        | CommandError::TooLate
        | CommandError::SameContent
        | CommandError::Disagrees(_) => CliError::new(Exit::FoundWanting, error),
    }
}

/// Says what became of a command that is judged; the exit code tells a refusal.
fn told(json: bool, judged: &Judged, name: &str, done: &str) -> Result<Exit, CliError> {
    let reasons: &[String] = match judged {
        Judged::Done => &[],
        Judged::Refused(reasons) => reasons,
    };
    let document = serde_json::json!({"version": name, "done": *judged == Judged::Done, "reasons": reasons});
    output::either(json, &document, || match judged {
        Judged::Done => format!("{name}: {done}\n"),
        Judged::Refused(reasons) => {
            let list: String = reasons.iter().map(|reason| format!("  - {reason}\n")).collect();
            format!("{name} is refused, and stays as it was:\n{list}")
        }
    })?;
    Ok(if reasons.is_empty() { Exit::Done } else { Exit::FoundWanting })
}
