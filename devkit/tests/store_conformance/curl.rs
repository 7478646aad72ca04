//! curl, with URLs that Google's Python library signed; and the product's signer beside it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use google_cloud_storage::builder::storage::SignedUrlBuilder;
use reqwest::Method;
use serde_json::json;
use tokio::process::Command;

use crate::python::python;
use crate::world::{STAGING, World, bytes, list, md5};

/// A URL as Google's Python library signs it, at this instant where one is named.
async fn signed_by_python(
    world: &World,
    endpoint: &str,
    method: &str,
    object: &str,
    query: &[(&str, &str)],
    headers: &[(&str, &str)],
    date: Option<&str>,
) -> String {
    let map = |pairs: &[(&str, &str)]| {
        serde_json::Value::Object(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect(),
        )
    };
    let request = json!({
        "key": world.key_file(world.google.service_account_email()), "endpoint": endpoint, "bucket": STAGING,
        "object": object, "method": method, "query": map(query), "headers": map(headers), "date": date,
    });
    let said = python("storage_sign.py", &[&request.to_string()], &[]).await.expect("a URL");
    said.trim().to_owned()
}

/// What curl says: the status, then the body.
async fn curl(directory: &Path, arguments: &[&str]) -> (u16, String) {
    let mut command = Command::new("curl");
    command.args(["-q", "-sS", "--noproxy", "*", "-w", "\n%{http_code}"]).args(arguments);
    command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
    let ended = command.output().await.expect("curl, which these tests need");
    assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}

#[tokio::test]
async fn curl_puts_parts_by_urls_that_python_signed() {
    let world = World::new().await;
    let (directory, endpoint) = (world.dir.path(), world.google.storage_endpoint());
    let object = "forms/Größe 1*+.bin";
    let url = signed_by_python(&world, &endpoint, "POST", object, &[("uploads", "")], &[], None).await;
    let (status, body) = curl(directory, &["-X", "POST", &url]).await;
    assert_eq!(status, 200, "{body}");
    let id = body.split_once("<UploadId>").expect("an id").1.split_once('<').expect("its end").0.to_owned();
    let parts = [bytes(6 << 20, 1), bytes(123_456, 2)];
    for (number, part) in ["1", "2"].into_iter().zip(&parts) {
        std::fs::write(directory.join("part"), part).unwrap();
        let digest = md5(part);
        let query = [("partNumber", number), ("uploadId", id.as_str())];
        let url =
            signed_by_python(&world, &endpoint, "PUT", object, &query, &[("Content-MD5", &digest)], None)
                .await;
        let header = format!("Content-MD5: {digest}");
        let (status, body) = curl(directory, &["-T", "part", "-H", &header, &url]).await;
        assert_eq!((status, body.as_str()), (200, ""));
        let (status, body) = curl(directory, &["-T", "part", &url]).await;
        assert_eq!(status, 400, "without its digest: {body}");
        let mut flipped = part.clone();
        flipped[99] ^= 1;
        std::fs::write(directory.join("part"), &flipped).unwrap();
        let (status, body) = curl(directory, &["-T", "part", "-H", &header, &url]).await;
        assert!(status == 400 && body.contains("<Code>BadDigest</Code>"), "{status} {body}");
    }
    let stored = &world.google.uploads(STAGING)[0].parts;
    let etags: Vec<String> = stored.iter().map(|part| format!("\"{}\"", part.etag)).collect();
    std::fs::write(directory.join("list"), list(&[(1, &etags[0]), (2, &etags[1])])).unwrap();
    let url = signed_by_python(&world, &endpoint, "POST", object, &[("uploadId", &id)], &[], None).await;
    let (status, body) = curl(directory, &["--data-binary", "@list", "-H", "Content-Type:", &url]).await;
    assert_eq!(status, 200, "{body}");
    let url = signed_by_python(&world, &endpoint, "GET", object, &[], &[], None).await;
    let (status, _) = curl(directory, &["-o", "whole", &url]).await;
    assert_eq!(status, 200);
    assert!(std::fs::read(directory.join("whole")).unwrap() == parts.concat(), "byte for byte");
    // Resumed in the middle, as `curl -C -` does it.
    let whole = parts.concat();
    std::fs::write(directory.join("half"), &whole[..3_000_000]).unwrap();
    let (status, _) = curl(directory, &["-C", "-", "-o", "half", &url]).await;
    assert_eq!(status, 206);
    assert!(std::fs::read(directory.join("half")).unwrap() == whole);
}

/// The product signs part URLs with Google's crate: byte for byte what Google's Python library makes of the same key,
/// instant, parameters and header.
#[tokio::test]
async fn the_crate_signs_part_urls_as_python_does() {
    let world = World::new().await;
    let account = world.google.service_account_email();
    let signer = world.signer(account);
    let endpoint = "https://storage.googleapis.com";
    let digest = md5(b"part");
    for (object, number, id) in [
        ("blobs/1", "1", "ABPnzm5k"),
        ("Größe & Maß/a b~c'd(e)", "10000", "VXBsb2FkIElEIGZvciBlbHZpbmcncyBteS1tb3ZpZS5tMnRzIHVwbG9hZA"),
        ("o", "7", "a-b_c.d~e+f/g=h"),
    ] {
        for headers in [&[("content-md5", digest.as_str())][..], &[]] {
            let query = [("partNumber", number), ("uploadId", id)];
            let builder = SignedUrlBuilder::for_object(format!("projects/_/buckets/{STAGING}"), object)
                .with_method(Method::PUT)
                .with_endpoint(endpoint)
                .with_expiration(Duration::from_secs(900))
                .with_query_param("partNumber", number)
                .with_query_param("uploadId", id);
            let builder =
                headers.iter().fold(builder, |builder, (name, value)| builder.with_header(*name, *value));
            let ours = builder.sign_with(&signer).await.expect("a URL");
            let date =
                ours.split_once("X-Goog-Date=").expect("an instant").1.split_once('&').expect("its end").0;
            let theirs = signed_by_python(&world, endpoint, "PUT", object, &query, headers, Some(date)).await;
            assert_eq!(sorted(&ours), sorted(&theirs), "{object}");
            assert_eq!(ours, theirs, "{object}: also in its order");
        }
    }
}

/// Address and parameters, for a difference that can be read.
fn sorted(url: &str) -> Vec<String> {
    let (address, query) = url.split_once('?').expect("a query");
    let mut parts: Vec<String> = query.split('&').map(str::to_owned).collect();
    parts.sort();
    parts.insert(0, address.to_owned());
    parts
}
