//! The commit: the parts become an object, which is read once, compared with what was declared, scanned, and kept under its final
//! name; the transaction that commits makes the blob and its reference.
//!
//! Every step may be repeated, and is, from the beginning: whoever dies in the middle leaves the row, whose lease runs out.
//! - Assembled before: the store knows no such multipart upload, and the object decides.
//! - Kept before: the final name is taken, and the object there must have the same CRC-32C and length.
//! - The final object's row stands before the object, and only while the lease is ours; what comes to nothing is removed by it.
//!
//! A store that is away costs time alone: the session ends when its own time is up. A scanner that is away costs the verdict.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::decide::{Found, proven};
use super::journal::EventName;
use super::metrics::VERIFY_SECONDS;
use super::problem::Problem;
use super::reading::{Said, read};
use super::scanner::Scanner;
use super::session::Session;
use super::store::{UploadStore, Verdict};
use super::table::{Command, State, Upload};
use super::trouble::StoreTrouble;
use crate::db::DbError;
use crate::gateway::objects::store::{ObjectName, ObjectStore, Stat, StoreError, UploadId};
use crate::journal;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Pause after a fault of the database.
const REST: Duration = Duration::from_secs(5);

/// The work of a session whose parts are all there.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The sessions.
    pub store: UploadStore,
    /// The object store.
    pub objects: Arc<ObjectStore>,
    /// The scanner.
    pub scanner: Scanner,
    /// Who is notified of a store that does not do what it is asked.
    pub trouble: StoreTrouble,
    /// Bucket of what is being brought.
    pub staging_bucket: String,
    /// Bucket of what was proven.
    pub bucket: String,
    /// The clock of durations.
    pub clock: Arc<dyn Clock>,
}

/// Why a commit has to wait.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Database(#[from] DbError),
    #[error("the bytes came other than the store says they are")]
    Damaged,
    #[error("another object has the final name")]
    Taken,
}

impl Work for Commit {
    type Of = Upload;

    fn run<'a>(&'a self, row: &'a Row<Upload>) -> BoxFuture<'a, Ending<Upload>> {
        async move {
            let began = self.clock.monotonic();
            let ended = self.prove(row).await;
            VERIFY_SECONDS.record((), self.clock.monotonic().saturating_duration_since(began));
            match ended {
                Ok(ending) => {
                    self.trouble.over();
                    ending
                }
                Err(stopped) => self.waits(row, &stopped),
            }
        }
        .boxed()
    }
}

impl Commit {
    async fn prove(&self, row: &Row<Upload>) -> Result<Ending<Upload>, Stopped> {
        let session = &row.columns;
        let staged =
            ObjectName::new(&self.staging_bucket, Session::staging_object(row.id, session.planned_blob))?;
        let there = match self.assembled(row, &staged).await? {
            Ok(there) => there,
            Err(problem) => return Ok(nothing(&problem)),
        };
        if there.length != session.length {
            // Not read: it is not what was declared, whatever it is.
            let found = Found { length: there.length, ..Found::default() };
            return Ok(proven(session, &found).map_or_else(|problem| nothing(&problem), |()| Ending::AtOnce));
        }
        let about = (session.length, session.content_type.as_str());
        let (found, said) = read(&self.objects, &self.scanner, &staged, there.generation, about).await?;
        if found.length != there.length || found.crc32c != there.crc32c {
            return Err(Stopped::Damaged);
        }
        if let Err(problem) = proven(session, &found) {
            return Ok(nothing(&problem));
        }
        self.notable(row, &said);
        if let Some((blob, verdict)) = self.store.equal(session).await? {
            let new =
                verdict != Verdict::Infected && said.verdict != Verdict::Unscanned && said.verdict != verdict;
            if new && (verdict == Verdict::Unscanned || said.verdict == Verdict::Infected) {
                let (signature, scanner) = (said.signature.as_deref(), said.scanner.as_deref());
                self.store.record_verdict(blob, said.verdict, signature, scanner).await?;
            }
            return Ok(committed(json!({"blob_id": blob})));
        }
        let Some(kept) = self.keep(row, &staged, &there).await? else {
            return Ok(Ending::AtOnce);
        };
        let found = json!({
            "sha256": found.sha256, "length": found.length, "crc32c": found.crc32c, "generation": kept.generation,
            "shown_type": found.shown_type, "verdict": said.verdict.label(), "signature": said.signature, "scanner": said.scanner,
        });
        Ok(committed(json!({"found": found})))
    }

