//! Pauses: of everything, of a form, of a destination domain. Paused submissions spend no attempt, survive
//! restarts, and come back when the pauses end, by an operator or by the database's clock.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Answer, Source, StageOptions};
use devkit::submission::Row;
use serde_json::{Value, json};

use crate::harness::{Scene, binary, lines};

/// A verb beside the router, with its configuration.
async fn verb(scene: &Scene, line: &str) -> Answer {
    let words: Vec<&str> = line.split_whitespace().collect();
    scene.stage.ask(binary(), scene.router.config(), &words).await.expect("the verb runs")
}

async fn done(scene: &Scene, line: &str) -> Answer {
    let answer = verb(scene, line).await;
    assert_eq!(answer.code, Some(0), "{line}: {answer:?}");
    answer
}

/// Pauses, and waits until the router has noticed.
async fn pause(scene: &Scene, selector: &str) {
    let before = count(scene, "paused");
    done(scene, &format!("pause {selector} --reason maintenance")).await;
    scene.until("pause", async || count(scene, "paused") > before).await;
}

async fn resume(scene: &Scene, selector: &str) {
    let before = count(scene, "resumed");
    done(scene, &format!("resume {selector} --reason over")).await;
    scene.until("end of the pause", async || count(scene, "resumed") > before).await;
}

fn count(scene: &Scene, event: &str) -> usize {
    lines(&scene.router).iter().filter(|line| line["event"] == event).count()
}

async fn gauge(scene: &Scene, scope: &str) -> Option<f64> {
    let series = format!("maple_router_paused{{scope=\"{scope}\"}}");
    scene.router.metric(&series).await.expect("metrics")
}

fn unspent(row: &Row) -> bool {
    row.status == "received" && row.attempts() == 0
}

devkit::with_either_source!(
    a_pause_of_everything_survives_a_restart_and_costs_no_deliveries,
    a_paused_form_waits_and_others_do_not,
    a_paused_destination_holds_up_its_deliveries_only,
    a_deferral_beside_a_pause_is_spent,
    a_pause_ends_by_itself_by_the_databases_clock,
);

async fn a_pause_of_everything_survives_a_restart_and_costs_no_deliveries(source: Source) {
    let mut scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    pause(&scene, "").await;
    assert_eq!(gauge(&scene, "all").await, Some(1.0));
    let (code, body) = scene.router.get("/-/ready").await.expect("asked");
    assert!(code == 503 && body.contains("paused by an operator"), "{code} {body}");
    let streams = async || scene.stage.events().await.expect("stats").streams;
    scene.until("end of the stream", async || streams().await == 0).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert!(scene.router.stop().await.expect("stops").success());
    scene.router = scene.stage.router(binary(), "router", "").await.expect("a router");
    scene.await_line("start", |line| line["event"] == "ready").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(scene.row(id).await.ledger, json!({}), "not claimed");
    let stats = scene.stage.events().await.expect("stats");
    assert_eq!((stats.delivered, stats.backlog), (0, 1), "{stats:?}");
    let status: Value = done(&scene, "status --json").await.json().expect("JSON");
    let paused = &status["paused"][0];
    assert_eq!((&paused["scope"], &paused["reason"]), (&json!("all"), &json!("maintenance")), "{status:#}");
    assert_eq!(status["breaker"][0], json!({"dependency": "postgres", "open": false}), "{status:#}");
    let page: Value = done(&scene, &format!("explain {id} --json")).await.json().expect("JSON");
    assert!(page["why"].as_str().is_some_and(|why| why.contains("paused since")), "{page:#}");
    assert!(page["remedy"][0].as_str().is_some_and(|line| line.contains("maple-router resume")), "{page:#}");
    resume(&scene, "").await;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.settled().await;
    assert_eq!(gauge(&scene, "all").await, Some(0.0));
    let twice = verb(&scene, "resume --reason again").await;
    assert_eq!(twice.code, Some(1), "nothing was paused: {twice:?}");
    scene.stop().await;
}

