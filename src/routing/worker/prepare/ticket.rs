//! From an action that wants a ticket to that ticket.
//!
//! Nothing is asked of the help desk here: what it does not take it says itself. If we die, nothing happened.

use super::{Preparer, Source, log_missing, ours};
use crate::config::HappyFox;
use crate::ops::gate::Gate;
use crate::ports::{Fault, FileContent, NewTicket, Stage, TicketFile};
use crate::routing::compose;
use crate::routing::compose::Enclosed;
use crate::routing::submission::content::SubmissionContent;
use crate::routing::submission::destination;
use crate::routing::submission::message_id::Origin;
use crate::routing::submission::ticket::tag;

/// Rules that tickets are made by.
#[derive(Debug)]
pub struct TicketRules {
    /// `[happyfox]`
    pub settings: HappyFox,
    /// Shut while the help desk is out: tickets wait, and mails do not.
    pub gate: Gate,
}

impl Preparer {
    /// The same, its tickets behind this gate.
    #[must_use]
    pub fn with_tickets_behind(mut self, gate: &Gate) -> Self {
        if let Some(rules) = &mut self.tickets {
            rules.gate = gate.clone();
        }
        self
    }

    /// The ticket of an action, with its attachments inside or linked. What its templates miss is logged.
    pub(super) fn ticket(&self, rules: &TicketRules, source: &Source<'_>) -> Result<NewTicket, Fault> {
        let (ticket, missing) = self.ticket_and_gaps(rules, source)?;
        log_missing(source.id, &source.content.form_id, source.action.action_order, &missing);
        Ok(ticket)
    }

    /// The ticket of an action, and the names without a value that its templates print.
    pub(super) fn ticket_and_gaps(
        &self,
        rules: &TicketRules,
        source: &Source<'_>,
    ) -> Result<(NewTicket, Vec<String>), Fault> {
        let Source { id, action, content, .. } = *source;
        let settings = &rules.settings;
        let category = action.happyfox_category.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let category = category.ok_or_else(|| {
            ours(Stage::Category, "the action names no category: set happyfox_category in the form's YAML")
        })?;
        let (contact_name, contact_email) = contact(settings, content)?;
        let form = settings.forms.get(&content.form_id);
        let none = compose::Expressions::new();
        let fields = form.map_or(&none, |form| &form.custom_fields);
        let contact_fields = form.map_or(&none, |form| &form.contact_custom_fields);
        let composed = self
            .composing(source, |input| compose::compose_ticket(input, fields, contact_fields))
            .map_err(|fault| ours(Stage::Template, &fault.to_string()))?;
        let order = action.action_order;
        let generation = source.ledger.generation(order);
        let origin = Origin { submission: id, action_order: order, generation };
        let ticket = NewTicket {
            category: category.to_owned(),
            subject: composed.subject,
            text: Some(composed.text),
            html: composed.html,
            contact_name,
            contact_email,
            tags: vec![tag(origin)],
            ticket_fields: composed.fields,
            contact_fields: composed.contact_fields,
            files: source.files.iter().map(file).collect(),
        };
        Ok((ticket, composed.missing))
    }
}

fn file(enclosed: &Enclosed) -> TicketFile {
    TicketFile {
        name: enclosed.file_name.clone(),
        content_type: enclosed.content_type.clone(),
        content: FileContent::Spooled(enclosed.content.clone()),
    }
}

/// Name and address of the contact: the submission's own where it has a usable one, else the configured one.
fn contact(settings: &HappyFox, content: &SubmissionContent) -> Result<(String, String), Fault> {
    let value = |key: Option<&str>| {
        let found = content.fields.iter().find(|(name, _)| Some(name.as_str()) == key);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    };
    let own = value(settings.contact_email_field(&content.form_id));
    if let Some(Ok(mailbox)) = own.map(destination::parse_mailbox) {
        let name = value(settings.contact_name_field(&content.form_id)).map(str::to_owned);
        return Ok((name.or(mailbox.name).unwrap_or_default(), mailbox.address));
    }
    match &settings.fallback_contact_email {
        Some(address) => Ok((settings.fallback_contact_name.clone(), address.clone())),
        None => Err(ours(
            Stage::Contact,
            "the submission has no address that can be used as the ticket's contact: name its field as \
             happyfox.contact_email_field, or set happyfox.fallback_contact_email",
        )),
    }
}
