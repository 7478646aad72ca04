//! An account as its administrators made it: categories, custom fields, priorities, statuses, agents; and as the API lists it.
//!
//! Pure. The lists have the fields of HappyFox's own examples (knowledge base, articles 360, 1039, 1092). Guessed: the words
//! `number`, `multiple_choice` and `date` for a field's `type` (the examples show `text` and `choice`), and the list of
//! priorities, which has the fields that a ticket's `priority` has.

use serde_json::{Value, json};

/// What a custom field takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A number with at most two decimals.
    Number,
    /// The id of one of these.
    Choice(Vec<Choice>),
    /// A list of ids of these.
    Choices(Vec<Choice>),
    /// `yyyy-mm-dd`.
    Date,
}

/// One entry of a dropdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its id, which a request names.
    pub id: u64,
    /// Its label, which a search names.
    pub text: String,
}

/// A custom field of tickets (`t-cf-ID`) or of contacts (`c-cf-ID`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its id as the API has it.
    pub id: u64,
    /// Its label.
    pub name: String,
    /// Whether a ticket cannot be made without it.
    pub required: bool,
    /// What it takes.
    pub kind: Kind,
    /// The categories whose tickets have it; none: all of them. Contacts' fields have no categories.
    pub categories: Vec<u64>,
}

impl Field {
    /// An optional field of all categories.
    #[must_use]
    pub fn new(id: u64, name: &str, kind: Kind) -> Self {
        Self { id, name: name.to_owned(), required: false, kind, categories: Vec::new() }
    }

    /// An optional dropdown; `choices` are ids and labels.
    #[must_use]
    pub fn choice(id: u64, name: &str, choices: &[(u64, &str)]) -> Self {
        let choice = |&(id, text): &(u64, &str)| Choice { id, text: text.to_owned() };
        Self::new(id, name, Kind::Choice(choices.iter().map(choice).collect()))
    }

    /// No ticket without it.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Only tickets of these categories have it.
    #[must_use]
    pub fn of_categories(mut self, categories: &[u64]) -> Self {
        self.categories = categories.to_vec();
        self
    }

    /// Whether tickets of this category have it.
    pub(super) fn belongs_to(&self, category: u64) -> bool {
        self.categories.is_empty() || self.categories.contains(&category)
    }

    /// The choices of a dropdown or of a list.
    pub(super) fn choices(&self) -> Option<&[Choice]> {
        match &self.kind {
            Kind::Choice(choices) | Kind::Choices(choices) => Some(choices),
            Kind::Text | Kind::Number | Kind::Date => None,
        }
    }

    /// `type` as the API says it.
    pub(super) fn word(&self) -> &'static str {
        match self.kind {
            Kind::Text => "text",
            Kind::Number => "number",
            Kind::Choice(_) => "choice",
            Kind::Choices(_) => "multiple_choice",
            Kind::Date => "date",
        }
    }
}

/// A category of tickets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Category {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// What display ids of its tickets begin with.
    pub prefix: String,
    /// Whether the API may make tickets in it.
    pub public: bool,
}

impl Category {
    /// A category as a ticket and as the list shows it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id, "name": self.name, "public": self.public,
            "description": "", "prepopulate_cc": "AR", "time_spent_mandatory": false,
        })
    }
}

/// A priority or a status: `(id, name)`.
type Named = (u64, &'static str);

/// Priorities in their order.
const PRIORITIES: [Named; 4] = [(1, "Low"), (2, "Medium"), (3, "High"), (4, "Critical")];
/// The priority of a ticket whose request names none.
pub(super) const DEFAULT_PRIORITY: u64 = 2;
/// Statuses in their order; the first is a new ticket's, the last one is `completed`.
const STATUSES: [Named; 3] = [(1, "New"), (2, "In Progress"), (4, "Closed")];
/// The status of every ticket here: nobody works on them.
pub(super) const STATUS: u64 = 1;
/// The one agent.
const AGENT: u64 = 1;

/// Everything an account's administrators decide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// Categories, in the order of the list.
    pub categories: Vec<Category>,
    /// Custom fields of tickets.
    pub ticket_fields: Vec<Field>,
    /// Custom fields of contacts.
    pub contact_fields: Vec<Field>,
}

