//! Every form: labelled, complete, and of no use without what its reader saw.

use std::collections::BTreeSet;

use maple_router::desk::pages::queue::QueueFilters;

use crate::dom::{Element, parse};
use crate::samples;

/// The forms of a page with their fields.
fn forms(html: &str) -> Vec<(Element, Vec<Element>)> {
    let mut forms: Vec<(Element, Vec<Element>)> = Vec::new();
    for element in parse(html).0 {
        if element.tag == "form" {
            forms.push((element, Vec::new()));
        } else if ["input", "select", "textarea", "button"].contains(&element.tag.as_str()) {
            assert!(element.within.contains(&"form".to_owned()), "{element:?} stands in no form");
            forms.last_mut().expect("a form").1.push(element);
        }
    }
    forms
}

fn hidden<'a>(fields: &'a [Element], name: &str) -> Option<&'a str> {
    let of = |field: &&Element| field.get("type") == Some("hidden") && field.get("name") == Some(name);
    fields.iter().find(of).and_then(|field| field.get("value"))
}

#[test]
fn each_field_has_a_label() {
    for page in samples::all(&str::to_owned) {
        let labels: BTreeSet<String> = parse(&page.html)
            .0
            .into_iter()
            .filter(|element| element.tag == "label" && !element.text.trim().is_empty())
            .filter_map(|label| label.get("for").map(str::to_owned))
            .collect();
        for field in forms(&page.html).into_iter().flat_map(|(_, fields)| fields) {
            if field.get("type") == Some("hidden") {
                continue;
            }
            let named = match field.tag.as_str() {
                "button" => !field.text.trim().is_empty(),
                _ => {
                    field.within.last().is_some_and(|tag| tag == "label")
                        || field.get("id").is_some_and(|id| labels.contains(id))
                }
            };
            assert!(named, "{}: {field:?}", page.name);
        }
    }
}

#[test]
fn a_decision_carries_the_version_that_was_seen_and_a_key() {
    let mut seen = BTreeSet::new();
    for page in samples::all(&str::to_owned) {
        for (form, fields) in forms(&page.html) {
            let action = form.get("action").expect("an action");
            if form.get("method") == Some("get") {
                assert!(hidden(&fields, "idempotency_key").is_none());
                continue;
            }
            assert_eq!(form.get("method"), Some("post"), "{}", page.name);
            if let Some(rest) = action.strip_prefix("/entries/") {
                let (_, command) = rest.split_once('/').expect("a command");
                assert!(hidden(&fields, "version").expect("a version").parse::<i64>().expect("a number") > 0);
                assert!(!hidden(&fields, "idempotency_key").expect("a key").is_empty());
                seen.insert(command.to_owned());
            } else if action.starts_with("/forms/") {
                assert!(
                    hidden(&fields, "expected").is_some(),
                    "the version that was seen as current: {action}"
                );
                assert!(!hidden(&fields, "idempotency_key").expect("a key").is_empty());
                seen.insert(action.rsplit('/').next().expect("a command").to_owned());
            } else {
                let is_link = action.starts_with("/login/");
                assert!(is_link || ["/logout", "/queue/bulk"].contains(&action), "{action}");
            }
        }
    }
    let all = [
        "assign",
        "de-escalate",
        "dismiss",
        "escalate",
        "promote",
        "reject",
        "reopen",
        "reset",
        "resolve",
        "review",
        "rollback",
        "start",
        "unassign",
    ];
    assert_eq!(seen, BTreeSet::from(all.map(str::to_owned)));
}

#[test]
fn a_selection_is_of_versions() {
    let pages = samples::all(&str::to_owned);
    let queue = pages.iter().find(|page| page.name == "queue").expect("it is there");
    let (_, fields) =
        forms(&queue.html).into_iter().find(|(form, _)| form.has_class("bulk")).expect("a bulk form");
    let boxes: Vec<&str> = fields
        .iter()
        .filter(|field| field.get("name") == Some("entry"))
        .filter_map(|field| field.get("value"))
        .collect();
    assert_eq!(boxes.len(), 9);
    for value in boxes {
        let (id, version) = value.split_once(':').expect("an id and a version");
        assert!(id.parse::<uuid::Uuid>().is_ok() && version.parse::<i64>().is_ok(), "{value}");
    }
    // Who may only look has nothing to select with.
    let looking = pages.iter().find(|page| page.name == "queue-looking").expect("it is there");
    assert!(
        forms(&looking.html)
            .iter()
            .all(|(_, fields)| fields.iter().all(|field| field.get("name") != Some("entry")))
    );
}

#[test]
fn what_was_typed_stays_in_the_form_after_a_conflict_and_is_shown_where_the_form_is_gone() {
    let pages = samples::all(&str::to_owned);
    let of = |name: &str| pages.iter().find(|page| page.name == name).expect("it is there");
    let typed = "The mailbox exists again since this morning; the postmaster of example.org says so.";
    let elements = parse(&of("entry-conflict").html).0;
    let reason =
        elements.iter().find(|element| element.get("id") == Some("resolve-reason")).expect("the field");
    assert_eq!(reason.text, typed);
    let chosen: Vec<_> = elements.iter().filter(|element| element.get("checked").is_some()).collect();
    assert_eq!(chosen.iter().filter_map(|radio| radio.get("value")).collect::<Vec<_>>(), ["replan"]);
    assert!(elements.iter().any(|element| element.get("href") == Some("#resolve")));
    let gone = parse(&of("entry-conflict-gone").html).0;
    assert!(gone.iter().all(|element| element.get("id") != Some("resolve-reason")));
    assert!(gone.iter().any(|element| element.tag == "blockquote" && element.text == typed));
}

