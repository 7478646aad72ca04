//! The uploads' journal. Names of files, owners and objects are not logged.

use uuid::Uuid;

use super::changes::Changes;
use super::metrics::{Outcome, UPLOADS};
use super::table::{Command, State, Upload};
use crate::db::DbError;
use crate::kernel::jobs::Observer;
use crate::kernel::rows::{Row, Woken, Write};
use crate::scrub::scrub;
use crate::web::problem::TYPE_PREFIX;
use crate::{events, journal};

events! {
    /// Events in the life of uploads.
    EventName {
        /// The API answered a request.
        UploadRequest = "upload_request" info | debug,
        /// A file is to come.
        UploadCreated = "upload_created" info,
        /// A file was proven, and kept.
        UploadCommitted = "upload_committed" info,
        /// Other bytes came than were declared.
        UploadMismatch = "upload_mismatch" warn,
        /// Somebody ended an upload.
        UploadAborted = "upload_aborted" info,
        /// Uploads were not finished in time.
        UploadExpired = "upload_expired" info,
        /// The store has lost an upload.
        UploadLost = "upload_lost" warn,
        /// A commit has to wait.
        UploadWaits = "upload_waits" warn,
        /// The scanner found something.
        UploadInfected = "upload_infected" error,
        /// The scanner cannot judge a file.
        UploadUnscannable = "upload_unscannable" error,
        /// The scanner has given a verdict that was missing.
        UploadScanned = "upload_scanned" info,
        /// The scanner does not find its test file.
        ScannerDoubted = "scanner_doubted" error,
        /// The scanner finds its test file again.
        ScannerBelieved = "scanner_believed" info,
        /// Objects of ended uploads cannot be removed.
        StagingStuck = "staging_stuck" warn,
    }
}

/// Says that the store has lost an upload.
pub(super) fn lost(id: Uuid) {
    journal!(
        warn,
        EventName::UploadLost,
        upload = %id,
        "upload {id}: the store has neither its parts nor its object; the client begins anew"
    );
}

/// Counts and logs what workers and timers do, and tells who waits for it.
#[derive(Debug)]
pub struct JournalObserver {
    /// Told of each end.
    pub changes: Changes,
}

impl Observer<Upload> for JournalObserver {
    fn claimed(&self, _: usize) {}

    fn woken(&self, woken: Woken) {
        expired(woken.lapsed);
    }

    fn settled(&self, row: &Row<Upload>, write: &Write<Upload>, ours: bool) {
        let (id, to) = (row.id, write.transition.to());
        if to.is_ended() {
            self.changes.ended(id);
        }
        if !ours {
            tracing::info!(upload = %id, "upload {id} was ended while it was read");
            return;
        }
        let text = |name: &str| write.columns.as_ref().and_then(|columns| columns.pointer(name)?.as_str());
        match (write.transition.command(), to) {
            (Command::Commit, State::Committed) => {
                let verdict = text("/found/verdict").unwrap_or("known");
                UPLOADS.add(Outcome::Committed, 1);
                journal!(
                    info,
                    EventName::UploadCommitted,
                    upload = %id,
                    form = row.columns.form_id,
                    bytes = row.columns.length,
                    verdict,
                    "upload {id} is committed: {} bytes are what was declared; scanner: {verdict}",
                    row.columns.length
                );
            }
            (Command::Commit, _) => {
                let code = text("/problem/type")
                    .and_then(|kind| kind.strip_prefix(TYPE_PREFIX))
                    .unwrap_or("mismatch");
                UPLOADS.add(Outcome::Mismatch, 1);
                journal!(
                    warn,
                    EventName::UploadMismatch,
                    upload = %id,
                    form = row.columns.form_id,
                    code,
                    "upload {id} is nothing: {code}; what came is removed, and the client is told"
                );
            }
            (Command::Abort, _) => {
                UPLOADS.add(Outcome::Aborted, 1);
                let why = write.reason.as_deref().unwrap_or("nobody came back from its commit");
                journal!(warn, EventName::UploadLost, upload = %id, "upload {id} is given up: {why}");
            }
            _ => {}
        }
    }

    fn written(&self, _: &[&Row<Upload>], refused: &[(&Row<Upload>, &DbError)]) {
        for (row, error) in refused {
            let said = scrub(&error.to_string());
            tracing::error!(upload = %row.id, "upload {}: its end cannot be written, it is done again: {said}", row.id);
        }
    }
}

/// Counts and logs sessions that were not finished in time.
pub(super) fn expired(sessions: u64) {
    if sessions == 0 {
        return;
    }
    UPLOADS.add(Outcome::Expired, sessions);
    journal!(
        info,
        EventName::UploadExpired,
        uploads = sessions,
        "{sessions} uploads were not finished in time; what was brought of them is removed"
    );
}
