//! A store with two buckets, somebody with rights in them, and a plain HTTP client.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use devkit::google::{Bucket, GoogleFake, Right};
use google_cloud_auth::credentials::service_account;
use google_cloud_auth::signer::Signer;
use google_cloud_storage::builder::storage::SignedUrlBuilder;
use reqwest::{Method, RequestBuilder, Response};

/// For what a busy machine does at last.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The least a part may have that is not the last one.
pub(crate) const PART: usize = 5 << 20;
pub(crate) const STAGING: &str = "staging";
pub(crate) const CONTENT: &str = "content";

/// The parts and whoever uses them.
pub(crate) struct World {
    pub(crate) google: GoogleFake,
    pub(crate) token: String,
    pub(crate) http: reqwest::Client,
    pub(crate) dir: tempfile::TempDir,
}

/// What was answered, read whole.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Said {
    /// One header, or several joined by commas; empty where there is none.
    pub(crate) fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter().map(|value| value.to_str().expect("text"));
        values.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The text of the first element of this name.
    pub(crate) fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner.to_owned())
    }

    /// Status and error code of the XML API.
    pub(crate) fn code(&self) -> (u16, String) {
        (self.status, self.element("Code").unwrap_or_default())
    }

    /// Status and reason of the JSON API.
    pub(crate) fn reason(&self) -> (u16, String) {
        let json = self.json();
        assert_eq!(json["error"]["code"], self.status, "{json}");
        (self.status, json["error"]["errors"][0]["reason"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}: {}", self.status, self.text()))
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let google = GoogleFake::start().await.expect("the parts");
        for bucket in [STAGING, CONTENT] {
            google.declare_bucket(bucket, Bucket::default());
            google.grant(google.service_account_email(), bucket, &Right::ALL);
        }
        let token = google.token_of(google.service_account_email());
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let dir = tempfile::tempdir().expect("a directory");
        Self { google, token, http, dir }
    }

    /// A request without any credentials; the path with its query.
    pub(crate) fn plain(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.google.storage_endpoint()))
    }

    /// The same by token.
    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.plain(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Said {
        said(self.ask(Method::GET, path)).await
    }

    /// Begins a multipart upload; its id.
    pub(crate) async fn initiate(&self, object: &str) -> String {
        let begun = said(self.ask(Method::POST, &format!("/{STAGING}/{object}?uploads"))).await;
        assert_eq!(begun.status, 200, "{}", begun.text());
        begun.element("UploadId").expect("an id")
    }

    /// A part on its way.
    pub(crate) fn part(&self, object: &str, id: &str, number: u32, bytes: Vec<u8>) -> RequestBuilder {
        let path = format!("/{STAGING}/{object}?partNumber={number}&uploadId={id}");
        self.ask(Method::PUT, &path).body(bytes)
    }

    /// Stores a part; its ETag, with quotes.
    pub(crate) async fn store_part(&self, object: &str, id: &str, number: u32, bytes: Vec<u8>) -> String {
        let stored = said(self.part(object, id, number, bytes)).await;
        assert_eq!(stored.status, 200, "{}", stored.text());
        stored.header("etag")
    }

    /// Completes an upload of these parts.
    pub(crate) fn complete(&self, object: &str, id: &str, parts: &[(u32, &str)]) -> RequestBuilder {
        self.ask(Method::POST, &format!("/{STAGING}/{object}?uploadId={id}")).body(list(parts))
    }

    /// The key file of an account.
    pub(crate) fn key_file(&self, account: &str) -> PathBuf {
        let path = self.dir.path().join(format!("{account}.json"));
        self.google.write_key_file_of(account, &path).expect("a key file");
        path
    }

    /// A signer by key file, as the product has one.
    pub(crate) fn signer(&self, account: &str) -> Signer {
        let key = std::fs::read(self.key_file(account)).expect("a key file");
        let key = serde_json::from_slice(&key).expect("JSON");
        service_account::Builder::new(key).build_signer().expect("a signer")
    }

    /// A signed URL of the store, with these parameters and headers.
    pub(crate) async fn signed(
        &self,
        method: Method,
        object: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> String {
        let builder = SignedUrlBuilder::for_object(format!("projects/_/buckets/{STAGING}"), object)
            .with_method(method)
            .with_endpoint(self.google.storage_endpoint())
            .with_expiration(Duration::from_secs(900));
        let builder =
            query.iter().fold(builder, |builder, (name, value)| builder.with_query_param(*name, *value));
        let builder =
            headers.iter().fold(builder, |builder, (name, value)| builder.with_header(*name, *value));
        builder.sign_with(&self.signer(self.google.service_account_email())).await.expect("a URL")
    }
}

/// Sends a request and reads what is answered.
pub(crate) async fn said(request: RequestBuilder) -> Said {
    whole(request.send().await.expect("an answer")).await
}

pub(crate) async fn whole(response: Response) -> Said {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Said { status, headers, body: response.bytes().await.expect("a whole body").to_vec() }
}

/// A list of parts, as a client writes it.
pub(crate) fn list(parts: &[(u32, &str)]) -> String {
    let part = |(number, etag): &(u32, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    format!(
        "<CompleteMultipartUpload>{}</CompleteMultipartUpload>",
        parts.iter().map(part).collect::<String>()
    )
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

pub(crate) fn md5(bytes: &[u8]) -> String {
    BASE64.encode(md5::compute(bytes).0)
}

pub(crate) fn crc32c(bytes: &[u8]) -> String {
    BASE64.encode(crc32c::crc32c(bytes).to_be_bytes())
}
