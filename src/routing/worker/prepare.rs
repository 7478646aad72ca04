//! From an action of the plan to a mail that is ready to be sent, or to outcomes decided without a send.
//!
//! No intent is recorded here and nothing written: if we die, nothing happened. Links are asked for per send (protocol §4), and shared
//! by the mails of an hour (`gateway/signed_url/shared.rs`).

mod files;
mod foreseen;
mod links;
mod render;
mod rules;
pub mod ticket;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use self::files::InlineRules;
pub use self::foreseen::Foreseen;
pub use self::render::{RenderError, RenderScope, Rendered, RenderedMail, RenderedTicket};
pub use self::rules::{ChangingRules, MailRules};
use self::ticket::TicketRules;

use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::config::Attachments;
use crate::db::{DbError, DbErrorKind};
use crate::gateway::objects::Objects;
use crate::gateway::signed_url::UrlSigner;
use crate::journal;
use crate::ops::rng::Rng;
use crate::ports::{Fault, Message, NewTicket, Outcome, Reply, Stage};
use crate::routing::claims::Claim;
use crate::routing::claims::scope::ActionScope;
use crate::routing::compose;
use crate::routing::compose::{
    Attachment, ComposeInput, Composed, Enclosed, Field, MailSettings, ReplyTo, SubmissionFacts,
};
use crate::routing::decide;
use crate::routing::journal::files::OfAction;
use crate::routing::store::Store;
use crate::routing::submission::content::SubmissionContent;
use crate::routing::submission::destination;
use crate::routing::submission::destination::{Target, TargetKind};
use crate::routing::submission::ledger::{ErrorClass, Ledger};
use crate::routing::submission::message_id;
use crate::routing::submission::message_id::Origin;
use crate::routing::submission::outcome::Entries;
use crate::routing::submission::plan::PlannedAction;
use crate::routing::words::EventName;

/// Makes mails.
#[derive(Debug)]
pub struct Preparer {
    /// Rules that the mails follow.
    pub rules: MailRules,
    /// Store that the submission content is read from.
    pub store: Store,
    /// Signs links.
    pub signer: Arc<UrlSigner>,
    /// Reads what travels inside.
    pub objects: Arc<Objects>,
    /// Source of the nonces.
    pub rng: Arc<Rng>,
    /// Rules of tickets; absent where there is no help desk.
    pub tickets: Option<TicketRules>,
}

/// Result of an action before anything is sent.
#[derive(Debug)]
pub enum Prepared {
    /// A mail to be sent.
    Ready(Box<Ready>),
    /// Every open delivery of the action is decided without a send.
    Decided(Box<Decided>),
    /// The submission could not be read: nothing is known.
    Unreadable(DbError),
    /// Reading the files was interrupted.
    Interrupted,
}

/// An action to be prepared.
#[derive(Debug, Clone, Copy)]
pub struct Preparation<'a> {
    /// Claim that it is prepared under.
    pub claim: &'a Claim,
    /// Ledger with the plan.
    pub ledger: &'a Ledger,
    /// Order of the action.
    pub order: i32,
    /// Submission content; where it is missing it is read, once per claim.
    pub content: &'a OnceCell<SubmissionContent>,
    /// Whether files may travel inside: not where they were refused as too large.
    pub may_enclose: bool,
}

/// Deliveries decided without a send.
#[derive(Debug)]
pub struct Decided {
    /// Action of the deliveries.
    pub scope: ActionScope,
    /// Key and outcome.
    pub outcomes: Vec<(String, Outcome)>,
    /// Keys in doubt that the policy puts on hold.
    pub on_hold: Vec<String>,
    /// Some of the action's deliveries get no intent because their destination is paused.
    pub paused: bool,
}

