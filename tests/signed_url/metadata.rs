//! Signing by the metadata server and IAM, which stumble, refuse, and stay away.

use std::time::Duration;

use devkit::google::{GoogleFake, Mishap};
use maple_router::gateway::signed_url::SignError;

use crate::harness::{BUCKET, RETRY, by_metadata, in_time, now, open, query, request};

#[tokio::test]
async fn a_vm_without_keys_makes_links_that_open() {
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "a b/Grüße.pdf", "application/pdf", "%PDF");
    let signer = by_metadata(&fake);
    let link = signer.sign(&request("a b/Grüße.pdf", "Grüße.pdf")).await.unwrap();
    assert_eq!(open(&link.url).await.0, 200);
    assert_eq!(signer.account().await.unwrap(), fake.service_account_email());
    assert!(query(&link, "X-Goog-Credential").starts_with(fake.service_account_email()));
}

#[tokio::test]
async fn many_signatures_need_one_connection_and_one_token() {
    let fake = GoogleFake::start().await.unwrap();
    let signer = by_metadata(&fake);
    for index in 0..40 {
        signer.sign(&request(&format!("o{index}"), "o")).await.unwrap();
    }
    assert_eq!((fake.sign_calls(), fake.iam_connections(), fake.token_calls()), (40, 1, 1));
}

#[tokio::test]
async fn iam_that_stumbles_is_asked_again() {
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "o", "text/plain", "content");
    for mishap in [Mishap::Status(503), Mishap::Status(500), Mishap::RetryAfter(1), Mishap::Hang] {
        let signer = by_metadata(&fake);
        let before = fake.sign_calls();
        fake.iam_script().next(2, mishap);
        let link = in_time(signer.sign(&request("o", "o"))).await.unwrap();
        assert_eq!(fake.sign_calls() - before, 3, "{mishap:?}");
        assert_eq!(open(&link.url).await.0, 200, "{mishap:?}");
    }
}

#[tokio::test]
async fn iam_that_stays_away_is_unreachable_and_the_asking_ends() {
    let mut fake = GoogleFake::start().await.unwrap();
    for mishap in [Mishap::Status(503), Mishap::RetryAfter(30), Mishap::Hang] {
        let signer = by_metadata(&fake);
        signer.account().await.unwrap();
        let before = fake.sign_calls();
        fake.iam_script().always(mishap);
        let started = now();
        let error = in_time(signer.sign(&request("o", "o"))).await.unwrap_err();
        assert!(
            matches!(error, SignError::Unreachable { .. }) && error.is_transient(),
            "{mishap:?}: {error}"
        );
        assert!(
            started.elapsed() < 3 * RETRY.timeout + Duration::from_millis(600),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(fake.sign_calls() - before, 3, "{mishap:?}");
        fake.iam_script().clear();
        signer.sign(&request("o", "o")).await.unwrap();
    }

    let signer = by_metadata(&fake);
    signer.sign(&request("o", "o")).await.unwrap();
    fake.stop_iam().await;
    let error = signer.sign(&request("o", "o")).await.unwrap_err();
    assert_eq!(error.detail(), "no connection to IAM signBlob");
    assert!(error.is_transient());
    fake.restart_iam().await.unwrap();
    signer.sign(&request("o", "o")).await.unwrap();
}

#[tokio::test]
async fn a_refusal_is_about_us_and_is_not_repeated() {
    let fake = GoogleFake::start().await.unwrap();
    let signer = by_metadata(&fake);
    fake.iam_script().next(1, Mishap::Status(403));
    let error = signer.sign(&request("o", "o")).await.unwrap_err();
    assert!(matches!(error, SignError::NotAllowed { .. }), "{error:?}");
    assert!(error.is_about_us() && !error.is_transient());
    let text = error.to_string();
    assert!(text.contains("roles/iam.serviceAccountTokenCreator"), "{text}");
    assert!(text.contains(fake.service_account_email()), "{text}");
    assert!(!text.contains("http") && !text.contains("ya29"), "{text}");
    assert_eq!(fake.sign_calls(), 1);
}

#[tokio::test]
async fn a_revoked_token_is_replaced_once() {
    let fake = GoogleFake::start().await.unwrap();
    let signer = by_metadata(&fake);
    signer.sign(&request("o", "o")).await.unwrap();
    fake.revoke_tokens();
    signer.sign(&request("o", "o")).await.unwrap();
    assert_eq!((fake.token_calls(), fake.sign_calls()), (2, 3));

    fake.iam_script().always(Mishap::Status(401));
    let error = signer.sign(&request("o", "o")).await.unwrap_err();
    assert!(matches!(error, SignError::NotAllowed { .. }), "{error:?}");
    assert_eq!(fake.sign_calls(), 5);
}

#[tokio::test]
async fn a_metadata_server_that_was_wrong_once_is_believed_again() {
    let fake = GoogleFake::start().await.unwrap();
    // (what goes wrong while the token is fetched, what it is taken for)
    for (mishap, transient) in [(Mishap::Status(404), false), (Mishap::Hang, true)] {
        let signer = by_metadata(&fake);
        signer.account().await.unwrap();
        fake.metadata_script().always(mishap);
        let error = in_time(signer.sign(&request("o", "o"))).await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{mishap:?}: {error}");
        assert!(error.is_about_us());
        fake.metadata_script().clear();
        signer.sign(&request("o", "o")).await.unwrap_or_else(|error| panic!("{mishap:?}: {error}"));
    }
}

#[tokio::test]
async fn the_account_is_asked_with_patience_too() {
    let fake = GoogleFake::start().await.unwrap();
    fake.metadata_script().next(2, Mishap::Status(503));
    by_metadata(&fake).sign(&request("o", "o")).await.unwrap();
    fake.metadata_script().always(Mishap::Status(404));
    let error = by_metadata(&fake).sign(&request("o", "o")).await.unwrap_err();
    assert!(matches!(error, SignError::Misconfigured { .. }), "{error:?}");
}
