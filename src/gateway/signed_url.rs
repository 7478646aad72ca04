//! Signed URLs: a link in a mail opens one attachment for a limited time, for anybody who has it.
//!
//! [`UrlSigner`] signs with a service-account key file (offline) or, on a VM without key files, with IAM's `signBlob`
//! as the account of the metadata server. Links are in memory alone, where mails of one hour share them (`shared`): if we die
//! in the middle, nothing is left and the next send makes new ones. Nothing here logs, prints or stores a URL, a token or a
//! key, and nothing here knows what a submission is.
//!
//! `google-cloud-storage` writes the URL, a `SigningProvider` of `google-cloud-auth` signs it; ours are the signers by key file
//! (`key_file`) and by `signBlob` (`iam`), the account's access tokens (`tokens`), the parameters of a URL (`link`, `disposition`, `object`)
//! and the meaning of an error (`fault`).

mod disposition;
mod fault;
mod iam;
mod inspect;
mod key_file;
mod link;
mod object;
mod shared;
mod tokens;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use google_cloud_auth::signer::Signer;
use google_cloud_storage::builder::storage::SignedUrlBuilder;
use reqwest::redirect;

pub use self::fault::SignError;
use self::fault::{Fault, classify};
use self::iam::IamSigner;
pub use self::inspect::{inspect, try_to_sign};
use self::key_file::KeyFile;
use self::link::Origin;
pub(in crate::gateway) use self::object::name_fault;
use self::shared::SharedLinks;
pub(in crate::gateway) use self::tokens::Token;
use self::tokens::Tokens;
use crate::config::{SignedUrl, SignerKind};
use crate::kernel::metric::Histogram;
use crate::ports::{Clock, LinkRequest, SignedLink};

/// Seconds that one link takes: offline under a millisecond, IAM some tens of them.
pub static SECONDS: Histogram = Histogram::new(
    "maple_router_signed_url_seconds",
    "Making one signed URL",
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0],
);

/// Limits of a signer's requests to metadata server and IAM. Once the account is known, the defaults bound one
/// signature to about 18 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Limit of one request, from connect to the last byte.
    pub timeout: Duration,
    /// Requests for one signature, the first included.
    pub attempts: usize,
    /// Shortest wait between two requests; jitter is added.
    pub backoff_min: Duration,
    /// Longest wait between two requests, before jitter.
    pub backoff_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            attempts: 3,
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(2),
        }
    }
}

/// One part of a multipart upload, to be put by a signed URL.
pub(in crate::gateway) struct PartRequest<'a> {
    pub(in crate::gateway) bucket: &'a str,
    pub(in crate::gateway) object: &'a str,
    /// The store's id of the upload.
    pub(in crate::gateway) upload_id: &'a str,
    /// From 1 to 10,000.
    pub(in crate::gateway) number: u32,
    /// MD5 of the part's bytes, where the store is to refuse others.
    pub(in crate::gateway) content_md5: Option<[u8; 16]>,
    /// Validity of the URL: 1 s to 7 d.
    pub(in crate::gateway) ttl: Duration,
}

/// The metadata server, unless another is named.
const METADATA_HOST: &str = "metadata.google.internal";

/// Makes signed URLs as one service account. Cheap to share by reference; safe to use from many tasks at once.
pub struct UrlSigner {
    key: Key,
    origin: Origin,
    tokens: Arc<Tokens>,
    http: reqwest::Client,
    sharing: Option<Sharing>,
}

/// The links that are handed out again, and the clock by which they age.
struct Sharing {
    clock: Arc<dyn Clock>,
    links: SharedLinks,
}

/// Location of the key.
enum Key {
    File(KeyFile),
    Iam(Signer),
}

impl Key {
    fn signer(&self) -> &Signer {
        match self {
            Self::File(key) => key.signer(),
            Self::Iam(signer) => signer,
        }
    }

    /// The fault of a signer that did not sign: the one its error carries, or else that the key file is no good.
    fn fault(&self, error: &(dyn std::error::Error + 'static)) -> Fault {
        Fault::carried_by(error).unwrap_or_else(|| match self {
            Self::File(key) => key.fault(),
            Self::Iam(_) => Fault::NoUrl,
        })
    }
}

impl UrlSigner {
    /// Builds the signer that `[signed_url]` describes. Does no network I/O; a key file is read and tried here.
    ///
    /// `metadata_host` is `host[:port]` of the metadata server, as in `GCE_METADATA_HOST`; absent: Google's.
    ///
    /// # Errors
    /// [`SignError::Misconfigured`], naming the key or the path.
    pub fn new(config: &SignedUrl, metadata_host: Option<&str>) -> Result<Self, SignError> {
        Self::with_retry_policy(config, metadata_host, RetryPolicy::default())
    }

