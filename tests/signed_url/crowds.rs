//! Many links at once.

use std::time::Duration;

use devkit::google::{GoogleFake, Mishap};
use maple_router::gateway::signed_url::SignError;

use crate::harness::{by_metadata, request};

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