impl Account {
    /// An account that suits the sample forms ([`crate::forms::samples`]): their categories, public (`General` has id 1,
    /// `Complaints` 2), and `Internal` (3), which is not; ticket fields `Submission` (1, text), `Kind` (2, a dropdown: 11
    /// Question, 12 Complaint, 13 Other) and `Reported on` (3, a date), contact field `Language` (1, a dropdown: 21
    /// English, 22 French). None is required, so that forms without configuration of their own work.
    #[must_use]
    pub fn sample() -> Self {
        Self::default()
            .category(1, "General", "GEN")
            .category(2, "Complaints", "COM")
            .private_category(3, "Internal", "INT")
            .ticket_field(Field::new(1, "Submission", Kind::Text))
            .ticket_field(Field::choice(2, "Kind", &[(11, "Question"), (12, "Complaint"), (13, "Other")]))
            .ticket_field(Field::new(3, "Reported on", Kind::Date))
            .contact_field(Field::choice(1, "Language", &[(21, "English"), (22, "French")]))
    }

    /// Adds a public category.
    #[must_use]
    pub fn category(mut self, id: u64, name: &str, prefix: &str) -> Self {
        self.categories.push(Category { id, name: name.to_owned(), prefix: prefix.to_owned(), public: true });
        self
    }

    /// Adds a category in which the API makes no tickets.
    #[must_use]
    pub fn private_category(self, id: u64, name: &str, prefix: &str) -> Self {
        let mut account = self.category(id, name, prefix);
        account.set_public(id, false);
        account
    }

    /// Adds a custom field of tickets.
    #[must_use]
    pub fn ticket_field(mut self, field: Field) -> Self {
        self.ticket_fields.push(field);
        self
    }

    /// Adds a custom field of contacts.
    #[must_use]
    pub fn contact_field(mut self, field: Field) -> Self {
        self.contact_fields.push(field);
        self
    }

    /// Makes a category public, or private.
    pub fn set_public(&mut self, category: u64, public: bool) {
        self.categories
            .iter_mut()
            .filter(|known| known.id == category)
            .for_each(|known| known.public = public);
    }

    /// Gives a category another name; its id stays.
    pub fn rename_category(&mut self, category: u64, name: &str) {
        let found = self.categories.iter_mut().filter(|known| known.id == category);
        found.for_each(|known| name.clone_into(&mut known.name));
    }

    /// Removes a category; its tickets stay.
    pub fn remove_category(&mut self, category: u64) {
        self.categories.retain(|known| known.id != category);
    }

    /// Removes a custom field of tickets; values stay with their tickets.
    pub fn remove_ticket_field(&mut self, field: u64) {
        self.ticket_fields.retain(|known| known.id != field);
    }

    /// Removes a custom field of contacts.
    pub fn remove_contact_field(&mut self, field: u64) {
        self.contact_fields.retain(|known| known.id != field);
    }

    /// Whether there is such a priority.
    pub(super) fn has_priority(priority: u64) -> bool {
        PRIORITIES.iter().any(|(id, _)| *id == priority)
    }

    /// Whether there is such an agent.
    pub(super) fn has_agent(agent: u64) -> bool {
        agent == AGENT
    }