    /// As [`UrlSigner::new`], with other bounds.
    ///
    /// # Errors
    /// [`SignError::Misconfigured`], naming the key or the path.
    pub fn with_retry_policy(
        config: &SignedUrl,
        metadata_host: Option<&str>,
        retry_policy: RetryPolicy,
    ) -> Result<Self, SignError> {
        let origin = Origin::parse(&config.storage_endpoint).map_err(|why| SignError::Misconfigured {
            what: format!("[signed_url] storage_endpoint {why}"),
            remedy: "write it as https://storage.googleapis.com".to_owned(),
        })?;
        let http = http_client(retry_policy, false)?;
        let tokens = |from| Arc::new(Tokens::new(from, retry_policy.timeout));
        let (key, tokens) = match config.signer {
            SignerKind::KeyFile => {
                let key = KeyFile::read(config.key_file.as_deref())?;
                let tokens = tokens(key.tokens());
                (Key::File(key), tokens)
            }
            SignerKind::Metadata => {
                let metadata = format!("http://{}", metadata_host.unwrap_or(METADATA_HOST));
                let tokens = tokens(tokens::Issuer::Metadata(metadata.clone()));
                let signer = IamSigner::new(
                    &config.endpoint,
                    metadata,
                    Arc::clone(&tokens),
                    http.clone(),
                    http_client(retry_policy, true)?,
                    retry_policy,
                )?;
                (Key::Iam(Signer::from(signer)), tokens)
            }
        };
        Ok(Self { key, origin, tokens, http, sharing: None })
    }

    /// Has mails share links (`shared`), which age by this clock; it also measures how long a new one takes.
    #[must_use]
    pub fn sharing(mut self, clock: Arc<dyn Clock>) -> Self {
        self.sharing = Some(Sharing { clock, links: SharedLinks::default() });
        self
    }

    /// Signs one link. The instant is taken before the signature is asked for, so `valid_until` errs on the early side.
    ///
    /// # Errors
    /// [`SignError`]; only [`SignError::UnsignableObject`] is about this request.
    pub async fn sign(&self, request: &LinkRequest) -> Result<SignedLink, SignError> {
        let seconds = object::check(request)?;
        let account = self.account().await?;
        self.finish(link::begin(&self.origin, request, &account, seconds), &account).await
    }

    /// Signs the URL that one part of a multipart upload is put by.
    pub(in crate::gateway) async fn sign_part(
        &self,
        request: &PartRequest<'_>,
    ) -> Result<SignedLink, SignError> {
        let seconds = object::check_part(request)?;
        let account = self.account().await?;
        self.finish(link::begin_part(&self.origin, request, &account, seconds), &account).await
    }

    async fn finish(&self, builder: SignedUrlBuilder, account: &str) -> Result<SignedLink, SignError> {
        match builder.sign_with(self.key.signer()).await {
            Ok(url) => link::finish(url),
            Err(error) if error.is_signing() => Err(self.key.fault(&error)),
            Err(_) => Err(Fault::NoUrl),
        }
        .map_err(|fault| classify(&fault, Some(account)))
    }

    /// The object store's address, where it may be given an access token.
    pub(in crate::gateway) fn store_for_tokens(&self) -> Result<&str, SignError> {
        let endpoint = self.origin.text();
        tokens::may_see_tokens(endpoint).map_err(|why| SignError::Misconfigured {
            what: format!("[signed_url] storage_endpoint {why}"),
            remedy: "write it as https://storage.googleapis.com".to_owned(),
        })?;
        Ok(endpoint)
    }

    /// An access token of the account, for the object store and for nobody else.
    pub(in crate::gateway) async fn token(&self) -> Result<Token, SignError> {
        self.tokens.token().await.map_err(|fault| classify(&fault, None))
    }

    /// Forgets a token that the store refused.
    pub(in crate::gateway) fn forget(&self, refused: &Token) {
        self.tokens.forget(refused);
    }

    /// Signs many links, at most `concurrency` at a time; the results stand in the order of the requests. A link that was
    /// made a short time ago is handed out again, where links are shared.
    ///
    /// Once signing fails for a reason that is about us, requests not yet started fail with the same error unasked:
    /// an outage costs one wait, not one per attachment.
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

    /// Signs, unless signing is known to be out; records an outage.
    async fn sign_unless(
        &self,
        outage: &OnceLock<SignError>,
        request: &LinkRequest,
    ) -> Result<SignedLink, SignError> {
        if let Some(error) = outage.get() {
            return Err(error.clone());
        }
        let result = match &self.sharing {
            Some(sharing) => self.share(sharing, request).await,
            None => self.sign(request).await,
        };
        if let Err(error) = &result
            && error.is_about_us()
        {
            outage.get_or_init(|| error.clone());
        }
        result
    }

    /// The link that was made for such a request, or a new one.
    async fn share(&self, sharing: &Sharing, request: &LinkRequest) -> Result<SignedLink, SignError> {
        let began = sharing.clock.monotonic();
        if let Some(link) = sharing.links.get(request, began) {
            return Ok(link);
        }
        let result = self.sign(request).await;
        SECONDS.record((), sharing.clock.monotonic().saturating_duration_since(began));
        if let Ok(link) = &result {
            sharing.links.put(request, link, began);
        }
        result
    }

    /// The service account whose rights the links carry.
    ///
    /// # Errors
    /// When the metadata server cannot be asked.
    pub async fn account(&self) -> Result<String, SignError> {
        let account = self.key.signer().client_email().await;
        account.map_err(|error| classify(&self.key.fault(&error), None))
    }

    /// Kind of the signing key.
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

/// A client that never follows a redirect: its contents are for the given host, and for no other.
fn http_client(retry_policy: RetryPolicy, bypass_proxy: bool) -> Result<reqwest::Client, SignError> {
    let mut builder = reqwest::Client::builder()
        .timeout(retry_policy.timeout)
        .redirect(redirect::Policy::none())
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")));
    if bypass_proxy {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|_| classify(&Fault::NoTls, None))
}
