//! Callbacks come at least once and in any order: each counts once, and what cannot be stops none of the others.

use maple_router::grading::core::band::Band;
use maple_router::grading::core::message::{Callback, ErrorType, Status};
use maple_router::grading::core::result::GradingResult;
use maple_router::grading::queue::Buried;
use maple_router::grading::store::callbacks::TakenIn;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{PLANTED, Scene, Telling, document, essay, graded};

impl Scene {
    /// An attempt in the grader's queue, and whoever tells of its job.
    async fn queued(&self) -> Telling {
        let written = self.written("essay", "a text").await;
        self.put(written.1, "QUEUED").await;
        Telling::of(written)
    }

    /// Fails where an event does not begin where the one before it ended.
    async fn is_one_way(&self, attempt: Uuid, what: &str) {
        let sql = format!(
            "SELECT NOT EXISTS (SELECT FROM (SELECT from_state, lag(to_state) OVER (ORDER BY number) AS was, trigger FROM assessment.events
               WHERE submission_id = '{attempt}') AS e WHERE e.trigger NOT IN ('submit', 'picked-up', 'invalid-job') AND e.was IS DISTINCT FROM e.from_state)"
        );
        assert!(self.one::<bool>(&sql).await, "{what}: {:?}", self.triggers(attempt).await);
    }
}

/// Every order of these.
fn orders<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let led_by = |at: usize| {
        let (mut rest, first) = (of.to_vec(), of[at].clone());
        rest.remove(at);
        orders(&rest).into_iter().map(move |order| [vec![first.clone()], order].concat())
    };
    (0..of.len()).flat_map(led_by).collect()
}

