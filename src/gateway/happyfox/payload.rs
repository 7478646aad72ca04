//! The fields of a request that makes a ticket, cleaned, translated and bounded.
//!
//! Pure. What cannot be sent is refused here, with its name, before anybody is asked.

use serde_json::Value;

use super::directory::{CustomField, Directory, quoted};
use super::words::{is_printable, of_ours, of_ticket};
use crate::ports::{Fault, NewTicket, Stage};

/// Longest subject, in characters, its ellipsis included: most help desks keep 255.
pub const LONGEST_SUBJECT: usize = 250;
/// Longest name of a contact, in characters.
const LONGEST_NAME: usize = 100;
/// Longest address, in bytes (RFC 5321 §4.5.3.1.3).
const LONGEST_ADDRESS: usize = 254;
/// Longest tag, in bytes.
const LONGEST_TAG: usize = 100;
/// Longest name of a file, in characters.
const LONGEST_FILE_NAME: usize = 150;

/// A field of the request: its name, and its value in JSON.
pub(super) type Field = (String, Value);

/// Refuses what can never be sent, whatever the help desk knows.
///
/// # Errors
/// The fault: of the ticket, or of ours where a tag could not be searched for.
pub(super) fn check(ticket: &NewTicket) -> Result<(), Fault> {
    let address = &ticket.contact_email;
    let odd = |c: char| c.is_control() || c.is_whitespace();
    let sound = address.len() <= LONGEST_ADDRESS
        && !address.contains(odd)
        && address.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    if !sound {
        return Err(of_ticket(Stage::Contact, "the contact of the ticket is no address that can be sent"));
    }
    if body(ticket.text.as_deref()).is_none() && body(ticket.html.as_deref()).is_none() {
        return Err(of_ticket(Stage::Template, "the ticket has neither text nor HTML"));
    }
    match ticket.tags.iter().find(|tag| !is_tag(tag)) {
        // Whoever sends it cannot find it again, and doubt would never end.
        Some(tag) => {
            Err(of_ours(Stage::Post, &format!("{} is no tag that can be searched for", quoted(tag))))
        }
        None => Ok(()),
    }
}

/// A tag that a list with commas and a search with quotes take as it is.
#[must_use]
pub(super) fn is_tag(tag: &str) -> bool {
    (1..=LONGEST_TAG).contains(&tag.len())
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// The fields of a ticket that [`check`] took, the category first. A field that the directory does not know is a fault of the
/// ticket: the directory may be older than the field.
///
/// # Errors
/// A fault of the ticket that names the category, the field or the choice.
pub(super) fn fields(ticket: &NewTicket, directory: &Directory) -> Result<Vec<Field>, Fault> {
    let category = directory.category(&ticket.category)?.id;
    let mut fields: Vec<Field> = vec![("category".to_owned(), Value::from(category))];
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), Value::from(value)));
    add("subject", subject(&ticket.subject));
    for (name, content) in [("text", &ticket.text), ("html", &ticket.html)] {
        if let Some(content) = body(content.as_deref()) {
            add(name, content);
        }
    }
    add("name", contact_name(ticket));
    add("email", ticket.contact_email.clone());
    if !ticket.tags.is_empty() {
        add("tags", ticket.tags.join(","));
    }
    let own = ticket.ticket_fields.iter().map(|(id, value)| ("t-cf", "tickets", id, value));
    let contact = ticket.contact_fields.iter().map(|(id, value)| ("c-cf", "contacts", id, value));
    for (prefix, whose, id, value) in own.chain(contact) {
        let known = if prefix == "t-cf" { &directory.ticket_fields } else { &directory.contact_fields };
        let field = known.get(id).ok_or_else(|| unknown_field(*id, whose))?;
        if let Some(value) = self::value(field, value)? {
            fields.push((format!("{prefix}-{id}"), value));
        }
    }
    Ok(fields)
}

/// The fault of a ticket with a field that the help desk does not know.
pub(super) fn unknown_field(id: u64, whose: &str) -> Fault {
    let words = format!("the help desk knows no custom field {id} of {whose}: correct [happyfox.forms]");
    of_ticket(Stage::Field, &words)
}

/// The value of a field as it is sent; `None` where there is nothing to be sent.
///
/// # Errors
/// A fault of the ticket that names the field and the choice.
pub(super) fn value(field: &CustomField, rendered: &str) -> Result<Option<Value>, Fault> {
    field.value(&text(rendered))
}

