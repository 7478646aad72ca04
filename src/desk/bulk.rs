//! One command for several entries: each in a transaction of its own, so that one that is not as somebody saw it stops none of the
//! others. What is meant is what was seen: entries with their versions, or those that matched a filter at a moment, with their number.
//!
//! With an idempotency key the selection is kept before the first entry, and the answer in its place after the last. If we die in
//! between, a repetition goes on with the same selection: what was done is known by its version, and that the same person's same
//! command raised it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::decide::{Repeat, conflict, recorded};
use super::problem::Problem;
use super::store::idempotency::{keep, keep_instead, once};
use crate::db::{DbError, DbErrorKind};
use crate::grey_queue::commands::{Answer, Commands};
use crate::grey_queue::decide::{Ask, Person, Verb};
use crate::grey_queue::entry::{Entry, Moved};
use crate::grey_queue::store::Filter;
use crate::grey_queue::table::{Command, State};
use crate::web::idempotency::{Kept, Once};
use crate::web::problem::TYPE_PREFIX;

/// Most entries of one bulk.
pub(crate) const MOST: usize = 200;
/// Time after which no further entry is begun: the answer must not come too late to be read.
const TIME: Duration = Duration::from_secs(10);
/// Status of what is kept while the entries are gone through.
const UNDER_WAY: u16 = 102;

/// An entry as somebody saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selected {
    /// The entry.
    pub(crate) id: Uuid,
    /// Its version.
    pub(crate) version: i64,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selection {
    /// These entries.
    These(Vec<Selected>),
    /// The entries that match.
    Matching {
        /// The filter; entries opened after its `as_of` were not seen.
        filter: Filter,
        /// How many were seen.
        expected: usize,
    },
}

/// A command for several entries.
#[derive(Debug)]
pub(crate) struct Bulk<'a> {
    /// The entries.
    pub(crate) selection: &'a Selection,
    /// What is asked.
    pub(crate) ask: &'a Ask,
    /// Who asks.
    pub(crate) by: &'a Person,
    /// What makes a second request a repetition.
    pub(crate) repeat: Option<Repeat<'a>>,
}

/// An entry that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ChangedItem {
    pub(crate) id: Uuid,
    pub(crate) version: i64,
    pub(crate) state: State,
}

/// An entry that was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SkippedItem {
    pub(crate) id: Uuid,
    /// Why, in words.
    pub(crate) why: String,
    /// The type of the problem that a single decision would have been answered with.
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// What became of the entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// How many were meant.
    pub(crate) matched: usize,
    /// Those that were changed.
    pub(crate) changed: Vec<ChangedItem>,
    /// Those that were not.
    pub(crate) skipped: Vec<SkippedItem>,
}

/// What became of a bulk.
#[derive(Debug)]
pub(crate) enum BulkOutcome {
    /// All entries were gone through.
    Done(Report),
    /// They were before: the answer that was given then.
    Repeated(Kept),
    /// The key belongs to another request.
    KeyMismatch,
    /// Not as many match as were seen: nothing was done.
    SelectionChanged {
        /// How many were seen.
        expected: usize,
        /// How many match; one more than [`MOST`] where there are more.
        matched: usize,
    },
}

/// Carries a bulk out.
///
/// # Errors
/// [`DbError`]: the database went away in between. Entries that were changed stay so; the same request with the same key goes on.
pub(crate) async fn carry_out(commands: &Commands, bulk: &Bulk<'_>) -> Result<BulkOutcome, DbError> {
    let began = commands.clock.monotonic();
    let items = match bulk.selection {
        Selection::These(items) => items.clone(),
        Selection::Matching { filter, expected } => match begin(commands, bulk, None).await? {
            Begun::Now => {
                let page = commands.store.list(filter, MOST.saturating_add(1), None).await?;
                if page.items.len() != *expected {
                    return Ok(BulkOutcome::SelectionChanged {
                        expected: *expected,
                        matched: page.items.len(),
                    });
                }
                page.items.iter().map(|entry| Selected { id: entry.id, version: entry.version }).collect()
            }
            Begun::Before(items) => items,
            Begun::Over(outcome) => return Ok(outcome),
        },
    };
    let items = match begin(commands, bulk, Some(&items)).await? {
        Begun::Now => items,
        Begun::Before(items) => items,
        Begun::Over(outcome) => return Ok(outcome),
    };
    let report = go_through(commands, bulk, &items, began).await?;
    end(commands, bulk, report).await
}

