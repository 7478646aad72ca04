//! The real process: failures it made itself are reported, and Slack holds up nothing.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::slack::{Mishap, SlackMessage};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Router, Stage, StageOptions};

/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SOON: &str = "[slack]\ngroup_wait = \"3s\"\n";

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

async fn stage() -> Stage {
    let options = StageOptions { sample_forms: false, ..StageOptions::default() };
    let stage = Stage::start(options).await.expect("a stage");
    let forms = [Form::new("f").mail_to("bob@x.test"), Form::new("g").mail_to("ann@x.test")];
    devkit::forms::load_into(&stage.database, &forms).await.expect("forms");
    stage.relay.rule(Rule::at(At::Rcpt).to("bob@x.test").reply("550 5.1.1 <bob@x.test>: User unknown"));
    stage
}

async fn submit(stage: &Stage, form: &str, count: usize) {
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    for _ in 0..count {
        let id = SubmissionSeed::of(form).insert(&backend).await.expect("a row").id;
        stage.publish(id, "finalized").expect("published");
    }
}

async fn until(what: &str, router: &Router, so: impl AsyncFn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no {what} after {PATIENCE:?}:\n{}", router.log());
}

async fn unalerted(stage: &Stage) -> i64 {
    let report = stage.verb(binary(), &["status", "--json"]).await.expect("status").json().expect("JSON");
    report["unalerted"].as_i64().expect("a count")
}

async fn count(stage: &Stage, status: &str) -> i64 {
    let eyes = stage.database.superuser().await.expect("superuser");
    let sql = "SELECT count(*) FROM submissions WHERE status::text = $1";
    eyes.query_one(sql, &[&status]).await.expect("a count").get(0)
}

#[tokio::test]
async fn what_the_daemon_fails_is_reported_confirmed_and_counted() {
    let stage = stage().await;
    let mut router = stage.router(binary(), "one", SOON).await.expect("a process");
    router.ready().await.expect("ready");
    submit(&stage, "f", 20).await;
    let eyes = stage.database.superuser().await.expect("superuser");
    let confirmed = "SELECT count(*) FROM submissions
        WHERE routing_result#>>'{alert,for}' = routing_result#>>'{finished,token}'
          AND routing_result#>>'{alert,confirmed_at}' IS NOT NULL";
    until("confirmation of all", &router, async || {
        eyes.query_one(confirmed, &[]).await.expect("a count").get::<_, i64>(0) == 20
    })
    .await;
    assert_eq!(unalerted(&stage).await, 0);
    let texts: Vec<String> = stage.slack.messages().iter().map(SlackMessage::visible_text).collect();
    // Twenty failures take a moment: failures after the first message are in the next.
    assert!(texts.len() <= 2, "{texts:?}");
    let all = texts.join("\n");
    assert!(all.contains("RCPT 550 5.1.1") && all.contains("rb-009-routing-failure.md"), "{all}");
    assert!(all.contains("User unknown") && !all.contains("bob") && !all.contains('@'), "{all}");
    let sent = router.metric("maple_router_alerts_total{result=\"sent\"}").await.expect("metrics");
    let folded = router.metric("maple_router_alerts_total{result=\"suppressed\"}").await.expect("metrics");
    assert_eq!(sent.unwrap_or_default() + folded.unwrap_or_default(), 20.0);
    assert!(router.log().contains("\"event\":\"alert_sent\""), "{}", router.log());
    // The command it names is one that works.
    let command = all.lines().find_map(|line| line.split_once("maple-router explain ")).expect("a command").1;
    let id = command.trim_end_matches('`');
    let explained = stage.verb(binary(), &["explain", id]).await.expect("explained");
    assert!(explained.out.contains("Slack took its alert at"), "{explained:?}");
    let secret = stage.slack.webhook_url();
    let secret = secret.rsplit('/').next().expect("a secret");
    assert!(!router.log().contains(secret), "the webhook is a secret");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

#[tokio::test]
async fn slack_that_hangs_or_is_gone_holds_up_neither_routing_nor_a_stop() {
    let mut stage = stage().await;
    stage.slack.script().next(1, Mishap::Hang);
    let short = "[slack]\ngroup_wait = \"1s\"\ntimeout = \"2s\"\n";
    let mut router = stage.router(binary(), "one", short).await.expect("a process");
    router.ready().await.expect("ready");
    submit(&stage, "f", 5).await;
    until("try", &router, async || stage.slack.attempts() > 0).await;
    submit(&stage, "g", 20).await;
    until("routing", &router, async || count(&stage, "routed").await == 20).await;
    stage.slack.down().await;
    submit(&stage, "f", 5).await;
    until("failures", &router, async || count(&stage, "failed").await == 10).await;
    until("deferral", &router, async || router.log().contains("\"event\":\"alert_deferred\"")).await;
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
    assert_eq!(unalerted(&stage).await, 10, "nothing is lost with the process");
    // The next one tells.
    stage.slack.up().await.expect("back");
    let mut next = stage.router(binary(), "two", short).await.expect("a process");
    next.ready().await.expect("ready");
    until("confirmation", &next, async || unalerted(&stage).await == 0).await;
    assert!(next.stop().await.expect("stops").success(), "{}", next.log());
    assert!(!router.log().contains(stage.slack.webhook_url().rsplit('/').next().expect("a secret")));
}

#[tokio::test]
async fn without_a_webhook_nobody_is_notified_and_status_says_so() {
    let stage = stage().await;
    let file = format!("webhook_file = \"{}\"\n", stage.webhook_file().display());
    let text = stage.config("bare", 0, "").replace(&file, "");
    let config = stage.write_config("bare", &text).expect("written");
    let log = stage.dir().join("bare.log");
    let out = std::fs::File::create(&log).expect("a log");
    let mut child = tokio::process::Command::new(binary())
        .env_clear()
        .env("GCE_METADATA_HOST", stage.google.metadata_host())
        .env("CREDENTIALS_DIRECTORY", stage.dir())
        .args(["--config".as_ref(), config.as_os_str(), "run".as_ref()])
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a handle"))
        .stderr(out)
        .kill_on_drop(true)
        .spawn()
        .expect("a process");
    std::fs::remove_file(stage.webhook_file()).expect("no credential either");
    submit(&stage, "f", 2).await;
    for _ in 0..1200 {
        if count(&stage, "failed").await == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let log = std::fs::read_to_string(log).expect("a log");
    assert_eq!(log.matches("slack.webhook_file is not configured").count(), 1, "{log}");
    let report =
        stage.ask(binary(), &config, &["status", "--json"]).await.expect("status").json().expect("JSON");
    assert_eq!(report["unalerted"], 2, "{report}\n{log}");
    assert_eq!(stage.slack.attempts(), 0);
    child.kill().await.expect("ended");
}
