//! Who may do what, and that a stranger learns nothing.

use devkit::google::Right;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::world::{STAGING, World, list, said};

const STRANGER: &str = "stranger@maple-dev.iam.gserviceaccount.com";

/// One request of each kind for an object that is there, and one that is not.
fn requests(world: &World, id: &str, token: Option<&str>) -> Vec<(&'static str, Right, RequestBuilder)> {
    use Right::{Create, Delete, Get, Inspect, List};
    let ask = |method, path: &str| {
        let request = world.plain(method, path);
        match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    };
    let upload = format!("/staging/o?uploadId={id}");
    vec![
        ("initiate", Create, ask(Method::POST, "/staging/o?uploads")),
        ("part", Create, ask(Method::PUT, &format!("{upload}&partNumber=1")).body("x")),
        ("list parts", Create, ask(Method::GET, &upload)),
        ("complete", Create, ask(Method::POST, "/staging/o?uploadId=none").body(list(&[]))),
        ("abort", Create, ask(Method::DELETE, "/staging/o?uploadId=none")),
        ("list uploads", List, ask(Method::GET, "/staging?uploads")),
        ("read", Get, ask(Method::GET, "/staging/there")),
        ("read missing", Get, ask(Method::GET, "/staging/missing")),
        ("head", Get, ask(Method::HEAD, "/staging/there")),
        ("write", Create, ask(Method::PUT, "/staging/new").body("x")),
        ("delete missing", Delete, ask(Method::DELETE, "/staging/missing")),
        ("json read", Get, ask(Method::GET, "/storage/v1/b/staging/o/there?alt=media")),
        ("json metadata", Get, ask(Method::GET, "/storage/v1/b/staging/o/missing")),
        ("json delete", Delete, ask(Method::DELETE, "/storage/v1/b/staging/o/missing")),
        ("json list", List, ask(Method::GET, "/storage/v1/b/staging/o")),
        ("json bucket", Inspect, ask(Method::GET, "/storage/v1/b/staging")),
        (
            "json upload",
            Create,
            ask(Method::POST, "/upload/storage/v1/b/staging/o?uploadType=media&name=json").body("x"),
        ),
    ]
}

#[tokio::test]
async fn each_right_is_needed_and_is_enough() {
    let world = World::new().await;
    world.google.add_account(STRANGER).unwrap();
    world.google.put_object(STAGING, "there", "text/plain", "x");
    let token = world.google.token_of(STRANGER);
    for right in std::iter::once(None).chain(Right::ALL.map(Some)) {
        let id = world.initiate("o").await;
        world.google.grant(STRANGER, STAGING, right.as_slice());
        for (name, needed, request) in requests(&world, &id, Some(&token)) {
            let answer = said(request).await;
            assert_eq!(
                answer.status == 403,
                right != Some(needed),
                "{name} with {right:?}: {} {}",
                answer.status,
                answer.text()
            );
            assert_ne!(answer.status, 401, "{name}");
        }
        for name in ["new", "json"] {
            world.google.delete_object(STAGING, name);
        }
    }
}

#[tokio::test]
async fn nobody_in_particular_may_nothing() {
    let world = World::new().await;
    world.google.put_object(STAGING, "there", "text/plain", "x");
    let id = world.initiate("o").await;
    for (name, _, request) in requests(&world, &id, None) {
        let status = said(request).await.status;
        assert_eq!(status, if name.starts_with("json") { 401 } else { 403 }, "{name}");
    }
    let unknown = requests(&world, &id, Some("ya29.unknown"));
    world.google.set_token_lifetime(std::time::Duration::ZERO);
    let ended = world.google.token_of(world.google.service_account_email());
    for (name, _, request) in unknown.into_iter().chain(requests(&world, &id, Some(&ended))) {
        assert_eq!(said(request).await.status, 401, "{name}");
    }
    let revoked = world.ask(Method::GET, "/staging/there");
    world.google.revoke_tokens();
    assert_eq!(said(revoked).await.code(), (401, "AuthenticationRequired".to_owned()));
}

#[tokio::test]
async fn an_object_is_overwritten_only_by_whoever_may_delete_it() {
    let world = World::new().await;
    world.google.add_account(STRANGER).unwrap();
    world.google.grant(STRANGER, STAGING, &[Right::Create, Right::Get]);
    world.google.put_object(STAGING, "o", "text/plain", "first");
    world.google.put_object("content", "source", "text/plain", "x");
    world.google.grant(STRANGER, "content", &[Right::Get]);
    let token = world.google.token_of(STRANGER);
    let ask = |method, path: &str| world.plain(method, path).bearer_auth(&token);
    let id = world.initiate("o").await;
    let etag = world.store_part("o", &id, 1, b"x".to_vec()).await;
    for request in [
        ask(Method::PUT, "/staging/o").body("x"),
        ask(Method::POST, &format!("/staging/o?uploadId={id}")).body(list(&[(1, &etag)])),
        ask(Method::POST, "/upload/storage/v1/b/staging/o?uploadType=media&name=o").body("x"),
        ask(Method::POST, "/storage/v1/b/content/o/source/rewriteTo/b/staging/o/o").json(&json!({})),
    ] {
        let refused = said(request).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.text().contains("storage.objects.delete"), "{}", refused.text());
    }
    assert_eq!(world.google.object_bytes(STAGING, "o").unwrap(), b"first");
    assert_eq!(world.google.uploads(STAGING).len(), 1, "the upload is there still");
    let elsewhere = ask(Method::POST, "/storage/v1/b/staging/o/o/rewriteTo/b/content/o/o").json(&json!({}));
    assert!(said(elsewhere).await.text().contains("storage.objects.create"), "the destination's right");
}

#[tokio::test]
async fn whether_an_object_is_there_can_be_hidden_from_those_who_may_not_list() {
    let world = World::new().await;
    world.google.set_hides_missing(true);
    assert_eq!(world.get("/staging/missing").await.status, 404, "who may list learns it");
    let account = world.google.service_account_email().to_owned();
    world.google.grant(&account, STAGING, &[Right::Get, Right::Delete]);
    for path in ["/staging/missing", "/storage/v1/b/staging/o/missing"] {
        assert_eq!(world.get(path).await.status, 403, "{path}");
    }
}

/// A token that an account signed itself, as Google's clients do it with a key file, is as good as one that was issued.
#[tokio::test]
async fn a_key_file_is_good_by_itself() {
    use google_cloud_auth::credentials::{CacheableResource, service_account};
    let world = World::new().await;
    world.google.add_account(STRANGER).unwrap();
    world.google.grant(STRANGER, STAGING, &[Right::List]);
    let key = serde_json::from_slice(&std::fs::read(world.key_file(STRANGER)).unwrap()).unwrap();
    let credentials = service_account::Builder::new(key).build().unwrap();
    let CacheableResource::New { data, .. } =
        credentials.headers(axum::http::Extensions::new()).await.unwrap()
    else {
        panic!("no headers")
    };
    let authorization = data.get("authorization").unwrap().to_str().unwrap().to_owned();
    let list = |token: &str| {
        said(world.plain(Method::GET, "/storage/v1/b/staging/o").header("authorization", token))
    };
    assert_eq!(list(&authorization).await.status, 200);
    let (head, signature) = authorization.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    assert_eq!(list(&forged).await.reason(), (401, "authError".to_owned()));
    let object = world.plain(Method::GET, "/storage/v1/b/staging/o/o").header("authorization", authorization);
    assert_eq!(said(object).await.status, 403, "in its own name");
}
