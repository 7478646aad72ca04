//! What people do: a review and its merge, another attempt, a mail let go, and the entries of the review desk about them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_router::grading::core::band::Bands;
use maple_router::grading::core::merge::Merge;
use maple_router::grading::core::message::ErrorType;
use maple_router::grading::core::skill::Skill;
use maple_router::grading::review::{PersonsReview, reviewed};
use maple_router::grading::store::people::{Regraded, Released, Reviewed};
use maple_router::grading::subject::{AttemptSubject, FailedSubject, MessageSubject};
use maple_router::grey_queue::commands::{Answer, Commands, People, Subjects};
use maple_router::grey_queue::decide::{Ask, Person, Refusal, Verb};
use maple_router::grey_queue::store::GreyQueueStore;
use maple_router::grey_queue::table::{ADMIN, SECURITY};
use maple_router::grey_queue::upkeep::{Bounds, Upkeep};
use maple_router::kernel::Who;
use maple_router::kernel::subject::{Evidence, Looked, Remedy, Subject};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Scene, Telling, graded, pool};

#[derive(Debug)]
struct Everybody;

impl People for Everybody {
    fn role_of(&self, _: &str) -> Option<Who> {
        Some(SECURITY)
    }
}

fn commands(scene: &Scene) -> Commands {
    let attempts: Arc<dyn Subject> = Arc::new(AttemptSubject { store: scene.store.clone() });
    let failed: Arc<dyn Subject> = Arc::new(FailedSubject { store: scene.store.clone() });
    let messages: Arc<dyn Subject> = Arc::new(MessageSubject);
    Commands {
        store: GreyQueueStore::new(pool(&scene.db, "maple_desk"), "test"),
        subjects: Subjects::new([attempts, failed, messages]),
        people: Arc::new(Everybody),
        takeover_after: Duration::from_secs(3600),
        clock: Arc::new(SystemClock),
    }
}

impl Scene {
    /// An attempt that waits for a person, of a work that the grader has given this score.
    async fn waiting(&self, score: f64) -> (Uuid, Uuid) {
        let written = self.written("essay", "a text").await;
        self.put(written.1, "QUEUED").await;
        self.take(&Telling::of(written).completed((1, 2), graded(score, 72))).await;
        written
    }

    /// The entry about an attempt.
    async fn entry(&self, of: Uuid) -> Uuid {
        self.one(&format!("SELECT id FROM router.grey_queue WHERE subject_id = '{of}'")).await
    }

    async fn version(&self, attempt: Uuid) -> i64 {
        self.one(&format!("SELECT version FROM assessment.submissions WHERE id = '{attempt}'")).await
    }

    /// A person gives this score by each criterion, of what was seen at `version`.
    async fn reviews(&self, (attempt, version): (Uuid, i64), score: f64, how: Merge) -> Reviewed {
        let criteria: Vec<_> = Skill::Writing
            .criteria()
            .iter()
            .map(|criterion| json!({"criterion": criterion, "score": score, "feedback": "A person's word."}))
            .collect();
        let said: PersonsReview =
            serde_json::from_value(json!({"criteriaScores": criteria})).expect("a review");
        let (ai, _) = self.desk.result(attempt, "ai").await.expect("read").expect("there is one");
        let (human, last) = reviewed(Skill::Writing, &said, &ai, how, &Bands::default()).expect("it fits");
        let done = self.desk.pool().transaction("grading_set", async |tx| {
            self.desk.review(&tx, (attempt, version), (&human, &last), ("reviewer:anna", "read it")).await
        });
        done.await.expect("answered")
    }
}

