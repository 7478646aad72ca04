//! SIGKILL around the commits that open an entry of the review queue, and around those of a remedy's course: one entry, one
//! remedy, each mail once, and a history without a gap.

use devkit::postgres::Trap;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, Stage};
use devkit::trap::Fate;
use futures::StreamExt as _;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::{self, PATIENCE, Scene};

/// Scenes that run side by side.
const SIDE_BY_SIDE: usize = 4;

/// The policy replays what is exhausted, as soon as it is seen.
const POLICY: &str = r#"
[routing]
max_attempts = 1
sweep_interval = "1s"
[grey_queue]
auto = ["exhausted"]
"#;

async fn scene(extra: &'static str) -> Scene {
    let stage = Stage::start(harness::options(Source::Postgres)).await.expect("a stage");
    Scene::with(stage, 1, extra).await
}

/// The fates of a commit whose client is killed: lost, arrived after the end, arrived with its answer lost.
fn around(commit: impl Fn(bool) -> Trap) -> [(Trap, Fate); 3] {
    [(commit(false), Fate::Cut), (commit(false), Fate::Release), (commit(true), Fate::Cut)]
}

#[tokio::test]
async fn a_failure_has_one_entry_wherever_its_router_dies() {
    let points =
        around(|answered| if answered { Trap::CommitAnswered("record") } else { Trap::CommitSent("record") });
    // The second record is the one that ends a submission of two actions.
    let points = points.into_iter().flat_map(|point| [(point, 1), (point, 2)]);
    futures::stream::iter(points)
        .for_each_concurrent(SIDE_BY_SIDE, |((trap, fate), nth)| async move {
            let point = format!("{trap:?}, {nth}, {fate:?}");
            let mut scene = scene("").await;
            scene.stage.relay.rule(Rule::at(At::Rcpt).reply("550 5.1.1 no such user"));
            let trapped = scene.daemons[0].wire.trap(trap, nth);
            let id = scene.submit().await;
            trapped
                .hit(PATIENCE)
                .await
                .unwrap_or_else(|nobody| panic!("{point}: {nobody}\n{}", scene.logs()));
            scene.kill(0).await;
            crate::points::meet(trapped, fate);
            scene.one_more().await;
            let row = scene.ended(id).await;
            assert_eq!(row.status, "failed", "{point}: {row:?}");
            let [entry] =
                entries(&scene, id).await.try_into().unwrap_or_else(|all| panic!("{point}: {all:?}"));
            assert_eq!((entry.state.as_str(), entry.reason.as_str()), ("Pending", "refused"), "{point}");
            assert_eq!(entry.chain, ["1 open Pending"], "{point}");
            assert_eq!(entry.keys, [token(&row.ledger)], "{point}: known by the failure's token");
            scene.daemons.remove(0);
            scene.stop().await;
        })
        .await;
}

#[tokio::test]
async fn a_remedy_is_carried_out_once_wherever_its_router_dies() {
    let points = [
        ("grey_queue_claim", 1),
        ("grey_queue_remedy", 1),
        ("grey_queue_settle", 1),
        ("grey_queue_settle", 2),
    ];
    let points = points.into_iter().flat_map(|(name, nth)| {
        around(|answered| if answered { Trap::TakenAnswered(name) } else { Trap::TakenSent(name) })
            .map(|(trap, fate)| (trap, fate, nth))
    });
    futures::stream::iter(points)
        .for_each_concurrent(SIDE_BY_SIDE, |(trap, fate, nth)| async move {
            let point = format!("{trap:?}, {nth}, {fate:?}");
            let mut scene = scene(POLICY).await;
            scene.stage.relay.rule(Rule::at(At::Rcpt).reply("451 4.3.0 later"));
            let trapped = scene.daemons[0].wire.trap(trap, nth);
            let id = scene.submit().await;
            scene.await_row(id, "failure", |row| row.status == "failed").await;
            scene.stage.relay.clear_rules();
            trapped
                .hit(PATIENCE)
                .await
                .unwrap_or_else(|nobody| panic!("{point}: {nobody}\n{}", scene.logs()));
            scene.kill(0).await;
            crate::points::meet(trapped, fate);
            scene.one_more().await;
            scene.until("Resolved", async || passes(&scene, id).await == "Resolved").await;

            let row = scene.row(id).await;
            let context = || format!("{point}: {row:?}\n{}", scene.logs());
            assert_eq!(row.status, "routed", "{}", context());
            let [entry] =
                entries(&scene, id).await.try_into().unwrap_or_else(|all| panic!("{point}: {all:?}"));
            let expected = ["1 open Pending", "2 start Processing", "3 succeed Resolved"];
            assert_eq!(entry.chain, expected, "{}", context());
            let overrides = row.ledger["overrides"].as_array().expect("what was carried out");
            let reviews: Vec<&Value> = overrides.iter().map(|one| &one["review"]).collect();
            assert_eq!(reviews, [&Value::from(format!("{}:2", entry.id))], "{}", context());
            let once = ["a@x.test", "b@x.test", "c@x.test"].map(|to| (to.to_owned(), 1));
            assert_eq!(scene.copies(id), once.into(), "{}", context());
            scene.daemons.remove(0);
            scene.stop().await;
        })
        .await;
}

/// The leases of the review's jobs run out, as they do in two minutes; says how the entry stands.
async fn passes(scene: &Scene, id: Uuid) -> String {
    let sql = "UPDATE router.grey_queue SET available_at = now(), leased_until = leased_until - interval '1 day'
        WHERE subject_id = $1 AND state IN ('Processing', 'Retrying') AND leased_until < now() + interval '115 s'";
    scene.eyes.execute(sql, &[&id]).await.expect("time passes");
    entries(scene, id).await.pop().map(|entry| entry.state).unwrap_or_default()
}

#[derive(Debug)]
struct Entry {
    id: Uuid,
    state: String,
    reason: String,
    /// Its history: version, command, state.
    chain: Vec<String>,
    /// Its occurrences.
    keys: Vec<String>,
}

async fn entries(scene: &Scene, subject: Uuid) -> Vec<Entry> {
    let sql = "SELECT e.id, e.state, e.reason,
        ARRAY(SELECT t.version || ' ' || t.command || ' ' || t.to_state FROM router.grey_queue_state_transitions t
            WHERE t.entry_id = e.id ORDER BY t.version) AS chain,
        ARRAY(SELECT o.key FROM router.grey_queue_occurrences o WHERE o.entry_id = e.id ORDER BY o.key) AS keys
        FROM router.grey_queue e WHERE e.subject_id = $1 ORDER BY e.opened_at";
    let rows = scene.eyes.query(sql, &[&subject]).await.expect("the entries");
    let entry = |row: &tokio_postgres::Row| Entry {
        id: row.get("id"),
        state: row.get("state"),
        reason: row.get("reason"),
        chain: row.get("chain"),
        keys: row.get("keys"),
    };
    rows.iter().map(entry).collect()
}

fn token(ledger: &Value) -> String {
    ledger["finished"]["token"].as_str().expect("a token").to_owned()
}
