//! Commands that can be run on a stage are run: in a shell, as they stand in the runbook, placeholders filled, the
//! configuration given by the environment. Each must end well, and do what it says.

use std::path::Path;

use devkit::stage::{Answer, SUBSCRIPTION};
use futures::StreamExt as _;
use serde_json::json;

use crate::commands::{Place, at};
use crate::scene::Scene;

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// Stages at once.
const SIDE_BY_SIDE: usize = 2;
/// Tests that share the commands.
const PARTS: usize = 4;

#[tokio::test]
async fn every_command_ends_well_and_does_what_it_says_1() {
    part(0).await;
}

#[tokio::test]
async fn every_command_ends_well_and_does_what_it_says_2() {
    part(1).await;
}

#[tokio::test]
async fn every_command_ends_well_and_does_what_it_says_3() {
    part(2).await;
}

#[tokio::test]
async fn every_command_ends_well_and_does_what_it_says_4() {
    part(3).await;
}

async fn part(number: usize) {
    let commands: Vec<String> = at(Place::Here).into_keys().flat_map(|command| variants(&command)).collect();
    assert!(commands.len() > 60, "{commands:#?}");
    let mine = commands.into_iter().skip(number).step_by(PARTS);
    let wrong: Vec<String> = futures::stream::iter(mine)
        .map(|command| async move { plays(&command).await.err().map(|why| format!("{command}\n    {why}")) })
        .buffer_unordered(SIDE_BY_SIDE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "commands of runbooks that do not do what they say:\n{}", wrong.join("\n"));
}

/// `verb [--a] [--b]`: without either, and with each.
fn variants(command: &str) -> Vec<String> {
    let mut parts = command.split(['[', ']']);
    let (mut bare, mut options) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
    while let (Some(option), Some(rest)) = (parts.next(), parts.next()) {
        options.push((bare.len(), option.to_owned()));
        bare.push_str(rest);
    }
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    if options.is_empty() {
        return vec![command.to_owned()];
    }
    let with = |(at, option): &(usize, String)| format!("{} {option} {}", &bare[..*at], &bare[*at..]);
    std::iter::once(squeezed(&bare)).chain(options.iter().map(|option| squeezed(&with(option)))).collect()
}

/// timeout(1): what it ran had not ended by itself.
const STILL_FOLLOWED: i32 = 124;

