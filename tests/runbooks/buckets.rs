//! The buckets of uploads: what the runbook's commands make is declared at devkit's store, and `check` has nothing to say about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use devkit::google::{Bucket, Cors, Lifecycle, Right};
use devkit::stage::{Stage, StageOptions};
use devkit::uploading::{CONTENT, STAGING, Uploading};
use serde_json::Value;

use crate::commands::root;
use crate::gcloud::{Command, read};
use crate::here::binary;

/// Rights that a role of Google's gives in a bucket.
fn rights(role: &str) -> &'static [Right] {
    match role {
        "roles/storage.objectCreator" => &[Right::Create],
        "roles/storage.objectViewer" => &[Right::Get, Right::List],
        "roles/storage.objectUser" => &[Right::Create, Right::Get, Right::Delete, Right::List],
        "roles/storage.legacyBucketReader" => &[Right::Inspect, Right::List],
        other => panic!("nobody knows what {other} gives"),
    }
}

fn page() -> String {
    std::fs::read_to_string(root().join("runbooks/rb-011-uploads.md")).expect("the page")
}

fn commands(page: &str, verb: &str) -> Vec<Command> {
    let begins = format!("gcloud storage buckets {verb} ");
    page.lines().filter(|line| line.starts_with(&begins)).map(read).collect()
}

/// The JSON block after the first mention of a file.
fn file(page: &str, name: &str) -> Value {
    let (_, after) = page.split_once(&format!("`{name}`")).expect(name);
    let (_, block) = after.split_once("```json\n").expect("a block");
    serde_json::from_str(block.split("```").next().expect("its end")).expect(name)
}

fn days(text: &str) -> Duration {
    let days: u64 = text.trim_end_matches('d').parse().expect(text);
    Duration::from_secs(days * 86_400)
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|one| one.as_str().expect("a text").to_owned()).collect()
}

fn lifecycle(file: &Value) -> Vec<Lifecycle> {
    let rules = file["lifecycle"]["rule"].as_array().expect("rules");
    let rule = |rule: &Value| {
        let age = u32::try_from(rule["condition"]["age"].as_u64().expect("an age")).expect("days");
        assert_eq!(rule["condition"].as_object().map(serde_json::Map::len), Some(1), "{rule}");
        match rule["action"]["type"].as_str() {
            Some("Delete") => Lifecycle::Delete(age),
            Some("AbortIncompleteMultipartUpload") => Lifecycle::AbortUploads(age),
            _ => panic!("{rule}"),
        }
    };
    rules.iter().map(rule).collect()
}

fn cors(file: &Value) -> Vec<Cors> {
    let entry = |entry: &Value| Cors {
        origins: texts(&entry["origin"]),
        methods: texts(&entry["method"]),
        headers: texts(&entry["responseHeader"]),
        max_age: u32::try_from(entry["maxAgeSeconds"].as_u64().expect("seconds")).expect("seconds"),
    };
    file.as_array().expect("entries").iter().map(entry).collect()
}

#[tokio::test]
async fn check_is_content_with_the_buckets_and_rights_that_the_page_makes() {
    let page = page();
    let mut variant = StageOptions::default().variant;
    (variant.router, variant.content) = (true, true);
    let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
    let stage = Stage::start(options).await.expect("a stage");
    let uploading = Uploading::beside(&stage).await.expect("clamd");
    let ours = |name: &str| match name {
        "gs://CONTENT_BUCKET" => CONTENT,
        "gs://STAGING_BUCKET" => STAGING,
        other => panic!("a bucket that nobody knows: {other}"),
    };
    let mut made: BTreeMap<&str, Bucket> = BTreeMap::new();
    for Command { words, flags } in commands(&page, "create") {
        let bucket = Bucket {
            location: flags["location"].clone(),
            storage_class: flags["default-storage-class"].clone(),
            soft_delete: days(&flags["soft-delete-duration"]),
            ..Bucket::default()
        };
        made.insert(ours(&words[3]), bucket);
    }
    for Command { words, flags } in commands(&page, "update") {
        let bucket = made.get_mut(ours(&words[3])).expect("it was created before");
        bucket.lifecycle = lifecycle(&file(&page, &flags["lifecycle-file"]));
        bucket.cors = cors(&file(&page, &flags["cors-file"]));
    }
    assert_eq!(made.len(), 2, "{made:?}");
    for (name, bucket) in made {
        stage.google.remove_bucket(name);
        stage.google.declare_bucket(name, bucket);
    }
    let mut granted: BTreeMap<&str, BTreeSet<Right>> = BTreeMap::new();
    for Command { words, flags } in commands(&page, "add-iam-policy-binding") {
        granted.entry(ours(&words[3])).or_default().extend(rights(&flags["role"]));
    }
    let account = stage.google.service_account_email().to_owned();
    for (bucket, rights) in granted {
        stage.google.grant(&account, bucket, &rights.into_iter().collect::<Vec<_>>());
    }
    let origins =
        "origin = \"https://uploads.example.org\"\nallowed_origins = [\"https://forms.example.org\"]\n";
    let settings = uploading.settings.replace("origin = \"http:", "#origin = \"http:") + origins;
    let path = stage.write_config("check", &stage.config("check", 0, &settings)).expect("written");
    let check = stage.shell(binary(), &path, &[], "maple-router check --json").await.expect("it runs");
    let said: Value = serde_json::from_str(&check.out).expect("JSON");
    let line = |name: &str| {
        let lines = said["lines"].as_array().expect("lines").iter();
        lines.clone().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name}: {check:?}")).clone()
    };
    let buckets = line("upload_buckets");
    assert_eq!(buckets["level"], "ok", "{buckets}");
    assert!(buckets["detail"].as_str().is_some_and(|detail| detail.contains("EUROPE-WEST1")), "{buckets}");
    assert_eq!(line("uploads")["level"], "ok", "{check:?}");
    // Only local signatures are here.
    let scanner = line("scanner");
    assert_eq!(scanner["level"], "warn", "{scanner}");
    assert!(
        scanner["detail"].as_str().is_some_and(|detail| detail.contains("finds its test file")),
        "{scanner}"
    );
}
