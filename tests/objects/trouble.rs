//! A store that is away, slow or silent, and what is told of it.

use std::time::{Duration, Instant};

use devkit::google::{Act, Call as Asked, GoogleFake, Mishap, Rule, Stage};
use maple_router::config::{SignedUrl, SignerKind};
use maple_router::gateway::objects::store::{Absence, Call, ObjectName, ObjectStore, StoreError, UploadId};

use crate::world::{CONTENT, PATIENCE, STAGING, World, name};

#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// Each call, made once, all at the same time; what it failed with.
async fn all(store: &ObjectStore) -> Vec<(Call, StoreError)> {
    let (o, upload, copy) = (name(STAGING, "o"), UploadId::new("none"), name(CONTENT, "o"));
    let parts = [(1, "a".to_owned())];
    let begun = async { store.initiate(&o, "a/b").await.unwrap_err() };
    let listed = async { store.list_parts(&o, &upload).await.unwrap_err() };
    let completed = async { store.complete(&o, &upload, &parts).await.unwrap_err() };
    let seen = async { store.stat(&o).await.unwrap_err() };
    let read = async { store.read(&o, 1, 0).await.unwrap_err() };
    let copied = async { store.rewrite(&o, 1, &copy).await.unwrap_err() };
    let deleted = async { store.delete(&o, None).await.unwrap_err() };
    let bucket = async { store.bucket(STAGING).await.unwrap_err() };
    let permitted = async { store.permissions(STAGING, &[]).await.unwrap_err() };
    let (begun, listed, completed, seen, read, copied, deleted, bucket, permitted) =
        tokio::join!(begun, listed, completed, seen, read, copied, deleted, bucket, permitted);
    vec![
        (Call::Initiate, begun),
        (Call::ListParts, listed),
        (Call::Complete, completed),
        (Call::Stat, seen),
        (Call::Read, read),
        (Call::Rewrite, copied),
        (Call::Delete, deleted),
        (Call::Bucket, bucket),
        (Call::Permissions, permitted),
    ]
}

/// An abort as well: it reads no body, so that any success is one.
async fn all_and_abort(store: &ObjectStore) -> Vec<(Call, StoreError)> {
    let (o, upload) = (name(STAGING, "o"), UploadId::new("none"));
    let aborted = async { store.abort(&o, &upload).await.unwrap_err() };
    let (mut all, aborted) = tokio::join!(all(store), aborted);
    all.push((Call::Abort, aborted));
    all
}

#[tokio::test]
async fn a_store_in_trouble_is_away_for_every_call_and_asked_once() {
    let mut world = World::hasty().await;
    let calls = |world: &World| {
        [
            Asked::Initiate,
            Asked::ListParts,
            Asked::Complete,
            Asked::Abort,
            Asked::Metadata,
            Asked::Read,
            Asked::Rewrite,
            Asked::Delete,
            Asked::Bucket,
            Asked::Permissions,
        ]
        .map(|call| world.google.calls(call))
    };
    for (times, (act, how)) in (1..).zip([
        (Act::Status(500), Absence::Status(500)),
        (Act::Status(503), Absence::Status(503)),
        (Act::Status(429), Absence::Status(429)),
        (Act::Disconnect, Absence::Broken),
        (Act::Silence, Absence::Silent),
    ]) {
        world.google.rule(Rule::at(Stage::Head).act(act));
        let began = now();
        for (call, error) in all_and_abort(&world.store).await {
            assert_eq!(error, StoreError::Away { call, how }, "{act:?}");
            assert!(error.is_transient() && !error.is_about_us());
        }
        assert!(began.elapsed() < 2 * PATIENCE.call + Duration::from_secs(5), "{:?}", began.elapsed());
        world.google.clear_rules();
        assert_eq!(calls(&world), [times; 10], "{act:?}");
    }
    world.google.stop_store().await;
    for (call, error) in all_and_abort(&world.store).await {
        assert_eq!(error, StoreError::Away { call, how: Absence::NoConnection });
    }
    world.google.restart_store().await.unwrap();
    assert_eq!(world.store.stat(&name(STAGING, "o")).await.unwrap(), None, "back again");
}