    /// The name of a priority.
    pub(super) fn priority_name(priority: u64) -> &'static str {
        name_in(&PRIORITIES, priority)
    }

    /// The name of a status.
    pub(super) fn status_name(status: u64) -> &'static str {
        name_in(&STATUSES, status)
    }

    /// Whether a status is one of those that `_pending` asks for; none where there is no such status.
    pub(super) fn is_pending(status: u64) -> Option<bool> {
        let last = STATUSES.len() - 1;
        STATUSES.iter().position(|(id, _)| *id == status).map(|place| place < last)
    }

    /// `categories/`
    pub(super) fn categories_json(&self) -> Value {
        self.categories.iter().map(Category::to_json).collect()
    }

    /// `ticket_custom_fields/`
    pub(super) fn ticket_fields_json(&self) -> Value {
        let field = |field: &Field| {
            let of_it = self.categories.iter().filter(|category| field.belongs_to(category.id));
            let categories: Value = of_it
                .zip(1_u64..)
                .map(|(category, order)| json!({"category": category.id, "order": order}))
                .collect();
            let mut json = field_json(field);
            json["categories"] = categories;
            json["compulsory_on_completed"] = json!(false);
            json["compulsory_on_move"] = json!(false);
            json
        };
        self.ticket_fields.iter().map(field).collect()
    }

    /// `user_custom_fields/`
    pub(super) fn contact_fields_json(&self) -> Value {
        let field = |(field, order): (&Field, u64)| {
            let mut json = field_json(field);
            json["order"] = json!(order);
            json
        };
        self.contact_fields.iter().zip(1_u64..).map(field).collect()
    }

    /// A priority as tickets and the list show it.
    pub(super) fn priority_json(priority: u64) -> Value {
        json!({
            "id": priority, "name": Self::priority_name(priority), "order": priority,
            "default": priority == DEFAULT_PRIORITY,
        })
    }

    /// A status as tickets and the list show it.
    pub(super) fn status_json(status: u64) -> Value {
        let behavior = if Self::is_pending(status) == Some(true) { "pending" } else { "completed" };
        json!({
            "id": status, "name": Self::status_name(status), "order": status, "default": status == STATUS,
            "behavior": behavior, "color": "0066CC",
        })
    }

    /// `priorities/`
    pub(super) fn priorities_json() -> Value {
        PRIORITIES.iter().map(|(id, _)| Self::priority_json(*id)).collect()
    }

    /// `statuses/`
    pub(super) fn statuses_json() -> Value {
        STATUSES.iter().map(|(id, _)| Self::status_json(*id)).collect()
    }

    /// `staff/`
    pub(super) fn staff_json(&self) -> Value {
        let categories: Vec<u64> = self.categories.iter().map(|category| category.id).collect();
        json!([{
            "id": AGENT, "name": "Stand-in Agent", "email": "agent@help-desk.example", "active": true,
            "is_account_admin": true, "role": {"id": 1, "name": "Administrator"}, "categories": categories,
            "permissions": [],
        }])
    }
}

fn name_in(list: &[Named], id: u64) -> &'static str {
    list.iter().find(|(known, _)| *known == id).map_or("", |(_, name)| *name)
}

fn field_json(field: &Field) -> Value {
    let choice = |choice: &Choice| json!({"id": choice.id, "text": choice.text, "dependant_fields": []});
    let choices: Option<Vec<Value>> = field.choices().map(|choices| choices.iter().map(choice).collect());
    json!({
        "id": field.id, "name": field.name, "type": field.word(), "required": field.required, "choices": choices,
        "depends_on_choice": null, "visible_to_staff_only": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_every_category_of_the_sample_forms() {
        let account = Account::sample();
        let forms = crate::forms::samples().unwrap();
        let wanted: Vec<String> =
            forms.into_iter().flat_map(|form| form.actions).filter_map(|action| action.category).collect();
        assert!(!wanted.is_empty());
        for name in wanted {
            assert!(account.categories.iter().any(|known| known.name == name && known.public), "{name}");
        }
    }

    #[test]
    fn lists_say_what_belongs_where() {
        let account = Account::sample()
            .ticket_field(Field::new(9, "Case", Kind::Number).required().of_categories(&[2]));
        let fields = account.ticket_fields_json();
        assert_eq!(fields[3]["categories"], json!([{"category": 2, "order": 1}]));
        assert_eq!((&fields[3]["required"], &fields[3]["type"]), (&json!(true), &json!("number")));
        assert_eq!(fields[1]["choices"][1], json!({"id": 12, "text": "Complaint", "dependant_fields": []}));
        assert_eq!(fields[0]["choices"], Value::Null);
        assert_eq!(account.categories_json()[2]["public"], json!(false));
        assert_eq!(Account::statuses_json()[2]["behavior"], json!("completed"));
    }
}
