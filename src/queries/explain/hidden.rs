//! The same page for eyes that are not shown recipients: domains stay, addresses and file names do not.
//!
//! Pure. Errs on the side of hiding: a text that may quote an address is scrubbed, a destination is not shown at all.

use super::{DeliveryPart, Page};
use crate::scrub::scrub;

/// What stands for a destination.
const HIDDEN: &str = "(recipients are not shown)";

impl Page {
    /// The page without recipients and without the names of files.
    pub(crate) fn without_recipients(mut self) -> Self {
        for action in &mut self.plan {
            HIDDEN.clone_into(&mut action.destination);
            action.subject_template = None;
        }
        self.deliveries.iter_mut().for_each(DeliveryPart::hide);
        for scan in &mut self.readiness.attachments {
            scan.file_name = None;
        }
        for moment in &mut self.timeline {
            moment.words = scrub(&moment.words);
        }
        for event in self.events.iter_mut().flatten() {
            event.error = event.error.as_deref().map(scrub);
        }
        self.explanation.why = scrub(&self.explanation.why);
        self.explanation.next.what = scrub(&self.explanation.next.what);
        for remedy in &mut self.explanation.remedy {
            remedy.line = scrub(&remedy.line);
        }
        self
    }
}

impl DeliveryPart {
    /// The recipient's domain, as far as it has one.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.recipient.as_deref().and_then(|address| address.rsplit_once('@')).map(|(_, domain)| domain)
    }

    fn hide(&mut self) {
        self.recipient = self.domain().map(|domain| format!("(somebody at {domain})"));
        self.unusable = None;
        self.reply = self.reply.as_deref().map(scrub);
        if let Some(error) = &mut self.error {
            error.reply.reply = scrub(&error.reply.reply);
        }
        self.tries.clear();
        if let Some(relay) = &mut self.relay {
            relay.text = relay.text.as_deref().map(scrub);
            relay.said = scrub(&relay.said);
        }
    }
}
