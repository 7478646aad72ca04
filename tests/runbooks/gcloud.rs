//! The commands for gcloud. Commands that make something are carried out on devkit's broker, and the result is
//! compared with what `provision` makes; commands that grant are compared with the closed table of what is needed.

use std::collections::{BTreeMap, BTreeSet};

use devkit::broker::Broker;
use maple_router::gateway::pubsub::{MAX_DELIVERY_ATTEMPTS, RETENTION, RETRY_MIN};
use serde_json::{Value, json};

use crate::commands::{Place, at};
use crate::here::binary;

const PROJECT: &str = "PROJECT";

/// A command, apart.
pub(crate) struct Command {
    pub(crate) words: Vec<String>,
    pub(crate) flags: BTreeMap<String, String>,
}

pub(crate) fn read(line: &str) -> Command {
    let (mut words, mut flags) = (Vec::new(), BTreeMap::new());
    for word in line.split_whitespace().skip(1) {
        match word.strip_prefix("--") {
            Some(flag) => {
                let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
                assert!(flags.insert(name.to_owned(), value.to_owned()).is_none(), "{line}: --{name} twice");
            }
            None => words.push(word.to_owned()),
        }
    }
    Command { words, flags }
}

fn all() -> Vec<(String, Command)> {
    at(Place::Gcloud)
        .into_keys()
        .map(|line| {
            let command = read(&line);
            (line, command)
        })
        .collect()
}

/// Every command must be of one of these kinds; a command only mentioned has its reason here.
#[test]
fn every_command_of_gcloud_is_of_a_kind_that_is_looked_at() {
    for (line, command) in all() {
        let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
        let known = match words.as_slice() {
            // Carried out on the broker, below.
            ["pubsub", "topics" | "subscriptions", "create", _] => true,
            // The broker has no seek, snapshots or policies: gcloud's own grammar is what can be kept.
            ["pubsub", "subscriptions", "seek", "routing-maple"] => {
                command.flags.contains_key("time") || command.flags.contains_key("snapshot")
            }
            // Rows of the table of rights, below.
            ["pubsub", "topics" | "subscriptions", "add-iam-policy-binding", _]
            | ["iam", "service-accounts", "add-iam-policy-binding", "SERVICE_ACCOUNT"]
            | [
                "storage",
                "buckets",
                "add-iam-policy-binding",
                "gs://BUCKET" | "gs://CONTENT_BUCKET" | "gs://STAGING_BUCKET",
            ] => true,
            // Declared at the store, in buckets.rs.
            ["storage", "buckets", "create" | "update", "gs://CONTENT_BUCKET" | "gs://STAGING_BUCKET"] => {
                true
            }
            // The collector's account is a person's to make: no part of ours stands in for IAM's accounts and keys.
            ["iam", "service-accounts", "create", "maple-collector"] => true,
            ["iam", "service-accounts", "keys", "create", file] => {
                *file == "/etc/maple-router/collector/gc-key.json"
            }
            // Soft delete is a person's to use: gcloud's own grammar is what can be kept.
            ["storage", "ls", "gs://CONTENT_BUCKET"] => command.flags.contains_key("soft-deleted"),
            ["storage", "restore", object] => *object == "gs://CONTENT_BUCKET/OBJECT#GENERATION",
            // An object of the bucket: the router never touches one, so no part of ours stands in for it.
            ["storage", "objects", "update", object] | ["storage", "mv", object, _] => {
                *object == "gs://BUCKET/OBJECT"
            }
            _ => false,
        };
        assert!(known, "nobody looks at `{line}`");
    }
}

#[test]
fn the_rights_are_exactly_those_that_are_needed() {
    let agent = "service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com";
    let expected: BTreeSet<(&str, &str, &str)> = [
        ("routing-maple", "SERVICE_ACCOUNT", "roles/pubsub.subscriber"),
        ("routing-maple", "SERVICE_ACCOUNT", "roles/pubsub.viewer"),
        ("routing-dead-maple", "SERVICE_ACCOUNT", "roles/pubsub.subscriber"),
        ("routing-dead-maple", "SERVICE_ACCOUNT", "roles/pubsub.viewer"),
        ("routing", "SERVICE_ACCOUNT", "roles/pubsub.publisher"),
        ("routing", "BACKEND_ACCOUNT", "roles/pubsub.publisher"),
        ("routing", "SCAN_ACCOUNT", "roles/pubsub.publisher"),
        ("routing-dead", agent, "roles/pubsub.publisher"),
        ("routing-maple", agent, "roles/pubsub.subscriber"),
        ("SERVICE_ACCOUNT", "SERVICE_ACCOUNT", "roles/iam.serviceAccountTokenCreator"),
        ("gs://BUCKET", "SERVICE_ACCOUNT", "roles/storage.objectViewer"),
        ("gs://CONTENT_BUCKET", "SERVICE_ACCOUNT", "roles/storage.objectCreator"),
        ("gs://CONTENT_BUCKET", "SERVICE_ACCOUNT", "roles/storage.objectViewer"),
        ("gs://CONTENT_BUCKET", "SERVICE_ACCOUNT", "roles/storage.legacyBucketReader"),
        ("gs://STAGING_BUCKET", "SERVICE_ACCOUNT", "roles/storage.objectUser"),
        ("gs://STAGING_BUCKET", "SERVICE_ACCOUNT", "roles/storage.legacyBucketReader"),
        ("gs://CONTENT_BUCKET", "COLLECTOR_ACCOUNT", "roles/storage.objectUser"),
        ("gs://CONTENT_BUCKET", "COLLECTOR_ACCOUNT", "roles/storage.legacyBucketReader"),
        ("gs://BUCKET", "COLLECTOR_ACCOUNT", "roles/storage.objectUser"),
        ("gs://BUCKET", "COLLECTOR_ACCOUNT", "roles/storage.legacyBucketReader"),
    ]
    .into();
    let commands = all();
    let granted: BTreeSet<(&str, &str, &str)> = commands
        .iter()
        .filter(|(_, command)| command.words.iter().any(|word| word == "add-iam-policy-binding"))
        .map(|(line, Command { words, flags })| {
            let member = flags["member"].strip_prefix("serviceAccount:").expect(line);
            (words.last().expect("what it is on").as_str(), member, flags["role"].as_str())
        })
        .collect();
    assert_eq!(granted, expected);
    let surface =
        std::fs::read_to_string(crate::commands::root().join("runbooks/access-surface.md")).expect("a page");
    for (_, _, role) in expected {
        assert!(surface.contains(role), "access-surface.md does not know {role}");
    }
}

