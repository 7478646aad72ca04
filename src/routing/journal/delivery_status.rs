//! Lines about a mail that the relay may have: doubt and its end, and delivery tracking after the relay's acceptance.

use crate::journal;
use crate::ports::RelayStatus;
use crate::routing::claims::Claim;
use crate::routing::claims::scope::ActionScope;
use crate::routing::delivery::Seen;
use crate::routing::metrics::Resolution;
use crate::routing::store::delivery::StatusChanged;
use crate::routing::submission::ledger::{Ledger, order_of, place};
use crate::routing::words::EventName;

/// The doubt of one delivery was resolved. `index` counts from 0.
pub(in crate::routing) fn doubt(claim: &Claim, scope: &ActionScope, index: usize, resolution: Resolution) {
    let follows = follows(resolution);
    journal!(
        warn,
        EventName::InDoubt,
        submission_id = %claim.id,
        form_id = claim.form_id,
        attempt = claim.attempt,
        action_order = scope.action_order,
        action_type = scope.action_type.label(),
        delivery = format!("{}/{}", index + 1, scope.total.max(index + 1)),
        outcome = resolution.label(),
        rfc_message_id = scope.message_id,
        "perhaps delivered before: {follows}"
    );
}

/// Proof from the relay's log, its queue or a returned mail about a delivery that was perhaps sent.
pub(in crate::routing) fn resolved(claim: &Claim, ledger: &Ledger, key: &str, resolution: Resolution) {
    journal!(
        info,
        EventName::InDoubt,
        submission_id = %claim.id,
        form_id = claim.form_id,
        attempt = claim.attempt,
        action_order = order_of(key),
        delivery = index(ledger, key),
        outcome = resolution.label(),
        "perhaps delivered before: {}",
        follows(resolution)
    );
}

/// A mail in the relay's log under one of our Message-IDs, without proof that this daemon sent it.
pub(in crate::routing) fn unproved(seen: &Seen) {
    tracing::warn!(
        submission_id = %seen.origin.submission,
        action_order = seen.origin.action_order,
        postfix_queue_id = seen.queue_id,
        "the relay's log says {} of a mail that carries our Message-ID, and nothing proves that we sent it: that is not counted",
        seen.status.label()
    );
}

/// A new delivery status after the relay's acceptance.
pub(in crate::routing) fn delivery_status(marked: &StatusChanged) {
    macro_rules! line {
        ($level:ident, $follows:literal) => {
            journal!(
                $level,
                EventName::DeliveryStatus,
                submission_id = %marked.id,
                form_id = marked.form_id,
                action_order = order_of(&marked.key),
                delivery = format!("{}/{}", marked.index.0, marked.index.1),
                outcome = marked.status.label(),
                enhanced_code = marked.dsn,
                postfix_queue_id = marked.queue_id,
                "{} after the relay{}: {}",
                marked.status.label(),
                if marked.found { ", so it is accepted, which was in doubt" } else { "" },
                $follows
            )
        };
    }
    match marked.status {
        RelayStatus::Delivered => line!(info, "the next server has it"),
        RelayStatus::Deferred => {
            line!(warn, "it waits in the relay's queue, the relay tries again by itself");
        }
        RelayStatus::Bounced | RelayStatus::Expired => {
            line!(error, "the mail is lost for this recipient, people are notified");
        }
    }
}

fn follows(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Found => "the relay has it: it counts as accepted, nothing is sent again",
        Resolution::Disproved => "the relay proves that it did not take it: it is sent",
        Resolution::NeitherResent => {
            "it was sent again with the same Message-ID (routing.in_doubt = \"resend\")"
        }
        Resolution::NeitherOnHold => {
            "it is on hold and fails, the others proceed (routing.in_doubt = \"hold\")"
        }
    }
}

/// Position of a delivery among those of its action, as `2/3`.
fn index(ledger: &Ledger, key: &str) -> Option<String> {
    place(ledger.deliveries_of(order_of(key)?).map(|(key, _)| key), key)
}
