//! `happyfox backfill`: opens the tickets that were deferred while there was no help desk, oldest submission first, no faster
//! than the help desk takes them.
//!
//! Each submission is opened by itself, and what is opened is found no more: whoever is killed in the middle, or interrupted,
//! runs it again. The help desk is asked first what it would refuse, and that is left; where it does not answer nothing is
//! changed. Neither a field's value nor an address is printed or logged.

mod pace;
mod report;

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use serde_json::json;

use self::pace::{Pace, Progress, Stop};
use self::report::{Report, Subject};
use super::super::announce::Announcer;
use super::super::setup::{self, Setup};
use super::super::{CliError, Context, Exit, Since, filters, operator};
use crate::db::{DbError, DbErrorKind};
use crate::gateway::happyfox::{Directory, HelpDeskClient, objections};
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::parts;
use crate::ports::{Fault, Unanswered};
use crate::routing::journal;
use crate::routing::store::Store;
use crate::routing::store::backfill::{BackfillScope, Backfilled, Deferred, Opened};
use crate::routing::store::overrides::Override;
use crate::routing::subject::BACKFILL;
use crate::routing::worker::prepare::{Foreseen, Preparer};
use crate::scrub::scrub;

/// Submissions looked at in one statement, most of which have nothing deferred.
const PAGE: usize = 500;

/// Arguments of `happyfox backfill`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only submissions of this form
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// Only those created at or after this day or time (UTC), e.g. 2026-11-20 or 2026-11-20T08:00:00Z, or within this duration,
    /// e.g. 7d
    #[arg(long, value_name = "TIME", value_parser = filters::since)]
    since: Option<Since>,
    /// Only tell how many tickets would be made, and what the help desk would refuse
    #[arg(long)]
    dry_run: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Opens what was deferred.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    if args.reason.trim().is_empty() {
        let nothing = anyhow::anyhow!("--reason says nothing: it is kept for those who ask");
        return Err(CliError::new(Exit::Usage, nothing));
    }
    let setup = Setup::open(ctx)?;
    let client = parts::help_desk(&setup.config, Arc::new(SystemClock))
        .map_err(setup::part)?
        .ok_or_else(no_help_desk)?;
    client.fresh_directory().await.map_err(|unanswered| silent(&unanswered, "nothing was changed"))?;
    let store = setup.writing_store()?;
    let since = since(&store, args.since).await.map_err(setup::database)?;
    let scope = BackfillScope { form: args.form.as_deref(), since };
    let found = search(&store, scope).await.map_err(setup::database)?;
    let actor = operator::actor(&ctx.env);
    let more = json!({});
    let work = Work {
        preparer: parts::preparer(&setup.config, store.clone(), Arc::new(Rng::from_system()))
            .map_err(setup::part)?,
        store,
        client,
        note: Override { actor: &actor, verb: BACKFILL, reason: Some(&args.reason), more: &more },
        dry_run: args.dry_run,
    };
    let mut report = Report::new(found.len(), args.dry_run);
    report.warnings.extend(setup.unknown_form(args.form.as_deref()).await);
    let ended = work.all(&setup, &found, &mut report).await;
    report.tell(args.json)?;
    match ended {
        Ok(()) => Ok(report.exit()),
        // The report says how many are left.
        Err(Trouble::Database(error)) => Err(setup::database(error)),
        Err(Trouble::HelpDesk(unanswered)) => Err(silent(&unanswered, "the rest was not tried")),
        Err(Trouble::Other(error)) => Err(error),
    }
}

fn no_help_desk() -> CliError {
    let none =
        anyhow::anyhow!("there is no help desk: happyfox.base_url is not set, so no ticket can be made");
    CliError::new(Exit::BadConfig, none).remedy(
        "set [happyfox] base_url and its two credentials, restart the service, and see that line happyfox of \
         `maple-router check` is well",
    )
}

/// The end of the verb by a help desk that was asked, and did not answer.
fn silent(unanswered: &Unanswered, so: &str) -> CliError {
    let reply = &unanswered.fault.reply;
    let exit = if matches!(reply.code, Some(401 | 403)) { Exit::BadConfig } else { Exit::Unavailable };
    let said = scrub(&reply.reply);
    CliError::new(exit, anyhow::anyhow!("the help desk does not do what it is asked, and {so}: {said}"))
        .remedy("`maple-router check` tells more (line happyfox); then do this again")
}

/// The instant that is meant, by the database's clock.
async fn since(store: &Store, since: Option<Since>) -> Result<Option<Timestamp>, DbError> {
    Ok(match since {
        None => None,
        Some(Since::At(at)) => Some(at),
        Some(Since::Ago(ago)) => Some(store.now().await?.checked_sub(ago).unwrap_or(Timestamp::MIN)),
    })
}