/// One line of at most [`LONGEST_SUBJECT`] characters.
fn subject(subject: &str) -> String {
    let line = line(subject);
    if line.is_empty() {
        return "(no subject)".to_owned();
    }
    if line.chars().count() <= LONGEST_SUBJECT {
        return line;
    }
    let mut cut: String = line.chars().take(LONGEST_SUBJECT - 1).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// The name of the contact; its address where there is none: the help desk wants a name.
fn contact_name(ticket: &NewTicket) -> String {
    let name: String = line(&ticket.contact_name).chars().take(LONGEST_NAME).collect();
    if name.trim().is_empty() { ticket.contact_email.clone() } else { name }
}

/// A body without control characters; `None` where nothing is left.
fn body(content: Option<&str>) -> Option<String> {
    let content = text(content?);
    (!content.trim().is_empty()).then_some(content)
}

/// Lines and tabs stay, other control characters go.
fn text(content: &str) -> String {
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    content.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// One line, without control characters and others that only change how a text looks.
fn line(content: &str) -> String {
    let printable: String = content.chars().map(|c| if is_printable(c) { c } else { ' ' }).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name that a header takes between quotes.
#[must_use]
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if matches!(c, '"' | '\\' | '/') { '_' } else { c };
    let name: String = line(name).chars().map(plain).collect();
    let kept: String = match name.char_indices().rev().nth(LONGEST_FILE_NAME - 1) {
        // The end has the ending.
        Some((at, _)) => name[at..].to_owned(),
        None => name,
    };
    if kept.is_empty() { "file".to_owned() } else { kept }
}

/// The value of a field in a form, where everything is text; several for a list.
#[must_use]
pub(super) fn in_form(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(in_form).collect(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => vec![value.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn directory() -> Directory {
        let fields = r#"[{"id": 3, "name": "Region", "type": "dropdown", "choices": [{"id": 30, "text": "North"}]}, {"id": 4, "type": "text"}]"#;
        Directory::read(r#"[{"id": 7, "name": "Tips", "public": true}]"#, fields, fields).expect("lists")
    }

    fn ticket() -> NewTicket {
        NewTicket {
            category: "Tips".to_owned(),
            subject: "A tip".to_owned(),
            text: Some("Look\r\nthere\u{7}".to_owned()),
            contact_name: "Ada\nLovelace".to_owned(),
            contact_email: "ada@example.org".to_owned(),
            tags: vec!["maple-aa-1-1".to_owned(), "tip".to_owned()],
            ticket_fields: BTreeMap::from([(3, "North".to_owned()), (4, " ".to_owned())]),
            contact_fields: BTreeMap::from([(4, "x\u{0}y".to_owned())]),
            ..NewTicket::default()
        }
    }

    #[test]
    fn a_ticket_becomes_clean_fields() {
        assert_eq!(check(&ticket()), Ok(()));
        let fields = fields(&ticket(), &directory()).expect("fields");
        let expected = [
            ("category", json!(7)),
            ("subject", json!("A tip")),
            ("text", json!("Look\nthere")),
            ("name", json!("Ada Lovelace")),
            ("email", json!("ada@example.org")),
            ("tags", json!("maple-aa-1-1,tip")),
            ("t-cf-3", json!(30)),
            ("c-cf-4", json!("xy")),
        ];
        let expected: Vec<Field> =
            expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(fields, expected);
        assert_eq!(in_form(&json!([1, "a"])), ["1", "a"]);
    }

    #[test]
    fn what_can_never_be_sent_is_refused_with_its_stage() {
        type Change = fn(&mut NewTicket);
        let cases: [(Change, Stage, &str); 12] = [
            (|t| t.contact_email.push_str("\r\nBcc: x@y"), Stage::Contact, "contact"),
            (|t| t.contact_email = "a b@example.org".to_owned(), Stage::Contact, "contact"),
            (|t| t.contact_email = "a\0@example.org".to_owned(), Stage::Contact, "contact"),
            (|t| t.contact_email = "@example.org".to_owned(), Stage::Contact, "contact"),
            (|t| t.contact_email.clear(), Stage::Contact, "contact"),
            (|t| t.contact_email = format!("{}@example.org", "x".repeat(250)), Stage::Contact, "contact"),
            (|t| t.text = Some("\u{7}\r\n".to_owned()), Stage::Template, "neither text nor HTML"),
            (|t| t.tags.push("a,b".to_owned()), Stage::Post, "\"a,b\" is no tag"),
            (|t| t.tags.push(String::new()), Stage::Post, "is no tag"),
            (|t| t.category = "Gone".to_owned(), Stage::Category, "\"Gone\" does not exist"),
            (
                |t| t.ticket_fields = BTreeMap::from([(9, "x".to_owned())]),
                Stage::Field,
                "no custom field 9 of tickets",
            ),
            (
                |t| t.contact_fields = BTreeMap::from([(3, "South".to_owned())]),
                Stage::Field,
                "no choice \"South\"",
            ),
        ];
        for (change, stage, words) in cases {
            let mut ticket = ticket();
            change(&mut ticket);
            let fault = check(&ticket).and_then(|()| fields(&ticket, &directory())).expect_err("refused");
            assert_eq!(fault.stage, stage, "{fault:?}");
            assert!(fault.reply.reply.contains(words), "{fault:?}");
        }
    }

    #[test]
    fn texts_are_bounded() {
        let long = subject(&"ä".repeat(10_000));
        assert_eq!(long.chars().count(), LONGEST_SUBJECT);
        assert!(long.ends_with('…'), "{long}");
        assert_eq!(subject(&"ä".repeat(LONGEST_SUBJECT)).chars().last(), Some('ä'));
        assert_eq!(subject("a\r\n\tb\u{202e}c"), "a b c");
        assert_eq!(subject("\0"), "(no subject)");
        assert_eq!(
            contact_name(&NewTicket { contact_email: "a@b".to_owned(), ..NewTicket::default() }),
            "a@b"
        );
        for (name, expected) in [
            ("plan.pdf", "plan.pdf"),
            ("a\"b\\c/d\r\ne.pdf", "a_b_c_d e.pdf"),
            ("", "file"),
            ("\u{202e}", "file"),
            ("żółw.png", "żółw.png"),
        ] {
            assert_eq!(file_name(name), expected);
        }
        let long = file_name(&format!("{}.pdf", "ż".repeat(1000)));
        assert!(long.ends_with(".pdf") && long.chars().count() == LONGEST_FILE_NAME, "{long}");
    }
}
