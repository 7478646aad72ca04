//! The schemas themselves: applied and taken back beside schemas router and screening, edges, results, reviews, trials.

use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::db::migrations::online::{self, Patience};
use maple_router::db::migrations::{GRADING, MigrateError, MigrationSet, SCREENING};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::harness::Scene;

const STATES: [&str; 8] =
    ["PENDING", "QUEUED", "PROCESSING", "ERROR", "RETRYING", "REVIEW_PENDING", "COMPLETED", "FAILED"];

fn silent(_: &str) {}

/// What stands in the schemas below: functions with their rights and bodies, triggers, causes.
async fn standing(client: &Client) -> Vec<String> {
    let sql = "SELECT concat_ws(' ', p.oid::regprocedure, p.prosecdef, md5(p.prosrc),
           (SELECT string_agg(x::text, ',' ORDER BY x::text) FROM unnest(p.proacl) AS x)) FROM pg_proc p
         WHERE p.pronamespace IN (to_regnamespace('router'), to_regnamespace('screening'))
       UNION ALL SELECT t.tgrelid::regclass::text || ' ' || t.tgname || ' ' || t.tgenabled::text FROM pg_trigger t
         WHERE t.tgrelid IN ('public.submissions'::regclass, 'public.attachments'::regclass) AND NOT t.tgisinternal
       UNION ALL SELECT 'cause ' || cause FROM router.grey_queue_causes ORDER BY 1";
    client.query(sql, &[]).await.expect("looked").iter().map(|row| row.get(0)).collect()
}

/// What is left in a set's own schemas, beside its history.
async fn left(client: &Client) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname IN ('assessment', 'mq', 'grading') AND c.relkind IN ('r', 'v', 'S') AND c.relname <> 'history')
               + (SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN ('assessment', 'mq', 'grading'))
               + (SELECT count(*) FROM router.grey_queue_causes WHERE cause LIKE 'grading%')";
    client.query_one(sql, &[]).await.expect("asked").get(0)
}

async fn apply(client: &mut Client, set: &'static MigrationSet) {
    online::migrate_upper(client, set, Patience::default(), &silent).await.expect("applied");
}

async fn back(client: &mut Client, set: &'static MigrationSet, stem: &str) {
    online::back_upper(client, set, stem, Patience::default(), &silent).await.expect("taken back");
}

/// A submission is finalized, and whoever routes hears of it.
async fn routes(db: &TestDatabase) {
    let eyes = db.superuser().await.expect("eyes");
    let id = Uuid::new_v4();
    let sql = format!(
        "INSERT INTO forms (id, name) VALUES ('plain', 'P') ON CONFLICT DO NOTHING; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'plain')"
    );
    eyes.batch_execute(&sql).await.expect("a submission");
    let daemon = db.client_as("forms_app").await.expect("forms_app");
    let asked = daemon.query_one("SELECT state FROM router.evaluate_routing_readiness($1)", &[&id]).await;
    assert_eq!(asked.expect("asked").get::<_, String>(0), "ready");
    let told = eyes.query_one("SELECT count(*) FROM router.outbox WHERE entity_id = $1", &[&id]).await;
    assert_eq!(told.expect("asked").get::<_, i64>(0), 1, "it is announced");
}

/// What is both screened and graded has its attempt when it is published, in whichever order the schemas came.
async fn graded_once_published(db: &TestDatabase) {
    let eyes = db.superuser().await.expect("eyes");
    let id = Uuid::new_v4();
    eyes.batch_execute(&format!(
        "INSERT INTO forms (id, name) VALUES ('both', 'B') ON CONFLICT DO NOTHING;
         INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by)
         VALUES ('both', 'fields', now() - interval '1 day', now() - interval '1 day', 'test');
         INSERT INTO assessment.questions (id, skill, prompt, set_by) VALUES ('q', 'writing', 'x', 'test');
         INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, sla, since, set_by)
         VALUES ('both', 'writing', 'q', 'answer', 'essay', '1 hour', now() - interval '1 day', 'test');
         INSERT INTO submissions (id, form_id) VALUES ('{id}', 'both')"
    ))
    .await
    .expect("a submission");
    let attempts = async || -> i64 {
        let sql = "SELECT count(*) FROM assessment.submissions WHERE subject = $1";
        eyes.query_one(sql, &[&id]).await.expect("asked").get(0)
    };
    assert_eq!(attempts().await, 0, "it may be screened out");
    eyes.batch_execute(&format!(
        "SET session_replication_role = replica;
         UPDATE screening.submissions SET state = 'TIER3_REVIEW', digest = screening.digest_of(subject), content = screening.digest_of(subject)
         WHERE subject = '{id}';
         SET session_replication_role = origin;
         SELECT screening.decide(id, 1, 'reviewer-approve', 'reviewer:x', 'because') FROM screening.submissions WHERE subject = '{id}'"
    ))
    .await
    .expect("published");
    assert_eq!(attempts().await, 1, "it is published");
}

