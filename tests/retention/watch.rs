//! The daemon's look: people are notified of a run that failed, of none for days, and of objects that somebody else removed.

use std::sync::Arc;

use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;
use maple_router::retention::watch::RetentionWatch;

use crate::harness::Scene;

#[tokio::test]
async fn people_are_notified_and_told_when_it_is_over() {
    let scene = Scene::new().await;
    let (incidents, open) = Incidents::new();
    let watch = RetentionWatch { store: scene.daemon.clone(), clock: Arc::new(SystemClock), incidents };
    let mut seen = None;
    let open = || {
        let mut keys: Vec<&str> = open.borrow().keys().map(|key| key.label()).collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    watch.look(&mut seen).await.expect("a look");
    assert_eq!(open(), "");
    // Something waits to be collected, and nobody collects.
    let old = scene.routed().await;
    let blob = scene.attach(old, "a").await;
    scene.sql(&format!("DELETE FROM attachments WHERE submission_id = '{old}'; UPDATE content.blobs SET deadline = now() - interval '4 days'")).await;
    watch.look(&mut seen).await.expect("a look");
    assert_eq!(open(), "gc_overdue");
    scene.sql("INSERT INTO content.gc_runs (actor, lease_token, leased_until, state, ended_at, trouble) VALUES ('x', gen_random_uuid(), now(), 'failed', now(), 'its lease ran out')").await;
    watch.look(&mut seen).await.expect("a look");
    assert_eq!(open(), "gc_failed", "there is a run, and it failed");
    scene.sql(&format!("UPDATE content.blobs SET generation = 7 WHERE id = '{blob}'")).await;
    let counts = scene.run().await;
    assert_eq!(counts.replaced, 1);
    watch.look(&mut seen).await.expect("a look");
    assert_eq!(open(), "gc_objects_lost");
    assert_eq!(seen, Some(2));
    scene.sql("UPDATE content.blobs SET gone_at = now() - interval '2 days' WHERE gone IS NOT NULL").await;
    scene.sql("UPDATE content.gc_runs SET ended_at = now() - interval '4 days'").await;
    watch.look(&mut seen).await.expect("a look");
    assert_eq!(open(), "gc_overdue");
}
