//! The mail of one action: subject, body, links and headers, composed from the pinned plan.
//!
//! Reading order: [`compose`] → `subject` → `body` (with `template`, `html` and `attachments`) → `message` (with `headers`).
//!
//! If we die before the mail is sent, composing it again from the same input gives the same octets. Invariant: pure;
//! nothing here reads a clock, draws a random number, resolves a name or opens a file, and nothing here logs. No field
//! value, file name or template result can add a header, an address or a part.

mod attachments;
mod body;
mod headers;
mod html;
mod message;
mod reply_to;
mod subject;
mod template;
mod ticket;
mod trial;
mod when;

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

pub use attachments::{Attachment, Enclosed, MAX_LINK_TTL, Place, clean_file_name, link_ttl};
pub use reply_to::ReplyTo;
pub use subject::MAX_SUBJECT;
pub use ticket::{ComposedTicket, Expressions, compose_ticket};
pub use trial::{note_mail, trial_mail};

use super::submission::destination::{Mailbox, Target, TargetKind};
use super::submission::grading::Grade;
use super::submission::message_id::{Origin, message_id};
use super::submission::plan::PlannedAction;
use super::submission::text::{bounded, one_line};
use crate::config::MailBody;
use crate::ports::{Fault, Message, Outcome, Reply, Stage};

/// A submission's own facts.
#[derive(Debug, Clone, Copy)]
pub struct SubmissionFacts<'a> {
    /// Id of the submission.
    pub id: Uuid,
    /// Time of receipt.
    pub created_at: Timestamp,
    /// Id of the form.
    pub form_id: &'a str,
}

/// One field of a submission. Its `Debug` never shows the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    /// Key of the field in the form.
    pub key: String,
    /// Value as entered.
    pub value: String,
    /// Position in the form.
    pub position: i32,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Field")
            .field("key", &self.key)
            .field("value", &"<redacted>")
            .field("position", &self.position)
            .finish()
    }
}

/// Settings of a mail: `[mail]`, and the action's recipients.
#[derive(Debug, Clone, Copy)]
pub struct MailSettings<'a> {
    /// Sender, as [`crate::routing::submission::destination::parse_mailbox`] parses `mail.from`.
    pub from: &'a Mailbox,
    /// Kind of body.
    pub body: MailBody,
    /// Zone of the times shown.
    pub time_zone: &'a TimeZone,
    /// The action's targets; the usable ones are named in `To`, whether or not this attempt still sends to them, so that
    /// every attempt makes the same message.
    pub recipients: &'a [Target],
    /// Fields whose address is used for replies, the first with one: `mail.reply_to_fields`.
    pub reply_to_fields: &'a [String],
}

/// Complete source of a mail.
#[derive(Debug, Clone, Copy)]
pub struct ComposeInput<'a> {
    /// The submission.
    pub submission: SubmissionFacts<'a>,
    /// Name of the form; its id is used where there is none.
    pub form_name: Option<&'a str>,
    /// The submission's fields, by position; those of one position in the order given.
    pub fields: &'a [Field],
    /// The submission's final grade, where there is one.
    pub grade: Option<&'a Grade>,
    /// The action, as pinned.
    pub action: &'a PlannedAction,
    /// The action's generation.
    pub generation: u32,
    /// The submission's attachments, each with its place.
    pub attachments: &'a [Attachment],
    /// Files that a mail has inside.
    pub files: &'a [Enclosed],
    /// Settings of the mail.
    pub mail: MailSettings<'a>,
    /// `Date` of the mail, in whole seconds.
    pub date: Timestamp,
}

impl ComposeInput<'_> {
    fn form_name(&self) -> String {
        let name = self.form_name.map(one_line).filter(|name| !name.is_empty());
        bounded(name.unwrap_or_else(|| one_line(self.submission.form_id)), 200)
    }

    /// Id of the template in quotation marks, for faults.
    fn template_name(&self) -> String {
        let id = self.action.template_id.as_deref().unwrap_or_default();
        format!("\"{}\"", bounded(one_line(id), 80))
    }

    fn ordered_fields(&self) -> Vec<&Field> {
        let mut fields: Vec<&Field> = self.fields.iter().collect();
        fields.sort_by_key(|field| field.position);
        fields
    }

    fn mailboxes(&self) -> Vec<Mailbox> {
        self.mail
            .recipients
            .iter()
            .filter_map(|target| match &target.kind {
                TargetKind::Usable { address, name } => {
                    Some(Mailbox { address: address.clone(), name: name.clone() })
                }
                TargetKind::Unusable { .. } | TargetKind::None | TargetKind::OverLimit { .. } => None,
            })
            .collect()
    }
}

