//! The text of a URL: equal to Google's own, openable, ending when it says, and false after any change.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use devkit::google::GoogleFake;
use google_cloud_auth::credentials::service_account;
use google_cloud_storage::builder::storage::SignedUrlBuilder;
use jiff::Timestamp;
use maple_router::gateway::signed_url::UrlSigner;
use maple_router::ports::LinkRequest;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::harness::{BUCKET, by_key_file, key_file_config, now_on_this_host, open, query, request};

/// Names that have broken signers before.
const OBJECTS: &[&str] = &[
    "plain.pdf",
    "folder/sub folder/file name.pdf",
    "a+b.pdf",
    "50%.pdf",
    "50%25.pdf",
    "tilde~file",
    "Grüße aus Köln.pdf",
    "日本語/ファイル.txt",
    "emoji 🍁.png",
    "quote'single",
    "quote\"double",
    "back\\slash",
    "?query=1&x=2#fragment",
    "semi;colon,comma:at@",
    "brackets[](){}<>|^`",
    "star*bang!dollar$",
    "//double//slash/",
    "trailing space ",
    "..hidden..",
    "\u{7f}control\u{1}",
];

#[tokio::test]
async fn urls_equal_those_of_googles_python_library() {
    let fake = GoogleFake::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let key_file = dir.path().join("key.json");
    fake.write_key_file(&key_file).unwrap();
    let local = fake.storage_endpoint();

    for endpoint in ["https://storage.googleapis.com", local.as_str()] {
        let signer = UrlSigner::new(&key_file_config(&key_file, endpoint), None).unwrap();
        let mut ours = Vec::new();
        let mut order = Vec::new();
        for (index, object) in OBJECTS.iter().enumerate() {
            for file_name in ["report.pdf", object] {
                let seconds = [1, 3_600, 604_800][index % 3];
                let request = LinkRequest { ttl: Duration::from_secs(seconds), ..request(object, file_name) };
                let link = signer.sign(&request).await.unwrap();
                order.push(json!({
                    "bucket": BUCKET, "object": object, "seconds": seconds, "date": query(&link, "X-Goog-Date"),
                    "disposition": query(&link, "response-content-disposition"),
                }));
                ours.push(link.url);
            }
        }
        let theirs = python(&json!({"key_file": key_file, "endpoint": endpoint, "requests": order})).await;
        assert_eq!(ours.len(), 2 * OBJECTS.len());
        assert_eq!(ours, theirs);
    }
}

