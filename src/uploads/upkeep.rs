//! What time brings to uploads: sessions expire, objects of ended ones are removed, verdicts that are missing are asked for,
//! references that nobody attached end. Each process runs one; every step takes pages and skips what is locked.
//!
//! An object is removed in two steps, and its row goes last: the multipart upload is given up, so that no part and no assembly that
//! comes late makes the object again; then the object is deleted. If we die in between, the row is due again. Final objects that
//! became no blob are the collector's: the daemon may delete nothing in that bucket.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::card::{STUCK, UNSCANNABLE as CANNOT_BE_JUDGED, UNSCANNED as WITHOUT_VERDICT};
use super::journal::{self, EventName};
use super::metrics::{SESSIONS, STAGING_DUE, UNSCANNABLE, UNSCANNED, UNSCANNED_OLDEST};
use super::reading::read;
use super::scanner::Scanner;
use super::store::{Staged, Standing, ToScan, UploadStore, Verdict};
use super::trouble::StoreTrouble;
use crate::db::DbError;
use crate::gateway::objects::store::{ObjectName, ObjectStore, StoreError, UploadId};
use crate::journal;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time between two passes.
const EVERY: Duration = Duration::from_secs(5);
/// Rows of one page, and pages of one pass.
const PAGE: usize = 1000;
const PAGES: usize = 50;
/// Objects removed in one page, and at once.
const REMOVED: usize = 256;
const AT_ONCE: usize = 32;
/// Shortest and longest pause before a scan that brought no verdict is repeated.
const SCANS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// Time for which whoever scans a blob has it.
const SCAN_LEASE: Duration = Duration::from_secs(1800);
/// Age of a missing verdict from which people are notified.
const UNSCANNED_AFTER: Duration = Duration::from_secs(3600);
/// Attempts to remove an object, after which people are notified.
const STUCK_AFTER: u32 = 4;

/// The parts of the upkeep.
#[derive(Debug)]
pub struct Upkeep {
    /// The sessions.
    pub store: UploadStore,
    /// The object store.
    pub objects: Arc<ObjectStore>,
    /// The scanner.
    pub scanner: Scanner,
    /// Who is notified of the store.
    pub trouble: StoreTrouble,
    /// Bucket of what is being brought.
    pub staging_bucket: String,
    /// Blobs scanned at once.
    pub slots: usize,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// The open incidents.
    pub incidents: Incidents,
}