#[tokio::test]
async fn it_is_applied_and_taken_back_and_leaves_the_rest_as_it_was() {
    let cluster = Cluster::shared().await.expect("a cluster");
    let bare = cluster.database(Variant::default()).await.expect("a database");
    let mut owner = bare.owner().await.expect("the owner");
    let refused = online::migrate_upper(&mut owner, &GRADING, Patience::default(), &silent)
        .await
        .expect_err("nothing to stand on");
    assert!(matches!(refused, MigrateError::Foundation { name: "grading" }), "{refused}");
    let db = cluster.database(Variant { router: true, ..Variant::default() }).await.expect("a database");
    let mut owner = db.owner().await.expect("the owner");
    let before = standing(&owner).await;
    let applied =
        online::migrate_upper(&mut owner, &GRADING, Patience::default(), &silent).await.expect("applied");
    assert_eq!(
        applied.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(),
        ["001_assessment", "002_grader", "003_sides"]
    );
    let mid = standing(&owner).await;
    assert_ne!(before, mid);
    routes(&db).await;
    back(&mut owner, &GRADING, "002").await;
    assert_ne!(standing(&owner).await, before, "attempts and their gate are there");
    routes(&db).await;
    apply(&mut owner, &GRADING).await;
    assert_eq!(standing(&owner).await, mid);
    back(&mut owner, &GRADING, "001").await;
    assert_eq!(standing(&owner).await, before);
    assert_eq!(left(&owner).await, 0, "nothing but its history stays");
    routes(&db).await;
    apply(&mut owner, &GRADING).await;
    assert_eq!(standing(&owner).await, mid);
}

#[tokio::test]
async fn it_lies_below_screening_or_on_it_and_either_goes_first() {
    let cluster = Cluster::shared().await.expect("a cluster");
    let new = async || {
        let db = cluster.database(Variant { router: true, ..Variant::default() }).await.expect("a database");
        let owner = db.owner().await.expect("the owner");
        (db, owner)
    };
    let mut alone = Vec::new();
    for set in [&SCREENING, &GRADING] {
        let (_db, mut owner) = new().await;
        apply(&mut owner, set).await;
        alone.push(standing(&owner).await);
    }
    for order in [[&SCREENING, &GRADING], [&GRADING, &SCREENING]] {
        let (db, mut owner) = new().await;
        let before = standing(&owner).await;
        for (first, rest) in [(&SCREENING, 1), (&GRADING, 0)] {
            for set in order {
                apply(&mut owner, set).await;
            }
            routes(&db).await;
            graded_once_published(&db).await;
            back(&mut owner, first, "001").await;
            let what = format!("{} on {}, {} taken back", order[1].name, order[0].name, first.name);
            assert_eq!(standing(&owner).await, alone[rest], "{what}");
            routes(&db).await;
            back(&mut owner, [&SCREENING, &GRADING][rest], "001").await;
            assert_eq!(standing(&owner).await, before, "{what}, and the other");
            assert_eq!(left(&owner).await, 0, "{what}, and the other");
            routes(&db).await;
        }
    }
}

/// The edges that the daemon's role may take; one more is a person's.
const MACHINE: [(&str, &str); 13] = [
    ("PENDING", "QUEUED"),
    ("PENDING", "COMPLETED"),
    ("PENDING", "FAILED"),
    ("QUEUED", "PROCESSING"),
    ("QUEUED", "FAILED"),
    ("PROCESSING", "ERROR"),
    ("PROCESSING", "COMPLETED"),
    ("PROCESSING", "REVIEW_PENDING"),
    ("PROCESSING", "FAILED"),
    ("ERROR", "RETRYING"),
    ("ERROR", "FAILED"),
    ("RETRYING", "PROCESSING"),
    ("RETRYING", "FAILED"),
];

