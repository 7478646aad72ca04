//! Lines about what people have had done to a submission, at the command line and elsewhere: the same words. To be written
//! once the commit is confirmed.

use uuid::Uuid;

use crate::journal;
use crate::routing::decide::backfill::Backfill;
use crate::routing::decide::replay::Replay;
use crate::routing::store::overrides::Override;
use crate::routing::store::sweep::{Retaken, RetakenEnd};
use crate::routing::words::EventName;

/// An ended submission was opened again.
pub fn replayed(id: Uuid, form_id: &str, note: Override<'_>, replay: &Replay) {
    let forced = replay.forced.as_ref();
    journal!(
        warn,
        EventName::Override,
        submission_id = %id,
        form_id = form_id,
        actor = note.actor,
        verb = note.verb,
        reason = note.reason,
        force_action = forced.map(|forced| forced.action_order),
        delivery = forced.and_then(|forced| forced.delivery.as_deref()),
        replan = replay.replan,
        "an operator has it routed again: {} deliveries are open",
        replay.open.len()
    );
}

/// Deferred tickets of a routed submission were opened.
pub fn backfilled(id: Uuid, form_id: &str, note: Override<'_>, backfill: &Backfill) {
    journal!(
        warn,
        EventName::Override,
        submission_id = %id,
        form_id = form_id,
        actor = note.actor,
        verb = note.verb,
        reason = note.reason,
        "an operator has its deferred tickets made: {} are open",
        backfill.actions.len()
    );
}

/// A claim was taken back; nothing where it was left.
pub fn released(retaken: &Retaken, note: Override<'_>) {
    match retaken.end {
        RetakenEnd::Left => return,
        RetakenEnd::Reset { .. } | RetakenEnd::Failed(_) => {}
    }
    journal!(
        warn,
        EventName::Override,
        submission_id = %retaken.id,
        form_id = retaken.form_id,
        actor = note.actor,
        verb = note.verb,
        reason = note.reason,
        "an operator took a claim back from worker {}",
        retaken.worker.as_deref().unwrap_or("unknown")
    );
}