impl Upkeep {
    /// Runs until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        stop.run_until_cancelled(async {
            let mut said = false;
            loop {
                match self.pass().await {
                    Ok(()) => said = false,
                    // The database's own incident says that it is away.
                    Err(error) if !std::mem::replace(&mut said, true) => {
                        tracing::warn!("uploads cannot be kept up now: {}", scrub(&error.to_string()));
                    }
                    Err(_) => {}
                }
                self.clock.sleep(EVERY).await;
            }
        })
        .await;
    }

    /// One pass.
    ///
    /// # Errors
    /// [`DbError`]: the next pass goes on.
    pub async fn pass(&self) -> Result<(), DbError> {
        self.expire().await?;
        self.remove().await?;
        for _ in 0..PAGES {
            if self.store.end_unattached(PAGE).await? < PAGE as u64 {
                break;
            }
        }
        self.look().await
    }

    async fn expire(&self) -> Result<(), DbError> {
        for _ in 0..PAGES {
            let woken = self.store.wake(PAGE).await?;
            journal::expired(woken.lapsed);
            if woken.lapsed < PAGE as u64 {
                break;
            }
        }
        Ok(())
    }

    /// Removes objects of ended sessions.
    async fn remove(&self) -> Result<(), DbError> {
        for _ in 0..PAGES {
            let taken = self.store.take_staging(REMOVED, &self.staging_bucket).await?;
            let full = taken.len() == REMOVED;
            let removals =
                futures::stream::iter(taken).map(|staged| self.removed(staged)).buffer_unordered(AT_ONCE);
            let results: Vec<Result<String, Stuck>> = removals.collect().await;
            let (mut gone, mut failed) = (Vec::new(), 0);
            for result in results {
                match result {
                    Ok(object) => gone.push(object),
                    Err(stuck) => {
                        failed += 1;
                        self.stuck(&stuck);
                    }
                }
            }
            self.store.staging_gone(&self.staging_bucket, &gone).await?;
            if !gone.is_empty() {
                self.trouble.over();
                if failed == 0 {
                    self.incidents.resolve(STUCK);
                }
            }
            if !full || failed > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Removes one object. What never had a multipart upload never had a byte.
    async fn removed(&self, staged: Staged) -> Result<String, Stuck> {
        let Some(upload) = staged.store_upload_id.clone() else { return Ok(staged.object) };
        let removed = async {
            let name = ObjectName::new(&staged.bucket, &staged.object)?;
            self.objects.abort(&name, &UploadId::new(upload)).await?;
            self.objects.delete(&name, None).await
        };
        match removed.await {
            // Whoever may not list the bucket is told the second of what is missing; the right to delete is held.
            Ok(_) | Err(StoreError::MissingOrForbidden { .. }) => Ok(staged.object),
            Err(error) => Err(Stuck { staged, error }),
        }
    }

    fn stuck(&self, stuck: &Stuck) {
        let Stuck { staged, error } = stuck;
        self.trouble.seen(error, staged.upload_id);
        if staged.attempts < STUCK_AFTER {
            return;
        }
        let id = staged.upload_id;
        let what =
            format!("What was brought by ended uploads cannot be removed: {error}. One of them: {id}.");
        journal!(warn, EventName::StagingStuck, upload = %id, attempts = staged.attempts, "{what}");
        self.incidents.raise(Incident::new(STUCK, what, &["sudo maple-router check"]));
    }

    /// Scans blobs that are due, until `stop`. Beside the pass, since a scan may take minutes.
    pub async fn scan(&self, stop: &CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                let scanned = self.scan_once().await.unwrap_or_else(|error| {
                    tracing::warn!("files cannot be scanned now: {}", scrub(&error.to_string()));
                    0
                });
                if scanned < self.slots {
                    self.clock.sleep(EVERY).await;
                }
            }
        })
        .await;
    }

    /// Scans a page of blobs that are due. Returns how many there were.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn scan_once(&self) -> Result<usize, DbError> {
        if self.scanner.trusted().is_none() {
            return Ok(0);
        }
        let taken = self.store.take_unscanned(self.slots, SCAN_LEASE).await?;
        let looks = futures::future::join_all(taken.iter().map(|blob| self.scan_one(blob))).await;
        looks.into_iter().collect::<Result<Vec<()>, DbError>>()?;
        Ok(taken.len())
    }

    async fn scan_one(&self, blob: &ToScan) -> Result<(), DbError> {
        let about = (blob.length, "application/octet-stream");
        let pause =
            SCANS.0.saturating_mul(2_u32.saturating_pow(blob.attempts.saturating_sub(1))).min(SCANS.1);
        let looked = async {
            let name = ObjectName::new(&blob.bucket, &blob.object)?;
            read(&self.objects, &self.scanner, &name, blob.generation, about).await
        };
        let (found, said) = match looked.await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(blob = %blob.id, "blob {} cannot be read for its scan: {error}; it is tried again", blob.id);
                self.trouble.seen(&error, blob.id);
                return self.store.scan_later(blob.id, pause).await;
            }
        };
        self.trouble.over();
        // What was read is what was proven, or the verdict is about something else.
        if found.sha256 != blob.sha256 || said.verdict == Verdict::Unscanned {
            return self.store.scan_later(blob.id, pause).await;
        }
        let (signature, scanner) = (said.signature.as_deref(), said.scanner.as_deref());
        let told = self.store.record_verdict(blob.id, said.verdict, signature, scanner).await?;
        let (id, verdict, named) = (blob.id, said.verdict, signature.unwrap_or_default());
        match verdict {
            Verdict::Infected => journal!(
                error,
                EventName::UploadInfected,
                blob = %id,
                attachments = told,
                signature = named,
                "blob {id} is infected ({named}): {told} attachments are told, and their submissions fail or are reported (rb-008)"
            ),
            Verdict::Unscannable => journal!(
                error,
                EventName::UploadUnscannable,
                blob = %id,
                signature = named,
                "blob {id} cannot be judged by the scanner ({named}): its submissions wait (rb-011)"
            ),
            Verdict::Clean | Verdict::Unscanned => journal!(
                info,
                EventName::UploadScanned,
                blob = %id,
                attachments = told,
                "blob {id} is {verdict}: {told} attachments are told"
            ),
        }
        Ok(())
    }

    /// What waits, for metrics, and for people where it waits too long.
    async fn look(&self) -> Result<(), DbError> {
        for depth in self.store.depths().await? {
            SESSIONS.set(depth.state, depth.count);
        }
        let standing = self.store.standing().await?;
        STAGING_DUE.set((), standing.staging_due);
        UNSCANNED.set((), standing.unscanned);
        UNSCANNED_OLDEST.set((), standing.unscanned_oldest);
        UNSCANNABLE.set((), standing.unscannable);
        self.tell(&standing);
        Ok(())
    }

    fn tell(&self, standing: &Standing) {
        match standing.unscanned_sample {
            Some(sample) if standing.unscanned_oldest >= UNSCANNED_AFTER => {
                let what = format!(
                    "{} committed files have no verdict, the oldest for {}; their submissions wait. One of them: blob {sample}.",
                    standing.unscanned,
                    humantime::format_duration(Duration::from_secs(standing.unscanned_oldest.as_secs()))
                );
                let commands = ["sudo maple-router scan --self-test", "sudo maple-router check"];
                self.incidents.raise(Incident::new(WITHOUT_VERDICT, what, &commands));
            }
            _ => self.incidents.resolve(WITHOUT_VERDICT),
        }
        match standing.unscannable_sample {
            Some(sample) => {
                let what = format!(
                    "{} committed files cannot be judged by the scanner; their submissions wait until somebody decides. The latest: \
                     blob {sample}.",
                    standing.unscannable
                );
                let commands = ["sudo maple-router uploads list --ended"];
                self.incidents.raise(Incident::new(CANNOT_BE_JUDGED, what, &commands));
            }
            None => self.incidents.resolve(CANNOT_BE_JUDGED),
        }
    }
}

/// An object that was not removed.
struct Stuck {
    staged: Staged,
    error: StoreError,
}
