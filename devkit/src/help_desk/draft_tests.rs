//! What is taken for a ticket, and what is refused, field by field.

use serde_json::{Map, Value, json};

use super::*;

fn account() -> Account {
    Account::sample()
        .ticket_field(Field::new(4, "Amount", Kind::Number).required().of_categories(&[2]))
        .ticket_field(Field { kind: Kind::Choices(choices()), ..Field::new(5, "Topics", Kind::Text) })
        .contact_field(Field::new(2, "Member", Kind::Text))
}

fn choices() -> Vec<super::super::account::Choice> {
    let choice = |id, text: &str| super::super::account::Choice { id, text: text.to_owned() };
    vec![choice(31, "Roads"), choice(32, "Parks")]
}

fn good() -> Map<String, Value> {
    let ticket =
        json!({"category": 1, "subject": "S", "text": "T", "name": "Ada", "email": "ada@example.org"});
    ticket.as_object().unwrap().clone()
}

fn judged(changes: &Value, is_form: bool) -> Result<Draft, Refusal> {
    let mut fields = good();
    if is_form {
        fields.insert("category".to_owned(), json!("1"));
    }
    for (name, value) in changes.as_object().unwrap() {
        fields.insert(name.clone(), value.clone());
    }
    judge(Payload { fields, files: Vec::new(), is_form }, &account(), 100)
}

fn wrong(changes: &Value) -> Vec<String> {
    let refused = judged(changes, false).expect_err("refused");
    assert_eq!(refused.status, 400);
    refused.errors.into_iter().map(|(field, _)| field).collect()
}

#[test]
fn what_is_documented_is_taken() {
    let draft = judged(
        &json!({"html": "<p>", "priority": 3, "tags": "a, b", "cc": "x@example.org,y@example.org",
               "visible_only_staff": true, "t-cf-1": "text", "t-cf-2": 12, "t-cf-3": "2026-11-25", "t-cf-5": [31, 32],
               "c-cf-1": 22, "c-cf-2": null, "phone": "+1 555"}),
        false,
    )
    .unwrap();
    assert_eq!((draft.tags, draft.cc.len(), draft.priority), (vec!["a".to_owned(), "b".to_owned()], 2, 3));
    assert_eq!(draft.ticket_fields[&5], json!([31, 32]));
    assert_eq!(draft.contact_fields, BTreeMap::from([(1, json!(22))]));
    assert!(draft.visible_only_staff);
}

#[test]
fn a_form_has_text_for_everything() {
    let draft = judged(
        &json!({"priority": "3", "visible_only_staff": "false", "t-cf-2": "12", "t-cf-5": "[31]", "c-cf-1": "21"}),
        true,
    )
    .unwrap();
    assert_eq!(draft.ticket_fields, BTreeMap::from([(2, json!(12)), (5, json!([31]))]));
    let amount = judged(&json!({"category": "2", "t-cf-4": "12.50"}), true).unwrap();
    assert_eq!(amount.ticket_fields[&4], json!(12.5));
}

#[test]
fn each_field_that_is_wrong_is_named() {
    let cases = [
        (json!({"category": 3}), "category"),
        (json!({"category": 99}), "category"),
        (json!({"category": "1"}), "category"),
        (json!({"category": null}), "category"),
        (json!({"subject": "  "}), "subject"),
        (json!({"subject": "a\nb"}), "subject"),
        (json!({"subject": 7}), "subject"),
        (json!({"text": ""}), "text"),
        (json!({"text": {}}), "text"),
        (json!({"name": null}), "name"),
        (json!({"email": "ada"}), "email"),
        (json!({"email": "ada@example"}), "email"),
        (json!({"email": "a b@example.org"}), "email"),
        (json!({"email": "Ada <ada@example.org>"}), "email"),
        (json!({"cc": "x@example.org; y@example.org"}), "cc"),
        (json!({"cc": ["x@example.org"]}), "cc"),
        (json!({"tags": ["a"]}), "tags"),
        (json!({"priority": 9}), "priority"),
        (json!({"visible_only_staff": "yes"}), "visible_only_staff"),
        (json!({"t-cf-2": "Complaint"}), "t-cf-2"),
        (json!({"t-cf-2": 99}), "t-cf-2"),
        (json!({"t-cf-3": "25/11/2026"}), "t-cf-3"),
        (json!({"t-cf-4": 1}), "t-cf-4"),
        (json!({"t-cf-5": 31}), "t-cf-5"),
        (json!({"t-cf-5": [31, 33]}), "t-cf-5"),
        (json!({"t-cf-1": 7}), "t-cf-1"),
        (json!({"t-cf-01": "x"}), "t-cf-01"),
        (json!({"t-cf-9": "x"}), "t-cf-9"),
        (json!({"c-cf-9": "x"}), "c-cf-9"),
        (json!({"ccf-1": 21}), "ccf-1"),
        (json!({"titel": "x"}), "titel"),
        (json!({"assignee": null}), "assignee"),
        (json!({"due_date": "2026-11-25"}), "due_date"),
    ];
    for (changes, field) in cases {
        assert_eq!(wrong(&changes), [field], "{changes}");
    }
}

#[test]
fn what_is_required_is_required_once() {
    assert_eq!(wrong(&json!({"category": 2})), ["t-cf-4"]);
    assert_eq!(wrong(&json!({"category": 2, "t-cf-4": " "})), ["t-cf-4"]);
    assert_eq!(wrong(&json!({"category": 2, "t-cf-4": 1.234})), ["t-cf-4"]);
    judged(&json!({"category": 2, "t-cf-4": 12}), false).unwrap();
}

#[test]
fn files_have_a_limit_together() {
    let file = |bytes: usize| File { name: "f".to_owned(), content_type: None, bytes: vec![0; bytes].into() };
    let with = |files| judge(Payload { fields: good(), files, is_form: false }, &account(), 100);
    with(vec![file(50), file(50)]).unwrap();
    assert_eq!(with(vec![file(50), file(51)]).unwrap_err().errors[0].0, "attachments");
}
