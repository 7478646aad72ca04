//! One ticket as the help desk would get it, for people and as JSON. Pure.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::ports::NewTicket;
use crate::routing::worker::prepare::RenderedTicket;

/// A ticket. Its `Debug` shows no address and no text.
#[derive(Serialize)]
pub(crate) struct Ticket {
    pub(crate) action_order: i32,
    pub(crate) ticket: TicketFields,
    /// The ticket is still to be made.
    pub(crate) open: bool,
    /// Names that its templates ask for and that have no value.
    pub(crate) missing: Vec<String>,
}

/// The fields of a ticket. Neither its category nor a choice of a custom field is looked up at the help desk.
#[derive(Serialize)]
pub(crate) struct TicketFields {
    pub(crate) category: String,
    pub(crate) subject: String,
    pub(crate) contact_name: String,
    pub(crate) contact_email: String,
    pub(crate) tags: Vec<String>,
    /// Custom fields of the ticket, by id.
    pub(crate) custom_fields: BTreeMap<u64, String>,
    /// Custom fields of the contact, by id.
    pub(crate) contact_custom_fields: BTreeMap<u64, String>,
    /// Names of files that go with it.
    pub(crate) files: Vec<String>,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("action_order", &self.action_order)
            .field("tags", &self.ticket.tags)
            .finish_non_exhaustive()
    }
}

impl From<RenderedTicket> for Ticket {
    fn from(rendered: RenderedTicket) -> Self {
        let RenderedTicket { action_order, ticket, open, missing, .. } = rendered;
        let NewTicket {
            category,
            subject,
            text,
            html,
            contact_name,
            contact_email,
            tags,
            ticket_fields,
            contact_fields,
            files,
        } = ticket;
        let ticket = TicketFields {
            category,
            subject,
            contact_name,
            contact_email,
            tags,
            custom_fields: ticket_fields,
            contact_custom_fields: contact_fields,
            files: files.into_iter().map(|file| file.name).collect(),
            text,
            html,
        };
        Self { action_order, ticket, open, missing }
    }
}

impl Ticket {
    /// The fields but the bodies, as names and values in the order of the page.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let ticket = &self.ticket;
        let contact = format!("{} <{}>", ticket.contact_name, ticket.contact_email);
        let mut headers = vec![
            ("Category".to_owned(), ticket.category.clone()),
            ("Subject".to_owned(), ticket.subject.clone()),
            ("Contact".to_owned(), contact.trim_start().to_owned()),
            ("Tags".to_owned(), ticket.tags.join(", ")),
        ];
        headers.extend(ticket.custom_fields.iter().map(|(id, value)| (format!("t-cf-{id}"), value.clone())));
        headers.extend(
            ticket.contact_custom_fields.iter().map(|(id, value)| (format!("c-cf-{id}"), value.clone())),
        );
        headers.extend(ticket.files.iter().map(|name| ("File".to_owned(), name.clone())));
        headers
    }

    /// The ticket for a terminal: its fields, its text, and its HTML where it has one.
    pub(crate) fn text(&self) -> String {
        let mut lines: Vec<String> =
            self.headers().into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        for body in [&self.ticket.text, &self.ticket.html].into_iter().flatten() {
            lines.push(String::new());
            lines.push(body.replace("\r\n", "\n").trim_end().to_owned());
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_shown_as_it_is_sent_and_never_logged() {
        let ticket = Ticket::from(RenderedTicket {
            action_order: 2,
            ticket: NewTicket {
                category: "Tips".to_owned(),
                subject: "A private tip".to_owned(),
                text: Some("Look\r\nthere\r\n".to_owned()),
                html: Some("<p>Look</p>".to_owned()),
                contact_name: "Ada".to_owned(),
                contact_email: "ada@x.test".to_owned(),
                tags: vec!["maple-aa-2-0".to_owned()],
                ticket_fields: BTreeMap::from([(12, "North".to_owned())]),
                contact_fields: BTreeMap::from([(4, "yes".to_owned())]),
                ..NewTicket::default()
            },
            open: true,
            links: 0,
            missing: Vec::new(),
        });
        assert_eq!(
            ticket.text(),
            "Category: Tips\nSubject: A private tip\nContact: Ada <ada@x.test>\nTags: maple-aa-2-0\nt-cf-12: North\n\
             c-cf-4: yes\n\nLook\nthere\n\n<p>Look</p>"
        );
        let json = serde_json::to_value(&ticket).expect("JSON");
        assert_eq!(json["ticket"]["custom_fields"]["12"], "North");
        assert_eq!((json["action_order"].clone(), json["open"].clone()), (2.into(), true.into()));
        let debug = format!("{ticket:?}");
        assert!(
            !debug.contains("ada") && !debug.contains("private") && debug.contains("maple-aa-2-0"),
            "{debug}"
        );
    }
}
