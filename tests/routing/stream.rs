//! The stream is half open: nothing comes, nothing ends, and nobody but a canary can tell.

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::StageOptions;

use crate::harness::{Scene, lines};

#[tokio::test]
async fn an_overdue_canary_has_a_half_open_stream_built_anew() {
    // The sweep would find what lies there only much later.
    let forms = [Form::new("f").mail_to("a@x.test")];
    let scene = Scene::with(StageOptions::default(), &forms, "[canary]\ninterval = \"1s\"").await;
    let before = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(before).await.status, "routed");
    scene.stage.broker.forget_connections();
    scene.await_line("doubt", |line| line["event"] == "canary" && line["times"] == 1).await;
    let after = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(after).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.await_line("news", |line| line["event"] == "canary" && line["times"].is_null()).await;
    let rebuilt = |line: &serde_json::Value| line["event"] == "stream_rebuilt";
    assert!(lines(&scene.router).iter().any(rebuilt), "{}", scene.router.log());
    scene.stop().await;
}

#[tokio::test]
async fn canaries_of_a_living_stream_trouble_nobody() {
    let forms = [Form::new("f").mail_to("a@x.test")];
    let scene = Scene::with(StageOptions::default(), &forms, "[canary]\ninterval = \"1s\"").await;
    let stats = || scene.stage.broker.stats(devkit::stage::SUBSCRIPTION).expect("stats");
    scene.until("canaries", async || stats().acked >= 3).await;
    assert_eq!(stats().nacked, 0, "{:?}", stats());
    assert!(!scene.router.log().contains("\"canary\""), "{}", scene.router.log());
    scene.stop().await;
}
