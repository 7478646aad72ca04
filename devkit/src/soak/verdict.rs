//! Laws after a soak, checked on the evidence. Pure. Every check says what it looked at and names the first few
//! violations.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::memory::{Growth, MOST};
use super::witness::{Evidence, Row};

/// Offenders that are named.
const NAMED: usize = 5;
/// Attempts a submission has.
const MAX_ATTEMPTS: u64 = 5;

/// One law and its result.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) good: bool,
    /// The finding, in words.
    pub(super) found: String,
}

/// Counts for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    pub(super) submitted: u64,
    pub(super) routed: u64,
    /// By reason.
    pub(super) failed: BTreeMap<String, u64>,
    pub(super) open: u64,
    /// Mails at the receiver, by its own count.
    pub(super) mails: u64,
    /// Tickets at the help desk, by its own count.
    pub(super) tickets: u64,
    /// Mails after the first for one recipient of one action.
    pub(super) duplicates: u64,
    /// Duplicates of deliveries that the ledger knows to have been in doubt.
    pub(super) duplicates_in_doubt: u64,
    /// Deliveries that were in doubt at some time.
    pub(super) in_doubt: u64,
    /// Submissions by attempts.
    pub(super) attempts: BTreeMap<u64, u64>,
    /// Submissions taken back by a sweep at least once.
    pub(super) reset: u64,
    /// Facts that came when another worker's was there.
    pub(super) late_facts: u64,
}

/// Judges everything.
pub(super) fn judge(evidence: &Evidence, growths: &[Growth], broken: &[String]) -> (Vec<Check>, Tally) {
    let mut tally = Tally::default();
    let mut faults = Faults::default();
    for id in evidence.ids() {
        tally.submitted += 1;
        let Some(row) = evidence.rows.get(&id) else {
            faults.lost.push(format!("{id}: no row"));
            continue;
        };
        one(evidence, id, row, &mut tally, &mut faults);
    }
    let strangers = evidence.received.keys().filter(|id| !evidence.rows.contains_key(id));
    faults.unexplained.extend(strangers.map(|id| format!("{id}: mails of no submission")));
    let notified = slack_tells(&evidence.slack);
    let failed: u64 = tally.failed.values().sum();
    let checks = vec![
        check("all terminal", &faults.open, format!("{} submitted", tally.submitted)),
        check("0 lost", &faults.lost, format!("{} mails at the receiver", tally.mails)),
        check("0 stale writes that changed a status", &evidence.stale_changes, by_whom(&evidence.changes)),
        check("no claim taken back before it is stuck", &evidence.hasty_sweeps, String::new()),
        check("an end is an end", &evidence.reopened, String::new()),
        check("one audit row for each end", &faults.ends, String::new()),
        check(
            "each duplicate was in doubt, and has the same Message-ID",
            &faults.unexplained,
            format!("{} duplicates, {} in doubt", tally.duplicates, tally.duplicates_in_doubt),
        ),
        check("each ticket once", &faults.tickets, format!("{} tickets at the help desk", tally.tickets)),
        check("attempts within the maximum", &faults.spent, format!("{:?}", tally.attempts)),
        check("failures have the reasons they may have", &faults.reasons, format!("{:?}", tally.failed)),
        check(
            "every failure confirmed to Slack",
            &faults.unalerted,
            format!("{failed} failures, {} messages that tell of {notified}", evidence.slack.len()),
        ),
        Check {
            name: "Slack was notified of every failure",
            good: notified >= failed,
            found: format!("{notified} of {failed}"),
        },
        match &evidence.entries {
            Some(_) => check("one entry for each failure", &faults.entries, format!("{failed} failures")),
            None => Check {
                name: "one entry for each failure",
                good: true,
                found: "not judged: there is no review queue".to_owned(),
            },
        },
        Check {
            name: "every event settled",
            good: evidence.events_left == 0,
            found: format!("{} left", evidence.events_left),
        },
        memory(growths),
        check("no daemon ended by itself or stopped badly", broken, String::new()),
    ];
    (checks, tally)
}

