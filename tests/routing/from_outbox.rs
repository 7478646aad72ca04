//! `source.kind = "postgres"`: what the database's own triggers announce is routed, with no broker anywhere. Nobody calls publish
//! here.

use std::time::Duration;

use devkit::forms::{Form, Seeded, SubmissionSeed, scan};
use devkit::postgres::{Cluster, ClusterOptions};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{SUBSCRIPTION, Source, Stage, StageOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Scene, binary, lines, load, stage_of};

fn options() -> StageOptions {
    StageOptions::of(Source::Postgres)
}

fn form() -> Form {
    Form::new("f").mail_to("a@x.test")
}

async fn scene(forms: &[Form], extra: &str) -> Scene {
    Scene::with(options(), forms, extra).await
}

/// Inserted, and that is all.
async fn insert(scene: &Scene, seed: &SubmissionSeed) -> Seeded {
    seed.insert(&scene.backend).await.expect("a row")
}

async fn ready(scene: &Scene, n: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for _ in 0..n {
        ids.push(insert(scene, &SubmissionSeed::of("f")).await.id);
    }
    ids
}

fn count(scene: &Scene, event: &str) -> usize {
    lines(&scene.router).iter().filter(|line| line["event"] == event).count()
}

#[tokio::test]
async fn events_do_not_wait_for_the_disk_and_what_is_done_for_them_does() {
    let scene = scene(&[form()], "").await;
    let owner = scene.stage.database.superuser().await.expect("a connection");
    let note = "CREATE TABLE public.waits (of text, setting text);
        CREATE FUNCTION public.note_wait() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
          INSERT INTO public.waits VALUES (TG_TABLE_NAME, current_setting('synchronous_commit'));
          RETURN NULL;
        END $$;
        CREATE TRIGGER note_wait AFTER UPDATE ON router.outbox FOR EACH ROW EXECUTE FUNCTION public.note_wait();
        CREATE TRIGGER note_wait AFTER UPDATE ON public.submissions FOR EACH ROW EXECUTE FUNCTION public.note_wait()";
    owner.batch_execute(note).await.expect("noted from now on");
    let id = insert(&scene, &SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let delivered = "SELECT EXISTS (SELECT FROM router.outbox WHERE state = 'delivered')";
    scene.until("settled", async || owner.query_one(delivered, &[]).await.expect("a row").get(0)).await;
    let noted = "SELECT DISTINCT of, setting FROM public.waits ORDER BY 1, 2";
    let noted = owner.query(noted, &[]).await.expect("rows");
    let noted: Vec<(&str, &str)> = noted.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(noted, [("outbox", "off"), ("submissions", "on")]);
    scene.stop().await;
}

#[tokio::test]
async fn submissions_are_routed_and_the_broker_receives_nothing() {
    let scene = scene(&[form()], "").await;
    for id in ready(&scene, 20).await {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
        assert_eq!(scene.journal(id).iter().filter(|line| line["event"] == "claimed").count(), 1);
    }
    assert_eq!(scene.stage.relay.counters().mails, 20);
    let stats = scene.stage.broker.stats(SUBSCRIPTION).expect("stats");
    assert_eq!((stats.streams, stats.delivered, stats.backlog), (0, 0, 0), "{stats:?}");
    let log = scene.router.log();
    assert!(!log.to_lowercase().contains("pub/sub") && !log.contains("\"pubsub\""), "{log}");
    assert_eq!(count(&scene, "orphan"), 0, "the sweep had nothing to find");
    scene.stop().await;
}

#[tokio::test]
async fn what_is_infected_fails_and_what_is_not_clean_waits_for_its_scan() {
    let scene = scene(&[form()], "").await;
    let infected = insert(&scene, &SubmissionSeed::of("f").attachment("a.exe", "infected")).await.id;
    let pending = SubmissionSeed::of("f").attachment("a.pdf", "pending").attachment("b.pdf", "clean");
    let Seeded { id, attachments } = insert(&scene, &pending).await;
    let row = scene.ended(infected).await;
    assert_eq!((row.reason(), row.attempts()), (Some("infected"), 0), "{row:?}");
    let later = ready(&scene, 1).await[0];
    assert_eq!(scene.ended(later).await.status, "routed", "whoever came after it has been looked at");
    assert_eq!(scene.row(id).await.ledger, json!({}), "untouched");
    assert_eq!(scene.journal(id), [Value::Null; 0], "nobody was asked to look at it");
    let scanner = scene.stage.database.client_as("forms_scanner").await.expect("the scanner");
    scan(&scanner, attachments[0], "clean").await.expect("marked");
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.stop().await;
}

#[tokio::test]
async fn what_is_deferred_is_tried_again_when_it_is_due_and_not_before() {
    let backoff = "[routing]\nbackoff_min = \"2s\"\nbackoff_max = \"2s\"";
    let scene = scene(&[form()], backoff).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").times(2).reply("451 4.3.0 later"));
    let id = ready(&scene, 1).await[0];
    let row = scene.await_row(id, "release", |row| row.status == "received" && row.attempts() == 1).await;
    assert!(row.ledger["next_attempt_at"].is_string(), "{row:?}");
    let sql = "SELECT ((routing_result->>'next_attempt_at')::timestamptz - updated_at) > interval '1.5 s'
        FROM submissions WHERE id = $1";
    let is_spaced: bool = scene.eyes.query_one(sql, &[&id]).await.expect("the row").get(0);
    assert!(is_spaced, "nobody else spaces the attempts: {row:?}");
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 3), "{row:?}");
    let journal = scene.journal(id);
    let of = |event: &str| journal.iter().filter(|line| line["event"] == event).count();
    assert_eq!((of("claimed"), of("released"), of("held"), of("nacked")), (3, 2, 0, 0), "{journal:?}");
    scene.stop().await;
}

