//! Schema `router` announces what is to be routed: nobody calls publish here. With `source.kind = "postgres"` the daemon
//! takes the rows itself, with Pub/Sub its relay publishes them.

use std::collections::BTreeSet;

use devkit::forms::{Form, Seeded, SubmissionSeed, scan};
use devkit::postgres::Variant;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{SUBSCRIPTION, Source, StageOptions};
use serde_json::json;
use uuid::Uuid;

use crate::harness::Scene;

/// Attempts of an outbox row are over soon, and what is due again is looked for hardly ever.
const SETTINGS: &str = "[source]\npoll = \"60s\"\n[outbox]\nbackoff_min = \"10ms\"\nbackoff_max = \"20ms\"";

async fn scene(source: Source, extra: &str) -> Scene {
    let variant = Variant { router: true, audit_readable: true, ..Variant::default() };
    let options = StageOptions { source, variant, ..StageOptions::default() };
    Scene::with(options, &[Form::new("f").mail_to("a@x.test")], extra).await
}

async fn insert(scene: &Scene, seed: &SubmissionSeed) -> Seeded {
    seed.insert(&scene.backend).await.expect("a row")
}

impl Scene {
    /// State, reason and claims of every outbox row of a submission.
    async fn outbox(&self, id: Uuid) -> Vec<(String, String, i32)> {
        let sql = "SELECT state, COALESCE(payload->>'reason', ''), claims FROM router.outbox WHERE entity_id = $1 ORDER BY id";
        let rows = self.eyes.query(sql, &[&id]).await.expect("rows");
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    async fn announced(&self, id: Uuid) -> Vec<(String, String, i32)> {
        self.until("settled rows", async || {
            self.outbox(id).await.iter().all(|(state, ..)| state == "delivered" || state == "dead_letter")
        })
        .await;
        self.outbox(id).await
    }
}

fn once(reason: &str) -> Vec<(String, String, i32)> {
    vec![("delivered".to_owned(), reason.to_owned(), 1)]
}

#[tokio::test]
async fn what_becomes_ready_is_routed_at_once_over_either_source() {
    for source in [Source::Postgres, Source::Pubsub] {
        let scene = scene(source, SETTINGS).await;
        let plain: Vec<Uuid> = {
            let mut ids = Vec::new();
            for _ in 0..20 {
                ids.push(insert(&scene, &SubmissionSeed::of("f")).await.id);
            }
            ids
        };
        let two = SubmissionSeed::of("f").attachment("a.pdf", "pending").attachment("b.pdf", "pending");
        let (clean, infected) = (insert(&scene, &two).await, insert(&scene, &two).await);
        let scanner = scene.stage.database.client_as("forms_scanner").await.expect("the scanner");
        assert_eq!(scene.outbox(clean.id).await, [], "not before it is clean");
        scan(&scanner, clean.attachments[0], "clean").await.expect("marked");
        assert_eq!(scene.outbox(clean.id).await, [], "not before all of it is clean");
        scan(&scanner, clean.attachments[1], "clean").await.expect("marked");
        scan(&scanner, infected.attachments[0], "infected").await.expect("marked");
        for id in plain {
            assert_eq!(scene.ended(id).await.status, "routed");
            assert_eq!(scene.announced(id).await, once("finalized"), "{source:?}");
            assert_eq!(scene.journal(id).iter().filter(|line| line["event"] == "claimed").count(), 1);
        }
        assert_eq!(scene.ended(clean.id).await.status, "routed");
        assert_eq!(scene.announced(clean.id).await, once("scan_clean"), "{source:?}");
        assert_eq!(scene.ended(infected.id).await.reason(), Some("infected"));
        assert_eq!(scene.announced(infected.id).await, once("scan_infected"), "{source:?}");
        assert_eq!(scene.stage.relay.counters().mails, 21);
        let sql = "SELECT count(DISTINCT message_id) FROM router.outbox";
        let named: i64 = scene.eyes.query_one(sql, &[]).await.expect("a count").get(0);
        let delivered = scene.stage.broker.stats(SUBSCRIPTION).expect("stats").delivered;
        let expected = if source == Source::Pubsub { 22 } else { 0 };
        assert_eq!((named, delivered), (expected, u64::try_from(expected).unwrap_or_default()), "{source:?}");
        scene.stop().await;
    }
}

/// A stranger's two-phase commit: its submission is routed when the second phase commits, and never was when it does not.
#[tokio::test]
async fn what_was_prepared_is_routed_when_it_is_committed() {
    let scene = scene(Source::Postgres, SETTINGS).await;
    let prepare = async |gid: &str| {
        scene.backend.batch_execute("BEGIN").await.expect("begun");
        let id = insert(&scene, &SubmissionSeed::of("f")).await.id;
        scene.backend.batch_execute(&format!("PREPARE TRANSACTION '{gid}-{id}'")).await.expect("prepared");
        id
    };
    let (kept, dropped) = (prepare("kept").await, prepare("dropped").await);
    // A later event goes before these: open events are in nobody's way.
    let beside = insert(&scene, &SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(beside).await.status, "routed");
    assert_eq!(scene.stage.relay.counters().mails, 1);
    scene.backend.batch_execute(&format!("ROLLBACK PREPARED 'dropped-{dropped}'")).await.expect("dropped");
    scene.backend.batch_execute(&format!("COMMIT PREPARED 'kept-{kept}'")).await.expect("committed");
    assert_eq!(scene.ended(kept).await.status, "routed");
    assert_eq!(scene.announced(kept).await, once("finalized"));
    assert_eq!(scene.outbox(dropped).await, []);
    assert_eq!(scene.stage.relay.counters().mails, 2);
    scene.stop().await;
}

#[tokio::test]
async fn without_a_listener_the_poll_finds_them() {
    let deaf = "[database]\nlisten_url = \"postgres://forms_app@127.0.0.1:1/nowhere\"";
    let scene = scene(Source::Postgres, deaf).await;
    let id = insert(&scene, &SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    assert!(scene.router.log().contains("not listened to, only polled"), "{}", scene.router.log());
    scene.stop().await;
}

#[tokio::test]
async fn the_ledger_counts_the_attempts_and_the_outbox_only_what_is_wrong_with_a_row() {
    let backoff = "[routing]\nbackoff_min = \"50ms\"\nbackoff_max = \"100ms\"\n[source]\npoll = \"50ms\"\n\
                   [outbox]\nbackoff_min = \"10ms\"\nbackoff_max = \"20ms\"\n[slack]\ngroup_wait = \"1s\"";
    let scene = scene(Source::Postgres, backoff).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").times(5).reply("451 4.3.0 later"));
    let spent = insert(&scene, &SubmissionSeed::of("f")).await.id;
    let row = scene.ended(spent).await;
    assert_eq!((row.reason(), row.attempts()), (Some("exhausted"), 5), "{row:?}");
    let [(state, _, claims)] = &scene.announced(spent).await[..] else { panic!("one row") };
    assert_eq!((state.as_str(), *claims), ("delivered", 5), "one claim an attempt");
    let attempts = "SELECT max(attempts) FROM router.outbox";
    let attempts: i32 = scene.eyes.query_one(attempts, &[]).await.expect("a look").get(0);
    assert_eq!(attempts, 1, "the last claim's own");

    // An unusable event is given up on, reported once, and in nobody's way.
    let nobody = Uuid::from_u128(7);
    let poison = "INSERT INTO router.outbox (kind, entity_id, payload) VALUES ('routing.ready', $1, $2)";
    let unknown = json!({"submission_id": nobody});
    scene.backend.execute(poison, &[&nobody, &unknown]).await.expect("a row");
    scene.backend.execute(poison, &[&None::<Uuid>, &json!("no event")]).await.expect("a row");
    let good = insert(&scene, &SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(good).await.status, "routed");
    scene
        .until("two dead letters", async || {
            let sql = "SELECT count(*) FROM router.outbox WHERE state = 'dead_letter' AND attempts = 5";
            scene.eyes.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0) == 2
        })
        .await;
    let records = scene.eyes.query("SELECT kind FROM router.dead_letters", &[]).await.expect("records");
    let kinds: BTreeSet<String> = records.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        (records.len(), kinds),
        (2, BTreeSet::from(["unknown_submission".to_owned(), "unreadable".to_owned()]))
    );
    scene
        .until("message", async || {
            let sql = "SELECT count(*) FROM router.dead_letters WHERE alerted_at IS NULL";
            scene.eyes.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0) == 0
        })
        .await;
    scene.stop().await;
}
