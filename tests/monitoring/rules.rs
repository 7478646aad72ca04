//! The alert rules: promtool reads and tries them, every alert is tried both ways, and each one tells people what to run
//! and where to read on.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::{promtool, shipped, text, yaml};

pub(crate) const RULES: &str = "monitoring/prometheus/alerts.yml";
const TESTS: &str = "monitoring/prometheus/alerts_test.yml";
const SCRAPE: &str = "monitoring/prometheus/scrape.yml";

/// Every rule, in order.
pub(crate) fn rules() -> Vec<Value> {
    let rules = yaml(RULES);
    let groups = rules["groups"].as_array().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

pub(crate) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Alerts only.
fn alerts() -> Vec<Value> {
    rules().into_iter().filter(|rule| rule["alert"].is_string()).collect()
}

/// Names of all alerts.
pub(crate) fn names() -> BTreeSet<String> {
    alerts().iter().map(|alert| word(alert, "alert").to_owned()).collect()
}

#[test]
fn promtool_reads_the_rules_and_the_scrape_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::copy(shipped(RULES), dir.path().join("alerts.yml")).expect("copied");
    let whole = format!("rule_files: [alerts.yml]\n{}", text(SCRAPE));
    std::fs::write(dir.path().join("prometheus.yml"), whole).expect("written");
    promtool(dir.path(), &["check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"]);
    promtool(dir.path(), &["check", "config", "prometheus.yml"]);
}

/// What a test asks is tried with the rules that it is about, and with those that they are computed from: promtool tries every rule
/// that it is given at each minute of each test, and most tests are about one.
#[test]
fn promtool_passes_the_unit_tests() {
    let tests = yaml(TESTS);
    let all = tests["tests"].as_array().expect("tests");
    assert!(all.len() > 90, "{}", all.len());
    let dir = tempfile::tempdir().expect("a directory");
    let write = |file: &str, what: &Value| {
        // JSON is YAML.
        std::fs::write(dir.path().join(file), what.to_string()).expect("written");
    };
    let mut files = Vec::new();
    for (number, test) in all.iter().enumerate() {
        let (file, about) = (format!("test-{number}.yml"), format!("rules-{number}.yml"));
        let mut alone = tests.clone();
        alone["tests"] = Value::Array(vec![test.clone()]);
        alone["rule_files"] = Value::Array(vec![Value::from(about.as_str())]);
        write(&file, &alone);
        write(&about, &rules_of(test));
        files.push(file);
    }
    let arguments: Vec<&str> =
        ["test", "rules"].into_iter().chain(files.iter().map(String::as_str)).collect();
    promtool(dir.path(), &arguments);
}

/// The rules, as they are shipped, without those that no question of a test comes to.
fn rules_of(test: &Value) -> Value {
    let questions = |kind: &str| test[kind].as_array().cloned().unwrap_or_default();
    let alerts: BTreeSet<String> =
        questions("alert_rule_test").iter().map(|asked| word(asked, "alertname").to_owned()).collect();
    let mut said: Vec<String> =
        questions("promql_expr_test").iter().map(|asked| word(asked, "expr").to_owned()).collect();
    let all = rules();
    said.extend(
        all.iter()
            .filter(|rule| alerts.contains(word(rule, "alert")))
            .map(|rule| word(rule, "expr").to_owned()),
    );
    let mut records = BTreeSet::new();
    while let Some(expression) = said.pop() {
        for rule in &all {
            let record = word(rule, "record");
            if !record.is_empty() && expression.contains(record) && records.insert(record.to_owned()) {
                said.push(word(rule, "expr").to_owned());
            }
        }
    }
    let mut shipped = yaml(RULES);
    for group in shipped["groups"].as_array_mut().expect("groups") {
        let rules = group["rules"].as_array_mut().expect("rules");
        rules.retain(|rule| alerts.contains(word(rule, "alert")) || records.contains(word(rule, "record")));
    }
    let groups = shipped["groups"].as_array_mut().expect("groups");
    groups.retain(|group| group["rules"].as_array().is_some_and(|rules| !rules.is_empty()));
    shipped
}

/// The window tells apart two rules of one name.
#[test]
fn every_alert_fires_in_a_unit_test_and_is_silent_in_another() {
    let tests = yaml(TESTS);
    let mut asked = Vec::new();
    for test in tests["tests"].as_array().expect("tests") {
        asked.extend(test["alert_rule_test"].as_array().expect("questions").iter());
    }
    for alert in alerts() {
        let (name, window) = (word(&alert, "alert"), &alert["labels"]["window"]);
        let of_it: Vec<&&Value> = asked.iter().filter(|test| word(test, "alertname") == name).collect();
        let expected = |test: &&&Value| test["exp_alerts"].as_array().cloned().unwrap_or_default();
        let fires = of_it
            .iter()
            .any(|test| expected(test).iter().any(|fired| &fired["exp_labels"]["window"] == window));
        let silent = of_it.iter().any(|test| expected(test).is_empty());
        assert!(fires, "{name} {window} fires in no unit test");
        assert!(silent, "{name} {window} is never seen silent");
    }
}

/// An operator woken by an alert finds what to do under the alert's own name.
#[test]
fn every_alert_has_its_section_in_the_runbook() {
    for alert in alerts() {
        let (name, url) = (word(&alert, "alert"), word(&alert["annotations"], "runbook_url"));
        let file = url.split('#').next().unwrap_or_default();
        let sections = text(file).lines().filter(|line| line.strip_prefix("## ") == Some(name)).count();
        assert_eq!(sections, 1, "{file} has {sections} sections `## {name}`");
    }
}

#[test]
fn every_alert_says_how_bad_it_is_what_to_run_and_where_to_read_on() {
    let alerts = alerts();
    assert!(alerts.len() > 30, "{}", alerts.len());
    for alert in alerts {
        let (name, annotations) = (word(&alert, "alert"), &alert["annotations"]);
        let severity = word(&alert["labels"], "severity");
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity:?}");
        assert!(!word(annotations, "summary").is_empty(), "{name} has no summary");
        let commands = word(annotations, "description").split('`').skip(1).step_by(2).count();
        assert!(commands > 0, "{name} names no command: {annotations}");
        let own = |file: &str| format!("runbooks/{file}#{}", name.to_lowercase());
        let known = [
            "rb-009-routing-failure.md",
            "rb-010-review-queue.md",
            "rb-011-uploads.md",
            "rb-012-publish.md",
            "rb-013-gc-and-erasure.md",
            "rb-014-screening.md",
            "rb-015-grading.md",
        ]
        .map(own);
        assert!(known.iter().any(|url| url == word(annotations, "runbook_url")), "{name}");
    }
}

/// The README's line makes addresses of all of them that a browser can follow, and leaves the rules as they are.
#[test]
fn runbook_links_get_the_address_that_the_readme_says_how_to_give() {
    let readme = text("monitoring/README.md");
    let line = readme.lines().map(str::trim).find(|line| line.starts_with("sed '")).expect("the line");
    let ran = Command::new("sh").args(["-c", line]).current_dir(shipped("monitoring")).output();
    let out = String::from_utf8(ran.expect("a shell").stdout).expect("text");
    let shipped = text("monitoring/prometheus/alerts.yml");
    let addresses =
        |rules: &str| rules.matches("runbook_url: \"https://wiki.example.org/runbooks/rb-").count();
    assert_eq!(addresses(&out), shipped.matches("runbook_url: ").count());
    assert_eq!(out.replace("https://wiki.example.org/", ""), shipped);
}
