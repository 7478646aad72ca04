//! What time brings to the grey queue: expiries are planned, the policy begins remedies, what was mended elsewhere is found,
//! what no trigger opened is opened, old entries go. Each process runs one; every step takes pages and skips what is locked.
//!
//! If we die, the next pass or another process goes on. Upkeep decides nothing about an entry that a person has touched, but
//! that its evidence is to be looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::card;
use super::commands::Subjects;
use super::entry::{Entry, LATE_INFECTION};
use super::journal::EventName;
use super::metrics::{Cause, DEPTH, OLDEST, OPENED, RECONCILED, TRANSITIONS};
use super::store::{GreyQueueStore, OpenEntry};
use super::table::{Command, GreyQueue, OPEN, POLICY, State};
use crate::db::DbError;
use crate::journal;
use crate::kernel::rows::{Attempts, Fence, Write};
use crate::kernel::subject::{Looked, Remedy};
use crate::kernel::{Transition, Who};
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Entries of one page.
const PAGE: i64 = 200;
/// Pages of one pass; the next pass goes on.
const PAGES: usize = 20;
/// Passes between two of the slow looks: reconciliation, subjects that are gone, old entries.
const SLOW: u64 = 60;
/// How far back a reconciliation looks at the start, and how far every hour.
const FIRST_BACK: SignedDuration = SignedDuration::from_hours(8 * 24);
const BACK: SignedDuration = SignedDuration::from_hours(26);
/// Time before a submission is emptied, from which on people are reminded.
const LAST_WEEK: Duration = Duration::from_secs(7 * 86_400);

/// The bounds of the upkeep, from `[grey_queue]`.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Time after which an entry that nobody took expires.
    pub ttl: Duration,
    /// Reasons whose remedy is tried without a person.
    pub auto: BTreeSet<String>,
    /// Attempts of a remedy.
    pub max_attempts: u32,
    /// Retention of closed entries.
    pub keep: Duration,
    /// Time between two passes.
    pub every: Duration,
}

/// The parts of the upkeep.
#[derive(Debug)]
pub struct Upkeep {
    /// The entries.
    pub store: GreyQueueStore,
    /// The rooms that own subjects.
    pub subjects: Subjects,
    /// The bounds.
    pub bounds: Bounds,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// The open incidents.
    pub incidents: Incidents,
    /// The daemon's name in records.
    pub actor: Arc<str>,
}

/// The places of the rolling looks.
#[derive(Debug, Clone, Copy)]
struct Places {
    passes: u64,
    /// Entries opened until then have been judged by the policy.
    fresh: Option<(Timestamp, Uuid)>,
    rolling: (Timestamp, Uuid),
}

/// Before every entry.
const BEGINNING: (Timestamp, Uuid) = (Timestamp::UNIX_EPOCH, Uuid::nil());

impl Upkeep {
    /// Runs until `stop`.
    pub async fn run(self, stop: &CancellationToken) {
        stop.run_until_cancelled(self.keep_up()).await;
    }

    async fn keep_up(&self) {
        let mut places = Places { passes: 0, fresh: None, rolling: BEGINNING };
        let mut said = false;
        loop {
            match self.pass(&mut places).await {
                Ok(()) => said = false,
                // The database's own incident says that it is away.
                Err(error) if !std::mem::replace(&mut said, true) => {
                    tracing::warn!("the grey queue cannot be kept up now: {}", scrub(&error.to_string()));
                }
                Err(_) => {}
            }
            self.clock.sleep(self.bounds.every).await;
        }
    }

    /// One pass, for the daemon and for tests: everything, the slow looks included.
    ///
    /// # Errors
    /// [`DbError`]: the next pass goes on.
    pub async fn once(&self) -> Result<(), DbError> {
        self.pass(&mut Places { passes: 0, fresh: None, rolling: BEGINNING }).await
    }

    async fn pass(&self, places: &mut Places) -> Result<(), DbError> {
        if !self.store.is_there().await? {
            OPEN.iter().for_each(|state| measure(*state, 0, 0.0));
            return Ok(());
        }
        let slow = places.passes.is_multiple_of(SLOW);
        let first = places.passes == 0;
        places.passes += 1;
        let (_, now) = self.store.changed_since(None, 0).await?;
        if slow {
            self.reconcile(now - if first { FIRST_BACK } else { BACK }).await?;
            self.gone().await?;
            self.near_retention().await?;
            self.prune().await?;
        }
        for _ in 0..PAGES {
            if self.store.plan_expiry(self.bounds.ttl, PAGE).await? < PAGE.unsigned_abs() {
                break;
            }
        }
        for id in self.store.spent(self.bounds.max_attempts, PAGE).await? {
            self.end(id, "the configuration allows no further attempt").await?;
        }
        self.judge(places, now).await?;
        self.measure().await
    }