/// A mail ready to be sent. Its `Debug` shows neither subject nor text.
#[derive(Clone, PartialEq, Eq)]
pub struct Composed {
    /// The message: ASCII, lines ended by CRLF, not dot-stuffed.
    pub message: Message,
    /// Message-ID, in angle brackets.
    pub message_id: String,
    /// Subject, as a reader sees it.
    pub subject: String,
    /// Names without a value that the templates print, each a gap that readers see; no value is among them.
    pub missing: Vec<String>,
    /// Result of `mail.reply_to_fields`.
    pub reply_to: ReplyTo,
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composed")
            .field("message", &self.message)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

/// Reason why a mail cannot be made. Permanent: the same plan gives the same fault, so its deliveries are refused.
///
/// The text names action and template and says what to do; it never contains a field value or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeFault {
    /// The action is not carried out by mail.
    #[error("action {action_order} is a {action_type}, which is not carried out by mail")]
    NotMail {
        /// Order of the action.
        action_order: i32,
        /// Type of the action, as in the database.
        action_type: &'static str,
    },
    /// `mail.body = "template"`, and there is no template.
    #[error("action {action_order}: {what}; {REMEDY}")]
    TemplateMissing {
        /// Order of the action.
        action_order: i32,
        /// The missing template, or the missing part of it.
        what: String,
    },
    /// A pinned text does not render.
    #[error("action {action_order}: {what} cannot be rendered{}: {why}; {REMEDY}", line_text(*.line))]
    Unrenderable {
        /// Order of the action.
        action_order: i32,
        /// The pinned text at fault.
        what: String,
        /// Line in that text, from 1.
        line: Option<usize>,
        /// Reason by the template engine.
        why: String,
    },
    /// The mail library refuses our message.
    #[error("action {action_order}: the message cannot be built: {why}; see [mail] in the configuration")]
    Unbuildable {
        /// Order of the action.
        action_order: i32,
        /// Reason by the library.
        why: String,
    },
}

/// Remedy of a faulty template: a plan is pinned, so loading the YAML alone changes nothing for a failed submission.
const REMEDY: &str = "mend the form's YAML, load it, then `maple-router replay ID --replan`";

fn line_text(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl ComposeFault {
    /// Converts the fault to the outcome of the action's deliveries: refused at stage `template`.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let reply = bounded(one_line(&self.to_string()), 500);
        Outcome::Refused(Fault {
            stage: Stage::Template,
            reply: Reply { code: None, enhanced: None, reply },
            about_us: false,
        })
    }

    fn not_mail(input: &ComposeInput<'_>) -> Self {
        Self::NotMail {
            action_order: input.action.action_order,
            action_type: input.action.action_type.label(),
        }
    }

    fn template_missing(input: &ComposeInput<'_>) -> Self {
        let what = match input.action.template_id {
            Some(_) => format!("template {} does not exist", input.template_name()),
            None => "it names no template".to_owned(),
        };
        Self::TemplateMissing { action_order: input.action.action_order, what }
    }

    fn template_empty(input: &ComposeInput<'_>) -> Self {
        // Bodies are pinned only under `mail.body = "template"`: a plan pinned before the switch has none.
        let what = format!(
            "template {} has neither body_text nor body_html, or was pinned before mail.body was \"template\"",
            input.template_name()
        );
        Self::TemplateMissing { action_order: input.action.action_order, what }
    }

    fn unrenderable(input: &ComposeInput<'_>, what: String, fault: &template::RenderFault) -> Self {
        Self::Unrenderable {
            action_order: input.action.action_order,
            what,
            line: fault.line,
            why: bounded(one_line(&fault.what), 200),
        }
    }

    fn unbuildable(input: &ComposeInput<'_>, why: impl fmt::Display) -> Self {
        Self::Unbuildable { action_order: input.action.action_order, why: why.to_string() }
    }
}

/// Composes the mail of one action.
///
/// # Errors
/// A permanent fault of the plan; see [`ComposeFault`].
pub fn compose(input: &ComposeInput<'_>) -> Result<Composed, ComposeFault> {
    if !input.action.action_type.is_email() {
        return Err(ComposeFault::not_mail(input));
    }
    let variables = template::Variables::of(input);
    let subject = subject::subject(input, &variables)?;
    let bodies = body::bodies(input, &variables)?;
    let origin = Origin {
        submission: input.submission.id,
        action_order: input.action.action_order,
        generation: input.generation,
    };
    let message_id = message_id(origin, &input.mail.from.address);
    let (answers, reply_to) = reply_to::reply_to(input);
    let message = message::assemble(input, &message_id, &subject, answers.as_deref(), bodies)?;
    Ok(Composed { message, message_id, subject, missing: variables.missing(), reply_to })
}
