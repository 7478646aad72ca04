//! What only a link can do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use devkit::postgres::{Cluster, Variant};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::db::DbError;
use maple_router::db::migrations::online::{Patience, back_upper, migrate_upper};
use maple_router::db::migrations::{GRADER, MigrateError};
use maple_router::grading::card::STALLED;
use maple_router::grading::core::skill::Skill;
use maple_router::grading::job::store::{Accepted, JobStore};
use maple_router::grading::link::ends::Ends;
use maple_router::grading::link::topics::topics;
use maple_router::grading::queue::{Queue, QueueName};
use maple_router::grading::watch::GradingWatch;
use maple_router::ops::incident::Incidents;
use maple_router::ports::Clock;
use serde_json::{Value, json};
use tokio::process::Command;
use uuid::Uuid;

use crate::harness::{Models, PATIENCE, PLANTED, Scene, Telling, document, essay, graded, pool};

impl Scene {
    /// A scene where the grader has a database of its own, which knows nothing of submissions.
    async fn apart() -> Self {
        let mut scene = Self::new().await;
        let cluster = Cluster::shared().await.expect("a cluster");
        let db = cluster.database(Variant::default()).await.expect("a database");
        let mut owner = db.owner().await.expect("the owner");
        migrate_upper(&mut owner, &GRADER, Patience::default(), &|_| ()).await.expect("applied");
        scene.jobs = JobStore::new(pool(&db, "maple_grader"), "grader@test");
        scene.producers[1] = db.client_as("maple_grader").await.expect("a connection");
        let eyes = db.superuser().await.expect("eyes");
        scene.apart = Some((db, eyes));
        scene
    }

    /// What the grader's own database answers.
    async fn of_grader<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        let (_, eyes) = self.apart.as_ref().expect("a database of its own");
        eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// Puts bytes into a topic by hand.
    fn publish(&self, queue: QueueName, bytes: &[u8]) {
        let topics = self.topics.as_ref().expect("topics");
        let named = self::topics(&topics.config).expect("names").expect("topics");
        let topic = named.of(queue).topic.clone().expect("a topic");
        topics.broker.publish(&topic, bytes.to_vec(), [("by", "hand")]).expect("published");
    }
}

