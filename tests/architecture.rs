//! The walls of the house (architecture page, "Who may know whom"): reads the imports and fails when one is broken.

use std::fs;
use std::path::{Path, PathBuf};

/// Files of `src/`, by path relative to it, without their test modules.
fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("src is readable") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    assert!(paths.len() > 30, "the walk found the tree");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let name = path.strip_prefix(&src).expect("below src").to_string_lossy().into_owned();
        (name, code.join("\n"))
    };
    paths.into_iter().map(read).collect()
}

/// Fails for every file chosen by `whose` that mentions one of `never`.
fn wall(rule: &str, whose: impl Fn(&str) -> bool, never: &[&str]) {
    let mut guarded = 0;
    let mut broken = Vec::new();
    for (name, code) in sources() {
        if !whose(&name) {
            continue;
        }
        guarded += 1;
        for word in never.iter().filter(|word| code.contains(**word)) {
            broken.push(format!("{name} mentions `{word}`"));
        }
    }
    assert!(guarded > 0, "{rule}: no file is guarded by it");
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

/// Everything that does I/O, reads a clock or draws a number.
const IMPURE: &[&str] = &[
    "tokio",
    "deadpool",
    "reqwest",
    "std::fs",
    "TcpStream",
    "UdpSocket",
    "std::env",
    "crate::db",
    "crate::gateway",
    "crate::ops",
    "crate::cli",
    "::now()",
    "tracing::",
    "async fn",
];

const PURE: &[&str] = &[
    "gateway/relay_log/line.rs",
    "gateway/relay_log/journal/export.rs",
    "ops/breaker/machine.rs",
    "ops/set_aside/rows.rs",
    "ops/canary.rs",
    "routing/audit_key.rs",
    "routing/presence.rs",
    "routing/blame.rs",
    "routing/pause.rs",
    "routing/event.rs",
    "routing/plan.rs",
    "routing/cause.rs",
    "routing/destination.rs",
    "routing/expand.rs",
    "routing/lag.rs",
    "routing/ledger.rs",
    "routing/link_life.rs",
    "routing/decide.rs",
    "gateway/bounces/fields.rs",
    "gateway/bounces/report.rs",
    "routing/delivery/returned/verdict.rs",
    "routing/delivery/sender.rs",
    "routing/delivery/status.rs",
    "routing/delivery/tracker.rs",
    "routing/outcome.rs",
    "routing/message_id.rs",
    "routing/replay.rs",
    "routing/settlement.rs",
    "routing/spool/sheet.rs",
    "routing/dead_letter/letter.rs",
    "routing/text.rs",
    "routing/delivery/lost.rs",
    "outbox/row.rs",
    "scrub.rs",
    "ops/status_line.rs",
    "ops/watchdog.rs",
    "ops/alerting/groups.rs",
    "gateway/smtp/brake.rs",
    "gateway/smtp/envelope.rs",
    "gateway/smtp/replies.rs",
    "gateway/smtp/transparency.rs",
    "ops/alerting/channel.rs",
    "ops/alerting/message.rs",
];

/// What of the kernel does I/O, beside its rows.
const KERNEL_SHELL: [&str; 5] = [
    "kernel/jobs.rs",
    "kernel/jobs/listener.rs",
    "kernel/jobs/settler.rs",
    "kernel/jobs/works.rs",
    "kernel/tasks.rs",
];

#[test]
fn decisions_are_pure() {
    for file in PURE {
        assert!(sources().iter().any(|(name, _)| name == file), "{file} has moved: update the wall");
    }
    let pure = |name: &str| {
        PURE.contains(&name)
            || name.starts_with("routing/compose")
            || name.starts_with("routing/decide/")
            || name.starts_with("routing/draft") && !name.ends_with("tests.rs")
            || name.starts_with("routing/explain") && !name.ends_with("tests.rs")
            || matches!(name, "routing/table.rs" | "outbox/table.rs")
            || name.starts_with("kernel/")
                && !name.starts_with("kernel/rows")
                && !KERNEL_SHELL.contains(&name)
    };
    wall("pure files do no I/O and know no clock, no chance", pure, IMPURE);
}

#[test]
fn gateways_know_no_room() {
    wall(
        "a gateway knows nothing of rooms' state, of the database or of the command line",
        |name| name.starts_with("gateway/"),
        &["crate::routing", "crate::db", "crate::cli", "crate::daemon"],
    );
}

#[test]
fn store_and_gateways_never_meet() {
    wall(
        "store and gateway never import each other",
        |name| name.starts_with("routing/store"),
        &["crate::gateway", "reqwest", "lettre", "google_cloud"],
    );
}

#[test]
fn the_outbox_knows_no_other_room_and_no_room_knows_it() {
    wall(
        "the outbox delivers, whatever its rows are about",
        |name| name.starts_with("outbox"),
        &["crate::routing", "crate::cli", "crate::daemon"],
    );
    wall(
        "the daemon and the command line put rooms together",
        |name| name.starts_with("routing/") || name.starts_with("gateway/"),
        &["crate::outbox", "router.outbox"],
    );
    wall(
        "its store and the gateways never meet",
        |name| name.starts_with("outbox/store") || name == "outbox/upkeep.rs",
        &["crate::gateway", "reqwest", "google_cloud"],
    );
}

#[test]
fn the_database_room_serves_all_and_knows_none() {
    wall(
        "db is shared: it knows no room and no gateway",
        |name| name.starts_with("db/"),
        &["crate::routing", "crate::outbox", "crate::gateway", "crate::cli", "crate::daemon"],
    );
}

#[test]
fn the_kernel_knows_no_room() {
    wall(
        "rooms know the kernel, it knows none",
        |name| name.starts_with("kernel/"),
        &["crate::routing", "crate::outbox", "crate::gateway", "crate::cli", "crate::daemon", "crate::parts"],
    );
}

/// A status is written by what carries a transition, under the name that the table gives it.
#[test]
fn only_a_transition_changes_a_status() {
    wall(
        "no statement names the state it leads to",
        |name| !name.starts_with("kernel/rows/sql.rs"),
        &["SET status = '", "SET state = '", "state = 'pending',", "status = 'received',"],
    );
}

#[test]
fn operations_know_no_room() {
    wall(
        "ops is told, it does not ask",
        |name| name.starts_with("ops/"),
        &["crate::routing", "crate::outbox", "crate::gateway", "crate::db", "crate::cli"],
    );
}

#[test]
fn only_the_command_line_prints() {
    wall(
        "results are printed in cli/ only",
        |name| !name.starts_with("cli/") && name != "main.rs",
        &["println!", "print!(", "eprintln!", "io::stdout"],
    );
}

#[test]
fn anyhow_stays_at_the_edge() {
    wall(
        "rooms and gateways have errors of their own",
        |name| !name.starts_with("cli/") && name != "daemon.rs" && name != "main.rs",
        &["anyhow"],
    );
}

#[test]
fn sql_lives_in_stores() {
    wall(
        "SQL stands in a room's store, in db/, nowhere else",
        |name| {
            ["routing/store", "outbox/store", "kernel/rows", "db/"]
                .iter()
                .all(|place| !name.starts_with(place))
        },
        &["SELECT ", "INSERT INTO", "UPDATE submissions", "FOR UPDATE"],
    );
}

/// Each event of the closed vocabulary, and how loud it is. `error`: a person must act now. `warn`: unusual, and heals by
/// itself or has been seen to. `info`: the story. `debug`: its details.
const EVENTS: [(&str, &str); 48] = [
    ("ActionAccepted", "info"),
    ("ActionDeferred", "warn"),
    ("ActionRefused", "warn"),
    ("ActionUnknown", "warn"),
    ("AlertDeferred", "debug error warn"),
    ("AlertSent", "info"),
    ("Begun", "debug"),
    ("BreakerClosed", "info"),
    ("BreakerOpen", "error"),
    ("Canary", "info warn"),
    ("Claimed", "info"),
    ("DeadLetter", "error info warn"),
    ("DeliveryStatus", "error info warn"),
    ("Dropped", "info"),
    ("Failed", "error"),
    ("Gap", "warn"),
    ("Heartbeat", "info warn"),
    ("Held", "debug"),
    ("InDoubt", "info warn"),
    ("Nacked", "debug error warn"),
    ("NoReplyTo", "info"),
    ("NotImplemented", "info"),
    ("Orphan", "info"),
    ("OutboxFlowing", "info"),
    ("OutboxStalled", "error warn"),
    ("Override", "warn"),
    ("Paused", "warn"),
    ("Poison", "warn"),
    ("Ready", "info"),
    ("Received", "debug"),
    ("RelayFlowing", "info"),
    ("RelaySlowed", "warn"),
    ("Released", "warn"),
    ("ReloadFailed", "error"),
    ("Reloaded", "info"),
    ("Rescued", "warn"),
    ("Resumed", "info"),
    ("Routed", "info"),
    ("SetAside", "error"),
    ("SpoolReplayed", "info"),
    ("Spooled", "warn"),
    ("StaleSettle", "warn"),
    ("Started", "info"),
    ("Stopped", "info"),
    ("Stopping", "info"),
    ("StreamRebuilt", "info"),
    ("Unready", "error"),
    ("WrittenAfterAll", "info"),
];
/// Words that nothing writes yet.
const LATER: [&str; 0] = [];

#[test]
fn every_event_is_written_and_as_loud_as_it_matters() {
    use std::collections::{BTreeMap, BTreeSet};

    use maple_router::ops::telemetry::EventName;

    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, code) in sources().into_iter().filter(|(name, _)| name != "ops/telemetry.rs") {
        // The levels that a macro of the file passes on.
        let passed: BTreeSet<&str> =
            code.split("line!(").skip(1).filter_map(|rest| rest.split(',').next()).map(str::trim).collect();
        let mut rest = code.as_str();
        while let Some(at) = rest.find("EventName::") {
            let level = rest[..at]
                .trim_end()
                .trim_end_matches(',')
                .rsplit(['(', '\n', ' '])
                .next()
                .unwrap_or_default();
            let after = &rest[at + "EventName::".len()..];
            let event: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
            let levels = written.entry(event).or_default();
            if level == "$level" {
                levels.extend(passed.iter().map(|&level| level.to_owned()));
            } else {
                assert!(
                    ["error", "warn", "info", "debug"].contains(&level),
                    "{name}: {level:?} before EventName::"
                );
                levels.insert(level.to_owned());
            }
            rest = after;
        }
    }
    let found: Vec<(String, String)> = written
        .into_iter()
        .map(|(event, levels)| (event, levels.into_iter().collect::<Vec<_>>().join(" ")))
        .collect();
    let expected: Vec<(String, String)> =
        EVENTS.iter().map(|(e, l)| ((*e).to_owned(), (*l).to_owned())).collect();
    assert_eq!(found, expected);
    let silent: Vec<&str> = EventName::ALL
        .iter()
        .filter(|event| !EVENTS.iter().any(|(name, _)| *name == format!("{event:?}")))
        .map(|event| event.label())
        .collect();
    assert_eq!(silent, LATER, "nothing writes these");
}
