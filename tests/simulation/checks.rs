//! P1 to P8 of the protocol, asked of what the database kept, of the mails at the relays, of the tickets at the help
//! desk (`tickets.rs`) and of the alerts at the webhook; never of what a daemon says of itself.
//!
//! No check here looks at time that a test could be unlucky with: where two things happened at once, both orders count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use devkit::help_desk::{Asked, Ticket};
use devkit::smtp::Mail;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::history::{Change, Record};
use crate::tickets;

/// `routing.max_attempts`
const MAX_ATTEMPTS: u64 = 5;

/// Traces of a sequence.
pub(crate) struct Evidence {
    pub(crate) records: BTreeMap<Uuid, Record>,
    pub(crate) mails: Vec<Arc<Mail>>,
    /// Tickets that the help desk made.
    pub(crate) tickets: Vec<Arc<Ticket>>,
    /// What the help desk was asked about tags.
    pub(crate) calls: Vec<Asked>,
    /// Alerts that the webhook got.
    pub(crate) alerts: Vec<String>,
    /// Time since which an attachment is not clean.
    pub(crate) unclean_since: BTreeMap<Uuid, Timestamp>,
    /// `routing.in_doubt = "hold"`
    pub(crate) hold: bool,
}

/// Returns every violation, each named after its property.
pub(crate) fn violations(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, record) in &evidence.records {
        let before = wrong.len();
        let mut findings = Findings { wrong: &mut wrong, id: *id };
        ended(&mut findings, record);
        transitions(&mut findings, record);
        trail(&mut findings, record);
        attempts(&mut findings, record);
        plan(&mut findings, record);
        let mails: Vec<&Mail> = evidence
            .mails
            .iter()
            .map(AsRef::as_ref)
            .filter(|mail| mail.submission_id.as_deref() == Some(id.to_string().as_str()))
            .collect();
        sends(&mut findings, record, &mails, evidence);
        clean(&mut findings, record, evidence.unclean_since.get(id));
        routed(&mut findings, record, &mails);
        tickets::check(&mut findings, record, evidence);
        alerted(&mut findings, record, evidence);
        if wrong.len() > before {
            let mails = mails.iter().map(|mail| {
                let at = Timestamp::try_from(mail.at).expect("a time");
                format!("  {at} {} to {:?}, {:?}\n", mail.queue_id, mail.recipients, mail.message_id)
            });
            let of_it = evidence.tickets.iter().filter(|ticket| tickets::is_of(ticket, *id));
            let made =
                of_it.map(|made| format!("  {} ticket {}, {:?}\n", made.created_at, made.id, made.tags));
            wrong.push(format!("{id}:\n{record}{}", mails.chain(made).collect::<String>()));
        }
    }
    let known = |mail: &&Arc<Mail>| {
        let id = mail.submission_id.as_deref().and_then(|id| id.parse().ok());
        id.is_some_and(|id| evidence.records.contains_key(&id))
    };
    let strangers = evidence.mails.iter().filter(|mail| !known(mail)).count();
    if strangers > 0 {
        wrong.push(format!("{strangers} mails of no submission"));
    }
    let is_known = |ticket: &&Arc<Ticket>| evidence.records.keys().any(|id| tickets::is_of(ticket, *id));
    let strangers = evidence.tickets.iter().filter(|ticket| !is_known(ticket)).count();
    if strangers > 0 {
        wrong.push(format!("{strangers} tickets of no submission"));
    }
    wrong
}

pub(crate) struct Findings<'a> {
    wrong: &'a mut Vec<String>,
    pub(crate) id: Uuid,
}

impl Findings<'_> {
    pub(crate) fn unless(&mut self, right: bool, what: impl FnOnce() -> String) {
        if !right {
            self.wrong.push(format!("{} of {}", what(), self.id));
        }
    }
}

fn is_terminal(status: &str) -> bool {
    matches!(status, "routed" | "failed")
}

/// P2: what is ready ends; what is infected ends as failed; only what still waits for its scan may wait.
fn ended(findings: &mut Findings<'_>, record: &Record) {
    let has = |status: &str| record.attachments.iter().any(|found| found == status);
    let status = record.status.as_str();
    let fine = is_terminal(status) || (status == "received" && has("pending") && !has("infected"));
    findings.unless(fine, || format!("P2: {status} {:?} at the end: {}", record.attachments, record.ledger));
}