#[tokio::test]
async fn where_they_agree_both_count_and_where_not_the_person() {
    let scene = Scene::new().await;
    for (ai, person, how, last, mode, audit) in [
        (7.5, 7.0, Merge::Weighted, "final 7.0 B2", "hybrid", false),
        (7.0, 7.5, Merge::Weighted, "final 7.5 B2", "hybrid", false),
        (7.5, 3.0, Merge::Weighted, "final 3.0 A2", "human", true),
        (7.5, 7.0, Merge::Human, "final 7.0 B2", "human", false),
    ] {
        let (id, attempt) = scene.waiting(ai).await;
        let what = format!("{ai} {person} {how}");
        let version = scene.version(attempt).await;
        assert_eq!(scene.reviews((attempt, version), person, how).await, Reviewed::Done, "{what}");
        let results = scene.results(attempt).await;
        assert_eq!((results.len(), results[2].as_str()), (3, last), "{what}");
        let result = scene.result(attempt, "final").await;
        assert_eq!((&result["gradingMode"], &result["auditFlag"]), (&json!(mode), &json!(audit)), "{what}");
        assert_eq!(result["criteriaScores"][0]["feedback"], json!("A person's word."), "{what}");
        assert_eq!(
            (scene.gate(id).await, scene.events(id).await),
            ("passed".into(), vec!["graded".to_owned()]),
            "{what}"
        );
        assert_eq!(scene.triggers(attempt).await.last().map(String::as_str), Some("reviewed"));
    }
    let by: String = scene
        .one("SELECT DISTINCT actor || ' ' || actor_type FROM assessment.events WHERE trigger = 'reviewed'")
        .await;
    assert_eq!(by, "reviewer:anna admin");
}

#[tokio::test]
async fn the_second_of_two_is_told_and_so_is_who_saw_what_is_gone() {
    let scene = Scene::new().await;
    let (_, attempt) = scene.waiting(7.5).await;
    let version = scene.version(attempt).await;
    for seen in [version - 1, version + 1] {
        assert_eq!(scene.reviews((attempt, seen), 7.0, Merge::Weighted).await, Reviewed::Stale);
    }
    assert_eq!(scene.reviews((attempt, version), 7.0, Merge::Weighted).await, Reviewed::Done);
    assert_eq!(
        scene.reviews((attempt, version), 3.0, Merge::Weighted).await,
        Reviewed::Stale,
        "somebody was first"
    );
    assert_eq!(scene.results(attempt).await.last().map(String::as_str), Some("final 7.0 B2"));
    let (id, gone) = scene.waiting(7.5).await;
    let (ai, _) = scene.desk.result(gone, "ai").await.expect("read").expect("there is one");
    let version = scene.version(gone).await;
    scene.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{id}'")).await;
    assert!(scene.desk.result(gone, "ai").await.expect("read").is_none(), "its words are gone");
    let answer = scene.desk.pool().transaction("grading_set", async |tx| {
        scene.desk.review(&tx, (gone, version), (&ai, &ai), ("reviewer:anna", "read it")).await
    });
    assert_eq!(answer.await.expect("answered"), Reviewed::Closed);
}

#[tokio::test]
async fn another_attempt_is_opened_only_where_a_grade_is_owed() {
    let scene = Scene::new().await;
    let again = async |id: Uuid| {
        let asked = scene.store.pool().transaction("grading_set", async |tx| {
            scene.store.regrade(&tx, id, ("operator:x", "a grade is owed")).await
        });
        asked.await.expect("answered").0
    };
    assert_eq!(again(Uuid::new_v4()).await, Regraded::Unknown);
    assert_eq!(again(scene.submit("open", &[]).await).await, Regraded::Ungraded);
    for (state, expected) in [
        ("PENDING", Regraded::Open),
        ("QUEUED", Regraded::Open),
        ("PROCESSING", Regraded::Open),
        ("REVIEW_PENDING", Regraded::Open),
        ("COMPLETED", Regraded::Graded),
        ("FAILED", Regraded::Done),
    ] {
        let (id, attempt) = scene.written("essay", "a text").await;
        scene.put(attempt, state).await;
        assert_eq!(again(id).await, expected, "{state}");
        if expected == Regraded::Done {
            assert_eq!(again(id).await, Regraded::Open, "it is being graded now");
            let fresh = scene.attempt_of(id).await;
            assert_ne!(fresh, attempt);
            let by: String = scene
                .one(&format!(
                    "SELECT attempt || ' ' || opened_by FROM assessment.submissions WHERE id = '{fresh}'"
                ))
                .await;
            assert_eq!(by, "2 operator:x");
        }
    }
    let (id, attempt) = scene.written("free", "a text").await;
    scene.put(attempt, "FAILED").await;
    scene.sql("DELETE FROM assessment.profiles WHERE form_id = 'free'").await;
    assert_eq!(again(id).await, Regraded::Ungraded, "its form is not graded any more");
    scene.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{id}'")).await;
    assert_eq!(again(id).await, Regraded::Purged);
}

