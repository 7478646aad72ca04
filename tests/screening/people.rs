//! What people decide at the review desk: an entry is its run's own last word.

use std::sync::Arc;
use std::time::Duration;

use maple_router::grey_queue::commands::{Answer, Commands, People, Subjects};
use maple_router::grey_queue::decide::{Ask, Person, Refusal, Verb};
use maple_router::grey_queue::store::GreyQueueStore;
use maple_router::grey_queue::table::{ADMIN, SECURITY};
use maple_router::grey_queue::upkeep::{Bounds, Upkeep};
use maple_router::kernel::Who;
use maple_router::kernel::subject::{Remedy, Subject};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;
use maple_router::screening::subject::{JobSubject, RunSubject};
use uuid::Uuid;

use crate::harness::{Scene, pool};

#[derive(Debug)]
struct Everybody;

impl People for Everybody {
    fn role_of(&self, _: &str) -> Option<Who> {
        Some(SECURITY)
    }
}

fn commands(scene: &Scene) -> Commands {
    commands_as(scene, "maple_desk")
}

fn commands_as(scene: &Scene, role: &str) -> Commands {
    let runs: Arc<dyn Subject> = Arc::new(RunSubject { store: scene.daemon.clone(), four_eyes: true });
    let jobs: Arc<dyn Subject> = Arc::new(JobSubject { store: scene.daemon.clone() });
    Commands {
        store: GreyQueueStore::new(pool(&scene.db, role), "test"),
        subjects: Subjects::new([runs, jobs]),
        people: Arc::new(Everybody),
        takeover_after: Duration::from_secs(3600),
        clock: Arc::new(SystemClock),
    }
}

/// The queue's upkeep over the same rooms.
pub(crate) fn upkeep(scene: &Scene) -> Upkeep {
    let commands = commands(scene);
    Upkeep {
        store: commands.store,
        subjects: commands.subjects,
        bounds: Bounds {
            every: Duration::from_secs(60),
            ttl: Duration::from_secs(86_400),
            max_attempts: 3,
            auto: std::collections::BTreeSet::new(),
            keep: Duration::from_secs(400 * 86_400),
        },
        clock: commands.clock,
        incidents: Incidents::new().0,
        actor: "test".into(),
    }
}

fn person(name: &str) -> Person {
    Person { name: name.to_owned(), role: ADMIN, label: format!("reviewer:{name}") }
}

/// A run that waits for a person, and its entry.
async fn waiting(scene: &Scene) -> (Uuid, Uuid, Uuid) {
    let on = scene.submit("on", "hello").await;
    let run = scene.run_of(on).await;
    scene.put(run, "TIER2_SCANNING").await;
    scene.sql(&format!("UPDATE screening.submissions SET state = 'NEEDS_REVIEW' WHERE id = '{run}'")).await;
    let entry = scene.one(&format!("SELECT id FROM router.grey_queue WHERE subject_id = '{run}'")).await;
    (on, run, entry)
}

async fn version(scene: &Scene, entry: Uuid) -> i64 {
    scene.one(&format!("SELECT version FROM router.grey_queue WHERE id = '{entry}'")).await
}

async fn give(scene: &Scene, commands: &Commands, entry: Uuid, ask: &Ask, who: &str) -> Answer {
    let version = version(scene, entry).await;
    at(commands, (entry, version), ask, who).await
}

async fn at(commands: &Commands, entry: (Uuid, i64), ask: &Ask, who: &str) -> Answer {
    let who = person(who);
    let answer = commands
        .store
        .pool()
        .transaction("grey_queue_command", async |tx| commands.ask_in(&tx, entry, ask, &who, None).await);
    answer.await.expect("answered")
}

fn escalate() -> Ask {
    Ask { escalation_reason: Some("look at it".to_owned()), ..Ask::plain(Verb::Escalate) }
}

async fn entry_state(scene: &Scene, entry: Uuid) -> String {
    scene.one(&format!("SELECT state FROM router.grey_queue WHERE id = '{entry}'")).await
}

#[tokio::test]
async fn whoever_has_the_backends_role_decides_nothing() {
    let scene = Scene::new().await;
    let (_, run, entry) = waiting(&scene).await;
    let commands = commands_as(&scene, "forms_app");
    let taken = give(&scene, &commands, entry, &Ask::plain(Verb::Assign), "anna").await;
    assert!(matches!(taken, Answer::Done { .. }), "{taken:?}");
    let refused = give(&scene, &commands, entry, &escalate(), "anna").await;
    let Answer::Refused { refusal: Refusal::Remedy(why), .. } = refused else { panic!("{refused:?}") };
    assert!(why.contains("[desk] database_url") && why.contains("maple_desk"), "{why}");
    assert_eq!(scene.state(run).await, "NEEDS_REVIEW");
    assert_eq!(entry_state(&scene, entry).await, "UnderReview", "entry and run, or neither");
}