#[tokio::test]
async fn a_grader_in_a_database_of_its_own_grades_and_forgets() {
    let scene = Scene::apart().await;
    let models = Models::new().await;
    scene.calibrate().await;
    let working = (scene.main_side(), scene.grader(&models));
    let (id, attempt) = scene.written("essay", &essay("[[score 7.5]]")).await;
    assert_eq!(scene.until(attempt, &["COMPLETED", "REVIEW_PENDING", "FAILED"]).await, "COMPLETED");
    assert_eq!(scene.results(attempt).await, ["ai 7.5 B2", "final 7.5 B2"]);
    assert_eq!(scene.count("grading.jobs").await, 0, "the main side's database has no job");
    let kept = format!(
        "SELECT (SELECT count(*) FROM grading.jobs j WHERE j::text LIKE '%{PLANTED}%')
           + (SELECT count(*) FROM grading.steps s WHERE s.output IS NOT NULL) + (SELECT count(*) FROM grading.forgotten) * 1000"
    );
    assert_eq!(scene.of_grader::<i64>(&kept).await, 4, "a request, and three samples");
    // Emptied here, it is forgotten there.
    scene.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{id}'")).await;
    let began = Instant::now();
    while scene.of_grader::<i64>(&kept).await != 1_000 {
        assert!(began.elapsed() < PATIENCE, "{} is left", scene.of_grader::<i64>(&kept).await);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(
        scene.count(&format!("assessment.results r WHERE r.result::text LIKE '%{PLANTED}%'")).await,
        0
    );
    for queue in ["mq.grading_request", "mq.grading_callback", "mq.grading_dlq"] {
        assert_eq!(scene.count(queue).await, 0, "{queue}");
        assert_eq!(scene.of_grader::<i64>(&format!("SELECT count(*) FROM {queue}")).await, 0, "{queue}");
    }
    working.1.stop().await;
    working.0.stop().await;
}

/// G3 between two databases: nothing that the grader has sent in time is too late because a broker was away.
#[tokio::test]
async fn nothing_is_timed_out_while_its_callback_may_be_on_its_way() {
    let mut scene = Scene::apart().await;
    scene.topics.as_mut().expect("topics").settles = Duration::from_secs(5);
    let written = scene.written("essay", "a text").await;
    let (_, forgotten) = scene.written("essay", "nobody answers").await;
    for attempt in [written.1, forgotten] {
        scene.put(attempt, "QUEUED").await;
        scene.late(attempt).await;
    }
    let broker = &scene.topics.as_ref().expect("topics").broker;
    broker.down().await;
    let callback = Telling::of(written).completed((1, 2), graded(7.5, 95));
    scene.send("callback", Uuid::new_v4(), &document(&callback)).await;
    let working = (scene.main_side(), scene.graders_link());
    // The first look for deadlines is over.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(scene.count("assessment.events WHERE trigger = 'timeout'").await, 0);
    broker.up().await.expect("it is back");
    scene.until(forgotten, &["FAILED"]).await;
    assert_eq!(scene.state(written.1).await, "COMPLETED", "it has come before");
    assert_eq!(scene.count("assessment.results WHERE is_late").await, 0);
    working.0.stop().await;
    working.1.stop().await;
}

/// A topic that is not there, or not ours to publish to: what is to be sent waits in its queue.
#[tokio::test]
async fn what_no_topic_takes_stays_in_its_queue() {
    let mut scene = Scene::apart().await;
    let topics = scene.topics.as_mut().expect("topics");
    "later".clone_into(&mut topics.config.grading.pubsub.callback_topic);
    let written = scene.written("essay", "a text").await;
    let callback = Telling::of(written).completed((1, 2), graded(7.5, 95));
    scene.send("callback", Uuid::new_v4(), &document(&callback)).await;
    let link = scene.graders_link();
    let waits = "SELECT count(*) FROM mq.grading_callback";
    // It has been tried: for a while no other relay gets it.
    let began = Instant::now();
    while scene.of_grader::<i64>(&format!("{waits} WHERE available_at > clock_timestamp()")).await == 0 {
        assert!(began.elapsed() < PATIENCE, "nobody tries to publish it");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.of_grader::<i64>(waits).await, 1, "nobody has it yet");
    let broker = &scene.topics.as_ref().expect("topics").broker;
    broker.create_topic("projects/acme/topics/later").expect("made");
    while scene.of_grader::<i64>(waits).await == 1 {
        assert!(began.elapsed() < PATIENCE, "it is not published");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    link.stop().await;
}

/// A consumer's own database is away: what has come is held, and given up by nobody.
#[tokio::test]
async fn what_comes_while_the_database_is_away_is_put_into_its_queue_later() {
    let scene = Scene::apart().await;
    let main = scene.main_side();
    let (_, attempt) = scene.written("essay", &essay("")).await;
    scene.until(attempt, &["QUEUED"]).await;
    scene.until_so("NOT EXISTS (SELECT FROM mq.grading_request)").await;
    let (db, eyes) = scene.apart.as_ref().expect("a database");
    let shut =
        |rights: &str| format!("{rights} EXECUTE ON FUNCTION mq.request_arrived(uuid, jsonb, timestamptz)");
    let owner = db.owner().await.expect("the owner");
    owner.batch_execute(&format!("{} FROM maple_grader", shut("REVOKE"))).await.expect("revoked");
    let link = scene.graders_link();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let arrived = "SELECT count(*) FROM mq.grading_request WHERE arrived";
    assert_eq!(eyes.query_one(arrived, &[]).await.expect("asked").get::<_, i64>(0), 0);
    owner.batch_execute(&format!("{} TO maple_grader", shut("GRANT"))).await.expect("granted");
    let began = Instant::now();
    while scene.of_grader::<i64>(arrived).await == 0 {
        assert!(began.elapsed() < PATIENCE, "it is put nowhere");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(scene.of_grader::<i64>("SELECT count(*) FROM mq.grading_dlq").await, 0);
    link.stop().await;
    main.stop().await;
}

#[tokio::test]
async fn what_no_queue_can_hold_is_buried_and_stops_nothing() {
    let scene = Scene::new().await;
    let models = Models::new().await;
    scene.calibrate().await;
    let working = (scene.main_side(), scene.grader(&models));
    for queue in QueueName::ALL {
        for bytes in [&b"\xff\xfe"[..], b"{", b"", br#"{"a": "\u0000"}"#, b"[1]"] {
            scene.publish(*queue, bytes);
        }
    }
    let (_, attempt) = scene.written("essay", &essay("[[score 7.5]]")).await;
    assert_eq!(scene.until(attempt, &["COMPLETED", "REVIEW_PENDING", "FAILED"]).await, "COMPLETED");
    scene.until_so("(SELECT count(*) = 10 FROM mq.grading_dlq)").await;
    let by_reason = "SELECT string_agg(x.said, '; ' ORDER BY x.said) FROM (SELECT concat_ws(' ', queue, reason, count(*)) AS said
        FROM mq.grading_dlq GROUP BY queue, reason) x";
    assert_eq!(scene.one::<String>(by_reason).await, "callback unreadable 5; request unreadable 5");
    let evidence: Value =
        scene.one("SELECT payload FROM mq.grading_dlq WHERE queue = 'request' AND payload ? 'bytes' ORDER BY payload->'bytes' DESC LIMIT 1").await;
    assert_eq!(evidence["bytes"], json!(15), "its size alone: {evidence}");
    assert_eq!(
        scene.count("router.grey_queue WHERE cause = 'grading_message'").await,
        10,
        "a person has each"
    );
    working.1.stop().await;
    working.0.stop().await;
}

/// In one database a message may arrive before its relay has recorded that it was published; and it may arrive twice.
#[tokio::test]
async fn what_has_arrived_is_taken_in_and_what_has_not_is_still_the_producers() {
    let scene = Scene::new().await;
    let pools = [scene.store.pool().clone(), scene.jobs.pool().clone()];
    let main = Ends::new(pools[0].clone(), QueueName::Request);
    let grader = Ends::new(pools[1].clone(), QueueName::Callback);
    let queue = Queue::new(pools[1].clone(), QueueName::Request).linked(true);
    let [first, second] = [Uuid::new_v4(), Uuid::new_v4()];
    for id in [first, second] {
        scene.send("request", id, &json!({"kind": "cancel"})).await;
    }
    assert!(queue.page(10).await.expect("looked").is_empty(), "nothing has arrived");
    let sent = main.to_send(10, PATIENCE).await.expect("looked");
    assert_eq!(sent.len(), 2);
    assert!(main.to_send(10, PATIENCE).await.expect("looked").is_empty(), "another relay has them");
    let [one, _] = &sent[..] else { panic!("two") };
    for _ in 0..2 {
        grader.arrived(one.id, &one.payload, one.written).await.expect("put in");
    }
    assert_eq!(queue.page(10).await.expect("looked"), [one.id], "at once, though it is leased to a relay");
    main.sent(&[first, second]).await.expect("taken out");
    assert_eq!(queue.page(10).await.expect("looked"), [one.id], "it has arrived, and stays");
    assert_eq!(scene.count("mq.grading_request").await, 1);
}

#[tokio::test]
async fn check_is_content_with_a_grader_in_a_database_of_its_own() {
    let scene = Scene::apart().await;
    let (db, _) = scene.apart.as_ref().expect("a database");
    let line = async |url: &str| -> Value {
        let (_, report) = said(&scene, &["check"], &format!("grader_url = \"{url}\"\n")).await;
        let lines = report["lines"].as_array().expect("lines").clone();
        lines.into_iter().find(|line| line["name"] == "grader").expect("the line")
    };
    let well = line(&db.url_as("maple_grader")).await;
    assert_eq!(well["level"], json!("ok"), "{well}");
    let other = line(&db.url_as("forms_app")).await;
    assert_eq!(other["level"], json!("fail"), "{other}");
    assert!(other["remedy"].as_str().expect("a remedy").contains("--grader"), "{other}");
}

/// A topic keeps no order: a request may come after its submission was emptied.
#[tokio::test]
async fn a_request_that_comes_after_its_end_becomes_no_job() {
    let scene = Scene::apart().await;
    let (submission, request) = (Uuid::new_v4(), Uuid::new_v4());
    let accept = async |request: Uuid| -> Result<Accepted, DbError> {
        let deadline = "2030-01-01T00:00:00Z".parse().expect("a time");
        let accepted = scene.jobs.pool().transaction("grading_take", async |tx| {
            let document = json!({"text": PLANTED});
            scene.jobs.accept(&tx, (request, submission, 1), Skill::Writing, &document, deadline).await
        });
        accepted.await
    };
    let forgotten =
        scene.jobs.pool().transaction("grading_take", async |tx| scene.jobs.forget(&tx, submission).await);
    assert_eq!(forgotten.await.expect("forgotten"), 0);
    assert_eq!(accept(request).await.expect("answered"), Accepted::Forgotten);
    assert_eq!(accept(Uuid::new_v4()).await.expect("answered"), Accepted::Forgotten);
    assert_eq!(scene.of_grader::<i64>("SELECT count(*) FROM grading.jobs").await, 0);
    // When no topic can have it any more, the mark goes.
    let (_, eyes) = scene.apart.as_ref().expect("a database");
    for (age, left) in [("34 days", 1_i64), ("36 days", 0)] {
        let older = format!("UPDATE grading.forgotten SET at = now() - interval '{age}'");
        eyes.batch_execute(&older).await.expect("older");
        scene.jobs.empty(PATIENCE, 10).await.expect("looked");
        assert_eq!(scene.of_grader::<i64>("SELECT count(*) FROM grading.forgotten").await, left, "{age}");
    }
}

#[tokio::test]
async fn the_graders_database_is_made_and_taken_back_alone() {
    let scene = Scene::apart().await;
    let mut owner = scene.db.owner().await.expect("the owner");
    let refused =
        migrate_upper(&mut owner, &GRADER, Patience::default(), &|_| ()).await.expect_err("both sides");
    assert!(matches!(refused, MigrateError::BothSides) && refused.to_string().contains("migrate --grading"));
    let (db, eyes) = scene.apart.as_ref().expect("a database");
    let grader = db.client_as("maple_grader").await.expect("a connection");
    for sql in ["SELECT FROM submissions", "SELECT mq.requests_to_send(1, 1)", "SELECT FROM mq.grading_dlq"] {
        let denied = grader.batch_execute(sql).await.expect_err(sql);
        assert_eq!(denied.code().map(tokio_postgres::error::SqlState::code), Some("42501"), "{sql}");
    }
    let mut owner = db.owner().await.expect("the owner");
    back_upper(&mut owner, &GRADER, "002", Patience::default(), &|_| ()).await.expect("taken back");
    let left = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('mq', 'grading') AND c.relkind = 'r' AND c.relname <> 'history'";
    assert_eq!(eyes.query_one(left, &[]).await.expect("asked").get::<_, i64>(0), 0);
    let again = migrate_upper(&mut owner, &GRADER, Patience::default(), &|_| ()).await.expect("applied");
    assert_eq!(again.len(), 1);
}

/// A verb beside the broker, with `more` in section `grading`: its exit code and its JSON.
async fn said(scene: &Scene, verb: &[&str], more: &str) -> (Option<i32>, Value) {
    let topics = scene.topics.as_ref().expect("topics");
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    let text = format!(
        "[source]\nkind = \"postgres\"\n[mail]\nfrom = \"a@example.org\"\n[database]\nurl = \"{}\"\n{}[grading]\ntransport = \"pubsub\"\n{more}",
        scene.db.url_as("forms_app"),
        topics.toml(),
    );
    std::fs::write(&config, text).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_maple-router"))
        .env_clear()
        .arg("--config")
        .arg(&config)
        .args(verb)
        .arg("--json")
        .output()
        .await
        .expect("it runs");
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!(
            "{verb:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (output.status.code(), said)
}

#[tokio::test]
async fn the_topics_are_provisioned_and_looked_at() {
    let scene = Scene::new().await;
    let broker = &scene.topics.as_ref().expect("topics").broker;
    let line = async || -> Value {
        let (_, report) = said(&scene, &["check"], "").await;
        let lines = report["lines"].as_array().expect("lines").clone();
        lines.into_iter().find(|line| line["name"] == "grading_topics").expect("the line")
    };
    assert_eq!(line().await["level"], json!("ok"));
    let subscription = "projects/acme/subscriptions/grading-callback";
    broker.delete_subscription(subscription).expect("deleted");
    let missing = line().await;
    assert_eq!(missing["level"], json!("fail"), "{missing}");
    assert!(missing["remedy"].as_str().expect("a remedy").contains("maple-router provision"), "{missing}");
    let (exit, report) = said(&scene, &["provision"], "").await;
    assert_eq!(exit, Some(0), "{report}");
    let made: Vec<String> = report["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| {
            format!("{} {}", step["what"].as_str().expect("what"), step["state"].as_str().expect("state"))
        })
        .collect();
    assert_eq!(
        made,
        [
            "topic projects/acme/topics/grading-request exists",
            "subscription projects/acme/subscriptions/grading-request exists",
            "topic projects/acme/topics/grading-callback exists",
            "subscription projects/acme/subscriptions/grading-callback created",
        ]
    );
    assert_eq!(line().await["level"], json!("ok"));
}

/// A clock that is six minutes ahead: what was just lost has been lost for as long.
#[derive(Debug)]
struct Ahead;

impl Clock for Ahead {
    fn monotonic(&self) -> Instant {
        Instant::now() + Duration::from_secs(360)
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(pause).boxed()
    }
}

/// No deadline is acted on while callbacks cannot come: somebody has to hear of that.
#[tokio::test]
async fn whoever_cannot_hear_the_grader_says_so() {
    let scene = Scene::new().await;
    let link = scene.link(scene.store.pool(), QueueName::Request).expect("a link");
    let (incidents, _open) = Incidents::new();
    let watch = GradingWatch {
        store: scene.store.clone(),
        arrivals: Some(link.arrivals.clone()),
        clock: Arc::new(Ahead),
        incidents: incidents.clone(),
    };
    let raised = async || {
        watch.look(&mut None).await.expect("looked");
        incidents.keys().contains(&STALLED)
    };
    assert!(!raised().await, "nothing is known yet");
    let subscription = "projects/acme/subscriptions/grading-callback";
    let broker = &scene.topics.as_ref().expect("topics").broker;
    broker.delete_subscription(subscription).expect("deleted");
    assert!(!link.has_everything().await);
    assert!(raised().await);
    assert_eq!(said(&scene, &["provision"], "").await.0, Some(0));
    link.has_everything().await;
    assert!(!raised().await, "it is within reach again");
}