/// What is ready to be sent, and the deliveries decided beside it.
#[derive(Debug)]
pub struct Ready {
    /// Delivery keys, in the order of the outcomes.
    pub keys: Vec<String>,
    /// Keys in doubt, perhaps delivered before; a subset of `keys`.
    pub resend: Vec<String>,
    /// What is sent.
    pub parcel: Parcel,
    /// Deliveries of the same action that are decided already.
    pub beside: Decided,
}

/// What a carrier takes.
#[derive(Debug)]
pub enum Parcel {
    /// A mail.
    Mail(Mail),
    /// A ticket.
    Ticket(Box<NewTicket>),
}

/// A mail. Its `Debug` shows no address and no text.
pub struct Mail {
    /// Envelope recipients.
    pub recipients: Vec<String>,
    /// Envelope sender.
    pub sender: String,
    /// The message.
    pub message: Message,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("recipients", &self.recipients.len()).finish_non_exhaustive()
    }
}

impl Parcel {
    /// Whether files are inside.
    #[must_use]
    pub fn has_files(&self) -> bool {
        match self {
            Self::Mail(mail) => mail.message.files() > 0,
            Self::Ticket(ticket) => !ticket.files.is_empty(),
        }
    }
}

impl Decided {
    fn everything(&mut self, keys: Vec<String>, outcome: &Outcome) {
        self.outcomes.extend(keys.into_iter().map(|key| (key, outcome.clone())));
    }

    /// The entries to record.
    #[must_use]
    pub fn entries(&self, claim: &Claim) -> Entries {
        let mut entries = Entries::default();
        for (key, outcome) in &self.outcomes {
            entries.add(&self.scope.context(claim), key, outcome);
        }
        for key in &self.on_hold {
            entries.fail(&self.scope.context(claim), key, ErrorClass::InDoubt, &ours(Stage::Dot, IN_DOUBT));
        }
        entries
    }
}

const IN_DOUBT: &str = "perhaps delivered before; on hold, because routing.in_doubt is \"hold\"";

impl Preparer {
    /// Prepares an action of the ledger's plan. `over` ends the reading of files, which may take as long as the store does.
    pub async fn prepare(&self, asked: Preparation<'_>, over: impl Future<Output = ()>) -> Prepared {
        let Preparation { claim, ledger, order, content, may_enclose } = asked;
        let Some(action) = ledger.plan.iter().find(|action| action.action_order == order) else {
            return Prepared::Unreadable(DbError::Shape(format!("the ledger's plan has no action {order}")));
        };
        let mut open = decide::open_deliveries(ledger, order, &claim.token, self.rules.now().in_doubt);
        let (pauses, all) = (self.store.pauses(), open.send.len());
        open.send.retain(|key| pauses.of_delivery(key).is_none());
        let paused = open.send.len() < all;
        let mut decided = Decided {
            scope: self.scope(claim, ledger, action),
            outcomes: Vec::new(),
            on_hold: open.hold,
            paused,
        };
        let targets = destination::parse(&action.destination, order, usize::MAX);
        let (keys, recipients) = match (action.action_type.is_email(), &self.tickets) {
            (true, _) => self.sort_out(open.send, &targets, &mut decided),
            (false, Some(rules)) if rules.gate.is_open() => (open.send, Vec::new()),
            (false, Some(_)) => {
                decided.paused = true;
                return Prepared::Decided(Box::new(decided));
            }
            (false, None) => {
                decided.everything(open.send, &Outcome::NotImplemented);
                return Prepared::Decided(Box::new(decided));
            }
        };
        if keys.is_empty() {
            return Prepared::Decided(Box::new(decided));
        }
        // A read is seldom, since claims bring their content, and on the heap: every worker's future would have room for it.
        let content = match content.get_or_try_init(|| Box::pin(self.read(claim.id))).await {
            Ok(content) => content,
            Err(error) => match error.kind() {
                DbErrorKind::Unreachable | DbErrorKind::Busy => return Prepared::Unreadable(error),
                // Such a fault does not pass by itself: it costs attempts, so that it ends in an alert.
                DbErrorKind::Contract | DbErrorKind::Bug => {
                    let why = format!("the submission cannot be read: {error}");
                    decided.everything(keys, &Outcome::Deferred(ours(Stage::Template, &why)));
                    return Prepared::Decided(Box::new(decided));
                }
            },
        };
        let mut attachments = match self.links(content).await {
            Ok(attachments) => attachments,
            Err(fault) => {
                decided.everything(keys, &Outcome::Deferred(fault));
                return Prepared::Decided(Box::new(decided));
            }
        };
        let mut files = Vec::new();
        if self.wants_files(action, &content.form_id) {
            let linked = attachments.clone();
            let of = OfAction { id: claim.id, form_id: &content.form_id, action_order: order };
            files = tokio::select! {
                biased;
                () = over => return Prepared::Interrupted,
                files = self.enclose(of, content, &mut attachments) => files,
            };
            if !may_enclose {
                // What was replaced stays without a link: only what was proven goes back to its own.
                files.clear();
                files::back_to_links(&mut attachments, linked);
            }
        }
        let source = Source {
            id: claim.id,
            action,
            ledger,
            content,
            attachments: &attachments,
            files: &files,
            targets: &targets,
        };
        let parcel = match &self.tickets {
            Some(rules) if !action.action_type.is_email() => {
                self.ticket(rules, &source).map(|ticket| Parcel::Ticket(Box::new(ticket)))
            }
            Some(_) | None => self.mail(&source, recipients).map(Parcel::Mail),
        };
        match parcel {
            Ok(parcel) => {
                Prepared::Ready(Box::new(Ready { keys, resend: open.resend, parcel, beside: decided }))
            }
            Err(fault) => {
                decided.everything(keys, &Outcome::Refused(fault));
                Prepared::Decided(Box::new(decided))
            }
        }
    }

