//! Signed URLs: a link in a mail opens one attachment for a limited time, for whoever holds it.
//!
//! [`UrlSigner`] signs with a service-account key file (offline) or, on a VM without key files, with IAM's `signBlob`
//! as the account of the metadata server. Links are made per send and stored nowhere: if we die in the middle, nothing
//! is left and the next send makes new ones. Nothing here logs, prints or stores a URL, a token or a key, and nothing
//! here knows what a submission is.
//!
//! The canonical request is built in `v4` and not by `google-cloud-storage`, because that leaves the asterisk of
//! `filename*` as it is, where the service encodes it before it compares signatures.

mod fault;
mod iam;
mod inspect;
mod key_file;
mod object;
mod v4;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use reqwest::redirect;

pub use self::fault::SignError;
use self::fault::{Fault, classify};
use self::iam::IamSigner;
pub use self::inspect::inspect;
use self::key_file::KeyFile;
use self::v4::Origin;
use crate::config::{SignedUrl, SignerKind};
use crate::ports::{LinkRequest, SignedLink};

/// How patient a signer is with metadata server and IAM. Once the account is known, the defaults bound one signature to
/// about 18 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// One request, from connect to the last byte.
    pub timeout: Duration,
    /// Requests for one signature, the first included.
    pub attempts: usize,
    /// Shortest wait between two requests; jitter is added.
    pub backoff_min: Duration,
    /// Longest wait between two requests, before jitter.
    pub backoff_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            attempts: 3,
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(2),
        }
    }
}

/// Tells the instant that goes into a URL (`X-Goog-Date`).
type InstantSource = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Makes signed URLs as one service account. Cheap to share by reference; safe to use from many tasks at once.
pub struct UrlSigner {
    key: Key,
    origin: Origin,
    http: reqwest::Client,
    instant: InstantSource,
}

/// Who holds the key.
enum Key {
    File(KeyFile),
    Iam(IamSigner),
}

impl UrlSigner {
    /// Builds the signer that `[signed_url]` describes. Does no network I/O; a key file is read and tried here.
    ///
    /// `metadata_host` is `host[:port]` of the metadata server, as in `GCE_METADATA_HOST`; absent: Google's.
    ///
    /// # Errors
    /// [`SignError::Misconfigured`], naming the key or the path.
    pub fn new(config: &SignedUrl, metadata_host: Option<&str>) -> Result<Self, SignError> {
        Self::with_pace(config, metadata_host, Pace::default())
    }

    /// As [`UrlSigner::new`], with other bounds.
    ///
    /// # Errors
    /// [`SignError::Misconfigured`], naming the key or the path.
    pub fn with_pace(config: &SignedUrl, metadata_host: Option<&str>, pace: Pace) -> Result<Self, SignError> {
        let origin = Origin::parse(&config.storage_endpoint).map_err(|why| SignError::Misconfigured {
            what: format!("[signed_url] storage_endpoint {why}"),
            remedy: "write it as https://storage.googleapis.com".to_owned(),
        })?;
        let http = http_client(pace, false)?;
        let key = match config.signer {
            SignerKind::KeyFile => Key::File(KeyFile::read(config.key_file.as_deref())?),
            SignerKind::Metadata => Key::Iam(IamSigner::new(
                &config.endpoint,
                metadata_host,
                http.clone(),
                http_client(pace, true)?,
                pace,
            )?),
        };
        Ok(Self { key, origin, http, instant: Arc::new(host_instant) })
    }

    /// Takes the instant from elsewhere than this host's clock.
    #[must_use]
    pub fn with_instant(mut self, instant: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.instant = Arc::new(instant);
        self
    }

    /// Signs one link. The instant is taken before the signature is asked for, so `valid_until` errs on the early side.
    ///
    /// # Errors
    /// See [`SignError`]; only [`SignError::UnsignableObject`] is about this request.
    pub async fn sign(&self, request: &LinkRequest) -> Result<SignedLink, SignError> {
        let seconds = object::check(request)?;
        let account = self.account().await?;
        let draft = v4::Draft::new(&self.origin, request, &account, (self.instant)(), seconds);
        let signature = match &self.key {
            Key::File(key) => key.sign(draft.string_to_sign()).await,
            Key::Iam(iam) => iam.sign(&account, draft.string_to_sign()).await,
        }
        .map_err(|fault| classify(&fault, Some(&account)))?;
        Ok(draft.into_link(&signature))
    }

    /// Signs many links, at most `concurrency` at a time; the results stand in the order of the requests.
    ///
    /// Once signing fails for a reason that is about us, what has not begun fails with the same error unasked: an
    /// outage costs one patience, not one per attachment.
    pub async fn sign_all(
        &self,
        requests: &[LinkRequest],
        concurrency: usize,
    ) -> Vec<Result<SignedLink, SignError>> {
        let outage = OnceLock::new();
        // Collected first: a lazy `map` over borrows would make this future unfit for `tokio::spawn`.
        let attempts: Vec<_> = requests.iter().map(|request| self.sign_unless(&outage, request)).collect();
        futures::stream::iter(attempts).buffered(concurrency.max(1)).collect().await
    }

    /// Signs, unless signing is known to be out; notes when it is.
    async fn sign_unless(
        &self,
        outage: &OnceLock<SignError>,
        request: &LinkRequest,
    ) -> Result<SignedLink, SignError> {
        if let Some(error) = outage.get() {
            return Err(error.clone());
        }
        let result = self.sign(request).await;
        if let Err(error) = &result
            && error.is_about_us()
        {
            outage.get_or_init(|| error.clone());
        }
        result
    }

    /// The service account whose rights the links carry.
    ///
    /// # Errors
    /// When the metadata server cannot be asked.
    pub async fn account(&self) -> Result<String, SignError> {
        match &self.key {
            Key::File(key) => Ok(key.account().to_owned()),
            Key::Iam(iam) => iam.account().await.map_err(|fault| classify(&fault, None)),
        }
    }

    /// Which kind of key signs.
    #[must_use]
    pub fn kind(&self) -> SignerKind {
        match self.key {
            Key::File(_) => SignerKind::KeyFile,
            Key::Iam(_) => SignerKind::Metadata,
        }
    }
}

impl fmt::Debug for UrlSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlSigner")
            .field("kind", &self.kind())
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// A client that never follows a redirect: what it carries is for the host it was told, and for no other.
fn http_client(pace: Pace, bypass_proxy: bool) -> Result<reqwest::Client, SignError> {
    let mut builder = reqwest::Client::builder()
        .timeout(pace.timeout)
        .redirect(redirect::Policy::none())
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")));
    if bypass_proxy {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|_| classify(&Fault::NoTls, None))
}

/// The instant that this host believes in.
#[expect(
    clippy::disallowed_methods,
    reason = "the object store compares X-Goog-Date with real time; it is stored nowhere and decides nothing here"
)]
fn host_instant() -> Timestamp {
    Timestamp::now()
}
