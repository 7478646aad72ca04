//! The walls of the house (architecture page, "Who may know whom"): reads the imports and fails on a forbidden one.

#[path = "architecture/imports.rs"]
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use maple_router::daemon::{ROOMS, card};

/// Files of `src/`, as of any folder of sources.
fn sources() -> Vec<(String, String)> {
    sources_of("src")
}

/// Files of a folder of sources, by path relative to it, without their test modules.
fn sources_of(folder: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    assert!(paths.len() > 30, "the walk found the tree");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let name = path.strip_prefix(&src).expect("below it").to_string_lossy().into_owned();
        (name, code.join("\n"))
    };
    paths.into_iter().map(read).collect()
}

/// The surfaces that have a card: they show rooms, and are none.
const SURFACES: [&str; 1] = ["desk"];

/// The folders that have a card: the house's own card has none.
fn folders() -> Vec<&'static str> {
    let named =
        ROOMS.iter().map(|room| room.name).filter(|name| *name != card::CARD.name).collect::<Vec<_>>();
    assert!(SURFACES.iter().all(|surface| named.contains(surface)), "{named:?}");
    named
}

/// The folders of the rooms.
fn rooms() -> Vec<&'static str> {
    let rooms: Vec<_> = folders().into_iter().filter(|name| !SURFACES.contains(name)).collect();
    assert!(rooms.contains(&"routing") && rooms.contains(&"outbox"), "{rooms:?}");
    rooms
}

/// Import paths that name a room, of all but one.
fn imports_of_rooms(but: &str) -> Vec<String> {
    rooms().into_iter().filter(|room| *room != but).map(|room| format!("crate::{room}")).collect()
}

/// Fails for every file chosen by `whose` that mentions one of `never`.
fn wall(rule: &str, whose: impl Fn(&str) -> bool, never: &[impl AsRef<str>]) {
    let mut guarded = 0;
    let mut broken = Vec::new();
    for (name, code) in sources() {
        if !whose(&name) {
            continue;
        }
        guarded += 1;
        for word in never.iter().map(AsRef::as_ref).filter(|word| code.contains(*word)) {
            broken.push(format!("{name} mentions `{word}`"));
        }
    }
    assert!(guarded > 0, "{rule}: no file is guarded by it");
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

/// Crates and modules that do I/O, read a clock or draw a number.
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
    "routing/store/audit_key.rs",
    "routing/pause/presence.rs",
    "routing/outages/blame.rs",
    "routing/pause.rs",
    "routing/event.rs",
    "routing/submission/plan.rs",
    "routing/submission/cause.rs",
    "routing/submission/destination.rs",
    "routing/submission/expand.rs",
    "routing/submission/lag.rs",
    "routing/submission/ledger.rs",
    "routing/submission/link_life.rs",
    "routing/decide.rs",
    "gateway/clamd/classify.rs",
    "gateway/clamd/version.rs",
    "gateway/happyfox/answer.rs",
    "gateway/happyfox/classify.rs",
    "gateway/happyfox/directory.rs",
    "gateway/happyfox/pace.rs",
    "gateway/happyfox/payload.rs",
    "gateway/happyfox/waits.rs",
    "gateway/happyfox/words.rs",
    "gateway/objects/store/call.rs",
    "gateway/objects/store/said.rs",
    "gateway/judge/completion.rs",
    "gateway/judge/marking.rs",
    "gateway/judge/version.rs",
    "gateway/bounces/fields.rs",
    "gateway/bounces/report.rs",
    "routing/delivery/return_kind.rs",
    "routing/delivery/sender.rs",
    "routing/delivery/status.rs",
    "routing/delivery/tracker.rs",
    "routing/submission/outcome.rs",
    "routing/submission/message_id.rs",
    "routing/decide/replay.rs",
    "routing/decide/settlement.rs",
    "routing/spool/sheet.rs",
    "routing/dead_letter.rs",
    "routing/submission/text.rs",
    "routing/delivery/lost.rs",
    "outbox/row.rs",
    "scrub.rs",
    "ops/status_line.rs",
    "ops/watchdog.rs",
    "ops/alerting/groups.rs",
    "grading/attempt.rs",
    "grading/intake.rs",
    "grading/review.rs",
    "grading/grader/kept.rs",
    "grading/job/decide.rs",
    "grading/job/table.rs",
    "gateway/smtp/throttle.rs",
    "gateway/smtp/envelope.rs",
    "gateway/smtp/replies.rs",
    "gateway/smtp/transparency.rs",
    "ops/alerting/channel.rs",
    "ops/alerting/message.rs",
    "web/headers.rs",
    "web/host.rs",
    "web/idempotency.rs",
    "web/name.rs",
    "web/problem.rs",
    "web/status.rs",
];

