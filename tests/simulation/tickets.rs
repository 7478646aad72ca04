//! What must hold of tickets, asked of the help desk's shelf and of its record of calls: each routed one is there, none is
//! there twice, the ledger names the one that is there, and none in doubt was made again before it was looked for.

use std::collections::BTreeSet;

use devkit::help_desk::{Asked, Call, Ticket};
use serde_json::Value;
use uuid::Uuid;

use crate::checks::{Evidence, Findings, deliveries};
use crate::history::Record;

/// Answered searches between two creations of one tag: as many as a doubt window has looks.
const LOOKS: usize = 3;

/// Submission, action and generation of a tag, `maple-SUBMISSION-ORDER-GENERATION`.
pub(crate) fn origin(tag: &str) -> Option<(Uuid, i32, u64)> {
    let mut parts = tag.strip_prefix("maple-")?.split('-');
    let origin = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(origin)
}

/// The tag of an action's ticket.
pub(crate) fn tag(submission: Uuid, order: &str, generation: u64) -> String {
    format!("maple-{}-{order}-{generation}", submission.simple())
}

/// Whether a ticket belongs to a submission.
pub(crate) fn is_of(ticket: &Ticket, submission: Uuid) -> bool {
    ticket.tags.iter().filter_map(|tag| origin(tag)).any(|(id, ..)| id == submission)
}

/// The order of a ticket's delivery key.
fn order(key: &str) -> Option<&str> {
    key.strip_suffix("|happyfox")
}

/// P1 and P5 of a submission's tickets.
pub(crate) fn check(findings: &mut Findings<'_>, record: &Record, evidence: &Evidence) {
    let id = findings.id;
    let having = |tag: &str| -> Vec<u64> {
        let has = |ticket: &&std::sync::Arc<Ticket>| ticket.tags.iter().any(|known| known == tag);
        evidence.tickets.iter().filter(has).map(|ticket| ticket.id).collect()
    };
    let entries = deliveries(&record.ledger);
    for action in record.ledger["plan"].as_array().into_iter().flatten() {
        let wanted = action["action_type"] == "happyfox_template" && record.status == "routed";
        let key = format!("{}|happyfox", action["action_order"]);
        let accepted = entries.get(&key).is_some_and(|entry| entry["state"] == "accepted");
        findings.unless(!wanted || accepted, || {
            format!("P1: routed without the ticket {key}: {}", record.ledger)
        });
    }
    for (key, entry) in entries {
        let Some(order) = order(&key) else { continue };
        findings.unless(entry["state"] != "not_implemented", || format!("P5: {key} not implemented"));
        if entry["state"] != "accepted" {
            continue;
        }
        let generation = entry["generation"].as_u64().unwrap_or_default();
        let there = having(&tag(id, order, generation));
        let said = entry["ticket"]["id"].as_u64();
        findings.unless(said.is_some_and(|said| there.contains(&said)), || {
            format!("P1: {key} is ticket {said:?} by the ledger, and {there:?} at the help desk: {entry}")
        });
        let dups =
            entry["dups"].as_array().into_iter().flatten().filter_map(|fact| fact["ticket"]["id"].as_u64());
        for dup in dups {
            let known = evidence.tickets.iter().any(|ticket| ticket.id == dup && is_of(ticket, id));
            findings.unless(known, || format!("P5: {key} has a fact of ticket {dup}, which is not of it"));
        }
    }
    let again = record.changes.iter().any(|change| has_overrides(&change.after));
    for tag in tags(evidence).into_iter().filter(|tag| origin(tag).is_some_and(|(of, ..)| of == id)) {
        let there = having(&tag);
        // The index never lags here, and a search that is away says nothing: there is no excuse for a second one.
        findings.unless(there.len() <= 1, || format!("P1: tickets {there:?} have the tag {tag}"));
        // A person who opens a held one again has it looked for once.
        let needed = if again { 1 } else { LOOKS };
        let mut looks = None;
        for call in calls(evidence, &tag) {
            match (call.call, looks) {
                (Call::Create, before) => {
                    findings.unless(before.is_none_or(|before| before >= needed), || {
                        let all: Vec<_> = calls(evidence, &tag).collect();
                        format!("P1: {tag} made again after {before:?} looks: {all:?}")
                    });
                    looks = Some(0);
                }
                (Call::Search, Some(before)) if call.answered => looks = Some(before + 1),
                _ => {}
            }
        }
    }
}

fn has_overrides(ledger: &Value) -> bool {
    ledger["overrides"].as_array().is_some_and(|all| !all.is_empty())
}

/// The tags that the help desk has heard of.
fn tags(evidence: &Evidence) -> BTreeSet<String> {
    let asked = evidence.calls.iter().flat_map(|call| &call.tags);
    evidence.tickets.iter().flat_map(|ticket| &ticket.tags).chain(asked).cloned().collect()
}

fn calls<'a>(evidence: &'a Evidence, tag: &'a str) -> impl Iterator<Item = &'a Asked> {
    evidence.calls.iter().filter(move |call| call.tags.iter().any(|known| known == tag))
}

/// Tickets that were made at once, found by their tags, and made again after they were looked for in vain.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ways {
    pub(crate) at_once: u64,
    pub(crate) found: u64,
    pub(crate) again: u64,
}

/// How the tickets of a sequence came about.
pub(crate) fn ways(evidence: &Evidence) -> Ways {
    let mut ways = Ways::default();
    for tag in tags(evidence) {
        let count = |wanted: fn(&&Asked) -> bool| calls(evidence, &tag).filter(wanted).count();
        let made = count(|call| call.call == Call::Create && call.tickets == Some(1));
        let tried = count(|call| call.call == Call::Create);
        let found = count(|call| call.call == Call::Search && call.answered && call.tickets == Some(1));
        ways.found += u64::from(found > 0);
        ways.again += u64::from(made > 0 && tried > 1);
        ways.at_once += u64::from(made > 0 && tried == 1 && found == 0);
    }
    ways
}
