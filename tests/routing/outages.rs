//! A dependency is away: nobody spends an attempt, nothing is claimed or delivered meanwhile, one line of the journal
//! tells of it and one of its end, and everything is routed afterwards, once.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::google::Mishap;
use devkit::postgres::{Cluster, ClusterOptions};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{SUBSCRIPTION, Source, Stage, StageOptions};
use serde_json::Value;
use uuid::Uuid;

use crate::harness::{Scene, lines, load};

/// Lines of the journal with this event.
fn count(scene: &Scene, event: &str) -> usize {
    lines(&scene.router).iter().filter(|line| line["event"] == event).count()
}

async fn breaker(scene: &Scene, dependency: &str) -> Option<f64> {
    let series = format!("maple_router_breaker_open{{dependency=\"{dependency}\"}}");
    scene.router.metric(&series).await.expect("metrics")
}

/// One opening, one end.
async fn reported_once(scene: &Scene, dependency: &str) {
    scene.await_line("end of the outage", |line| line["event"] == "breaker_closed").await;
    assert_eq!(
        (count(scene, "breaker_open"), count(scene, "breaker_closed")),
        (1, 1),
        "{}",
        scene.router.log()
    );
    let opened = scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    assert_eq!(opened["dependency"], dependency);
    assert_eq!(breaker(scene, dependency).await, Some(0.0));
}

async fn submit(scene: &Scene, form: &str, n: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for _ in 0..n {
        ids.push(scene.submit(&SubmissionSeed::of(form)).await.id);
    }
    ids
}

/// All are routed, each at its first attempt that counts.
async fn routed_unspent(scene: &Scene, ids: &[Uuid]) {
    for id in ids {
        let row = scene.ended(*id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    }
}

/// Pub/Sub alone: it looks at the stream.
#[tokio::test]
async fn without_a_relay_nobody_spends_an_attempt_and_the_stream_is_closed() {
    let scene = Scene::of(Source::Pubsub, &[Form::new("f").mail_to("a@x.test, b@x.test")]).await;
    scene.stage.relay.stop().await;
    let first = submit(&scene, "f", 6).await;
    scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    let mut met = 0;
    for id in &first {
        let row =
            scene.await_row(*id, "release", |row| row.status == "received" && row.attempts() == 0).await;
        met += usize::from(row.entry("1|a@x.test")["error"]["stage"] == "connect");
    }
    assert!(met > 0, "a refund loses no error text");
    assert_eq!(breaker(&scene, "relay").await, Some(1.0));
    let (code, body) = scene.router.get("/-/ready").await.expect("asked");
    assert!(code == 503 && body.contains("deliberately") && body.contains("\"relay\""), "{code} {body}");
    let streams = async || scene.stage.broker.stats(SUBSCRIPTION).expect("stats").streams;
    scene.until("end of the stream", async || streams().await == 0).await;
    let delivered = scene.stage.broker.stats(SUBSCRIPTION).expect("stats").delivered;
    let later = submit(&scene, "f", 4).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let stats = scene.stage.broker.stats(SUBSCRIPTION).expect("stats");
    assert_eq!((stats.delivered, stats.backlog, stats.nacked), (delivered, 4, 0), "{stats:?}");
    for id in &later {
        assert_eq!(scene.row(*id).await.ledger, serde_json::json!({}), "not claimed");
    }
    scene.stage.relay.restart().await.expect("the relay is back");
    routed_unspent(&scene, &[first, later].concat()).await;
    assert_eq!(scene.stage.relay.mails().len(), 10);
    reported_once(&scene, "relay").await;
    let stats = scene.settled().await;
    assert_eq!((stats.delivered, stats.acked, stats.nacked), (10, 10, 0), "each event came once: {stats:?}");
    scene.stop().await;
}

/// The relay goes away while it owes the answer to a final dot: what it may have stored costs its attempt, outage or not.
async fn what_a_relay_may_have_stored_is_spent_though_it_went_away(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).delay(Duration::from_secs(5)));
    let id = submit(&scene, "f", 1).await[0];
    scene.await_row(id, "begun", |row| !row.entry("1|a@x.test")["begun"].is_null()).await;
    // The dot follows its intent at once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.stage.relay.stop().await;
    scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    let row = scene.await_row(id, "release", |row| row.status == "received").await;
    assert_eq!((row.attempts(), &row.entry("1|a@x.test")["doubt"]), (1, &true.into()), "{row:?}");
    scene.stage.relay.clear_rules();
    scene.stage.relay.restart().await.expect("the relay is back");
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    scene.stop().await;
}