/// Every submission with a deferred ticket, the oldest first.
async fn search(store: &Store, scope: BackfillScope<'_>) -> Result<Vec<Deferred>, DbError> {
    let (mut found, mut looked, mut after) = (Vec::new(), 0, None);
    let mut progress = Progress::of(None);
    loop {
        let page = store.backfill_page(after, PAGE, scope).await?;
        looked += page.looked;
        found.extend(page.found);
        progress.searched(looked, found.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    progress.end();
    found.sort_by_key(|deferred| (deferred.created_at, deferred.id));
    Ok(found)
}

/// What ends the work before its end.
enum Trouble {
    Database(DbError),
    HelpDesk(Unanswered),
    Other(CliError),
}

/// What is done to each submission, and with what.
struct Work<'a> {
    store: Store,
    preparer: Preparer,
    client: Arc<HelpDeskClient>,
    note: Override<'a>,
    dry_run: bool,
}

/// A submission that has been looked at.
struct Looked {
    form_id: String,
    /// Every deferred ticket, and what would be said against it.
    tickets: Vec<(Foreseen, Vec<Fault>)>,
}

impl Work<'_> {
    /// Goes through all of them, until somebody interrupts.
    async fn all(&self, setup: &Setup, found: &[Deferred], report: &mut Report) -> Result<(), Trouble> {
        let mut announcer = Announcer::of(&setup.config);
        let mut pace = Pace::of(setup.config.happyfox.max_per_minute);
        // A dry run changes nothing, and ends as any other program does.
        let mut stop = if self.dry_run {
            Stop::never()
        } else {
            Stop::on_signals().map_err(|error| Trouble::Other(error.into()))?
        };
        let mut progress = Progress::of(Some(found.len()));
        let mut ended = Ok(());
        for deferred in found {
            let one = self.one(deferred, report, &mut pace, &mut stop);
            match one.await {
                Ok(One::Opened { form_id }) => {
                    announcer.announce(deferred.id, &form_id).await;
                }
                Ok(One::Seen) => {}
                Ok(One::Stopped) => {
                    report.interrupted = true;
                    break;
                }
                Err(trouble) => {
                    ended = Err(trouble);
                    break;
                }
            }
            report.remaining -= 1;
            progress.at(found.len() - report.remaining, pace.still(report.remaining));
        }
        progress.end();
        report.warnings.extend(announcer.warning());
        ended
    }

    async fn one(
        &self,
        deferred: &Deferred,
        report: &mut Report,
        pace: &mut Pace,
        stop: &mut Stop,
    ) -> Result<One, Trouble> {
        if stop.is_asked() {
            return Ok(One::Stopped);
        }
        let id = deferred.id;
        let looked = match self.look(deferred).await? {
            Ok(looked) => looked,
            Err(why) => {
                report.leave(id, why);
                return Ok(One::Seen);
            }
        };
        let refused: BTreeSet<i32> = looked
            .tickets
            .iter()
            .filter(|(_, against)| !against.is_empty())
            .map(|(one, _)| one.action_order)
            .collect();
        let wanted = looked.tickets.len() - refused.len();
        if !self.dry_run && wanted > 0 {
            if !pace.turn(wanted, stop).await {
                return Ok(One::Stopped);
            }
            let opened = self.store.backfill(id, &refused, self.note, false).await;
            match own(opened)? {
                Ok(Backfilled::Done(opened)) => {
                    journal::overrides::backfilled(id, &opened.form_id, self.note, &opened.backfill);
                }
                Ok(left) => {
                    report.leave(id, left.refusal().unwrap_or_default());
                    return Ok(One::Seen);
                }
                Err(why) => {
                    report.leave(id, why);
                    return Ok(One::Seen);
                }
            }
        }
        let subject = Subject { id, form: &looked.form_id };
        for (foreseen, against) in &looked.tickets {
            report.ticket(subject, foreseen, against);
        }
        if self.dry_run || wanted == 0 {
            return Ok(One::Seen);
        }
        report.submissions += 1;
        Ok(One::Opened { form_id: looked.form_id })
    }

    /// The tickets of a submission with what would be said against each, or why it stays as it is.
    async fn look(&self, deferred: &Deferred) -> Result<Result<Looked, String>, Trouble> {
        let id = deferred.id;
        let looked = match own(self.store.backfill(id, &BTreeSet::new(), self.note, true).await)? {
            Ok(looked) => looked,
            Err(why) => return Ok(Err(why)),
        };
        let why = looked.refusal().unwrap_or_default();
        let Backfilled::Done(opened) = looked else { return Ok(Err(why)) };
        let Opened { form_id, ledger, backfill } = *opened;
        let foreseen = match own(self.preparer.foreseen(id, &ledger, &backfill.actions).await)? {
            Ok(foreseen) => foreseen,
            Err(why) => return Ok(Err(why)),
        };
        let directory = self.client.directory().await.map_err(Trouble::HelpDesk)?;
        let judged = |one: Foreseen| {
            let against = against(&one, &directory);
            (one, against)
        };
        Ok(Ok(Looked { form_id, tickets: foreseen.into_iter().map(judged).collect() }))
    }
}

/// What became of one submission.
enum One {
    /// Its deferred tickets are open.
    Opened { form_id: String },
    /// It stays as it is; the report says why.
    Seen,
    /// Somebody wants no further one begun.
    Stopped,
}

/// What the help desk would say against a ticket.
fn against(one: &Foreseen, directory: &Directory) -> Vec<Fault> {
    match &one.ticket {
        Ok(ticket) => objections(ticket, directory),
        Err(fault) => vec![fault.clone()],
    }
}

/// An error that may be of this submission alone in words; one of all of them ends the work.
fn own<T>(answer: Result<T, DbError>) -> Result<Result<T, String>, Trouble> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) => match error.kind() {
            DbErrorKind::Unreachable | DbErrorKind::Contract => Err(Trouble::Database(error)),
            DbErrorKind::Busy | DbErrorKind::Bug => Ok(Err(scrub(&error.to_string()))),
        },
    }
}
