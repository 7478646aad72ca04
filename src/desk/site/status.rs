//! How the service is, as the command line says it.

use axum::extract::State;
use axum::response::Html;
use jiff::{SignedDuration, Timestamp};

use super::{Shared, Site, html, words};
use crate::desk::access::Visitor;
use crate::desk::pages::status::{BreakerLine, Count, Group, PauseLine, StatusPage, Trouble};
use crate::desk::problem::Problem;
use crate::grey_queue::store::Filter;
use crate::queries::status::Report;

pub(super) async fn show(State(site): Shared, visitor: Visitor) -> Result<Html<String>, Problem> {
    let (report, age) = site.latest.get(&site).await?;
    let store = &site.commands().store;
    let now = store.time().await?;
    let (open, oldest) = if store.is_there().await? {
        let oldest = store.list(&Filter::default(), 1, None).await?.items.pop();
        (store.counts(&Filter::default()).await?, oldest.map(|entry| entry.opened_at))
    } else {
        (Vec::new(), None)
    };
    let mut queue = words::counts(&open);
    // Ended entries are not counted.
    queue.retain(|count| count.open);
    html(&StatusPage {
        frame: Site::frame(&visitor, now),
        counted_at: ago(now, i64::try_from(age.as_secs()).unwrap_or_default()).unwrap_or(now),
        troubles: troubles(&report),
        submissions: submissions(&report, now),
        queue,
        oldest_entry: oldest,
        daemon: report.daemon_words(),
        breakers: report
            .breaker
            .iter()
            .map(|breaker| BreakerLine {
                dependency: breaker.dependency.to_owned(),
                state: if breaker.open { "open" } else { "closed" }.to_owned(),
                since: None,
                why: None,
            })
            .collect(),
        pauses: report
            .paused
            .iter()
            .map(|pause| PauseLine {
                what: pause.scope.to_string(),
                by: pause.actor.clone(),
                since: pause.since,
                until: pause.until,
                reason: pause.reason.clone(),
            })
            .collect(),
        groups: groups(&report, now),
    })
}

fn ago(now: Timestamp, seconds: i64) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::from_secs(seconds)).ok()
}

fn whole(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

fn submissions(report: &Report, now: Timestamp) -> Vec<Count> {
    let overview = &report.overview;
    let count = |(status, count): (&String, &i64)| Count {
        label: status.clone(),
        count: whole(*count),
        oldest: overview
            .oldest_seconds
            .get(status)
            .filter(|seconds| *count > 0 && **seconds > 0)
            .and_then(|seconds| ago(now, *seconds)),
    };
    overview.counts.iter().map(count).collect()
}

/// What needs somebody, the worst first.
fn troubles(report: &Report) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    let mut add = |text: String, command: &str| {
        troubles.push(Trouble { text, command: Some(command.to_owned()).filter(|text| !text.is_empty()) });
    };
    if !report.daemon_reachable {
        add("The daemon on this host does not answer.".to_owned(), "systemctl status maple-router.service");
    }
    for breaker in report.breaker.iter().filter(|breaker| breaker.open) {
        let text = format!("{} does not answer: what needs it waits, and nothing fails.", breaker.dependency);
        add(text, "maple-router check");
    }
    for pause in &report.paused {
        add(format!("{} is paused by {}.", pause.scope, pause.actor), &pause.remedy());
    }
    let overview = &report.overview;
    if overview.unalerted > 0 {
        add(format!("{} failures were told nobody yet.", overview.unalerted), "maple-router check");
    }
    if overview.in_doubt > 0 {
        let text = format!("{} deliveries of open submissions are in doubt.", overview.in_doubt);
        add(text, "maple-router list --status received");
    }
    let letters: u64 = report.dead_letters.iter().flat_map(|letters| letters.values()).sum();
    if letters > 0 {
        add(format!("{letters} dead letters are open."), "maple-router dlq list");
    }
    if let Some(why) = &report.relay.unknown {
        add(format!("What became of accepted mails is not known: {why}"), "maple-router check");
    }
    troubles
}

fn groups(report: &Report, now: Timestamp) -> Vec<Group> {
    let count = |label: &str, count: u64, oldest: Option<Timestamp>| Count {
        label: label.to_owned(),
        count,
        oldest: oldest.filter(|_| count > 0),
    };
    let mut groups = Vec::new();
    if let Some(accepted) = report.relay.accepted_undelivered {
        let oldest = report.relay.oldest_seconds.and_then(|seconds| ago(now, seconds));
        groups.push(Group {
            title: "Relay".to_owned(),
            counts: vec![count("accepted, not yet delivered", whole(accepted), oldest)],
            note: None,
        });
    }
    if let Some(outbox) = &report.outbox {
        let oldest = ago(now, i64::try_from(outbox.oldest_seconds).unwrap_or(i64::MAX));
        groups.push(Group {
            title: "Outbox".to_owned(),
            counts: vec![
                count("pending", outbox.pending, oldest),
                count("delivering", outbox.delivering, None),
                count("dead_letter", outbox.dead_letter, None),
            ],
            note: None,
        });
    }
    groups.push(match &report.dead_letters {
        Some(letters) => Group {
            title: "Dead letters".to_owned(),
            counts: letters.iter().map(|(kind, open)| count(kind, *open, None)).collect(),
            note: None,
        },
        None => Group {
            title: "Dead letters".to_owned(),
            counts: Vec::new(),
            note: Some("The records of this host cannot be read here: maple-router dlq list.".to_owned()),
        },
    });
    groups
}