/// A relay that answers and rejects every client before a recipient is named counts as unreachable.
async fn a_relay_that_refuses_the_sender_is_an_outage_too(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Mail).reply("451 4.3.0 queue disk is full"));
    let ids = submit(&scene, "f", 3).await;
    scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    scene.stage.relay.clear_rules();
    routed_unspent(&scene, &ids).await;
    reported_once(&scene, "relay").await;
    scene.stop().await;
}

/// A restart of the relay breaks every kept connection, some of them in the middle. That is no outage.
async fn a_relay_that_is_only_restarted_opens_nothing(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).times(6).disconnect());
    let ids = submit(&scene, "f", 6).await;
    for id in ids {
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    assert_eq!(count(&scene, "breaker_open"), 0, "{}", scene.router.log());
    scene.stop().await;
}

async fn without_a_database_nobody_spends_an_attempt_and_nothing_is_in_doubt(source: Source) {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a server of our own");
    let database = cluster.database(StageOptions::of(source).variant).await.expect("a database");
    let options = StageOptions { sample_forms: false, ..StageOptions::of(source) };
    let stage = Stage::on(database, options).await.expect("a stage");
    load(&stage, &[Form::new("f").mail_to("a@x.test").mail_to("b@x.test")]).await;
    let mut scene = Scene::on(stage, "").await;
    // Some mails are being sent when the relay goes, some submissions wait to be claimed.
    scene.stage.relay.rule(Rule::at(At::AfterDot).delay(Duration::from_secs(2)));
    let mut ids = submit(&scene, "f", 6).await;
    scene.await_row(ids[0], "begun", |row| !row.entry("1|a@x.test")["begun"].is_null()).await;
    for _ in 0..3 {
        ids.push(scene.unannounced(&SubmissionSeed::of("f")).await.id);
    }
    cluster.stop().await;
    ids[6..].iter().for_each(|id| scene.publish(*id));
    scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.start_again().await.expect("it is back");
    scene.backend = scene.stage.database.client_as("forms_app").await.expect("forms_app");
    scene.eyes = scene.stage.database.superuser().await.expect("superuser");
    routed_unspent(&scene, &ids).await;
    for mail in scene.stage.relay.digests() {
        assert_eq!(mail.1, 1, "nothing twice: {mail:?}");
    }
    assert_eq!(scene.stage.relay.counters().mails, 18);
    reported_once(&scene, "postgres").await;
    scene.stop().await;
}

/// Without events nothing is claimed: it is the sweep that misses the database.
async fn a_daemon_without_events_notices_that_the_database_is_gone(source: Source) {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a server of our own");
    let database = cluster.database(StageOptions::of(source).variant).await.expect("a database");
    let options = StageOptions { sample_forms: false, ..StageOptions::of(source) };
    let stage = Stage::on(database, options).await.expect("a stage");
    let scene = Scene::on(stage, "[routing]\nsweep_interval = \"1s\"").await;
    cluster.stop().await;
    let opened = scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    assert_eq!(opened["dependency"], "postgres");
    cluster.start_again().await.expect("it is back");
    reported_once(&scene, "postgres").await;
    scene.stop().await;
}

async fn without_a_signer_nobody_spends_an_attempt(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.google.iam_script().always(Mishap::Status(503));
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(scene.submit(&SubmissionSeed::of("f").attachment("a.pdf", "clean")).await.id);
    }
    scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.stage.google.iam_script().clear();
    routed_unspent(&scene, &ids).await;
    reported_once(&scene, "signer").await;
    scene.stop().await;
}

