//! A store with two buckets, the daemon's account with its rights, and a page that puts parts.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use devkit::google::{Bucket, GoogleFake, Right};
use maple_router::config::{SignedUrl, SignerKind};
use maple_router::gateway::objects::store::{
    ObjectName, ObjectStore, Patience, Reading, StoreError, UploadId,
};

pub(crate) const STAGING: &str = "staging";
pub(crate) const CONTENT: &str = "content";
/// The least a part may have that is not the last one.
pub(crate) const PART: usize = 5 << 20;
/// Life of a part's URL.
pub(crate) const VALID: Duration = Duration::from_secs(900);

/// Quick to give up, so that an outage takes a test no minutes; enough for a busy machine.
pub(crate) const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(2),
    call: Duration::from_secs(2),
    long: Duration::from_secs(2),
    silence: Duration::from_secs(2),
};

pub(crate) struct World {
    pub(crate) google: GoogleFake,
    pub(crate) store: ObjectStore,
    pub(crate) http: reqwest::Client,
    _dir: tempfile::TempDir,
}

impl World {
    /// By tokens of the metadata server, signatures by IAM: as on a VM. The content bucket knows no delete.
    pub(crate) async fn new() -> Self {
        Self::by(SignerKind::Metadata, Patience { call: Duration::from_secs(20), ..Patience::default() })
            .await
    }

    /// The same by a key file.
    pub(crate) async fn by_key_file() -> Self {
        Self::by(SignerKind::KeyFile, Patience::default()).await
    }

    /// The same, quick to give up.
    pub(crate) async fn hasty() -> Self {
        Self::by(SignerKind::Metadata, PATIENCE).await
    }

    async fn by(signer: SignerKind, patience: Patience) -> Self {
        let google = GoogleFake::start().await.unwrap();
        let account = google.service_account_email().to_owned();
        for (bucket, rights) in [
            (STAGING, &[Right::Create, Right::Get, Right::Delete, Right::Inspect][..]),
            (CONTENT, &[Right::Create, Right::Get, Right::Inspect]),
        ] {
            google.declare_bucket(bucket, Bucket::default());
            google.grant(&account, bucket, rights);
        }
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("key.json");
        google.write_key_file(&key_file).unwrap();
        let config = SignedUrl {
            signer,
            key_file: Some(key_file),
            endpoint: google.iam_endpoint(),
            storage_endpoint: google.storage_endpoint(),
            ..SignedUrl::default()
        };
        let store = ObjectStore::with_patience(&config, Some(&google.metadata_host()), patience).unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { google, store, http, _dir: dir }
    }

    /// Sets what the daemon's account may do in a bucket.
    pub(crate) fn grant(&self, bucket: &str, rights: &[Right]) {
        let account = self.google.service_account_email().to_owned();
        self.google.grant(&account, bucket, rights);
    }

    /// Puts a part by its URL, as a page does; the status and the body.
    pub(crate) async fn put(&self, name: &ObjectName, upload: &UploadId, number: u32, bytes: &[u8]) -> u16 {
        let url = self.store.part_url(name, upload, number, None, VALID).await.unwrap().url;
        self.http.put(url).body(bytes.to_vec()).send().await.unwrap().status().as_u16()
    }

    /// An upload of these parts, not yet complete; what its completion names.
    pub(crate) async fn begun(&self, name: &ObjectName, parts: &[&[u8]]) -> (UploadId, Vec<(u32, String)>) {
        let upload = self.store.initiate(name, "image/png").await.unwrap();
        for (number, part) in (1..).zip(parts) {
            assert_eq!(self.put(name, &upload, number, part).await, 200);
        }
        let listed = self.store.list_parts(name, &upload).await.unwrap();
        (upload, listed.into_iter().map(|part| (part.number, part.etag)).collect())
    }

    /// Stores an object without a request; its generation.
    pub(crate) fn there(&self, bucket: &str, object: &str, bytes: impl Into<Vec<u8>>) -> i64 {
        self.google.put_object(bucket, object, "text/plain", bytes);
        self.google.object(bucket, object).unwrap().generation.try_into().unwrap()
    }
}

pub(crate) fn name(bucket: &str, object: &str) -> ObjectName {
    ObjectName::new(bucket, object).unwrap()
}

/// All that is left of a reading.
pub(crate) async fn whole(reading: &mut Reading) -> Result<Vec<u8>, StoreError> {
    let mut whole = Vec::new();
    while let Some(bytes) = reading.chunk().await? {
        whole.extend_from_slice(&bytes);
    }
    Ok(whole)
}

/// Bytes that are no repetition of few others.
pub(crate) fn bytes(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(&mut next).take(length.div_ceil(4)).flatten().collect();
    bytes.truncate(length);
    bytes
}

/// What a page says in `Content-MD5`.
pub(crate) fn written(digest: [u8; 16]) -> String {
    BASE64.encode(digest)
}