    /// The policy's look at what is new, and a rolling one at the rest.
    async fn judge(&self, places: &mut Places, now: Timestamp) -> Result<(), DbError> {
        let begun = places.fresh.unwrap_or((now - SignedDuration::from_hours(1), Uuid::nil()));
        let mut fresh = begun;
        for _ in 0..PAGES {
            let page = self.store.pending(fresh, PAGE).await?;
            for entry in &page {
                fresh = (entry.opened_at, entry.id);
                self.judge_one(entry).await?;
            }
            if i64::try_from(page.len()).is_ok_and(|n| n < PAGE) {
                break;
            }
        }
        for (cause, n) in self.store.opened(begun.0, fresh.0.max(now)).await? {
            OPENED.add(Cause::parse(&cause).unwrap_or(Cause::Other), n);
        }
        // An opener's clock_timestamp is earlier than its commit; a minute covers the longest transaction of ours.
        places.fresh = Some((fresh.0.max(now), Uuid::max()));
        let page = self.store.pending(places.rolling, PAGE).await?;
        for entry in &page {
            self.judge_one(entry).await?;
        }
        let end = i64::try_from(page.len()).is_ok_and(|n| n < PAGE);
        places.rolling = page.last().filter(|_| !end).map_or(BEGINNING, |last| (last.opened_at, last.id));
        Ok(())
    }

    async fn judge_one(&self, entry: &Entry) -> Result<(), DbError> {
        let Some(room) = self.subjects.of(&entry.subject.kind) else { return Ok(()) };
        let looked = room.look(entry.subject.id).await?;
        let Some(remedy) = policy(entry, &looked, &self.bounds.auto) else { return Ok(()) };
        let transition = transition(State::Pending, Command::Start, POLICY)?;
        let write = Write::<GreyQueue> {
            attempts: Attempts::Reset,
            pause: Some(Duration::ZERO),
            reason: Some(if remedy == Remedy::Check { "mended elsewhere" } else { "policy" }.to_owned()),
            columns: Some(json!({"remedy": remedy, "requested_by": null, "remedied_at": null})),
            ..Write::plain(entry.id, Fence::Version(entry.version), transition)
        };
        self.write(write).await?;
        Ok(())
    }

    /// Ends entries whose subject retention has emptied, or has ended otherwise: nobody can decide about them any more, whoever has them.
    async fn gone(&self) -> Result<(), DbError> {
        let mut behind = Some(Uuid::nil());
        while let Some(from) = behind {
            let (open, next) = self.store.open_behind(from, 1_000).await?;
            for entry in open {
                if self.is_gone(&entry).await? {
                    let why = match entry.gone {
                        Some(_) => "retention has emptied its subject",
                        None => "its subject has ended otherwise",
                    };
                    self.end(entry.id, why).await?;
                }
            }
            behind = next;
        }
        Ok(())
    }

    /// Whether an entry's subject is gone; of another room's, only where that room decides by the entry alone.
    async fn is_gone(&self, entry: &OpenEntry) -> Result<bool, DbError> {
        if let Some(gone) = entry.gone {
            return Ok(gone);
        }
        match self.subjects.of(&entry.kind).filter(|room| room.deciding().is_some()) {
            Some(room) => Ok(room.look(entry.subject).await? == Looked::Gone),
            None => Ok(false),
        }
    }

    /// Ends an entry on the system's account, as its state allows; what a worker has ends by its next look.
    async fn end(&self, id: Uuid, why: &str) -> Result<(), DbError> {
        let ended = self
            .store
            .pool()
            .transaction("grey_queue_policy", async |tx| {
                let Some(row) = self.store.hold(&tx, &[id]).await?.pop() else { return Ok(None) };
                let (command, columns) = match row.state {
                    State::Pending => (Command::Expire, json!({})),
                    State::Retrying => (Command::GiveUp, json!({})),
                    State::UnderReview | State::Escalated => {
                        (Command::Reject, json!({"rejected_by": "system", "reject_reason": why}))
                    }
                    State::Processing
                    | State::Resolved
                    | State::Rejected
                    | State::Failed
                    | State::Expired
                    | State::Dismissed => return Ok(None),
                };
                let write = Write::<GreyQueue> {
                    reason: Some(why.to_owned()),
                    columns: Some(columns),
                    ..Write::plain(id, Fence::Locked, transition(row.state, command, Who::SYSTEM)?)
                };
                Ok(self.store.write(&tx, &self.actor, &[write]).await?.contains(&id).then_some(command))
            })
            .await?;
        if let Some(command) = ended {
            TRANSITIONS.add(command, 1);
            journal!(warn, EventName::ReviewSubjectGone, entry = %id, %command, "the entry is ended: {why}");
        }
        Ok(())
    }

