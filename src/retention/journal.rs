//! The journal of retention. Names of objects, fields and recipients are not logged.

use std::time::Duration;

use uuid::Uuid;

use super::store::holds::Scope;
use crate::{events, journal};

events! {
    /// Events of retention and collection.
    EventName {
        /// A run of the collector is done.
        GcRun = "gc_run" info,
        /// A run ended early.
        GcRunFailed = "gc_run_failed" warn,
        /// A submission was erased.
        SubmissionErased = "submission_erased" warn,
        /// The database refuses to empty a submission.
        PurgeRefused = "purge_refused" warn,
        /// An object was gone before it was deleted.
        ObjectMissing = "object_missing" error,
        /// Another object has the name of one that was to be deleted.
        ObjectReplaced = "object_replaced" error,
        /// Mailed links answer 404 from now on.
        LinksRevoked = "links_revoked" warn,
        /// A hold was placed.
        HoldPlaced = "hold_placed" warn,
        /// A hold was lifted.
        HoldReleased = "hold_released" warn,
        /// It was said how long submissions are kept.
        RetentionSet = "retention_set" warn,
        /// A blob was taken back.
        BlobTakenBack = "blob_taken_back" warn,
    }
}

/// A submission was erased.
pub fn erased(id: Uuid, actor: &str, reason: &str) {
    journal!(
        warn,
        EventName::SubmissionErased,
        submission_id = %id,
        actor,
        reason,
        "submission {id} was erased by {actor}: {reason}. Its files go with the next run of the collector"
    );
}

/// A blob was taken back.
pub fn taken_back(blob: Uuid, actor: &str, reason: &str) {
    journal!(warn, EventName::BlobTakenBack, blob = %blob, actor, reason, "blob {blob} was taken back by {actor}: {reason}");
}

/// A hold was placed; `thing` is what it names, in words.
pub fn hold_placed(hold: i64, scope: Scope, thing: &str, actor: &str, reason: &str) {
    let scope = scope.label();
    journal!(
        warn,
        EventName::HoldPlaced,
        hold,
        scope,
        actor,
        reason,
        "hold {hold} keeps {thing}, by {actor}: {reason}"
    );
}

/// A hold was lifted.
pub fn hold_released(hold: i64, actor: &str, reason: &str) {
    journal!(
        warn,
        EventName::HoldReleased,
        hold,
        actor,
        reason,
        "hold {hold} was lifted by {actor}: {reason}"
    );
}

/// Mailed links answer 404 from now on.
pub fn links_revoked(id: Uuid, form_id: &str, files: usize, actor: &str, reason: &str) {
    journal!(
        warn,
        EventName::LinksRevoked,
        submission_id = %id,
        form_id,
        actor,
        reason,
        files,
        "links to {files} files of submission {id} answer 404 from now on, by {actor}: {reason}"
    );
}

/// It was said how long submissions are kept, routed ones and failed ones; nothing: the rule was removed.
pub fn retention_set(form: &str, kept: Option<(Duration, Duration)>, actor: &str) {
    let whose = if form.is_empty() { "every form without a rule of its own" } else { form };
    match kept {
        Some((routed, failed)) => {
            let (routed, failed) = (humantime::format_duration(routed), humantime::format_duration(failed));
            journal!(
                warn,
                EventName::RetentionSet,
                form,
                actor,
                "{whose}: routed submissions are kept for {routed}, failed ones for {failed}, by {actor}"
            );
        }
        None => journal!(
            warn,
            EventName::RetentionSet,
            form,
            actor,
            "{whose}: the rule about how long is kept was removed by {actor}"
        ),
    }
}