    /// Whether the form wants files inside an action's mail or ticket.
    fn wants_files(&self, action: &PlannedAction, form: &str) -> bool {
        if action.action_type.is_email() {
            return self.rules.now().inline.forms.iter().any(|name| name == form);
        }
        let tickets = self.tickets.as_ref();
        tickets.is_some_and(|rules| rules.settings.attachments(form) == Attachments::Inline)
    }

    fn mail(&self, source: &Source<'_>, recipients: Vec<String>) -> Result<Mail, Fault> {
        let composed = self.compose(source).map_err(|why| ours(Stage::Template, &why))?;
        let order = source.action.action_order;
        log_gaps(source.id, &source.content.form_id, order, &composed);
        let generation = source.ledger.generation(order);
        let origin = Origin { submission: source.id, action_order: order, generation };
        Ok(Mail { recipients, sender: self.rules.sender(origin), message: composed.message })
    }

    pub(super) fn scope(&self, claim: &Claim, ledger: &Ledger, action: &PlannedAction) -> ActionScope {
        let generation = ledger.generation(action.action_order);
        let origin = Origin { submission: claim.id, action_order: action.action_order, generation };
        ActionScope {
            action_order: action.action_order,
            action_type: action.action_type,
            generation,
            destination: action.destination.clone(),
            message_id: action
                .action_type
                .is_email()
                .then(|| message_id::message_id(origin, &self.rules.from.address)),
            nonce: self.rng.uuid().simple().to_string(),
            total: ledger.deliveries_of(action.action_order).count(),
        }
    }