#[tokio::test]
async fn a_story_in_any_order_each_callback_twice_has_one_end() {
    let scene = Scene::new().await;
    type Ending = (fn(Telling) -> Callback, &'static str, &'static [&'static str]);
    let endings: [Ending; 3] = [
        (|job| job.completed((2, 5), graded(7.5, 95)), "COMPLETED", &["ai 7.5 B2", "final 7.5 B2"]),
        (|job| job.completed((2, 5), graded(7.5, 72)), "REVIEW_PENDING", &["ai 7.5 B2"]),
        (|job| job.error((2, 5), ErrorType::Model), "FAILED", &[]),
    ];
    for (end, state, results) in endings {
        for order in orders(&[0, 1, 2, 3]) {
            let job = scene.queued().await;
            let story = [
                job.progress((1, 1), Status::Processing),
                job.progress((1, 2), Status::Error),
                job.progress((2, 4), Status::Processing),
                end(job),
            ];
            for at in &order {
                for _ in 0..2 {
                    scene.take(&story[*at]).await;
                }
            }
            let what = format!("{state}, in the order {order:?}");
            assert_eq!(scene.state(job.request).await, state, "{what}");
            assert_eq!(scene.results(job.request).await, results, "{what}");
            scene.is_one_way(job.request, &what).await;
            let entries = scene.entries(job.request).await;
            assert_eq!(entries.len(), usize::from(state != "COMPLETED"), "{what}: {entries:?}");
            assert_eq!(scene.events(job.submission).await.len(), usize::from(state == "COMPLETED"), "{what}");
        }
    }
    assert_eq!((scene.count("mq.grading_callback").await, scene.dead().await.len()), (0, 0));
}

#[tokio::test]
async fn progress_that_is_older_than_what_is_known_says_nothing() {
    let scene = Scene::new().await;
    let job = scene.queued().await;
    scene.take(&job.progress((2, 6), Status::Retrying)).await;
    assert_eq!(scene.state(job.request).await, "RETRYING");
    for at in [(1, 9), (2, 5)] {
        let taken = scene.take(&job.progress(at, Status::Processing)).await;
        assert!(matches!(taken, TakenIn::Nothing), "{at:?}: {taken:?}");
    }
    assert_eq!(scene.state(job.request).await, "RETRYING");
    scene.take(&job.progress((3, 7), Status::Retrying)).await;
    let heard: String = scene
        .one(&format!("SELECT try || ' ' || seq FROM assessment.submissions WHERE id = '{}'", job.request))
        .await;
    assert_eq!(heard, "3 7", "newer, and the state is the same");
    assert_eq!(scene.triggers(job.request).await, ["submit", "picked-up", "try-failed", "retry"]);
    let skipped = scene
        .count(&format!("assessment.events WHERE submission_id = '{}' AND metadata ? 'skipped'", job.request))
        .await;
    assert_eq!(skipped, 2, "of which nobody was told");
}

#[tokio::test]
async fn what_comes_after_a_failure_is_kept_as_late_and_counts_nowhere() {
    let scene = Scene::new().await;
    let job = scene.queued().await;
    scene.late(job.request).await;
    assert!(scene.store.time_out(job.request, Uuid::new_v4()).await.expect("failed").is_some());
    for progress in [job.progress((1, 1), Status::Processing), job.error((1, 3), ErrorType::Model)] {
        assert!(matches!(scene.take(&progress).await, TakenIn::Nothing));
    }
    let late = job.completed((1, 2), graded(7.5, 95));
    assert!(matches!(scene.take(&late).await, TakenIn::Late(_)));
    assert!(matches!(scene.take(&late).await, TakenIn::Nothing), "sent twice, it is one event");
    assert_eq!(scene.state(job.request).await, "FAILED");
    assert_eq!(scene.results(job.request).await, ["ai 7.5 B2 late"]);
    assert_eq!(scene.result(job.request, "ai").await["isLate"], json!(true), "the document says so itself");
    assert_eq!(scene.count("assessment.progress").await, 0);
    assert_eq!(scene.triggers(job.request).await, ["submit", "timeout", "late-result"]);
    assert_eq!(scene.gate(job.submission).await, "waiting");
    assert!(scene.events(job.submission).await.is_empty());
}

#[tokio::test]
async fn another_result_of_the_same_try_is_kept_beside_the_first_and_used_by_nobody() {
    let scene = Scene::new().await;
    let job = scene.queued().await;
    scene.take(&job.completed((1, 2), graded(7.5, 95))).await;
    let twin = Telling { job: Uuid::new_v4(), ..job };
    assert!(
        matches!(scene.take(&twin.completed((1, 2), graded(7.5, 95))).await, TakenIn::Nothing),
        "the same"
    );
    for _ in 0..2 {
        scene.take(&twin.completed((1, 3), graded(3.0, 95))).await;
    }
    assert_eq!(scene.results(job.request).await, ["ai 7.5 B2", "final 7.5 B2", "ai 3.0 A2 twin"]);
    assert_eq!(scene.state(job.request).await, "COMPLETED");
    assert_eq!(scene.triggers(job.request).await.last().map(String::as_str), Some("duplicate-result"));
    assert_eq!(scene.one::<String>("SELECT score || ' ' || band FROM assessment.progress").await, "7.5 B2");
}

#[tokio::test]
async fn what_cannot_be_is_buried_and_a_person_is_told() {
    let scene = Scene::new().await;
    let job = scene.queued().await;
    let good = document(&job.completed((1, 2), graded(7.5, 95)));
    let but = |path: &[&str], value: serde_json::Value| {
        let mut spoilt = good.clone();
        *path.iter().fold(&mut spoilt, |at, key| &mut at[*key]) = value;
        spoilt
    };
    let result = |change: fn(&mut GradingResult)| {
        let mut spoilt = graded(7.5, 95);
        change(&mut spoilt);
        document(&job.completed((1, 2), spoilt))
    };
    let (stranger, elsewhere) = (Uuid::new_v4(), Uuid::new_v4());
    let pending = scene.written("essay", "not sent yet").await;
    for (message, why, what) in [
        (json!("odd"), Buried::Unreadable, "no object"),
        (json!({}), Buried::Unreadable, "nothing in it"),
        (but(&["data", "result", "overallScore"], json!(11)), Buried::Unreadable, "a score of 11"),
        (but(&["data", "result", "more"], json!(1)), Buried::Unreadable, "a member too many"),
        (but(&["eventId"], json!(Uuid::new_v4())), Buried::Unreadable, "an id that is not its own"),
        (but(&["try"], json!(3)), Buried::Unreadable, "another try than its id says"),
        (
            document(&Telling { request: stranger, ..job }.progress((1, 1), Status::Processing)),
            Buried::Unknown,
            "a stranger's",
        ),
        (
            document(&Telling { submission: elsewhere, ..job }.progress((1, 1), Status::Processing)),
            Buried::Impossible,
            "another submission's",
        ),
        (result(|it| it.band = Band::C1), Buried::Impossible, "a band that is not the score's"),
        (result(|it| it.confidence = 101), Buried::Impossible, "more than sure"),
        (result(|it| it.review_required = true), Buried::Impossible, "a review without a priority"),
        (result(|it| it.criteria_scores.truncate(3)), Buried::Impossible, "a criterion is missing"),
        (
            document(&Telling::of(pending).completed((1, 2), graded(7.5, 95))),
            Buried::Impossible,
            "it was never sent",
        ),
    ] {
        let taken = scene.take_of(&message).await;
        let TakenIn::Buried(found, detail) = &taken else { panic!("{what}: {taken:?}") };
        assert_eq!((*found, detail.is_empty()), (why, false), "{what}: {detail}");
    }
    assert_eq!(scene.dead().await.len(), 13);
    assert_eq!(
        scene.count("router.grey_queue WHERE cause = 'grading_message' AND queue = 'operations'").await,
        13
    );
    assert_eq!(
        (scene.state(job.request).await.as_str(), scene.results(job.request).await.len()),
        ("QUEUED", 0)
    );
    assert_eq!(scene.count("assessment.callbacks").await, 1, "that of an attempt that was never sent alone");
    assert!(
        matches!(scene.take_of(&good).await, TakenIn::Moved { .. }),
        "and none of them has cost it its end"
    );
}

#[tokio::test]
async fn nothing_is_kept_of_a_submission_that_was_emptied() {
    let scene = Scene::new().await;
    let written = scene.written("essay", &essay("")).await;
    scene.put(written.1, "QUEUED").await;
    let job = Telling::of(written);
    scene.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{}'", written.0)).await;
    let mut result = graded(7.5, 72);
    result.criteria_scores[0].evidence = vec![format!("My younger sister had {PLANTED}")];
    assert!(matches!(scene.take(&job.completed((1, 2), result)).await, TakenIn::Nothing));
    // Nor of what nobody could read.
    let mut odd = document(&job.progress((1, 1), Status::Processing));
    odd["more"] = json!(PLANTED);
    assert!(matches!(scene.take_of(&odd).await, TakenIn::Nothing));
    assert_eq!(scene.results(job.request).await.len(), 0);
    assert_eq!(scene.count("mq.grading_callback").await + scene.count("mq.grading_dlq").await, 0);
    assert!(scene.entries(job.request).await.is_empty(), "nobody is to review what is gone");
    assert_eq!(scene.state(job.request).await, "QUEUED", "closed without a transition");
    let closed = format!("assessment.submissions WHERE id = '{}' AND closed_at IS NOT NULL", job.request);
    assert_eq!(scene.count(&closed).await, 1);
}

#[tokio::test]
async fn a_message_that_the_database_refuses_is_put_back_and_buried_and_holds_up_nobody() {
    let scene = Scene::new().await;
    let (bad, good) = (scene.queued().await, scene.queued().await);
    scene
        .sql(&format!(
            "ALTER TABLE assessment.results ADD CONSTRAINT odd CHECK (request_id <> '{}') NOT VALID",
            bad.request
        ))
        .await;
    for job in [bad, good] {
        scene.send("callback", Uuid::new_v4(), &document(&job.completed((1, 2), graded(7.5, 95)))).await;
    }
    let working = scene.main_side();
    scene.until(good.request, &["COMPLETED"]).await;
    scene.until_so("EXISTS (SELECT FROM mq.grading_callback WHERE tries > 0)").await;
    assert!(scene.dead().await.is_empty(), "it may be the database's own trouble");
    // Its pauses double; here they are over at once.
    let began = std::time::Instant::now();
    while scene.dead().await.is_empty() {
        assert!(began.elapsed() < crate::harness::PATIENCE);
        scene.sql("UPDATE mq.grading_callback SET available_at = now()").await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(scene.dead().await, ["callback refused"]);
    let detail: String = scene.one("SELECT detail FROM mq.grading_dlq").await;
    assert_eq!(detail, "refused 5 times", "what the database says may repeat what stands there");
    assert_eq!(scene.state(bad.request).await, "QUEUED");
    working.stop().await;
}