#[tokio::test]
async fn a_slow_store_is_waited_for_as_long_as_was_said() {
    let world = World::hasty().await;
    let generation = world.there(STAGING, "o", "x");
    world.google.rule(Rule::at(Stage::Head).delay(PATIENCE.call / 2));
    assert!(world.store.stat(&name(STAGING, "o")).await.unwrap().is_some());
    world.google.clear_rules();
    world.google.rule(Rule::at(Stage::After).delay(PATIENCE.call + Duration::from_secs(1)));
    let late = world.store.read(&name(STAGING, "o"), generation, 0).await.unwrap_err();
    assert_eq!(late, StoreError::Away { call: Call::Read, how: Absence::Silent });
}

#[tokio::test]
async fn without_a_token_nothing_is_asked() {
    let world = World::hasty().await;
    world.google.metadata_script().always(Mishap::Status(404));
    let error = world.store.stat(&name(STAGING, "o")).await.unwrap_err();
    assert!(matches!(error, StoreError::Signing(_)) && error.is_about_us(), "{error}");
    assert_eq!(world.google.calls(Asked::Metadata), 0);
    world.google.metadata_script().clear();
    assert_eq!(world.store.stat(&name(STAGING, "o")).await.unwrap(), None);
}

/// No redirect is followed: a token is for the store and for nobody else.
#[tokio::test]
async fn an_answer_of_somebody_else_is_none() {
    let world = World::hasty().await;
    let elsewhere = world.google.storage_endpoint();
    let router = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let to = elsewhere.clone();
        async move {
            let redirected = request.uri().path().starts_with("/storage");
            let status = if redirected { 307 } else { 200 };
            axum::response::Response::builder()
                .status(status)
                .header("location", format!("{to}{}", request.uri()))
                .body(axum::body::Body::from("<html>Welcome</html>"))
                .unwrap()
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let config = SignedUrl {
        signer: SignerKind::Metadata,
        endpoint: world.google.iam_endpoint(),
        storage_endpoint: format!("http://{address}"),
        ..SignedUrl::default()
    };
    let store = ObjectStore::with_patience(&config, Some(&world.google.metadata_host()), PATIENCE).unwrap();
    for (call, error) in all(&store).await {
        let StoreError::Away { how, .. } = error else { panic!("{call:?}: {error}") };
        assert!([Absence::Garbled, Absence::Status(307)].contains(&how), "{call:?}: {how:?}");
    }
    assert_eq!(world.google.gets(), 0, "nobody was led to the store");
    server.abort();
}

#[tokio::test]
async fn nothing_secret_is_shown() {
    let world = World::hasty().await;
    let secret = name(STAGING, "anna/secret.pdf");
    let upload = world.store.initiate(&secret, "a/b").await.unwrap();
    let link = world.store.part_url(&secret, &upload, 1, None, crate::world::VALID).await.unwrap();
    let generation = world.there(STAGING, "anna/secret.pdf", "x");
    let reading = world.store.read(&secret, generation, 0).await.unwrap();
    let mut shown = format!("{secret:?} {upload:?} {link:?} {reading:?} {:?}", world.store);
    world.google.rule(Rule::at(Stage::Head).act(Act::Disconnect));
    for (_, error) in all_and_abort(&world.store).await {
        shown += &format!(" {error} {error:?}");
    }
    for error in [
        ObjectName::new(STAGING, "anna/../secret").unwrap_err(),
        ObjectName::new("Secret", "anna").unwrap_err(),
        world.store.part_url(&secret, &upload, 0, None, crate::world::VALID).await.unwrap_err(),
    ] {
        assert!(!error.is_about_us());
        shown += &format!(" {error} {error:?}");
    }
    for word in ["anna", "secret", "Secret", "http", "ya29", STAGING, upload.as_str()] {
        assert!(!shown.contains(word), "{word}: {shown}");
    }
}

#[tokio::test]
async fn tokens_go_over_tls_or_stay_on_this_host() {
    let fake = GoogleFake::start().await.unwrap();
    let config = |endpoint: &str| SignedUrl {
        signer: SignerKind::Metadata,
        endpoint: fake.iam_endpoint(),
        storage_endpoint: endpoint.to_owned(),
        ..SignedUrl::default()
    };
    assert!(ObjectStore::new(&config("https://storage.googleapis.com"), None).is_ok());
    let error = ObjectStore::new(&config("http://storage.example.org"), None).unwrap_err();
    assert!(error.to_string().contains("storage_endpoint would carry access tokens"), "{error}");
}
