//! The journal of form versions. Destinations and texts are not logged.

use crate::events;

events! {
    /// Events in the life of forms.
    EventName {
        /// A version was published.
        FormPublished = "form_published" info,
        /// A version was refused.
        FormQuarantined = "form_quarantined" warn,
        /// A form follows another version.
        FormPromoted = "form_promoted" info,
        /// A version was taken back.
        FormRestored = "form_restored" info,
    }
}
