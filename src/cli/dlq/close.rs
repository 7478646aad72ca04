//! Closing dead letters: redrive and discard.
//!
//! A message of Pub/Sub's is announced first and closed second: if we die in between, the record stays open, and an
//! event too many changes nothing. A row of the outbox and its record are changed in one transaction.

use serde_json::json;
use uuid::Uuid;

use super::entry::Entry;
use super::{Close, LIMIT, fault, find, meant, one};
use crate::cli::announce::{Again, Announced, Announcer};
use crate::cli::replay::{Asked, Changed, Report};
use crate::cli::setup::{self, Setup};
use crate::cli::{CliError, Context, Exit, bulk, operator, output};
use crate::outbox::journal;
use crate::outbox::subject::REDRIVE;
use crate::routing::dead_letter::{Closing, Record};
use crate::routing::decide::replay::ReplayOptions;
use crate::routing::store::dead_letters::{DISCARD, ExhaustedRow};
use crate::routing::store::overrides::Override;
use crate::routing::upkeep::dead_letters::Records;

/// Redrives or discards: the same choice, another end.
pub(super) async fn run(
    ctx: &Context,
    setup: &Setup,
    records: &Records,
    args: &Close,
    how: Closing,
) -> Result<Exit, CliError> {
    let actor = operator::actor(&ctx.env);
    let ids: Vec<Uuid> = match &args.kind {
        Some(kind) => {
            let found = find(records, Some(kind), false, args.limit.unwrap_or(LIMIT)).await?;
            found.iter().map(Entry::id).collect()
        }
        None => {
            let mut named = Vec::with_capacity(args.ids.len());
            for id in &args.ids {
                named.push(meant(setup, records, id).await?);
            }
            bulk::each_once(named)
        }
    };
    let closer = Closer { setup, records, actor: &actor, args, how };
    let mut report = Report::new("left as it is", ids.len(), args.dry_run);
    let mut announcer = Announcer::of(&setup.config);
    let progress = output::Progress::of(ids.len());
    for (done, id) in ids.iter().enumerate() {
        match closer.close(*id, &mut announcer).await? {
            Ok(announced) => report.changed.push(Changed::closed(*id, announced)),
            Err(why) => report.skip(*id, why),
        }
        progress.at(done + 1);
    }
    progress.end();
    report.tell(args.json)?;
    Ok(report.exit(true))
}

struct Closer<'a> {
    setup: &'a Setup,
    records: &'a Records,
    actor: &'a str,
    args: &'a Close,
    how: Closing,
}

impl Closer<'_> {
    /// Closes one; returns its announcement, or why it stays as it is.
    async fn close(
        &self,
        id: Uuid,
        announcer: &mut Announcer<'_>,
    ) -> Result<Result<Option<Announced>, String>, CliError> {
        match one(self.records, id).await? {
            None => Ok(Err("there is no such dead letter".to_owned())),
            Some(Entry::Row(row)) => self.close_row(&row).await,
            Some(Entry::Letter(record)) if record.closed.is_some() => {
                Ok(Err("it is closed already".to_owned()))
            }
            Some(Entry::Letter(_)) if self.args.dry_run => Ok(Ok(None)),
            Some(Entry::Letter(record)) => self.close_letter(*record, announcer).await,
        }
    }

    async fn close_letter(
        &self,
        record: Record,
        announcer: &mut Announcer<'_>,
    ) -> Result<Result<Option<Announced>, String>, CliError> {
        let (id, submission_id) = (record.id, record.submission_id);
        let announced = match self.how {
            Closing::Discarded => None,
            Closing::Redriven => {
                match announcer.again(self.setup, &record, (self.actor, &self.args.reason)).await? {
                    Again::Announced(announced) => Some(announced),
                    Again::Refused(why) => return Ok(Err(why)),
                    Again::Closed(announced) => {
                        self.log(id, submission_id);
                        return Ok(Ok(Some(announced)));
                    }
                }
            }
        };
        if !self.records.close(id, self.how, self.actor, &self.args.reason).await.map_err(fault)? {
            return Ok(Err("it was closed by somebody else meanwhile".to_owned()));
        }
        self.log(id, submission_id);
        Ok(Ok(announced))
    }

    /// Closes a failed row: replays it, or records that it is not needed.
    async fn close_row(&self, row: &ExhaustedRow) -> Result<Result<Option<Announced>, String>, CliError> {
        match self.how {
            Closing::Redriven => {
                let asked = Asked {
                    actor: self.actor,
                    verb: REDRIVE,
                    reason: &self.args.reason,
                    options: ReplayOptions::default(),
                    dry_run: self.args.dry_run,
                };
                let (report, broken) = asked.replay(self.setup, &[row.id], Vec::new()).await?;
                match broken {
                    Some(error) => Err(setup::database(error)),
                    None => Ok(report.only().map(|changed| changed.announced)),
                }
            }
            Closing::Discarded if self.args.dry_run => Ok(Ok(None)),
            Closing::Discarded => {
                let more = json!({"for": row.token});
                let reason = Some(self.args.reason.as_str());
                let note = Override { actor: self.actor, verb: DISCARD, reason, more: &more };
                self.setup.overrides().note(row.id, note).await.map_err(setup::database)?;
                self.log(row.id, Some(row.id));
                Ok(Ok(None))
            }
        }
    }

    fn log(&self, id: Uuid, submission_id: Option<Uuid>) {
        let verb = match self.how {
            Closing::Redriven => REDRIVE,
            Closing::Discarded => DISCARD,
        };
        journal::dead_letter_closed(id, submission_id, (self.actor, verb, &self.args.reason));
    }
}
