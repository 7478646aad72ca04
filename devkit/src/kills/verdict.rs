//! Expected results of the kills. Only rows, the upstream's count and the routers' journal are believed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::{Counts, Log, Options, Report};
use crate::smtp::Digest;

/// Every delivery of the form: its key, its recipient, and its action and `place/of` in the journal.
const DELIVERIES: [(&str, &str, i64, &str); 3] = [
    ("1|a@x.test", "a@x.test", 1, "1/2"),
    ("1|b@x.test", "b@x.test", 1, "2/2"),
    ("2|c@x.test", "c@x.test", 2, "1/1"),
];
/// Examples reported in full.
const SHOWN: usize = 20;

/// Every doubt and its resolution: submission, action, index of the recipient, resolution.
type Doubts = BTreeSet<(Uuid, i64, String, String)>;

/// Counts one world.
pub(super) async fn count(
    eyes: &Client,
    digests: &HashMap<Digest, u64>,
    journal: &str,
    log: Log,
    counts: &mut Counts,
) -> Result<()> {
    let doubts = doubts(journal, counts);
    let mut mails: BTreeMap<(Uuid, &str), Vec<(&str, u64)>> = BTreeMap::new();
    for (digest, copies) in digests {
        counts.mails += copies;
        match digest.submission_id.parse() {
            Ok(id) => {
                let of_one = mails.entry((id, &digest.recipient)).or_default();
                of_one.push((&digest.message_id, *copies));
            }
            Err(_) => counts.wrong.push(format!("{copies} × a mail that is nobody's: {digest:?}")),
        }
    }
    let sql = "SELECT s.id, s.status::text, s.routing_result,
                 (SELECT count(*) FROM audit_log a WHERE a.submission_id = s.id AND a.action = 'submission_routed')
               FROM submissions s ORDER BY s.created_at";
    for row in eyes.query(sql, &[]).await? {
        let (id, status, ledger): (Uuid, String, Value) = (row.get(0), row.get(1), row.get(2));
        counts.submissions += 1;
        let mut wrong = Vec::new();
        let is_routed = status == "routed";
        counts.failed += u64::from(status == "failed");
        let may_fail = log == Log::Hold;
        if !is_routed && (!may_fail || status != "failed") {
            wrong.push(format!("is {status}"));
        }
        if row.get::<_, i64>(3) != i64::from(is_routed) {
            wrong.push(format!("is {status} with {} rows that say routed", row.get::<_, i64>(3)));
        }
        for (key, recipient, action, place) in DELIVERIES {
            let entry = &ledger["deliveries"][key];
            let came = mails.remove(&(id, recipient)).unwrap_or_default();
            if came.len() > 1 {
                wrong.push(format!("{key}: under several Message-IDs: {came:?}"));
            }
            let copies: u64 = came.iter().map(|(_, copies)| copies).sum();
            let is_on_hold = log == Log::Hold && entry["error"]["class"] == "in_doubt";
            if copies == 0 && !is_on_hold {
                counts.lost += 1;
                wrong.push(format!("{key}: LOST: {entry}"));
            }
            if copies > 1 {
                counts.duplicates += copies - 1;
                let resent = (id, action, place.to_owned(), "neither_resent".to_owned());
                if !doubts.contains(&resent) {
                    wrong.push(format!(
                        "{key}: {copies} copies, and nobody said that it is sent again: {entry}"
                    ));
                }
            }
            if log == Log::Readable && entry["relay"]["status"] != "delivered" {
                wrong.push(format!("{key}: not known to be delivered: {entry}"));
            }
        }
        counts.wrong.extend(wrong.into_iter().map(|what| format!("{id}: {what}")));
    }
    counts
        .wrong
        .extend(mails.into_keys().map(|(id, to)| format!("{id}: a mail to {to} that nobody ordered")));
    Ok(())
}

/// The routers' statements on doubt, every line of all their lives; the last line of each may be half written.
fn doubts(journal: &str, counts: &mut Counts) -> Doubts {
    let mut doubts = Doubts::new();
    let lines = journal.lines().filter(|line| line.contains("\"in_doubt\""));
    for line in lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        if text("event") != "in_doubt" {
            continue;
        }
        let action = line["action_order"].as_i64().unwrap_or_default();
        let id = text("submission_id").parse().unwrap_or_default();
        *counts.doubts.entry(text("outcome")).or_default() += 1;
        doubts.insert((id, action, text("delivery"), text("outcome")));
    }
    doubts
}

/// Judges all worlds together.
pub(super) fn judge(options: &Options, counts: Counts, took: Duration) -> Report {
    let Counts { submissions, failed, mails, kills, caught, doubts, duplicates, lost, mut wrong } = counts;
    let total: u64 = caught.values().sum();
    let count = wrong.len();
    wrong.truncate(SHOWN);
    if count > SHOWN {
        wrong.push(format!("… and {} more", count - SHOWN));
    }
    if total * 5 < kills {
        wrong
            .push(format!("only {total} of {kills} kills were between the final dot and the committed fact"));
    }
    let known = doubts.keys().any(|how| how == "found" || how == "disproved");
    match options.log {
        Log::Readable if duplicates * 100 >= kills.max(100) => {
            wrong.push(format!("{duplicates} duplicates of {kills} kills are not below 1 %"));
        }
        Log::Hold if duplicates > 0 => {
            wrong.push(format!("{duplicates} duplicates though what is in doubt is on hold"));
        }
        Log::Readable | Log::Resend | Log::Hold => {}
    }
    if options.log != Log::Readable && known {
        wrong.push(format!("doubt was resolved by a log that nobody reads: {doubts:?}"));
    }
    let list = |map: Vec<(String, u64)>| {
        let parts: Vec<String> = map.into_iter().map(|(name, n)| format!("{n} {name}")).collect();
        parts.join(", ")
    };
    let caught = list(caught.into_iter().map(|(name, n)| (name.to_owned(), n)).collect());
    let doubts = list(doubts.into_iter().collect());
    Report {
        figures: vec![
            format!("{}: {kills} kills in {:.0} s", options.log, took.as_secs_f64()),
            format!("between the final dot and the committed fact: {total} ({caught})"),
            format!("{submissions} submissions, {failed} failed, {mails} mails × recipients at the upstream"),
            format!("deliveries in doubt as the routers said: {doubts}"),
            format!("lost: {lost}; duplicates: {duplicates}"),
        ],
        wrong,
    }
}