async fn python(order: &serde_json::Value) -> Vec<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv/bin/python");
    assert!(python.exists(), "{} is missing: run `make python`", python.display());
    let mut child = tokio::process::Command::new(python)
        .arg(root.join("tests/python/sign_vectors.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(order.to_string().as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(
        output.status.success(),
        "sign_vectors.py failed: run `make python` again, its packages may be too old"
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn every_object_opens_under_its_file_name() {
    let fake = GoogleFake::start().await.unwrap();
    let (signer, _dir) = by_key_file(&fake);
    for object in OBJECTS {
        fake.put_object(BUCKET, object, "text/plain", object.as_bytes());
        let link = signer.sign(&request(object, "Grüße \"1\".txt")).await.unwrap();
        let (status, disposition, body) = open(&link.url).await;
        assert_eq!((status, body.as_str()), (200, *object), "{object:?}");
        assert_eq!(disposition, "attachment; filename=\"Grüße _1_.txt\"");
    }
}

#[tokio::test]
async fn a_link_ends_when_it_says() {
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "o", "text/plain", "content");
    let (signer, _dir) = by_key_file(&fake);
    let seconds = || now_on_this_host().as_second();
    let before = seconds();
    let link = signer.sign(&LinkRequest { ttl: Duration::from_secs(60), ..request("o", "o") }).await.unwrap();
    let after = seconds();
    assert!((before + 60..=after + 60).contains(&link.valid_until.as_second()), "{link:?}");
    assert_eq!(link.valid_until.subsec_nanosecond(), 0);
    let from = link.valid_until - Duration::from_secs(60);
    assert_eq!(query(&link, "X-Goog-Date"), from.strftime("%Y%m%dT%H%M%SZ").to_string());

    let set_clock = |instant: Timestamp| fake.set_clock_offset(instant.as_second() - seconds());
    set_clock(link.valid_until - Duration::from_secs(2));
    assert_eq!(open(&link.url).await.0, 200);
    set_clock(link.valid_until + Duration::from_secs(2));
    let (status, _, body) = open(&link.url).await;
    assert_eq!(status, 400);
    assert!(body.contains("<Code>ExpiredToken</Code>"), "{body}");
}

#[tokio::test]
async fn a_changed_link_opens_nothing() {
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "o", "text/plain", "content");
    fake.put_object(BUCKET, "p", "text/plain", "secret");
    let (signer, _dir) = by_key_file(&fake);
    let url = signer.sign(&request("o", "o.txt")).await.unwrap().url;
    assert_eq!(open(&url).await.0, 200);
    let changes = [
        ("/o?", "/p?"),
        ("X-Goog-Expires=86400", "X-Goog-Expires=604800"),
        ("o.txt", "p.exe"),
        ("filename%3D", "filename%2A%3D"),
        ("X-Goog-Signature=", "X-Goog-Signature=00"),
    ];
    for (from, to) in changes {
        assert!(url.contains(from), "{from}");
        let (status, _, body) = open(&url.replace(from, to)).await;
        assert_eq!(status, 403, "{from} -> {to}");
        assert!(body.contains("<Code>SignatureDoesNotMatch</Code>"), "{body}");
    }
    let (bare, _) = url.split_once('?').unwrap();
    let (status, _, body) = open(bare).await;
    assert_eq!(status, 403);
    assert!(body.contains("<Code>AccessDenied</Code>"), "{body}");
}

/// Why our links have no `filename*=`, and why a query with an asterisk is refused. When this fails, the library has
/// learned to encode it, and the long form of the header is possible.
#[tokio::test]
async fn the_library_alone_makes_dead_links_of_asterisks() {
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "o", "text/plain", "content");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    fake.write_key_file(&path).unwrap();
    let key = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let signer = service_account::Builder::new(key).build_signer().unwrap();
    for (disposition, expected) in
        [("attachment; filename=\"o\"", 200), ("attachment; filename*=UTF-8''o", 403)]
    {
        let url = SignedUrlBuilder::for_object(format!("projects/_/buckets/{BUCKET}"), "o")
            .with_endpoint(fake.storage_endpoint())
            .with_query_param("response-content-disposition", disposition)
            .sign_with(&signer)
            .await
            .unwrap();
        assert_eq!(open(&url).await.0, expected, "{disposition}");
    }
}

#[tokio::test]
async fn no_value_with_an_asterisk_becomes_a_link() {
    let fake = GoogleFake::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    fake.write_key_file(&path).unwrap();
    let key = std::fs::read_to_string(&path).unwrap();
    let account = fake.service_account_email();
    assert!(key.contains(account));
    std::fs::write(&path, key.replace(account, "maple*@maple-dev.iam.gserviceaccount.com")).unwrap();
    let signer = UrlSigner::new(&key_file_config(&path, &fake.storage_endpoint()), None).unwrap();
    let error = signer.sign(&request("o", "o")).await.unwrap_err();
    assert!(error.is_about_us() && error.detail().contains("asterisk"), "{error}");
}

#[tokio::test]
async fn an_asterisk_in_an_object_name_is_encoded_once() {
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "a*b%2A.pdf", "application/pdf", "%PDF");
    let (signer, _dir) = by_key_file(&fake);
    let url = signer.sign(&request("a*b%2A.pdf", "a*b%2A.pdf")).await.unwrap().url;
    assert!(url.contains("/a%2Ab%252A.pdf?") && !url.contains('*'), "{url}");
    let (status, disposition, _) = open(&url).await;
    assert_eq!((status, disposition.as_str()), (200, "attachment; filename=\"a_b_2A.pdf\""));
}
