//! What a new ticket is to be, judged: every field of the request is known, well formed and possible in this account.
//!
//! Pure. Documented: which fields there are, which are required, and what custom fields take (knowledge base, article 1039).
//! Guessed, always to the strict side, so that a client which passes here has little to fear: unknown fields are refused (the
//! real API may ignore them), a custom field of another category is refused, addresses are read narrowly, a subject is one
//! line, and JSON has numbers where ids are meant. Documented but not spoken here, and refused in so many words: `client`,
//! `assignee`, `created_at`, `due_date`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::account::{Account, Category, DEFAULT_PRIORITY, Field, Kind};
use super::payload::{File, Payload, split};
use super::refusal::{NO_CHOICE, REQUIRED, Refusal};

/// Fields that a request may have beside custom fields.
const KNOWN: [&str; 12] = [
    "name",
    "email",
    "phone",
    "subject",
    "text",
    "html",
    "category",
    "priority",
    "tags",
    "cc",
    "bcc",
    "visible_only_staff",
];
/// Documented fields that nothing here understands.
const NOT_SPOKEN: [&str; 4] = ["client", "assignee", "created_at", "due_date"];

/// A ticket that can be made.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) category: Category,
    pub(super) subject: String,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) name: String,
    pub(super) email: String,
    pub(super) phone: Option<String>,
    pub(super) priority: u64,
    pub(super) tags: Vec<String>,
    pub(super) cc: Vec<String>,
    pub(super) bcc: Vec<String>,
    pub(super) visible_only_staff: bool,
    pub(super) ticket_fields: BTreeMap<u64, Value>,
    pub(super) contact_fields: BTreeMap<u64, Value>,
    pub(super) files: Vec<File>,
}

/// A request under judgement: its errors are collected, as the API names all of them at once.
struct Judge<'a> {
    payload: &'a Payload,
    errors: Vec<(String, String)>,
}

/// Judges a request; `most_files` is the most bytes its files may have together.
pub(super) fn judge(payload: Payload, account: &Account, most_files: usize) -> Result<Draft, Refusal> {
    let mut judge = Judge { payload: &payload, errors: Vec::new() };
    judge.names();
    let category = judge.category(account);
    let of = category.as_ref().map_or(0, |category| category.id);
    let ticket_fields = judge.custom("t-cf-", &account.ticket_fields, Some(of));
    let contact_fields = judge.custom("c-cf-", &account.contact_fields, None);
    let subject = judge.line("subject", true).unwrap_or_default();
    let name = judge.line("name", true).unwrap_or_default();
    let email = judge.email();
    let phone = judge.line("phone", false);
    let (text, html) = (judge.body("text"), judge.body("html"));
    if text.is_none() && html.is_none() && !judge.is_wrong("text") {
        judge.wrong("text", REQUIRED);
    }
    let priority = judge.priority();
    let tags = judge.line("tags", false).map(|tags| split(&tags)).unwrap_or_default();
    let (cc, bcc) = (judge.addresses("cc"), judge.addresses("bcc"));
    let visible_only_staff = judge.truth("visible_only_staff");
    if payload.files.iter().map(|file| file.bytes.len()).sum::<usize>() > most_files {
        judge.wrong("attachments", "The total size of all the files should not exceed 25 MB.");
    }
    let errors = judge.errors;
    match category {
        Some(category) if errors.is_empty() => Ok(Draft {
            category,
            subject,
            text,
            html,
            name,
            email,
            phone,
            priority,
            tags,
            cc,
            bcc,
            visible_only_staff,
            ticket_fields,
            contact_fields,
            files: payload.files,
        }),
        _ => Err(Refusal::of_fields(errors)),
    }
}

impl<'a> Judge<'a> {
    fn wrong(&mut self, field: &str, words: &str) {
        self.errors.push((field.to_owned(), words.to_owned()));
    }

    fn is_wrong(&self, field: &str) -> bool {
        self.errors.iter().any(|(wrong, _)| wrong == field)
    }

