//! The Grafana dashboard: whole, described, and made of expressions that Prometheus understands.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::rules::{names, word};
use crate::{promtool, text};

fn dashboard() -> Value {
    serde_json::from_str(&text("monitoring/grafana/maple-router.json")).expect("JSON")
}

fn panels(dashboard: &Value) -> Vec<Value> {
    let all = dashboard["panels"].as_array().expect("panels");
    all.iter().filter(|panel| word(panel, "type") != "row").cloned().collect()
}

/// Every expression of every panel and annotation.
pub(crate) fn expressions() -> Vec<String> {
    let dashboard = dashboard();
    let mut found = Vec::new();
    for panel in panels(&dashboard) {
        found
            .extend(panel["targets"].as_array().expect("targets").iter().map(|t| word(t, "expr").to_owned()));
    }
    found.extend(
        dashboard["annotations"]["list"]
            .as_array()
            .expect("annotations")
            .iter()
            .map(|a| word(a, "expr").to_owned()),
    );
    found
}

#[test]
fn prometheus_understands_every_expression() {
    let dir = tempfile::tempdir().expect("a directory");
    let rules: Vec<Value> = expressions()
        .iter()
        .enumerate()
        .map(|(number, expression)| {
            let filled =
                expression.replace("$__rate_interval", "5m").replace("$job", ".+").replace("$instance", ".+");
            assert!(!filled.contains('$'), "a variable nobody fills in: {filled}");
            json!({"record": format!("panel:{number}"), "expr": filled})
        })
        .collect();
    assert!(rules.len() > 30, "{}", rules.len());
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    std::fs::write(dir.path().join("dashboard.yml"), file.to_string()).expect("written");
    promtool(dir.path(), &["check", "rules", "dashboard.yml"]);
}

/// Grafana's needs at an import, checked against its own model by hand: there is no released schema for this version.
#[test]
fn it_can_be_imported_as_it_is() {
    let dashboard = dashboard();
    assert_eq!(word(&dashboard, "uid"), "maple-router");
    assert!(!word(&dashboard, "title").is_empty());
    assert!(dashboard["id"].is_null(), "an id belongs to the instance it was exported from");
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    assert!(variables.iter().any(|v| word(v, "name") == "datasource" && word(v, "type") == "datasource"));
    let (mut ids, mut places) = (BTreeSet::new(), Vec::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "two panels have one id: {panel}");
        let at = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        let place = (at("x"), at("y"), at("x") + at("w"), at("y") + at("h"));
        assert!(place.2 <= 24, "{panel}");
        let apart = |other: &(u64, u64, u64, u64)| {
            place.0 >= other.2 || other.0 >= place.2 || place.1 >= other.3 || other.1 >= place.3
        };
        assert!(places.iter().all(apart), "it lies on another one: {panel}");
        places.push(place);
    }
}

#[test]
fn every_panel_is_described_takes_its_source_from_the_variable_and_leads_to_runbooks_that_exist() {
    let (dashboard, alerts) = (dashboard(), names());
    let mut linked = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = word(&panel, "title");
        assert!(word(&panel, "description").len() > 20, "{title} says nothing about itself");
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{title}");
        for source in targets.iter().map(|t| &t["datasource"]).chain([&panel["datasource"]]) {
            assert_eq!(word(source, "uid"), "${datasource}", "{title}");
        }
        for link in panel["links"].as_array().expect("links") {
            let alert = word(link, "title").trim_start_matches("Runbook: ");
            assert!(alerts.contains(alert), "{title} links to {alert}, which is no alert");
            let own = |file: &str| format!("${{runbooks}}/{file}#{}", alert.to_lowercase());
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
            assert!(known.iter().any(|url| url == word(link, "url")), "{title}");
            linked.insert(alert.to_owned());
        }
    }
    let missing: Vec<&String> = alerts.difference(&linked).collect();
    assert!(missing.is_empty(), "no panel shows what these are about: {missing:?}");
}
