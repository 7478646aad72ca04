//! The mails and tickets a submission would cause if it were sent now, made by the same functions, and shown instead of sent.
//!
//! Nothing is claimed, written (no intent either), sent or asked of the help desk. Links are real: every reader of what is shown
//! can open them.

use std::collections::HashSet;

use uuid::Uuid;

use super::{Preparer, Source};
use crate::db::DbError;
use crate::ports::{Fault, NewTicket};
use crate::routing::compose::Place;
use crate::routing::decide;
use crate::routing::journal::files::OfAction;
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

/// What one action would send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rendered {
    /// A mail.
    Mail(RenderedMail),
    /// A ticket.
    Ticket(RenderedTicket),
}

impl Rendered {
    /// Number of working links in it.
    #[must_use]
    pub fn links(&self) -> usize {
        match self {
            Self::Mail(mail) => mail.links,
            Self::Ticket(ticket) => ticket.links,
        }
    }
}

/// One rendered ticket. Its `Debug` shows no address and no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedTicket {
    /// Order of the ticket's action.
    pub action_order: i32,
    /// The ticket as the help desk would get it: its category and choices not yet looked up there.
    pub ticket: NewTicket,
    /// The ticket is yet to be made; otherwise it is one that was made, or would be made once more.
    pub open: bool,
    /// Number of links in the ticket.
    pub links: usize,
    /// Names that the templates ask for and that have no value: gaps in the ticket.
    pub missing: Vec<String>,
}

/// One rendered mail. Its `Debug` shows no address and no text.
#[derive(Clone, PartialEq, Eq)]
pub struct RenderedMail {
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

impl std::fmt::Debug for RenderedMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderedMail")
            .field("action_order", &self.action_order)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

/// Reason why a mail or a ticket cannot be shown.
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
    /// The action, its template or its plan makes neither a mail nor a ticket. The message says which.
    #[error("{0}")]
    Unmakeable(String),
}

impl Preparer {
    /// The mails and tickets of a submission as they would be sent now, in the order of the plan. Actions that want a ticket
    /// give none where there is no help desk, unless one of them was asked for.
    ///
    /// # Errors
    /// [`RenderError`]; the first action of which nothing can be made ends it.
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
        let linked = self.links(&content).await.map_err(RenderError::Unsigned)?;
        let mut rendered = Vec::new();
        for action in &ledger.plan {
            let order = action.action_order;
            let wanted = match scope.action_order {
                Some(asked) => asked == order,
                None => action.action_type.is_email() || self.tickets.is_some(),
            };
            if !wanted {
                continue;
            }
            let targets = destination::parse(&action.destination, order, usize::MAX);
            let (mut attachments, mut files) = (linked.clone(), Vec::new());
            if self.wants_files(action, &content.form_id) {
                let of = OfAction { id: scope.id, form_id: &content.form_id, action_order: order };
                files = self.enclose(of, &content, &mut attachments).await;
            }
            let links = attachments.iter().filter(|one| matches!(one.place, Place::Linked(_))).count();
            let source = Source {
                id: scope.id,
                action,
                ledger: &ledger,
                content: &content,
                attachments: &attachments,
                files: &files,
                targets: &targets,
            };
            if let Some(rules) = self.tickets.as_ref().filter(|_| !action.action_type.is_email()) {
                let (ticket, missing) = self.ticket_and_gaps(rules, &source).map_err(|fault| {
                    RenderError::Unmakeable(format!("action {order}: {}", fault.reply.reply))
                })?;
                let open = !self.open_now(&ledger, order).is_empty();
                rendered.push(Rendered::Ticket(RenderedTicket {
                    action_order: order,
                    ticket,
                    open,
                    links,
                    missing,
                }));
                continue;
            }
            let (open, recipients) = self.recipients_now(&ledger, action, &targets);
            let composed = self.compose(&source).map_err(RenderError::Unmakeable)?;
            let origin =
                Origin { submission: scope.id, action_order: order, generation: ledger.generation(order) };
            rendered.push(Rendered::Mail(RenderedMail {
                action_order: order,
                recipients,
                message_id: message_id::message_id(origin, &self.rules.from.address),
                message: composed.message.shown(),
                open,
                links,
                missing: composed.missing,
            }));
        }
        Ok(rendered)
    }

    /// Whether a delivery of the action is open, and the mail's recipients: of open deliveries, else all usable ones.
    fn recipients_now(
        &self,
        ledger: &Ledger,
        action: &PlannedAction,
        targets: &[destination::Target],
    ) -> (bool, Vec<String>) {
        let open = self.open_now(ledger, action.action_order);
        let mut keys: Vec<&str> = open.iter().map(String::as_str).collect();
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
        (!open.is_empty(), targets.iter().filter_map(usable).collect())
    }

    /// Keys of the action that would be sent now.
    fn open_now(&self, ledger: &Ledger, order: i32) -> Vec<String> {
        let token = ledger.claim.as_ref().map_or("", |claim| claim.token.as_str());
        decide::open_deliveries(ledger, order, token, self.rules.now().in_doubt).send
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