async fn a_paused_form_waits_and_others_do_not(source: Source) {
    let forms = [Form::new("f").mail_to("a@x.test"), Form::new("g").mail_to("a@x.test")];
    let scene = Scene::of(source, &forms).await;
    pause(&scene, "--form f").await;
    let paused = scene.submit(&SubmissionSeed::of("f")).await.id;
    let other = scene.submit(&SubmissionSeed::of("g")).await.id;
    assert_eq!(scene.ended(other).await.status, "routed");
    let dropped = |line: &Value| line["event"] == "dropped" && line["reason"] == "paused";
    scene.await_line("drop", dropped).await;
    assert_eq!(scene.row(paused).await.ledger, json!({}), "untouched");
    // The event is gone; a later event (the sweep's) finds the row as it was.
    scene.settled().await;
    // The sweep does not look at the row either, until it is resumed.
    let old = scene.unannounced(&SubmissionSeed::of("f").age(Duration::from_secs(3600))).await.id;
    let orphans = async || done(&scene, "sweep --once --json").await.json().expect("JSON")["orphans"].clone();
    assert_eq!(orphans().await, 0);
    assert_eq!(scene.row(old).await.ledger, json!({}), "untouched");
    resume(&scene, "--form f").await;
    // The router's own sweep may have been first.
    orphans().await;
    assert_eq!(scene.ended(old).await.status, "routed");
    scene.publish(paused);
    let row = scene.ended(paused).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.stop().await;
}

async fn a_paused_destination_holds_up_its_deliveries_only(source: Source) {
    let form = Form::new("f").mail_to("a@x.test, b@Paused.test").mail_to("c@paused.test").mail_to("d@x.test");
    let scene = Scene::of(source, &[form, Form::new("only").mail_to("e@paused.test")]).await;
    pause(&scene, "--destination-domain @PAUSED.test").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let only = scene.submit(&SubmissionSeed::of("only")).await.id;
    let sent = |row: &Row| unspent(row) && row.entry("3|d@x.test")["state"] == "accepted";
    let row = scene.await_row(id, "the rest to be sent", sent).await;
    assert_eq!(row.entry("1|a@x.test")["state"], "accepted", "{row:?}");
    for key in ["1|b@paused.test", "2|c@paused.test"] {
        assert_eq!(row.entry(key), &json!({"state": "open"}), "never begun: {row:?}");
    }
    scene.settled().await;
    assert_eq!(scene.row(only).await.ledger, json!({}), "nothing of it can be sent, so it is not claimed");
    assert!(unspent(&scene.row(id).await));
    resume(&scene, "--all").await;
    for id in [id, only] {
        scene.publish(id);
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    }
    assert_eq!(scene.stage.relay.counters().mails, 5);
    scene.stop().await;
}

/// A failure of its own beside a paused delivery spends its attempt as ever.
async fn a_deferral_beside_a_pause_is_spent(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test, b@paused.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").reply("451 4.3.0 later"));
    pause(&scene, "--destination-domain paused.test").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.reason(), row.attempts()), (Some("exhausted"), 5), "{row:?}");
    scene.stop().await;
}

async fn a_pause_ends_by_itself_by_the_databases_clock(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    pause(&scene, "--until 5s").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    assert_eq!(count(&scene, "resumed"), 1, "{}", scene.router.log());
    scene.stop().await;
}

/// The outbox alone: a row that waits because of a pause is not reported as a stall.
#[tokio::test]
async fn what_waits_because_of_a_pause_is_no_stall() {
    let often = "[routing]\nsweep_interval = \"1s\"";
    let options = StageOptions::of(Source::Postgres);
    let scene = Scene::with(options, &[Form::new("f").mail_to("a@x.test")], often).await;
    pause(&scene, "").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let overdue = "UPDATE router.outbox SET available_at = now() - interval '6 min'";
    scene.eyes.execute(overdue, &[]).await.expect("overdue");
    let age = "maple_router_outbox_oldest_age_seconds{state=\"pending\"}";
    let is_seen = async || scene.router.metric(age).await.expect("metrics").is_some_and(|age| age > 300.0);
    scene.until("look at the outbox", is_seen).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(count(&scene, "outbox_stalled"), 0, "{}", scene.router.log());
    resume(&scene, "").await;
    assert_eq!(scene.ended(id).await.status, "routed");
    scene.stop().await;
}

/// With schema `router`, a pause counts for every host. Pub/Sub alone: with the outbox every pause above is kept
/// there. So are the file below, which stands in for the schema, and what the command line refuses.
#[tokio::test]
async fn with_schema_router_pauses_are_kept_in_the_database() {
    let scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    let schema = include_str!("../../migrations/router/001_records.sql");
    scene.stage.database.alter("CREATE SCHEMA router").await.expect("made");
    scene.stage.database.alter(schema).await.expect("applied");
    pause(&scene, "--form f").await;
    pause(&scene, "").await;
    done(&scene, "pause --form f --until 2h --reason longer").await;
    let kept =
        scene.eyes.query("SELECT scope, reason FROM router.pauses ORDER BY scope", &[]).await.expect("kept");
    let kept: Vec<(String, String)> = kept.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("all", "maintenance"), ("form", "longer")];
    assert_eq!(kept, expected.map(|(scope, reason)| (scope.to_owned(), reason.to_owned())));
    resume(&scene, "--all").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    scene.stop().await;
}