    /// The object of the parts, or why there is none and never will be.
    async fn assembled(
        &self,
        row: &Row<Upload>,
        staged: &ObjectName,
    ) -> Result<Result<Stat, Problem>, Stopped> {
        let session = &row.columns;
        let (Some(upload), Some(parts)) = (session.store_upload_id.clone(), intent(session.etags.as_ref()))
        else {
            return Ok(Err(Problem::lost()));
        };
        match self.objects.complete(staged, &UploadId::new(upload), &parts).await {
            // Assembled before, by whoever had the row then: the object decides.
            Ok(()) | Err(StoreError::Gone) => match self.objects.stat(staged).await {
                Ok(there) => Ok(there.ok_or_else(Problem::lost)),
                // Whoever may not list the bucket is told this of what is missing; the right to read is held.
                Err(StoreError::MissingOrForbidden { .. }) => Ok(Err(Problem::lost())),
                Err(error) => Err(error.into()),
            },
            // A part was sent again after it was listed, and has another ETag.
            Err(StoreError::Invalid { .. }) => Ok(Err(Problem::parts_changed())),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the object its final name; `None` where the lease is another's.
    async fn keep(
        &self,
        row: &Row<Upload>,
        staged: &ObjectName,
        there: &Stat,
    ) -> Result<Option<Stat>, Stopped> {
        let name = ObjectName::new(&self.bucket, row.columns.blob_object())?;
        let Some(token) = row.token else { return Ok(None) };
        if !self.store.plan(row.id, token, name.bucket(), name.object()).await? {
            return Ok(None);
        }
        match self.objects.rewrite(staged, there.generation, &name).await {
            Ok(kept) => Ok(Some(kept)),
            Err(StoreError::Exists) => match self.objects.stat(&name).await? {
                // An answer was lost, or somebody else had the row.
                Some(kept) if kept.crc32c == there.crc32c && kept.length == there.length => Ok(Some(kept)),
                Some(_) => Err(Stopped::Taken),
                None => Err(Stopped::Store(StoreError::Exists)),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Says what the scanner found: an error's line, since somebody brought it.
    fn notable(&self, row: &Row<Upload>, said: &Said) {
        let (id, form) = (row.id, row.columns.form_id.as_str());
        let named = said.signature.as_deref().unwrap_or_default();
        match said.verdict {
            Verdict::Infected => journal!(
                error,
                EventName::UploadInfected,
                upload = %id,
                form,
                signature = named,
                "upload {id} is infected ({named}): it is kept as evidence, and its submission will fail (rb-008)"
            ),
            Verdict::Unscannable => journal!(
                error,
                EventName::UploadUnscannable,
                upload = %id,
                form,
                signature = named,
                "upload {id} cannot be judged by the scanner ({named}): its submission waits (rb-011)"
            ),
            Verdict::Clean | Verdict::Unscanned => {}
        }
    }

    /// Says that a commit has to wait, and for what.
    fn waits(&self, row: &Row<Upload>, stopped: &Stopped) -> Ending<Upload> {
        let why = scrub(&stopped.to_string());
        journal!(
            warn,
            EventName::UploadWaits,
            upload = %row.id,
            claims = row.claims,
            "upload {}: its commit has to wait: {why}; it is tried again",
            row.id
        );
        match stopped {
            Stopped::Database(_) => Ending::After(REST),
            Stopped::Store(error) => {
                self.trouble.seen(error, row.id);
                Ending::Again
            }
            Stopped::Damaged => {
                self.trouble.seen(&StoreError::Changed, row.id);
                Ending::Again
            }
            Stopped::Taken => {
                self.trouble.seen(&StoreError::Exists, row.id);
                Ending::Again
            }
        }
    }
}

fn committed(columns: Value) -> Ending<Upload> {
    Ending::Done { command: Command::Commit, to: Some(State::Committed), columns: Some(columns) }
}

fn nothing(problem: &Problem) -> Ending<Upload> {
    let columns = Some(json!({"problem": problem.json()}));
    Ending::Done { command: Command::Commit, to: Some(State::Aborted), columns }
}

/// The parts as they were written down before the store was asked to assemble them.
fn intent(etags: Option<&Value>) -> Option<Vec<(u32, String)>> {
    let pair = |pair: &Value| {
        let number = u32::try_from(pair.get(0)?.as_u64()?).ok()?;
        Some((number, pair.get(1)?.as_str()?.to_owned()))
    };
    etags?.as_array()?.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intent_is_read_as_it_was_written() {
        let written = json!([[1, "\"a\""], [2, "\"b\""]]);
        let expected = vec![(1, "\"a\"".to_owned()), (2, "\"b\"".to_owned())];
        assert_eq!(intent(Some(&written)), Some(expected));
        for odd in [json!({}), json!([[0]]), json!([["1", "a"]]), json!([[1, 2]])] {
            assert_eq!(intent(Some(&odd)), None, "{odd}");
        }
        assert_eq!(intent(None), None);
    }
}
