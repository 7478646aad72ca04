//! The sweep inside `run`: what a crash or a lost event leaves behind is carried to its end, and nothing is sent that
//! need not be.

use std::collections::BTreeSet;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::Refusing;
use devkit::slack::SlackMessage;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Scene, binary, lines};

const OFTEN: &str = "[routing]\nsweep_interval = \"1s\"";
const ALONE: &str = "[routing]\nsweep_interval = \"1s\"\nrepublish = false";

/// The row looks as if nobody had touched it for this long.
async fn untouched(scene: &Scene, id: Uuid, seconds: u32) {
    let sql = format!("UPDATE submissions SET updated_at = now() - interval '{seconds} s' WHERE id = $1");
    assert_eq!(scene.eyes.execute(&sql, &[&id]).await.expect("aged"), 1);
}

async fn metric(scene: &Scene, name: &str) -> f64 {
    scene.router.metric(&format!("maple_router_{name}")).await.expect("metrics").expect("the series")
}

/// Kills the router with SIGKILL and starts another one on the same stage.
async fn crash(scene: &mut Scene, extra: &str) {
    scene.router.signal("KILL").await.expect("sent");
    scene.router.ended().await.expect("killed");
    scene.router = scene.stage.router(binary(), "successor", extra).await.expect("a router");
    scene.router.ready().await.expect("ready");
}

/// Killed between the mail and its record: the successor takes it back, says what is in doubt, and sends it again under
/// the same Message-ID.
async fn what_a_killed_router_had_begun_is_sent_again_and_every_copy_is_explained(source: Source) {
    let mut scene = Scene::with(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")], ALONE).await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("a@x.test").silence().times(1));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.until("mail at the relay", async || scene.stage.relay.mails().len() == 1).await;
    assert!(!scene.row(id).await.entry("1|a@x.test")["begun"].is_null());
    crash(&mut scene, ALONE).await;
    assert_eq!(scene.row(id).await.status, "processing", "young: it may be alive");
    // Nobody can know yet; `explain` says so of standing intents.
    let answer =
        scene.stage.ask(binary(), scene.router.config(), &["explain", &id.to_string(), "--json"]).await;
    let report = answer.expect("explained").json().expect("JSON");
    assert_eq!(report["next"]["code"], "finish", "{report:#}");
    untouched(&scene, id, 700).await;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    assert_eq!((&row.entry("1|a@x.test")["doubted"], &row.ledger["resets"]), (&json!(true), &json!(1)));
    let mails = scene.stage.relay.mails();
    let ids: BTreeSet<_> = mails.iter().map(|mail| mail.message_id.clone()).collect();
    assert_eq!((mails.len(), ids.len()), (2, 1), "twice, and recognisable as such");
    assert_eq!(metric(&scene, "rescued_total").await, 1.0);
    assert_eq!(metric(&scene, "in_doubt_total{resolution=\"neither_resent\"}").await, 1.0);
    let events: Vec<_> = scene.journal(id).iter().map(|line| line["event"].clone()).collect();
    for event in ["rescued", "claimed", "in_doubt", "routed"] {
        assert!(events.contains(&json!(event)), "{event}: {events:?}");
    }
    scene.stop().await;
}

async fn a_killed_router_that_had_begun_nothing_costs_no_attempt(source: Source) {
    let forms = [Form::new("f").mail_to("a@x.test"), Form::new("slow").mail_to("slow@x.test")];
    let one_connection = "[smtp]\nlanes = 1\n[routing]\nsweep_interval = \"1s\"";
    let mut scene = Scene::with(StageOptions::of(source), &forms, one_connection).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("slow@x.test").silence().times(1));
    let slow = scene.submit(&SubmissionSeed::of("slow")).await.id;
    scene.await_row(slow, "begin", |row| !row.entry("1|slow@x.test")["begun"].is_null()).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(id, "claim", |row| row.status == "processing").await;
    crash(&mut scene, OFTEN).await;
    for id in [slow, id] {
        untouched(&scene, id, 700).await;
    }
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    let row = scene.ended(slow).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "it was begun: {row:?}");
    assert_eq!(scene.stage.relay.mails().len(), 2, "each once");
    scene.stop().await;
}

