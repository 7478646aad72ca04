//! The Wazuh rules: well-formed, numbered without clashes, and about events that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use maple_router::daemon::ROOMS;
use maple_router::routing::submission::ledger::FailReason;
use serde_json::Value;

use crate::rules::word;
use crate::{shipped, text};

/// Events that need no rule: the course of things, reported by other means where it goes wrong.
const ORDINARY: [&str; 42] = [
    "received",
    "claimed",
    "dropped",
    "held",
    "nacked",
    "begun",
    "action_accepted",
    "action_deferred",
    "not_implemented",
    "routed",
    "released",
    "alert_sent",
    "no_reply_to",
    "not_inside",
    "desk_listening",
    "desk_request",
    "desk_login",
    "desk_logout",
    "review_decided",
    "review_resolved",
    "upload_request",
    "upload_created",
    "upload_committed",
    "upload_aborted",
    "upload_expired",
    "upload_scanned",
    "form_published",
    "form_restored",
    "gc_run",
    "screening_moved",
    "screening_review",
    "screening_waits",
    "judge_away",
    "judge_back",
    "grading_link_found",
    "grading_link_lost",
    "grading_moved",
    "grading_review",
    "grading_waits",
    "graded",
    "grader_away",
    "grader_back",
];

/// A file as nested `{tag, attributes, text, children}`: python's own parser says whether it is XML.
fn xml(file: &str) -> Value {
    const READ: &str = "import json, sys, xml.etree.ElementTree as E
def element(e): return {'tag': e.tag, 'attributes': e.attrib, 'text': (e.text or '').strip(), 'children': [element(c) for c in e]}
print(json.dumps(element(E.fromstring('<all>' + open(sys.argv[1]).read() + '</all>'))))";
    let output = Command::new("python3").args(["-c", READ]).arg(shipped(file)).output().expect("python3");
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn children<'a>(element: &'a Value, tag: &str) -> Vec<&'a Value> {
    element["children"]
        .as_array()
        .expect("children")
        .iter()
        .filter(|child| word(child, "tag") == tag)
        .collect()
}

#[test]
fn every_rule_has_a_number_of_its_own_and_a_parent_that_exists() {
    let file = xml("monitoring/wazuh/maple-router-rules.xml");
    let mut seen = BTreeSet::new();
    for rule in children(children(&file, "group")[0], "rule") {
        let attribute =
            |name: &str| rule["attributes"][name].as_str().and_then(|text| text.parse::<u32>().ok());
        let id = attribute("id").expect("a number");
        assert!((100_600..100_700).contains(&id), "{id} is not ours: Wazuh leaves 100000 to 120000 to users");
        assert!(attribute("level").is_some_and(|level| level <= 15), "{id}");
        for tag in ["if_sid", "if_matched_sid"] {
            for parent in children(rule, tag).iter().flat_map(|parent| word(parent, "text").split(',')) {
                assert!(
                    seen.contains(&parent.trim().parse().expect("a number")),
                    "{id} follows {parent}, which does not precede it"
                );
            }
        }
        let frequency = attribute("frequency");
        assert_eq!(frequency.is_some(), !children(rule, "if_matched_sid").is_empty(), "{id}");
        assert_eq!(frequency.is_some(), attribute("timeframe").is_some(), "{id}");
        let described = children(rule, "description");
        assert!(described.len() == 1 && word(described[0], "text").starts_with("maple-router: "), "{id}");
        assert!(seen.insert(id), "{id} is there twice");
    }
    assert!(seen.len() > 30);
}

#[test]
fn every_event_that_deserves_a_rule_has_one_and_no_rule_waits_for_what_is_never_said() {
    let file = text("monitoring/wazuh/maple-router-rules.xml");
    let mut rules: BTreeMap<String, u32> = BTreeMap::new();
    for rest in file.split("\"(?i:event)\":\"").skip(1) {
        *rules.entry(rest.split('"').next().expect("a word").to_owned()).or_default() += 1;
    }
    let words: BTreeSet<&str> = ROOMS.iter().flat_map(|room| room.events).map(|event| event.word).collect();
    for (event, count) in &rules {
        assert!(words.contains(event.as_str()), "no event is called {event:?}");
        assert_eq!(*count, 1, "{event} has two rules without an order between them");
    }
    for event in words {
        let ordinary = ORDINARY.contains(&event);
        assert_eq!(rules.contains_key(event), !ordinary, "{event}: has it a rule, or is it ordinary?");
    }
}

/// The words that a rule looks for in a line are written as the daemon's JSON writes them.
#[test]
fn reasons_and_verbs_are_those_of_the_product() {
    let file = text("monitoring/wazuh/maple-router-rules.xml");
    let asked = |field: &str| -> Vec<String> {
        let pattern = format!("\"(?i:{field})\":\"");
        file.split(&pattern).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    for reason in asked("reason") {
        assert!(FailReason::parse(&reason).is_some(), "{reason}");
    }
    for verb in asked("verb") {
        assert!(text("src/cli/mark_attachment.rs").contains(&format!("verb: \"{verb}\"")), "{verb}");
    }
    let spoken = text("src/routing/receive.rs");
    assert!(
        spoken.contains("a task of ours ended abnormally")
            && file.contains("a task of ours ended abnormally")
    );
    let decoders = xml("monitoring/wazuh/maple-router-decoders.xml");
    let names: Vec<&str> = children(&decoders, "decoder")
        .iter()
        .map(|decoder| decoder["attributes"]["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["maple-router", "maple-router-fields"]);
}