    async fn write(&self, write: Write<GreyQueue>) -> Result<(), DbError> {
        let (id, command) = (write.id, write.transition.command());
        let written = self
            .store
            .pool()
            .transaction("grey_queue_policy", async |tx| {
                self.store.write(&tx, &self.actor, std::slice::from_ref(&write)).await
            })
            .await?;
        if written.contains(&id) {
            TRANSITIONS.add(command, 1);
            journal!(
                info,
                EventName::ReviewDecided,
                entry = %id,
                %command,
                actor = POLICY.label(),
                "the policy begins a remedy: {}",
                write.reason.as_deref().unwrap_or_default()
            );
        }
        Ok(())
    }

    async fn reconcile(&self, since: Timestamp) -> Result<(), DbError> {
        let opened = self.store.reconcile(since, false, 500).await?;
        if opened == 0 {
            self.incidents.resolve(card::UNOPENED);
            return Ok(());
        }
        RECONCILED.add((), opened);
        let what = format!(
            "{opened} failures had no entry in the review queue, and have one now: a trigger did not do its work"
        );
        journal!(error, EventName::ReviewReconciled, entries = opened, "{what}");
        let commands = ["maple-router check", "maple-router review list --order newest"];
        self.incidents.raise(Incident::new(card::UNOPENED, what, &commands));
        Ok(())
    }

    async fn near_retention(&self) -> Result<(), DbError> {
        match self.store.near_retention(LAST_WEEK).await? {
            None => self.incidents.resolve(card::RETENTION),
            Some((n, sample, at)) => {
                let what = format!(
                    "the submissions of {n} entries under review are emptied within a week, the first at {at}"
                );
                let command = format!("maple-router review show {sample}");
                self.incidents.raise(Incident::new(
                    card::RETENTION,
                    what,
                    &[&command, "maple-router review list --order oldest"],
                ));
            }
        }
        Ok(())
    }

    async fn prune(&self) -> Result<(), DbError> {
        for _ in 0..PAGES {
            if self.store.prune_closed(self.bounds.keep, 500).await? < 500 {
                break;
            }
        }
        Ok(())
    }

    async fn measure(&self) -> Result<(), DbError> {
        let depths = self.store.summary().await?;
        for state in OPEN {
            let of = || depths.iter().filter(|depth| depth.state == state);
            let count: i64 = of().map(|depth| depth.count).sum();
            measure(state, count.unsigned_abs(), of().map(|depth| depth.oldest_seconds).fold(0.0, f64::max));
        }
        Ok(())
    }
}

fn measure(state: State, count: u64, oldest: f64) {
    DEPTH.set(state, count);
    OLDEST.set(state, Duration::try_from_secs_f64(oldest).unwrap_or_default());
}

fn transition(from: State, command: Command, who: Who) -> Result<Transition<GreyQueue>, DbError> {
    Ok(Transition::of(from, command, who)?)
}

/// What the policy begins for a pending entry. Pure. Only what nobody has touched is mended without a person; sufficient
/// evidence is always worth a look.
fn policy(entry: &Entry, looked: &Looked, auto: &BTreeSet<String>) -> Option<Remedy> {
    if entry.cause == LATE_INFECTION {
        return None;
    }
    match looked {
        Looked::Sufficient(_) => Some(Remedy::Check),
        Looked::Gone => None,
        Looked::Missing { mendable, .. } => {
            let untouched = entry.version == i64::from(entry.occurrences);
            (untouched && *mendable && auto.contains(&entry.reason)).then(|| usual(entry))
        }
    }
}

/// The remedy that people would try first.
fn usual(entry: &Entry) -> Remedy {
    match (entry.cause.as_str(), entry.reason.as_str()) {
        ("dead_letter", _) => Remedy::Redrive,
        (_, "no_actions") => Remedy::Replan,
        _ => Remedy::Replay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grey_queue::decide::tests::entry;
    use crate::kernel::subject::Evidence;

    #[test]
    fn an_infected_file_that_was_mailed_is_left_to_people() {
        let (delivered, auto) =
            (Looked::Sufficient(Evidence::Delivered), BTreeSet::from(["infected".to_owned()]));
        let failed = entry(State::Pending, None);
        assert_eq!(policy(&failed, &delivered, &auto), Some(Remedy::Check));
        let late = Entry { cause: LATE_INFECTION.to_owned(), reason: "infected".to_owned(), ..failed };
        assert_eq!(policy(&late, &delivered, &auto), None);
        let missing = Looked::Missing { what: Vec::new(), failure: None, mendable: true };
        assert_eq!(policy(&late, &missing, &auto), None);
    }
}