/// P9, by the real process: the others are routed, people are notified of it once and of its end, and what the row
/// holds is nowhere.
#[tokio::test]
async fn a_row_that_refuses_every_write_is_reported_once_and_delays_nobody() {
    let forms = [Form::new("f").mail_to("a@x.test")];
    let extra = format!("{ALONE}\n[slack]\ngroup_wait = \"1s\"\n");
    let scene = Scene::with(StageOptions::of(Source::Pubsub), &forms, &extra).await;
    // The sweep is locked out until the row refuses.
    let lock = "(hashtext('maple-router'), hashtext('sweep'))";
    scene.eyes.execute(&format!("SELECT pg_advisory_lock{lock}"), &[]).await.expect("locked");
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
        untouched(&scene, id, 2000).await;
        ids.push(id);
    }
    let bad = ids.remove(0);
    scene.stage.database.refuse(Refusing::Trigger, &[bad]).await.expect("refused");
    scene.eyes.execute(&format!("SELECT pg_advisory_unlock{lock}"), &[]).await.expect("let go");
    for id in ids {
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    let posted = |part: &str| {
        let all = scene.stage.slack.messages();
        all.iter().map(SlackMessage::visible_text).filter(|text| text.contains(part)).count()
    };
    scene.until("message", async || posted("section set_aside") == 1).await;
    assert_eq!(posted(&format!("maple-router explain {bad}")), 1, "{:?}", scene.stage.slack.messages());
    assert_eq!(metric(&scene, "rows_set_aside").await, 1.0);
    let line = scene.await_line("row set aside", |line| line["event"] == "set_aside").await;
    assert_eq!(line["submission_id"], json!(bad.to_string()), "{line}");
    let said = line.to_string();
    assert!(said.contains("SQLSTATE P0001, function refuse_write"), "{said}");
    assert!(!scene.router.log().contains("no write of"), "nothing of the row");
    scene.stage.database.refuse(Refusing::Trigger, &[]).await.expect("mended");
    assert_eq!(scene.ended(bad).await.status, "routed");
    scene.await_line("end of it", |line| line["event"] == "written_after_all").await;
    scene.until("recovery", async || posted("over, after") == 1).await;
    assert_eq!((metric(&scene, "rows_set_aside").await, posted("section set_aside")), (0.0, 1));
    scene.stop().await;
}

/// No event, ever: the local queue alone brings it to its end, and again after a deferral.
async fn a_submission_whose_event_was_lost_is_routed_without_any(source: Source) {
    let scene = Scene::with(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")], ALONE).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").reply("451 4.3.0 later").times(1));
    let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
    untouched(&scene, id, 890).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(scene.row(id).await.attempts(), 0, "its event may still come");
    untouched(&scene, id, 901).await;
    scene.await_row(id, "first attempt", |row| row.status == "received" && row.attempts() == 1).await;
    let due = "UPDATE submissions SET updated_at = now() - interval '200 s', routing_result =
               routing_result || jsonb_build_object('next_attempt_at', now() - interval '150 s') WHERE id = $1";
    scene.eyes.execute(due, &[&id]).await.expect("due");
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    assert_eq!(metric(&scene, "orphans_total").await, 2.0);
    assert_eq!(scene.stage.events().await.expect("stats").delivered, 0, "not one event");
    scene.stop().await;
}

/// Pub/Sub alone: it is about publishing again.
#[tokio::test]
async fn a_lost_event_is_made_up_for_while_the_router_is_busy_and_its_event_published_again() {
    let forms = [Form::new("f").mail_to("a@x.test"), Form::new("busy").mail_to("busy@x.test")];
    let extra = "[routing]\nsweep_interval = \"1s\"\nmax_in_flight = 2";
    let scene = Scene::with(StageOptions::of(Source::Pubsub), &forms, extra).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("busy@x.test").delay(Duration::from_millis(400)));
    let mut busy = Vec::new();
    for _ in 0..20 {
        busy.push(scene.submit(&SubmissionSeed::of("busy")).await.id);
    }
    let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
    untouched(&scene, id, 1000).await;
    assert_eq!(scene.ended(id).await.status, "routed");
    for id in busy {
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    let stats = scene.settled().await;
    assert_eq!(stats.acked, 21, "its event as well: {stats:?}");
    assert_eq!(scene.stage.relay.mails().len(), 21, "each once");
    scene.stop().await;
}

