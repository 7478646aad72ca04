//! Multipart uploads: the whole way, and each refusal with what it leaves.

use reqwest::Method;

use crate::world::{CONTENT, PART, STAGING, World, bytes, crc32c, list, md5, said};

#[tokio::test]
async fn parts_in_any_order_become_one_object() {
    let world = World::new().await;
    let id = world.initiate("a/b c.bin").await;
    let pieces = [bytes(PART, 1), bytes(PART + 3, 2), bytes(1000, 3)];
    let mut etags = Vec::new();
    for number in [3_u32, 1, 2] {
        let piece = pieces[number as usize - 1].clone();
        let stored = said(world.part("a/b c.bin", &id, number, piece.clone())).await;
        let hashes = format!("crc32c={},md5={}", crc32c(&piece), md5(&piece));
        assert_eq!((stored.status, stored.header("x-goog-hash")), (200, hashes));
        assert_eq!(stored.header("etag"), format!("\"{}\"", hex::encode(md5::compute(&piece).0)));
        etags.push((number, stored.header("etag")));
    }
    etags.sort();
    assert_eq!(world.google.objects(STAGING).len(), 0, "parts are no objects");
    let parts: Vec<(u32, &str)> = etags.iter().map(|(number, etag)| (*number, etag.as_str())).collect();
    let completed = said(world.complete("a/b c.bin", &id, &parts)).await;
    assert_eq!(completed.status, 200, "{}", completed.text());
    assert_eq!(completed.element("Key").as_deref(), Some("a/b c.bin"));
    let whole = pieces.concat();
    let object = world.google.object(STAGING, "a/b c.bin").expect("the object");
    assert_eq!((object.size, object.md5), (whole.len() as u64, None), "an assembled object has no MD5");
    assert!(world.google.object_bytes(STAGING, "a/b c.bin").unwrap() == whole);
    let read = world.get("/staging/a/b%20c.bin").await;
    assert_eq!(read.header("x-goog-hash"), format!("crc32c={}", crc32c(&whole)));
    assert!(read.body == whole, "byte for byte");
    assert_eq!(read.header("etag").trim_matches('"').chars().next(), Some('-'), "not an MD5");
    assert_eq!(world.google.uploads(STAGING), []);
    let again = said(world.complete("a/b c.bin", &id, &parts)).await;
    assert_eq!(again.code(), (404, "NoSuchUpload".to_owned()), "a repeated completion finds no upload");
    assert_eq!(world.google.object(STAGING, "a/b c.bin"), Some(object), "and the object is there");
    assert_eq!(world.google.bytes_received(), whole.len() as u64);
}

#[tokio::test]
async fn the_same_part_again_replaces_it() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    let old = world.store_part("o", &id, 1, b"old".to_vec()).await;
    let new = world.store_part("o", &id, 1, b"new".to_vec()).await;
    let refused = said(world.complete("o", &id, &[(1, &old)])).await;
    assert_eq!(refused.code(), (400, "InvalidPart".to_owned()));
    // A client may leave the quotes away, or write them as entities.
    let completed = said(world.complete("o", &id, &[(1, &new.replace('"', "&quot;"))])).await;
    assert_eq!(completed.status, 200, "{}", completed.text());
    assert_eq!(world.google.object_bytes(STAGING, "o").unwrap(), b"new");
}

#[tokio::test]
async fn parts_that_are_not_named_go() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    world.store_part("o", &id, 1, b"left out".to_vec()).await;
    let kept = world.store_part("o", &id, 7, b"kept".to_vec()).await;
    assert_eq!(said(world.complete("o", &id, &[(7, &kept)])).await.status, 200);
    assert_eq!(world.google.object_bytes(STAGING, "o").unwrap(), b"kept");
}

#[tokio::test]
async fn a_completion_that_is_not_right_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    let small = world.store_part("o", &id, 1, bytes(PART - 1, 1)).await;
    let last = world.store_part("o", &id, 2, bytes(10, 2)).await;
    let before = world.google.uploads(STAGING);
    let none = "\"d41d8cd98f00b204e9800998ecf8427e\"";
    for (parts, code) in [
        (list(&[(1, &small), (2, &last)]), "EntityTooSmall"),
        (list(&[(2, &last), (1, &small)]), "InvalidPartOrder"),
        (list(&[(2, &last), (2, &last)]), "InvalidPartOrder"),
        (list(&[(1, none)]), "InvalidPart"),
        (list(&[(3, &last)]), "InvalidPart"),
        (list(&[]), "MalformedXML"),
        (String::new(), "MalformedXML"),
        ("<CompleteMultipartUpload><Part>".to_owned(), "MalformedXML"),
        ("{}".to_owned(), "MalformedXML"),
    ] {
        let path = format!("/{STAGING}/o?uploadId={id}");
        let refused = said(world.ask(Method::POST, &path).body(parts.clone())).await;
        assert_eq!(refused.code(), (400, code.to_owned()), "{parts}");
        assert_eq!(refused.header("content-type"), "application/xml; charset=UTF-8");
        assert_eq!(world.google.uploads(STAGING), before, "{parts}");
    }
    assert_eq!(world.google.objects(STAGING), []);
    // The last one alone is small enough to be the last one.
    assert_eq!(said(world.complete("o", &id, &[(2, &last)])).await.status, 200);
}