/// P4: a claim is ended once, by its holder (or by the sweep), and nobody else changes anything but facts.
fn transitions(findings: &mut Findings<'_>, record: &Record) {
    // By token and time: a claim whose answer was lost is repeated under its token, also when it was taken back meanwhile.
    let mut ended = BTreeSet::new();
    for change in &record.changes {
        let holder = change.before["claim"]["worker"].as_str().unwrap_or_default();
        let token = change.before["claim"]["token"].as_str().unwrap_or_default();
        let by_sweep = change.tx.starts_with("sweep") || change.tx.starts_with("stuck");
        let mine = holder == change.process || by_sweep;
        if change.from == "processing" && change.to != "processing" {
            findings.unless(mine, || {
                format!("P4: {} ended the claim of {holder} in {}", change.process, change.tx)
            });
            findings.unless(ended.insert(change.before["claim"].to_string()), || {
                format!("P4: claim {token} ended twice")
            });
            if is_terminal(&change.to) && !by_sweep {
                let by = change.after["finished"]["token"].as_str();
                findings.unless(by == Some(token), || format!("P4: claim {token} finished by {by:?}"));
            }
        }
        let taken = change.from == "received" && change.to == "processing";
        let taker = change.after["claim"]["worker"].as_str().unwrap_or_default();
        findings.unless(!taken || taker == change.process, || {
            format!("P4: {} claimed for {taker}", change.process)
        });
        if change.from == "processing" && !mine {
            let (before, after) = (deliveries(&change.before), deliveries(&change.after));
            let facts_only = change.to == "processing"
                && after
                    .iter()
                    .all(|(key, entry)| before.get(key) == Some(entry) || entry["state"] == "accepted");
            findings.unless(facts_only, || format!("P4: {} changed what {holder} holds", change.process));
        }
        let back = is_terminal(&change.from) && !is_terminal(&change.to);
        let replayed = change.tx.starts_with("replay");
        findings.unless(!back || replayed, || {
            format!("P4: {} back to {} in {}", change.from, change.to, change.tx)
        });
    }
}

/// P3: exactly one audit row for each terminal transition, in its transaction, and none besides.
fn trail(findings: &mut Findings<'_>, record: &Record) {
    let mut rows: Vec<(i64, &str)> = record
        .audit
        .iter()
        .filter(|row| row.action.starts_with("submission_rout"))
        .map(|row| (row.xid, row.action.as_str()))
        .collect();
    for change in &record.changes {
        if !is_terminal(&change.to) || change.from == change.to {
            continue;
        }
        let word = if change.to == "routed" { "submission_routed" } else { "submission_route_failed" };
        let place = rows.iter().position(|row| *row == (change.xid, word));
        findings.unless(place.is_some(), || format!("P3: {} by {} without {word}", change.to, change.tx));
        place.map(|place| rows.remove(place));
    }
    findings.unless(rows.is_empty(), || format!("P3: audit rows of no transition: {rows:?}"));
    for fact in record.audit.iter().filter(|row| row.action == "email_sent") {
        let stands = record.changes.iter().any(|change| change.xid == fact.xid);
        findings.unless(stands, || format!("P3: email_sent without its fact: {}", fact.detail));
    }
}

/// P8: attempts stay within bounds, rise by one with a claim, and a claim that left no trace is refunded.
fn attempts(findings: &mut Findings<'_>, record: &Record) {
    let count = |ledger: &Value| ledger["attempts"].as_u64().unwrap_or_default();
    let mut tried_tokens = BTreeSet::new();
    for change in &record.changes {
        let (before, after) = (count(&change.before), count(&change.after));
        findings.unless(after <= MAX_ATTEMPTS, || format!("P8: {after} attempts"));
        let claims = change.from == "received" && change.to == "processing";
        findings.unless(after <= before + u64::from(claims), || {
            format!("P8: {before} to {after} in {}", change.tx)
        });
        for (_, entry) in fresh_begins(change) {
            tried_tokens.insert(entry["begun"]["token"].as_str().unwrap_or_default().to_owned());
        }
        let token = change.before["claim"]["token"].as_str().unwrap_or_default();
        // A decision without a send leaves a trace as well.
        if change.tx == "record" && change.before["deliveries"] != change.after["deliveries"] {
            tried_tokens.insert(token.to_owned());
        }
        // So does a ticket that was found and not made, also where its fact went by the spool.
        let (was, is) = (deliveries(&change.before), deliveries(&change.after));
        if is.iter().any(|(key, entry)| was.get(key) != Some(entry) && entry["token"] == token) {
            tried_tokens.insert(token.to_owned());
        }
        let released = change.from == "processing" && change.to == "received";
        let tried = tried_tokens.contains(token)
            || change.before["plan"].as_array().is_none_or(Vec::is_empty)
            || change.tx == "record";
        let resets = change.before["resets"].as_u64().unwrap_or_default();
        let refunded = after + 1 == before || before == 0;
        findings.unless(!released || tried || refunded || resets >= 10, || {
            format!("P8: a claim that left no trace cost an attempt ({before} to {after} in {})", change.tx)
        });
    }
}

