//! The mails a submission would cause if it were sent now, made by the same functions, and shown instead of sent.
//!
//! Nothing is claimed, written (no intent either) or sent. Links are real: every reader of a shown mail can open them.

use std::collections::HashSet;

use uuid::Uuid;

use super::{Preparer, Source};
use crate::db::DbError;
use crate::ports::Fault;
use crate::routing::compose::Place;
use crate::routing::decide;
use crate::routing::submission::destination;
use crate::routing::submission::destination::TargetKind;
use crate::routing::submission::expand::{self, Expansion};
use crate::routing::submission::ledger::{Delivery, Ledger};
use crate::routing::submission::message_id;
use crate::routing::submission::message_id::Origin;
use crate::routing::submission::plan::PlannedAction;

/// Submission and actions to render.
#[derive(Debug, Clone)]
pub struct RenderScope<'a> {
    /// The submission.
    pub id: Uuid,
    /// Ledger of the submission; where no plan is pinned in it, the form's current actions stand in.
    pub ledger: &'a Ledger,
    /// The form's current actions.
    pub current: &'a [PlannedAction],
    /// Limits the rendering to this action.
    pub action_order: Option<i32>,
    /// Attachments that may be linked; the others are left out.
    pub linkable: &'a HashSet<Uuid>,
    /// What its plan is expanded by.
    pub expansion: Expansion,
}

/// One rendered mail. Its `Debug` shows no address and no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Order of the mail's action.
    pub action_order: i32,
    /// Envelope recipients.
    pub recipients: Vec<String>,
    /// Message-ID, in angle brackets.
    pub message_id: String,
    /// The message, lines ended by CRLF.
    pub message: Vec<u8>,
    /// Some delivery of the mail is yet to be sent; otherwise the mail is one that was sent, or would be sent once more.
    pub open: bool,
    /// Number of links in the mail.
    pub links: usize,
    /// Names that the templates ask for and that have no value: gaps in the mail.
    pub missing: Vec<String>,
}

impl std::fmt::Debug for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rendered")
            .field("action_order", &self.action_order)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

/// Reason why a mail cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The submission could not be read.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The row is gone.
    #[error("there is no submission {0} any more")]
    Gone(Uuid),
    /// The plan has no such action.
    #[error("the plan has no action {asked}; it has {there}")]
    NoSuchAction {
        /// Action order asked for.
        asked: i32,
        /// Action orders of the plan, ready to print.
        there: String,
    },
    /// The links cannot be signed now.
    #[error("its links cannot be signed: {}", .0.reply.reply)]
    Unsigned(Fault),
    /// The action, its template or its plan does not make a mail. The message says which.
    #[error("{0}")]
    Unmakeable(String),
}

impl Preparer {
    /// The mails of a submission as they would be sent now, in the order of the plan. Actions that are not carried out by
    /// mail give none, unless one of them was asked for.
    ///
    /// # Errors
    /// [`RenderError`]; the first mail that cannot be made ends it.
    pub async fn render(&self, scope: &RenderScope<'_>) -> Result<Vec<Rendered>, RenderError> {
        let ledger = as_claimed(scope);
        if let Some(asked) = scope.action_order
            && !ledger.plan.iter().any(|action| action.action_order == asked)
        {
            let there: Vec<String> = ledger.plan.iter().map(|a| a.action_order.to_string()).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(RenderError::NoSuchAction { asked, there });
        }
        let mut content = self.store.content(scope.id).await?.ok_or(RenderError::Gone(scope.id))?;
        content.attachments.retain(|attachment| scope.linkable.contains(&attachment.id));
        let attachments = self.links(&content).await.map_err(RenderError::Unsigned)?;
        let links = attachments.iter().filter(|one| matches!(one.place, Place::Linked(_))).count();
        let mut mails = Vec::new();
        for action in &ledger.plan {
            let order = action.action_order;
            let wanted = match scope.action_order {
                Some(asked) => asked == order,
                None => action.action_type.is_email(),
            };
            if !wanted {
                continue;
            }
            let targets = destination::parse(&action.destination, order, usize::MAX);
            let (open, recipients) = self.recipients_now(&ledger, action, &targets);
            let source = Source {
                id: scope.id,
                action,
                ledger: &ledger,
                content: &content,
                attachments: &attachments,
                files: &[],
                targets: &targets,
            };
            let composed = self.compose(&source).map_err(RenderError::Unmakeable)?;
            let origin =
                Origin { submission: scope.id, action_order: order, generation: ledger.generation(order) };
            mails.push(Rendered {
                action_order: order,
                recipients,
                message_id: message_id::message_id(origin, &self.rules.from.address),
                message: composed.message.shown(),
                open,
                links,
                missing: composed.missing,
            });
        }
        Ok(mails)
    }

    /// Whether a delivery of the action is open, and the mail's recipients: of open deliveries, else all usable ones.
    fn recipients_now(
        &self,
        ledger: &Ledger,
        action: &PlannedAction,
        targets: &[destination::Target],
    ) -> (bool, Vec<String>) {
        let token = ledger.claim.as_ref().map_or("", |claim| claim.token.as_str());
        let open = decide::open_deliveries(ledger, action.action_order, token, self.rules.now().in_doubt);
        let mut keys: Vec<&str> = open.send.iter().map(String::as_str).collect();
        if keys.is_empty() {
            keys = ledger.deliveries_of(action.action_order).map(|(key, _)| key).collect();
        }
        let usable = |target: &destination::Target| match &target.kind {
            TargetKind::Usable { address, .. }
                if keys.contains(&target.key.as_str())
                    && destination::allowed(address, &self.rules.now().allowed_domains) =>
            {
                Some(address.clone())
            }
            TargetKind::Usable { .. }
            | TargetKind::Unusable { .. }
            | TargetKind::None
            | TargetKind::OverLimit { .. } => None,
        };
        (!open.send.is_empty(), targets.iter().filter_map(usable).collect())
    }
}

/// The ledger as a claim would leave it: plan pinned, a delivery for each recipient.
fn as_claimed(scope: &RenderScope<'_>) -> Ledger {
    let mut ledger = scope.ledger.clone();
    let plan = if ledger.plan.is_empty() { scope.current.to_vec() } else { ledger.plan.clone() };
    for (key, _) in expand::missing_deliveries(&ledger, &plan, scope.expansion) {
        ledger.deliveries.insert(key, Delivery::default());
    }
    ledger.plan = plan;
    ledger
}
