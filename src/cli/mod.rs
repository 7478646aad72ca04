//! The verbs of `maple-router`, one file each. Only this module prints.
//!
//! Results go to stdout, everything else to stderr; `--json` on every reading verb. A reader that goes away (a
//! closed pipe) is no fault. Verbs other than `run` leave nothing running when they are killed.

mod announce;
mod audit;
mod bulk;
mod check;
mod completions;
mod desk;
mod dlq;
mod erase;
mod exit;
mod explain;
mod filters;
mod finalize;
mod forms;
mod gc;
mod grade;
mod grading;
mod happyfox;
mod hold;
mod id;
mod layout;
mod lifecycle;
mod links;
mod list;
mod man;
mod manual;
mod mark_attachment;
mod migrate;
mod operator;
mod output;
mod pause;
mod policy;
mod provision;
mod publish;
mod receipts;
mod release;
mod render;
mod replay;
mod resume;
mod retention;
mod review;
mod role;
mod run;
mod scan;
mod scan_tree;
mod screen;
mod screening;
mod setup;
mod status;
mod sweep;
mod tail;
mod test_send;
mod upload;
mod uploads;
mod watch;

pub use check::CheckReport;
pub use exit::{CliError, Exit};
pub use filters::{Filters, Since};

use std::path::PathBuf;

use clap::{ColorChoice, Parser, Subcommand};

use crate::config::{Config, Environment, Loaded, Log, LogFormat, environment};
use crate::ops::{metrics, telemetry};

/// Routes complete, virus-scanned web-form submissions to the people they are for.
#[derive(Debug, Parser)]
#[command(name = "maple-router", version = metrics::build(), disable_help_subcommand = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// Configuration file [default: /etc/maple-router/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = "MAPLE_ROUTER_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Colours: auto is on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    color: ColorChoice,
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 found wanting, 2 usage, 69 a dependency is unavailable, \
                          78 bad configuration or a database that does not meet the contract";

/// What to do; the order is that of the interfaces page.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the daemon
    Run(run::Args),
    /// Check configuration, database, subscription, relay, signing and alerts
    Check(check::Args),
    /// Create or verify topics, subscriptions, dead-letter and retry policy
    Provision(provision::Args),
    /// Apply migrations as the owner role
    Migrate(migrate::Args),
    /// Publish a routing event for submissions
    Publish(publish::Args),
    /// Mark a submission as finalized
    Finalize(finalize::Args),
    /// Record the scan result of an attachment
    MarkAttachment(mark_attachment::Args),
    /// Show how many submissions are where, and what is wrong
    Status(status::Args),
    /// List submissions
    List(list::Args),
    /// Tell everything about a submission, and what happens next
    Explain(explain::Args),
    /// Follow a submission until it ends
    Watch(watch::Args),
    /// Follow what becomes of all submissions
    Tail(tail::Args),
    /// Show the exact mails a submission would cause
    Render(render::Args),
    /// Make fresh signed URLs for the attachments of a submission
    Links(links::Args),
    /// Route again what has ended, with a reason
    Replay(replay::Args),
    /// Give stuck claims back now
    Release(release::Args),
    /// Make tickets that were deferred while there was no help desk
    Happyfox(happyfox::Args),
    /// Take back, find and count what the daemon's own sweep would: one pass
    Sweep(sweep::Args),
    /// Hold everything, a form or a destination domain, without spending attempts
    Pause(pause::Args),
    /// End a pause
    Resume(resume::Args),
    /// Look at dead letters, publish them again or close them
    Dlq(dlq::Args),
    /// Decide about what waits for a person
    Review(review::Args),
    /// Look at files that are being brought, and what became of them
    Uploads(uploads::Args),
    /// Bring a file through the API of uploads
    Upload(upload::Args),
    /// Draft, publish and promote versions of forms
    Forms(forms::Args),
    /// Try the policy that forms are published by
    Policy(policy::Args),
    /// Test the virus scanner, or have files scanned again
    Scan(scan::Args),
    /// Scan a tree of files for the screener, without rights
    #[command(hide = true)]
    ScanTree(scan_tree::Args),
    /// Look at screening, and say what is screened
    Screening(screening::Args),
    /// Look at grading, and say what is graded
    Grading(grading::Args),
    /// Collect what has ended: run, status, undelete, reconcile
    Gc(gc::Args),
    /// Say how long what has ended is kept
    Retention(retention::Args),
    /// Place, lift and list legal holds
    Hold(hold::Args),
    /// Remove a person's data before its time
    Erase(erase::Args),
    /// Show what was removed, and prove it
    Receipts(receipts::Args),
    /// Run the screener
    Screen(screen::Args),
    /// Run the grader
    Grade(grade::Args),
    /// Let people into the review desk, and out of it
    Desk(desk::Args),
    /// Tell what the audit log knows of recipients
    Audit(audit::Args),
    /// Send one mail through the real path
    TestSend(test_send::Args),
    /// Show the transition tables the program goes by
    Lifecycle(lifecycle::Args),
    /// Print shell completions
    Completions(completions::Args),
    /// Print manual pages
    Man(man::Args),
}

