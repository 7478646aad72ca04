//! What an answer of 2xx says: the ticket that was made, or the tickets that a search found.
//!
//! Pure. A ticket's document repeats its content and may be longer than what is read of it, so its id is taken from the top
//! of a document that was cut; a search counts only when it was read to its end.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::ports::TicketRef;

/// Longest display id that is believed.
const LONGEST_DISPLAY_ID: usize = 40;

/// The ticket of an answer to its creation; `whole`: the body was read to its end.
///
/// # Errors
/// What keeps it from being one, in words.
pub(super) fn ticket(body: &str, whole: bool) -> Result<TicketRef, &'static str> {
    let mut seen = Seen::default();
    let mut reader = serde_json::Deserializer::from_str(body);
    let read =
        Top(&mut seen).deserialize(&mut reader).and_then(|()| if whole { reader.end() } else { Ok(()) });
    match read {
        Ok(()) => {}
        Err(error) if error.is_eof() && !whole => {}
        Err(_) => return Err("what it sent is no ticket"),
    }
    let Some(id) = seen.id else { return Err("the ticket it sent has no id") };
    let Some(id) = id.as_u64().filter(|id| *id > 0) else {
        return Err("the id of the ticket it sent is no number");
    };
    Ok(TicketRef { id, display_id: display_id(id, seen.display_id.as_ref()) })
}

/// The id that people see; the number where the answer has none of the usual shape.
fn display_id(id: u64, found: Option<&Value>) -> String {
    let usual = |text: &&str| {
        (1..=LONGEST_DISPLAY_ID).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let text = found.and_then(Value::as_str).map(|text| text.trim().trim_start_matches('#')).filter(usual);
    text.map_or_else(|| id.to_string(), str::to_owned)
}

/// What the top of a ticket's document has.
#[derive(Default)]
struct Seen {
    id: Option<Value>,
    display_id: Option<Value>,
}

struct Top<'a>(&'a mut Seen);

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ticket")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        // A number at the end of what was read may be the beginning of a longer one: it counts when something follows.
        let mut id = None;
        while let Some(key) = entries.next_key::<String>()? {
            self.0.id = id.take().or(self.0.id.take());
            match key.as_str() {
                "id" => id = Some(entries.next_value()?),
                "display_id" => self.0.display_id = Some(entries.next_value()?),
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.id = id.or(self.0.id.take());
        Ok(())
    }
}

/// One page of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Tickets with the tag that was searched for.
    pub(super) found: Vec<TicketRef>,
    /// How many pages there are.
    pub(super) pages: u64,
}

/// A ticket of a page. Its own tags decide, not that it was found.
#[derive(Deserialize)]
struct Listed {
    id: Option<Value>,
    display_id: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    tags: Option<Value>,
}

/// `null` is something that was said; a key that is away is not.
fn present<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(reader).map(Some)
}

#[derive(Deserialize)]
struct PageInfo {
    #[serde(default)]
    page_count: u64,
}

#[derive(Deserialize)]
struct Paged {
    page_info: Option<PageInfo>,
    data: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Listing {
    Page(Paged),
    /// The same, as the older reference shows it.
    Wrapped([Paged; 1]),
    Bare(Vec<Listed>),
}

/// The page of a search for `tag`.
///
/// # Errors
/// What keeps it from being one, in words: then nothing is known, least of all that there is no such ticket.
pub(super) fn page(body: &str, tag: &str) -> Result<Page, &'static str> {
    let listing = serde_json::from_str(body).map_err(|_| "what it sent is no list of tickets")?;
    let (listed, info) = match listing {
        Listing::Page(page) | Listing::Wrapped([page]) => (page.data, page.page_info),
        Listing::Bare(listed) => (listed, None),
    };
    let mut found = Vec::new();
    for Listed { id, display_id: shown, tags } in listed {
        let tags = tags.ok_or("the tickets it sent do not say their tags")?;
        if !has(&tags, tag) {
            continue;
        }
        let id = id.and_then(|id| id.as_u64()).filter(|id| *id > 0);
        let id = id.ok_or("a ticket it sent has our tag, and no id")?;
        found.push(TicketRef { id, display_id: display_id(id, shown.as_ref()) });
    }
    Ok(Page { found, pages: info.map_or(1, |info| info.page_count.max(1)) })
}

