//! Another run: where the gate would be shut for ever, and where a person asks for one; what it leaves behind.

use maple_router::screening::store::people::Rescreened;
use uuid::Uuid;

use crate::harness::Scene;

async fn rescreened(scene: &Scene, submission: Uuid) -> (Rescreened, Option<Uuid>) {
    let answer = scene.daemon.pool().transaction("screening_rescreen", async |tx| {
        scene.daemon.rescreen(&tx, submission, ("operator:x", "because")).await
    });
    answer.await.expect("answered")
}

#[tokio::test]
async fn who_is_routed_again_after_an_infection_is_screened_anew() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let old = scene.run_of(on).await;
    scene.sql(&format!("UPDATE submissions SET status = 'failed' WHERE id = '{on}'")).await;
    assert_eq!(scene.store.births(100).await.expect("a pass"), 0, "it has failed");
    scene.sql(&format!("UPDATE submissions SET status = 'received' WHERE id = '{on}'")).await;
    assert_eq!(scene.gate(on).await, "waiting", "its run is closed");
    scene.store.births(100).await.expect("a pass");
    let fresh = scene.run_of(on).await;
    assert!(fresh != old, "another run");
    assert_eq!(scene.state(fresh).await, "RECEIVED");
    assert_eq!(scene.store.births(100).await.expect("a pass"), 0, "once");
    scene.put(fresh, "PUBLISHED").await;
    assert_eq!(scene.gate(on).await, "passed");
}

#[tokio::test]
async fn a_shadow_of_what_is_to_be_held_is_followed_by_a_run_that_counts() {
    let scene = Scene::new().await;
    // Created while the form was being enforced: born in its shadow.
    let shadow = scene.submit("shadow", "a").await;
    scene
        .sql("UPDATE screening.forms SET enforced_since = now() - interval '1 hour' WHERE form_id = 'shadow'")
        .await;
    assert_eq!(scene.gate(shadow).await, "waiting");
    assert_eq!(scene.daemon.births(100).await.expect("a pass"), 1);
    let enforced: bool = scene
        .one(&format!("SELECT enforced FROM screening.submissions WHERE subject = '{shadow}' AND current"))
        .await;
    assert!(enforced);
}

#[tokio::test]
async fn what_changed_in_review_may_be_screened_again_and_its_entry_ends() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let run = scene.run_of(on).await;
    scene.put(run, "TIER2_SCANNING").await;
    scene.sql(&format!("UPDATE screening.submissions SET state = 'NEEDS_REVIEW' WHERE id = '{run}'")).await;
    assert_eq!(rescreened(&scene, on).await, (Rescreened::Open, Some(run)), "a person decides about it");
    scene.sql(&format!("UPDATE submission_fields SET field_value = 'x' WHERE submission_id = '{on}'")).await;
    let (answer, fresh) = rescreened(&scene, on).await;
    assert_eq!(answer, Rescreened::Done);
    assert_eq!(scene.run_of(on).await, fresh.expect("a run"));
    let closed: String =
        scene.one(&format!("SELECT closed_why FROM screening.submissions WHERE id = '{run}'")).await;
    assert_eq!(closed, "superseded");
    crate::people::upkeep(&scene).once().await.expect("a pass");
    assert_eq!(
        scene.entries(run).await,
        ["screening unavailable Expired"],
        "nobody can decide about it any more"
    );
}

#[tokio::test]
async fn a_backend_that_prepares_its_transaction_finalizes_a_screened_form() {
    let scene = Scene::new().await;
    let (id, backend) = (Uuid::new_v4(), scene.db.client_as("forms_app").await.expect("a connection"));
    let prepared = backend
        .batch_execute(&format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'on'); PREPARE TRANSACTION '{id}'"
        ))
        .await;
    prepared.expect("prepared");
    backend.batch_execute(&format!("COMMIT PREPARED '{id}'")).await.expect("committed");
    let run = scene.run_of(id).await;
    assert_eq!(scene.state(run).await, "RECEIVED");
}

#[tokio::test]
async fn a_backend_that_is_slow_to_commit_holds_no_run() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let run = scene.run_of(on).await;
    let slow = scene.db.superuser().await.expect("a connection");
    slow.batch_execute(&format!("BEGIN; SELECT router.note_readiness('{on}', 'scan_clean', false)"))
        .await
        .expect("noted");
    let settles = format!(
        "SET lock_timeout = '2s'; UPDATE screening.submissions SET version = version + 1 WHERE id = '{run}'; RESET lock_timeout"
    );
    scene.sql(&settles).await;
    slow.batch_execute("COMMIT").await.expect("committed");
}

#[tokio::test]
async fn two_who_see_the_same_gap_make_one_run() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    scene.sql(&format!("UPDATE submissions SET status = 'failed' WHERE id = '{on}'")).await;
    scene.sql("UPDATE screening.forms SET force_review = true WHERE form_id = 'on'").await;
    scene.sql(&format!("SET session_replication_role = replica; UPDATE submissions SET status = 'received' WHERE id = '{on}'; SET session_replication_role = origin")).await;
    let first = scene.db.superuser().await.expect("a connection");
    first.batch_execute("BEGIN; SELECT screening.births(10)").await.expect("a pass");
    let second = scene.daemon.clone();
    let waits = tokio::spawn(async move { second.births(10).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    first.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(waits.await.expect("it ends").expect("a pass"), 0, "the first has made it");
    let runs: i64 =
        scene.one(&format!("SELECT count(*) FROM screening.submissions WHERE subject = '{on}'")).await;
    assert_eq!(runs, 2);
    let forced: bool = scene
        .one(&format!("SELECT force_review FROM screening.submissions WHERE subject = '{on}' AND current"))
        .await;
    assert!(forced, "as the form wants it now");
}