/// The plan is pinned: it never changes once it is there, except where an operator says so.
fn plan(findings: &mut Findings<'_>, record: &Record) {
    for change in record.changes.iter().filter(|change| !change.tx.starts_with("replay")) {
        let (before, after) = (&change.before["plan"], &change.after["plan"]);
        let pinned = before.as_array().is_some_and(|plan| !plan.is_empty());
        findings.unless(!pinned || before == after, || format!("pinned plan changed in {}", change.tx));
    }
}

/// The end of one intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A fact, or a doubt: a mail may be there.
    Perhaps,
    /// Recorded as not sent, or taken back before it was sent.
    Not,
}

/// P1: no intent after a fact; a mail or a ticket only after its intent; as many as sends that may have delivered, all
/// with the one Message-ID or tag of their generation; a second one only out of doubt, and under `hold` none.
fn sends(findings: &mut Findings<'_>, record: &Record, mails: &[&Mail], evidence: &Evidence) {
    let mut sent: BTreeMap<(String, u64), Vec<(Fate, Timestamp)>> = BTreeMap::new();
    for (place, change) in record.changes.iter().enumerate() {
        for key in unmarked(change) {
            findings.unless(false, || format!("P1: {key} is not in doubt after {}", change.tx));
        }
        for (key, entry) in fresh_begins(change) {
            let before = &change.before["deliveries"][&key];
            // A claim may pin the plan and record its first mail's intent in one write.
            let planless = change.before["plan"].as_array().is_none_or(Vec::is_empty);
            let pinned_here = before.is_null() && change.tx == "claim" && planless;
            findings.unless(before["state"] == "open" || pinned_here, || {
                format!("P1: {key} begun after {}", before["state"])
            });
            let doubtful = before["doubt"] == true || before["begun"].is_object();
            let asked_for = change.after["overrides"].as_array().is_some_and(|all| !all.is_empty());
            findings.unless(!(evidence.hold && doubtful) || asked_for, || {
                format!("P1: {key} in doubt, begun under hold")
            });
            let order = key.split('|').next().unwrap_or_default();
            let generation = change.after["generations"][order].as_u64().unwrap_or_default();
            let fate = fate(&record.changes[place + 1..], &key, entry["begun"]["token"].as_str());
            sent.entry((key, generation)).or_default().push((fate, change.asked));
        }
    }
    let mut there: BTreeMap<(String, u64), Vec<Timestamp>> = BTreeMap::new();
    for mail in mails {
        let Some((order, generation)) = mail.message_id.as_deref().and_then(origin) else {
            findings.unless(false, || format!("P1: a mail with Message-ID {:?}", mail.message_id));
            continue;
        };
        let at = Timestamp::try_from(mail.at).expect("a time");
        for recipient in &mail.recipients {
            there.entry((format!("{order}|{recipient}"), generation)).or_default().push(at);
        }
    }
    for ticket in &evidence.tickets {
        let of_it = ticket.tags.iter().filter_map(|tag| tickets::origin(tag));
        for (_, order, generation) in of_it.filter(|(id, ..)| *id == findings.id) {
            let delivery = (format!("{order}|happyfox"), generation);
            there.entry(delivery).or_default().push(ticket.created_at);
        }
    }
    for (delivery, times) in &there {
        let sends = sent.get(delivery).map(Vec::as_slice).unwrap_or_default();
        let perhaps = sends.iter().filter(|(fate, _)| *fate == Fate::Perhaps).count();
        findings.unless(times.len() <= perhaps, || {
            format!("P1: {delivery:?} {} times there after {sends:?}", times.len())
        });
        let first = sends.iter().map(|(_, asked)| *asked).min();
        for at in times {
            findings.unless(first.is_some_and(|first| first <= *at), || {
                format!("P1: {delivery:?} sent before begun")
            });
        }
    }
}

/// The next thing that happened to a delivery whose intent has `token`.
fn fate(later: &[Change], key: &str, token: Option<&str>) -> Fate {
    for change in later {
        let (before, after) = (&change.before["deliveries"][key], &change.after["deliveries"][key]);
        if before == after {
            continue;
        }
        let still = after["begun"]["token"].as_str() == token;
        let own = change.before["claim"]["token"].as_str() == token;
        return match change.tx.as_str() {
            _ if after["state"] == "accepted" => Fate::Perhaps,
            _ if still => continue,
            // Recorded by the claim that began it: only an unknown outcome may have delivered.
            "record" if own && after["error"]["class"] != "unknown" => Fate::Not,
            // An intent, given back before it was sent.
            "release" if own => Fate::Not,
            _ => Fate::Perhaps,
        };
    }
    Fate::Perhaps
}