/// Says whether tags, a list or a text with commas, contain exactly this one.
fn has(tags: &Value, tag: &str) -> bool {
    match tags {
        Value::String(text) => text.split(',').any(|one| one.trim() == tag),
        Value::Array(items) => items.iter().any(|item| has(item, tag)),
        Value::Object(entries) => entries.get("name").is_some_and(|name| has(name, tag)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(id: u64, display_id: &str) -> TicketRef {
        TicketRef { id, display_id: display_id.to_owned() }
    }

    #[test]
    fn a_ticket_is_what_has_an_id_at_its_top() {
        for (body, whole, expected) in [
            (r#"{"id": 7, "display_id": "DC00000007"}"#, true, Ok(reference(7, "DC00000007"))),
            (r##"{"user": {"id": 1}, "id": 7, "display_id": "#DC7"}"##, true, Ok(reference(7, "DC7"))),
            (r#"{"id": 7}"#, true, Ok(reference(7, "7"))),
            (r#"{"id": 7, "display_id": "a@b\nc"}"#, true, Ok(reference(7, "7"))),
            (r#"{"id": 7, "display_id": 12}"#, true, Ok(reference(7, "7"))),
            (r#"{"id": 7, "updates": [{"te"#, false, Ok(reference(7, "7"))),
            (r#"{"updates": [{"text": "long"#, false, Err("the ticket it sent has no id")),
            (r#"{"id": 12"#, false, Err("the ticket it sent has no id")),
            (r#"{"id": 7, "updates": [{"te"#, true, Err("what it sent is no ticket")),
            (r#"{"id": 7} <html>"#, true, Err("what it sent is no ticket")),
            (r#"{"id": 7, oops"#, false, Err("what it sent is no ticket")),
            (r#"{"user": {"id": 1}}"#, true, Err("the ticket it sent has no id")),
            (r#"{"id": "7"}"#, true, Err("the id of the ticket it sent is no number")),
            (r#"{"id": 7.5}"#, true, Err("the id of the ticket it sent is no number")),
            (r#"{"id": -7}"#, true, Err("the id of the ticket it sent is no number")),
            (r#"{"id": 0}"#, true, Err("the id of the ticket it sent is no number")),
            (r#"{"id": null}"#, true, Err("the id of the ticket it sent is no number")),
            (r#"{"error": "no"}"#, true, Err("the ticket it sent has no id")),
            (r#"[{"id": 7}]"#, true, Err("what it sent is no ticket")),
            ("<html>", true, Err("what it sent is no ticket")),
            ("", true, Err("what it sent is no ticket")),
            ("", false, Err("the ticket it sent has no id")),
        ] {
            assert_eq!(ticket(body, whole), expected, "{body}");
        }
    }

    #[test]
    fn a_search_finds_only_what_has_the_tag_itself() {
        let tag = "maple-aa-1-1";
        let found = |ids: &[u64], pages| {
            Ok(Page { found: ids.iter().map(|id| reference(*id, &id.to_string())).collect(), pages })
        };
        for (body, expected) in [
            (
                r#"{"page_info": {"page_count": 1}, "data": [{"id": 1, "tags": ["maple-aa-1-1", "x"]}]}"#,
                found(&[1], 1),
            ),
            (
                r#"{"page_info": {"page_count": 3}, "data": [{"id": 1, "tags": "x, maple-aa-1-1"}]}"#,
                found(&[1], 3),
            ),
            (r#"[{"page_info": {"page_count": 0}, "data": []}]"#, found(&[], 1)),
            (
                r#"[{"id": 1, "tags": [{"name": "maple-aa-1-1"}]}, {"id": 2, "tags": "maple-aa-1-1"}]"#,
                found(&[1, 2], 1),
            ),
            (
                r#"{"data": [{"id": 1, "tags": "maple-aa-1-10"}, {"id": 2, "tags": null}, {"id": 3, "tags": "MAPLE-AA-1-1"}]}"#,
                found(&[], 1),
            ),
            (r#"{"data": [{"id": 1, "subject": "maple-aa-1-1", "tags": []}]}"#, found(&[], 1)),
            (r#"[]"#, found(&[], 1)),
            (r#"{"data": [{"id": 1}]}"#, Err("the tickets it sent do not say their tags")),
            (
                r#"{"data": [{"id": "1", "tags": "maple-aa-1-1"}]}"#,
                Err("a ticket it sent has our tag, and no id"),
            ),
            (r#"{"error": "no"}"#, Err("what it sent is no list of tickets")),
            (r#"[1, 2]"#, Err("what it sent is no list of tickets")),
            ("<html>", Err("what it sent is no list of tickets")),
            ("", Err("what it sent is no list of tickets")),
        ] {
            assert_eq!(page(body, tag), expected, "{body}");
        }
    }
}
