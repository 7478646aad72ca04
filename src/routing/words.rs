//! Routing's values of the journal field `EVENT`.

use crate::events;

events! {
    /// Events of submissions and of their mails.
    EventName {
        /// An event came in.
        Received = "received" debug,
        /// A submission was claimed.
        Claimed = "claimed" info,
        /// An event needed no work: submission finished, claimed elsewhere, or not ready.
        Dropped = "dropped" info,
        /// An event waits here until its submission is due.
        Held = "held" debug,
        /// An event was given back.
        Nacked = "nacked" error | warn | debug,
        /// An event could not be parsed.
        Poison = "poison" warn,
        /// The write-ahead intent of an action was committed.
        Begun = "begun" debug,
        /// The relay accepted a delivery.
        ActionAccepted = "action_accepted" info,
        /// A delivery was refused for good.
        ActionRefused = "action_refused" warn,
        /// A mail shows a gap: its template prints a field that the submission does not have.
        Gap = "gap" warn,
        /// A mail has no `Reply-To`, although fields for it are configured.
        NoReplyTo = "no_reply_to" info,
        /// An attachment that was to travel inside is linked.
        NotInside = "not_inside" info,
        /// An attachment is not in the store as it was received, and was only named.
        FileMissing = "file_missing" warn,
        /// A delivery waits for another attempt.
        ActionDeferred = "action_deferred" warn,
        /// The relay's acceptance of a delivery is unknown.
        ActionUnknown = "action_unknown" warn,
        /// An action whose client does not exist yet.
        NotImplemented = "not_implemented" info,
        /// A submission was routed.
        Routed = "routed" info,
        /// A submission failed.
        Failed = "failed" error,
        /// A claim was given back.
        Released = "released" warn,
        /// A worker lost its claim to another.
        StaleSettle = "stale_settle" warn,
        /// The sweep reset a stuck claim.
        Rescued = "rescued" warn,
        /// The sweep saw a ready row whose event was lost.
        Orphan = "orphan" info,
        /// A delivery in doubt was resolved.
        InDoubt = "in_doubt" warn | info,
        /// A dead letter came in.
        DeadLetter = "dead_letter" error | warn | info,
        /// A submission is not ready for too long.
        Unready = "unready" error,
        /// The relay's log, or a returned mail, reported a mail's status after the relay's acceptance.
        DeliveryStatus = "delivery_status" error | warn | info,
        /// Facts could not be recorded and were written to the state directory.
        Spooled = "spooled" warn,
        /// Spooled facts were recorded.
        SpoolReplayed = "spool_replayed" info,
        /// Routing was paused or resumed.
        Paused = "paused" warn,
        /// A pause ended.
        Resumed = "resumed" info,
        /// A person had a submission routed again, or its claim taken back.
        Override = "override" warn,
    }
}
