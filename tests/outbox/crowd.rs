//! Backends and scanners in plain SQL, cut off at random, and a router that nobody publishes to. `make nightly` has 100,000
//! submissions and processes that are killed (devkit's `crowd`).

use std::path::Path;

use devkit::crowd::{Options, run};
use devkit::stage::Source;

async fn crowd(source: Source, submissions: u64) {
    let binary = Path::new(env!("CARGO_BIN_EXE_maple-router")).to_owned();
    let options = Options { binary, client: None, submissions, source, seed: 5 };
    let report = run(&options, |line| println!("{line}")).await.expect("a crowd");
    println!("{}", report.figures.join("\n"));
    assert!(report.wrong.is_empty(), "{:#?}", report.wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_one_is_announced_once_and_routed_once_from_the_outbox() {
    crowd(Source::Postgres, 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_one_is_announced_once_and_routed_once_over_pubsub() {
    crowd(Source::Pubsub, 1000).await;
}
