//! Permitted differences between a small table and a grown one, and the statements to be judged.

use std::path::Path;

use crate::plans::{Cost, Costs};

/// Statements of people who ask about everything (`status`, lists), or as seldom as they take long: README, "Limits".
pub(crate) const OF_EVERYTHING: &[&str] = &[
    "sweep_ended",
    "view_counts",
    "view_open",
    "view_not_implemented_only",
    "view_undelivered",
    "view_list",
    "view_list_newest",
    "view_grouped",
    "view_unalerted",
    "view_audit_digests",
    "dead_letter_exhausted",
    "dead_letter_exhausted_count",
    // `scan --stale`.
    "upload_scan_stale",
    // `forms list`.
    "version_forms",
    // `erase --field`: no field has an index of its values.
    "gc_with_field",
    "(SELECT DISTINCT f.submission_id FROM public.submission_fields f WHERE )",
    // `screening list` by any of its filters, and `screening sla` of a span of time.
    "screening_list",
    "screening_sla",
    // `grading list` and `grading sla`, in the same way.
    "grading_list",
    "grading_sla",
    // What was published and changed since, once a minute: each open submission's run, by an index that is deeper.
    "(SELECT x.id, x.form_id, x.version FROM public.submissions s JOIN scree)",
    "screening_reconcile",
    // Every ten minutes: each failure of the last day is looked up by deeper indexes, and asked for its run of screening as well.
    "grey_queue_reconcile",
    // Late infections that no trigger opened an entry for: from the infected attachments, as `late_infection_find`.
    "(SELECT DISTINCT a.submission_id FROM public.attachments a JOIN public.)",
];

/// The search for failures not yet notified: cheap by an index of schema `router`.
pub(crate) const BY_SCHEMA_ROUTER: &[&str] = &["alert_candidates", "alert_causes", "late_infection_find"];

/// By the backend's index on (status, updated_at), which is away where schema `router` is tried; `tail` then goes by the audit
/// log instead.
pub(crate) const BY_THE_BACKENDS_INDEX: &[&str] = &["ends_rows", "view_list_horizon", "view_list_page"];

/// Statements that count all that is open, or ask something of each: linear in the backlog, whatever has ended.
pub(crate) const OF_ALL_THAT_IS_OPEN: &[&str] =
    &["outbox_depths", "sweep_count", "sweep_infected", "sweep_open", "sweep_unready"];

/// Indexes, and a statement that shows when they are away.
pub(crate) const NEEDED: [(&str, &str); 4] = [
    ("submissions_router_received", "sweep_orphans_lock"),
    ("submissions_router_processing", "sweep_stuck"),
    ("submissions_router_unalerted", "alert_causes"),
    ("attachments_router_infected", "sweep_count"),
];

/// Statements that need settings absent here: `[readiness] finalized_column`.
const NOT_HERE: [&str; 1] = ["override_finalize"];

/// A tree that grew from a thousand keys to ten million is two levels deeper, for each row that is looked up; a page of rows
/// lies in as many pages as rows.
const TIMES: u64 = 3;
const AND: u64 = 64;

/// Faults, a line a statement.
pub(crate) fn faults(before: &Costs, after: &Costs, but: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, cost) in after.iter().filter(|(name, _)| !but.contains(&name.as_str())) {
        let was = before.get(name).map_or(0, |cost| cost.pages);
        let most = was * TIMES + AND;
        let mut wrong = Vec::new();
        if !cost.scanned.is_empty() {
            wrong.push(format!("reads all of {:?}", cost.scanned));
        }
        if cost.compiled {
            wrong.push("is compiled".to_owned());
        }
        if cost.pages > most {
            wrong.push(format!("touches {} pages, {was} where the table is small", cost.pages));
        }
        if !wrong.is_empty() {
            faults.push(format!("{name} {}: {}", wrong.join(", "), outline(&cost.plan)));
        }
    }
    faults
}

/// Statements of the program that nobody has said.
pub(crate) fn unsaid(costs: &Costs) -> Vec<String> {
    let mut named = Vec::new();
    names(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut named);
    assert!(named.len() > 50, "the statements are not found any more: {named:?}");
    named.retain(|name| !costs.contains_key(name) && !NOT_HERE.contains(&name.as_str()));
    named
}

/// Names as they lead statements in the source: `"-- name`, and the end of the line.
fn names(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the source").flatten() {
        let path = entry.path();
        if path.is_dir() {
            names(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        for line in text.lines() {
            let Some((_, rest)) = line.split_once("\"-- ") else { continue };
            let name: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if !name.is_empty() && (rest == name || rest[name.len()..].starts_with("\\n")) {
                found.push(name);
            }
        }
    }
}

/// Rows of the plan's node that has most of them.
pub(crate) fn most_rows(node: &serde_json::Value) -> u64 {
    let below = node["Plans"].as_array().into_iter().flatten().map(most_rows);
    below.chain(node["Actual Rows"].as_u64()).max().unwrap_or_default()
}

/// A plan's nodes, in short.
fn outline(node: &serde_json::Value) -> String {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    let on = if text("Index Name").is_empty() { text("Relation Name") } else { text("Index Name") };
    let below: Vec<String> = node["Plans"].as_array().into_iter().flatten().map(outline).collect();
    let below = if below.is_empty() { String::new() } else { format!(" ({})", below.join("; ")) };
    format!("{} {on} {}{below}", text("Node Type"), node["Shared Hit Blocks"])
}

/// Every statement: pages where the table is small, and where it has grown.
#[expect(clippy::print_stdout, reason = "figures, for whoever asks for them")]
pub(crate) fn print(what: &str, before: &Costs, after: &Costs) {
    println!(
        "\n{what}: statement, pages of the dearest call small and grown, big tables read from end to end"
    );
    for (name, cost) in after {
        let none = Cost::default();
        let was = before.get(name).unwrap_or(&none);
        let compiled = if cost.compiled { " compiled" } else { "" };
        println!("{name:72} {:6} {:8} {:?}{compiled}", was.pages, cost.pages, cost.scanned);
    }
}