/// Violations.
#[derive(Debug, Default)]
struct Faults {
    open: Vec<String>,
    lost: Vec<String>,
    ends: Vec<String>,
    unexplained: Vec<String>,
    spent: Vec<String>,
    reasons: Vec<String>,
    unalerted: Vec<String>,
    entries: Vec<String>,
    tickets: Vec<String>,
}

fn one(evidence: &Evidence, id: Uuid, row: &Row, tally: &mut Tally, faults: &mut Faults) {
    let ledger = &row.ledger;
    let reason = ledger["finished"]["reason"].as_str().unwrap_or_default();
    match row.status.as_str() {
        "routed" => tally.routed += 1,
        "failed" => {
            *tally.failed.entry(reason.to_owned()).or_default() += 1;
            let confirmed = !ledger["alert"]["confirmed_at"].is_null()
                && ledger["alert"]["for"] == ledger["finished"]["token"];
            if !confirmed {
                faults.unalerted.push(format!("{id}: {}", ledger["alert"]));
            }
            // The relay refuses a share for good, and defers a share so often that attempts can run out.
            if !matches!(reason, "refused" | "exhausted") {
                faults.reasons.push(format!("{id}: {reason}"));
            }
        }
        other => {
            tally.open += 1;
            faults.open.push(format!("{id}: {other}: {ledger}"));
        }
    }
    let ends = evidence.ends.get(&id).copied().unwrap_or_default();
    if ends != 1 {
        faults.ends.push(format!("{id}: {ends}"));
    }
    let attempts = ledger["attempts"].as_u64().unwrap_or_default();
    *tally.attempts.entry(attempts).or_default() += 1;
    if attempts > MAX_ATTEMPTS {
        faults.spent.push(format!("{id}: {attempts}"));
    }
    tally.reset += u64::from(ledger["resets"].as_u64().unwrap_or_default() > 0);
    reviewed(evidence, id, row, faults);
    deliveries(evidence, id, row, tally, faults);
}

/// A failure has one entry, which knows it by its token; what is routed never failed.
fn reviewed(evidence: &Evidence, id: Uuid, row: &Row, faults: &mut Faults) {
    let Some(entries) = &evidence.entries else { return };
    let found = entries.get(&id).map(Vec::as_slice).unwrap_or_default();
    let token = row.ledger["finished"]["token"].as_str().unwrap_or_default();
    let expected: &[&[&str]] = if row.status == "failed" { &[&[token]] } else { &[] };
    if found != expected {
        faults.entries.push(format!("{id}: {}, its failure is {token}, its entries {found:?}", row.status));
    }
}

fn deliveries(evidence: &Evidence, id: Uuid, row: &Row, tally: &mut Tally, faults: &mut Faults) {
    let mut received = evidence.received.get(&id).cloned().unwrap_or_default();
    let none = serde_json::Map::new();
    for (key, entry) in row.ledger["deliveries"].as_object().unwrap_or(&none) {
        let (order, address) = key.split_once('|').unwrap_or_default();
        if address == "happyfox" {
            let tag = format!("maple-{}-{order}-0", id.simple());
            let made = evidence.tickets.get(&tag).copied().unwrap_or_default();
            tally.tickets += made;
            if made != u64::from(entry["state"] == "accepted") {
                faults.tickets.push(format!("{id}: {made} tickets, and {key} is {}", entry["state"]));
            }
            continue;
        }
        let doubt = entry["doubted"] == Value::Bool(true) || entry["doubt"] == Value::Bool(true);
        tally.in_doubt += u64::from(doubt);
        tally.late_facts += entry["dups"].as_array().map_or(0, Vec::len) as u64;
        let message_id = format!("maple.{}.{order}.0@greenpeace.org", id.simple());
        let copies = received.remove(&(address.to_owned(), message_id)).unwrap_or_default();
        tally.mails += copies;
        let more = copies.saturating_sub(1);
        tally.duplicates += more;
        let accepted = entry["state"] == "accepted";
        if accepted && copies == 0 {
            faults.lost.push(format!("{id}: {key} is accepted in the ledger, and the receiver has nothing"));
        }
        if doubt {
            tally.duplicates_in_doubt += more;
        } else if more > 0 || (copies > 0 && !accepted) {
            faults.unexplained.push(format!("{id}: {key}: {copies} at the receiver: {entry}"));
        }
        if row.status == "routed" && !accepted {
            faults.lost.push(format!("{id}: routed, and {key} is {}", entry["state"]));
        }
    }
    for ((recipient, message_id), copies) in received {
        tally.mails += copies;
        faults.unexplained.push(format!("{id}: {copies} to {recipient} under {message_id}"));
    }
}