/// Two daemons of one database, and one that has only its state directory.
#[tokio::test]
async fn a_pause_is_in_force_when_it_answers() {
    for source in [Source::Postgres, Source::Pubsub] {
        let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
        let with_schema = source == Source::Postgres;
        let mut routers = Vec::new();
        if with_schema {
            let mut second = scene.stage.router(binary(), "second", "").await.expect("a router");
            second.ready().await.expect("ready");
            routers.push(second);
        }
        let daemons = 1 + routers.len();
        let series = "maple_router_paused{scope=\"all\"}";
        for (line, expected) in [("pause --reason why", 1.0), ("resume --reason over", 0.0)] {
            let answer = done(&scene, line).await;
            for router in routers.iter().chain([&scene.router]) {
                assert_eq!(
                    router.metric(series).await.expect("metrics"),
                    Some(expected),
                    "{line}: {answer:?}"
                );
            }
            let line = answer.err.lines().find(|line| line.contains("confirmed by")).unwrap_or_default();
            assert_eq!(line.matches('/').count(), daemons, "each is named: {answer:?}");
        }
        for mut router in routers {
            assert!(router.stop().await.expect("stops").success());
        }
        let alone: Value = done(&scene, "pause --reason alone --json").await.json().expect("JSON");
        let counts =
            ["confirmed_by", "unconfirmed", "silent"].map(|list| alone[list].as_array().map(Vec::len));
        assert_eq!(counts, [Some(1), Some(0), Some(0)], "who stops says goodbye: {alone:#}");
        assert_eq!(alone["replaced"], Value::Null);
        scene.stop().await;
    }
}

#[tokio::test]
async fn who_does_not_confirm_is_named_and_who_is_gone_is_not_waited_for() {
    let scene = Scene::of(Source::Postgres, &[Form::new("f").mail_to("a@x.test")]).await;
    let mut second = scene.stage.router(binary(), "second", "").await.expect("a router");
    second.ready().await.expect("ready");
    done(&scene, "pause --form f --until 2h --reason earlier").await;
    let pid = second.pid().expect("it runs");
    second.freeze().await.expect("stands still");
    let answer = verb(&scene, "pause --form f --wait 3s --reason later").await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let name = format!("/{pid}");
    assert!(answer.err.contains("NOT CONFIRMED within 3s by") && answer.err.contains(&name), "{answer:?}");
    assert!(answer.out.contains("in place of: form f until 2"), "{answer:?}");
    assert!(answer.out.contains("earlier") && answer.out.contains("later"), "{answer:?}");
    // By the database's clock it has been silent for long.
    let old = "UPDATE router.daemons SET seen_at = now() - interval '40 s' WHERE worker LIKE '%' || $1";
    assert_eq!(scene.eyes.execute(old, &[&name]).await.expect("aged"), 1);
    let answer = done(&scene, "resume --form f --reason over").await;
    assert!(answer.err.contains("not waited for") && answer.err.contains(&name), "{answer:?}");
    second.signal("CONT").await.expect("goes on");
    assert!(second.stop().await.expect("stops").success());
    scene.stop().await;
}

/// An unreadable file must not end a pause.
#[tokio::test]
async fn a_damaged_file_pauses_everything_until_it_is_mended() {
    let mut scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    assert!(scene.router.stop().await.expect("stops").success());
    let file = scene.stage.dir().join("router").join("pauses.json");
    std::fs::write(&file, "[{\"scope\": \"al").expect("written");
    scene.router = scene.stage.router(binary(), "router", "").await.expect("a router");
    let is_fault =
        |line: &Value| line["message"].as_str().is_some_and(|text| text.contains("everything is paused"));
    scene.await_line("fault", is_fault).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(scene.row(id).await.ledger, json!({}));
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(scene.ended(id).await.status, "routed");
    scene.stop().await;
}

#[tokio::test]
async fn who_pauses_says_what_and_why() {
    let scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    for line in [
        "pause",
        "pause --reason",
        "pause --form f --destination-domain x.test --reason r",
        "pause --destination-domain a@x.test --reason r",
        "pause --until monday --reason r",
        "resume",
        "resume --all --form f --reason r",
    ] {
        assert_eq!(verb(&scene, line).await.code, Some(2), "{line}");
    }
    scene.stop().await;
}
