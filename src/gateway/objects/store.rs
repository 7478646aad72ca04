//! The store as the daemon's service account uses it: multipart uploads by the XML API, objects and buckets by the JSON API,
//! part URLs for whoever uploads.
//!
//! One client with kept connections. Each call has a timeout, follows no redirect and is made once: whoever asks knows what it
//! may repeat, and an [`StoreError::Away`] leaves open whether there was an effect. Only a read that breaks in the middle is
//! taken up again, once. If we die in the middle, the store has done the call or has not; no state is here. No URL, name,
//! upload id or token is in a log, an error or `Debug`.

mod bucket;
mod call;
mod fault;
mod listing;
mod multipart;
mod name;
mod object;
mod reading;
mod said;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, redirect, retry};
use tokio::time::timeout;
use url::Url;

pub use self::bucket::{BucketFacts, CorsRule, LifecycleRule};
pub use self::call::{Call, Permission};
pub use self::fault::{Absence, InvalidCode, StoreError};
use self::fault::{Finding, classify};
pub use self::listing::{Listed, ListedPage};
pub use self::name::{ObjectName, UploadId};
pub use self::object::Deletion;
pub use self::reading::Reading;
pub use self::said::{Part, Stat};

use crate::config::SignedUrl;
use crate::gateway::signed_url::{SignError, UrlSigner};

/// The most that is read of an answer: a page of 1,000 parts has some 200 KiB.
const ANSWER: usize = 4 << 20;
/// The most that is read of a refusal.
const REFUSAL: usize = 64 << 10;

/// How long the store may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Name look-up, TCP and TLS.
    pub connect: Duration,
    /// A call, from its token to the last byte; of a read, to its first.
    pub call: Duration,
    /// A completion, and a round of a copy: the store may move bytes.
    pub long: Duration,
    /// Silence in the middle of a read.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            call: Duration::from_secs(20),
            long: Duration::from_secs(180),
            silence: Duration::from_secs(20),
        }
    }
}

impl Patience {
    fn with(&self, call: Call) -> Duration {
        match call {
            Call::Complete | Call::Rewrite => self.long,
            Call::Initiate
            | Call::ListParts
            | Call::Abort
            | Call::List
            | Call::Stat
            | Call::Read
            | Call::Delete
            | Call::Bucket
            | Call::Permissions => self.call,
        }
    }
}

/// The object store, as one service account. Cheap to clone; safe to use from many tasks at once.
#[derive(Clone)]
pub struct ObjectStore(Arc<Inner>);

struct Inner {
    signer: UrlSigner,
    address: Url,
    http: Client,
    patience: Patience,
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStore").field("patience", &self.0.patience).finish_non_exhaustive()
    }
}

impl ObjectStore {
    /// The store that `[signed_url]` names, as the account that it signs as. Does no network I/O; a key file is read and
    /// tried here.
    ///
    /// `metadata_host` is `host[:port]` of the metadata server, as in `GCE_METADATA_HOST`; absent: Google's.
    ///
    /// # Errors
    /// [`SignError::Misconfigured`], naming the key or the path.
    pub fn new(config: &SignedUrl, metadata_host: Option<&str>) -> Result<Self, SignError> {
        Self::with_patience(config, metadata_host, Patience::default())
    }

    /// As [`ObjectStore::new`], with other bounds.
    ///
    /// # Errors
    /// [`SignError::Misconfigured`], naming the key or the path.
    pub fn with_patience(
        config: &SignedUrl,
        metadata_host: Option<&str>,
        patience: Patience,
    ) -> Result<Self, SignError> {
        let signer = UrlSigner::new(config, metadata_host)?;
        let endpoint = signer.store_for_tokens()?;
        let wrong = |what: &str, remedy: &str| SignError::Misconfigured {
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        };
        let address = Url::parse(endpoint).map_err(|_| {
            wrong("[signed_url] storage_endpoint is not a URL", "write it as https://storage.googleapis.com")
        })?;
        let http = Client::builder()
            .connect_timeout(patience.connect)
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|_| {
                wrong(
                    "no TLS client can be made",
                    "install the host's CA certificates (package ca-certificates)",
                )
            })?;
        Ok(Self(Arc::new(Inner { signer, address, http, patience })))
    }

    /// The service account that the store sees.
    ///
    /// # Errors
    /// [`StoreError::Signing`], where the metadata server cannot be asked.
    pub async fn account(&self) -> Result<String, StoreError> {
        self.0.signer.account().await.map_err(StoreError::Signing)
    }

    /// An address of the XML API.
    fn xml(&self, name: &ObjectName, query: &[(&str, &str)]) -> Url {
        let segments = std::iter::once(name.bucket()).chain(name.object().split('/'));
        self.address_of(segments, query)
    }

    /// An address of the JSON API.
    fn json<'a>(&self, segments: impl IntoIterator<Item = &'a str>, query: &[(&str, &str)]) -> Url {
        self.address_of(["storage", "v1", "b"].into_iter().chain(segments), query)
    }

    fn address_of<'a>(&self, segments: impl IntoIterator<Item = &'a str>, query: &[(&str, &str)]) -> Url {
        let mut url = self.0.address.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear().extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.0.http.request(method, url)
    }

    /// Makes a call whose answer is small; the answer's body.
    async fn answer(&self, call: Call, request: RequestBuilder) -> Result<Bytes, StoreError> {
        let whole = async {
            let response = self.send(call, request).await?;
            bounded(response, ANSWER).await.map_err(|finding| classify(call, &finding))
        };
        match timeout(self.0.patience.with(call), whole).await {
            Ok(answer) => answer,
            Err(_) => Err(classify(call, &Finding::Nothing(Absence::Silent))),
        }
    }

    /// Sends a request with a token; its answer, where that is a success.
    async fn send(&self, call: Call, request: RequestBuilder) -> Result<Response, StoreError> {
        let token = self.0.signer.token().await.map_err(StoreError::Signing)?;
        let sent = request.bearer_auth(token.text()).send().await;
        let response = sent.map_err(|error| classify(call, &Finding::of(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            self.0.signer.forget(&token);
        }
        // The status alone says most of it.
        let body = bounded(response, REFUSAL).await.unwrap_or_default();
        Err(classify(call, &said::refusal(status.as_u16(), &body)))
    }

    /// Tells a missing object from a missing permission, where the store says the same of both: it is asked what we may.
    async fn settled(&self, bucket: &str, error: StoreError) -> StoreError {
        let StoreError::MissingOrForbidden { call, permission } = error else { return error };
        // Refused for want of that one alone: with it, we would have been told that there is nothing.
        if permission == Permission::List {
            return error;
        }
        match self.permissions(bucket, &[permission]).await {
            Ok(held) if held.is_empty() => StoreError::Forbidden { call, permission },
            Ok(_) => error,
            Err(unknown) => unknown,
        }
    }
}

/// A body that is small.
async fn bounded(mut response: Response, most: usize) -> Result<Bytes, Finding> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Finding::of(&error))? {
        if body.len() + chunk.len() > most {
            return Err(Finding::Nothing(Absence::Garbled));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// An answer of the JSON API, or what it means that it is none.
fn parsed<T: serde::de::DeserializeOwned>(call: Call, body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body).map_err(|_| garbled(call))
}

/// The error of an answer that cannot be understood.
fn garbled(call: Call) -> StoreError {
    classify(call, &Finding::Nothing(Absence::Garbled))
}