#[tokio::test]
async fn a_mail_is_let_go_once_and_only_where_it_waits() {
    let scene = Scene::new().await;
    let release = async |id: Uuid| {
        let asked = scene.store.pool().transaction("grading_set", async |tx| {
            scene.store.release(&tx, id, ("operator:x", "it is urgent")).await
        });
        asked.await.expect("answered")
    };
    assert_eq!(release(scene.submit("open", &[]).await).await, Released::Unknown);
    assert_eq!(release(scene.written("free", "a text").await.0).await, Released::Ungated);
    for state in ["PENDING", "PROCESSING", "REVIEW_PENDING", "FAILED"] {
        let (id, attempt) = scene.written("essay", "a text").await;
        scene.put(attempt, state).await;
        assert_eq!(release(id).await, Released::Done, "{state}");
        assert_eq!(release(id).await, Released::Released, "{state}");
        assert_eq!(
            (scene.gate(id).await, scene.events(id).await),
            ("passed".into(), vec!["graded".to_owned()]),
            "{state}"
        );
        assert_eq!(scene.state(attempt).await, state, "its grading goes on");
    }
    // A grade that comes later is no other event.
    let written = scene.written("essay", "a text").await;
    scene.put(written.1, "QUEUED").await;
    assert_eq!(release(written.0).await, Released::Done);
    scene.take(&Telling::of(written).completed((1, 2), graded(7.5, 95))).await;
    assert_eq!(scene.state(written.1).await, "COMPLETED");
    assert_eq!(release(written.0).await, Released::Graded);
}

fn person(name: &str) -> Person {
    Person { name: name.to_owned(), role: ADMIN, label: format!("reviewer:{name}") }
}

async fn give(scene: &Scene, commands: &Commands, entry: Uuid, ask: &Ask) -> Answer {
    let version: i64 =
        scene.one(&format!("SELECT version FROM router.grey_queue WHERE id = '{entry}'")).await;
    let who = person("anna");
    let answer = commands.store.pool().transaction("grey_queue_command", async |tx| {
        commands.ask_in(&tx, (entry, version), ask, &who, None).await
    });
    answer.await.expect("answered")
}

fn refused(answer: &Answer, words: &str) {
    let Answer::Refused { refusal: Refusal::Remedy(why), .. } = answer else { panic!("{answer:?}") };
    assert!(why.contains(words), "{why}");
}

