//! A run of the collector: what earlier runs owe, what has ended, the mark, the sweep.
//!
//! One run at a time, in pages, each page a transaction; no transaction is open while the store is asked. Intent, effect, fact: a blob's
//! state is deleted first, then its object, then the answer is recorded with a receipt. If we die in between, the next run asks the
//! store again, by the same generation. A run that lost its place to another changes nothing any more: the schema asks for its lease.
//! One object that cannot be deleted, or one row that cannot be emptied, stops nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::counts::Counts;
use super::decide;
use super::journal::EventName;
use super::objects::{deletions, generations};
use super::recall::Recaller;
use super::store::runs::{Begun, Ours, Run, RunState};
use super::store::submissions::Authority;
use super::store::swept::Gone;
use super::store::{Place, RetentionStore};
use super::table::State;
use crate::db::DbError;
use crate::db::batch::divided;
use crate::gateway::objects::store::{ObjectStore, StoreError};
use crate::journal;
use crate::kernel::rows::{Fence, Write};
use crate::ops::rng::Rng;
use crate::scrub::scrub;

/// Rows of a page.
const PAGE: usize = 500;
/// Versions, or references, that end in one transaction.
const FEW: i32 = 100;
/// Lease of a run, extended with each page. A page of objects that each take the longest time takes longer: then another run may take
/// the place, and pays what this one owes.
const LEASE: Duration = Duration::from_secs(300);

/// The collector. Cheap to clone.
#[derive(Clone)]
pub struct Collector {
    /// The rows, as the collector's role.
    pub store: RetentionStore,
    /// The objects, as the collector's account.
    pub objects: Arc<ObjectStore>,
    /// Names runs.
    pub rng: Arc<Rng>,
    /// Whoever runs it.
    pub actor: String,
    /// How long a blob can be taken back.
    pub grace: Duration,
    /// Told after each page.
    pub progress: Arc<dyn Fn(&Counts) + Send + Sync>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It came to its end; its number, and what it did.
    Done(i64, Counts),
    /// It was asked to stop, and left the rest to the next.
    Stopped(i64, Counts),
    /// Another is at work.
    Busy(Box<Run>),
}

/// Why a run failed. The next one goes on.
#[derive(Debug, Error)]
pub enum RunError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The store did nothing that was asked of a whole page, and will not do the next: it is away, or our account may not.
    #[error("{0}")]
    Store(StoreError),
    /// Another run has taken its place.
    #[error("its lease ran out, and another run has taken its place")]
    Lost,
}

/// The stop between two pages.
enum Cut {
    Stopped,
    Failed(RunError),
}

impl<E: Into<RunError>> From<E> for Cut {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A run under way.
struct Course<'a> {
    of: &'a Collector,
    ours: Ours,
    state: RunState,
    counts: Counts,
    /// How long each bucket keeps what is deleted.
    soft_delete: BTreeMap<String, Duration>,
    stop: &'a CancellationToken,
}

impl Collector {
    /// Runs once, until it is done or `stop`.
    ///
    /// # Errors
    /// [`RunError`]; what was done by then stands, and the run's row says why it failed where the database can be asked.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Ended, RunError> {
        let token = self.rng.uuid();
        let (ours, over) = match self.store.begin(&self.actor, token, LEASE, self.grace).await? {
            Begun::Ours(ours, over) => (ours, over),
            Begun::Busy(run) => return Ok(Ended::Busy(run)),
        };
        if let Some(over) = over {
            tracing::warn!(
                "run {over} of the collector was left open, and its lease ran out: this one goes on"
            );
        }
        let state = RunState::Marking;
        let mut course =
            Course { of: self, ours, state, counts: Counts::default(), soft_delete: BTreeMap::new(), stop };
        let ended = course.run().await;
        let counts = course.counts;
        let (state, trouble, result) = match ended {
            Ok(()) => (RunState::Done, None, Ok(Ended::Done(ours.id, counts.clone()))),
            // A host that goes down stops its run: nobody has to be woken for that.
            Err(Cut::Stopped) => (RunState::Stopped, None, Ok(Ended::Stopped(ours.id, counts.clone()))),
            Err(Cut::Failed(error)) => (RunState::Failed, Some(scrub(&error.to_string())), Err(error)),
        };
        // Where the database is the trouble, the lease says so.
        if let Err(error) = self.store.end_run(ours, state, &counts.document(), trouble.as_deref()).await {
            tracing::warn!("run {}: its end is not recorded: {}", ours.id, scrub(&error.to_string()));
        }
        told(ours.id, state, &counts, trouble.as_deref());
        result
    }
}

