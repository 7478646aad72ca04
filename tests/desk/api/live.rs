//! The stream of changes.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::bench::Api;
use crate::harness::PATIENCE;

/// A stream that is read event by event.
struct Events {
    answer: Response,
    rest: String,
}

impl Events {
    async fn open(api: &Api, who: &str) -> Self {
        let request =
            api.ask(who, Method::GET, "/api/grey-queue/changes").header("accept", "text/event-stream");
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut events = Self { answer, rest: String::new() };
        assert_eq!(events.next().await.0, "ready");
        events
    }

    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.rest = rest;
                let field =
                    |name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                if let (Some(event), Some(data)) = (field("event: "), field("data: ")) {
                    return (event, serde_json::from_str(&data).expect("JSON"));
                }
                continue;
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.answer.chunk()).await.expect("in time").expect("a chunk");
            self.rest.push_str(std::str::from_utf8(&chunk.expect("it goes on")).expect("text"));
        }
    }
}

/// Lets the looks go on until `seen` ends: each waits for the clock.
async fn while_time_passes<T>(api: &Api, seen: impl Future<Output = T>) -> T {
    let moving = async {
        loop {
            api.bench.clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! { value = seen => value, () = moving => unreachable!() }
}

#[tokio::test]
async fn each_change_is_told_once_to_every_stream() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let (mut one, mut two) = (Events::open(&api, "vera").await, Events::open(&api, "rita").await);
    let change = |version: i64, state: &str, assignee: Value| {
        let data = json!({"id": seen.id, "version": version, "state": state, "assignee": assignee});
        ("change".to_owned(), data)
    };
    let pending = change(1, "Pending", Value::Null);
    assert_eq!(while_time_passes(&api, one.next()).await, pending, "of the seconds before, too");
    assert_eq!(while_time_passes(&api, two.next()).await, pending);
    let (assigned, _) = api.done("rita", seen, "assign", json!({})).await;
    let reviewed = change(2, "UnderReview", json!("rita"));
    assert_eq!(while_time_passes(&api, one.next()).await, reviewed, "and nothing twice before it");
    assert_eq!(while_time_passes(&api, two.next()).await, reviewed);
    api.done("rita", assigned, "unassign", json!({})).await;
    assert_eq!(while_time_passes(&api, one.next()).await, change(3, "Pending", Value::Null));
}

/// A transaction that takes long: its change has an earlier time than those that were told before its commit.
#[tokio::test]
async fn a_change_that_is_committed_late_is_told_all_the_same() {
    let api = Api::new().await;
    let (late, early) = (api.pending().await, api.pending().await);
    let mut events = Events::open(&api, "vera").await;
    for _ in 0..2 {
        while_time_passes(&api, events.next()).await;
    }
    let mut other = api.bench.db.superuser().await.expect("superuser");
    let tx = other.transaction().await.expect("a transaction");
    let sql = "UPDATE router.grey_queue SET version = 7 WHERE id = $1";
    tx.execute(sql, &[&late.id]).await.expect("changed");
    api.done("rita", early, "assign", json!({})).await;
    let told = while_time_passes(&api, events.next()).await.1;
    assert_eq!((&told["id"], &told["version"]), (&json!(early.id), &json!(2)));
    tx.commit().await.expect("committed");
    let told = while_time_passes(&api, events.next()).await.1;
    assert_eq!((&told["id"], &told["version"]), (&json!(late.id), &json!(7)));
}

#[tokio::test]
async fn the_database_is_looked_at_only_while_somebody_watches() {
    let api = Api::new().await;
    assert!(!api.live.is_looking());
    let (one, two) = (Events::open(&api, "vera").await, Events::open(&api, "vera").await);
    assert_eq!((api.live.watchers(), api.live.is_looking()), (2, true));
    drop((one, two));
    let over = async {
        while api.live.is_looking() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, while_time_passes(&api, over)).await.expect("it ends");
    assert_eq!(api.live.watchers(), 0);
    let seen = api.pending().await;
    let mut again = Events::open(&api, "vera").await;
    assert_eq!(while_time_passes(&api, again.next()).await.1["id"], json!(seen.id));
}

#[tokio::test]
async fn too_many_changes_are_not_told_but_that_there_are() {
    let api = Api::new().await;
    let mut events = Events::open(&api, "vera").await;
    api.many(2_001).await;
    assert_eq!(while_time_passes(&api, events.next()).await, ("reload".to_owned(), json!({})));
}