#[tokio::test]
async fn no_edge_leads_where_the_table_has_none_and_no_end_is_left() {
    let scene = Scene::new().await;
    let attempt = scene.attempt_of(scene.submit("listen", &[]).await).await;
    let moves = |to: &str| {
        format!(
            "BEGIN; UPDATE assessment.submissions SET state = '{to}', priority = 'High',
               failed_reason = CASE WHEN '{to}' = 'FAILED' THEN 'odd' END WHERE id = '{attempt}'; ROLLBACK"
        )
    };
    for from in STATES {
        scene.put(attempt, from).await;
        for to in STATES.iter().filter(|to| **to != from) {
            for role in ["forms_app", "maple_desk", "forms_owner"] {
                let answer = scene.as_role(role, &moves(to)).await;
                let persons = (from, *to) == ("REVIEW_PENDING", "COMPLETED") && role == "forms_owner";
                let allowed = MACHINE.contains(&(from, *to)) || persons;
                assert_eq!(answer.is_none(), allowed, "{role}: {from} -> {to}: {answer:?}");
            }
            for role in ["forms_loader", "maple_grader", "forms_readonly"] {
                let answer = scene.as_role(role, &moves(to)).await.expect("refused");
                assert!(answer.starts_with("42501"), "{role}: {from} -> {to}: {answer}");
            }
        }
    }
    // A model's work is compared with no key, whoever says so.
    let (_, written) = scene.written("essay", "x").await;
    let sql = format!("UPDATE assessment.submissions SET state = 'COMPLETED' WHERE id = '{written}'");
    for role in ["forms_app", "forms_owner"] {
        let answer = scene.as_role(role, &sql).await.expect("refused");
        assert!(answer.contains("is not compared with a key"), "{role}: {answer}");
    }
}

#[tokio::test]
async fn a_state_has_beside_it_what_it_says_or_is_refused_at_the_commit() {
    let scene = Scene::new().await;
    let fresh = async |state: &str| {
        let attempt = scene.attempt_of(scene.submit("listen", &[]).await).await;
        scene.put(attempt, state).await;
        attempt
    };
    let to = |attempt: Uuid, state: &str| {
        format!(
            "UPDATE assessment.submissions SET state = '{state}', priority = 'Medium' WHERE id = '{attempt}'"
        )
    };
    for (from, state, kind, why) in [
        ("PENDING", "COMPLETED", "final", "it has no final result"),
        ("PROCESSING", "COMPLETED", "final", "it has no final result"),
        ("PROCESSING", "REVIEW_PENDING", "ai", "there is nothing to review"),
    ] {
        let attempt = fresh(from).await;
        let refused = scene.as_role("forms_app", &to(attempt, state)).await.expect("refused");
        assert!(refused.starts_with("23514") && refused.contains(why), "{from} -> {state}: {refused}");
        scene.keep(attempt, kind).await;
        // One that is late, or the words of which are gone, is none.
        let spoil =
            |what: &str| format!("UPDATE assessment.results SET {what} WHERE request_id = '{attempt}'");
        scene.sql(&spoil("result = NULL")).await;
        assert!(scene.as_role("forms_app", &to(attempt, state)).await.is_some(), "{from} -> {state}");
        let another = fresh(from).await;
        scene.keep(another, kind).await;
        assert_eq!(scene.as_role("forms_app", &to(another, state)).await, None, "{from} -> {state}");
        assert_eq!(scene.state(another).await, state);
    }
    let attempt = fresh("PROCESSING").await;
    scene.keep(attempt, "final").await;
    let second = format!(
        "INSERT INTO assessment.results (request_id, kind, try, result, digest, score, band, actor)
         SELECT request_id, kind, 2, result, digest, score, band, actor FROM assessment.results WHERE request_id = '{attempt}'"
    );
    let refused = scene.as_role("forms_app", &second).await.expect("refused");
    assert!(refused.starts_with("23505"), "one final result an attempt: {refused}");
}

#[tokio::test]
async fn what_an_attempt_is_about_does_not_change() {
    let scene = Scene::new().await;
    let (_, attempt) = scene.written("essay", "x").await;
    for what in [
        "subject = gen_random_uuid()",
        "attempt = 2",
        "form_id = 'free'",
        "skill = 'listening'",
        "gate = false",
        "on_failed = 'send'",
        "deadline = now() + interval '1 day'",
        "created_at = now()",
    ] {
        let sql = format!("UPDATE assessment.submissions SET {what} WHERE id = '{attempt}'");
        let denied = scene.as_role("forms_app", &sql).await.expect("refused");
        assert!(denied.starts_with("42501"), "{what}: {denied}");
        let refused = scene.as_role("forms_owner", &sql).await.expect("refused");
        assert!(refused.contains("do not change"), "{what}: {refused}");
    }
    scene.sql(&format!("UPDATE assessment.submissions SET closed_at = now() WHERE id = '{attempt}'")).await;
    let sql = format!("UPDATE assessment.submissions SET state = 'QUEUED' WHERE id = '{attempt}'");
    let refused = scene.as_role("forms_app", &sql).await.expect("refused");
    assert!(refused.contains("it is closed"), "{refused}");
}

