//! A judge that is away, and one that is asked by many.

use std::time::{Duration, Instant};

use devkit::judge::Mode;
use futures::future::join_all;
use maple_router::gateway::judge::{Cause, JudgeError};

use crate::harness::{PATIENCE, World, question};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_judge_goes_and_comes_back() {
    let mut world = World::new().await;
    let question = question(&[("message", "A question.")]);
    assert!(world.ask(&question).await.is_ok());
    world.scripted.away().await;
    for _ in 0..3 {
        let error = world.ask(&question).await.expect_err("nobody listens");
        assert_eq!(error, JudgeError::Unavailable { cause: Cause::Connect, retry_after: None });
    }
    world.scripted.back().await.expect("the same port");
    assert!(world.ask(&question).await.is_ok());
    assert_eq!(world.scripted.requests(), 2, "nothing is repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
async fn no_answer_takes_longer_than_its_time_or_more_than_its_bytes() {
    let world = World::new().await;
    let question = question(&[("message", "A question.")]);
    for mode in [Mode::Hang, Mode::Slow(Duration::from_secs(20)), Mode::Huge] {
        world.scripted.set(mode.clone());
        let began = Instant::now();
        assert!(world.ask(&question).await.is_err(), "{mode:?}");
        assert!(began.elapsed() < PATIENCE + Duration::from_secs(2), "{mode:?} took {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ask_at_once_and_each_has_its_own_answer() {
    let world = World::new().await;
    let questions: Vec<_> = (0..64)
        .map(|number| {
            let text = if number % 2 == 0 { "A question." } else { "casino" };
            (number, question(&[("message", text)]))
        })
        .collect();
    let ask = |(number, question)| {
        let world = &world;
        async move { (number, world.ask(question).await.expect("an answer").verdict.score.get()) }
    };
    for (number, score) in join_all(questions.iter().map(|(number, question)| ask((*number, question)))).await
    {
        assert_eq!(score, if number % 2 == 0 { 92 } else { 47 }, "{number}");
    }
    assert_eq!(world.scripted.requests(), 64);
}