#[tokio::test]
async fn a_part_that_is_not_right_is_refused_and_not_stored() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    for number in [0, 10_001] {
        let refused = said(world.part("o", &id, number, b"x".to_vec())).await;
        assert_eq!(refused.code(), (400, "InvalidArgument".to_owned()), "{number}");
    }
    let (right, wrong) = (md5(b"x"), md5(b"y"));
    for (name, value, code) in [
        ("content-md5", wrong.clone(), "BadDigest"),
        ("x-goog-hash", format!("md5={wrong}"), "BadDigest"),
        ("x-goog-hash", format!("crc32c={}", crc32c(b"y")), "BadDigest"),
        ("x-goog-hash", format!("crc32c={},md5={wrong}", crc32c(b"x")), "BadDigest"),
        ("content-md5", "x".to_owned(), "InvalidDigest"),
        ("content-md5", crc32c(b"x"), "InvalidDigest"),
        ("x-goog-hash", format!("sha256={right}"), "InvalidDigest"),
    ] {
        let refused = said(world.part("o", &id, 1, b"x".to_vec()).header(name, &value)).await;
        assert_eq!(refused.code(), (400, code.to_owned()), "{name}: {value}");
        assert!(refused.element("Details").is_some(), "Python's client reads it");
    }
    for (object, other) in [("o", "ABPnothing"), ("p", id.as_str())] {
        let refused = said(world.part(object, other, 1, b"x".to_vec())).await;
        assert_eq!(refused.code(), (404, "NoSuchUpload".to_owned()), "{object} {other}");
    }
    assert_eq!(world.google.uploads(STAGING)[0].parts, []);
    let hash = format!("crc32c={}", crc32c(b"x"));
    let stored = said(
        world.part("o", &id, 10_000, b"x".to_vec()).header("content-md5", right).header("x-goog-hash", hash),
    );
    assert_eq!(stored.await.status, 200);
}

#[tokio::test]
async fn an_aborted_upload_is_gone() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    let etag = world.store_part("o", &id, 1, b"x".to_vec()).await;
    let path = format!("/{STAGING}/o?uploadId={id}");
    assert_eq!(said(world.ask(Method::DELETE, &path)).await.status, 204);
    assert_eq!(world.google.uploads(STAGING), []);
    let gone = (404, "NoSuchUpload".to_owned());
    assert_eq!(said(world.ask(Method::DELETE, &path)).await.code(), gone);
    assert_eq!(world.get(&path).await.code(), gone);
    assert_eq!(said(world.part("o", &id, 1, b"x".to_vec())).await.code(), gone);
    assert_eq!(said(world.complete("o", &id, &[(1, &etag)])).await.code(), gone);
    assert_eq!(world.google.objects(STAGING), []);
}

#[tokio::test]
async fn no_multipart_call_takes_a_precondition() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    let etag = world.store_part("o", &id, 1, b"x".to_vec()).await;
    let with_id = format!("/{STAGING}/o?uploadId={id}");
    for header in
        ["x-goog-if-generation-match", "x-goog-if-metageneration-match", "if-match", "if-none-match"]
    {
        for request in [
            world.ask(Method::POST, "/staging/o?uploads"),
            world.part("o", &id, 1, b"y".to_vec()),
            world.ask(Method::GET, &with_id),
            world.complete("o", &id, &[(1, &etag)]),
            world.ask(Method::DELETE, &with_id),
        ] {
            let refused = said(request.header(header, "0")).await;
            assert_eq!(refused.code(), (400, "NotImplemented".to_owned()), "{header}");
        }
    }
    assert_eq!((world.google.uploads(STAGING).len(), world.google.objects(STAGING).len()), (1, 0));
    assert_eq!(
        said(world.complete("o", &id, &[(1, &etag)])).await.status,
        200,
        "the part is the first one still"
    );
}

