//! The journal of retention. Names of objects, fields and recipients are not logged.

use crate::events;

events! {
    /// Events of retention and collection.
    EventName {
        /// A run of the collector is done.
        GcRun = "gc_run" info,
        /// A run ended early.
        GcRunFailed = "gc_run_failed" warn,
        /// A submission was erased.
        Erased = "submission_erased" warn,
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
