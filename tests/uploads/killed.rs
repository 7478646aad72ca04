//! A worker that is killed at each point of a commit, and one that comes back too late: what is there has a row, and what follows is
//! what would have followed.

use std::collections::BTreeSet;
use std::time::Duration;

use devkit::google::{Act, Call, Rule, Stage};
use maple_router::kernel::rows::Kinds;
use maple_router::uploads::table::State;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{CONTENT, PART, PATIENCE, STAGING, Scene, Session, text};

/// Calls of a commit, in their order.
const CALLS: [Call; 4] = [Call::Complete, Call::Metadata, Call::Read, Call::Rewrite];

impl Scene {
    /// A session whose parts are all there, of an owner of its own.
    async fn complete_session(&self, owner: &str, content: &[u8]) -> Session {
        let session = self.session(content, json!({"owner": owner})).await;
        let parts = content.len().div_ceil(PART) as u64;
        self.send(&session, &(1..=parts).collect::<Vec<_>>(), content).await;
        assert_eq!(self.complete(&session, content).await.status, 202);
        session
    }

    async fn leases_run_out(&self) {
        let sql =
            "UPDATE content.uploads SET leased_until = now() - interval '1 s' WHERE lease_token IS NOT NULL";
        self.eyes.batch_execute(sql).await.expect("over");
        self.commands.store.wake(100).await.expect("woken");
    }

    /// Objects that no row names.
    async fn unknown(&self) -> BTreeSet<String> {
        let sql = "SELECT bucket || '/' || object FROM content.blobs UNION ALL SELECT bucket || '/' || object FROM content.staging";
        let known: BTreeSet<String> =
            self.eyes.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect();
        let named = |bucket: &str| {
            let objects = self.google.objects(bucket);
            objects.into_iter().map(|object| format!("{bucket}/{}", object.name)).collect::<Vec<_>>()
        };
        let there: BTreeSet<String> = named(STAGING).into_iter().chain(named(CONTENT)).collect();
        &there - &known
    }
}

#[tokio::test]
async fn killed_at_each_call_before_and_after_its_effect_a_commit_comes_to_the_same_end() {
    let scene = Scene::new().await;
    let content = text(PART + 1000);
    let mut points = 0;
    for call in CALLS {
        for stage in [Stage::Before, Stage::After] {
            let point = format!("{call:?} {stage:?}");
            let session = scene.complete_session(&point, &content).await;
            let trapped = scene.google.trap(Rule::at(stage).call(call).times(1));
            let committing = scene.committing();
            let hit = async {
                while !trapped.is_hit() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, hit).await.unwrap_or_else(|_| panic!("{point} is reached"));
            drop(committing);
            trapped.cut();
            assert_eq!(scene.unknown().await, BTreeSet::new(), "{point}: dead, and every object has a row");
            scene.leases_run_out().await;
            scene.google.clear_rules();
            let _committing = scene.committing();
            let shown = scene.ended(&session).await;
            assert_eq!(
                (shown["state"].as_str(), shown["verdict"].as_str()),
                (Some("committed"), Some("clean")),
                "{point}: {shown}"
            );
            assert_eq!(scene.unknown().await, BTreeSet::new(), "{point}");
            points += 1;
        }
    }
    assert_eq!(points, 8);
    scene.upkeep().pass().await.expect("a pass");
    assert_eq!(scene.kept(), (0, 0, points), "one object for each, and nothing else");
}

