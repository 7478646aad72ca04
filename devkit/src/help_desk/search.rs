//! `q=…` of `GET tickets/`: terms, all of which a ticket must meet.
//!
//! Pure. Documented (knowledge base, article 1039): `tag:"a","b"` finds tickets with one of these tags and heeds case;
//! `id:DC00000003,2` takes display ids without `#` and numbers; `status:`, `priority:`, `contact:`; custom fields by name,
//! `Name:"value"` or `"Long name":"value"`, without regard to case, choices by label; several terms separated by a space (`+`
//! in an address). Guessed: that several terms must all hold (the README of hfox says so of words), that words are looked for
//! in subject and message, and that an unknown field is refused. Searches by date, assignee, group and the like are documented
//! and not spoken here: they are refused.

use super::account::{Account, STATUS};
use super::refusal::Refusal;
use super::ticket::Ticket;

/// Documented fields that nothing here understands.
const NOT_SPOKEN: [&str; 6] = ["assignee", "breached", "duedate", "group", "has_attachments", "unresponded"];

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Tag(Vec<String>),
    Id(Vec<String>),
    Status(Vec<String>),
    Priority(Vec<String>),
    Contact(Vec<String>),
    Field(String, Vec<String>),
    Word(String),
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Query(Vec<Term>);

impl Query {
    /// Reads the text of `q`.
    pub(super) fn parse(text: &str, account: &Account) -> Result<Self, Refusal> {
        let refuse = |words: &str| Refusal::of_field("q", words);
        let mut rest = Rest(text);
        let mut terms = Vec::new();
        while rest.skip_blanks() {
            let word = rest.word(&[':', ' ']).ok_or_else(|| refuse("a quote without an end"))?;
            if !rest.take(':') {
                terms.push(Term::Word(word.to_lowercase()));
                continue;
            }
            let mut values = Vec::new();
            loop {
                let value = rest.word(&[',', ' ']).ok_or_else(|| refuse("a quote without an end"))?;
                if value.is_empty() {
                    return Err(refuse(&format!("{word}: what?")));
                }
                values.push(value);
                if !rest.take(',') {
                    break;
                }
            }
            terms.push(match word.as_str() {
                "tag" => Term::Tag(values),
                "id" => Term::Id(values),
                "status" => Term::Status(values),
                "priority" => Term::Priority(values),
                "contact" => Term::Contact(lowered(values)),
                name if NOT_SPOKEN.contains(&name) || is_date_term(name) => {
                    return Err(refuse(&format!("{name}: documented, but not spoken by this stand-in")));
                }
                name => {
                    let known = account.ticket_fields.iter().chain(&account.contact_fields);
                    if !known.into_iter().any(|field| field.name.eq_ignore_ascii_case(name)) {
                        return Err(refuse(&format!("no field {name:?}")));
                    }
                    Term::Field(name.to_lowercase(), lowered(values))
                }
            });
        }
        Ok(Self(terms))
    }

    /// The tags that are asked for.
    pub(super) fn tags(&self) -> Vec<String> {
        let tags = |term: &Term| if let Term::Tag(tags) = term { tags.clone() } else { Vec::new() };
        self.0.iter().flat_map(tags).collect()
    }

    /// Whether a ticket meets all terms.
    pub(super) fn finds(&self, ticket: &Ticket, account: &Account) -> bool {
        self.0.iter().all(|term| match term {
            Term::Tag(tags) => tags.iter().any(|tag| ticket.tags.contains(tag)),
            Term::Id(ids) => ids.iter().any(|id| {
                *id == ticket.id.to_string() || ticket.display_id.strip_prefix('#') == Some(id.as_str())
            }),
            Term::Status(names) => names.iter().any(|name| name == Account::status_name(STATUS)),
            Term::Priority(names) => {
                names.iter().any(|name| name.eq_ignore_ascii_case(Account::priority_name(ticket.priority)))
            }
            Term::Contact(words) => {
                let contact = &ticket.contact;
                let lookup = format!("{} {}", contact.name, contact.email).to_lowercase();
                words.iter().any(|word| lookup.contains(word))
            }
            Term::Field(name, values) => {
                let of_ticket = account.ticket_fields.iter().map(|field| (field, &ticket.ticket_fields));
                let of_contact = account.contact_fields.iter().map(|field| (field, &ticket.contact_fields));
                of_ticket
                    .chain(of_contact)
                    .filter(|(field, _)| field.name.to_lowercase() == *name)
                    .filter_map(|(field, has)| has.get(&field.id).map(|value| Ticket::labels(field, value)))
                    .flatten()
                    .any(|label| values.contains(&label.to_lowercase()))
            }
            Term::Word(word) => [Some(&ticket.subject), ticket.text.as_ref(), ticket.html.as_ref()]
                .into_iter()
                .flatten()
                .any(|text| text.to_lowercase().contains(word)),
        })
    }
}

fn lowered(values: Vec<String>) -> Vec<String> {
    values.into_iter().map(|value| value.to_lowercase()).collect()
}

/// `created-on`, `last-modified-before` and their like.
fn is_date_term(name: &str) -> bool {
    ["created-", "last-"].iter().any(|start| name.starts_with(start))
}

/// The text that is not read yet.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// Passes blanks; whether anything is left.
    fn skip_blanks(&mut self) -> bool {
        self.0 = self.0.trim_start();
        !self.0.is_empty()
    }

    /// Passes this character, where it comes next.
    fn take(&mut self, wanted: char) -> bool {
        let rest = self.0.strip_prefix(wanted);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Reads to the closing quote, or up to one of `ends`; none where a quote is not closed.
    fn word(&mut self, ends: &[char]) -> Option<String> {
        if self.take('"') {
            let (word, rest) = self.0.split_once('"')?;
            self.0 = rest;
            return Some(word.to_owned());
        }
        let end = self.0.find(ends).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn finds(q: &str) -> bool {
        let account = Account::sample();
        let mut ticket = Ticket::of_a_stranger(7, Timestamp::UNIX_EPOCH);
        ticket.tags = vec!["maple-a-1-1".to_owned(), "VIP".to_owned()];
        ticket.ticket_fields.insert(2, json!(12));
        Query::parse(q, &account).expect(q).finds(&ticket, &account)
    }

    #[test]
    fn every_term_must_hold_and_any_of_its_values_does() {
        for (q, expected) in [
            ("", true),
            ("tag:\"maple-a-1-1\"", true),
            ("tag:maple-a-1-1", true),
            ("tag:\"maple-a-1-10\"", false),
            ("tag:\"maple-a-1\"", false),
            ("tag:\"MAPLE-A-1-1\"", false),
            ("tag:\"x\",\"VIP\"", true),
            ("tag:\"VIP\" tag:\"x\"", false),
            ("id:STR00000007", true),
            ("id:#STR00000007", false),
            ("id:3,7", true),
            ("id:70", false),
            ("status:\"New\",\"Closed\"", true),
            ("status:\"In Progress\"", false),
            ("priority:\"MEDIUM\"", true),
            ("contact:\"Stranger@help-desk.example\"", true),
            ("Kind:\"complaint\"", true),
            ("\"Kind\":\"Question\"", false),
            ("somebody ticket", true),
            ("somebody tacket", false),
        ] {
            assert_eq!(finds(q), expected, "{q}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for q in
            ["tag:\"a", "tag:", "tag:\"a\",", "created-on:\"2026/01/01\"", "assignee:none", "colour:\"red\""]
        {
            let refused = Query::parse(q, &Account::sample()).expect_err(q);
            assert_eq!((refused.status, refused.errors[0].0.as_str()), (400, "q"), "{q}");
        }
    }
}
