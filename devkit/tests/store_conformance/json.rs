//! The JSON API: lists, metadata, rewrites, deletions, buckets and uploads, and each refusal.

use std::time::Duration;

use devkit::google::{Bucket, Cors, Lifecycle, Right};
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{CONTENT, STAGING, World, bytes, crc32c, md5, said};

const O: &str = "/storage/v1/b/staging/o";

#[tokio::test]
async fn a_list_comes_in_pages_and_by_prefix() {
    let world = World::new().await;
    for name in ["a/1", "a/2", "a/3", "b", "a"] {
        world.google.put_object(STAGING, name, "text/plain", name);
    }
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&world.get(O).await.json()), ["a", "a/1", "a/2", "a/3", "b"]);
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("{O}?prefix=a/&maxResults=2&versions=true{token}")).await.json();
        found.push(names(&page));
        let Some(next) = page["nextPageToken"].as_str() else { break };
        token = format!("&pageToken={}", next.replace('=', "%3D"));
    }
    assert_eq!(found, [vec!["a/1", "a/2"], vec!["a/3"]]);
    let empty = world.get("/storage/v1/b/content/o").await.json();
    assert_eq!(empty, json!({"kind": "storage#objects"}));
    for (path, reason) in [
        (format!("{O}?pageToken=x"), (400, "invalid")),
        (format!("{O}?maxResults=0"), (400, "invalid")),
        (format!("{O}?delimiter=/"), (400, "notImplemented")),
        ("/storage/v1/b/nowhere/o".to_owned(), (404, "notFound")),
    ] {
        let (status, said) = world.get(&path).await.reason();
        assert_eq!((status, said.as_str()), reason, "{path}");
    }
}