#[tokio::test]
async fn an_upload_that_is_ended_while_it_is_kept_leaves_no_object_without_a_row() {
    let scene = Scene::new().await;
    let content = text(1000);
    for (call, stage) in
        [(Call::Read, Stage::After), (Call::Rewrite, Stage::Before), (Call::Rewrite, Stage::After)]
    {
        let point = format!("{call:?} {stage:?}");
        let session = scene.complete_session(&point, &content).await;
        let trapped = scene.google.trap(Rule::at(stage).call(call).times(1));
        let committing = scene.committing();
        let hit = async {
            while !trapped.is_hit() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, hit).await.unwrap_or_else(|_| panic!("{point} is reached"));
        assert_eq!(scene.of(&session, Method::DELETE, "", None).await.status, 204, "{point}");
        trapped.release();
        // The worker goes on with a lease that is void, and meets the fence.
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(committing);
        scene.google.clear_rules();
        assert_eq!(scene.unknown().await, BTreeSet::new(), "{point}");
        let shown = scene.of(&session, Method::GET, "", None).await;
        assert_eq!(shown.body["state"], "aborted", "{point}");
        let blobs: i64 = scene.one("SELECT count(*) FROM content.blobs").await;
        assert_eq!(blobs, 0, "{point}");
    }
    scene.upkeep().pass().await.expect("a pass");
    assert_eq!(scene.google.objects(STAGING).len(), 0);
    let left: i64 =
        scene.one("SELECT count(*) FROM content.staging WHERE role = 'blob' AND due_at IS NOT NULL").await;
    assert_eq!(
        left as usize,
        scene.google.objects(CONTENT).len(),
        "final objects that became no blob are the collector's, by their rows"
    );
}

#[tokio::test]
async fn bytes_that_come_other_than_the_store_has_them_are_read_again() {
    let scene = Scene::new().await;
    let content = text(1000);
    for act in [Act::Flipped, Act::Truncated] {
        let session = scene.complete_session(&format!("{act:?}"), &content).await;
        let reads = scene.google.calls(Call::Read);
        // Twice, since a reading that breaks off is taken up once by itself.
        scene.google.rule(Rule::at(Stage::Before).call(Call::Read).times(2).act(act));
        let _committing = scene.committing();
        let shown = scene.ended(&session).await;
        assert_eq!(
            (shown["state"].as_str(), shown["verdict"].as_str()),
            (Some("committed"), Some("clean")),
            "{act:?}: {shown}"
        );
        assert!(scene.google.calls(Call::Read) > reads + 2, "{act:?}: what came was not believed");
        scene.google.clear_rules();
    }
}

#[tokio::test]
async fn a_stranger_under_the_final_name_is_not_overwritten_and_nothing_is_committed() {
    let scene = Scene::new().await;
    let content = text(1000);
    let session = scene.complete_session("stranger", &content).await;
    let planned: Uuid = scene.one("SELECT planned_blob FROM content.uploads").await;
    let object = format!("blobs/contact/{}", planned.simple());
    scene.google.put_object(CONTENT, &object, "text/plain", "somebody else's");
    let committing = scene.committing();
    let tried_again = async {
        while scene.one::<i32>("SELECT claims FROM content.uploads").await < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, tried_again).await.expect("it is tried again");
    drop(committing);
    assert_eq!(scene.google.object_bytes(CONTENT, &object).expect("there"), b"somebody else's");
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.blobs").await, 0);
    scene.leases_run_out().await;
    let late = "UPDATE content.uploads SET expires_at = now() - interval '1 s'";
    scene.eyes.batch_execute(late).await.expect("late");
    scene.upkeep().pass().await.expect("a pass");
    let shown = scene.of(&session, Method::GET, "", None).await;
    assert_eq!(shown.body["problem"]["type"], "urn:maple-router:problem:expired", "{}", shown.text);
    assert_eq!(scene.google.object_bytes(CONTENT, &object).expect("there"), b"somebody else's");
}

#[tokio::test]
async fn a_worker_that_comes_after_the_removal_makes_no_object_again() {
    let scene = Scene::new().await;
    let content = text(1000);
    let session = scene.complete_session("late", &content).await;
    let (kinds, lease) = (Kinds::AllBut(Vec::new()), Duration::from_secs(600));
    let taken = scene
        .commands
        .store
        .claim(State::PendingCommit, &kinds, 1, lease, Uuid::from_u128(9))
        .await
        .expect("claimed");
    let [row] = &taken[..] else { panic!("one is taken") };
    assert_eq!(scene.of(&session, Method::DELETE, "", None).await.status, 204);
    scene.upkeep().pass().await.expect("removed");
    assert_eq!(scene.kept(), (0, 0, 0));
    use maple_router::kernel::jobs::works::Work as _;
    let ending = scene.commit_work().run(row).await;
    assert_eq!(scene.kept(), (0, 0, 0), "{ending:?}");
    assert_eq!(scene.unknown().await, BTreeSet::new());
}