    /// Splits open keys into deliverable ones, with their addresses, and those refused for their target.
    fn sort_out(
        &self,
        open: Vec<String>,
        targets: &[Target],
        decided: &mut Decided,
    ) -> (Vec<String>, Vec<String>) {
        let by_key: HashMap<&str, &TargetKind> =
            targets.iter().map(|target| (target.key.as_str(), &target.kind)).collect();
        let (mut keys, mut recipients) = (Vec::new(), Vec::new());
        for key in open {
            let why = match by_key.get(key.as_str()) {
                Some(TargetKind::Usable { address, .. })
                    if destination::allowed(address, &self.rules.now().allowed_domains) =>
                {
                    keys.push(key);
                    recipients.push(address.clone());
                    continue;
                }
                Some(TargetKind::Usable { .. }) => {
                    "the domain is not in mail.allowed_destination_domains".to_owned()
                }
                Some(TargetKind::Unusable { why, .. }) => why.clone(),
                Some(TargetKind::None) => "the action names no recipient: set its destination".to_owned(),
                Some(TargetKind::OverLimit { .. }) | None => format!(
                    "the action names {} recipients, more than mail.max_recipients: nothing was sent",
                    targets.len()
                ),
            };
            decided.outcomes.push((key, Outcome::Refused(ours(Stage::Address, &why))));
        }
        (keys, recipients)
    }

    async fn read(&self, id: Uuid) -> Result<SubmissionContent, DbError> {
        self.store
            .content(id)
            .await?
            .ok_or_else(|| DbError::Shape("the claimed row is not there any more".to_owned()))
    }

    fn compose(&self, source: &Source<'_>) -> Result<Composed, String> {
        self.composing(source, compose::compose).map_err(|fault| fault.to_string())
    }

    /// What `make` makes of the source.
    fn composing<T>(&self, source: &Source<'_>, make: impl FnOnce(&ComposeInput<'_>) -> T) -> T {
        let Source { id, action, ledger, content, attachments, files, targets } = *source;
        let fields: Vec<Field> = content
            .fields
            .iter()
            .zip(0..)
            .map(|((key, value), position)| Field { key: key.clone(), value: value.clone(), position })
            .collect();
        let rules = self.rules.now();
        make(&ComposeInput {
            submission: SubmissionFacts { id, created_at: content.created_at, form_id: &content.form_id },
            form_name: content.form_name.as_deref(),
            fields: &fields,
            grade: content.grade.as_ref(),
            action,
            generation: ledger.generation(action.action_order),
            attachments,
            files,
            mail: MailSettings {
                from: &self.rules.from,
                body: self.rules.body,
                time_zone: &rules.time_zone,
                recipients: targets,
                reply_to_fields: &rules.reply_to_fields,
            },
            date: content.now,
        })
    }
}

/// What a mail or a ticket is made from.
#[derive(Debug, Clone, Copy)]
struct Source<'a> {
    id: Uuid,
    action: &'a PlannedAction,
    ledger: &'a Ledger,
    content: &'a SubmissionContent,
    attachments: &'a [Attachment],
    files: &'a [Enclosed],
    targets: &'a [Target],
}

/// Logs for the owner of the form that a mail has gaps, or that a reply to it would not reach the person who filled in the
/// form. Neither a value nor a field's name is logged: `render` shows those.
fn log_gaps(id: Uuid, form_id: &str, order: i32, composed: &Composed) {
    log_missing(id, form_id, order, &composed.missing);
    let reason = match composed.reply_to {
        ReplyTo::NotConfigured | ReplyTo::Set => return,
        ReplyTo::Absent => "absent",
        ReplyTo::Unusable => "unusable",
    };
    journal!(
        info,
        EventName::NoReplyTo,
        submission_id = %id,
        form_id,
        action_order = order,
        reason,
        "no field of mail.reply_to_fields holds an address that every relay takes: the mail has no Reply-To"
    );
}

/// Logs that a template asks for what the submission does not have.
fn log_missing(id: Uuid, form_id: &str, order: i32, missing: &[String]) {
    if !missing.is_empty() {
        journal!(
            warn,
            EventName::Gap,
            submission_id = %id,
            form_id,
            action_order = order,
            count = missing.len(),
            "a template asks for what the submission does not have: the text says so in that place; \
             `maple-router render {id}` names it"
        );
    }
}

/// A fault decided in this process, without a server.
fn ours(stage: Stage, why: &str) -> Fault {
    Fault { stage, reply: Reply { code: None, enhanced: None, reply: why.to_owned() }, about_us: false }
}
