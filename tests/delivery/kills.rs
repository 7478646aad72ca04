//! The thousand kills, a few of them; `make kills` has the rest.

use devkit::kills::{Log, Options, run};

use crate::harness::binary;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_kills_lose_nothing_and_repeat_nothing_that_the_log_proves() {
    let options =
        Options { binary: binary().to_owned(), kills: 30, log: Log::Readable, side_by_side: 2, seed: 7 };
    let report = run(&options, |_| ()).await.expect("it ran");
    assert!(report.wrong.is_empty(), "{:#?}\n{:#?}", report.figures, report.wrong);
}
