//! The worst moment of a database connection: the transaction stands, its answer is lost. The router recognises its own
//! work in the row: nothing is sent twice, counted twice, or taken for somebody else's.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::CuttingProxy;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use serde_json::{Value, json};

use crate::harness::{Scene, binary, stage_of};

/// A router whose way to the database can be cut.
async fn scene(source: Source, extra: &str) -> (Scene, CuttingProxy) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let proxy = CuttingProxy::start(&stage.database).await.expect("a proxy");
    let extra = format!("[database]\nurl = \"{}\"\n{extra}", proxy.url_as("forms_app"));
    (Scene::on(stage, &extra).await, proxy)
}

/// The router's count of submissions with this outcome.
async fn counted(scene: &Scene, outcome: &str) -> Option<f64> {
    let series = format!("maple_router_submissions_total{{outcome=\"{outcome}\"}}");
    scene.router.metric(&series).await.expect("metrics")
}

/// No other worker has had a row of ours, so no claim was lost.
async fn nothing_was_stale(scene: &Scene) {
    let stale = scene.router.metric("maple_router_stale_settle_total").await.expect("metrics");
    assert_eq!(stale, Some(0.0), "{}", scene.router.log());
}

fn entries(scene: &Scene, id: uuid::Uuid, event: &str) -> Vec<Value> {
    scene.journal(id).into_iter().filter(|line| line["event"] == event).collect()
}

async fn a_release_whose_answer_was_lost_gives_its_event_back(source: Source) {
    let (scene, proxy) = scene(source, "").await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).times(1).reply("451 4.3.0 later"));
    proxy.arm("record");
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!(proxy.cuts(), ["record"]);
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    let stats = scene.settled().await;
    assert!(stats.nacked >= 1 && stats.acked == 1, "{stats:?}");
    nothing_was_stale(&scene).await;
    scene.stop().await;
}

async fn a_routing_whose_answer_was_lost_is_settled_and_counted_once(source: Source) {
    let (scene, proxy) = scene(source, "").await;
    proxy.arm("record");
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.nacked), (1, 0), "{stats:?}");
    assert_eq!(proxy.cuts(), ["record"]);
    assert_eq!(counted(&scene, "routed").await, Some(1.0));
    assert_eq!(scene.audited(id).await, ["email_sent", "submission_routed"]);
    assert_eq!(row.entry("1|a@x.test")["dups"], Value::Null, "the same fact: {row:?}");
    assert_eq!(scene.stage.relay.mails().len(), 1);
    nothing_was_stale(&scene).await;
    scene.stop().await;
}

/// Pub/Sub alone: it is about the dead-letter topic.
#[tokio::test]
async fn an_exhaustion_whose_answer_was_lost_reaches_the_dead_letters() {
    let (scene, proxy) = scene(Source::Pubsub, "").await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).reply("451 4.3.0 later"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(id, "fourth release", |row| row.attempts() == 4 && row.status == "received").await;
    proxy.arm("record");
    let row = scene.ended(id).await;
    assert_eq!((row.reason(), row.attempts()), (Some("exhausted"), 5), "{row:?}");
    let letters = scene.dead_letters(1).await;
    assert!(String::from_utf8_lossy(&letters[0]).contains(&id.to_string()));
    assert_eq!(proxy.cuts(), ["record"]);
    assert_eq!(scene.settled().await.acked, 0, "nacked, each of the five times");
    assert_eq!(counted(&scene, "failed").await, Some(1.0));
    nothing_was_stale(&scene).await;
    scene.stop().await;
}

/// Pub/Sub alone: it counts deliveries as Pub/Sub does.
#[tokio::test]
async fn a_refusal_at_the_claim_whose_answer_was_lost_is_known_as_our_own() {
    let (scene, proxy) = scene(Source::Pubsub, "").await;
    let plan = json!([{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}]);
    let spent = json!({"v": 1, "attempts": 5, "plan": plan, "deliveries": {"1|a@x.test": {"state": "open"}}});
    let table = [
        (SubmissionSeed::of("f").attachment("a.exe", "infected"), "infected", 0),
        (SubmissionSeed::of("f").ledger(spent), "exhausted", 1),
        (SubmissionSeed::of("f").ledger(json!([])), "ledger_damaged", 1),
    ];
    for (place, (seed, reason, nacked)) in table.into_iter().enumerate() {
        proxy.arm("claim");
        let id = scene.submit(&seed).await.id;
        let row = scene.ended(id).await;
        assert_eq!(row.reason(), Some(reason), "{row:?}");
        let line = scene.await_line("failure", |l| l["event"] == "failed" && l["reason"] == reason).await;
        assert_eq!(line["submission_id"], json!(id.to_string()), "{reason}: logged");
        assert_eq!(scene.settled().await.nacked, nacked, "{reason}: only what is spent is given back");
        assert_eq!(proxy.cuts().len(), place + 1, "{reason}");
        let so_far = f64::from(u8::try_from(place + 1).expect("three"));
        assert_eq!(counted(&scene, "failed").await, Some(so_far), "{reason}: once");
    }
    assert_eq!(scene.stage.relay.counters().transactions, 0);
    scene.stop().await;
}

