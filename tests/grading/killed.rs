//! The grader's process: what it shows, and how it dies. Graders are killed while they work: each attempt has its result, once, and a call that was paid for is paid for again only where nobody
//! knows what it said.

use std::path::{Path, PathBuf};
use std::time::Duration;

use devkit::grader::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::harness::{Models, PATIENCE, PLANTED, Scene, Topics, essay};

/// Requests, and samples of each.
const REQUESTS: u64 = 40;
const SAMPLES: u64 = 3;
/// Graders at once, and how often all of them are killed.
const GRADERS: usize = 3;
const ROUNDS: u64 = 3;

/// What a killed process leaves behind ends within this time.
const GONE: Duration = Duration::from_millis(300);

/// A configuration file of the grader, with `more` in its section.
fn configured(scene: &Scene, models: &Models, dir: &Path, more: &str) -> PathBuf {
    let linked = scene.topics.as_ref().map(Topics::toml).unwrap_or_default();
    let transport = scene.topics.as_ref().map_or("postgres", |_| "pubsub");
    let grader_url = scene.db.url_as("maple_grader");
    let room = models.toml(&format!("grader_url = \"{grader_url}\"\ntransport = \"{transport}\"\n{more}"));
    let text = format!(
        "[source]\nkind = \"postgres\"\n[mail]\nfrom = \"a@example.org\"\n[database]\nurl = \"{}\"\n{linked}{room}",
        scene.db.url_as("forms_app")
    );
    let config = dir.join("config.toml");
    std::fs::write(&config, text).expect("written");
    config
}

fn grader(config: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_maple-router"))
        .env_clear()
        .arg("--config")
        .arg(config)
        .arg("grade")
        .kill_on_drop(true)
        .spawn()
        .expect("it starts")
}

async fn signalled(grader: &mut Child, signal: Signal) -> std::process::ExitStatus {
    let pid = i32::try_from(grader.id().expect("it runs")).expect("a pid");
    kill(Pid::from_raw(pid), signal).expect("a signal");
    tokio::time::timeout(PATIENCE, grader.wait()).await.expect("in time").expect("it ends")
}

#[tokio::test]
async fn whoever_is_killed_costs_a_call_at_most_and_no_result() {
    let scene = Scene::new().await;
    let models = Models::new().await;
    scene.calibrate().await;
    // Every callback comes twice, each at its own time.
    scene
        .sql(
            "CREATE FUNCTION public.doubled() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
               NEW.available_at := clock_timestamp() + random() * interval '400 ms';
               IF pg_trigger_depth() = 1 AND NOT NEW.arrived THEN
                 INSERT INTO mq.grading_callback (message_id, payload) VALUES (gen_random_uuid(), NEW.payload);
               END IF;
               RETURN NEW; END $$;
             CREATE TRIGGER aa_doubled BEFORE INSERT ON mq.grading_callback FOR EACH ROW EXECUTE FUNCTION public.doubled()",
        )
        .await;
    let dir = tempfile::tempdir().expect("a directory");
    let config = configured(&scene, &models, dir.path(), "");
    let mut attempts: Vec<Uuid> = Vec::new();
    for number in 0..REQUESTS {
        attempts.push(scene.written("essay", &essay(&format!("[[score 7.5]] {number}"))).await.1);
    }
    let main = scene.main_side();
    let mut kills = 0;
    for round in 1..=ROUNDS {
        let mut graders: Vec<Child> = (0..GRADERS).map(|_| grader(&config)).collect();
        let enough = round * REQUESTS * SAMPLES / (ROUNDS + 1);
        models.scripted.wait_for(Kind::Grading, enough, PATIENCE).await.expect("they are at work");
        for grader in &mut graders {
            signalled(grader, Signal::SIGKILL).await;
            kills += 1;
        }
        tokio::time::sleep(GONE).await;
        scene.sql("UPDATE grading.jobs SET leased_until = now() - interval '1 s' WHERE leased_until IS NOT NULL").await;
    }
    assert!(scene.count("grading.jobs WHERE ended_at IS NULL").await > 0, "they were killed before the end");
    let mut last = grader(&config);
    for attempt in &attempts {
        scene.until(*attempt, &["COMPLETED", "FAILED", "REVIEW_PENDING"]).await;
    }
    scene.until_so("NOT EXISTS (SELECT FROM mq.grading_callback)").await;
    let status = signalled(&mut last, Signal::SIGTERM).await;
    assert_eq!(status.code(), Some(0), "whoever is asked to leaves in order");
    main.stop().await;
    let all = i64::try_from(REQUESTS).expect("few");
    assert_eq!(scene.count("assessment.submissions WHERE state = 'COMPLETED'").await, all);
    assert_eq!(scene.count("assessment.results WHERE kind = 'final'").await, all);
    assert_eq!(scene.count("assessment.results WHERE kind = 'ai' AND NOT dup AND NOT is_late").await, all);
    assert_eq!(scene.count("assessment.results WHERE dup OR is_late").await, 0);
    assert_eq!(
        scene.count("router.outbox WHERE payload->>'reason' = 'graded'").await,
        all,
        "each is announced once"
    );
    assert_eq!(scene.count("grading.steps WHERE NOT copied").await, all * 3);
    assert_eq!((scene.dead().await.len(), scene.count("router.grey_queue").await), (0, 0));
    let paid = models.scripted.calls(Kind::Grading);
    assert!(
        (REQUESTS * SAMPLES..=REQUESTS * SAMPLES + kills).contains(&paid),
        "{paid} calls for {} samples and {kills} deaths",
        REQUESTS * SAMPLES
    );
}

/// Its own endpoint: what it was answered, and whether it works.
#[tokio::test]
async fn a_grader_shows_its_calls_and_whether_it_is_ready() {
    let scene = Scene::new().await;
    let models = Models::new().await;
    scene.calibrate().await;
    let dir = tempfile::tempdir().expect("a directory");
    let port = devkit::port::free_port().expect("a port");
    let listen = format!("metrics_listen = \"127.0.0.1:{port}\"");
    let config = configured(&scene, &models, dir.path(), &listen);
    let main = scene.main_side();
    let mut process = grader(&config);
    let (_, attempt) = scene.written("essay", &essay("[[score 7.5]]")).await;
    scene.until(attempt, &["COMPLETED"]).await;
    let shown = async |path: &str| {
        let answer = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a text"))
    };
    let (status, metrics) = shown("/metrics").await;
    let calls = |kind: &str, outcome: &str| {
        format!("maple_router_grading_calls_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}")
    };
    for (kind, outcome, expected) in
        [("sample", "answered", SAMPLES), ("sample", "invalid", 0), ("transcribe", "answered", 0)]
    {
        let line = format!("{} {expected}", calls(kind, outcome));
        assert!(metrics.lines().any(|shown| shown == line), "{line}: {metrics}");
    }
    assert!(!metrics.contains(PLANTED));
    assert_eq!((status, shown("/-/ready").await.0), (200, 200));
    assert_eq!(signalled(&mut process, Signal::SIGTERM).await.code(), Some(0));
    main.stop().await;
}
