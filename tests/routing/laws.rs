//! Laws for every submission that has ended, whatever happened to it: P1, P3, P5, P8 of the protocol, the shape of
//! the audit trail, and that ledger, trail and relay tell the same story.

use std::collections::{BTreeMap, BTreeSet};

use maple_router::routing::store::audit_key::AuditKey;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::Scene;
use devkit::submission::{Audited, Row};

/// Holds one submission to all of them.
pub(crate) async fn hold(scene: &Scene, id: Uuid) {
    let (row, trail) = (scene.row(id).await, scene.audit(id).await);
    let context = format!("{id}: {row:?}\n{trail:?}");
    ended(&row, &trail, scene.max_attempts, &context);
    for line in &trail {
        shape(line, &context);
    }
    facts(scene, id, &row, &trail, &context);
    failures(&row, &trail, &context);
}

/// P3, P5, P8.
fn ended(row: &Row, trail: &[Audited], max_attempts: u64, context: &str) {
    let ends = trail.iter().filter(|line| line.action.starts_with("submission_")).count();
    assert_eq!(ends, 1, "P3: one audit row for the end: {context}");
    let word = if row.status == "routed" { "submission_routed" } else { "submission_route_failed" };
    let end = the_end(trail);
    assert_eq!(end.map(|line| line.action.as_str()), Some(word), "the end comes last: {context}");
    assert_eq!(end.map(|line| &line.detail["reason"]), Some(&row.ledger["finished"]["reason"]), "{context}");
    assert!(row.attempts() <= max_attempts, "P8: {context}");
    assert_eq!(row.ledger["claim"], Value::Null, "nobody holds it: {context}");
    assert_eq!(row.ledger["finished"]["status"], row.status.as_str(), "{context}");
    assert_eq!(row.status == "routed", row.ledger["finished"].get("reason").is_none(), "{context}");
    if row.status == "routed" {
        let plan = row.ledger["plan"].as_array().expect("a plan");
        assert!(!plan.is_empty(), "P5: {context}");
        for action in plan {
            let order = format!("{}|", action["action_order"]);
            assert!(
                deliveries(row).keys().any(|key| key.starts_with(&order)),
                "P5, action {order}: {context}"
            );
        }
        let done = |d: &&Value| matches!(state(d), "accepted" | "not_implemented");
        assert!(deliveries(row).values().all(done), "P5: {context}");
    }
}

/// The last row of a trail, but for facts that came when all was over.
fn the_end(trail: &[Audited]) -> Option<&Audited> {
    trail.iter().rfind(|line| line.detail["late"] != true)
}

/// Data contract, "Audit detail".
fn shape(line: &Audited, context: &str) {
    let detail = line.detail.as_object().expect("an object");
    assert_eq!(detail["v"], 1, "{context}");
    assert!(detail["attempt"].is_u64() && detail["generation"].is_u64(), "{context}");
    let keys: BTreeSet<&str> = detail.keys().map(String::as_str).collect();
    let base = ["v", "attempt", "generation"];
    let more: &[&str] = match line.action.as_str() {
        "email_sent" => {
            &["action_order", "recipient", "message_id", "queue_id", "smtp", "duplicate", "stale", "late"]
        }
        "email_failed" => &["action_order", "recipient", "message_id", "queue_id", "smtp", "error"],
        _ => &["reason", "deliveries"],
    };
    for key in base.iter().chain(more) {
        assert!(keys.contains(key), "{key} is missing in {}: {context}", line.action);
    }
    let known = |key: &&str| base.contains(key) || more.contains(key) || ["reason", "original"].contains(key);
    assert!(keys.iter().all(known), "a key nobody knows in {keys:?}: {context}");
    let mut quiet = line.detail.clone();
    quiet.as_object_mut().expect("an object").retain(|key, _| key != "message_id" && key != "original");
    assert!(!quiet.to_string().contains('@'), "an address in the trail: {quiet}");
}