/// What the key tells of a bulk.
enum Begun {
    /// It is new.
    Now,
    /// It was begun with these, and perhaps not ended.
    Before(Vec<Selected>),
    /// There is nothing to do.
    Over(BulkOutcome),
}

/// Asks for what is kept under the key; keeps `items` there, where it is new.
async fn begin(commands: &Commands, bulk: &Bulk<'_>, items: Option<&[Selected]>) -> Result<Begun, DbError> {
    let Some(Repeat { key, request }) = bulk.repeat else { return Ok(Begun::Now) };
    commands
        .store
        .pool()
        .transaction("desk_bulk", async |tx| match once(&tx, &bulk.by.name, key, request).await? {
            Once::Kept(kept) if kept.status == UNDER_WAY => {
                let items = serde_json::from_value(kept.response);
                items.map(Begun::Before).map_err(|error| DbError::Shape(error.to_string()))
            }
            Once::Kept(kept) => Ok(Begun::Over(BulkOutcome::Repeated(kept))),
            Once::Mismatch => Ok(Begun::Over(BulkOutcome::KeyMismatch)),
            Once::Fresh => {
                if let Some(items) = items {
                    let kept = Kept { status: UNDER_WAY, response: json!(items) };
                    keep(&tx, &bulk.by.name, key, request, &kept).await?;
                }
                Ok(Begun::Now)
            }
        })
        .await
}

/// Keeps the answer in the selection's place.
async fn end(commands: &Commands, bulk: &Bulk<'_>, report: Report) -> Result<BulkOutcome, DbError> {
    let Some(Repeat { key, request }) = bulk.repeat else { return Ok(BulkOutcome::Done(report)) };
    let kept = Kept { status: 200, response: json!(report) };
    let other = commands
        .store
        .pool()
        .transaction("desk_bulk", async |tx| match once(&tx, &bulk.by.name, key, request).await? {
            // The same request has come twice, and the other one was faster.
            Once::Kept(other) if other.status != UNDER_WAY => Ok(Some(BulkOutcome::Repeated(other))),
            Once::Mismatch => Ok(Some(BulkOutcome::KeyMismatch)),
            Once::Kept(_) | Once::Fresh => {
                keep_instead(&tx, &bulk.by.name, key, request, &kept).await?;
                Ok(None)
            }
        })
        .await?;
    Ok(other.unwrap_or(BulkOutcome::Done(report)))
}

async fn go_through(
    commands: &Commands,
    bulk: &Bulk<'_>,
    items: &[Selected],
    began: Instant,
) -> Result<Report, DbError> {
    let mut report = Report { matched: items.len(), changed: Vec::new(), skipped: Vec::new() };
    for item in items {
        if commands.clock.monotonic().saturating_duration_since(began) >= TIME {
            let late = Problem::busy();
            report.skip(item.id, &late, "There was no time left for it: send it again.");
            continue;
        }
        match one(commands, bulk, item).await {
            Ok(Answer::Done { entry, .. }) => {
                recorded(bulk.by, bulk.ask.verb, &entry);
                report.changed.push(ChangedItem::of(&entry));
            }
            Ok(Answer::Conflict(entry)) => {
                // The same request may have come before, or a moment ago.
                if bulk.repeat.is_some()
                    && is_done(&commands.store.history(item.id).await?, item.version, bulk)
                {
                    report.changed.push(ChangedItem::of(&entry));
                } else {
                    let problem = conflict(commands, entry).await?.problem();
                    report.skip(item.id, &problem, problem.detail());
                }
            }
            Ok(Answer::Refused { refusal, .. }) => {
                report.skip(item.id, &Problem::from(&refusal), &refusal.to_string());
            }
            Ok(Answer::Unknown) => {
                let problem = Problem::not_found("such entry");
                report.skip(item.id, &problem, problem.detail());
            }
            Err(error) if matches!(error.kind(), DbErrorKind::Unreachable | DbErrorKind::Contract) => {
                return Err(error);
            }
            Err(error) => {
                let problem = Problem::from(error);
                report.skip(item.id, &problem, problem.detail());
            }
        }
    }
    Ok(report)
}

