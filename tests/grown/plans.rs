//! PostgreSQL's own account of each statement: `auto_explain` writes every plan that was executed, with the pages
//! it touched, into the server's log. So what is judged is what the program really sent, planned for the role, the
//! parameters and the settings it really had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio_postgres::Client;

/// A server that tells its plans, on the disk, as fast as one that nobody minds losing.
pub(crate) fn settings() -> Vec<(String, String)> {
    let settings = [
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("wal_level", "minimal"),
        ("max_wal_senders", "0"),
        ("max_wal_size", "2GB"),
        ("shared_buffers", "256MB"),
        // Rows do not move while they are looked at.
        ("autovacuum", "off"),
        // PostgreSQL's default.
        ("jit", "on"),
        ("shared_preload_libraries", "auto_explain"),
        ("auto_explain.log_format", "json"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_buffers", "on"),
        ("auto_explain.log_timing", "off"),
        // Statements of triggers, in others' transactions.
        ("auto_explain.log_nested_statements", "on"),
        ("logging_collector", "on"),
        ("log_destination", "jsonlog"),
        ("log_directory", "plans"),
        ("log_filename", "plans.log"),
        ("log_rotation_age", "0"),
        ("log_rotation_size", "0"),
        ("log_checkpoints", "off"),
    ];
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// Tables that grow.
const BIG: [&str; 16] = [
    "submissions",
    "submission_fields",
    "attachments",
    "audit_log",
    "outbox",
    "transitions",
    "versions",
    "entries",
    "decisions",
    "blobs",
    "blob_refs",
    "events",
    "callbacks",
    "results",
    "jobs",
    "steps",
];
/// Whoever says the program's statements: the daemon, publisher and collector on the command line, the screener, the grader, the desk.
pub(crate) const ROLES: [&str; 6] =
    ["forms_app", "forms_loader", "maple_gc", "maple_screener", "maple_grader", "maple_desk"];
/// Pages of one that has not: to read it from end to end is no fault.
const FEW_PAGES: u64 = 64;

/// The highest cost of one statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Executions.
    pub(crate) calls: u64,
    /// Pages touched by the dearest.
    pub(crate) pages: u64,
    /// Grown tables that were read from end to end.
    pub(crate) scanned: BTreeSet<String>,
    /// Whether JIT compiled it first.
    pub(crate) compiled: bool,
    /// Plan of the dearest.
    pub(crate) plan: Value,
}

/// Costs by statement.
pub(crate) type Costs = BTreeMap<String, Cost>;

/// The server's log, read on from where it was.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    read: u64,
    markers: u32,
}

impl Log {
    pub(crate) fn of(socket_dir: &Path) -> Self {
        // `.log` becomes `.json` where that is the format.
        Self { path: socket_dir.join("data/plans/plans.json"), read: 0, markers: 0 }
    }

    /// The statements of [`ROLES`] in `database` since the last look. The server's log lags: a marker line is waited for.
    pub(crate) async fn costs(&mut self, eyes: &Client, database: &str) -> Costs {
        self.markers += 1;
        let record = format!("marker {} {}", std::process::id(), self.markers);
        eyes.batch_execute(&format!("DO $$BEGIN RAISE LOG '{record}'; END$$")).await.expect("a marker");
        let text = loop {
            let text = self.rest();
            if text.contains(&record) {
                break text;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        self.read += u64::try_from(text.len()).expect("a length");
        let mut costs = Costs::new();
        for line in text.lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            if line["dbname"] == *database && ROLES.iter().any(|role| line["user"] == *role) {
                note(&mut costs, line["message"].as_str().unwrap_or_default());
            }
        }
        costs
    }

    /// Whole lines only.
    fn rest(&self) -> String {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let mut rest = Vec::new();
        let mut file = std::fs::File::open(&self.path).expect("the server's log");
        file.seek(SeekFrom::Start(self.read)).expect("its rest");
        file.read_to_end(&mut rest).expect("its rest");
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        rest.truncate(whole);
        String::from_utf8(rest).expect("text")
    }
}

fn note(costs: &mut Costs, message: &str) {
    let Some((_, plan)) = message.split_once("plan:\n") else { return };
    let explained: Value = serde_json::from_str(plan).expect("a plan");
    let cost = costs.entry(name(explained["Query Text"].as_str().unwrap_or_default())).or_default();
    let pages = pages(&explained["Plan"]);
    cost.calls += 1;
    cost.compiled |= explained.get("JIT").is_some();
    let known = cost.scanned.len();
    scanned(&explained["Plan"], &mut cost.scanned);
    if pages >= cost.pages || cost.scanned.len() > known {
        cost.pages = cost.pages.max(pages);
        cost.plan = explained["Plan"].clone();
    }
}

/// Statements of the program are led by their names; others (triggers, foreign keys, test input) go by their first words.
fn name(text: &str) -> String {
    match text.strip_prefix("-- ").and_then(|rest| rest.split_once('\n')) {
        Some((name, _)) => name.to_owned(),
        None => {
            let words: Vec<&str> = text.split_whitespace().collect();
            format!("({})", words.join(" ").chars().take(70).collect::<String>())
        }
    }
}

/// Pages a node touched, those below it included; the writes of a WITH that nobody reads from come after its parent
/// has been counted, and are counted by themselves.
fn pages(node: &Value) -> u64 {
    let late = children(node)
        .filter(|child| child["Node Type"] == "ModifyTable" && child["Subplan Name"].is_string());
    own(node) + late.map(own).sum::<u64>()
}

fn own(node: &Value) -> u64 {
    let of = |what: &str| node[what].as_u64().unwrap_or_default();
    of("Shared Hit Blocks") + of("Shared Read Blocks")
}

fn scanned(node: &Value, found: &mut BTreeSet<String>) {
    if node["Node Type"] == "Seq Scan" && own(node) > FEW_PAGES {
        found.extend(node["Relation Name"].as_str().filter(|name| BIG.contains(name)).map(str::to_owned));
    }
    children(node).for_each(|child| scanned(child, found));
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    node["Plans"].as_array().into_iter().flatten()
}