#[tokio::test]
async fn an_entry_of_a_review_ends_with_a_grade_and_with_nothing_else() {
    let scene = Scene::new().await;
    let commands = commands(&scene);
    let (_, attempt) = scene.waiting(7.5).await;
    let queued: String = scene.one("SELECT queue || ' ' || reason FROM router.grey_queue").await;
    assert_eq!(queued, "grading medium");
    let entry = scene.entry(attempt).await;
    let taken = give(&scene, &commands, entry, &Ask::plain(Verb::Assign)).await;
    assert!(matches!(taken, Answer::Done { .. }), "{taken:?}");
    refused(&give(&scene, &commands, entry, &Ask::because(Verb::Reject, "bad")).await, "a grade is owed");
    let escalate = Ask { escalation_reason: Some("look".to_owned()), ..Ask::plain(Verb::Escalate) };
    let escalated = give(&scene, &commands, entry, &escalate).await;
    assert!(matches!(escalated, Answer::Done { .. }), "{escalated:?}");
    refused(
        &give(&scene, &commands, entry, &Ask::because(Verb::Resolve, "fine")).await,
        "a review ends with a grade",
    );
    assert_eq!(scene.state(attempt).await, "REVIEW_PENDING");
    let version = scene.version(attempt).await;
    assert_eq!(scene.reviews((attempt, version), 7.0, Merge::Weighted).await, Reviewed::Done);
    let resolved = give(&scene, &commands, entry, &Ask::because(Verb::Resolve, "graded")).await;
    assert!(matches!(resolved, Answer::Done { .. }), "{resolved:?}");
    assert_eq!(scene.entries(attempt).await, ["grading medium Resolved"]);
    // It never expires by its age, and is gone with its submission.
    let (id, other) = scene.waiting(7.5).await;
    assert_eq!(commands.store.plan_expiry(Duration::from_secs(1), 100).await.expect("planned"), 0);
    scene.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{id}'")).await;
    let subject = AttemptSubject { store: scene.store.clone() };
    assert!(matches!(subject.look(other).await.expect("looked"), Looked::Gone));
    upkeep(&scene).once().await.expect("a pass");
    assert_eq!(scene.entries(other).await, ["grading medium Expired"]);
}

fn upkeep(scene: &Scene) -> Upkeep {
    let commands = commands(scene);
    Upkeep {
        store: commands.store,
        subjects: commands.subjects,
        bounds: Bounds {
            every: Duration::from_secs(60),
            ttl: Duration::from_secs(86_400),
            max_attempts: 3,
            auto: BTreeSet::new(),
            keep: Duration::from_secs(400 * 86_400),
        },
        clock: commands.clock,
        incidents: Incidents::new().0,
        actor: "test".into(),
    }
}

#[tokio::test]
async fn an_entry_of_a_failure_is_redriven_into_another_attempt() {
    let scene = Scene::new().await;
    let commands = commands(&scene);
    let subject = FailedSubject { store: scene.store.clone() };
    let written = scene.written("essay", "a text").await;
    scene.put(written.1, "QUEUED").await;
    scene.take(&Telling::of(written).error((1, 2), ErrorType::Model)).await;
    let looked = subject.look(written.1).await.expect("looked");
    assert!(
        matches!(&looked, Looked::Missing { what, mendable: true, .. } if what[0].contains("gave_up")),
        "{looked:?}"
    );
    let entry = scene.entry(written.1).await;
    let redrive = Ask { remedy: Some(Remedy::Redrive), ..Ask::because(Verb::Start, "the model is back") };
    let begun = give(&scene, &commands, entry, &redrive).await;
    assert!(matches!(begun, Answer::Done { .. }), "{begun:?}");
    let fresh = scene.attempt_of(written.0).await;
    assert_ne!(fresh, written.1);
    let why: String = scene
        .one(&format!(
            "SELECT opened_by || ': ' || opened_why FROM assessment.submissions WHERE id = '{fresh}'"
        ))
        .await;
    assert_eq!(why, "reviewer:anna: the model is back");
    let looked = subject.look(written.1).await.expect("looked");
    assert!(matches!(looked, Looked::Missing { mendable: false, .. }), "it goes on: {looked:?}");
    scene.put(fresh, "COMPLETED").await;
    let looked = subject.look(written.1).await.expect("looked");
    assert!(matches!(looked, Looked::Sufficient(Evidence::Redriven)), "{looked:?}");
    // Whoever asks where nothing is owed is told.
    let (id, other) = scene.written("essay", "b").await;
    scene.put(other, "QUEUED").await;
    scene.take(&Telling::of((id, other)).error((1, 2), ErrorType::Model)).await;
    let entry = scene.entry(other).await;
    scene.sql("DELETE FROM assessment.profiles WHERE form_id = 'essay'").await;
    refused(&give(&scene, &commands, entry, &redrive).await, "no other attempt can be opened");
}
