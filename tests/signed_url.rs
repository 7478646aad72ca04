//! Signed URLs against an object store that verifies them, IAM that misbehaves, and Google's own Python library.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up has failed")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use devkit::google::{GoogleFake, Mishap};
use google_cloud_auth::credentials::service_account;
use google_cloud_storage::builder::storage::SignedUrlBuilder;
use jiff::Timestamp;
use maple_router::config::{SignedUrl, SignerKind};
use maple_router::gateway::signed_url::{Pace, SignError, UrlSigner, inspect};
use maple_router::ports::{CheckLevel, CheckLine, LinkRequest, SignedLink};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use url::Url;

const BUCKET: &str = "maple-uploads";
const DAY: Duration = Duration::from_secs(86_400);

/// Quick to give up, so that an outage takes a test no seconds.
const PACE: Pace = Pace {
    timeout: Duration::from_millis(300),
    attempts: 3,
    backoff_min: Duration::from_millis(5),
    backoff_max: Duration::from_millis(20),
};

fn request(object: &str, file_name: &str) -> LinkRequest {
    LinkRequest {
        bucket: BUCKET.to_owned(),
        object: object.to_owned(),
        file_name: file_name.to_owned(),
        ttl: DAY,
    }
}

fn by_metadata(fake: &GoogleFake) -> UrlSigner {
    let config = SignedUrl {
        signer: SignerKind::Metadata,
        endpoint: fake.iam_endpoint(),
        storage_endpoint: fake.storage_endpoint(),
        ..SignedUrl::default()
    };
    UrlSigner::with_pace(&config, Some(&fake.metadata_host()), PACE).unwrap()
}

/// Something that would wait for ever fails the test instead.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("no end within 20 s")
}

fn key_file_config(key_file: &Path, storage_endpoint: &str) -> SignedUrl {
    SignedUrl {
        signer: SignerKind::KeyFile,
        key_file: Some(key_file.to_owned()),
        storage_endpoint: storage_endpoint.to_owned(),
        ..SignedUrl::default()
    }
}

fn by_key_file(fake: &GoogleFake) -> (UrlSigner, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    fake.write_key_file(&path).unwrap();
    (UrlSigner::with_pace(&key_file_config(&path, &fake.storage_endpoint()), None, PACE).unwrap(), dir)
}

/// Status, `Content-Disposition` and body of a GET, as any browser would send it.
async fn open(url: &str) -> (u16, String, String) {
    let response = reqwest::get(url).await.unwrap();
    let disposition = response.headers().get("content-disposition").map(|value| value.as_bytes().to_owned());
    let disposition = String::from_utf8(disposition.unwrap_or_default()).unwrap();
    (response.status().as_u16(), disposition, response.text().await.unwrap())
}

fn query(link: &SignedLink, name: &str) -> String {
    let url = Url::parse(&link.url).unwrap();
    url.query_pairs().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no {name}")).1.into_owned()
}

// --- the text of a URL -------------------------------------------------------------------------------------------

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

// --- key file ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_wrong_key_file_is_named_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("missing.json", None, "cannot be read"),
        ("text.json", Some("SECRET-not-json".to_owned()), "is not JSON"),
        (
            "user.json",
            Some(json!({"type": "authorized_user", "refresh_token": "SECRET"}).to_string()),
            "not a service",
        ),
        (
            "parts.json",
            Some(
                json!({"type": "service_account", "client_email": "a@b", "private_key": "SECRET"})
                    .to_string(),
            ),
            "lacks parts",
        ),
        (
            "pem.json",
            Some(
                json!({"type": "service_account", "client_email": "a@b", "private_key": "SECRET",
                       "private_key_id": "1", "project_id": "p"})
                .to_string(),
            ),
            "does not sign",
        ),
    ];
    for (name, content, what) in cases {
        let path = dir.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error =
            UrlSigner::new(&key_file_config(&path, "https://storage.googleapis.com"), None).unwrap_err();
        assert!(matches!(error, SignError::Misconfigured { .. }), "{name}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(&path.display().to_string()), "{name}: {text}");
        assert!(!format!("{error:?}{text}").contains("SECRET"), "{name}: {text}");
    }
    let nothing = SignedUrl { signer: SignerKind::KeyFile, ..SignedUrl::default() };
    assert!(UrlSigner::new(&nothing, None).unwrap_err().to_string().contains("[signed_url] key_file"));
}

#[tokio::test]
async fn wrong_endpoints_are_refused_at_once() {
    let refused = |config: SignedUrl| UrlSigner::new(&config, None).unwrap_err().to_string();
    let clear = SignedUrl { endpoint: "http://iam.example.org".to_owned(), ..SignedUrl::default() };
    assert!(refused(clear).contains("[signed_url] endpoint would carry access tokens in the clear"));
    let bare = SignedUrl { storage_endpoint: "localhost:4443".to_owned(), ..SignedUrl::default() };
    assert!(refused(bare).contains("[signed_url] storage_endpoint"));
}

