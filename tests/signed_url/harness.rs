//! Signers by either way, and a link opened as any browser would.

use std::path::Path;
use std::time::{Duration, Instant};

use devkit::google::GoogleFake;
use jiff::Timestamp;
use maple_router::config::{SignedUrl, SignerKind};
use maple_router::gateway::signed_url::{RetryPolicy, UrlSigner};
use maple_router::ports::{LinkRequest, SignedLink};
use tempfile::TempDir;

use url::Url;

pub(crate) const BUCKET: &str = "maple-uploads";
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Quick to give up, so that an outage takes a test no seconds.
pub(crate) const RETRY: RetryPolicy = RetryPolicy {
    timeout: Duration::from_millis(300),
    attempts: 3,
    backoff_min: Duration::from_millis(5),
    backoff_max: Duration::from_millis(20),
};

pub(crate) fn request(object: &str, file_name: &str) -> LinkRequest {
    LinkRequest {
        bucket: BUCKET.to_owned(),
        object: object.to_owned(),
        file_name: file_name.to_owned(),
        ttl: DAY,
    }
}

pub(crate) fn by_metadata(fake: &GoogleFake) -> UrlSigner {
    let config = SignedUrl {
        signer: SignerKind::Metadata,
        endpoint: fake.iam_endpoint(),
        storage_endpoint: fake.storage_endpoint(),
        ..SignedUrl::default()
    };
    UrlSigner::with_retry_policy(&config, Some(&fake.metadata_host()), RETRY).unwrap()
}

/// A future that would wait for ever fails the test instead.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("no end within 20 s")
}

pub(crate) fn key_file_config(key_file: &Path, storage_endpoint: &str) -> SignedUrl {
    SignedUrl {
        signer: SignerKind::KeyFile,
        key_file: Some(key_file.to_owned()),
        storage_endpoint: storage_endpoint.to_owned(),
        ..SignedUrl::default()
    }
}

pub(crate) fn by_key_file(fake: &GoogleFake) -> (UrlSigner, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    fake.write_key_file(&path).unwrap();
    (
        UrlSigner::with_retry_policy(&key_file_config(&path, &fake.storage_endpoint()), None, RETRY).unwrap(),
        dir,
    )
}

/// Status, `Content-Disposition` and body of a GET, as any browser would send it.
pub(crate) async fn open(url: &str) -> (u16, String, String) {
    let response = reqwest::get(url).await.unwrap();
    let disposition = response.headers().get("content-disposition").map(|value| value.as_bytes().to_owned());
    let disposition = String::from_utf8(disposition.unwrap_or_default()).unwrap();
    (response.status().as_u16(), disposition, response.text().await.unwrap())
}

pub(crate) fn query(link: &SignedLink, name: &str) -> String {
    let url = Url::parse(&link.url).unwrap();
    url.query_pairs().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no {name}")).1.into_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "links carry real time, and the fake's clock is that plus an offset"
)]
pub(crate) fn now_on_this_host() -> Timestamp {
    Timestamp::now()
}

#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
