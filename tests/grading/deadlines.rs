//! Deadlines: who is too late, who is not, and who is told.

use maple_router::grading::core::band::Bands;
use maple_router::grading::core::message::{Ask, Status};
use uuid::Uuid;

use crate::harness::{Scene, Telling, document, graded};

#[tokio::test]
async fn the_deadline_runs_where_no_person_has_it_and_is_told_the_grader() {
    let scene = Scene::new().await;
    for state in
        ["PENDING", "QUEUED", "PROCESSING", "ERROR", "RETRYING", "REVIEW_PENDING", "COMPLETED", "FAILED"]
    {
        let (id, attempt) = scene.written("essay", "a text").await;
        scene.put(attempt, state).await;
        let fail = async || scene.store.time_out(attempt, Uuid::new_v4()).await.expect("asked").is_some();
        assert!(!fail().await, "{state}: its deadline has not passed");
        scene.late(attempt).await;
        let timed = !matches!(state, "REVIEW_PENDING" | "COMPLETED" | "FAILED");
        assert_eq!(scene.due().await.contains(&attempt), timed, "{state}");
        assert_eq!(fail().await, timed, "{state}");
        if !timed {
            assert_eq!(scene.state(attempt).await, state);
            continue;
        }
        assert_eq!(
            (scene.state(attempt).await.as_str(), scene.why(attempt).await.as_deref()),
            ("FAILED", Some("timeout")),
            "{state}"
        );
        assert_eq!(scene.entries(attempt).await, ["grading_failed timeout Pending"]);
        assert_eq!(scene.gate(id).await, "waiting", "a person decides");
        let sent =
            scene.count(&format!("mq.grading_request WHERE payload->>'requestId' = '{attempt}'")).await;
        assert_eq!(sent, i64::from(state != "PENDING"), "{state}: whoever knows of it is told");
        if sent == 1 {
            assert_eq!(scene.request_of(attempt).await.ask, Ask::Cancel);
        }
    }
}

#[tokio::test]
async fn nobody_is_too_late_while_a_callback_of_theirs_waits() {
    let scene = Scene::new().await;
    let written = scene.written("essay", "a text").await;
    let attempt = written.1;
    scene.put(attempt, "PROCESSING").await;
    scene.late(attempt).await;
    let job = Telling::of(written);
    let message = Uuid::new_v4();
    scene.send("callback", message, &document(&job.progress((1, 2), Status::Error))).await;
    assert!(scene.due().await.is_empty());
    let failed = scene.store.time_out(attempt, Uuid::new_v4()).await.expect("asked");
    assert!(failed.is_none(), "asked again under the lock");
    let bands = Bands::default();
    let taken = scene.store.take_callback(&scene.callbacks, message, &bands).await;
    taken.expect("taken in").expect("it was there");
    assert_eq!(scene.state(attempt).await, "ERROR");
    assert_eq!(scene.due().await, [attempt], "that was all");
}

/// Point 7: the main side was away over deadlines, and what the grader has done in time is taken in first.
#[tokio::test]
async fn what_came_while_the_main_side_was_away_is_no_timeout() {
    let scene = Scene::new().await;
    let mut attempts = Vec::new();
    for number in 0..12 {
        let written = scene.written("essay", &format!("text {number}")).await;
        scene.put(written.1, "QUEUED").await;
        scene.late(written.1).await;
        let callback = Telling::of(written).completed((1, 2), graded(7.5, 95));
        scene.send("callback", Uuid::new_v4(), &document(&callback)).await;
        attempts.push(written.1);
    }
    let (_, forgotten) = scene.written("essay", "nobody answers").await;
    scene.put(forgotten, "QUEUED").await;
    scene.late(forgotten).await;
    let working = (scene.main_side(), scene.graders_link());
    for attempt in &attempts {
        assert_eq!(scene.until(*attempt, &["COMPLETED", "FAILED"]).await, "COMPLETED");
    }
    scene.until(forgotten, &["FAILED"]).await;
    assert_eq!(scene.count("assessment.events WHERE trigger = 'timeout'").await, 1);
    assert_eq!(scene.count("assessment.results WHERE is_late").await, 0);
    working.0.stop().await;
    working.1.stop().await;
}

#[tokio::test]
async fn a_mail_that_may_go_without_a_grade_goes_when_its_time_is_over() {
    let scene = Scene::new().await;
    let (id, attempt) = scene.written("send", "a text").await;
    scene.put(attempt, "QUEUED").await;
    scene.late(attempt).await;
    scene.store.time_out(attempt, Uuid::new_v4()).await.expect("failed").expect("it was due");
    assert_eq!(
        (scene.gate(id).await, scene.events(id).await),
        ("passed".to_owned(), vec!["graded".to_owned()])
    );
    assert_eq!(
        scene.entries(attempt).await,
        ["grading_failed timeout Pending"],
        "a grade is owed all the same"
    );
}