#[tokio::test]
async fn what_gcloud_makes_is_what_provision_makes() {
    let by_hand = Broker::start(([127, 0, 0, 1], 0).into()).await.expect("a broker");
    let by_us = Broker::start(([127, 0, 0, 1], 0).into()).await.expect("a broker");
    let web = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut made = Vec::new();
    // The page's order: a named object must be there already.
    let page =
        std::fs::read_to_string(crate::commands::root().join("runbooks/pubsub-setup.md")).expect("the page");
    for line in page
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("gcloud pubsub") && line.contains(" create "))
    {
        let command = read(line);
        let path = format!("projects/{PROJECT}/{}/{}", command.words[1], command.words[3]);
        let body = body(line, &command);
        let url = format!("{}/v1/{path}", by_hand.endpoint());
        let answer = web.put(url).json(&body).send().await.expect("the broker answers");
        assert!(answer.status().is_success(), "{line}: {:?}", answer.text().await);
        made.push(path);
    }
    assert_eq!(made.len(), 4, "{made:?}");

    let provisioned = provision(&by_us, &[]).await;
    assert_eq!(provisioned["ok"], json!(true), "{provisioned:#}");
    for path in &made {
        let look = async |broker: &Broker| -> Value {
            let answer = web.get(format!("{}/v1/{path}", broker.endpoint())).send().await.expect("an answer");
            answer.json().await.expect("JSON")
        };
        assert_eq!(look(&by_hand).await, look(&by_us).await, "{path}");
    }
    let verified = provision(&by_hand, &["--dry-run"]).await;
    let states: BTreeSet<&str> = verified["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|step| step["state"].as_str())
        .collect();
    assert_eq!(states, ["exists"].into(), "{verified:#}");
}

/// The request body that the flags of one command stand for.
fn body(line: &str, command: &Command) -> Value {
    assert_eq!(command.flags.get("project").map(String::as_str), Some(PROJECT), "{line}");
    if command.words[1] == "topics" {
        assert_eq!(command.flags.len(), 1, "{line}");
        return json!({});
    }
    let topic = |name: &str| format!("projects/{PROJECT}/topics/{name}");
    let mut body = json!({});
    for (flag, value) in &command.flags {
        match flag.as_str() {
            "project" => {}
            "topic" => body["topic"] = json!(topic(value)),
            "ack-deadline" => body["ackDeadlineSeconds"] = json!(value.parse::<u32>().expect(line)),
            "min-retry-delay" => body["retryPolicy"]["minimumBackoff"] = json!(value),
            "max-retry-delay" => body["retryPolicy"]["maximumBackoff"] = json!(value),
            "message-retention-duration" => {
                let days: u64 = value.strip_suffix('d').and_then(|days| days.parse().ok()).expect(line);
                body["messageRetentionDuration"] = json!(format!("{}s", days * 86_400));
            }
            "expiration-period" => {
                assert_eq!(value, "never", "{line}");
                body["expirationPolicy"] = json!({});
            }
            "dead-letter-topic" => body["deadLetterPolicy"]["deadLetterTopic"] = json!(topic(value)),
            "max-delivery-attempts" => {
                body["deadLetterPolicy"]["maxDeliveryAttempts"] = json!(value.parse::<i32>().expect(line));
            }
            other => panic!("{line}: nobody knows --{other}"),
        }
    }
    assert_eq!(body["retryPolicy"]["minimumBackoff"], json!(format!("{}s", RETRY_MIN.as_secs())), "{line}");
    assert_eq!(body["messageRetentionDuration"], json!(format!("{}s", RETENTION.as_secs())), "{line}");
    if command.flags.contains_key("dead-letter-topic") {
        assert_eq!(body["deadLetterPolicy"]["maxDeliveryAttempts"], json!(MAX_DELIVERY_ATTEMPTS), "{line}");
    }
    body
}

/// `provision` with the names of the page, on this broker.
async fn provision(broker: &Broker, more: &[&str]) -> Value {
    let output = tokio::process::Command::new(binary())
        .env_clear()
        .env("DATABASE_URL", "postgres://forms_app@127.0.0.1/forms")
        .env("PUBSUB_EMULATOR_HOST", broker.host_port())
        .env("MAPLE_ROUTER__MAIL__FROM", "it@example.org")
        .envs([
            ("MAPLE_ROUTER__PUBSUB__PROJECT", PROJECT),
            ("MAPLE_ROUTER__PUBSUB__TOPIC", "routing"),
            ("MAPLE_ROUTER__PUBSUB__SUBSCRIPTION", "routing-maple"),
            ("MAPLE_ROUTER__PUBSUB__DEAD_LETTER_TOPIC", "routing-dead"),
            ("MAPLE_ROUTER__PUBSUB__DEAD_LETTER_SUBSCRIPTION", "routing-dead-maple"),
        ])
        .args(["provision", "--json"])
        .args(more)
        .output()
        .await
        .expect("provision runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}
