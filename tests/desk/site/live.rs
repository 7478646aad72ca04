//! The stream that the pages' script listens to.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::scene::{self, PLAIN};
use crate::harness::{Bench, Opened, PATIENCE};

async fn stream(desk: &Opened, cookie: &str) -> Response {
    let request = desk.ask(Method::GET, "/live").header("accept", "text/event-stream");
    request.header("cookie", cookie).send().await.expect("an answer")
}

/// The data of the stream's next event, while the clock moves on: each look waits for it.
async fn next(bench: &Bench, answer: &mut Response) -> Value {
    let told = async {
        let mut text = String::new();
        loop {
            let chunk = answer.chunk().await.expect("a chunk").expect("it goes on");
            text.push_str(std::str::from_utf8(&chunk).expect("text"));
            let data = text.lines().find_map(|line| line.strip_prefix("data: "));
            if let Some(data) = data.filter(|_| text.ends_with("\n\n")) {
                return serde_json::from_str(data).expect("JSON");
            }
        }
    };
    let moving = async {
        loop {
            bench.clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let seen = async {
        tokio::select! { value = told => value, () = moving => unreachable!() }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("in time")
}

#[tokio::test]
async fn a_page_hears_of_a_decision_and_of_nothing_that_people_wrote() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let submission = bench.refused(PLAIN).await;
    let (entry, version) = bench.entry(submission).await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    let mut live = stream(&desk, &cookie).await;
    assert_eq!(
        (live.status().as_u16(), &live.headers()["content-type"]),
        (200, &"text/event-stream".parse().expect("a value"))
    );
    let change = |version: i64, state: &str| json!({"id": entry, "version": version, "state": state});
    assert_eq!(next(&bench, &mut live).await, change(version, "Pending"), "of the seconds before, too");
    let sql = "UPDATE router.grey_queue SET state = 'UnderReview', assignee = 'ben', version = version + 1 WHERE id = $1";
    bench.eyes.execute(sql, &[&entry]).await.expect("decided");
    assert_eq!(next(&bench, &mut live).await, change(version + 1, "UnderReview"));
}

#[tokio::test]
async fn nobody_hears_anything_without_a_login() {
    let bench = scene::bench().await;
    let desk = scene::open(&bench).await;
    let answer = stream(&desk, &format!("__Host-desk={}", "A".repeat(43))).await;
    assert_eq!(answer.status(), 401);
}
