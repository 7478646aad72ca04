//! Tickets that were put off while there was no help desk: made once each, oldest first, however often whoever makes them is
//! killed; what is held, refused or not understood stays as it is, and is named.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::Answer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::scene::Scene;

/// Submissions of the long story; `BACKFILL=500` for the night.
fn many() -> usize {
    std::env::var("BACKFILL").ok().map_or(40, |n| n.parse().expect("BACKFILL is a number of submissions"))
}

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// A scene in which a router without a help desk has routed what `submit` submits, and is gone.
async fn put_off(extra: &str, submit: impl AsyncFn(&Scene) -> Vec<Uuid>) -> (Scene, Vec<Uuid>) {
    let mut scene = Scene::alone(extra, crate::scene::relay()).await;
    scene.one_without_help_desk().await;
    let ids = submit(&scene).await;
    for id in &ids {
        scene.ended(*id).await;
    }
    scene.end().await;
    (scene, ids)
}

async fn several(scene: &Scene, how_many: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for _ in 0..how_many {
        ids.push(scene.submit().await);
    }
    ids
}

async fn backfill(scene: &Scene, more: &[&str]) -> Answer {
    let arguments = [&["happyfox", "backfill", "--reason", "the help desk is there"], more].concat();
    scene.stage.ask(binary(), &scene.verbs_config(true), &arguments).await.expect("it runs")
}

/// One that can be killed.
fn started(config: &PathBuf, out: &Path) -> Child {
    let out = std::fs::File::create(out).expect("a file");
    Command::new(binary())
        .env_clear()
        .arg("--config")
        .arg(config)
        .args(["happyfox", "backfill", "--reason", "the help desk is there"])
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a file"))
        .stderr(out)
        .kill_on_drop(true)
        .spawn()
        .expect("it starts")
}

/// The submissions that were opened, in the order of their submission.
async fn opened(scene: &Scene) -> Vec<bool> {
    let sql = "SELECT COALESCE(routing_result->'overrides' @> '[{\"verb\": \"backfill\"}]', false)
        FROM submissions ORDER BY created_at, id";
    scene.eyes.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect()
}

async fn await_opened(scene: &Scene, wanted: usize) {
    let so = async || opened(scene).await.into_iter().filter(|opened| *opened).count() >= wanted;
    scene.until(&format!("{wanted} opened"), so).await;
}