/// The kernel's modules that do I/O, beside its rows.
const KERNEL_SHELL: [&str; 7] = [
    "kernel/card.rs",
    "kernel/jobs.rs",
    "kernel/jobs/listener.rs",
    "kernel/jobs/settler.rs",
    "kernel/jobs/works.rs",
    "kernel/subject.rs",
    "kernel/tasks.rs",
];

#[test]
fn decisions_are_pure() {
    let all = sources();
    for file in PURE {
        assert!(all.iter().any(|(name, _)| name == file), "{file} has moved: update the wall");
    }
    let pure = |name: &str| {
        PURE.contains(&name)
            || name.starts_with("routing/compose")
            || name.starts_with("routing/decide/")
            || name.starts_with("routing/draft") && !name.ends_with("tests.rs")
            || name.starts_with("routing/explain") && !name.ends_with("tests.rs")
            || name.starts_with("desk/pages/")
            || name.starts_with("grading/core/") && !name.ends_with("_tests.rs")
            || rooms().iter().any(|room| name == format!("{room}/table.rs"))
            || name.starts_with("kernel/")
                && !name.starts_with("kernel/rows")
                && !KERNEL_SHELL.contains(&name)
    };
    wall("pure files do no I/O and know no clock, no rng", pure, IMPURE);
}

#[test]
fn gateways_know_no_room() {
    wall(
        "a gateway knows nothing of rooms' state, of the database or of the command line",
        |name| name.starts_with("gateway/"),
        &["crate::db", "crate::cli", "crate::daemon"],
    );
}

