//! Many at once.

use std::time::{Duration, Instant};

use devkit::clamd::eicar;
use maple_router::gateway::clamd::Verdict;

use crate::harness::{EICAR_FOUND, client, infected, random, real, scan};

/// More than clamd has threads, so that some wait for one.
const SCANS: usize = 6;
const LENGTH: usize = 24 << 20;

/// The figures are shown, not asserted: cargo test --test clamd at_once -- --nocapture
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_at_once_are_kept_apart_and_a_ping_is_answered_meanwhile() {
    let clamd = real().await;
    let client = client(&clamd);
    let content = random(LENGTH);
    // The first scan of a clamd takes a second more.
    assert_eq!(scan(&client, &content).await, Verdict::Clean);
    let began = Instant::now();
    assert_eq!(scan(&client, &content).await, Verdict::Clean);
    let alone = began.elapsed();

    let began = Instant::now();
    let scans: Vec<_> = (0..SCANS)
        .map(|number| {
            let (client, mut content) = (client.clone(), content.clone());
            if number % 2 == 1 {
                content.extend(eicar());
            }
            tokio::spawn(async move { scan(&client, &content).await })
        })
        .collect();
    let (mut pings, mut slowest) = (0, Duration::ZERO);
    while !scans.iter().all(tokio::task::JoinHandle::is_finished) {
        let asked = Instant::now();
        client.ping().await.expect("it answers meanwhile");
        slowest = slowest.max(asked.elapsed());
        pings += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let together = began.elapsed();
    for (number, scan) in scans.into_iter().enumerate() {
        let expected = if number % 2 == 1 { infected(EICAR_FOUND) } else { Verdict::Clean };
        assert_eq!(scan.await.expect("it ends"), expected, "{number}");
    }
    assert!(pings > 1, "{pings}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    let rate = |count: usize, took: Duration| (count * LENGTH) as f64 / 1e6 / took.as_secs_f64();
    println!(
        "one scan {:.0} MB/s, {SCANS} at once {:.0} MB/s, slowest of {pings} pings {slowest:?}, clamd has {} MiB",
        rate(1, alone),
        rate(SCANS, together),
        clamd.memory().expect("running") >> 20
    );
}
