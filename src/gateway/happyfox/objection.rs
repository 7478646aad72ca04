//! What of a ticket would be refused, as far as the help desk's lists tell: asked before anything is decided to be sent.
//!
//! Pure. The words may be shown to anybody: they name categories and fields, and never what a submission has in them. What the
//! lists do not tell, a field that this category requires among it, the help desk says itself.

use super::directory::{CustomField, Directory, quoted};
use super::payload;
use super::words::of_ticket;
use crate::ports::{Fault, NewTicket, Stage};

/// Every reason for which the ticket would be refused; none where nothing is known against it.
#[must_use]
pub fn objections(ticket: &NewTicket, directory: &Directory) -> Vec<Fault> {
    let mut found: Vec<Fault> = payload::check(ticket).err().into_iter().collect();
    found.extend(directory.category(&ticket.category).err());
    for (whose, values, known) in [
        ("tickets", &ticket.ticket_fields, &directory.ticket_fields),
        ("contacts", &ticket.contact_fields, &directory.contact_fields),
    ] {
        for (id, value) in values {
            match known.get(id) {
                None => found.push(payload::unknown_field(*id, whose)),
                Some(field) => {
                    found.extend(payload::value(field, value).err().map(|_| unknown_choice(field)));
                }
            }
        }
    }
    found
}

/// The words of a refused choice without the choice: it is what somebody wrote into a form.
fn unknown_choice(field: &CustomField) -> Fault {
    let name = quoted(&field.name);
    let words = format!("custom field {} ({name}) has no such choice as its expression gives", field.id);
    of_ticket(Stage::Field, &words)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn directory() -> Directory {
        let categories = r#"[{"id": 7, "name": "Tips"}, {"id": 8, "name": "Staff", "public": false}]"#;
        let fields =
            r#"[{"id": 3, "name": "Region", "type": "dropdown", "choices": [{"id": 30, "text": "North"}]}]"#;
        Directory::read(categories, fields, fields).expect("lists")
    }

    fn ticket() -> NewTicket {
        NewTicket {
            category: "Tips".to_owned(),
            text: Some("Look".to_owned()),
            contact_email: "ada@example.org".to_owned(),
            tags: vec!["maple-aa-1-1".to_owned()],
            ticket_fields: BTreeMap::from([(3, "North".to_owned())]),
            ..NewTicket::default()
        }
    }

    #[test]
    fn what_would_be_refused_is_named_without_what_a_submission_has() {
        type Change = fn(&mut NewTicket);
        let cases: [(Change, &[(Stage, &str)]); 8] = [
            (|_| {}, &[]),
            (|t| t.ticket_fields = BTreeMap::from([(3, " ".to_owned())]), &[]),
            (|t| t.category = "Gone".to_owned(), &[(Stage::Category, "\"Gone\" does not exist")]),
            (|t| t.category = "8".to_owned(), &[(Stage::Category, "\"8\" is not public")]),
            (|t| t.contact_email = "secret".to_owned(), &[(Stage::Contact, "no address")]),
            (|t| t.text = None, &[(Stage::Template, "neither text nor HTML")]),
            (
                |t| t.ticket_fields = BTreeMap::from([(3, "secret".to_owned()), (9, "secret".to_owned())]),
                &[
                    (Stage::Field, "3 (\"Region\") has no such choice"),
                    (Stage::Field, "no custom field 9 of tickets"),
                ],
            ),
            (
                |t| {
                    t.category = "Gone".to_owned();
                    t.contact_fields = BTreeMap::from([(3, "secret".to_owned())]);
                },
                &[(Stage::Category, "does not exist"), (Stage::Field, "no such choice")],
            ),
        ];
        for (change, expected) in cases {
            let mut ticket = ticket();
            change(&mut ticket);
            let found = objections(&ticket, &directory());
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (fault, (stage, words)) in found.iter().zip(expected) {
                let said = &fault.reply.reply;
                assert!(fault.stage == *stage && said.contains(words), "{fault:?}");
                assert!(!said.contains("secret"), "{said}");
            }
            let sent = payload::check(&ticket).and_then(|()| payload::fields(&ticket, &directory()));
            assert_eq!(sent.is_err(), !expected.is_empty(), "as when it is sent");
        }
    }
}
