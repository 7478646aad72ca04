//! The policy that people begin with: believed, and tried against versions that are bad in one way each.

use serde_json::{Map, Value, json};

use super::super::document::{
    Action, Asset, Changes, Command, Counts, Destination, Document, Form, Limits, Sample, SharedTemplate,
    Signature, Template, Version,
};
use super::super::{Away, Canaries, LIMIT, Policy, Proven};
use super::bundle;

const TEXT: &str = include_str!("../../../../contrib/policy/publish.rego");

/// A version that nobody would object to, every list with an element.
pub(super) fn good() -> Document {
    let text = str::to_owned;
    let to = |local: &str| Destination {
        address: format!("{local}@example.org"),
        local: text(local),
        domain: text("example.org"),
    };
    let action = |action_order, template: Option<&str>| Action {
        action_order,
        action_type: text("email"),
        template_id: template.map(text),
        destinations: vec![to("Team"), to("office")],
        happyfox_category: None,
        subject_template: None,
    };
    Document {
        command: Command::Publish,
        form: Form { id: text("contact"), name: text("Contact") },
        version: Version {
            number: 3,
            digest: "9f".repeat(32),
            source: text("contact.yaml"),
            author: text("ada"),
        },
        actor: text("grace"),
        actions: vec![action(1, Some("receipt")), action(2, None)],
        templates: vec![Template {
            id: text("receipt"),
            subject: text("Received"),
            body_text: text("See http://example.org"),
            body_html: text(
                "<!DOCTYPE html PUBLIC \"-\" \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd\">\
                 <html xmlns=\"http://www.w3.org/1999/xhtml\"><p>On http: and <b>scripts</b>: <a href=\"https://x.test\">x</a></p></html>",
            ),
            used_by: vec![1],
        }],
        assets: vec![Asset {
            name: text("logo.png"),
            content_type: text("image/png"),
            length: 1234,
            verdict: Some(text("clean")),
        }],
        settings: Map::new(),
        samples: vec![Sample { name: text("usual") }],
        limits: Limits { allowed_destination_domains: vec![text("Example.org")] },
        changes: Changes {
            actions: Counts { added: 0, removed: 0, changed: 1 },
            templates: vec![text("receipt")],
        },
        shared_templates: vec![SharedTemplate { template_id: text("receipt"), form_id: text("membership") }],
        signatures: vec![Signature { signer: text("grace@example.org"), key: text("SHA256:x") }],
    }
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = good().value();
    change(&mut value);
    value
}

fn html(body: &str) -> Value {
    changed(|v| v["templates"][0]["body_html"] = json!(body))
}

fn policy() -> Proven {
    let canaries = Canaries { good: good().value(), bad: html("<SCRIPT src='http://x.test'></SCRIPT>") };
    Policy::of(&bundle(&[("publish.rego", TEXT)]), LIMIT)
        .and_then(|policy| policy.proven(&canaries))
        .expect("proven")
}

#[test]
fn it_allows_what_is_good() {
    let policy = policy();
    let people = |count: usize| {
        let to: Vec<_> = (0..count)
            .map(|n| json!({"address": format!("p{n}@example.org"), "domain": "example.org"}))
            .collect();
        changed(|v| v["actions"][0]["destinations"] = json!(to))
    };
    for document in [
        good().value(),
        Document { command: Command::Promote, ..good() }.value(),
        Document { command: Command::Restore, ..good() }.value(),
        Document {
            templates: Vec::new(),
            assets: Vec::new(),
            shared_templates: Vec::new(),
            signatures: Vec::new(),
            ..good()
        }
        .value(),
        Document { limits: Limits { allowed_destination_domains: Vec::new() }, ..good() }.value(),
        people(18),
        html(""),
        html("<img src=\"{{ picture }}\"><a href='https://x.test/?u=http:'>x</a>"),
    ] {
        let decided = policy.decide(&document).expect("a decision");
        assert!(decided.allowed, "{:?}", decided.reasons);
    }
    assert_eq!(
        policy.decide(&people(19)).expect("a decision").reasons.len(),
        1,
        "two more are in the other action"
    );
}

