//! Every metric and every label value that rules and dashboard name is one that a daemon shows, from its first moment on.

use std::collections::{BTreeMap, BTreeSet};

use devkit::forms::Form;
use maple_router::ops::metrics;

use crate::promql::{Selector, selectors};
use crate::rules::{rules, word};
use crate::{dashboard, routing, shipped};

/// Sample names, with the values seen of each of their labels.
type Shown = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn shown(scrape: &str) -> Shown {
    let mut shown = Shown::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let end = line.find(['{', ' ']).expect("a sample");
        let labels = shown.entry(line[..end].to_owned()).or_default();
        let inside = line[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map_or("", |(inside, _)| inside);
        for (label, value) in inside.split(',').filter_map(|pair| pair.split_once('=')) {
            labels.entry(label.to_owned()).or_default().insert(value.trim_matches('"').to_owned());
        }
    }
    shown
}

fn look_for(selector: &Selector, shown: &Shown, recorded: &BTreeSet<String>) -> Result<(), String> {
    let name = &selector.name;
    let recording = name.contains(':');
    if recording {
        return if recorded.contains(name) { Ok(()) } else { Err(format!("no rule records {name}")) };
    }
    let Some(labels) = shown.get(name) else { return Err(format!("no daemon shows {name}")) };
    for (label, values) in
        selector.labels.iter().filter(|(label, _)| !["job", "instance"].contains(&label.as_str()))
    {
        let known = labels.get(label).ok_or_else(|| format!("{name} has no label {label}"))?;
        if let Some(value) = values.iter().find(|value| !known.contains(*value)) {
            return Err(format!("{name} never has {label}={value:?}, only {known:?}"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_rules_and_dashboard_name_is_what_a_daemon_shows() {
    let (stage, mut router) = routing(&[Form::new("f").mail_to("a@x.test")], "").await;
    let (_, scrape) = router.get("/metrics").await.expect("metrics");
    let shown = shown(&scrape);

    let rules = rules();
    let recorded: BTreeSet<String> = rules.iter().map(|rule| word(rule, "record").to_owned()).collect();
    let mut expressions: Vec<String> = rules.iter().map(|rule| word(rule, "expr").to_owned()).collect();
    expressions.extend(dashboard::expressions());
    let mut asked = 0;
    for expression in &expressions {
        for selector in selectors(expression) {
            asked += 1;
            look_for(&selector, &shown, &recorded).unwrap_or_else(|why| panic!("{why}, in: {expression}"));
        }
    }
    assert!(asked > 100, "{asked}");

    // Every metric is watched: on the dashboard, in a rule, or in both.
    let watched: BTreeSet<String> = expressions
        .iter()
        .flat_map(|expression| selectors(expression))
        .map(|selector| selector.name)
        .collect();
    for family in shown.keys().filter(|name| !name.ends_with("_sum") && !name.ends_with("_count")) {
        assert!(watched.contains(family), "{family} is neither on the dashboard nor in a rule");
    }

    // The process shows what the library promises from the start.
    let recorder = metrics::recorder(maple_router::daemon::ROOMS).expect("buckets are sound");
    ::metrics::with_local_recorder(&recorder, || metrics::start(maple_router::daemon::ROOMS));
    let promised = recorder.handle().render();
    let series = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series.to_owned()).collect()
    };
    let missing: Vec<String> = series(&promised).difference(&series(&scrape)).cloned().collect();
    assert!(missing.is_empty(), "not shown from the start: {missing:?}");
    for line in scrape.lines().filter(|line| line.starts_with("# TYPE")) {
        let family = line.split(' ').nth(2).expect("a name");
        assert!(scrape.contains(&format!("# HELP {family} ")), "{family} is not described");
    }
    router.stop().await.expect("stopped");
    drop(stage);
}

/// A transaction name not announced at the start appears in the middle of things, and rates of it start too late.
#[tokio::test]
async fn every_transaction_of_the_daemon_is_there_from_the_start() {
    /// Transactions of verbs only.
    const OF_VERBS: [&str; 17] = [
        "backfill",
        "backfill_page",
        "dead_letter_close",
        "ends",
        "finalize",
        "list",
        "screening_rescreen",
        "mark_attachment",
        "outbox_announce",
        "outbox_redrive",
        "pauses_put",
        "override",
        "replay",
        "reset",
        "upload_scan_again",
        "upload_scan_stale",
        "view_between",
    ];
    let (stage, mut router) = routing(&[Form::new("f").mail_to("a@x.test")], "").await;
    let (_, scrape) = router.get("/metrics").await.expect("metrics");
    let known = &shown(&scrape)["maple_router_db_transaction_seconds_count"]["name"];
    let mut used = BTreeSet::new();
    let rooms = maple_router::daemon::ROOMS.iter().map(|room| shipped(&format!("src/{}", room.name)));
    let mut dirs: Vec<_> = rooms.chain([shipped("src/db")]).collect();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let source = std::fs::read_to_string(path).expect("a source file");
            for lifecycle in
                source.split("transactions!(\"").skip(1).filter_map(|rest| rest.split('"').next())
            {
                used.extend(["claim", "wake", "settle", "extend"].map(|name| format!("{lifecycle}_{name}")));
                if !source.contains("pruned: None") {
                    used.insert(format!("{lifecycle}_prune"));
                }
            }
            for call in
                ["transaction(\"", ".write_one(\"", ".record(\"", ".answered(\"", "Transactions::one(\""]
            {
                used.extend(
                    source.split(call).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())),
                );
            }
        }
    }
    assert!(
        used.contains("claim") && used.contains("outbox_wake") && used.contains("alert_confirm"),
        "{used:?}"
    );
    let of_daemon: BTreeSet<String> =
        used.into_iter().filter(|name| !OF_VERBS.contains(&name.as_str())).collect();
    assert_eq!(known, &of_daemon);
    router.stop().await.expect("stopped");
    drop(stage);
}
