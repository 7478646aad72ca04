//! A reader sent to a section finds it: from Slack, from Prometheus, from another runbook.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use maple_router::daemon::ROOMS;
use maple_router::grading::card as grading;
use maple_router::grey_queue::card::RUNBOOK;
use maple_router::grey_queue::store::Notice;
use maple_router::ports::RUNBOOKS;
use maple_router::ports::RecordKind;
use maple_router::retention::card as retention;
use maple_router::routing::submission::cause::Cause;
use maple_router::routing::submission::ledger::FailReason;
use maple_router::screening::card as screening;
use maple_router::uploads::card as uploads;

use crate::commands::{Place, at, root, runbooks};

/// Headings of a file of `runbooks/`, as they are written.
fn headings(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if !fenced && line.starts_with('#') {
            found.insert(line.trim_start_matches('#').trim().to_owned());
        }
    }
    found
}

/// A heading's anchor as the web shows it in an address.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn in_runbooks(file: &str) -> std::path::PathBuf {
    root().join("runbooks").join(file)
}

#[test]
fn every_message_in_slack_names_a_section_that_is_there() {
    let mut named: Vec<_> = ROOMS.iter().flat_map(|room| room.incidents).map(|key| key.runbook()).collect();
    let reasons = FailReason::ALL.iter().map(|reason| reason.label()).chain(["unknown"]);
    named.extend(reasons.map(|reason| Cause::of(reason).runbook()));
    let rb_009 = Cause::of("unknown").runbook();
    named.extend(
        [RecordKind::Unreadable, RecordKind::UnknownSubmission, RecordKind::Notification]
            .map(|kind| maple_router::ports::Runbook { section: kind.label(), ..rb_009 }),
    );
    named.push(maple_router::routing::delivery::lost::story_of_the_rest().runbook);
    named.push(maple_router::routing::follow::extra_tickets::RUNBOOK);
    named.extend(
        Notice::ALL
            .iter()
            .map(|notice| maple_router::ports::Runbook { file: RUNBOOK, section: notice.section() }),
    );
    assert!(named.len() >= 18, "{named:?}");
    for runbook in named {
        let found = headings(&in_runbooks(runbook.file));
        assert!(found.contains(runbook.section), "{runbook:?} is not among {found:#?}");
    }
    assert_eq!(RUNBOOKS, "/usr/share/doc/maple-router/runbooks", "where the package puts them");
}

#[test]
fn every_alert_of_prometheus_has_a_section_of_its_own() {
    let rules = fs::read_to_string(root().join("monitoring/prometheus/alerts.yml")).expect("the rules");
    let names: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 20, "{names:?}");
    let mut found = headings(&in_runbooks("rb-009-routing-failure.md"));
    found.extend(headings(&in_runbooks(RUNBOOK)));
    found.extend(headings(&in_runbooks(uploads::RUNBOOK)));
    found.extend(headings(&in_runbooks(maple_router::forms::card::RUNBOOK)));
    found.extend(headings(&in_runbooks(retention::RUNBOOK)));
    found.extend(headings(&in_runbooks(screening::RUNBOOK)));
    found.extend(headings(&in_runbooks(grading::RUNBOOK)));
    let missing: Vec<_> = names.iter().filter(|name| !found.contains(**name)).collect();
    assert!(missing.is_empty(), "rb-009 to rb-015 say nothing of {missing:?}");
    let gone: Vec<_> = found
        .iter()
        .filter(|name| name.starts_with("MapleRouter") && !names.contains(name.as_str()))
        .collect();
    assert!(gone.is_empty(), "sections for alerts that are not there: {gone:?}");
    for address in rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")) {
        let (file, section) = address.trim_matches('"').rsplit_once('#').expect(address);
        let headings = headings(&in_runbooks(file.rsplit('/').next().expect("a file")));
        assert!(headings.iter().any(|heading| anchor(heading) == section), "{address}");
    }
}

#[test]
fn every_link_between_runbooks_leads_somewhere() {
    let mut seen = 0;
    for file in runbooks() {
        let text = fs::read_to_string(&file).expect("a runbook");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            seen += 1;
            let (target, section) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { file.clone() } else { in_runbooks(target) };
            let found = headings(&target);
            let leads = section.is_empty() || found.iter().any(|heading| anchor(heading) == section);
            assert!(leads, "{}: ({link}) leads nowhere; there is {found:?}", file.display());
        }
    }
    assert!(seen > 40, "{seen} links");
}

#[test]
fn every_runbook_says_first_what_one_sees_and_types() {
    for file in runbooks() {
        let text = fs::read_to_string(&file).expect("a runbook");
        if ["README.md", "cost.md"].iter().any(|name| file.ends_with(name)) {
            continue;
        }
        let head: String = text.lines().take(12).collect::<Vec<_>>().join(" ");
        assert!(
            head.contains("You see") || head.contains("What the router may do"),
            "{}: {head}",
            file.display()
        );
        assert!(head.contains("ou type"), "{}: {head}", file.display());
    }
}

#[test]
fn every_step_of_the_drill_has_its_section_and_every_alert_its_step() {
    let steps: BTreeSet<String> = devkit::drill::steps().into_iter().map(str::to_owned).collect();
    let mut sections = headings(&in_runbooks("drill-red-blue.md"));
    assert!(sections.remove("Drill: red and blue"));
    assert_eq!(steps, sections, "steps of the program, sections of the runbook");
    assert_eq!(at(Place::Drill).into_keys().collect::<Vec<_>>(), ["make drill"]);

    let rules = fs::read_to_string(root().join("monitoring/prometheus/alerts.yml")).expect("the rules");
    let names: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let text = fs::read_to_string(in_runbooks("drill-red-blue.md")).expect("the runbook");
    let mut played = String::new();
    for entry in fs::read_dir(root().join("devkit/src/drill")).expect("the drill") {
        played.push_str(&fs::read_to_string(entry.expect("an entry").path()).expect("a source file"));
    }
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !played.contains(&format!("\"{name}\"")) || !text.contains(**name))
        .collect();
    assert!(missing.is_empty(), "alerts that no step of the drill makes fire: {missing:?}");
}