#[tokio::test]
async fn attempts_end_and_what_ended_does_not_come_again() {
    let scene = scene(&[form()], "").await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").reply("451 4.3.0 later"));
    let id = ready(&scene, 1).await[0];
    let row = scene.ended(id).await;
    assert_eq!((row.reason(), row.attempts()), (Some("exhausted"), 5), "{row:?}");
    let count = scene.journal(id).len();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.journal(id).len(), count, "{:?}", scene.journal(id));
    scene.stop().await;
}

/// A row somebody has locked, one that only a newer version can read, one whose ledger is damaged, one that is in
/// the middle of something else: the others go by.
#[tokio::test]
async fn rows_that_cannot_be_claimed_hold_up_nobody_and_are_not_asked_for_all_the_time() {
    let scene = scene(&[form()], "[source]\npoll = \"100ms\"\n[routing]\nmax_in_flight = 1").await;
    let mut other = scene.stage.database.client_as("forms_app").await.expect("forms_app");
    let locked = SubmissionSeed::of("f").attachment("a.pdf", "pending");
    let Seeded { id: locked, attachments } = insert(&scene, &locked).await;
    let lock = other.transaction().await.expect("a transaction");
    lock.query_one("SELECT FROM submissions WHERE id = $1 FOR UPDATE", &[&locked]).await.expect("locked");
    let scanner = scene.stage.database.client_as("forms_scanner").await.expect("the scanner");
    scan(&scanner, attachments[0], "clean").await.expect("marked");
    let newer = insert(&scene, &SubmissionSeed::of("f").ledger(json!({"v": 99}))).await.id;
    let strange = json!({"v": 1, "next_attempt_at": "yesterday", "attempts": {}});
    let damaged = insert(&scene, &SubmissionSeed::of("f").ledger(strange)).await.id;
    for id in ready(&scene, 5).await {
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    assert_eq!(scene.ended(damaged).await.reason(), Some("ledger_damaged"));
    assert_eq!(scene.row(locked).await.ledger, json!({}));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let nacked = scene.journal(newer).iter().filter(|line| line["event"] == "nacked").count();
    assert!((2..=8).contains(&nacked), "again, and with growing rests: {nacked} times in more than 3 s");
    assert_eq!(scene.row(newer).await.ledger, json!({"v": 99}), "untouched");
    lock.rollback().await.expect("unlocked");
    assert_eq!(scene.ended(locked).await.attempts(), 1);
    scene.stop().await;
}

#[tokio::test]
async fn a_stop_finishes_what_is_sent_and_the_next_start_does_the_rest() {
    let mut scene = scene(&[form()], "[smtp]\nlanes = 1\n[routing]\nmax_in_flight = 4").await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).times(1).delay(Duration::from_secs(2)));
    let ids = ready(&scene, 30).await;
    scene.until("a send", async || count(&scene, "claimed") > 0).await;
    let status = scene.router.stop().await.expect("stops");
    assert!(status.success(), "{status}\n{}", scene.router.log());
    for id in &ids {
        let row = scene.row(*id).await;
        assert!(row.status == "routed" || (row.status == "received" && row.attempts() == 0), "{row:?}");
    }
    scene.router = scene.stage.router(binary(), "router", "").await.expect("a router");
    scene.router.ready().await.expect("ready");
    for id in &ids {
        assert_eq!(scene.ended(*id).await.attempts(), 1);
    }
    assert_eq!(scene.stage.relay.counters().mails, 30);
    scene.stop().await;
}