async fn plays(command: &str) -> Result<(), String> {
    let scene = Scene::before(command).await;
    let config =
        scene.stage.write_config("verb", &scene.stage.config("verb", 0, &scene.extra)).map_err(text)?;
    let (forms, owner) = (scene.stage.database.url_as("forms_app"), scene.stage.database.owner_url());
    let variables = [("FORMS_URL", forms.as_str()), ("OWNER_URL", owner.as_str())];
    let run = async |line: &str| scene.stage.shell(binary(), &config, &variables, line).await;
    for line in before(command) {
        let answer = run(&line).await.map_err(text)?;
        well(&answer).map_err(|why| format!("before it, `{line}`: {why}"))?;
    }
    let mut line = scene.filled(command);
    // Following verbs go on until they are ended.
    let follows = ["maple-router watch", "maple-router tail"].iter().any(|verb| command.starts_with(verb));
    if follows {
        line = format!("timeout --signal=INT 3 {line}");
    }
    let mut router = None;
    // Commands that ask the daemon of this host.
    if ["curl ", "maple-router status", "maple-router upload "].iter().any(|asks| command.starts_with(asks)) {
        let mut started = scene.stage.router(binary(), "one", &scene.extra).await.map_err(text)?;
        started.ready().await.map_err(text)?;
        line = line.replace("127.0.0.1:9464", started.address());
        router = Some(started);
    }
    let config = router.as_ref().map_or(config.as_path(), |router| router.config());
    let mut answer = scene.stage.shell(binary(), config, &variables, &line).await.map_err(text)?;
    if !(follows && answer.code == Some(STILL_FOLLOWED)) {
        well(&answer)?;
    }
    drop(router);
    if let Some((_, file)) = line.split_once(" > ").filter(|_| line.starts_with("maple-router ")) {
        answer.out = std::fs::read_to_string(scene.stage.dir().join(file)).map_err(text)?;
    }
    effect(&scene, command, &answer).await
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn text(error: impl ToString) -> String {
    error.to_string()
}

fn well(answer: &Answer) -> Result<(), String> {
    if answer.code == Some(0) { Ok(()) } else { Err(format!("{answer:?}")) }
}

/// Commands that must have been run before.
fn before(command: &str) -> Vec<String> {
    let migrate = |which: &str| format!("maple-router migrate --{which} --owner-url \"$OWNER_URL\"");
    if command.contains("--content --back") {
        return vec![migrate("router"), migrate("content")];
    }
    if command.contains("router.outbox") || command.contains("--back 002") {
        return vec![migrate("router")];
    }
    if command.contains("--screening --back") {
        return vec![migrate("router"), migrate("screening")];
    }
    if command.contains("--grading --back") {
        return vec![migrate("router"), migrate("grading")];
    }
    if ["content", "screening", "grading"]
        .iter()
        .any(|schema| command.contains(&format!("migrate --{schema}")))
    {
        return vec![migrate("router")];
    }
    if !command.starts_with("maple-router resume") {
        return Vec::new();
    }
    let scope = if command.contains("--form") { "--form contact " } else { "" };
    vec![format!("maple-router pause {scope}--reason earlier")]
}

/// Checks the command's promise in the database, at the broker, at the relay or in Slack.
async fn effect(scene: &Scene, command: &str, answer: &Answer) -> Result<(), String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let dry = words.contains(&"--dry-run");
    let so = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {answer:?}")) };
    match words.as_slice() {
        ["maple-router", "explain" | "render", ..] => so(
            answer.out.contains(&scene.submission.to_string()) || answer.out.contains("Subject"),
            "tells of it",
        ),
        ["maple-router", "watch", ..] => {
            so(answer.out.contains(&scene.submission.to_string()), "tells of it")
        }
        ["maple-router", "links", "revoke", ..] => {
            so(answer.out.contains("1 files: every link that was mailed answers 404"), "its links are dead")
        }
        ["maple-router", "links", ..] => so(answer.out.contains("X-Goog-Signature"), "a signed link"),
        ["maple-router", "replay" | "release", ..] => {
            let expected = match (dry, words[1]) {
                (false, _) => "received",
                (true, "release") => "processing",
                (true, _) if words.iter().any(|word| word.starts_with("--force-")) => "routed",
                (true, _) => "failed",
            };
            so(scene.row("status").await == expected, expected)
        }
        ["maple-router", "happyfox", "backfill", ..] => {
            let expected = if dry { "routed" } else { "received" };
            so(scene.row("status").await == expected && answer.out.contains("1 ticket "), expected)
        }
        ["maple-router", "pause", ..] => so(
            scene.answer(&["status", "--json"]).await["paused"].as_array().map(Vec::len) == Some(1),
            "paused",
        ),
        ["maple-router", "resume", ..] => {
            so(scene.answer(&["status", "--json"]).await["paused"] == json!([]), "resumed")
        }
        ["maple-router", "mark-attachment", ..] => {
            let sql = "SELECT clamav_status::text FROM attachments WHERE submission_id = s.id";
            let expected = if words.contains(&"--infected") { "infected" } else { "clean" };
            so(scene.row(sql).await == expected, expected)
        }
        ["maple-router", "publish", ..] => so(published(scene) == 1, "one event"),
        ["maple-router", "test-send", ..] => so(scene.stage.relay.mails().len() == 1, "one mail"),
        ["maple-router", "check", "--send"] => so(
            scene.stage.relay.mails().len() == 1 && scene.stage.slack.messages().len() == 1,
            "a mail, a message",
        ),
        ["maple-router", "dlq", "redrive" | "discard", ..] => {
            so(published(scene) == usize::from(words[2] == "redrive"), "published again, or not")?;
            so(scene.answer(&["dlq", "list", "--json"]).await == json!([]), "closed")
        }
        ["maple-router", "provision"] => {
            let again = scene.answer(&["provision", "--dry-run", "--json"]).await;
            let steps = again["steps"].as_array().ok_or("no steps")?;
            so(steps.iter().all(|step| step["state"] == "exists"), "everything is there")
        }
        ["maple-router", "migrate", "--content", ..] if !dry => {
            let table = match (words.contains(&"003"), words.contains(&"002")) {
                (true, _) => "holds",
                (false, true) => "versions",
                (false, false) => "uploads",
            };
            let there = scene.row(&format!("to_regclass('content.{table}') IS NOT NULL")).await;
            let expected = if words.contains(&"--back") { "false" } else { "true" };
            so(there == expected, "schema content is there, or gone")
        }
        ["maple-router", "forms", "rollback", ..] => so(follows(scene).await == "1", "the first again"),
        ["maple-router", "forms", "promote", ..] => so(follows(scene).await == "3", "the third"),
        ["maple-router", "forms", "adopt", ..] => so(follows(scene).await == "1", "what the tables had"),
        ["maple-router", "forms", "publish" | "tombstone" | "restore" | "discard", ..] => {
            let sql = "SELECT v.state FROM content.versions v ORDER BY v.number DESC LIMIT 1";
            let expected = match words[2] {
                "tombstone" | "discard" => "tombstoned",
                _ => "published",
            };
            so(scene.row(sql).await == expected, expected)
        }
        ["maple-router", "forms", "statement", ..] => {
            so(answer.out.contains("\nform contact\n"), "what is signed")
        }
        ["ssh-keygen", ..] => so(scene.stage.dir().join("statement.sig").exists(), "a signature"),
        ["maple-router", "forms", "sign", ..] => {
            so(scene.row("SELECT count(*) FROM content.signatures").await == "1", "it is kept")
        }
        ["maple-router", "policy", "test", ..] => {
            so(answer.out.contains("denies the bad canary"), "believed")
        }
        ["maple-router", "gc", "run"] => so(answer.out.contains(" is done: "), "a run"),
        ["maple-router", "gc", "status"] => {
            so(answer.out.contains("blobs have no reference"), "how it stands")
        }
        ["maple-router", "gc", "reconcile"] => {
            so(answer.out.contains("1 objects in 1 buckets, 1 rows: 0 objects that no row names"), "compared")
        }
        ["maple-router", "gc", "undelete", ..] => {
            so(scene.row("SELECT state FROM content.blobs").await == "live", "it lives")
        }
        ["maple-router", "hold", "place" | "lift", ..] => {
            let sql = "SELECT count(*) FROM content.holds WHERE released_at IS NULL";
            so(scene.row(sql).await == if words[2] == "place" { "1" } else { "0" }, "a hold stands, or none")
        }
        ["maple-router", "erase", ..] if dry => so(
            answer.out.contains(&scene.submission.to_string()) && answer.out.contains("would be erased"),
            "tells of it",
        ),
        ["maple-router", "erase", ..] => so(scene.row("status").await == "purged", "purged"),
        ["maple-router", "receipts", "show", ..] => so(
            answer.out.contains(" erased ") && answer.out.contains(" object_deleted "),
            "a receipt of each",
        ),
        ["maple-router", "receipts", "verify", ..] => {
            so(answer.out.contains("each follows the one before"), "a whole chain")
        }
        ["maple-router", "retention", "set" | "unset", ..] => {
            let sql = "SELECT count(*) FROM content.retention";
            so(scene.row(sql).await == if words[2] == "set" { "1" } else { "0" }, "a rule, or none")
        }
        ["maple-router", "migrate", "--screening", ..] if !dry => {
            let there = scene.row("to_regclass('screening.submissions') IS NOT NULL").await;
            let expected = if words.contains(&"--back") { "false" } else { "true" };
            so(there == expected, "schema screening is there, or gone")
        }
        ["maple-router", "screening", "enable" | "disable", ..] => {
            let sql = "SELECT concat_ws(' ', count(*), count(enforced_since)) FROM screening.forms";
            let expected = match (words[2], words.contains(&"--enforce")) {
                ("disable", _) => "0 0",
                (_, true) => "1 1",
                (_, false) => "1 0",
            };
            so(scene.row(sql).await == expected, expected)
        }
        ["maple-router", "screening", "waive", ..] => {
            let sql = "SELECT count(*) FROM screening.waivers WHERE ended_at IS NULL";
            so(scene.row(sql).await == if words.contains(&"--end") { "0" } else { "1" }, "a waiver, or none")
        }
        ["maple-router", "screening", "rescreen", ..] => {
            let sql = "SELECT max(r.run) FROM screening.submissions r WHERE r.subject = s.id";
            so(scene.row(sql).await == "2", "another run")
        }
        ["maple-router", "screening", "calibrate", ..] => {
            so(scene.row("SELECT count(*) FROM screening.calibrations").await == "1", "it is kept")
        }
        ["maple-router", "screening", "backtest", ..] => so(!answer.out.is_empty(), "figures"),
        ["maple-router", "screening", "show" | "list", ..] => {
            so(answer.out.contains(&scene.submission.to_string()[..8]), "tells of it")
        }
        ["maple-router", "screening", "jobs", ..] => so(answer.out.contains("tier1-scan"), "its job"),
        ["maple-router", "screening", "forms"] => so(answer.out.contains("contact"), "the form"),
        ["maple-router", "screening", "waivers"] => so(answer.out.contains("phishing-lure"), "the waiver"),
        ["maple-router", "screening", "sla", ..] => so(answer.out.contains("tier 1"), "the stages"),
        ["maple-router", "migrate", "--grading", ..] if !dry => {
            let there = scene.row("to_regclass('assessment.submissions') IS NOT NULL").await;
            let expected = if words.contains(&"--back") { "false" } else { "true" };
            so(there == expected, "schema assessment is there, or gone")
        }
        ["maple-router", "grading", "enable" | "disable", ..] => {
            let sql =
                "SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE gate)) FROM assessment.profiles";
            let expected = match (words[2], words.contains(&"--no-gate")) {
                ("disable", _) => "0 0",
                (_, true) => "1 0",
                (_, false) => "1 1",
            };
            so(scene.row(sql).await == expected, expected)
        }
        ["maple-router", "grading", "question", ..] => {
            let sql = "SELECT count(*) FROM assessment.questions WHERE set_by LIKE 'operator:%'";
            so(scene.row(sql).await == "1", "it is set")
        }
        ["maple-router", "grading", "regrade", ..] => {
            let sql = "SELECT max(a.attempt) FROM assessment.submissions a WHERE a.subject = s.id";
            so(scene.row(sql).await == "2", "another attempt")
        }
        ["maple-router", "grading", "release", ..] => {
            let sql = "SELECT count(*) FROM assessment.submissions a WHERE a.subject = s.id AND a.released_at IS NOT NULL";
            so(scene.row(sql).await == "1", "its mail goes")
        }
        ["maple-router", "grading", "calibrate", ..] => {
            so(scene.row("SELECT count(*) FROM grading.calibrations").await == "1", "it is kept")
        }
        ["maple-router", "grading", "show" | "list", ..] => {
            so(answer.out.contains(&scene.submission.to_string()[..8]), "tells of it")
        }
        ["maple-router", "grading", "messages", "--dead"] => {
            so(answer.out.contains("unreadable"), "why it is dead")
        }
        ["maple-router", "grading", "messages", ..] => so(answer.out.contains("callback"), "the queues"),
        ["maple-router", "grading", "forms", ..] => so(answer.out.contains("contact"), "the form"),
        ["maple-router", "grading", "sla", ..] => so(answer.out.contains("end_to_end"), "the stages"),
        ["maple-router", "uploads", "show", ..] => {
            so(answer.out.contains(&scene.upload.to_string()), "tells of it")
        }
        ["maple-router", "uploads", "abort", ..] => {
            let sql = format!("SELECT state FROM content.uploads WHERE id = '{}'", scene.upload);
            so(scene.row(&sql).await == "aborted", "aborted")
        }
        ["maple-router", "upload", ..] => so(answer.out.contains("is committed"), "committed"),
        ["maple-router", "scan", "--self-test"] => so(answer.out.contains("finds its test file"), "found"),
        ["maple-router", "scan", "UPLOAD_ID"] => {
            let sql = "SELECT scan_due_at IS NOT NULL FROM content.blobs WHERE origin = 'upload'";
            so(scene.row(sql).await == "true", "it is due")
        }
        ["maple-router", "migrate", ..] if words.contains(&"--router") && !dry => {
            let gone = words.contains(&"--back");
            let there = scene.row("to_regclass('router.outbox') IS NOT NULL").await;
            so(there == if gone { "false" } else { "true" }, "the outbox is there, or gone")
        }
        ["psql", ..] if command.contains("UPDATE submissions") => {
            let explanation = scene.answer(&["explain", &scene.submission.to_string(), "--json"]).await;
            so(
                explanation["why"].as_str().is_some_and(|why| why.contains("failed by somebody else")),
                "explained so",
            )
        }
        ["psql", ..] if command.contains("SELECT") => so(answer.out.contains(" row"), "an answer"),
        ["curl", ..] => so(!answer.out.is_empty(), "an answer"),
        _ => Ok(()),
    }
}

/// Number of the version that the form follows.
async fn follows(scene: &Scene) -> String {
    let sql = "SELECT v.number FROM content.current c JOIN content.versions v ON v.id = c.version_id";
    scene.row(sql).await
}

fn published(scene: &Scene) -> usize {
    // Without a receiver here, a published event waits.
    let stats = scene.stage.broker.stats(SUBSCRIPTION).expect("stats");
    stats.backlog + stats.outstanding
}

#[test]
fn optional_parts_are_tried_one_by_one() {
    let found = variants("maple-router pause [--form F] [--until T] --reason TEXT");
    let expected = [
        "maple-router pause --reason TEXT",
        "maple-router pause --form F --reason TEXT",
        "maple-router pause --until T --reason TEXT",
    ];
    assert_eq!(found, expected);
}
