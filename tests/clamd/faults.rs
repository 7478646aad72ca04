//! A real clamd that is frozen, killed, or broken: there is no verdict, and soon.

use std::time::{Duration, Instant};

use devkit::clamd::{ClamdOptions, eicar};
use devkit::waiting;
use maple_router::config::ScanSocket;
use maple_router::gateway::clamd::{Database, NoAnswer, SelfTestFault, Verdict};

use crate::harness::{
    EICAR_FOUND, MARKER_FOUND, PATIENCE, client, client_of, infected, random, real, real_with, scan,
};

const STEP: Duration = Duration::from_millis(20);
/// A wait that ends during the test.
const SHORT: Duration = Duration::from_millis(700);

#[tokio::test]
async fn a_stream_that_is_cut_off_is_forgotten() {
    let clamd = real().await;
    let client = client(&clamd);
    let mut scan = client.begin(10 << 20).await;
    scan.write(&random(5 << 20)).await;
    assert!(waiting::until(PATIENCE, STEP, async || clamd.spooled().is_ok_and(|n| n == 1)).await);
    drop(scan);
    assert!(waiting::until(PATIENCE, STEP, async || clamd.spooled().is_ok_and(|n| n == 0)).await);

    // Fewer bytes than announced, and more, are never closed.
    let mut few = client.begin(10).await;
    few.write(b"nine byte").await;
    assert_eq!(few.finish().await, NoAnswer::Incomplete.into());
    let mut many = client.begin(10).await;
    many.write(b"ten bytes.").await;
    assert!(!many.is_over());
    many.write(b".").await;
    assert!(many.is_over());
    assert_eq!(many.finish().await, NoAnswer::Incomplete.into());
    assert!(waiting::until(PATIENCE, STEP, async || clamd.spooled().is_ok_and(|n| n == 0)).await);
}

#[tokio::test]
async fn a_frozen_clamd_has_no_verdict_and_later_goes_on() {
    let clamd = real().await;
    let client = client_of(ScanSocket::Unix(clamd.socket()), SHORT);
    let mut begun = client.begin(4).await;
    begun.write(b"clea").await;
    clamd.freeze().expect("frozen");
    let asked = Instant::now();
    assert_eq!(begun.finish().await, NoAnswer::Silent(SHORT).into());
    // Whoever comes now is taken by the system alone: a short file fits its buffers, a long one does not.
    assert_eq!(scan(&client, b"short").await, NoAnswer::Silent(SHORT).into());
    assert_eq!(scan(&client, &random(8 << 20)).await, NoAnswer::Stalled(SHORT).into());
    assert_eq!(client.ping().await, Err(NoAnswer::Silent(SHORT)));
    assert_eq!(
        client.self_test().await,
        Err(SelfTestFault::Unscanned(NoAnswer::Silent(SHORT))),
        "the answer of a frozen one is none"
    );
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    clamd.thaw().expect("thawed");
    let thawed = client_of(ScanSocket::Unix(clamd.socket()), PATIENCE);
    assert_eq!(scan(&thawed, &eicar()).await, infected(EICAR_FOUND));
    assert!(waiting::until(PATIENCE, STEP, async || clamd.spooled().is_ok_and(|n| n == 0)).await);
}

#[tokio::test]
async fn one_that_is_killed_has_no_verdict_until_it_is_back() {
    let mut clamd = real().await;
    let client = client(&clamd);
    // In the middle of the sending.
    let content = random(20 << 20);
    let mut sending = client.begin(content.len() as u64).await;
    sending.write(&content[..10 << 20]).await;
    clamd.kill().await.expect("killed");
    sending.write(&content[10 << 20..]).await;
    assert!(sending.is_over());
    let verdict = sending.finish().await;
    assert!(matches!(verdict, Verdict::Unscanned { why: NoAnswer::Lost | NoAnswer::Closed }), "{verdict:?}");

    let Verdict::Unscanned { why: NoAnswer::Away(why) } = scan(&client, b"anything").await else {
        panic!("nobody is there")
    };
    assert!(why.contains("clamd.sock") && why.contains("refused"), "{why}");

    // In the middle of the scan.
    clamd.up().await.expect("up again");
    let mut scan_of = client.begin(content.len() as u64).await;
    scan_of.write(&content).await;
    let finishing = tokio::spawn(scan_of.finish());
    tokio::time::sleep(Duration::from_millis(50)).await;
    clamd.kill().await.expect("killed");
    let verdict = finishing.await.expect("it ends");
    assert!(matches!(verdict, Verdict::Unscanned { why: NoAnswer::Lost | NoAnswer::Closed }), "{verdict:?}");

    clamd.up().await.expect("up again");
    assert_eq!(scan(&client, &eicar()).await, infected(EICAR_FOUND));
}

#[tokio::test]
async fn a_bad_reload_that_breaks_it_is_told_by_the_self_test() {
    let options = ClamdOptions { concurrent_reload: false, ..ClamdOptions::default() };
    let mut clamd = real_with(options).await;
    let client = client(&clamd);
    clamd.break_database().expect("written");
    clamd.reload().await.expect("said");

    client.ping().await.expect("it is there, and answers");
    let fault = client.self_test().await.expect_err("broken");
    assert!(matches!(fault, SelfTestFault::Unscanned(NoAnswer::Failed(_))), "{fault:?}");
    assert_eq!(client.version().await.map(|version| version.database), Ok(Database::Broken));
    for content in [&b"clean"[..], &eicar()] {
        let verdict = scan(&client, content).await;
        assert!(matches!(verdict, Verdict::Unscanned { why: NoAnswer::Failed(_) }), "{verdict:?}");
    }

    // Only a restart mends it.
    clamd.mend_database().expect("written");
    clamd.ask("RELOAD").await.ok();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(client.self_test().await.is_err());
    clamd.restart().await.expect("restarted");
    assert_eq!(client.self_test().await.as_deref(), Ok(EICAR_FOUND));
    assert_eq!(client.version().await.map(|version| version.database), Ok(Database::None));
}

#[tokio::test]
async fn a_bad_reload_beside_the_work_changes_nothing() {
    let clamd = real().await;
    let client = client(&clamd);
    clamd.break_database().expect("written");
    clamd.reload().await.expect("said");
    assert_eq!(client.self_test().await.as_deref(), Ok(EICAR_FOUND));
    assert_eq!(scan(&client, clamd.marker().as_bytes()).await, infected(MARKER_FOUND));
    clamd.mend_database().expect("written");
    clamd.reload().await.expect("said");
    assert_eq!(scan(&client, clamd.marker().as_bytes()).await, infected(MARKER_FOUND));
}

#[tokio::test]
async fn a_stop_ends_it_and_the_socket_is_used_again() {
    let mut clamd = real().await;
    let client = client(&clamd);
    clamd.stop().await.expect("stopped");
    assert!(matches!(client.ping().await, Err(NoAnswer::Away(_))));
    clamd.up().await.expect("up again");
    client.ping().await.expect("there");
}