#[tokio::test]
async fn nothing_secret_is_shown_by_debug() {
    let fake = GoogleFake::start().await.unwrap();
    let (by_file, dir) = by_key_file(&fake);
    let key: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("key.json")).unwrap()).unwrap();
    let pem = key["private_key"].as_str().unwrap();
    let by_iam = by_metadata(&fake);
    let link = by_iam.sign(&request("o", "o")).await.unwrap();
    let shown = format!("{by_file:?} {by_iam:?} {link:?}");
    for line in pem.lines().filter(|line| !line.starts_with("-----")) {
        assert!(!shown.contains(line), "{shown}");
    }
    for secret in ["PRIVATE", "ya29", "Signature"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

// --- metadata server and IAM -------------------------------------------------------------------------------------

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
        assert!(started.elapsed() < 3 * PACE.timeout + Duration::from_millis(600), "{:?}", started.elapsed());
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

// --- many links --------------------------------------------------------------------------------------------------

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

// --- check -------------------------------------------------------------------------------------------------------

async fn levels(
    signer: &UrlSigner,
    probe: Option<&str>,
    ttl: Duration,
) -> (CheckLevel, CheckLevel, Vec<CheckLine>) {
    let lines = in_time(inspect(signer, probe, ttl)).await;
    assert_eq!(lines.iter().map(|line| line.name).collect::<Vec<_>>(), ["signing", "link"]);
    for line in &lines {
        assert_eq!(line.remedy.is_some(), line.level != CheckLevel::Ok, "{line:?}");
        let text = format!("{line:?}");
        assert!(!text.contains("X-Goog") && !text.contains("ya29"), "{text}");
    }
    (lines[0].level, lines[1].level, lines)
}

#[tokio::test]
async fn only_the_line_whose_part_is_wrong_fails() {
    use CheckLevel::{Fail, Ok, Warn};
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "check/probe", "text/plain", "probe");
    let probe = format!("{BUCKET}/check/probe");
    let (by_file, _dir) = by_key_file(&fake);
    let by_iam = by_metadata(&fake);
    let hour = Duration::from_secs(3600);

    let healthy = levels(&by_file, Some(&probe), 7 * DAY).await;
    assert_eq!((healthy.0, healthy.1), (Ok, Ok), "{:?}", healthy.2);
    let healthy = levels(&by_iam, Some(&probe), 12 * hour).await;
    assert_eq!((healthy.0, healthy.1), (Ok, Ok), "{:?}", healthy.2);
    let long = levels(&by_iam, Some(&probe), 7 * DAY).await;
    assert_eq!((long.0, long.1), (Warn, Ok), "{:?}", long.2);
    assert!(long.2[0].detail.contains("12 h"), "{:?}", long.2);

    let unprobed = levels(&by_iam, None, hour).await;
    assert_eq!((unprobed.0, unprobed.1), (Ok, Warn), "{:?}", unprobed.2);
    for wrong in ["no-slash", "bucket/", "/object", "Bad Bucket/object", "maple-uploads/a/../b"] {
        let wrong = levels(&by_iam, Some(wrong), hour).await;
        assert_eq!((wrong.0, wrong.1), (Ok, Fail), "{:?}", wrong.2);
    }

    fake.set_may_read(false);
    let blind = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((blind.0, blind.1), (Ok, Fail), "{:?}", blind.2);
    assert!(blind.2[1].remedy.as_deref().unwrap().contains("storage.objects.get"), "{:?}", blind.2);
    fake.set_may_read(true);

    let gone = levels(&by_iam, Some("maple-uploads/gone"), hour).await;
    assert_eq!((gone.0, gone.1), (Ok, Fail), "{:?}", gone.2);
    assert!(gone.2[1].detail.contains("maple-uploads/gone"), "{:?}", gone.2);

    fake.set_clock_offset(2 * 3600);
    let late = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((late.0, late.1), (Ok, Fail), "{:?}", late.2);
    assert!(late.2[1].remedy.as_deref().unwrap().contains("clock"), "{:?}", late.2);
    fake.set_clock_offset(0);

    fake.iam_script().always(Mishap::Status(403));
    let refused = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((refused.0, refused.1), (Fail, Warn), "{:?}", refused.2);
    assert!(
        refused.2[0].remedy.as_deref().unwrap().contains("serviceAccountTokenCreator"),
        "{:?}",
        refused.2
    );
    fake.iam_script().clear();

    fake.store_script().always(Mishap::Hang);
    let stuck = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((stuck.0, stuck.1), (Ok, Fail), "{:?}", stuck.2);
}

#[expect(
    clippy::disallowed_methods,
    reason = "links carry real time, and the fake's clock is that plus an offset"
)]
fn now_on_this_host() -> Timestamp {
    Timestamp::now()
}

#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
fn now() -> Instant {
    Instant::now()
}