#[test]
fn a_refused_form_is_given_back_open_with_what_was_typed_and_what_is_wrong() {
    let pages = samples::all(&str::to_owned);
    let refused = pages.iter().find(|page| page.name == "entry-refused").expect("it is there");
    let elements = parse(&refused.html).0;
    let problems: Vec<_> =
        elements.iter().filter_map(|element| element.get("href")?.strip_prefix('#')).collect();
    assert_eq!(
        problems[1..],
        ["resolve-remedy", "reject-reason", "assign-to-assignee"],
        "after the skip link"
    );
    let open =
        elements.iter().filter(|element| element.tag == "details" && element.get("open").is_some()).count();
    assert_eq!(open, 3);
    let invalid = elements.iter().filter(|element| element.get("aria-invalid") == Some("true"));
    assert_eq!(
        invalid.filter_map(|field| field.get("id")).collect::<Vec<_>>(),
        ["reject-reason", "assign-to-assignee"]
    );
    let chosen =
        elements.iter().find(|element| element.get("value") == Some("carol")).expect("it is offered still");
    assert!(chosen.get("selected").is_some());
}

#[test]
fn the_list_that_a_reader_works_through_goes_along() {
    let filters = QueueFilters { form: Some("volunteer".to_owned()), ..QueueFilters::new() };
    let id = uuid::Uuid::nil();
    assert_eq!(filters.entry_href(&id), format!("/entries/{id}?list=form%3Dvolunteer"));
    assert_eq!(QueueFilters::new().entry_href(&id), format!("/entries/{id}"));
    let pages = samples::all(&str::to_owned);
    let mine = pages.iter().find(|page| page.name == "entry-mine").expect("it is there");
    let decisions = forms(&mine.html).into_iter().filter(|(form, _)| form.get("action") != Some("/logout"));
    for (form, fields) in decisions {
        assert_eq!(hidden(&fields, "list"), Some("form=volunteer"), "{form:?}");
    }
    let elements = parse(&mine.html).0;
    let to =
        |text: &str| elements.iter().find(|element| element.tag == "a" && element.text == text)?.get("href");
    assert!(to("Next entry").expect("a link").ends_with("?list=form%3Dvolunteer"));
    let crumb = elements
        .iter()
        .find(|element| element.tag == "a" && element.within.last().is_some_and(|tag| tag == "p"));
    assert_eq!(crumb.expect("a link").get("href"), Some("/queue?form=volunteer"));
    // Rows of a filtered list know it.
    let later = pages.iter().find(|page| page.name == "queue-later-page").expect("it is there");
    let rows: Vec<_> = parse(&later.html)
        .0
        .into_iter()
        .filter(|element| element.get("id").is_some_and(|id| id.starts_with("open-")))
        .collect();
    assert!(
        !rows.is_empty()
            && rows
                .iter()
                .all(|row| row.get("href").is_some_and(|href| href.contains("?list=state%3DPending")))
    );
}

#[test]
fn each_problem_leads_to_its_field() {
    for page in samples::all(&str::to_owned) {
        let elements = parse(&page.html).0;
        let ids: BTreeSet<&str> = elements.iter().filter_map(|element| element.get("id")).collect();
        for anchor in elements.iter().filter_map(|element| element.get("href")?.strip_prefix('#')) {
            assert!(ids.contains(anchor), "{}: #{anchor}", page.name);
        }
        let describes = elements.iter().flat_map(|element| {
            ["aria-describedby", "aria-labelledby", "for"].iter().filter_map(|name| element.get(name))
        });
        for id in describes.flat_map(|ids| ids.split(' ')) {
            assert!(ids.contains(id), "{}: {id}", page.name);
        }
    }
}

#[test]
fn the_filters_are_the_address_and_leave_out_what_is_not_set() {
    assert_eq!(QueueFilters::default().href(), "/queue");
    let filters = QueueFilters {
        states: vec!["Pending".to_owned(), "UnderReview".to_owned()],
        form: Some("a b&c=d#é".to_owned()),
        assignee: Some("me".to_owned()),
        ..QueueFilters::default()
    };
    assert_eq!(
        filters.href(),
        "/queue?state=Pending&state=UnderReview&form=a+b%26c%3Dd%23%C3%A9&assignee=me"
    );
    assert_eq!(QueueFilters::default().next_href("x/y"), "/queue?cursor=x%2Fy");
    // The form that sets them has the same names.
    let pages = samples::all(&str::to_owned);
    let later = pages.iter().find(|page| page.name == "queue-later-page").expect("it is there");
    let (_, fields) =
        forms(&later.html).into_iter().find(|(form, _)| form.get("method") == Some("get")).expect("filters");
    let names: BTreeSet<&str> = fields.iter().filter_map(|field| field.get("name")).collect();
    let all = ["assignee", "cause", "form", "older_than", "order", "queue", "reason", "state", "subject"];
    assert_eq!(names, BTreeSet::from(all));
}
