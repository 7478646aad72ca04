//! Objects by the XML API: read, written and deleted, and each refusal.

use reqwest::Method;

use crate::world::{STAGING, World, bytes, crc32c, md5, said};

#[tokio::test]
async fn an_object_is_described_read_whole_and_in_parts() {
    let world = World::new().await;
    let put = world.ask(Method::PUT, "/staging/a/o").header("content-type", "text/plain").body("0123456789");
    let put = said(put.header("x-goog-meta-colour", "red").header("cache-control", "no-store")).await;
    assert_eq!((put.status, put.text()), (200, String::new()));
    let object = world.google.object(STAGING, "a/o").expect("stored");
    for method in [Method::GET, Method::HEAD] {
        let read = said(world.ask(method.clone(), "/staging/a/o")).await;
        let body = if method == Method::GET { "0123456789" } else { "" };
        assert_eq!((read.status, read.text().as_str()), (200, body));
        for (name, value) in [
            ("content-length", "10".to_owned()),
            ("content-type", "text/plain".to_owned()),
            ("cache-control", "no-store".to_owned()),
            ("x-goog-meta-colour", "red".to_owned()),
            ("x-goog-generation", object.generation.to_string()),
            ("x-goog-metageneration", "1".to_owned()),
            ("x-goog-hash", format!("crc32c={},md5={}", crc32c(b"0123456789"), md5(b"0123456789"))),
            ("x-goog-stored-content-length", "10".to_owned()),
            ("x-goog-stored-content-encoding", "identity".to_owned()),
            ("etag", format!("\"{}\"", hex::encode(md5::compute(b"0123456789").0))),
        ] {
            assert_eq!(read.header(name), value, "{method} {name}");
        }
        assert!(read.header("last-modified").ends_with(" GMT") && read.header("date").ends_with(" GMT"));
    }
    for (range, status, place, body) in [
        ("bytes=2-4", 206, "bytes 2-4/10", "234"),
        ("bytes=7-", 206, "bytes 7-9/10", "789"),
        ("bytes=-2", 206, "bytes 8-9/10", "89"),
        ("bytes=0-99", 206, "bytes 0-9/10", "0123456789"),
        ("bytes=4-2", 200, "", "0123456789"),
        ("lines=1-2", 200, "", "0123456789"),
    ] {
        let read = said(world.ask(Method::GET, "/staging/a/o").header("range", range)).await;
        assert_eq!(
            (read.status, read.header("content-range").as_str(), read.text().as_str()),
            (status, place, body),
            "{range}"
        );
        assert_eq!(read.header("content-length"), body.len().to_string());
    }
    let beyond = said(world.ask(Method::GET, "/staging/a/o").header("range", "bytes=10-")).await;
    assert_eq!(beyond.code(), (416, "InvalidRange".to_owned()));
    assert_eq!(beyond.header("content-range"), "bytes */10");
}

#[tokio::test]
async fn a_generation_is_one_object_and_no_other() {
    let world = World::new().await;
    world.google.put_object(STAGING, "o", "text/plain", "old");
    let old = world.google.object(STAGING, "o").unwrap().generation;
    world.google.put_object(STAGING, "o", "text/plain", "new");
    let new = world.google.object(STAGING, "o").unwrap().generation;
    assert!(new > old);
    assert_eq!(world.get(&format!("/staging/o?generation={new}")).await.text(), "new");
    assert_eq!(
        world.get(&format!("/staging/o?generation={old}")).await.code(),
        (404, "NoSuchKey".to_owned())
    );
    assert_eq!(world.get("/staging/o?generation=x").await.code(), (400, "InvalidArgument".to_owned()));
    let delete = |path: String| said(world.ask(Method::DELETE, &path));
    assert_eq!(delete(format!("/staging/o?generation={old}")).await.status, 404);
    assert_eq!(delete(format!("/staging/o?generation={new}")).await.status, 204);
    assert_eq!(delete("/staging/o".to_owned()).await.code(), (404, "NoSuchKey".to_owned()));
    assert_eq!(world.google.soft_deleted(STAGING).len(), 2, "overwritten and deleted");
}

