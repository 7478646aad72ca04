//! Many links at once, and one link many times.

use std::sync::Arc;
use std::time::Duration;

use devkit::google::{GoogleFake, Mishap};
use maple_router::gateway::signed_url::SignError;
use maple_router::ops::clock::SystemClock;
use maple_router::ports::LinkRequest;

use crate::harness::{BUCKET, by_key_file, by_metadata, open, request};

#[tokio::test]
async fn many_links_come_in_order_over_few_connections() {
    let fake = GoogleFake::start().await.unwrap();
    let signer = by_metadata(&fake);
    let mut requests: Vec<_> = (0..24).map(|index| request(&format!("object-{index}"), "o")).collect();
    requests[7].object = String::new();
    fake.iam_script().next(4, Mishap::Delay(Duration::from_millis(50)));
    let links = tokio::spawn(async move { signer.sign_all(&requests, 4).await }).await.unwrap();
    assert_eq!(links.len(), 24);
    for (index, link) in links.iter().enumerate() {
        match link {
            Ok(link) => assert!(link.url.contains(&format!("/object-{index}?")), "{index}"),
            Err(error) => {
                assert!(
                    index == 7 && matches!(error, SignError::UnsignableObject { .. }),
                    "{index}: {error}"
                );
            }
        }
    }
    assert!(links[7].is_err());
    assert_eq!(fake.sign_calls(), 23);
    assert!((2..=4).contains(&fake.iam_connections()), "{}", fake.iam_connections());
}

#[tokio::test]
async fn an_outage_costs_one_patience_and_not_one_per_attachment() {
    let fake = GoogleFake::start().await.unwrap();
    let signer = by_metadata(&fake);
    signer.account().await.unwrap();
    fake.iam_script().always(Mishap::Status(503));
    let requests: Vec<_> = (0..30).map(|index| request(&format!("object-{index}"), "o")).collect();
    let links = signer.sign_all(&requests, 2).await;
    assert!(links.iter().all(|link| matches!(link, Err(SignError::Unreachable { .. }))));
    assert_eq!(links.len(), 30);
    assert!(fake.sign_calls() <= 2 * 3 + 3, "{}", fake.sign_calls());
}

#[tokio::test]
async fn mails_of_one_hour_share_a_link_that_opens() {
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "a.pdf", "text/plain", b"content".to_vec());
    let signer = by_metadata(&fake).sharing(Arc::new(SystemClock));
    let (a, b) = (request("a.pdf", "a.pdf"), request("b.pdf", "b.pdf"));
    let first = signer.sign_all(&[a.clone(), b.clone()], 8).await;
    assert_eq!(signer.sign_all(&[a.clone(), b], 8).await, first);
    assert_eq!(fake.sign_calls(), 2, "once per object");
    let shared = first[0].as_ref().unwrap();
    assert_eq!(open(&shared.url).await.0, 200);
    // A link that would outlive what is asked for is not handed out, and neither is one that ends much earlier.
    for ttl in [a.ttl / 2, a.ttl * 2] {
        let other = signer.sign_all(&[LinkRequest { ttl, ..a.clone() }], 8).await;
        assert_ne!(other[0].as_ref().unwrap().valid_until, shared.valid_until);
    }
    assert_eq!(fake.sign_calls(), 4);
}

#[tokio::test]
async fn a_link_that_is_asked_for_by_itself_is_always_new() {
    let fake = GoogleFake::start().await.unwrap();
    let signer = by_metadata(&fake).sharing(Arc::new(SystemClock));
    for _ in 0..2 {
        signer.sign(&request("a.pdf", "a.pdf")).await.unwrap();
    }
    assert_eq!(fake.sign_calls(), 2, "a probe of the signer is no probe otherwise");
}

#[tokio::test]
async fn an_outage_is_not_shared() {
    let fake = GoogleFake::start().await.unwrap();
    let signer = by_metadata(&fake).sharing(Arc::new(SystemClock));
    signer.account().await.unwrap();
    fake.iam_script().next(9, Mishap::Status(503));
    let requests = [request("a.pdf", "a.pdf")];
    while fake.sign_calls() < 9 {
        assert!(matches!(signer.sign_all(&requests, 1).await[..], [Err(SignError::Unreachable { .. })]));
    }
    assert!(matches!(signer.sign_all(&requests, 1).await[..], [Ok(_)]));
}

/// A signature takes a processor some tenths of a millisecond, in which the runtime's threads do something else.
#[tokio::test]
async fn a_key_signs_beside_the_runtime_on_about_as_many_threads_as_there_are_processors() {
    let fake = GoogleFake::start().await.unwrap();
    let (signer, _dir) = by_key_file(&fake);
    let processors = std::thread::available_parallelism().unwrap().get();
    let requests: Vec<_> =
        (0..32 * processors).map(|index| request(&format!("object-{index}"), "o")).collect();
    let before = threads();
    let links = signer.sign_all(&requests, requests.len()).await;
    assert!(links.iter().all(Result::is_ok));
    // Those that have signed stay for seconds. One that has just signed is not idle at once, so that another may be started.
    let threads = threads() - before;
    assert!((1..=4 * processors).contains(&threads), "{threads} threads for {processors} processors");
}

/// The threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}