#[tokio::test]
async fn an_entry_is_escalated_and_approved_by_two_people_and_its_run_with_it() {
    let scene = Scene::new().await;
    let commands = commands(&scene);
    let (on, run, entry) = waiting(&scene).await;
    let refused = give(&scene, &commands, entry, &Ask::because(Verb::Resolve, "fine"), "anna").await;
    assert!(matches!(refused, Answer::Refused { refusal: Refusal::NotPossible { .. }, .. }), "{refused:?}");
    let taken = give(&scene, &commands, entry, &Ask::plain(Verb::Assign), "anna").await;
    assert!(matches!(taken, Answer::Done { .. }), "{taken:?}");
    for verb in [Verb::Dismiss, Verb::DeEscalate, Verb::Resolve, Verb::Start] {
        let ask = Ask { remedy: (verb == Verb::Start).then_some(Remedy::Check), ..Ask::because(verb, "no") };
        let refused = give(&scene, &commands, entry, &ask, "anna").await;
        assert!(
            matches!(refused, Answer::Refused { refusal: Refusal::NotPossible { .. }, .. }),
            "{verb}: {refused:?}"
        );
    }
    let escalated = give(&scene, &commands, entry, &escalate(), "anna").await;
    assert!(matches!(escalated, Answer::Done { .. }), "{escalated:?}");
    assert_eq!(
        (scene.state(run).await.as_str(), entry_state(&scene, entry).await.as_str()),
        ("TIER3_REVIEW", "Escalated")
    );
    let own = give(&scene, &commands, entry, &Ask::because(Verb::Resolve, "fine"), "anna").await;
    assert!(matches!(own, Answer::Refused { refusal: Refusal::NotAllowed(_), .. }), "four eyes: {own:?}");
    let approved =
        give(&scene, &commands, entry, &Ask::because(Verb::Resolve, "it is what it says"), "ben").await;
    assert!(matches!(approved, Answer::Done { .. }), "{approved:?}");
    assert_eq!(
        (scene.state(run).await.as_str(), entry_state(&scene, entry).await.as_str()),
        ("PUBLISHED", "Resolved")
    );
    assert_eq!(scene.gate(on).await, "passed");
    assert_eq!(scene.events(on).await, ["screened"]);
    let triggers = scene.triggers(run).await;
    assert_eq!(triggers[1..], ["admin-escalate".to_owned(), "reviewer-approve".to_owned()], "{triggers:?}");
    let actor: String = scene
        .one(&format!("SELECT actor || ' ' || actor_type FROM screening.submission_state_events WHERE submission_id = '{run}' AND trigger = 'reviewer-approve'"))
        .await;
    assert_eq!(actor, "reviewer:ben admin");
}

#[tokio::test]
async fn a_rejection_is_the_runs_from_either_state_and_the_second_of_two_is_told() {
    let scene = Scene::new().await;
    let commands = commands(&scene);
    for escalated in [false, true] {
        let (on, run, entry) = waiting(&scene).await;
        give(&scene, &commands, entry, &Ask::plain(Verb::Assign), "anna").await;
        if escalated {
            give(&scene, &commands, entry, &escalate(), "anna").await;
        }
        let seen = version(&scene, entry).await;
        let rejected = at(&commands, (entry, seen), &Ask::because(Verb::Reject, "spam"), "ben").await;
        assert!(matches!(rejected, Answer::Done { .. }), "{rejected:?}");
        let late = at(&commands, (entry, seen), &Ask::because(Verb::Reject, "spam"), "carol").await;
        assert!(matches!(late, Answer::Conflict(_)), "{late:?}");
        assert_eq!(
            (scene.state(run).await.as_str(), entry_state(&scene, entry).await.as_str()),
            ("REJECTED", "Rejected")
        );
        assert_eq!(scene.gate(on).await, "out");
        let expected = if escalated { "reviewer-reject" } else { "admin-reject" };
        assert_eq!(scene.triggers(run).await.last().map(String::as_str), Some(expected));
        let reopened = give(&scene, &commands, entry, &Ask::because(Verb::Reopen, "no"), "ben").await;
        assert!(matches!(reopened, Answer::Refused { .. }), "another run is the way back: {reopened:?}");
    }
}

#[tokio::test]
async fn what_was_changed_since_is_not_approved_and_the_entry_stays() {
    let scene = Scene::new().await;
    let commands = commands(&scene);
    let (on, run, entry) = waiting(&scene).await;
    give(&scene, &commands, entry, &Ask::plain(Verb::Assign), "anna").await;
    give(&scene, &commands, entry, &escalate(), "anna").await;
    scene.sql(&format!("UPDATE submission_fields SET field_value = 'x' WHERE submission_id = '{on}'")).await;
    let refused = give(&scene, &commands, entry, &Ask::because(Verb::Resolve, "fine"), "ben").await;
    assert!(
        matches!(&refused, Answer::Refused { refusal: Refusal::Remedy(why), .. } if why.contains("not what was screened")),
        "{refused:?}"
    );
    assert_eq!(
        (scene.state(run).await.as_str(), entry_state(&scene, entry).await.as_str()),
        ("TIER3_REVIEW", "Escalated")
    );
}

#[tokio::test]
async fn an_entry_does_not_expire_and_one_of_a_closed_run_is_gone() {
    let scene = Scene::new().await;
    let commands = commands(&scene);
    let (on, run, entry) = waiting(&scene).await;
    assert_eq!(commands.store.plan_expiry(Duration::from_secs(1), 100).await.expect("planned"), 0);
    let subject = RunSubject { store: scene.daemon.clone(), four_eyes: true };
    assert!(matches!(
        subject.look(run).await.expect("looked"),
        maple_router::kernel::subject::Looked::Missing { .. }
    ));
    scene.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{on}'")).await;
    assert!(matches!(subject.look(run).await.expect("looked"), maple_router::kernel::subject::Looked::Gone));
    upkeep(&scene).once().await.expect("a pass");
    assert_eq!(entry_state(&scene, entry).await, "Expired", "nobody can decide about it any more");
}