/// Every fact is at the relay, in the trail, and (P1) only once unless it was in doubt.
fn facts(scene: &Scene, id: Uuid, row: &Row, trail: &[Audited], context: &str) {
    let (of_this, keys) = (id.to_string(), keys(scene));
    let mut at_relay: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (digest, count) in scene.stage.relay.digests() {
        if digest.submission_id == of_this {
            *at_relay.entry((digest.recipient, digest.message_id)).or_default() += count;
        }
    }
    let mut accepted = 0;
    for (key, entry) in deliveries(row) {
        let (order, address) = key.split_once('|').expect("a key");
        if address.is_empty() || address.starts_with('!') {
            continue;
        }
        let message_id = format!("maple.{}.{order}.0@greenpeace.org", id.simple());
        let times = at_relay.remove(&(address.to_owned(), message_id.clone())).unwrap_or_default();
        let doubt = entry["doubt"] == true || entry["doubted"] == true;
        if state(entry) != "accepted" {
            assert!(times == 0 || doubt, "{key} is at the relay and not in the ledger: {context}");
            continue;
        }
        accepted += 1;
        assert!(times == 1 || (times > 1 && doubt), "P1: {key} {times} times at the relay: {context}");
        assert_eq!(entry["message_id"], format!("<{message_id}>"), "{context}");
        for gone in ["begun", "error", "doubt"] {
            assert_eq!(entry[gone], Value::Null, "{key} has a fact and {gone}: {context}");
        }
        let sent: Vec<&Audited> = trail
            .iter()
            .filter(|l| {
                l.action == "email_sent" && names(&keys, l, order, address) && l.detail["duplicate"] == false
            })
            .collect();
        let [sent] = sent.as_slice() else { panic!("{key} is not audited once: {context}") };
        for same in ["queue_id", "message_id"] {
            assert_eq!(sent.detail[same], entry[same], "{key}: {context}");
        }
        assert_eq!(sent.detail["smtp"]["code"], entry["smtp"]["code"], "{key}: {context}");
    }
    assert!(at_relay.is_empty(), "mails no delivery stands for: {at_relay:?}: {context}");
    let firsts = trail.iter().filter(|l| l.action == "email_sent" && l.detail["duplicate"] == false).count();
    assert_eq!(firsts, accepted, "email_sent once per fact: {context}");
}

/// `email_failed` once, when a delivery becomes failed.
fn failures(row: &Row, trail: &[Audited], context: &str) {
    let failed = deliveries(row).values().filter(|entry| state(entry) == "failed").count();
    let audited = trail.iter().filter(|line| line.action == "email_failed").count();
    assert_eq!(audited, failed, "email_failed once per failed delivery: {context}");
    let counts = &the_end(trail).expect("an end").detail["deliveries"];
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in deliveries(row).values() {
        *counted.entry(state(entry)).or_default() += 1;
    }
    assert_eq!(*counts, json!(counted), "the end counts by state: {context}");
}

fn deliveries(row: &Row) -> BTreeMap<&str, &Value> {
    let entries = row.ledger["deliveries"].as_object();
    entries.into_iter().flatten().map(|(key, entry)| (key.as_str(), entry)).collect()
}

fn state(entry: &Value) -> &str {
    entry["state"].as_str().unwrap_or_default()
}

/// The keys that the scene's routers have made.
fn keys(scene: &Scene) -> Vec<AuditKey> {
    let states = std::fs::read_dir(scene.stage.dir()).expect("the stage");
    let made = states.filter_map(|state| std::fs::read_to_string(state.ok()?.path().join("audit-key")).ok());
    made.map(|text| AuditKey::new(&text).expect("a key")).collect()
}

/// Whether an audit row is about this recipient of this action: by domain and keyed digest, and by nothing else; by the domain
/// alone where no router could make a key.
fn names(keys: &[AuditKey], line: &Audited, order: &str, address: &str) -> bool {
    let domain = address.rsplit_once('@').map(|(_, domain)| domain);
    let sealed = |key: &AuditKey| json!({"domain": domain, "hmac": key.digest(address), "key": key.name()});
    let keyless = || {
        keys.is_empty() && line.detail["recipient"] == json!({"domain": domain, "hmac": null, "key": null})
    };
    line.detail["action_order"].as_i64() == order.parse().ok()
        && (keyless() || keys.iter().any(|key| line.detail["recipient"] == sealed(key)))
}