#[tokio::test]
async fn a_list_of_parts_comes_in_pages() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    for number in [5, 2, 9] {
        world.store_part("o", &id, number, vec![b'x'; number as usize]).await;
    }
    let page = async |more: &str| world.get(&format!("/{STAGING}/o?uploadId={id}{more}")).await;
    let all = page("").await;
    assert_eq!(all.status, 200, "{}", all.text());
    let numbers = |text: &str| -> Vec<String> {
        let parts = text.split("<PartNumber>").skip(1);
        parts.map(|part| part.split('<').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(numbers(&all.text()), ["2", "5", "9"]);
    assert_eq!(
        (all.element("IsTruncated").as_deref(), all.element("NextPartNumberMarker")),
        (Some("false"), None)
    );
    assert_eq!(
        (all.element("Size").as_deref(), all.element("MaxParts").as_deref()),
        (Some("2"), Some("1000"))
    );
    assert!(all.element("ETag").unwrap().starts_with("&quot;"), "in quotes");
    let first = page("&max-parts=2").await;
    assert_eq!(numbers(&first.text()), ["2", "5"]);
    assert_eq!(first.element("IsTruncated").as_deref(), Some("true"));
    let marker = first.element("NextPartNumberMarker").expect("a marker");
    let second = page(&format!("&max-parts=2&part-number-marker={marker}")).await;
    assert_eq!(
        (numbers(&second.text()), second.element("IsTruncated")),
        (vec!["9".to_owned()], Some("false".to_owned()))
    );
    for wrong in ["&max-parts=0", "&max-parts=x", "&part-number-marker=-1"] {
        assert_eq!(page(wrong).await.code(), (400, "InvalidArgument".to_owned()), "{wrong}");
    }
}

#[tokio::test]
async fn a_list_of_uploads_comes_in_pages_and_by_prefix() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for object in ["a/1", "a/2", "a/2", "b/1"] {
        ids.push((object.to_owned(), world.initiate(object).await));
    }
    ids.sort();
    let (mut found, mut marker) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/{STAGING}?uploads&max-uploads=1{marker}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        found.push((page.element("Key").unwrap(), page.element("UploadId").unwrap()));
        if page.element("IsTruncated").as_deref() != Some("true") {
            break;
        }
        let (key, id) = (page.element("NextKeyMarker").unwrap(), page.element("NextUploadIdMarker").unwrap());
        marker = format!("&key-marker={key}&upload-id-marker={id}");
    }
    assert_eq!(found, ids);
    let some = world.get("/staging?uploads&prefix=b/").await;
    assert_eq!(some.text().matches("<Upload>").count(), 1);
    assert_eq!(world.get("/content?uploads").await.text().matches("<Upload>").count(), 0);
    assert_eq!(world.get("/nowhere?uploads").await.code(), (404, "NoSuchBucket".to_owned()));
    assert_eq!(world.google.uploads(CONTENT), []);
}

/// What came first is the object, whatever comes later.
#[tokio::test]
async fn two_completions_at_once_make_one_object() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    let etag = world.store_part("o", &id, 1, b"x".to_vec()).await;
    let complete = || said(world.complete("o", &id, &[(1, &etag)]));
    let (one, other) = tokio::join!(complete(), complete());
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404]);
    assert_eq!(world.google.objects(STAGING).len(), 1);
}

/// Bytes go to the disk on their way: a large upload fills nobody's memory. By the process's own peak, so in a process of
/// its own, as `cargo nextest` runs it.
#[tokio::test]
async fn two_hundred_megabytes_pass_through_little_memory() {
    const PIECES: usize = 128;
    let world = World::new().await;
    let id = world.initiate("large").await;
    let piece = bytes(64 << 10, 1);
    let shared = bytes::Bytes::from(piece.clone());
    let before = peak_kib();
    let mut etags = Vec::new();
    for number in 1..=25 {
        let pieces = std::iter::repeat_n(shared.clone(), PIECES).map(Ok::<_, std::io::Error>);
        let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
        let path = format!("/{STAGING}/large?partNumber={number}&uploadId={id}");
        let stored = said(world.ask(Method::PUT, &path).body(body)).await;
        assert_eq!(stored.status, 200, "{}", stored.text());
        etags.push((number, stored.header("etag")));
    }
    let parts: Vec<(u32, &str)> = etags.iter().map(|(number, etag)| (*number, etag.as_str())).collect();
    assert_eq!(said(world.complete("large", &id, &parts)).await.status, 200);
    let mut read = world.ask(Method::GET, "/staging/large").send().await.expect("a head");
    let (mut length, mut crc) = (0, 0);
    while let Some(bytes) = read.chunk().await.expect("a whole body") {
        length += bytes.len();
        crc = crc32c::crc32c_append(crc, &bytes);
    }
    let object = world.google.object(STAGING, "large").expect("stored");
    assert_eq!((length, crc), (25 * PIECES * piece.len(), object.crc32c));
    let grown = peak_kib() - before;
    assert!(grown < 40 << 10, "{grown} KiB more");
}

/// The most memory that this process ever had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