#[tokio::test]
async fn a_database_that_goes_away_is_one_incident_and_costs_nothing() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a server of our own");
    let database = cluster.database(options().variant).await.expect("a database");
    let stage =
        Stage::on(database, StageOptions { sample_forms: false, ..options() }).await.expect("a stage");
    load(&stage, &[form()]).await;
    // No submission is in work, and the sweep is far: the outbox's poll is the one that notices.
    let mut scene = Scene::on(stage, "").await;
    cluster.stop().await;
    let opened = scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    assert_eq!(opened["dependency"], "postgres");
    cluster.start_again().await.expect("it is back");
    scene.backend = scene.stage.database.client_as("forms_app").await.expect("forms_app");
    scene.eyes = scene.stage.database.superuser().await.expect("superuser");
    for id in ready(&scene, 3).await {
        assert_eq!(scene.ended(id).await.attempts(), 1);
    }
    scene.await_line("end of the outage", |line| line["event"] == "breaker_closed").await;
    assert_eq!((count(&scene, "breaker_open"), count(&scene, "breaker_closed")), (1, 1));
    scene.stop().await;
}

#[tokio::test]
async fn two_daemons_share_the_rows_and_nothing_is_sent_twice() {
    let scene = scene(&[form()], "").await;
    let mut second = scene.stage.router(binary(), "second", "").await.expect("a router");
    second.ready().await.expect("ready");
    let ids = ready(&scene, 120).await;
    for id in &ids {
        assert_eq!(scene.ended(*id).await.attempts(), 1);
    }
    assert_eq!(scene.stage.relay.counters().mails, 120);
    assert!(scene.stage.relay.digests().values().all(|copies| *copies == 1), "nothing twice");
    let claimed = |log: &str| log.matches("\"event\":\"claimed\"").count();
    let (one, two) = (claimed(&scene.router.log()), claimed(&second.log()));
    assert_eq!(one + two, 120, "each was claimed once");
    assert!(one > 0 && two > 0, "both work: {one} and {two}");
    assert!(second.stop().await.expect("stops").success());
    scene.stop().await;
}

/// The outbox writes records of its own; people are notified of them although there is no dead-letter subscription.
#[tokio::test]
async fn people_are_notified_of_records_that_somebody_else_wrote() {
    let stage = stage_of(options(), &[form()]).await;
    let record = "INSERT INTO router.dead_letters (id, kind, at, reason, message_id, payload, payload_sha256, attributes)
        VALUES (gen_random_uuid(), 'unreadable', now(), 'not_an_object', 'outbox:1', '\\x00', repeat('0', 64), '{}')";
    let eyes = stage.database.superuser().await.expect("superuser");
    eyes.batch_execute(record).await.expect("a record");
    let scene = Scene::on(stage, "[slack]\ngroup_wait = \"1s\"").await;
    let alerted =
        async || scene.stage.slack.messages().iter().any(|m| m.visible_text().contains("the outbox gave up"));
    scene.until("alert", alerted).await;
    scene.stop().await;
}