async fn one(commands: &Commands, bulk: &Bulk<'_>, item: &Selected) -> Result<Answer, DbError> {
    let Selected { id, version } = *item;
    let ask = bulk.ask;
    // The subject's evidence counts for this alone.
    let looked = if ask.verb == Verb::Resolve && ask.remedy.is_none() && !ask.vouch {
        match commands.store.get(id).await? {
            Some(entry) => commands.look(&entry).await?,
            None => return Ok(Answer::Unknown),
        }
    } else {
        None
    };
    commands
        .store
        .pool()
        .transaction("desk_bulk", async |tx| {
            commands.ask_in(&tx, (id, version), ask, bulk.by, looked.as_ref()).await
        })
        .await
}

/// Whether the same person's same command followed directly on this version.
fn is_done(history: &[Moved], version: i64, bulk: &Bulk<'_>) -> bool {
    let since = history.iter().filter(|line| line.version > version);
    let mut by_them = since.take_while(|line| line.by == bulk.by.label);
    by_them.any(|line| ends(bulk.ask.verb).iter().any(|command| command.label() == line.command))
}

/// The transitions with which a command may end.
fn ends(verb: Verb) -> &'static [Command] {
    match verb {
        Verb::Assign => &[Command::Assign, Command::HandOver],
        Verb::Unassign => &[Command::Unassign],
        Verb::Escalate => &[Command::Escalate],
        Verb::DeEscalate => &[Command::DeEscalate],
        Verb::Resolve => &[Command::Resolve, Command::Start],
        Verb::Reject => &[Command::Reject],
        Verb::Dismiss => &[Command::Dismiss],
        Verb::Reopen => &[Command::Reopen, Command::Reset],
        Verb::Reset => &[Command::Reset],
        Verb::Start => &[Command::Start],
    }
}

impl ChangedItem {
    fn of(entry: &Entry) -> Self {
        Self { id: entry.id, version: entry.version, state: entry.state }
    }
}

impl Report {
    fn skip(&mut self, id: Uuid, problem: &Problem, why: &str) {
        self.skipped.push(SkippedItem {
            id,
            why: why.to_owned(),
            kind: format!("{TYPE_PREFIX}{}", problem.kind()),
        });
    }
}

impl BulkOutcome {
    /// The answer of a bulk that was gone through.
    ///
    /// # Errors
    /// [`Problem`]: nothing was done.
    pub(crate) fn answer(self) -> Result<Kept, Problem> {
        match self {
            Self::Done(report) => Ok(Kept { status: 200, response: json!(report) }),
            Self::Repeated(kept) => Ok(kept),
            Self::KeyMismatch => Err(Problem::idempotency_mismatch()),
            Self::SelectionChanged { expected, matched } => {
                Err(Problem::selection_changed(expected, matched))
            }
        }
    }
}

/// A moment that the database's time has: what is before was never seen, and what is after will not be.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    text.parse().ok().filter(|at: &Timestamp| *at >= Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(version: i64, command: &str, by: &str) -> Moved {
        Moved {
            version,
            at: Timestamp::UNIX_EPOCH,
            command: command.to_owned(),
            from: None,
            to: "x".to_owned(),
            by: by.to_owned(),
            reason: None,
            metadata: json!(null),
        }
    }

    #[test]
    fn what_the_same_person_did_before_is_known_and_what_others_did_is_not() {
        let by = Person {
            name: "rita".to_owned(),
            role: crate::grey_queue::table::REVIEWER,
            label: "reviewer:rita".to_owned(),
        };
        let (ask, selection) = (Ask::plain(Verb::Reject), Selection::These(Vec::new()));
        let bulk = Bulk { selection: &selection, ask: &ask, by: &by, repeat: None };
        let before = line(2, "reject", "reviewer:rita");
        let ours = line(4, "reject", "reviewer:rita");
        let others = line(4, "reject", "reviewer:ben");
        assert!(is_done(&[before.clone(), ours.clone()], 3, &bulk));
        assert!(!is_done(std::slice::from_ref(&before), 3, &bulk), "that was before");
        assert!(!is_done(&[before.clone(), others.clone()], 3, &bulk), "that was another");
        assert!(!is_done(&[others, line(5, "reject", "reviewer:rita")], 3, &bulk), "another came between");
        assert!(!is_done(&[line(4, "escalate", "reviewer:rita")], 3, &bulk), "that was another command");
        assert!(
            is_done(&[ours, line(5, "reopen", "reviewer:ben")], 3, &bulk),
            "what followed is another matter"
        );
    }
}