fn check(name: &'static str, faults: &[String], found: String) -> Check {
    let mut text = found;
    if !faults.is_empty() {
        let named: Vec<&str> = faults.iter().take(NAMED).map(String::as_str).collect();
        text = format!("{} NOT: {}", faults.len(), named.join(" · "));
    }
    Check { name, good: faults.is_empty(), found: text }
}

fn memory(growths: &[Growth]) -> Check {
    const NAME: &str = "resident memory grows less than 1 MiB in 10 minutes";
    let lines: Vec<String> = growths
        .iter()
        .map(|g| {
            let (first, last) = g.resident_mib;
            format!(
                "{}: {:+.2} MiB in 10 min over {:.0} s ({first:.1} → {last:.1} MiB)",
                g.daemon, g.mib_in_10_min, g.seconds
            )
        })
        .collect();
    if lines.is_empty() {
        return Check { name: NAME, good: true, found: "not judged: no daemon lived for 300 s".to_owned() };
    }
    Check { name: NAME, good: growths.iter().all(|g| g.mib_in_10_min < MOST), found: lines.join(" · ") }
}

fn by_whom(changes: &BTreeMap<String, u64>) -> String {
    let counts: Vec<String> = changes.iter().map(|(what, count)| format!("{what}: {count}")).collect();
    counts.join(" · ")
}