/// Kernel, connections, operations and gateways serve all rooms; one more room is an edit of none of them. A room's
/// distinctions (a label, a word, a check, an incident) stand on its card.
#[test]
fn nobody_below_knows_a_room_and_no_room_knows_another() {
    wall(
        "who serves all rooms names none",
        |name| {
            ["kernel/", "db/", "ops/", "gateway/", "config/", "ports"]
                .iter()
                .any(|place| name.starts_with(place))
        },
        &imports_of_rooms(""),
    );
    for room in rooms() {
        wall(
            "rooms are put together by the daemon and the command line",
            |name| name.starts_with(&format!("{room}/")),
            &[imports_of_rooms(room), vec!["crate::cli".to_owned(), "crate::daemon".to_owned()]].concat(),
        );
    }
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
fn only_the_outbox_names_its_table() {
    wall(
        "the daemon and the command line put rooms together",
        |name| name.starts_with("routing/") || name.starts_with("gateway/"),
        &["router.outbox"],
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
        &["crate::gateway", "crate::cli", "crate::daemon"],
    );
}

#[test]
fn the_kernel_knows_no_room() {
    wall(
        "rooms know the kernel, it knows none",
        |name| name.starts_with("kernel/"),
        &["crate::gateway", "crate::cli", "crate::daemon", "crate::parts"],
    );
}

#[test]
fn queries_stand_between_the_rooms_and_whoever_shows() {
    wall(
        "queries compose values: no verb, no daemon, no arguments, no layout",
        |name| name.starts_with("queries/"),
        &["crate::cli", "crate::daemon", "clap", "ExitCode"],
    );
    let room = |name: &str| {
        ["config/", "db/", "gateway/", "kernel/", "ops/", "outbox/", "ports", "routing/"]
            .iter()
            .any(|room| name.starts_with(room))
    };
    wall("a room is shown, and does not know by what", room, &["crate::queries"]);
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
fn the_desk_shows_and_nobody_below_knows_by_what() {
    wall(
        "the desk knows queries, the grey queue and forms, and no other room",
        |name| name.starts_with("desk/"),
        &[
            "crate::cli",
            "crate::daemon",
            "crate::gateway",
            "crate::routing",
            "crate::outbox",
            "crate::uploads",
            "crate::parts",
        ],
    );
    wall(
        "the daemon and the command line open it",
        |name| !["desk/", "daemon", "cli/"].iter().any(|place| name.starts_with(place)),
        &["crate::desk"],
    );
}

#[test]
fn web_knows_no_room_and_no_surface() {
    let others =
        ["desk", "cli", "daemon", "gateway", "queries", "parts"].map(|name| format!("crate::{name}"));
    wall(
        "what surfaces share names none of them, and no room",
        |name| name.starts_with("web/"),
        &[imports_of_rooms(""), others.to_vec()].concat(),
    );
    wall(
        "its words and its counts are on the cards of those who use it, its statements in their stores",
        |name| name.starts_with("web/"),
        &["EventName", "journal!", "Counter", "Histogram", "Gauge", "Pool", "transaction("],
    );
    wall(
        "who serves all rooms answers nobody over HTTP",
        |name| {
            ["kernel/", "db/", "gateway/", "config/", "ops/", "ports"]
                .iter()
                .any(|place| name.starts_with(place))
        },
        &["crate::web"],
    );
}

#[test]
fn operations_know_no_room() {
    wall(
        "ops is called, it does not ask",
        |name| name.starts_with("ops/"),
        &["crate::gateway", "crate::db", "crate::cli"],
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

/// Grading has two sides, each with a store; what each consumes of the queue between them is the queue's own.
const SECOND_STORE: [&str; 4] =
    ["grading/job/store.rs", "grading/job/row.rs", "grading/queue.rs", "grading/link/ends.rs"];

#[test]
fn sql_lives_in_stores() {
    wall(
        "SQL stands in a room's store, in db/, nowhere else",
        |name| {
            !folders().iter().any(|folder| name.starts_with(&format!("{folder}/store")))
                && !SECOND_STORE.contains(&name)
                && !name.starts_with("kernel/rows")
                && !name.starts_with("db/")
        },
        &["SELECT ", "INSERT INTO", "UPDATE submissions", "FOR UPDATE"],
    );
}

#[test]
fn devkit_imports_itself_in_no_circle() {
    let of_tests = |file: &str| file.ends_with("_tests.rs") || file.starts_with("bin/");
    let sources = sources_of("devkit/src").into_iter().filter(|(file, _)| !of_tests(file));
    let files = sources.map(|(file, code)| (imports::module(&file), code)).collect();
    let files = imports::between_files(&files);
    let seen = |importer: &str, imported: &str| {
        assert!(
            files[&imports::module(importer)].contains(&imports::module(imported)),
            "{importer} imports {imported}: a move, or imports are not read any more"
        );
    };
    seen("postgres/cluster.rs", "postgres/server.rs");
    seen("soak/world.rs", "postgres/cluster.rs");
    seen("stage.rs", "broker/mod.rs");
    let (among_files, among_rooms) =
        (imports::circles(&files), imports::circles(&imports::between_rooms(&files)));
    assert!(among_files.is_empty(), "files in circles:\n  {}", among_files.join("\n  "));
    assert!(among_rooms.is_empty(), "rooms in circles:\n  {}", among_rooms.join("\n  "));
}

/// The parts of `routing/`, from the ground up: what its `mod.rs` says.
const ROUTING: [&str; 22] = [
    "table",
    "submission",
    "event",
    "dead_letter",
    "pause",
    "metrics",
    "words",
    "decide",
    "explain",
    "compose",
    "delivery",
    "claims",
    "outages",
    "store",
    "card",
    "journal",
    "spool",
    "subject",
    "follow",
    "worker",
    "receive",
    "upkeep",
];

#[test]
fn src_imports_itself_in_no_circle_and_routing_only_downwards() {
    let modules = sources().into_iter().map(|(file, code)| (imports::module(&file), code));
    let files = modules.filter(|(file, _)| !file.iter().any(|part| part == "tests")).collect();
    let files = imports::between_files(&files);
    let circles = imports::circles(&files);
    assert!(circles.is_empty(), "files in circles:\n  {}", circles.join("\n  "));
    let floor = |part: &str| {
        ROUTING
            .iter()
            .position(|known| *known == part)
            .unwrap_or_else(|| panic!("routing/{part} has no floor"))
    };
    let mut seen = 0;
    for (importer, imported) in
        files.iter().filter(|(file, _)| file.first().is_some_and(|room| room == "routing"))
    {
        let Some(part) = importer.get(1) else { continue };
        for below in imported.iter().filter(|file| file[0] == "routing").filter_map(|file| file.get(1)) {
            seen += 1;
            assert!(
                floor(below) <= floor(part),
                "{} imports routing::{below}, which stands above it",
                importer.join("::")
            );
        }
    }
    assert!(seen > 100, "{seen} imports inside routing: they are not read any more");
}

/// `ActionAccepted` as it is written: `action_accepted`.
fn snake(name: &str) -> String {
    let word = |(at, letter): (usize, char)| match (at, letter.is_ascii_uppercase()) {
        (1.., true) => format!("_{}", letter.to_ascii_lowercase()),
        _ => letter.to_ascii_lowercase().to_string(),
    };
    name.char_indices().map(word).collect()
}

/// Each room's card has the words that its folder writes, and their levels; the rest of the program has the house's.
#[test]
fn every_event_is_written_and_as_loud_as_its_card_says() {
    let mut written: BTreeMap<(&str, String), BTreeSet<String>> = BTreeMap::new();
    for (name, code) in sources().into_iter().filter(|(name, _)| name != "ops/telemetry.rs") {
        let folder = name.split('/').next().unwrap_or_default();
        let room = folders().into_iter().find(|room| *room == folder).unwrap_or(card::CARD.name);
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
            rest = after;
            // The card itself.
            if event == "EVENTS" {
                continue;
            }
            let levels = written.entry((room, snake(&event))).or_default();
            if level == "$level" {
                levels.extend(passed.iter().map(|&level| level.to_owned()));
            } else {
                assert!(
                    ["error", "warn", "info", "debug"].contains(&level),
                    "{name}: {level:?} before EventName::"
                );
                levels.insert(level.to_owned());
            }
        }
    }
    let said: BTreeMap<(&str, String), BTreeSet<String>> = ROOMS
        .iter()
        .flat_map(|room| room.events.iter().map(|event| (room.name, event)))
        .map(|(room, event)| {
            ((room, event.word.to_owned()), event.levels.iter().map(|&level| level.to_owned()).collect())
        })
        .collect();
    assert!(said.len() > 45, "{said:?}");
    assert_eq!(written, said);
}

/// Two cards never bring the same thing, or neither could be distinguished; only a log's word may be several rooms'.
#[test]
fn what_stands_on_a_card_stands_on_no_other() {
    fn once<T: Ord + std::fmt::Debug>(what: impl Iterator<Item = T>) {
        let mut seen = BTreeSet::new();
        for one in what {
            let fault = format!("{one:?} is there twice");
            assert!(seen.insert(one), "{fault}");
        }
        assert!(!seen.is_empty());
    }
    once(ROOMS.iter().map(|room| room.name));
    once(ROOMS.iter().flat_map(|room| room.transactions));
    once(ROOMS.iter().flat_map(|room| room.metrics).map(|metric| metric.name()));
    once(ROOMS.iter().flat_map(|room| room.incidents).map(|key| key.label()));
    once(ROOMS.iter().flat_map(|room| room.checks).map(|check| check.line));
    once(ROOMS.iter().flat_map(|room| room.checks).map(|check| check.order));
    once(ROOMS.iter().flat_map(|room| room.lifecycles).map(|describe| describe().name));
}