/// Input of every verb: the configuration's path, and the environment as it was at the start.
#[derive(Debug, Clone)]
pub struct Context {
    /// `--config`, where given.
    pub config_path: Option<PathBuf>,
    /// The environment.
    pub env: Environment,
}

impl Context {
    /// Loads the configuration, valid as a whole: for every verb that acts as the daemon would.
    pub fn config(&self) -> Result<Loaded, CliError> {
        Ok(self.read_config()?.validated()?)
    }

    /// Loads the configuration as written, each key sensible by itself: for verbs that need only a part (`migrate`)
    /// or report on all of it (`check`).
    pub fn read_config(&self) -> Result<Loaded, CliError> {
        Ok(Config::load(self.config_path.as_deref(), &self.env)?)
    }
}

impl Cli {
    /// Says whether the verb is the daemon itself.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        matches!(self.verb, Verb::Run(_))
    }

    /// Runs the verb.
    pub async fn run(self) -> Result<Exit, CliError> {
        // An empty variable counts as absent.
        let config_path = self.config.filter(|path| !path.as_os_str().is_empty());
        let ctx = Context { config_path, env: environment() };
        output::colour(self.color);
        if !matches!(self.verb, Verb::Run(_) | Verb::Screen(_) | Verb::Grade(_) | Verb::ScanTree(_)) {
            // The daemon sets logging up as configured. A person's overrides belong in the journal, where there is
            // one; elsewhere a verb logs trouble only.
            let journal = std::path::Path::new("/run/systemd/journal/socket").exists();
            let format = if journal { LogFormat::Journald } else { LogFormat::Text };
            // What the collector did is news.
            let level =
                if matches!(self.verb, Verb::Gc(_)) { "warn,maple_router::retention=info" } else { "warn" };
            let log = Log { format, level: level.to_owned() };
            telemetry::init(&log, ctx.env.get("RUST_LOG").map(String::as_str), None)?;
        }
        match self.verb {
            Verb::Run(args) => run::run(&ctx, args).await,
            Verb::Check(args) => check::run(&ctx, args).await,
            Verb::Provision(args) => provision::run(&ctx, args).await,
            Verb::Migrate(args) => migrate::run(&ctx, args).await,
            Verb::Publish(args) => publish::run(&ctx, args).await,
            Verb::Finalize(args) => finalize::run(&ctx, args).await,
            Verb::MarkAttachment(args) => mark_attachment::run(&ctx, args).await,
            Verb::Status(args) => status::run(&ctx, args).await,
            Verb::List(args) => list::run(&ctx, args).await,
            Verb::Explain(args) => explain::run(&ctx, args).await,
            Verb::Watch(args) => watch::run(&ctx, args).await,
            Verb::Tail(args) => tail::run(&ctx, args).await,
            Verb::Render(args) => render::run(&ctx, args).await,
            Verb::Links(args) => links::run(&ctx, args).await,
            Verb::Replay(args) => replay::run(&ctx, args).await,
            Verb::Release(args) => release::run(&ctx, args).await,
            Verb::Happyfox(args) => happyfox::run(&ctx, args).await,
            Verb::Sweep(args) => sweep::run(&ctx, args).await,
            Verb::Pause(args) => pause::run(&ctx, args).await,
            Verb::Resume(args) => resume::run(&ctx, args).await,
            Verb::Dlq(args) => dlq::run(&ctx, args).await,
            Verb::Review(args) => review::run(&ctx, args).await,
            Verb::Uploads(args) => uploads::run(&ctx, args).await,
            Verb::Upload(args) => upload::run(&ctx, args).await,
            Verb::Forms(args) => forms::run(&ctx, args).await,
            Verb::Policy(args) => policy::run(&ctx, &args),
            Verb::Scan(args) => scan::run(&ctx, args).await,
            Verb::ScanTree(_) => scan_tree::run(),
            Verb::Screening(args) => screening::run(&ctx, args).await,
            Verb::Grading(args) => grading::run(&ctx, args).await,
            Verb::Gc(args) => gc::run(&ctx, args).await,
            Verb::Retention(args) => retention::run(&ctx, args).await,
            Verb::Hold(args) => hold::run(&ctx, args).await,
            Verb::Erase(args) => erase::run(&ctx, args).await,
            Verb::Receipts(args) => receipts::run(&ctx, args).await,
            Verb::Screen(args) => screen::run(&ctx, args).await,
            Verb::Grade(args) => grade::run(&ctx, args).await,
            Verb::Desk(args) => desk::run(&ctx, args).await,
            Verb::Audit(args) => audit::run(&ctx, args).await,
            Verb::TestSend(args) => test_send::run(&ctx, args).await,
            Verb::Lifecycle(args) => lifecycle::run(&args),
            Verb::Completions(args) => completions::run(&args),
            Verb::Man(args) => man::run(&args),
        }
    }
}
