//! What the help desk knows beforehand: its categories, its custom fields and their choices.
//!
//! Pure. Ids are those of the API's lists, not of the agents' pages. An entry that cannot be read is left out, so that an odd
//! one is no fault of the others; a list that is none is an outage.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Number, Value};

use super::words::{cut, of_ticket};
use crate::ports::{Fault, Stage};
use crate::scrub::scrub;

/// Most of a text of ours or theirs that is shown inside a sentence, in characters.
const SHOWN: usize = 60;

/// A category of tickets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Category {
    /// Id of the category.
    pub id: u64,
    /// Name of the category.
    #[serde(default)]
    pub name: String,
    /// Whether tickets may be made in it; a list that does not say so leaves it to the help desk.
    #[serde(default = "yes")]
    pub public: bool,
}

fn yes() -> bool {
    true
}

/// A choice of a custom field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Choice {
    /// Id of the choice.
    pub id: u64,
    /// Text of the choice.
    #[serde(default)]
    pub text: String,
}

/// A custom field of tickets or of contacts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CustomField {
    /// Id of the field.
    pub id: u64,
    /// Name of the field.
    #[serde(default)]
    pub name: String,
    /// Kind of the field, in the help desk's words: `text`, `number`, `dropdown`, …
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Whether a ticket needs it.
    #[serde(default)]
    pub required: bool,
    /// Choices of the field, where it has some.
    #[serde(default, deserialize_with = "choices")]
    pub choices: Vec<Choice>,
}

/// `null` stands for no choices.
fn choices<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Choice>, D::Error> {
    let items = Option::<Vec<Value>>::deserialize(from)?.unwrap_or_default();
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// The lists of an account, as they were when they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directory {
    /// Categories, in the help desk's order.
    pub categories: Vec<Category>,
    /// Custom fields of tickets, by id.
    pub ticket_fields: BTreeMap<u64, CustomField>,
    /// Custom fields of contacts, by id.
    pub contact_fields: BTreeMap<u64, CustomField>,
}

impl Directory {
    /// Reads the three lists.
    ///
    /// # Errors
    /// The list that is none, in words.
    pub(super) fn read(
        categories: &str,
        ticket_fields: &str,
        contact_fields: &str,
    ) -> Result<Self, &'static str> {
        let by_id = |fields: Vec<CustomField>| fields.into_iter().map(|field| (field.id, field)).collect();
        Ok(Self {
            categories: list(categories).ok_or("categories/ is no list")?,
            ticket_fields: list(ticket_fields).map(by_id).ok_or("ticket_custom_fields/ is no list")?,
            contact_fields: list(contact_fields).map(by_id).ok_or("user_custom_fields/ is no list")?,
        })
    }

    /// The public category with this id, or with exactly this name.
    ///
    /// # Errors
    /// A fault of the ticket that names the category.
    pub fn category(&self, wanted: &str) -> Result<&Category, Fault> {
        let wanted = wanted.trim();
        let by_id = wanted.parse::<u64>().ok();
        let by_id = by_id.and_then(|id| self.categories.iter().find(|category| category.id == id));
        let named: Vec<&Category> = self.categories.iter().filter(|c| c.name.trim() == wanted).collect();
        let refused = |why: &str| {
            Err(of_ticket(Stage::Category, &format!("the help desk's category {} {why}", quoted(wanted))))
        };
        let found = match (by_id, &named[..]) {
            (Some(category), _) => category,
            (None, [category]) => *category,
            (None, []) => {
                return refused(
                    "does not exist: correct it in the form's action, by its id or its exact name",
                );
            }
            (None, _) => {
                return refused(
                    "is the name of several: name its id in the form's action instead of its name",
                );
            }
        };
        if found.public {
            return Ok(found);
        }
        refused("is not public: make it public there, or name another in the form's action")
    }
}

impl CustomField {
    /// The value to be sent for a rendered one; `None` where there is nothing to be sent. The text of a choice becomes its id;
    /// a field of several takes them with commas between.
    ///
    /// # Errors
    /// A fault of the ticket that names the field and the choice.
    pub fn value(&self, rendered: &str) -> Result<Option<Value>, Fault> {
        let rendered = rendered.trim();
        if rendered.is_empty() {
            return Ok(None);
        }
        if !self.choices.is_empty() {
            return self.chosen(rendered).map(Some);
        }
        let number = self.kind == "number";
        let number = number.then(|| rendered.parse::<Number>().ok()).flatten();
        Ok(Some(number.map_or_else(|| Value::from(rendered), Value::Number)))
    }

    fn chosen(&self, rendered: &str) -> Result<Value, Fault> {
        let several = self.kind.contains("multi");
        if let Some(id) = self.choice(rendered) {
            return Ok(if several { Value::from(vec![id]) } else { Value::from(id) });
        }
        let unknown = |text: &str| {
            let name = quoted(&self.name);
            let words = format!("custom field {} ({name}) has no choice {}", self.id, quoted(text));
            of_ticket(Stage::Field, &words)
        };
        if !several {
            return Err(unknown(rendered));
        }
        let texts = rendered.split(',').map(str::trim).filter(|text| !text.is_empty());
        let ids = texts.map(|text| self.choice(text).ok_or_else(|| unknown(text)));
        Ok(Value::from(ids.collect::<Result<Vec<u64>, Fault>>()?))
    }

