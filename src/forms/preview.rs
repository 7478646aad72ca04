//! What a definition would send: the one question that versions ask of the routing, which composes as it does for real.

use std::fmt::Debug;

use serde::Serialize;

use super::definition::{Action, Definition, Sample};

/// Composes as the routing does. Pure: neither store nor network is asked.
pub trait Composer: Debug + Send + Sync {
    /// Each entry of an action's destination: an address, or why it is none, in words without the entry.
    fn recipients(&self, action: &Action) -> Vec<Result<String, String>>;

    /// Whether mail may be sent to an address (`mail.allowed_destination_domains`).
    fn allows(&self, address: &str) -> bool;

    /// The mail or ticket of an action on a sample.
    ///
    /// # Errors
    /// Why there is none, in words for people, with the template's line where one is to blame.
    fn preview(&self, form: &Definition, action: &Action, sample: &Sample) -> Result<Preview, String>;
}

/// The texts of a mail or a ticket. Its `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Subject, one line.
    pub subject: String,
    /// Plain text.
    pub text: String,
    /// HTML, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Names that the templates print and that the sample has no value of.
    pub missing: Vec<String>,
}

impl Debug for Preview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preview").field("missing", &self.missing).finish_non_exhaustive()
    }
}
