//! A ticket as it was made, and as the API shows it.
//!
//! Pure. Documented: the fields of HappyFox's example of a ticket (knowledge base, article 1039), `display_id` with its `#`
//! and eight digits among them, `tags` as one text, times in UTC. Guessed: that several tags are joined by a comma and a
//! space, and what stands in fields that nothing here fills.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::account::{Account, Field, STATUS};
use super::draft::Draft;
use super::payload::File;

/// The contact of a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contact {
    /// The contact's id; the same address has the same.
    pub id: u64,
    /// The name that the ticket's request gave.
    pub name: String,
    /// The address that the ticket's request gave.
    pub email: String,
    /// The phone number, where the request gave one.
    pub phone: Option<String>,
}

/// A ticket. Where only digests are kept ([`super::Keep::Digests`]), subject, message, contact, custom fields and files are
/// empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Ticket {
    /// Its number, from 1.
    pub id: u64,
    /// `#`, the prefix of its category, and its number in eight digits.
    pub display_id: String,
    /// Its category's id.
    pub category_id: u64,
    /// Its category's name when it was made.
    pub category: String,
    /// Subject.
    pub subject: String,
    /// The message in plain text, as the request had it.
    pub text: Option<String>,
    /// The message in HTML, as the request had it.
    pub html: Option<String>,
    /// Whom it is from.
    pub contact: Contact,
    /// Its priority's id.
    pub priority: u64,
    /// Its tags.
    pub tags: Vec<String>,
    /// Who gets copies.
    pub cc: Vec<String>,
    /// Who gets blind copies.
    pub bcc: Vec<String>,
    /// Whether it is private.
    pub visible_only_staff: bool,
    /// Custom fields of the ticket by id, as JSON would have them.
    pub ticket_fields: BTreeMap<u64, Value>,
    /// Custom fields of the contact by id, as JSON would have them.
    pub contact_fields: BTreeMap<u64, Value>,
    /// Attachments.
    pub files: Vec<File>,
    /// When it was made, by real time.
    pub created_at: Timestamp,
}

impl Ticket {
    /// Makes a ticket of a draft.
    pub(super) fn new(draft: Draft, id: u64, contact: u64, created_at: Timestamp) -> Self {
        Self {
            id,
            display_id: format!("#{}{id:08}", draft.category.prefix),
            category_id: draft.category.id,
            category: draft.category.name,
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            contact: Contact { id: contact, name: draft.name, email: draft.email, phone: draft.phone },
            priority: draft.priority,
            tags: draft.tags,
            cc: draft.cc,
            bcc: draft.bcc,
            visible_only_staff: draft.visible_only_staff,
            ticket_fields: draft.ticket_fields,
            contact_fields: draft.contact_fields,
            files: draft.files,
            created_at,
        }
    }

    /// Somebody else's ticket, which nobody made.
    pub(super) fn of_a_stranger(id: u64, created_at: Timestamp) -> Self {
        Self {
            id,
            display_id: format!("#STR{id:08}"),
            category_id: 1,
            category: "General".to_owned(),
            subject: "Somebody else's ticket".to_owned(),
            text: Some("You did not ask for this.".to_owned()),
            html: None,
            contact: Contact {
                id,
                name: "A Stranger".to_owned(),
                email: "stranger@help-desk.example".to_owned(),
                phone: None,
            },
            priority: super::account::DEFAULT_PRIORITY,
            tags: vec![format!("maple-{id:032x}-1-1")],
            cc: Vec::new(),
            bcc: Vec::new(),
            visible_only_staff: false,
            ticket_fields: BTreeMap::new(),
            contact_fields: BTreeMap::new(),
            files: Vec::new(),
            created_at,
        }
    }

    /// Keeps what a digest needs.
    pub(super) fn forget_content(&mut self) {
        *self = Self {
            display_id: std::mem::take(&mut self.display_id),
            category: std::mem::take(&mut self.category),
            tags: std::mem::take(&mut self.tags),
            subject: String::new(),
            text: None,
            html: None,
            contact: Contact::default(),
            cc: Vec::new(),
            bcc: Vec::new(),
            ticket_fields: BTreeMap::new(),
            contact_fields: BTreeMap::new(),
            files: Vec::new(),
            ..*self
        };
    }

    /// The ticket as `ticket/ID/`, the list and its creation answer it.
    pub(super) fn to_json(&self, account: &Account) -> Value {
        let created_at = self.created_at.strftime("%Y-%m-%d %H:%M:%S").to_string();
        // A category that was removed is shown as it was.
        let category = account.categories.iter().find(|known| known.id == self.category_id).map_or_else(
            || json!({"id": self.category_id, "name": self.category, "public": false}),
            super::account::Category::to_json,
        );
        let attachments: Vec<Value> = (1_u64..)
            .zip(&self.files)
            .map(|(id, file)| json!({"id": id, "filename": file.name, "url": "https://help-desk.example/not-served"}))
            .collect();
        let message = json!({
            "text": self.text, "html": self.html, "subject": self.subject, "attachments": attachments,
            "cc_list": self.cc.join(","), "bcc_list": self.bcc.join(","), "customer_updated": false,
            "forward_list": null, "message_type": null,
        });
        let update = json!({
            "update_id": self.id, "timestamp": created_at, "message": message,
            "by": {"type": "user", "id": self.contact.id, "name": self.contact.name, "email": self.contact.email},
        });
        json!({
            "id": self.id,
            "display_id": self.display_id,
            "subject": self.subject,
            "first_message": self.text.as_deref().or(self.html.as_deref()).unwrap_or_default(),
            "messages_count": 1,
            "attachments_count": self.files.len(),
            "status": Account::status_json(STATUS),
            "priority": Account::priority_json(self.priority),
            "category": category,
            "tags": self.tags.join(", "),
            "custom_fields": fields_json(&account.ticket_fields, &self.ticket_fields),
            "user": {
                "id": self.contact.id, "name": self.contact.name, "email": self.contact.email,
                "primary_phone": null, "phones": [], "contact_groups": [],
                "custom_fields": fields_json(&account.contact_fields, &self.contact_fields),
            },
            "visible_only_staff": self.visible_only_staff,
            "created_at": created_at,
            "last_updated_at": created_at,
            "last_modified": created_at,
            "last_user_reply_at": created_at,
            "last_staff_reply_at": null,
            "assigned_to": null,
            "due_date": null,
            "merged_tickets": [],
            "merged_to": null,
            "sla_breaches": 0,
            "source": "TKT_CREATION_API",
            "subscribers": [],
            "time_spent": 0,
            "unresponded": true,
            "updates": [update],
        })
    }

    /// The text that a custom field's value is shown and searched as, per choice.
    pub(super) fn labels(field: &Field, value: &Value) -> Vec<String> {
        let label = |value: &Value| match field.choices() {
            Some(choices) => {
                let id = value.as_u64();
                let found = choices.iter().find(|choice| Some(choice.id) == id);
                found.map(|choice| choice.text.clone()).unwrap_or_default()
            }
            None => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        };
        value.as_array().map_or_else(|| vec![label(value)], |items| items.iter().map(label).collect())
    }
}

fn fields_json(fields: &[Field], values: &BTreeMap<u64, Value>) -> Value {
    let shown = |field: &Field| {
        let value = values.get(&field.id);
        let shown = value.map(|value| Ticket::labels(field, value).join(", "));
        let id = value.filter(|_| field.choices().is_some());
        json!({
            "id": field.id, "name": field.name, "type": field.word(), "value": shown, "value_id": id,
            "visible_to_staff_only": false, "compulsory_on_complete": false,
        })
    };
    fields.iter().map(shown).collect()
}
