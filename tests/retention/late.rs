//! An attachment that is judged infected after its submission was routed opens an entry of the review, which only a person closes.

use crate::harness::{Scene, failed};

#[tokio::test]
async fn a_late_infection_opens_an_entry_and_keeps_the_submission() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    scene.attach(id, "a").await;
    let infect = format!("UPDATE attachments SET clamav_status = 'infected' WHERE submission_id = '{id}'");
    scene.sql(&infect).await;
    let entry = "SELECT string_agg(concat_ws(' ', cause, reason, queue, subject_id, occurrences), ',') FROM router.grey_queue";
    assert_eq!(scene.one::<String>(entry).await, format!("late_infection infected security {id} 1"));
    // Said again, it is the same.
    scene
        .sql(&format!(
            "UPDATE attachments SET clamav_status = 'pending' WHERE submission_id = '{id}'; {infect}"
        ))
        .await;
    assert_eq!(scene.one::<String>(entry).await, format!("late_infection infected security {id} 1"));
    let counts = scene.run().await;
    assert_eq!(counts.kept.get("untold"), Some(&1), "{counts:?}");
    let told =
        r#"routing_result || '{"late_infection": {"for": "t", "confirmed_at": "2026-01-01T00:00:00Z"}}'"#;
    scene.sql(&format!("UPDATE submissions SET routing_result = {told} WHERE id = '{id}'")).await;
    let counts = scene.run().await;
    assert_eq!(counts.kept.get("review"), Some(&1), "{counts:?}");
    // Of one that has not ended, or failed, there is none.
    for (status, ledger) in [("received", "{}".to_owned()), ("failed", failed(true))] {
        let other = scene.received().await;
        scene.attach(other, status).await;
        scene.ended(other, status, &ledger).await;
        scene
            .sql(&format!(
                "UPDATE attachments SET clamav_status = 'infected' WHERE submission_id = '{other}'"
            ))
            .await;
        let late: i64 = scene.one(&format!("SELECT count(*) FROM router.grey_queue WHERE subject_id = '{other}' AND cause = 'late_infection'")).await;
        assert_eq!(late, 0, "{status}");
    }
}

/// A trigger that could not open it: the reconciliation does.
#[tokio::test]
async fn what_no_trigger_opened_is_found() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    scene.attach(id, "a").await;
    scene.infect_unseen(id).await;
    let reconcile = "SELECT router.reconcile_grey_queue('-infinity', true, 10)";
    assert_eq!(scene.one::<i64>(reconcile).await, 1);
    assert_eq!(scene.one::<i64>(reconcile).await, 0);
}