#[tokio::test]
async fn metadata_says_what_is_stored() {
    let world = World::new().await;
    world.google.put_encoded(STAGING, "a/b c", "text/plain", "gzip", b"abc");
    let generation = world.google.object(STAGING, "a/b c").unwrap().generation;
    let shown = world.get(&format!("{O}/a%2Fb%20c")).await.json();
    for (name, value) in [
        ("kind", json!("storage#object")),
        ("id", json!(format!("staging/a/b c/{generation}"))),
        ("name", json!("a/b c")),
        ("bucket", json!("staging")),
        ("generation", json!(generation.to_string())),
        ("metageneration", json!("1")),
        ("size", json!("3")),
        ("contentType", json!("text/plain")),
        ("contentEncoding", json!("gzip")),
        ("md5Hash", json!(md5(b"abc"))),
        ("crc32c", json!(crc32c(b"abc"))),
        ("storageClass", json!("STANDARD")),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    let read = world.get(&format!("{O}/a%2Fb%20c?alt=media&generation={generation}")).await;
    assert_eq!((read.status, read.text().as_str()), (200, "abc"));
    assert_eq!(read.headers.get_all("x-goog-hash").iter().count(), 1, "all digests in one header");
    for (query, reason) in [
        ("?generation=1", (404, "notFound")),
        ("?generation=x", (400, "invalid")),
        ("?ifGenerationMatch=1", (412, "conditionNotMet")),
        ("?alt=media&ifGenerationMatch=1", (412, "conditionNotMet")),
        ("?alt=media&generation=1", (404, "notFound")),
    ] {
        let (status, said) = world.get(&format!("{O}/a%2Fb%20c{query}")).await.reason();
        assert_eq!((status, said.as_str()), reason, "{query}");
    }
    assert_eq!(world.get(&format!("{O}/missing")).await.reason(), (404, "notFound".to_owned()));
    let unchanged = world.get(&format!("{O}/a%2Fb%20c?alt=media&ifGenerationNotMatch={generation}")).await;
    assert_eq!(unchanged.status, 304);
}

#[tokio::test]
async fn a_rewrite_copies_what_it_was_to_copy_or_nothing() {
    let world = World::new().await;
    let content = bytes(3 << 20, 4);
    world.google.put_object(STAGING, "up/1", "image/png", content.clone());
    let generation = world.google.object(STAGING, "up/1").unwrap().generation;
    let to = format!("{O}/up%2F1/rewriteTo/b/content/o/blobs%2F1");
    let rewrite =
        |query: String, body: Value| said(world.ask(Method::POST, &format!("{to}{query}")).json(&body));
    for (query, reason) in [
        ("?sourceGeneration=1".to_owned(), (404, "notFound")),
        (format!("?ifSourceGenerationMatch={}", generation + 1), (412, "conditionNotMet")),
        ("?ifGenerationMatch=1".to_owned(), (412, "conditionNotMet")),
    ] {
        let (status, said) = rewrite(query.clone(), json!({})).await.reason();
        assert_eq!((status, said.as_str()), reason, "{query}");
    }
    assert_eq!(world.google.objects(CONTENT), []);
    let good =
        format!("?ifGenerationMatch=0&sourceGeneration={generation}&ifSourceGenerationMatch={generation}");
    let done = rewrite(good.clone(), json!({"metadata": {"form": "a"}})).await.json();
    assert_eq!((&done["done"], &done["objectSize"]), (&json!(true), &json!(content.len().to_string())));
    let resource = &done["resource"];
    assert_eq!((&resource["contentType"], &resource["metadata"]["form"]), (&json!("image/png"), &json!("a")));
    assert_eq!(resource["crc32c"], json!(crc32c(&content)));
    assert!(world.google.object_bytes(CONTENT, "blobs/1").unwrap() == content);
    assert_eq!(rewrite(good, json!({})).await.reason(), (412, "conditionNotMet".to_owned()), "repeated");
    world.google.delete_object(STAGING, "up/1");
    assert!(world.google.object_bytes(CONTENT, "blobs/1").unwrap() == content, "a copy is a copy");
    assert_eq!(rewrite(String::new(), json!({})).await.reason(), (404, "notFound".to_owned()));
    let nowhere = format!("{O}/up%2F1/rewriteTo/b/nowhere/o/x");
    assert_eq!(said(world.ask(Method::POST, &nowhere)).await.reason(), (404, "notFound".to_owned()));
}

#[tokio::test]
async fn a_rewrite_goes_in_rounds_and_a_token_is_for_one_copy() {
    let world = World::new().await;
    let content = bytes(1 << 20, 4);
    world.google.put_object(STAGING, "o", "image/png", content.clone());
    world.google.set_rewrite_round(400_000);
    let round = |to: &str, token: &str| {
        let path = format!("{O}/o/rewriteTo/b/content/o/{to}?ifGenerationMatch=0&rewriteToken={token}");
        said(world.ask(Method::POST, &path.replace("&rewriteToken=NONE", "")).json(&json!({})))
    };
    let mut token = "NONE".to_owned();
    for copied in [400_000, 800_000] {
        let said = round("p", &token).await.json();
        assert_eq!(
            (&said["done"], &said["totalBytesRewritten"]),
            (&json!(false), &json!(copied.to_string()))
        );
        assert_eq!((&said["resource"], world.google.object(CONTENT, "p")), (&Value::Null, None));
        token = said["rewriteToken"].as_str().unwrap().to_owned();
    }
    for (to, token) in [("q", token.as_str()), ("p", "abc")] {
        assert_eq!(round(to, token).await.status, 400, "{to} {token}");
    }
    assert_eq!(round("p", &token).await.json()["done"], json!(true));
    assert!(world.google.object_bytes(CONTENT, "p").unwrap() == content);
    assert_eq!(round("p", "NONE").await.reason(), (412, "conditionNotMet".to_owned()));
}

#[tokio::test]
async fn permissions_are_told_to_whoever_has_a_name() {
    let world = World::new().await;
    let account = world.google.service_account_email().to_owned();
    let path = "/storage/v1/b/staging/iam/testPermissions?permissions=storage.objects.get&permissions=storage.objects.\
                delete&permissions=storage.multipartUploads.abort&permissions=storage.buckets.get&permissions=x.y.z";
    for (rights, expected) in [
        (&[Right::Get, Right::Create][..], json!(["storage.objects.get", "storage.multipartUploads.abort"])),
        (&[Right::Delete, Right::Inspect], json!(["storage.objects.delete", "storage.buckets.get"])),
        (&[], Value::Null),
    ] {
        world.google.grant(&account, STAGING, rights);
        assert_eq!(world.get(path).await.json()["permissions"], expected);
    }
    assert_eq!(said(world.plain(Method::GET, path)).await.status, 401);
    assert_eq!(world.get(&path.replace("staging", "nowhere")).await.status, 404);
}

#[tokio::test]
async fn what_is_deleted_is_gone_and_for_a_while_only_softly() {
    let world = World::new().await;
    world.google.put_object(STAGING, "o", "text/plain", "old");
    let generation = world.google.object(STAGING, "o").unwrap().generation;
    let delete = |query: String| said(world.ask(Method::DELETE, &format!("{O}/o{query}")));
    assert_eq!(delete("?generation=1".to_owned()).await.reason(), (404, "notFound".to_owned()));
    assert_eq!(delete("?ifGenerationMatch=1".to_owned()).await.reason(), (412, "conditionNotMet".to_owned()));
    let gone = delete(format!("?generation={generation}&ifGenerationMatch={generation}")).await;
    assert_eq!((gone.status, gone.text()), (204, String::new()));
    assert_eq!(delete(String::new()).await.reason(), (404, "notFound".to_owned()));
    assert_eq!(world.get(O).await.json()["items"], Value::Null);
    let soft = world.get(&format!("{O}?softDeleted=true")).await.json();
    assert_eq!(soft["items"][0]["generation"], json!(generation.to_string()));
    assert!(soft["items"][0]["hardDeleteTime"].is_string() && soft["items"][0]["softDeleteTime"].is_string());
    let one = world.get(&format!("{O}/o?softDeleted=true&generation={generation}")).await;
    assert_eq!(one.status, 200, "{}", one.text());
    world.google.set_clock_offset(8 * 24 * 3600);
    assert_eq!(
        world.get(&format!("{O}?softDeleted=true")).await.json()["items"],
        Value::Null,
        "a week later"
    );
    assert_eq!(world.google.soft_deleted(STAGING), []);
    world.google.set_clock_offset(0);
    world.google.declare_bucket(STAGING, Bucket { soft_delete: Duration::ZERO, ..Bucket::default() });
    world.google.put_object(STAGING, "p", "text/plain", "x");
    assert!(world.google.delete_object(STAGING, "p"));
    assert_eq!(
        world.google.soft_deleted(STAGING).len(),
        1,
        "the first one alone: it went while the policy held"
    );
}

#[tokio::test]
async fn a_bucket_shows_its_configuration() {
    let world = World::new().await;
    let shown = world.get("/storage/v1/b/staging").await.json();
    assert_eq!(
        (&shown["location"], &shown["storageClass"], &shown["softDeletePolicy"]["retentionDurationSeconds"]),
        (&json!("EUROPE-WEST1"), &json!("STANDARD"), &json!("604800"))
    );
    assert_eq!((&shown["lifecycle"], &shown["cors"]), (&Value::Null, &Value::Null));
    world.google.declare_bucket(
        STAGING,
        Bucket {
            location: "US".to_owned(),
            lifecycle: vec![Lifecycle::Delete(2), Lifecycle::AbortUploads(1)],
            cors: vec![Cors::uploads_from("https://forms.example.org")],
            ..Bucket::default()
        },
    );
    let shown = world.get("/storage/v1/b/staging").await.json();
    assert_eq!(shown["lifecycle"]["rule"][1]["action"]["type"], "AbortIncompleteMultipartUpload");
    assert_eq!(shown["lifecycle"]["rule"][0], json!({"action": {"type": "Delete"}, "condition": {"age": 2}}));
    assert_eq!(shown["cors"][0]["origin"], json!(["https://forms.example.org"]));
    assert_eq!(world.get("/storage/v1/b/nowhere").await.reason(), (404, "notFound".to_owned()));
}

#[tokio::test]
async fn an_upload_in_one_request() {
    let world = World::new().await;
    let upload = |query: &str| world.ask(Method::POST, &format!("/upload{O}?{query}"));
    let media =
        upload("uploadType=media&name=a%2F1&ifGenerationMatch=0").header("content-type", "text/plain");
    let stored = said(media.body("abc")).await.json();
    assert_eq!(
        (&stored["name"], &stored["contentType"], &stored["size"]),
        (&json!("a/1"), &json!("text/plain"), &json!("3"))
    );
    let again = upload("uploadType=media&name=a%2F1&ifGenerationMatch=0").body("abc");
    assert_eq!(said(again).await.reason(), (412, "conditionNotMet".to_owned()));
    let multipart = |metadata: Value, media: &str| {
        let body = format!(
            "--x\r\ncontent-type: application/json\r\n\r\n{metadata}\r\n--x\r\ncontent-type: image/png\r\n\r\n{media}\r\n--x--"
        );
        upload("uploadType=multipart").header("content-type", "multipart/related; boundary=\"x\"").body(body)
    };
    let stored = said(multipart(json!({"name": "m", "md5Hash": md5(b"png")}), "png")).await.json();
    assert_eq!((&stored["name"], &stored["contentType"]), (&json!("m"), &json!("image/png")));
    for (request, reason) in [
        (multipart(json!({"name": "n", "md5Hash": md5(b"gif")}), "png"), "invalid"),
        (multipart(json!({"name": "n", "crc32c": crc32c(b"gif")}), "png"), "invalid"),
        (multipart(json!({}), "png"), "required"),
        (upload("uploadType=media").body("abc"), "required"),
        (upload("uploadType=multipart&name=n").body("abc"), "invalid"),
        (upload("name=n").body("abc"), "invalid"),
        (
            upload("uploadType=media&name=n").header("x-goog-hash", format!("md5={}", md5(b"x"))).body("y"),
            "invalid",
        ),
    ] {
        assert_eq!(said(request).await.reason(), (400, reason.to_owned()));
    }
    assert_eq!(world.google.object(STAGING, "n"), None);
}

#[tokio::test]
async fn an_upload_by_a_session_goes_on_where_it_stopped() {
    let world = World::new().await;
    let content = bytes(700_000, 5);
    let begin = |query: &str| {
        let begin = world.ask(Method::POST, &format!("/upload{O}?uploadType=resumable&name=r{query}"));
        said(begin.json(&json!({"contentType": "text/plain", "md5Hash": md5(&content)})))
    };
    let begun = begin("&ifGenerationMatch=0").await;
    assert_eq!(begun.status, 200, "{}", begun.text());
    let address = begun.header("location");
    // The address is all that is needed: no token from here on.
    let put = |range: &str, body: &[u8]| {
        said(world.http.put(&address).header("content-range", range).body(body.to_vec()))
    };
    let unit = 262_144;
    let first = put(&format!("bytes 0-{}/700000", unit - 1), &content[..unit]).await;
    assert_eq!((first.status, first.header("range")), (308, format!("bytes=0-{}", unit - 1)));
    let asked = put("bytes */*", b"").await;
    assert_eq!((asked.status, asked.header("range")), (308, format!("bytes=0-{}", unit - 1)));
    let gap = put("bytes 500000-699999/700000", &content[500_000..]).await;
    assert_eq!(
        (gap.status, gap.header("range")),
        (308, format!("bytes=0-{}", unit - 1)),
        "a gap is not filled"
    );
    assert_eq!(world.google.object(STAGING, "r"), None);
    // Bytes that are there already are passed over.
    let last = put("bytes 200000-699999/700000", &content[200_000..]).await;
    assert_eq!(last.json()["size"], "700000");
    assert!(world.google.object_bytes(STAGING, "r").unwrap() == content);
    assert_eq!(put("bytes */*", b"").await.json()["size"], "700000", "finished, it says so again");
    assert_eq!(begin("&ifGenerationMatch=0").await.reason(), (412, "conditionNotMet".to_owned()));
    let address = begin("").await.header("location");
    let odd =
        world.http.put(&address).header("content-range", "bytes 0-99/700000").body(content[..100].to_vec());
    assert_eq!(said(odd).await.reason(), (400, "invalid".to_owned()));
    let mut spoilt = content.clone();
    spoilt[7] ^= 1;
    let address = begin("").await.header("location");
    assert_eq!(said(world.http.put(&address).body(spoilt)).await.reason(), (400, "invalid".to_owned()));
    let cancelled = begin("").await.header("location");
    assert_eq!(said(world.http.delete(&cancelled)).await.status, 499);
    assert_eq!(said(world.http.put(&cancelled).body("x")).await.reason(), (404, "notFound".to_owned()));
}