const DENIED: &str = "554 5.7.1 <somebody>: Relay access denied";

async fn a_relay_that_denies_everybody_is_one_outage_and_ends_with_a_trial(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).reply(DENIED));
    let ids = submit(&scene, "f", 12).await;
    let opened = scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    assert!(opened["message"].as_str().is_some_and(|text| text.contains("denies")), "{opened}");
    // Trials go on, one at a time, and cost nobody anything.
    let in_vain =
        |line: &Value| line["message"].as_str().is_some_and(|text| text.contains("does not work yet"));
    let trials = async || lines(&scene.router).iter().filter(|line| in_vain(line)).count();
    scene.until("two trials", async || trials().await >= 2).await;
    scene.stage.relay.clear_rules();
    for id in &ids {
        let row = scene.ended(*id).await;
        // The first five showed it; only they may have spent one, and never more.
        assert!(row.status == "routed" && row.attempts() <= 2, "{row:?}");
    }
    reported_once(&scene, "relay").await;
    assert_eq!(scene.stage.relay.mails().len(), 12);
    scene.stop().await;
}

async fn has_failed(scene: &Scene, ids: &[Uuid]) -> bool {
    for id in ids {
        if scene.row(*id).await.status != "failed" {
            return false;
        }
    }
    true
}

async fn a_poison_recipient_stops_nobody_else(source: Source) {
    let forms = [Form::new("poison").mail_to("poison@y.test"), Form::new("f").mail_to("a@x.test")];
    let scene = Scene::of(source, &forms).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("poison@y.test").reply(DENIED));
    let poison = submit(&scene, "poison", 6).await;
    // Other events go on coming: without them the cause is unknown, and the relay is tried ever more rarely.
    for _ in 0..120 {
        let good = submit(&scene, "f", 1).await[0];
        assert_eq!(scene.ended(good).await.status, "routed");
        if has_failed(&scene, &poison).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    for id in poison {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("exhausted")), "{row:?}");
        assert_eq!(row.attempts(), 5, "{row:?}");
    }
    assert!(count(&scene, "breaker_open") <= 1, "{}", scene.router.log());
    // The one that had not been tried may go on trial, and one more where the others came late; then somebody else does. A claim
    // that was under way when the relay was given up is no trial: it goes back, and the relay is not asked.
    let lines = lines(&scene.router);
    let open = lines.iter().skip_while(|line| line["event"] != "breaker_open");
    let open = open.take_while(|line| line["event"] != "breaker_closed");
    let in_vain =
        open.filter(|line| line["event"] == "action_deferred" && line["form_id"] == "poison").count();
    assert!(in_vain <= 2, "{in_vain} trials in vain: {}", scene.router.log());
    scene.stop().await;
}

async fn the_last_attempt_is_not_spent_by_an_outage_either(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.stop().await;
    let seed = SubmissionSeed::of("f").ledger(serde_json::json!({"v": 1, "attempts": 4}));
    let id = scene.submit(&seed).await.id;
    let released = |row: &devkit::submission::Row| !row.entry("1|a@x.test")["error"].is_null();
    let row = scene.await_row(id, "fault", released).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 4), "{row:?}");
    scene.stage.relay.restart().await.expect("the relay is back");
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 5), "{row:?}");
    scene.stop().await;
}

devkit::with_either_source!(
    what_a_relay_may_have_stored_is_spent_though_it_went_away,
    a_relay_that_refuses_the_sender_is_an_outage_too,
    a_relay_that_is_only_restarted_opens_nothing,
    without_a_database_nobody_spends_an_attempt_and_nothing_is_in_doubt,
    a_daemon_without_events_notices_that_the_database_is_gone,
    without_a_signer_nobody_spends_an_attempt,
    a_relay_that_denies_everybody_is_one_outage_and_ends_with_a_trial,
    a_poison_recipient_stops_nobody_else,
    the_last_attempt_is_not_spent_by_an_outage_either,
);
