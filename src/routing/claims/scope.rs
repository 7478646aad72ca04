//! Properties that the outcomes of one action share, as the worker passes them on to ledger and journal.

use super::Claim;
use crate::routing::submission::outcome::SendContext;
use crate::routing::submission::plan::ActionType;

/// Properties that the outcomes of one action have in common.
#[derive(Debug)]
pub struct ActionScope {
    /// Order of the action in the plan.
    pub action_order: i32,
    /// Type of the action.
    pub action_type: ActionType,
    /// Generation of the action.
    pub generation: u32,
    /// Pinned destination.
    pub destination: String,
    /// Message-ID of the action's mail.
    pub message_id: Option<String>,
    /// Identifies this send.
    pub nonce: String,
    /// Number of all deliveries of the action.
    pub total: usize,
}

impl ActionScope {
    /// The context for the entries of this action under `claim`.
    #[must_use]
    pub fn context<'a>(&'a self, claim: &'a Claim) -> SendContext<'a> {
        SendContext {
            token: &claim.token,
            nonce: &self.nonce,
            attempt: claim.attempt,
            action_order: self.action_order,
            action_type: self.action_type,
            generation: self.generation,
            destination: &self.destination,
            message_id: self.message_id.as_deref(),
        }
    }
}