impl Course<'_> {
    async fn run(&mut self) -> Result<(), Cut> {
        self.settle_debts().await?;
        self.left_overs().await?;
        self.recalls().await?;
        self.forget().await?;
        for own in [true, false] {
            self.purge(own).await?;
        }
        self.release().await?;
        self.mark_left().await?;
        self.mark_due().await?;
        self.state = RunState::Sweeping;
        self.turn().await?;
        self.sweep().await
    }

    /// Between two pages: whether the place is still ours, and whether somebody asked to stop.
    async fn turn(&mut self) -> Result<(), Cut> {
        (self.of.progress)(&self.counts);
        if self.stop.is_cancelled() {
            return Err(Cut::Stopped);
        }
        let counts = self.counts.document();
        if self.of.store.extend_run(self.ours, LEASE, self.state, &counts).await? {
            return Ok(());
        }
        Err(RunError::Lost.into())
    }

    /// Objects of blobs that earlier runs have deleted.
    async fn settle_debts(&mut self) -> Result<(), Cut> {
        let mut behind = Uuid::nil();
        loop {
            let owed = self.of.store.owed(behind, PAGE).await?;
            let Some(last) = owed.last() else { return Ok(()) };
            behind = *last;
            self.delete(&owed).await?;
            self.turn().await?;
        }
    }

    /// Final objects of uploads that became no blob: the daemon may delete nothing in their bucket.
    async fn left_overs(&mut self) -> Result<(), Cut> {
        let mut behind = String::new();
        loop {
            let mut page = self.of.store.left_over(&behind, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            behind.clone_from(&last.object);
            let (mut seen, mut failed) = (BTreeMap::new(), None);
            for (upload, said) in generations(&self.of.objects, page.clone()).await {
                match said {
                    Ok(generation) => drop(seen.insert(upload, generation)),
                    Err(error) => failed = self.left(upload, error),
                }
            }
            page.retain_mut(|object| {
                object.generation = seen.get(&object.blob).copied();
                object.generation.is_some()
            });
            let mut gone = BTreeSet::new();
            for (upload, said) in deletions(&self.of.objects, page.clone()).await {
                match said {
                    // Another object of that name is none of the upload's.
                    Ok(Gone::Deleted | Gone::Missing | Gone::Replaced) => drop(gone.insert(upload)),
                    Err(error) => failed = self.left(upload, error),
                }
            }
            page.retain(|object| gone.contains(&object.blob));
            self.of.store.left_over_gone(&page).await?;
            self.counts.left_over += page.len() as u64;
            unless_away(failed, page.is_empty())?;
            self.turn().await?;
        }
    }

    /// Says that the final object of an upload that came to nothing is still there.
    fn left(&mut self, upload: Uuid, error: StoreError) -> Option<StoreError> {
        self.counts.failed += 1;
        tracing::warn!(
            "the object that upload {upload} left behind is not deleted: {error}; it is tried again by the next run"
        );
        Some(error)
    }

    async fn recalls(&mut self) -> Result<(), Cut> {
        let recaller = Recaller { store: self.of.store.clone(), objects: Arc::clone(&self.of.objects) };
        for recall in self.of.store.open_recalls(PAGE).await? {
            let id = recall.id;
            match recaller.carry_out(recall).await {
                Ok(_) => self.counts.recalled += 1,
                Err(error) => {
                    tracing::warn!(
                        "recall {id} is not done: {}; it is tried again by the next run",
                        scrub(&error.to_string())
                    );
                }
            }
            self.turn().await?;
        }
        Ok(())
    }

    async fn forget(&mut self) -> Result<(), Cut> {
        loop {
            let n = self.of.store.forget_versions(FEW, &self.of.actor).await?;
            self.counts.forgotten += n;
            if n == 0 {
                return Ok(());
            }
            self.turn().await?;
        }
    }

    async fn release(&mut self) -> Result<(), Cut> {
        loop {
            let n = self.of.store.release_kept(FEW).await?;
            self.counts.released += n;
            if n == 0 {
                return Ok(());
            }
            self.turn().await?;
        }
    }

    /// Empties submissions whose time has come: by an end of their `own`, or by their form's.
    async fn purge(&mut self, own: bool) -> Result<(), Cut> {
        let mut behind = Some(Place::start());
        while let Some(place) = behind {
            let page = self.of.store.due(own, &place, PAGE).await?;
            behind = page.next;
            let (store, actor, run) = (&self.of.store, &self.of.actor, self.ours.id);
            let purge = |part: Vec<Uuid>| async move {
                store.purge(&part, Authority::Retention, actor, Some(run)).await
            };
            let batch = divided(&page.ids, purge).await;
            for purged in batch.done.into_iter().flatten() {
                match purged.why {
                    None => self.counts.purged += 1,
                    // Its form keeps it longer than another does.
                    Some(why) if why == "not_yet" || why == "no_end" => {}
                    Some(why) => *self.counts.kept.entry(why).or_default() += 1,
                }
            }
            for refused in batch.refused {
                self.counts.refused += 1;
                let (id, named) = (refused.id, refused.error.named());
                journal!(
                    warn,
                    EventName::PurgeRefused,
                    submission_id = %id,
                    run,
                    "submission {id} cannot be emptied, the database refuses it: {named}. The others are; it stays, and is tried by the next run"
                );
            }
            if let Some(error) = batch.fault {
                return Err(error.into());
            }
            self.turn().await?;
        }
        Ok(())
    }

    /// Marks anew, or lets live, what an earlier run marked and did not sweep.
    async fn mark_left(&mut self) -> Result<(), Cut> {
        let mut behind = Uuid::nil();
        loop {
            let page = self.of.store.eligible(self.ours.id, false, behind, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            behind = *last;
            self.mark(&page).await?;
            self.turn().await?;
        }
    }

    /// Marks what has lost its last reference, and whose deadline has passed.
    async fn mark_due(&mut self) -> Result<(), Cut> {
        let mut behind = Some(Place::start());
        while let Some(place) = behind {
            let page = self.of.store.tombstoned(&place, PAGE).await?;
            behind = page.next;
            self.mark(&page.ids).await?;
            self.turn().await?;
        }
        Ok(())
    }

    async fn mark(&mut self, ids: &[Uuid]) -> Result<(), Cut> {
        // What came another way than by an upload has no generation yet.
        let unread = self.of.store.unread(ids).await?;
        let (mut generation, mut unreadable, mut failed) = (BTreeMap::new(), BTreeSet::new(), None);
        for (blob, said) in generations(&self.of.objects, unread).await {
            match said {
                Ok(seen) => {
                    generation.insert(blob, seen);
                }
                // What cannot be looked at is not marked, and so not swept: it stops nobody else.
                Err(error) => {
                    tracing::warn!(
                        "the object of blob {blob} cannot be looked at: {error}; it stays, and the next run looks again"
                    );
                    unreadable.insert(blob);
                    failed = Some(error);
                }
            }
        }
        self.counts.unreadable += unreadable.len() as u64;
        unless_away(failed, generation.is_empty())?;
        let (store, run, actor) = (&self.of.store, self.ours.id, &self.of.actor);
        let (generation, unreadable) = (&generation, &unreadable);
        let marked = store
            .pool()
            .keyed_transaction("gc_mark", async |tx| {
                let mut writes = Vec::new();
                for (row, known) in store.known(&tx, ids).await? {
                    let Some(transition) = decide::mark(known, run)? else { continue };
                    if unreadable.contains(&row.id) && transition.to() == State::Eligible {
                        continue;
                    }
                    let mut columns = serde_json::json!({"marked_run": run});
                    // A recall that ended meanwhile has written that of another name.
                    if let (Some(seen), None) = (generation.get(&row.id), row.columns.generation) {
                        columns["generation"] = (*seen).into();
                    }
                    let columns = (transition.to() == State::Eligible).then_some(columns);
                    writes.push(Write { columns, ..Write::plain(row.id, Fence::Locked, transition) });
                }
                let revived = writes.iter().filter(|write| write.transition.to() == State::Live).count();
                Ok((store.write(&tx, actor, &writes).await?.len(), revived))
            })
            .await?;
        let (written, revived) = marked;
        self.counts.revived += revived as u64;
        self.counts.marked += written.saturating_sub(revived) as u64;
        Ok(())
    }

    async fn sweep(&mut self) -> Result<(), Cut> {
        let mut behind = Uuid::nil();
        loop {
            let page = self.of.store.eligible(self.ours.id, true, behind, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            behind = *last;
            let (store, run, actor) = (&self.of.store, self.ours.id, &self.of.actor);
            let swept = store
                .pool()
                .keyed_transaction("gc_sweep", async |tx| {
                    let mut writes = Vec::new();
                    for (row, known) in store.known(&tx, &page).await? {
                        if let Some(transition) = decide::sweep(known, run)? {
                            writes.push(Write::plain(row.id, Fence::Locked, transition));
                        }
                    }
                    store.write(&tx, actor, &writes).await
                })
                .await?;
            self.counts.swept += swept.len() as u64;
            let swept: Vec<Uuid> = swept.into_iter().collect();
            self.delete(&swept).await?;
            self.turn().await?;
        }
    }

    /// Deletes objects, and records what the store said.
    async fn delete(&mut self, blobs: &[Uuid]) -> Result<(), Cut> {
        let objects = self.of.store.ask(blobs).await?;
        let mut restorable = BTreeMap::new();
        for object in &objects {
            restorable.insert(object.blob, self.soft_delete(&object.bucket).await);
        }
        let (mut gone, mut failed) = (Vec::with_capacity(objects.len()), None);
        for (blob, said) in deletions(&self.of.objects, objects).await {
            match said {
                Ok(how) => gone.push((blob, how, restorable.get(&blob).copied().unwrap_or_default())),
                Err(error) => {
                    self.counts.failed += 1;
                    tracing::warn!(
                        "the object of blob {blob} is not deleted: {error}; it is tried again by the next run"
                    );
                    failed = Some(error);
                }
            }
        }
        let recorded = self.of.store.record_gone(&gone, self.ours.id).await?;
        for (blob, how) in recorded {
            let run = self.ours.id;
            match how {
                Gone::Deleted => self.counts.deleted += 1,
                Gone::Missing => {
                    self.counts.missing += 1;
                    journal!(error, EventName::ObjectMissing, blob = %blob, run,
                        "the object of blob {blob} was gone before run {run} deleted it: somebody else removes objects (rb-013)");
                }
                Gone::Replaced => {
                    self.counts.replaced += 1;
                    journal!(error, EventName::ObjectReplaced, blob = %blob, run,
                        "another object has the name of blob {blob}: run {run} leaves it alone (rb-013)");
                }
            }
        }
        unless_away(failed, gone.is_empty())
    }

    /// How long a bucket keeps what is deleted; asked once. A receipt without it says less, and is written all the same.
    async fn soft_delete(&mut self, bucket: &str) -> Duration {
        if let Some(known) = self.soft_delete.get(bucket) {
            return *known;
        }
        let facts = self.of.objects.bucket(bucket).await;
        let found = facts.map(|facts| facts.soft_delete).unwrap_or_default();
        self.soft_delete.insert(bucket.to_owned(), found);
        found
    }
}

/// Ends the run where the store did `nothing` of a page and will do nothing of the next. One object that it refuses stops nobody.
fn unless_away(failed: Option<StoreError>, nothing: bool) -> Result<(), Cut> {
    match failed {
        Some(error) if nothing && (error.is_about_us() || matches!(error, StoreError::Away { .. })) => {
            Err(RunError::Store(error).into())
        }
        _ => Ok(()),
    }
}

fn told(run: i64, state: RunState, counts: &Counts, trouble: Option<&str>) {
    let words = counts.words();
    match trouble {
        None => journal!(
            info,
            EventName::GcRun,
            run,
            purged = counts.purged,
            deleted = counts.deleted,
            "run {run} of the collector is {state}: {words}"
        ),
        Some(trouble) => journal!(
            warn,
            EventName::GcRunFailed,
            run,
            purged = counts.purged,
            deleted = counts.deleted,
            "run {run} of the collector has ended early: {trouble}. Until then: {words}. The next run goes on from here"
        ),
    }
}