#[test]
fn it_says_what_is_bad_and_where() {
    let policy = policy();
    for (says, document) in [
        ("The form has no action", changed(|v| v["actions"] = json!([]))),
        ("The version has no author", changed(|v| v["version"]["author"] = json!(" "))),
        ("The form has no sample", changed(|v| v["samples"] = json!([]))),
        (
            "Action 2 writes to the domain evil.test, and mail may not go there",
            changed(|v| {
                v["actions"][1]["destinations"][0] = json!({"address": "a@evil.test", "domain": "evil.test"});
            }),
        ),
        (
            "the domain sub.example.org",
            changed(|v| v["actions"][0]["destinations"][0]["domain"] = json!("sub.example.org")),
        ),
        (
            "The form writes to 21 people, and 20 are the most",
            changed(|v| {
                let to = |n| json!({"address": format!("{n}@example.org"), "domain": "example.org"});
                v["actions"][0]["destinations"] = (0..19).map(to).collect();
            }),
        ),
        ("Template receipt has a script", html("<p>x</p><script>x()</script>")),
        ("Template receipt has a script", html("< ScRiPt\n>")),
        ("begins with http:", html("<a HREF = \"HTTP://x.test\">")),
        ("begins with http:", html("<img src=http://x.test/p.gif>")),
        ("begins with http:", html("<td background=' http://x.test'>")),
        ("begins with http:", html("<p style=\"background: url( 'http://x.test')\">")),
    ] {
        let decided = policy.decide(&document).expect("a decision");
        assert!(!decided.allowed, "{says}");
        assert_eq!(decided.reasons.len(), 1, "{:?}", decided.reasons);
        assert!(decided.reasons[0].contains(says), "{says}: {:?}", decided.reasons);
    }
}

#[test]
fn it_denies_whatever_is_not_complete() {
    let policy = policy();
    let unlike = [Value::Null, json!(true), json!(7), json!("x"), json!([7]), json!({"x": 7})];
    let read = [
        "/v",
        "/command",
        "/version",
        "/version/author",
        "/actions",
        "/actions/0",
        "/actions/1/action_order",
        "/actions/1/destinations",
        "/actions/1/destinations/0",
        "/actions/1/destinations/1/address",
        "/actions/1/destinations/1/domain",
        "/templates",
        "/templates/0/id",
        "/templates/0/body_html",
        "/samples",
        "/samples/0/name",
        "/limits",
        "/limits/allowed_destination_domains",
        "/limits/allowed_destination_domains/0",
    ];
    let mut documents = unlike.to_vec();
    for key in read {
        let (parent, name) = key.rsplit_once('/').expect("a path");
        documents.push(changed(|v| {
            match v.pointer_mut(parent).expect(key) {
                Value::Object(members) => members.remove(name).map(drop),
                Value::Array(elements) => elements.get_mut(0).map(|first| *first = json!(7)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            }
            .expect(key);
        }));
        let before = good().value();
        let like = |value: &Value| {
            std::mem::discriminant(value) == std::mem::discriminant(before.pointer(key).expect(key))
        };
        documents.extend(
            unlike
                .iter()
                .filter(|odd| !like(odd))
                .map(|odd| changed(|v| *v.pointer_mut(key).expect(key) = odd.clone())),
        );
    }
    assert!(documents.len() > 90, "{}", documents.len());
    for document in documents {
        match policy.decide(&document) {
            Ok(decided) => {
                assert!(!decided.allowed, "{document}");
                assert_eq!(decided.reasons.len(), 1, "{:?} of {document}", decided.reasons);
                assert!(decided.reasons[0].contains("not complete"), "{:?} of {document}", decided.reasons);
            }
            Err(error) => panic!("{error} of {document}"),
        }
    }
}

#[test]
fn without_its_demand_for_keys_it_would_not_be_believed() {
    let (head, rest) = TEXT.split_once("complete if {").expect("the demand");
    let (_, tail) = rest.split_once("\n}\n").expect("its end");
    let careless = format!("{head}complete if true\n{tail}");
    let canaries = Canaries { good: good().value(), bad: html("<script>") };
    let error = Policy::of(&bundle(&[("publish.rego", &careless)]), LIMIT)
        .expect("it compiles")
        .proven(&canaries)
        .expect_err("it allows what is missing");
    assert_eq!(error, Away::CanaryAllowed { which: "an empty document" });
}