    /// Id of the choice with this text, else with this id.
    fn choice(&self, text: &str) -> Option<u64> {
        let by_text = self.choices.iter().find(|choice| choice.text.trim() == text);
        let id = text.parse::<u64>().ok();
        by_text.or_else(|| self.choices.iter().find(|choice| Some(choice.id) == id)).map(|choice| choice.id)
    }
}

/// A text of somebody else inside a sentence of ours.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", cut(&scrub(text), SHOWN).replace('"', "'"))
}

/// The entries of a list that can be read: a list itself, or a page's `data`.
fn list<T: for<'de> Deserialize<'de>>(body: &str) -> Option<Vec<T>> {
    let entries = match serde_json::from_str(body).ok()? {
        Value::Array(entries) => entries,
        Value::Object(mut page) => match page.remove("data")? {
            Value::Array(entries) => entries,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                return None;
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    Some(entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CATEGORIES: &str = r#"[
        {"id": 1, "name": "General", "public": true, "prefix": "G"},
        {"id": 2, "name": "Staff only", "public": false},
        {"id": 3, "name": "2", "public": true},
        {"id": 4, "name": "Twice", "public": true}, {"id": 5, "name": "Twice", "public": true},
        {"id": "x", "name": "odd"}, 7, {"id": 8, "name": "Unsaid"}
    ]"#;
    const FIELDS: &str = r#"[
        {"id": 1, "name": "Phone", "type": "text", "required": false, "choices": null},
        {"id": 2, "name": "Count", "type": "number", "required": true},
        {"id": 3, "name": "Region", "type": "dropdown", "choices": [
            {"id": 30, "text": "North"}, {"id": 31, "text": "South, far"}, {"id": 32, "text": "30"}, {"text": "odd"}]},
        {"id": 4, "name": "Topics", "type": "multiple_choice", "choices": [
            {"id": 40, "text": "Whales"}, {"id": 41, "text": "Ice"}, {"id": 42, "text": "Oil, gas"}]}
    ]"#;

    fn directory() -> Directory {
        Directory::read(CATEGORIES, FIELDS, r#"{"data": []}"#).expect("three lists")
    }

    #[test]
    fn a_category_is_found_by_id_or_exact_name_and_is_public() {
        let directory = directory();
        for (wanted, expected) in [
            ("1", Ok(1)),
            (" General ", Ok(1)),
            ("8", Ok(8)),
            ("general", Err("\"general\" does not exist")),
            ("2", Err("\"2\" is not public")),
            ("Staff only", Err("is not public")),
            ("3", Ok(3)),
            ("Twice", Err("is the name of several")),
            ("5", Ok(5)),
            ("odd", Err("does not exist")),
            ("", Err("does not exist")),
            ("99999999999999999999999", Err("does not exist")),
        ] {
            match (directory.category(wanted), expected) {
                (Ok(category), Ok(id)) => assert_eq!(category.id, id, "{wanted}"),
                (Err(fault), Err(words)) => {
                    assert!(fault.reply.reply.contains(words), "{wanted}: {fault:?}");
                    assert_eq!((fault.stage, fault.about_us), (Stage::Category, false));
                }
                (found, _) => panic!("{wanted}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_text_of_a_choice_becomes_its_id_and_an_unknown_one_is_named() {
        let directory = directory();
        for (field, rendered, expected) in [
            (1, " +31 20 1 ", Ok(Some(json!("+31 20 1")))),
            (1, "  ", Ok(None)),
            (2, "12", Ok(Some(json!(12)))),
            (2, "1.5", Ok(Some(json!(1.5)))),
            (2, "many", Ok(Some(json!("many")))),
            (3, "North", Ok(Some(json!(30)))),
            (3, "South, far", Ok(Some(json!(31)))),
            (3, "30", Ok(Some(json!(32)))),
            (3, "31", Ok(Some(json!(31)))),
            (3, "north", Err("custom field 3 (\"Region\") has no choice \"north\"")),
            (3, "a@example.org", Err("has no choice \"<address>\"")),
            (3, "", Ok(None)),
            (4, "Whales", Ok(Some(json!([40])))),
            (4, "Whales, Ice,", Ok(Some(json!([40, 41])))),
            (4, "Oil, gas", Ok(Some(json!([42])))),
            (4, "Whales, Coal", Err("has no choice \"Coal\"")),
        ] {
            match (directory.ticket_fields[&field].value(rendered), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{field} {rendered}"),
                (Err(fault), Err(words)) => {
                    assert!(fault.reply.reply.contains(words), "{fault:?}");
                    assert_eq!((fault.stage, fault.about_us), (Stage::Field, false));
                }
                (found, _) => panic!("{field} {rendered}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_list_that_is_none_is_told() {
        for (lists, expected) in [
            (["{}", "[]", "[]"], "categories/"),
            (["[]", "<html>", "[]"], "ticket_custom_fields/"),
            (["[]", "[]", r#"{"data": 1}"#], "user_custom_fields/"),
        ] {
            let found = Directory::read(lists[0], lists[1], lists[2]).expect_err("no list");
            assert!(found.starts_with(expected), "{found}");
        }
        assert_eq!(Directory::read("[]", "[]", "[]"), Ok(Directory::default()));
    }
}