/// Number of failures that the messages report, by the number that stands before `×`.
fn slack_tells(messages: &[String]) -> u64 {
    let count = |text: &String| -> Option<u64> {
        let (number, what) = text.strip_prefix(":rotating_light: *")?.split_once(" × ")?;
        what.starts_with("submission").then_some(())?;
        number.trim_end_matches('+').parse().ok()
    };
    messages.iter().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One submission without violations.
    fn sound() -> (Uuid, Evidence) {
        let id = Uuid::from_u128(7);
        let ledger = json!({"attempts": 1, "deliveries": {"1|a@x": {"state": "accepted"}},
                            "finished": {"token": "t", "status": "routed"}});
        let mail = ("a@x".to_owned(), format!("maple.{}.1.0@greenpeace.org", id.simple()));
        let evidence = Evidence {
            submitted: vec![id],
            rows: [(id, Row { status: "routed".to_owned(), ledger })].into(),
            received: [(id, [(mail, 1)].into())].into(),
            ends: [(id, 1)].into(),
            ..Evidence::default()
        };
        (id, evidence)
    }

    fn bad(evidence: &Evidence, growths: &[Growth]) -> Vec<&'static str> {
        judge(evidence, growths, &[]).0.iter().filter(|check| !check.good).map(|check| check.name).collect()
    }

    #[test]
    fn what_is_sound_is_found_sound() {
        assert_eq!(bad(&sound().1, &[]), Vec::<&str>::new());
    }

    #[test]
    fn every_fault_is_found_by_its_check() {
        type Break = fn(Uuid, &mut Evidence);
        let table: [(Break, &[&str]); 13] = [
            (|id, e| drop(e.rows.remove(&id)), &["0 lost", "each duplicate was in doubt"]),
            (|id, e| drop(e.received.remove(&id)), &["0 lost"]),
            (|id, e| e.rows.get_mut(&id).unwrap().status = "received".to_owned(), &["all terminal"]),
            (|id, e| e.ends.extend([(id, 2)]), &["one audit row"]),
            (
                |id, e| *e.received.get_mut(&id).unwrap().values_mut().next().unwrap() = 2,
                &["each duplicate was in doubt"],
            ),
            (
                |id, e| {
                    e.received.get_mut(&id).unwrap().extend([(("a@x".to_owned(), "other".to_owned()), 1)]);
                },
                &["each duplicate was in doubt"],
            ),
            (|id, e| e.rows.get_mut(&id).unwrap().ledger["attempts"] = json!(6), &["attempts within"]),
            (|_, e| e.stale_changes.push("x".to_owned()), &["0 stale writes"]),
            (|_, e| e.events_left = 1, &["every event settled"]),
            (
                |id, e| {
                    let row = e.rows.get_mut(&id).unwrap();
                    row.ledger["deliveries"]["2|happyfox"] = json!({"state": "accepted"});
                    e.tickets.insert(format!("maple-{}-2-0", id.simple()), 2);
                },
                &["each ticket once"],
            ),
            (
                |id, e| e.entries = Some([(id, vec![vec!["t".to_owned()]])].into()),
                &["one entry for each failure"],
            ),
            (
                |id, e| {
                    let row = e.rows.get_mut(&id).unwrap();
                    row.status = "failed".to_owned();
                    row.ledger["finished"]["reason"] = json!("refused");
                    row.ledger["alert"] = json!({"for": "t", "confirmed_at": "now"});
                    e.slack.push(":rotating_light: *1 × submission failed: x*".to_owned());
                    e.entries = Some([(id, vec![vec!["of before".to_owned()]])].into());
                },
                &["one entry for each failure"],
            ),
            (
                |id, e| {
                    let row = e.rows.get_mut(&id).unwrap();
                    row.status = "failed".to_owned();
                    row.ledger["finished"]["reason"] = json!("refused");
                },
                &["every failure confirmed", "Slack was notified of every failure"],
            ),
        ];
        for (number, (breaks, expected)) in table.into_iter().enumerate() {
            let (id, mut evidence) = sound();
            breaks(id, &mut evidence);
            let found = bad(&evidence, &[]);
            assert_eq!(found.len(), expected.len(), "{number}: {found:?}");
            assert!(found.iter().zip(expected).all(|(f, e)| f.starts_with(e)), "{number}: {found:?}");
        }
        let growth =
            Growth { daemon: "a".to_owned(), seconds: 900.0, resident_mib: (20.0, 30.0), mib_in_10_min: 1.5 };
        assert_eq!(bad(&sound().1, &[growth]).len(), 1);
    }

    #[test]
    fn a_duplicate_in_doubt_is_counted_and_allowed() {
        let (id, mut evidence) = sound();
        *evidence.received.get_mut(&id).unwrap().values_mut().next().unwrap() = 2;
        evidence.rows.get_mut(&id).unwrap().ledger["deliveries"]["1|a@x"]["doubted"] = json!(true);
        let (checks, tally) = judge(&evidence, &[], &[]);
        assert!(checks.iter().all(|check| check.good), "{checks:?}");
        assert_eq!((tally.duplicates, tally.duplicates_in_doubt, tally.mails), (1, 1, 2));
    }

    #[test]
    fn slacks_numbers_are_read() {
        let said =
            ["*12 × submission failed: x*", "*3+ × submission failed: y*", "*9 × other*", "*z* (for 3 s)"];
        let said = said.map(|text| format!(":rotating_light: {text}"));
        assert_eq!(slack_tells(&said), 15);
    }
}
