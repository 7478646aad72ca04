//! Learners' streams, many at once and for long: each misses nothing and is told nothing of another, signs of life come every half a minute, and
//! after half an hour a stream ends and its browser comes again. The desk's clock goes only as far as a test moves it.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use uuid::Uuid;

use super::bench::Api;
use super::grading::{Events, cookie};
use crate::works::result;

/// Streams at once.
const MANY: usize = 1_000;
/// Streams that are opened at once: the desk has room for some requests more.
const OPENING: usize = 32;

/// So many submissions whose attempts are being graded, in one transaction.
async fn handed_in(api: &Api, count: usize) -> Vec<Uuid> {
    let sql = format!(
        "BEGIN;
         CREATE TEMP TABLE fresh AS SELECT gen_random_uuid() AS id FROM generate_series(1, {count});
         INSERT INTO submissions (id, form_id) SELECT id, 'essay' FROM fresh;
         INSERT INTO submission_fields (submission_id, field_key, field_value, position) SELECT id, 'answer', 'A text.', 1 FROM fresh;
         COMMIT"
    );
    api.bench.eyes.batch_execute(&sql).await.expect("finalized");
    let rows = api.bench.eyes.query("SELECT id FROM fresh ORDER BY id", &[]).await.expect("they are there");
    let all: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(all.len(), count);
    move_all(api, &all, ("PENDING", "QUEUED"), "request-published").await;
    move_all(api, &all, ("QUEUED", "PROCESSING"), "picked-up").await;
    all
}

/// All these attempts go on in one transaction, with a final result where they are completed.
async fn move_all(api: &Api, all: &[Uuid], (from, to): (&str, &str), trigger: &str) {
    let eyes = &api.bench.eyes;
    let reason = (to == "FAILED").then_some("timeout");
    eyes.batch_execute("BEGIN").await.expect("begun");
    if to == "COMPLETED" {
        let kept = "INSERT INTO assessment.results (request_id, kind, try, result, digest, score, band, actor)
            SELECT a.id, 'final', 1, $2, repeat('a', 64), 7.5, 'B2', 'system' FROM assessment.submissions a WHERE a.subject = ANY($1)";
        eyes.execute(kept, &[&all, &result(7.5, "B2")]).await.expect("results");
    }
    let moved = "UPDATE assessment.submissions SET state = $2, version = version + 1, failed_reason = $3 WHERE subject = ANY($1) AND state = $4";
    let moved = eyes.execute(moved, &[&all, &to, &reason, &from]).await.expect("moved");
    assert_eq!(usize::try_from(moved), Ok(all.len()), "each of them");
    let event =
        "INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type)
        SELECT a.id, $2, $3, $4, 'system', 'system' FROM assessment.submissions a WHERE a.subject = ANY($1)";
    eyes.execute(event, &[&all, &from, &to, &trigger]).await.expect("recorded");
    eyes.batch_execute("COMMIT").await.expect("committed");
}

/// A stream of each of these, by a cookie of its own.
async fn opened(api: &Api, all: &[Uuid]) -> Vec<(Uuid, Events)> {
    let opening = stream::iter(all.iter().copied()).map(async |submission| {
        let cookie = cookie(api, submission).await;
        (submission, Events::open(api, submission, &cookie, None).await)
    });
    opening.buffer_unordered(OPENING).collect().await
}

/// The next event of each stream is this one, about its own submission.
async fn each_is_told(streams: &mut [(Uuid, Events)], name: &str, score: Option<f64>) {
    for (submission, events) in streams {
        let (told, _, data) = events.next().await;
        assert_eq!(told, name, "{submission}: {data}");
        assert_eq!(data["submission"], submission.to_string(), "{data}");
        assert_eq!(data["result"]["overallScore"].as_f64(), score, "{data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_miss_nothing_and_are_told_nothing_of_others() {
    let api = Api::graded(|_| ()).await;
    let all = handed_in(&api, MANY).await;
    let mut streams = opened(&api, &all).await;
    // A read that found no free connection in time is tried again two seconds later.
    let clock = Arc::clone(&api.bench.clock);
    let moving = tokio::spawn(async move {
        loop {
            clock.advance(Duration::from_millis(100));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    for _ in 0..3 {
        each_is_told(&mut streams, "grading.progress", None).await;
    }
    // All at once: more than a look takes with what is still in its overlap.
    move_all(&api, &all, ("PROCESSING", "ERROR"), "try-failed").await;
    move_all(&api, &all, ("ERROR", "RETRYING"), "retry").await;
    move_all(&api, &all, ("RETRYING", "PROCESSING"), "retry-due").await;
    for _ in 0..3 {
        each_is_told(&mut streams, "grading.progress", None).await;
    }
    streams.sort_by_key(|(submission, _)| *submission);
    let (failing, completing) = all.split_at(MANY / 2);
    move_all(&api, completing, ("PROCESSING", "COMPLETED"), "completed").await;
    move_all(&api, failing, ("PROCESSING", "FAILED"), "timeout").await;
    each_is_told(&mut streams[..MANY / 2], "grading.failed", None).await;
    each_is_told(&mut streams[MANY / 2..], "grading.completed", Some(7.5)).await;
    moving.abort();
    // Whatever were told twice, or to another, would come before these.
    api.bench.clock.advance(Duration::from_secs(30));
    for (submission, events) in &mut streams {
        assert_eq!(events.block().await, ": ping", "{submission}");
    }
    api.bench.clock.advance(Duration::from_secs(1_800));
    for (submission, events) in &mut streams {
        assert_eq!(
            events.rest().await.replace(": ping", "").trim(),
            "",
            "{submission} has ended, and nothing before it"
        );
    }
}

#[tokio::test]
async fn a_stream_pings_each_half_minute_ends_after_half_an_hour_and_goes_on_where_it_was() {
    let api = Api::graded(|_| ()).await;
    let all = handed_in(&api, 1).await;
    let [submission] = all[..] else { panic!("one: {all:?}") };
    let learners = cookie(&api, submission).await;
    let mut events = Events::open(&api, submission, &learners, None).await;
    assert_eq!(events.names(2).await, ["grading.progress"; 2]);
    let (_, last, _) = events.next().await;
    for turn in 1..60 {
        api.bench.clock.advance(Duration::from_secs(29));
        assert!(events.is_silent().await, "not before: {turn}");
        api.bench.clock.advance(Duration::from_secs(1));
        assert_eq!(events.block().await, ": ping", "{turn}");
    }
    api.bench.clock.advance(Duration::from_secs(29));
    assert!(events.is_silent().await, "it has a second left");
    api.bench.clock.advance(Duration::from_secs(1));
    assert_eq!(events.rest().await.replace(": ping", "").trim(), "", "its time is over");
    // Missed while nobody listened.
    move_all(&api, &all, ("PROCESSING", "COMPLETED"), "completed").await;
    let mut again = Events::open(&api, submission, &learners, Some(&last)).await;
    let (name, _, data) = again.next().await;
    assert_eq!(
        (name.as_str(), data["result"]["overallScore"].as_f64()),
        ("grading.completed", Some(7.5)),
        "{data}"
    );
    assert!(again.is_silent().await, "nothing is told twice");
}