async fn two_routers_sweep_side_by_side_and_every_orphan_is_sent_once(source: Source) {
    let scene = Scene::with(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")], ALONE).await;
    let mut other = scene.stage.router(binary(), "other", ALONE).await.expect("a router");
    other.ready().await.expect("ready");
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(scene.unannounced(&SubmissionSeed::of("f")).await.id);
    }
    scene
        .eyes
        .batch_execute("UPDATE submissions SET updated_at = now() - interval '1 hour'")
        .await
        .expect("aged");
    for id in &ids {
        assert_eq!(scene.ended(*id).await.status, "routed");
    }
    assert_eq!(scene.stage.relay.mails().len(), ids.len());
    let series = "maple_router_orphans_total";
    let found =
        metric(&scene, "orphans_total").await + other.metric(series).await.expect("metrics").expect("it");
    assert_eq!(found, 40.0, "each was found once");
    assert!(other.stop().await.expect("stops").success());
    scene.stop().await;
}

/// The role to publish may be missing: that is said once, and costs nothing else.
/// Pub/Sub alone: it is about the publisher role.
#[tokio::test]
async fn without_the_right_to_publish_everything_is_claimed_here_and_it_is_said_once() {
    let extra = "[pubsub]\ntopic = \"nowhere\"\n[routing]\nsweep_interval = \"1s\"";
    let scene =
        Scene::with(StageOptions::of(Source::Pubsub), &[Form::new("f").mail_to("a@x.test")], extra).await;
    for _ in 0..2 {
        let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
        untouched(&scene, id, 1000).await;
        assert_eq!(scene.ended(id).await.status, "routed");
        let is_warning =
            |line: &serde_json::Value| line.to_string().contains("found submissions cannot be published");
        scene.await_line("warning", is_warning).await;
        assert_eq!(lines(&scene.router).iter().filter(|line| is_warning(line)).count(), 1);
    }
    scene.stop().await;
}

async fn what_may_not_be_sent_and_what_waits_too_long_is_reported(source: Source) {
    let scene = Scene::with(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")], OFTEN).await;
    let infected = SubmissionSeed::of("f").attachment("a.pdf", "infected");
    let infected = scene.unannounced(&infected).await.id;
    let row = scene.ended(infected).await;
    assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("infected")), "{row:?}");
    let scanning = SubmissionSeed::of("f").attachment("a.pdf", "pending").age(Duration::from_secs(7200));
    let scanning = scene.unannounced(&scanning).await.id;
    let line = scene.await_line("warning", |line| line["event"] == "unready").await;
    assert_eq!(line["submission_id"], scanning.to_string(), "{line}");
    // Damaged, and nobody's event: found as an orphan, judged by the claim.
    let damaged = SubmissionSeed::of("f").ledger(json!({"next_attempt_at": "2026-02-31T00:00:00Z"}));
    let damaged = scene.unannounced(&damaged).await.id;
    untouched(&scene, damaged, 1000).await;
    assert_eq!(scene.ended(damaged).await.reason(), Some("ledger_damaged"));
    // Counted when the commit has been answered.
    scene
        .until("both counted", async || metric(&scene, "submissions_total{outcome=\"failed\"}").await == 2.0)
        .await;
    // An infected submission was never ready: it adds no lag.
    assert_eq!(metric(&scene, "routing_lag_seconds_count").await, 1.0);
    scene.until("gauges", async || metric(&scene, "queue_depth{status=\"failed\"}").await == 2.0).await;
    assert!(metric(&scene, "oldest_age_seconds{status=\"received\"}").await >= 7200.0);
    assert_eq!(scene.stage.relay.mails().len(), 0);
    scene.stop().await;
}

devkit::with_either_source!(
    a_submission_whose_event_was_lost_is_routed_without_any,
    what_a_killed_router_had_begun_is_sent_again_and_every_copy_is_explained,
    a_killed_router_that_had_begun_nothing_costs_no_attempt,
    two_routers_sweep_side_by_side_and_every_orphan_is_sent_once,
    what_may_not_be_sent_and_what_waits_too_long_is_reported,
);
