//! V4 signed URLs: what was signed is what may be done.

use reqwest::Method;

use crate::world::{STAGING, World, md5, said};

#[tokio::test]
async fn a_parts_url_takes_that_part_with_that_digest() {
    let world = World::new().await;
    let id = world.initiate("a b/o").await;
    let digest = md5(b"part");
    let query = [("partNumber", "1"), ("uploadId", id.as_str())];
    let url = world.signed(Method::PUT, "a b/o", &query, &[("content-md5", &digest)]).await;
    let put = |url: &str, digest: Option<&str>, body: &'static str| {
        let request = world.http.put(url).body(body);
        said(match digest {
            Some(digest) => request.header("content-md5", digest),
            None => request,
        })
    };
    assert_eq!(put(&url, None, "part").await.code(), (400, "MalformedSecurityHeader".to_owned()));
    let other = md5(b"pare");
    assert_eq!(put(&url, Some(&other), "pare").await.code(), (403, "SignatureDoesNotMatch".to_owned()));
    assert_eq!(put(&url, Some(&digest), "pare").await.code(), (400, "BadDigest".to_owned()), "a flipped bit");
    assert_eq!(world.google.uploads(STAGING)[0].parts, []);
    for (from, to) in [
        ("partNumber=1", "partNumber=2"),
        ("a%20b/o", "a%20b/p"),
        ("X-Goog-Expires=900", "X-Goog-Expires=9000"),
    ] {
        let changed = url.replace(from, to);
        assert_ne!(changed, url);
        assert_eq!(
            put(&changed, Some(&digest), "part").await.code(),
            (403, "SignatureDoesNotMatch".to_owned()),
            "{to}"
        );
    }
    let get = world.http.get(&url).header("content-md5", &digest);
    assert_eq!(said(get).await.code(), (403, "SignatureDoesNotMatch".to_owned()));
    let extended =
        world.http.put(&url).header("content-md5", &digest).header("x-goog-meta-a", "b").body("part");
    assert_eq!(
        said(extended).await.code(),
        (400, "MalformedSecurityHeader".to_owned()),
        "what is not signed"
    );
    assert_eq!(put(&url, Some(&digest), "part").await.status, 200);
    assert_eq!(put(&url, Some(&digest), "part").await.status, 200, "and again");
    world.google.set_clock_offset(901);
    assert_eq!(put(&url, Some(&digest), "part").await.code(), (400, "ExpiredToken".to_owned()));
}

#[tokio::test]
async fn every_call_of_an_upload_can_be_signed() {
    let world = World::new().await;
    let url = world.signed(Method::POST, "o", &[("uploads", "")], &[]).await;
    let id = said(world.http.post(url)).await.element("UploadId").expect("an id");
    let upload = [("uploadId", id.as_str())];
    let url = world.signed(Method::PUT, "o", &[("partNumber", "1"), upload[0]], &[]).await;
    let etag = said(world.http.put(url).body("x")).await.header("etag");
    let url = world.signed(Method::GET, "o", &upload, &[]).await;
    assert_eq!(said(world.http.get(url)).await.element("PartNumber").as_deref(), Some("1"));
    let url = world.signed(Method::POST, "o", &upload, &[]).await;
    let completed = said(world.http.post(url).body(crate::world::list(&[(1, &etag)]))).await;
    assert_eq!(completed.status, 200, "{}", completed.text());
    let url = world.signed(Method::DELETE, "o", &upload, &[]).await;
    assert_eq!(said(world.http.delete(url)).await.code(), (404, "NoSuchUpload".to_owned()));
    let url = world.signed(Method::DELETE, "o", &[], &[]).await;
    assert_eq!(said(world.http.delete(url)).await.status, 204);
}

/// The JSON API knows no signed URLs.
#[tokio::test]
async fn a_signature_opens_nothing_else() {
    let world = World::new().await;
    world.google.put_object(STAGING, "o", "text/plain", "x");
    let url = world.signed(Method::GET, "o", &[], &[]).await;
    let query = url.split_once('?').expect("a query").1;
    let json = world.plain(Method::GET, &format!("/storage/v1/b/staging/o/o?{query}"));
    assert_eq!(said(json).await.reason(), (401, "required".to_owned()));
    // The signer's rights are the bearer's.
    world.google.grant(world.google.service_account_email(), STAGING, &[]);
    assert_eq!(said(world.http.get(url)).await.code(), (403, "AccessDenied".to_owned()));
}