/// P5: routed means that every action has a delivery, and every delivery a fact with its mail, or no client yet. Facts
/// have mails in any case.
fn routed(findings: &mut Findings<'_>, record: &Record, mails: &[&Mail]) {
    let entries = deliveries(&record.ledger);
    if record.status == "routed" {
        let plan = record.ledger["plan"].as_array().cloned().unwrap_or_default();
        findings.unless(!plan.is_empty(), || "P5: routed without a plan".to_owned());
        for action in plan {
            let order = format!("{}|", action["action_order"]);
            findings.unless(entries.keys().any(|key| key.starts_with(&order)), || {
                format!("P5: action {order} without")
            });
        }
        let done = |entry: &Value| entry["state"] == "accepted" || entry["state"] == "not_implemented";
        findings.unless(entries.values().all(|e| done(e)), || {
            format!("P5: routed with {}", record.ledger["deliveries"])
        });
    }
    let is_mail = |key: &str| !key.ends_with("|happyfox");
    for (key, entry) in entries.iter().filter(|(key, entry)| is_mail(key) && entry["state"] == "accepted") {
        let recipient = key.split_once('|').map(|(_, recipient)| recipient.to_owned()).unwrap_or_default();
        let id = entry["message_id"].as_str().unwrap_or_default().trim_matches(['<', '>']);
        let there = mails
            .iter()
            .filter(|mail| mail.message_id.as_deref() == Some(id) && mail.recipients.contains(&recipient));
        let facts = 1 + entry["dups"].as_array().map_or(0, Vec::len);
        let there = there.count();
        findings.unless(there >= facts, || format!("P5: {key} has {facts} facts and {there} mails: {entry}"));
    }
}

/// P7: a failure is notified, for the end it had last; and nothing counts as notified that the webhook did not get.
/// A message names one of those it is about.
fn alerted(findings: &mut Findings<'_>, record: &Record, evidence: &Evidence) {
    if record.status != "failed" {
        return;
    }
    let (finished, alert) = (&record.ledger["finished"], &record.ledger["alert"]);
    let confirmed = alert["confirmed_at"].is_string();
    let same = alert["for"] == finished["token"];
    findings.unless(confirmed && same, || format!("P7: nobody was notified of {finished}: {alert}"));
    let of_this_kind =
        |other: &Record| other.changes.iter().any(|c| c.after["finished"]["reason"] == finished["reason"]);
    let named =
        evidence.records.iter().filter(|(_, other)| of_this_kind(other)).map(|(id, _)| id.to_string());
    let mut named = named.filter(|id| evidence.alerts.iter().any(|text| text.contains(id)));
    findings.unless(!confirmed || named.next().is_some(), || {
        format!("P7: confirmed, and the webhook has nothing like {finished}: {:?}", evidence.alerts)
    });
}

/// P6: no intent is recorded while an attachment is not clean. An attachment that changed while the statement ran
/// is judged by the statement's own snapshot, which is as old as the moment it came in.
fn clean(findings: &mut Findings<'_>, record: &Record, unclean_since: Option<&Timestamp>) {
    for change in &record.changes {
        let begins = fresh_begins(change).next().is_some();
        let surely = change.unclean > 0 && unclean_since.is_some_and(|since| *since < change.asked);
        findings.unless(!(begins && surely), || {
            format!("P6: begun with {} attachments not clean", change.unclean)
        });
    }
}

/// Deliveries whose intent went although nobody can know what became of the send, and that are not in doubt: only
/// the claim that recorded it knows.
fn unmarked(change: &Change) -> Vec<String> {
    let own = change.before["claim"]["token"].as_str();
    let knows = matches!(change.tx.as_str(), "record" | "release");
    let went = |key: &str, entry: &Value| {
        let intent = &change.before["deliveries"][key]["begun"];
        intent.is_object()
            && entry["begun"].is_null()
            && entry["state"] == "open"
            && entry["doubt"] != true
            && !(knows && intent["token"].as_str() == own)
    };
    let entries = deliveries(&change.after).into_iter();
    entries.filter(|(key, entry)| went(key, entry)).map(|(key, _)| key).collect()
}

/// Deliveries whose intent this change recorded, as they are after it.
fn fresh_begins(change: &Change) -> impl Iterator<Item = (String, &Value)> {
    let is_fresh = |key: &str, entry: &Value| {
        entry["begun"].is_object() && entry["begun"] != change.before["deliveries"][key]["begun"]
    };
    deliveries(&change.after).into_iter().filter(move |(key, entry)| is_fresh(key, entry))
}

pub(crate) fn deliveries(ledger: &Value) -> BTreeMap<String, &Value> {
    let entries = ledger["deliveries"].as_object().into_iter().flatten();
    entries.map(|(key, entry)| (key.clone(), entry)).collect()
}

/// Action and generation of a Message-ID, `maple.SUBMISSION.ORDER.GENERATION@…`.
fn origin(message_id: &str) -> Option<(i32, u64)> {
    let mut parts = message_id.split('@').next()?.split('.').skip(2);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