#[tokio::test]
async fn each_ticket_is_made_once_however_often_its_maker_is_killed() {
    let many = many();
    let (mut scene, ids) = put_off("", async |scene| several(scene, many).await).await;
    for id in &ids {
        let row = scene.row(*id).await;
        assert_eq!((row.status.as_str(), &row.entry("1|")["state"]), ("routed", &json!("not_implemented")));
        assert_eq!(scene.mails(*id), 1);
    }
    scene.one_more().await;
    let (config, out) = (scene.verbs_config(true), scene.stage.dir().join("backfill.out"));
    for fifth in 1..=4 {
        let mut child = started(&config, &out);
        await_opened(&scene, many * fifth / 5).await;
        let last = fifth == 4;
        let pid = Pid::from_raw(i32::try_from(child.id().expect("it runs")).expect("a pid"));
        kill(pid, if last { Signal::SIGINT } else { Signal::SIGKILL }).expect("sent");
        let ended = child.wait().await.expect("it ends");
        let opened = opened(&scene).await;
        let oldest = opened.iter().take_while(|opened| **opened).count();
        assert_eq!(oldest, opened.iter().filter(|opened| **opened).count(), "the oldest first: {opened:?}");
        if last {
            let said = std::fs::read_to_string(&out).expect("its words");
            assert_eq!(ended.code(), Some(1), "{said}");
            let left = format!("interrupted: {} of", many - oldest);
            assert!(said.contains(&left) && said.contains("the same command goes on"), "{left}: {said}");
        }
    }
    let answer = backfill(&scene, &["--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let report = answer.json().expect("JSON");
    assert_eq!((&report["remaining"], &report["left"]), (&json!(0), &json!([])), "{report:#}");
    for id in &ids {
        let row = scene
            .await_row(*id, "ticket", |row| row.has_ended() && row.entry("1|happyfox")["state"] == "accepted")
            .await;
        assert_eq!(row.status, "routed", "{row:?}");
        assert_eq!(row.ledger["deliveries"].as_object().map(serde_json::Map::len), Some(2), "{row:?}");
        assert_eq!(row.happyfox_status.as_deref(), Some("created"), "{row:?}");
        let noted = &row.ledger["overrides"][0];
        assert_eq!(
            (&noted["verb"], &noted["reason"]),
            (&json!("backfill"), &json!("the help desk is there"))
        );
        assert_eq!(scene.desk.tagged(&Scene::tag(*id)).len(), 1, "{row:?}");
        assert_eq!(scene.mails(*id), 1, "what was accepted is not sent again: {row:?}");
    }
    assert_eq!(scene.desk.tickets().len(), many);
    let again = backfill(&scene, &[]).await;
    assert!(
        again.code == Some(0) && again.out.starts_with("0 submissions with deferred tickets"),
        "{again:?}"
    );
    scene.stop().await;
}

/// Custom field 7 is none, and `Praise` is no choice of field 2.
const FIELDS: &str = "
[happyfox.forms.field.custom_fields]
7 = \"submission.id\"
[happyfox.forms.choice.custom_fields]
2 = \"fields.kind\"
";

#[tokio::test]
async fn what_the_help_desk_would_refuse_is_named_and_left() {
    let submit = async |scene: &Scene| {
        let forms = ["private", "unknown", "none", "field", "choice", "template"];
        let mut ids = vec![scene.submit().await];
        for name in forms {
            let category = match name {
                "private" => "Internal",
                "unknown" => "Nowhere",
                "none" => " ",
                _ => "General",
            };
            let mut form = Form::new(name).ticket_in(category).mail_to("a@x.test");
            if name == "template" {
                form.actions[0].subject = Some("{{ fields.kind | }}".to_owned());
            }
            scene.form(form).await;
            ids.push(scene.submit_seed(SubmissionSeed::of(name).field("kind", "Praise")).await);
        }
        ids.push(scene.submit_seed(SubmissionSeed::of("choice").field("kind", "Question")).await);
        scene.form(Form::new("two").ticket_in("Complaints").ticket_in("Nowhere")).await;
        ids.push(scene.submit_to("two").await);
        ids
    };
    let (mut scene, ids) = put_off(FIELDS, submit).await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(scene.row(*id).await);
    }
    let dry = backfill(&scene, &["--dry-run", "--json"]).await;
    assert_eq!(dry.code, Some(0), "{dry:?}");
    for secret in ["ada@", "Praise", "Question"] {
        assert!(!dry.out.contains(secret) && !dry.err.contains(secret), "{secret}: {dry:?}");
    }
    let report = dry.json().expect("JSON");
    let numbers = ["matched", "tickets", "submissions", "remaining"].map(|key| report[key].as_u64());
    assert_eq!(numbers, [Some(9), Some(3), Some(0), Some(0)], "{report:#}");
    let expected = [
        ("choice", 1, "field", "custom field 2 (\"Kind\") has no such choice"),
        ("field", 1, "field", "no custom field 7"),
        ("none", 1, "category", "names no category"),
        ("private", 1, "category", "\"Internal\" is not public"),
        ("template", 1, "template", "cannot be rendered"),
        ("two", 2, "category", "\"Nowhere\" does not exist"),
        ("unknown", 1, "category", "\"Nowhere\" does not exist"),
    ];
    let found: &Vec<Value> = report["objections"].as_array().expect("objections");
    assert_eq!(found.len(), expected.len(), "{report:#}");
    for (found, (form, order, stage, why)) in found.iter().zip(expected) {
        assert_eq!((&found["form"], &found["action_order"]), (&json!(form), &json!(order)), "{found}");
        assert!(
            found["stage"] == stage && found["why"].as_str().is_some_and(|said| said.contains(why)),
            "{found}"
        );
        assert_eq!(found["count"], 1, "{found}");
        let sample: Uuid = found["sample"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        assert!(ids.contains(&sample), "{found}");
    }
    for (id, before) in ids.iter().zip(&before) {
        assert_eq!(scene.row(*id).await, *before, "a dry run changes nothing");
    }
    let text = backfill(&scene, &["--dry-run"]).await.out;
    for line in [
        "form",
        "General",
        "would be made",
        "e.g. ",
        "--replan",
        "9 submissions with deferred tickets: 3 tickets would be made, 7 would be refused",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let one = backfill(&scene, &["--dry-run", "--json", "--form", "two", "--since", "1h"])
        .await
        .json()
        .expect("JSON");
    assert_eq!((&one["matched"], &one["tickets"]), (&json!(1), &json!(1)), "{one:#}");

    scene.one_more().await;
    let real = backfill(&scene, &["--json"]).await;
    assert_eq!(real.code, Some(0), "{real:?}");
    let report = real.json().expect("JSON");
    assert_eq!((&report["tickets"], &report["submissions"]), (&json!(3), &json!(3)), "{report:#}");
    for (place, id) in ids.iter().enumerate() {
        let is_made = [0, 7, 8].contains(&place);
        if !is_made {
            assert_eq!(scene.row(*id).await, before[place], "what would be refused stays");
            continue;
        }
        let row = scene
            .await_row(*id, "ticket", |row| row.entry("1|happyfox")["state"] == "accepted" && row.has_ended())
            .await;
        assert_eq!(row.status, "routed", "{row:?}");
    }
    let two = scene.row(ids[8]).await;
    assert_eq!(two.entry("2|"), before[8].entry("2|"), "its other ticket stays deferred: {two:?}");
    assert_eq!(scene.desk.tickets().len(), 3);
    scene.stop().await;
}

#[tokio::test]
async fn what_somebody_has_or_what_failed_is_left_and_named() {
    let submit = async |scene: &Scene| {
        scene.form(Form::new("m").mail_to("not an address").ticket_in("General")).await;
        let mut ids = several(scene, 3).await;
        ids.push(scene.submit_to("m").await);
        ids
    };
    let (mut scene, ids) = put_off("", submit).await;
    let [free, locked, claimed, failed] = ids[..] else { panic!("four") };
    assert_eq!(scene.row(failed).await.status, "failed");
    let taken = "UPDATE submissions SET status = 'processing' WHERE id = $1";
    scene.eyes.execute(taken, &[&claimed]).await.expect("taken");
    let mut other = scene.stage.database.superuser().await.expect("superuser");
    let holding = other.transaction().await.expect("begun");
    holding.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", &[&locked]).await.expect("locked");
    let answer = backfill(&scene, &["--json"]).await;
    assert_eq!(answer.code, Some(0), "one was opened: {answer:?}");
    let report = answer.json().expect("JSON");
    let left = report["left"].as_array().expect("left");
    for (id, why) in [(locked, "locked"), (claimed, "processing"), (failed, "maple-router replay")] {
        let id = id.to_string();
        let named = left.iter().find(|left| left["id"] == id.as_str());
        assert!(
            named.is_some_and(|left| left["why"].as_str().is_some_and(|said| said.contains(why))),
            "{why}: {report:#}"
        );
    }
    assert_eq!((left.len(), &report["submissions"]), (3, &json!(1)), "{report:#}");
    for id in [locked, claimed, failed] {
        assert_eq!(
            scene.row(id).await.entry(if id == failed { "2|" } else { "1|" })["state"],
            "not_implemented"
        );
    }
    // Whoever had it lets go of it, and the same command goes on.
    holding.rollback().await.expect("released");
    let again = backfill(&scene, &["--json"]).await.json().expect("JSON");
    assert_eq!((&again["matched"], &again["submissions"]), (&json!(3), &json!(1)), "{again:#}");
    scene.one_more().await;
    for id in [free, locked] {
        scene.await_row(id, "ticket", |row| row.entry("1|happyfox")["state"] == "accepted").await;
    }
    scene.stop().await;
}

/// Whoever cannot ask the help desk changes nothing, and says what to do.
#[tokio::test]
async fn without_an_answer_nothing_changes() {
    let (scene, ids) = put_off("", async |scene| several(scene, 1).await).await;
    let before = scene.row(ids[0]).await;
    let (id, command) = (ids[0].to_string(), "maple-router happyfox backfill --form t --reason TEXT");
    for with_help_desk in [true, false] {
        let config = scene.verbs_config(with_help_desk);
        let explained = scene.stage.ask(binary(), &config, &["explain", &id]).await.expect("it runs");
        assert_eq!(explained.out.contains(command), with_help_desk, "{explained:?}");
    }
    let reason = ["happyfox", "backfill", "--reason", "x"];
    let none = scene.stage.ask(binary(), &scene.verbs_config(false), &reason).await.expect("it runs");
    assert!(none.code == Some(78) && none.err.contains("[happyfox] base_url"), "{none:?}");
    for (arguments, said) in [
        (&["happyfox", "backfill"][..], "--reason"),
        (&["happyfox", "backfill", "--reason", " "], "--reason says nothing"),
        (&["happyfox", "backfill", "--reason", "x", "--since", "monday"], "write a day as"),
    ] {
        let answer = scene.stage.ask(binary(), &scene.verbs_config(true), arguments).await.expect("it runs");
        assert!(answer.code == Some(2) && answer.err.contains(said), "{answer:?}");
    }
    scene.desk.set_credentials("other", "other");
    let refused = backfill(&scene, &[]).await;
    assert!(refused.code == Some(78) && refused.err.contains("nothing was changed"), "{refused:?}");
    scene.desk.set_credentials(scene.desk.api_key(), scene.desk.auth_code());
    scene.desk.throttle(Duration::from_secs(60));
    let throttled = backfill(&scene, &["--dry-run"]).await;
    assert!(throttled.code == Some(69) && throttled.err.contains("remedy"), "{throttled:?}");
    scene.desk.end_throttle();
    scene.desk.stop().await;
    let away = backfill(&scene, &[]).await;
    assert!(away.code == Some(69) && away.err.contains("nothing was changed"), "{away:?}");
    assert_eq!(scene.row(ids[0]).await, before);
    scene.stop().await;
}

/// One ticket a second, seen at a terminal of its own (script(1)), whose Ctrl-C comes in the middle of a wait.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "an instant to count from")]
async fn a_person_sees_the_pace_and_ends_it_with_ctrl_c() {
    const MANY: usize = 12;
    let slow = "[happyfox]\nmax_per_minute = 60\n";
    let (scene, _) = put_off(slow, async |scene| several(scene, MANY).await).await;
    let verb = "happyfox backfill --reason seen";
    let line = format!("exec {} --config {} {verb}", binary().display(), scene.verbs_config(true).display());
    let began = Instant::now();
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("script(1)");
    let mut keyboard = child.stdin.take().expect("a keyboard");
    await_opened(&scene, 3).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2), "three in {took:?}, at one a second");
    keyboard.write_all(b"\x03").await.expect("typed");
    let output = child.wait_with_output().await.expect("an end");
    let said = String::from_utf8(output.stdout).expect("utf-8");
    let opened = opened(&scene).await.into_iter().filter(|opened| *opened).count();
    assert!(opened < MANY, "{said}");
    for words in [
        format!("looked at {MANY} submissions, {MANY} with deferred tickets"),
        format!("2 of {MANY} submissions done, at least 10s to go"),
        format!("interrupted: {} of {MANY} submissions were not looked at", MANY - opened),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    scene.stop().await;
}