#[tokio::test]
async fn a_review_is_ended_by_the_desks_role_alone() {
    let scene = Scene::new().await;
    let (_, attempt) = scene.written("essay", "x").await;
    scene.put(attempt, "REVIEW_PENDING").await;
    let review = format!(
        "SELECT assessment.review('{attempt}', 1, result, result, ARRAY[digest, digest], 'reviewer:x', 'because')
         FROM assessment.results WHERE request_id = '{attempt}' AND kind = 'ai'"
    );
    for role in ["forms_app", "forms_loader", "maple_grader", "forms_readonly"] {
        let answer = scene.as_role(role, &review).await.expect("refused");
        assert!(answer.starts_with("42501"), "{role}: {answer}");
    }
    let nameless = review.replace("'because'", "' '");
    assert!(scene.as_role("maple_desk", &nameless).await.is_some(), "a review has a reason");
    assert_eq!(scene.state(attempt).await, "REVIEW_PENDING");
    assert_eq!(scene.as_role("maple_desk", &review).await, None);
    assert_eq!(scene.state(attempt).await, "COMPLETED");
    assert_eq!(scene.results(attempt).await, ["ai 7.5 B2", "human 7.5 B2", "final 7.5 B2"]);
}

#[tokio::test]
async fn a_job_goes_by_its_own_edges_and_is_tried_again_three_times_at_most() {
    let scene = Scene::new().await;
    let edges = [
        ("QUEUED", "PROCESSING"),
        ("PROCESSING", "COMPLETED"),
        ("PROCESSING", "ERROR"),
        ("ERROR", "RETRYING"),
        ("ERROR", "FAILED"),
        ("RETRYING", "PROCESSING"),
    ];
    let states = ["QUEUED", "PROCESSING", "ERROR", "RETRYING", "COMPLETED", "FAILED"];
    let insert = async |state: &str, retries: i32| -> Uuid {
        let ended = if matches!(state, "COMPLETED" | "FAILED") { "now()" } else { "NULL" };
        let sql = format!(
            "INSERT INTO grading.jobs (request_id, submission_id, attempt, skill, payload, deadline, state, retries, ended_at)
             VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'writing', '{{}}', now() + interval '1 hour', '{state}', {retries}, {ended})
             RETURNING id"
        );
        scene.one(&sql).await
    };
    let to = |job: Uuid, to: &str| {
        format!("BEGIN; UPDATE grading.jobs SET state = '{to}' WHERE id = '{job}'; ROLLBACK")
    };
    for from in states {
        let job = insert(from, 0).await;
        for state in states.iter().filter(|state| **state != from) {
            let answer = scene.as_role("maple_grader", &to(job, state)).await;
            assert_eq!(answer.is_none(), edges.contains(&(from, *state)), "{from} -> {state}: {answer:?}");
        }
        let other = format!("UPDATE grading.jobs SET payload = '{{\"x\": 1}}' WHERE id = '{job}'");
        let answer = scene.as_role("maple_grader", &other).await.expect("refused");
        assert!(answer.contains("does not change"), "{from}: {answer}");
    }
    let spent = insert("ERROR", 3).await;
    let answer = scene.as_role("maple_grader", &to(spent, "RETRYING")).await.expect("refused");
    assert!(answer.starts_with("23514"), "three retries are all: {answer}");
}

#[tokio::test]
async fn a_model_grades_alone_by_what_its_figures_allow() {
    let scene = Scene::new().await;
    let keep = |items: i32, answered: i32, qwk: f64, mae: f64| {
        format!(
            "BEGIN; INSERT INTO grading.calibrations (skill, models, prompt, rubric, items, answered, qwk, mae, ece, suffices, actor)
             VALUES ('writing', 'm', 'p', '1', {items}, {answered}, {qwk}, {mae}, 0.1, true, 'x'); ROLLBACK"
        )
    };
    assert_eq!(scene.as_role("maple_grader", &keep(30, 30, 0.7, 0.75)).await, None);
    for (sql, why) in [
        (keep(29, 29, 0.9, 0.1), "too few"),
        (keep(31, 30, 0.9, 0.1), "one was not answered"),
        (keep(30, 30, 0.69, 0.1), "bands do not agree"),
        (keep(30, 30, 0.9, 0.76), "scores are too far apart"),
    ] {
        assert!(scene.as_role("maple_grader", &sql).await.is_some(), "{why}");
    }
    let denied = scene.as_role("forms_app", &keep(30, 30, 0.9, 0.1)).await.expect("refused");
    assert!(denied.starts_with("42501"), "{denied}");
}
