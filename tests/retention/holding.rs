//! Holds beat everything, from the moment at which placing one has answered.

use maple_router::retention::store::holds::Scope;
use maple_router::retention::store::submissions::Authority;

use crate::harness::Scene;

#[tokio::test]
async fn whatever_a_hold_names_stays_until_it_is_lifted() {
    let scene = Scene::new().await;
    let old = scene.routed().await;
    let blob = scene.attach(old, "a").await;
    for (scope, value) in
        [(Scope::All, String::new()), (Scope::Form, "f".to_owned()), (Scope::Submission, old.to_string())]
    {
        let hold = scene.daemon.place_hold(scope, &value, "a case", "zoe").await.expect("placed");
        for authority in Authority::ALL {
            let purged = scene.store.purge(&[old], *authority, "gc", None).await.expect("answered");
            assert_eq!(purged[0].why.as_deref(), Some("held"), "{scope} {authority}");
        }
        assert!(scene.daemon.release_hold(hold, "zoe", "over").await.expect("lifted"));
        assert!(!scene.daemon.release_hold(hold, "zoe", "over").await.expect("answered"), "once");
    }
    // A blob without a reference, by its own id, by its form, and by everything.
    scene.sql(&format!("DELETE FROM attachments WHERE submission_id = '{old}'")).await;
    scene.sql("UPDATE content.blobs SET deadline = now() - interval '1 s'").await;
    for (scope, value) in
        [(Scope::Blob, blob.to_string()), (Scope::Form, "f".to_owned()), (Scope::All, String::new())]
    {
        let hold = scene.daemon.place_hold(scope, &value, "a case", "zoe").await.expect("placed");
        let counts = scene.run().await;
        assert_eq!((counts.marked, counts.deleted), (0, 0), "{scope}");
        assert!(scene.daemon.release_hold(hold, "zoe", "over").await.expect("lifted"));
    }
    assert_eq!(scene.run().await.deleted, 1);
}

/// A blob that was swept, and whose object is not gone yet: the hold keeps the object.
#[tokio::test]
async fn a_hold_keeps_what_is_deleted_and_not_gone_yet() {
    use devkit::google::{Act, Call, Rule, Stage};
    let scene = Scene::new().await;
    let old = scene.routed().await;
    scene.attach(old, "a").await;
    scene.google.rule(Rule::at(Stage::Before).call(Call::Delete).times(1).act(Act::Status(503)));
    drop(scene.collector().run(&tokio_util::sync::CancellationToken::new()).await);
    let hold = scene.daemon.place_hold(Scope::Form, "f", "a case", "zoe").await.expect("placed");
    scene.run().await;
    assert!(scene.is_there("a"));
    assert!(scene.daemon.release_hold(hold, "zoe", "over").await.expect("lifted"));
    scene.run().await;
    assert!(!scene.is_there("a"));
}

/// A hold that is placed while an erasure runs waits for its end, and answers when nothing more can go.
#[tokio::test]
async fn placing_a_hold_waits_for_removals_under_way() {
    let scene = Scene::new().await;
    let (gone, kept) = (scene.routed().await, scene.routed().await);
    let mut collector = scene.db.client_as("maple_gc").await.expect("the collector");
    let tx = collector.transaction().await.expect("begun");
    tx.query("SELECT * FROM content.purge(ARRAY[$1::uuid], 'erasure', 'gc', NULL)", &[&gone])
        .await
        .expect("emptied");
    let daemon = scene.daemon.clone();
    let placing = tokio::spawn(async move { daemon.place_hold(Scope::All, "", "a case", "zoe").await });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let began = std::time::Instant::now();
    while scene.one::<i64>(waits).await == 0 {
        assert!(began.elapsed() < crate::harness::PATIENCE, "placing it waits");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!placing.is_finished());
    tx.commit().await.expect("committed");
    placing.await.expect("no panic").expect("placed");
    let purged = scene.store.purge(&[kept], Authority::Erasure, "gc", None).await.expect("answered");
    assert_eq!(purged[0].why.as_deref(), Some("held"));
    assert_eq!(scene.status(gone).await, "purged");
}