#[tokio::test]
async fn a_precondition_holds_or_nothing_happens() {
    let world = World::new().await;
    let put = |body: &'static str, generation: u64| {
        let put = world.ask(Method::PUT, "/staging/o").header("x-goog-if-generation-match", generation);
        said(put.body(body))
    };
    let failed = (412, "PreconditionFailed".to_owned());
    assert_eq!(put("x", 7).await.code(), failed, "there is none");
    let stored = put("first", 0).await;
    assert_eq!(stored.status, 200);
    assert_eq!(put("second", 0).await.code(), failed);
    let generation: u64 = stored.header("x-goog-generation").parse().unwrap();
    let read =
        |generation| world.ask(Method::GET, "/staging/o").header("x-goog-if-generation-match", generation);
    assert_eq!(said(read(generation)).await.text(), "first");
    assert_eq!(said(read(generation + 1)).await.code(), failed);
    let meta = world.ask(Method::GET, "/staging/o").header("x-goog-if-metageneration-match", "2");
    assert_eq!(said(meta).await.code(), failed);
    let delete = |generation| {
        said(world.ask(Method::DELETE, "/staging/o").header("x-goog-if-generation-match", generation))
    };
    assert_eq!(delete(generation + 1).await.code(), failed);
    assert_eq!(put("second", generation).await.status, 200);
    assert_eq!(delete(generation).await.code(), failed, "it is another one now");
    assert_eq!(world.google.object_bytes(STAGING, "o").unwrap(), b"second");
}

#[tokio::test]
async fn bytes_that_are_not_what_was_said_are_refused() {
    let world = World::new().await;
    for (name, value, code) in [
        ("content-md5", md5(b"y"), "BadDigest"),
        ("x-goog-hash", format!("md5={}", md5(b"y")), "BadDigest"),
        ("x-goog-hash", format!("crc32c={}", crc32c(b"y")), "BadDigest"),
        ("content-md5", "!".to_owned(), "InvalidDigest"),
    ] {
        let refused = said(world.ask(Method::PUT, "/staging/o").header(name, &value).body("x")).await;
        assert_eq!(refused.code(), (400, code.to_owned()), "{name}: {value}");
    }
    assert_eq!(world.google.objects(STAGING), []);
    let good = world.ask(Method::PUT, "/staging/o").header("content-md5", md5(b"x"));
    assert_eq!(
        said(good.header("x-goog-hash", format!("crc32c={}", crc32c(b"x"))).body("x")).await.status,
        200
    );
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_spoken() {
    let world = World::new().await;
    assert_eq!(world.get("/staging/o").await.code(), (404, "NoSuchKey".to_owned()));
    assert_eq!(world.get("/nowhere/o").await.code(), (404, "NoSuchBucket".to_owned()));
    let put = |path| said(world.ask(Method::PUT, path).body("x"));
    assert_eq!(put("/nowhere/o").await.code(), (404, "NoSuchBucket".to_owned()));
    assert_eq!(
        said(world.ask(Method::PATCH, "/staging/o")).await.code(),
        (405, "MethodNotAllowed".to_owned())
    );
    assert_eq!(
        world.get("/staging").await.code(),
        (400, "NotImplemented".to_owned()),
        "XML's list of objects"
    );
    let copy = world.ask(Method::PUT, "/staging/o").header("x-goog-copy-source", "/staging/p");
    assert_eq!(said(copy).await.code(), (400, "NotImplemented".to_owned()));
}

/// A file of a few megabytes goes to the disk and comes back, also where the client sends it without its length.
#[tokio::test]
async fn large_objects_come_back_as_they_went() {
    let world = World::new().await;
    let content = bytes(7_654_321, 9);
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
        content.chunks(77_777).map(|piece| Ok(piece.to_vec())).collect();
    let body = axum::body::Body::from_stream(futures::stream::iter(pieces));
    let path = format!("{}/staging/large", world.google.storage_endpoint());
    let request = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .build_http()
        .request(
            axum::http::Request::put(path)
                .header("authorization", format!("Bearer {}", world.token))
                .body(body)
                .unwrap(),
        );
    assert_eq!(request.await.expect("an answer").status(), 200);
    let read = world.get("/staging/large").await;
    assert!(read.body == content, "byte for byte");
    let middle =
        said(world.ask(Method::GET, "/staging/large").header("range", "bytes=1000000-3000000")).await;
    assert!(middle.status == 206 && middle.body == content[1_000_000..=3_000_000]);
}