async fn a_claim_whose_answer_was_lost_is_known_by_its_token(source: Source) {
    let (scene, proxy) = scene(source, "").await;
    proxy.arm("claim");
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!(proxy.cuts(), ["claim"]);
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    assert_eq!((entries(&scene, id, "claimed").len(), entries(&scene, id, "dropped").len()), (1, 0));
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.nacked), (1, 0), "{stats:?}");
    scene.stop().await;
}

/// No claim and no intent any more, and nothing spent.
async fn is_given_back(scene: &Scene, id: uuid::Uuid) {
    let row = scene.await_row(id, "given back", |row| row.status == "received").await;
    assert_eq!((row.attempts(), row.ledger.get("claim")), (0, None), "{row:?}");
    assert_eq!(row.entry("1|a@x.test"), &json!({"state": "open"}), "{row:?}");
    // The row is written before the line.
    let released =
        |line: &Value| line["event"] == "released" && line["submission_id"] == json!(id.to_string());
    scene.await_line("released", released).await;
    assert_eq!((entries(scene, id, "claimed").len(), entries(scene, id, "released").len()), (0, 1));
}

/// No worker is going to repeat the claim: it is given back, before the sweep takes its attempt for spent.
async fn a_claim_whose_answer_was_lost_is_given_back_at_a_stop(source: Source) {
    let (mut scene, proxy) = scene(source, "").await;
    proxy.arm("claim");
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.until("the cut", async || !proxy.cuts().is_empty()).await;
    assert_eq!(scene.row(id).await.status, "processing", "it stands");
    assert!(scene.router.stop().await.expect("stops").success(), "{}", scene.router.log());
    is_given_back(&scene, id).await;
    scene.router = scene.stage.router(binary(), "next", "").await.expect("a router");
    scene.router.ready().await.expect("ready");
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.stop().await;
}

async fn a_claim_whose_answer_was_lost_is_given_back_in_an_outage(source: Source) {
    let (scene, proxy) = scene(source, "").await;
    scene.stage.relay.rule(Rule::at(At::Mail).delay(Duration::from_secs(20)).times(1));
    let first = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(first, "begun", |row| !row.entry("1|a@x.test")["begun"].is_null()).await;
    proxy.arm("claim");
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.until("the cut", async || !proxy.cuts().is_empty()).await;
    // The gate shuts before the claim is due again.
    scene.stage.relay.stop().await;
    scene.await_line("the outage", |line| line["event"] == "breaker_open").await;
    is_given_back(&scene, id).await;
    scene.stage.relay.restart().await.expect("the relay is back");
    for id in [first, id] {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    }
    nothing_was_stale(&scene).await;
    scene.stop().await;
}

/// The intent stands, but nothing was sent: our own release knows that, so it is no doubt to be put on hold.
async fn a_begin_whose_answer_was_lost_is_no_doubt(source: Source) {
    for policy in ["hold", "resend"] {
        let (scene, proxy) = scene(source, &format!("[routing]\nin_doubt = \"{policy}\"")).await;
        proxy.arm("begin");
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        let row = scene.ended(id).await;
        assert_eq!(proxy.cuts(), ["begin"], "{policy}");
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{policy}: refunded: {row:?}");
        assert_eq!(row.entry("1|a@x.test")["doubted"], Value::Null, "{policy}: {row:?}");
        assert_eq!(entries(&scene, id, "released").len(), 1, "{policy}");
        assert_eq!(scene.stage.relay.mails().len(), 1, "{policy}");
        scene.stop().await;
    }
}

devkit::with_either_source!(
    a_release_whose_answer_was_lost_gives_its_event_back,
    a_routing_whose_answer_was_lost_is_settled_and_counted_once,
    a_claim_whose_answer_was_lost_is_known_by_its_token,
    a_claim_whose_answer_was_lost_is_given_back_at_a_stop,
    a_claim_whose_answer_was_lost_is_given_back_in_an_outage,
    a_begin_whose_answer_was_lost_is_no_doubt,
);