    fn value(&self, field: &str) -> Option<&'a Value> {
        self.payload.fields.get(field).filter(|value| !value.is_null())
    }

    /// Every name is known.
    fn names(&mut self) {
        for field in self.payload.fields.keys() {
            if NOT_SPOKEN.contains(&field.as_str()) {
                self.errors.push((field.clone(), "documented, but not spoken by this stand-in".to_owned()));
            } else if !KNOWN.contains(&field.as_str())
                && !field.starts_with("t-cf-")
                && !field.starts_with("c-cf-")
            {
                self.errors.push((field.clone(), "no such field".to_owned()));
            }
        }
    }

    /// An id: a number in JSON, digits in a form.
    fn id(&self, value: &Value) -> Option<u64> {
        match value {
            Value::String(text) if self.payload.is_form => digits(text),
            Value::Number(number) => number.as_u64(),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn category(&mut self, account: &Account) -> Option<Category> {
        let Some(value) = self.value("category") else {
            self.wrong("category", REQUIRED);
            return None;
        };
        let id = self.id(value);
        let found = account.categories.iter().find(|known| Some(known.id) == id && known.public);
        if found.is_none() {
            self.wrong("category", NO_CHOICE);
        }
        found.cloned()
    }

    fn priority(&mut self) -> u64 {
        let Some(value) = self.value("priority") else { return DEFAULT_PRIORITY };
        let known = self.id(value).filter(|id| Account::has_priority(*id));
        known.unwrap_or_else(|| {
            self.wrong("priority", NO_CHOICE);
            DEFAULT_PRIORITY
        })
    }

    /// Text of one line.
    fn line(&mut self, field: &str, required: bool) -> Option<String> {
        let text = match self.value(field) {
            None => "",
            Some(Value::String(text)) => text,
            Some(_) => {
                self.wrong(field, "not a string");
                return None;
            }
        };
        if text.chars().any(char::is_control) {
            self.wrong(field, "more than a line of text");
        }
        if text.trim().is_empty() {
            if required {
                self.wrong(field, REQUIRED);
            }
            return None;
        }
        Some(text.to_owned())
    }

    /// A message; none where it is blank.
    fn body(&mut self, field: &str) -> Option<String> {
        match self.value(field) {
            None => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Some(_) => {
                self.wrong(field, "not a string");
                None
            }
        }
    }

    fn email(&mut self) -> String {
        let email = self.line("email", true).unwrap_or_default();
        if !email.is_empty() && !is_address(&email) {
            self.wrong("email", "Enter a valid email address.");
        }
        email
    }

    fn addresses(&mut self, field: &str) -> Vec<String> {
        let addresses = self.line(field, false).map(|list| split(&list)).unwrap_or_default();
        if !addresses.iter().all(|address| is_address(address)) {
            self.wrong(field, "Enter a valid email address.");
        }
        addresses
    }

    fn truth(&mut self, field: &str) -> bool {
        match self.value(field) {
            None => false,
            Some(Value::Bool(truth)) => *truth,
            Some(Value::String(text)) if self.payload.is_form && (text == "true" || text == "false") => {
                text == "true"
            }
            Some(_) => {
                self.wrong(field, "neither true nor false");
                false
            }
        }
    }

    /// Custom fields with this prefix, by id; `category` is the new ticket's, where the fields have categories.
    fn custom(&mut self, prefix: &str, fields: &[Field], category: Option<u64>) -> BTreeMap<u64, Value> {
        let here = |field: &Field| category.is_none_or(|category| field.belongs_to(category));
        let mut values = BTreeMap::new();
        for (name, value) in &self.payload.fields {
            let Some(id) = name.strip_prefix(prefix) else { continue };
            // Another spelling of an id would be the same field twice.
            let known = digits(id).and_then(|id| fields.iter().find(|known| known.id == id && here(known)));
            let Some(known) = known else {
                self.errors.push((name.clone(), "no such custom field in this category".to_owned()));
                continue;
            };
            match self.custom_value(known, value) {
                Ok(Some(value)) => drop(values.insert(known.id, value)),
                Ok(None) => {}
                Err(words) => self.errors.push((name.clone(), words.to_owned())),
            }
        }
        for missing in
            fields.iter().filter(|field| field.required && here(field) && !values.contains_key(&field.id))
        {
            let name = format!("{prefix}{}", missing.id);
            if !self.is_wrong(&name) {
                self.errors.push((name, "This field is required".to_owned()));
            }
        }
        values
    }

    /// A custom field's value as JSON would have it; none where it is blank.
    fn custom_value(&self, field: &Field, value: &Value) -> Result<Option<Value>, &'static str> {
        if value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Ok(None);
        }
        let choice = |value: &Value| {
            let id = self.id(value).ok_or(NO_CHOICE)?;
            let known = field.choices().is_some_and(|choices| choices.iter().any(|choice| choice.id == id));
            if known { Ok(Value::from(id)) } else { Err(NO_CHOICE) }
        };
        match &field.kind {
            Kind::Text if value.is_string() => Ok(Some(value.clone())),
            Kind::Text => Err("not a string"),
            Kind::Date => {
                let date = value.as_str().filter(|text| text.len() == 10);
                let good = date.is_some_and(|text| text.parse::<jiff::civil::Date>().is_ok());
                if good { Ok(Some(value.clone())) } else { Err("Enter a valid date: yyyy-mm-dd.") }
            }
            Kind::Number => self.number(value).map(Some).ok_or("Enter a number with at most 2 decimals."),
            Kind::Choice(_) => choice(value).map(Some),
            Kind::Choices(_) => {
                let read = value.as_str().filter(|_| self.payload.is_form).map(serde_json::from_str::<Value>);
                let list = read.transpose().ok().flatten().unwrap_or_else(|| value.clone());
                let items = list.as_array().ok_or("a list of ids, please")?;
                // Within a form's list the ids are numbers of JSON.
                let ids = items.iter().map(choice).collect::<Result<Vec<_>, _>>()?;
                Ok(Some(Value::Array(ids)))
            }
        }
    }

    fn number(&self, value: &Value) -> Option<Value> {
        let text = match value {
            Value::Number(number) => number.to_string(),
            Value::String(text) if self.payload.is_form => text.clone(),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return None;
            }
        };
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let plain = text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit() || c == '.');
        (decimals <= 2 && plain).then(|| serde_json::from_str(&text).ok()).flatten()
    }
}

/// A number written in digits, the only way there is to write it.
fn digits(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// `local@domain.tld` without quotes, comments and characters that no mail system agrees on.
fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let atoms = |text: &str, extra: &str| {
        text.split('.').all(|atom| {
            !atom.is_empty() && atom.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
        })
    };
    text.len() <= 254 && domain.contains('.') && atoms(domain, "-") && atoms(local, "!#$%&'*+-/=?^_`{|}~")
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
