//! Signing with IAM's `signBlob`, as the service account of this VM: no key ever reaches the host.
//!
//! One client with kept connections, a timeout on every request, a few retries with back-off and jitter. The account's name
//! is asked once; access tokens are kept and renewed by `tokens`. If we die in the middle, a signature was made that nobody
//! uses. Tokens go to the configured endpoint only, and only over TLS or loopback.
//!
//! google-cloud-auth has such a signer too, but opens a connection for each signature, waits without end and knows
//! one endpoint. So this one is ours, an implementation of the crate's [`SigningProvider`].

use std::fmt;
use std::sync::Arc;

use backon::{ExponentialBuilder, Retryable as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use google_cloud_auth::signer::{Result as Signed, SigningError, SigningProvider};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::RetryPolicy;
use super::fault::{Fault, Party, SignError};
use super::tokens::{Tokens, may_see_tokens};

/// Signs through IAM credentials.
pub(super) struct IamSigner {
    endpoint: String,
    metadata: String,
    http: reqwest::Client,
    metadata_http: reqwest::Client,
    retry_policy: RetryPolicy,
    account: OnceCell<String>,
    tokens: Arc<Tokens>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedBlob {
    signed_blob: String,
}

impl IamSigner {
    /// Prepares a signer; asks no server yet.
    pub(super) fn new(
        endpoint: &str,
        metadata: String,
        tokens: Arc<Tokens>,
        http: reqwest::Client,
        metadata_http: reqwest::Client,
        retry_policy: RetryPolicy,
    ) -> Result<Self, SignError> {
        may_see_tokens(endpoint).map_err(|why| SignError::Misconfigured {
            what: format!("[signed_url] endpoint {why}"),
            remedy: "write it as https://iamcredentials.googleapis.com".to_owned(),
        })?;
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            metadata,
            http,
            metadata_http,
            retry_policy,
            account: OnceCell::new(),
            tokens,
        })
    }

    /// The VM's service account; asked once, since it cannot change while the VM runs.
    async fn account(&self) -> Result<String, Fault> {
        let ask = || async { (|| self.ask_account()).retry(self.backoff()).when(Fault::is_transient).await };
        self.account.get_or_try_init(ask).await.cloned()
    }

    /// Signs as the VM's service account.
    async fn signature(&self, content: &[u8]) -> Result<Vec<u8>, Fault> {
        let account = self.account().await?;
        match self.sign_with_present_token(&account, content).await {
            // The token may have been revoked before its time; a new one shows whether the token or the account is refused.
            Err(Fault::Status { party: Party::Iam, status: 401, .. }) => {
                self.sign_with_present_token(&account, content).await
            }
            result => result,
        }
    }

    async fn sign_with_present_token(&self, account: &str, content: &[u8]) -> Result<Vec<u8>, Fault> {
        (|| self.ask_signature(account, content)).retry(self.backoff()).when(Fault::is_transient).await
    }

    fn backoff(&self) -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_min_delay(self.retry_policy.backoff_min)
            .with_max_delay(self.retry_policy.backoff_max)
            .with_max_times(self.retry_policy.attempts.saturating_sub(1))
            .with_jitter()
    }

    async fn ask_account(&self) -> Result<String, Fault> {
        let party = Party::Metadata;
        let url = format!("{}/computeMetadata/v1/instance/service-accounts/default/email", self.metadata);
        let response = self
            .metadata_http
            .get(url)
            .header("Metadata-Flavor", "Google")
            .send()
            .await
            .map_err(|error| Fault::from_http(party, &error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(Fault::Status { party, status: status.as_u16(), reason: None });
        }
        // A network router that answers every name with a page of its own does not send this header.
        if response.headers().get("Metadata-Flavor").is_none_or(|flavor| flavor != "Google") {
            return Err(Fault::Garbled(party));
        }
        let text = response.text().await.map_err(|error| Fault::from_http(party, &error))?;
        let account = text.trim();
        if !is_account(account) {
            return Err(Fault::Garbled(party));
        }
        Ok(account.to_owned())
    }

    async fn ask_signature(&self, account: &str, content: &[u8]) -> Result<Vec<u8>, Fault> {
        let party = Party::Iam;
        let token = self.tokens.token().await?;
        let url = format!("{}/v1/projects/-/serviceAccounts/{account}:signBlob", self.endpoint);
        let response = self
            .http
            .post(url)
            .bearer_auth(token.text())
            .json(&json!({"payload": STANDARD.encode(content)}))
            .send()
            .await
            .map_err(|error| Fault::from_http(party, &error))?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| Fault::from_http(party, &error))?;
        if !status.is_success() {
            if status.as_u16() == 401 {
                self.tokens.forget(&token);
            }
            return Err(Fault::Status { party, status: status.as_u16(), reason: reason(&body) });
        }
        let signed: SignedBlob = serde_json::from_slice(&body).map_err(|_| Fault::Garbled(party))?;
        match STANDARD.decode(signed.signed_blob) {
            Ok(signature) if !signature.is_empty() => Ok(signature),
            Ok(_) | Err(_) => Err(Fault::Garbled(party)),
        }
    }
}

/// Errors carry the [`Fault`], for [`Fault::carried_by`]; the crate has no other way in for an error than `from_msg`.
impl SigningProvider for IamSigner {
    async fn client_email(&self) -> Signed<String> {
        self.account().await.map_err(SigningError::from_msg)
    }

    async fn sign(&self, content: &[u8]) -> Signed<Bytes> {
        self.signature(content).await.map(Bytes::from).map_err(SigningError::from_msg)
    }
}

/// Debug output without the tokens.
impl fmt::Debug for IamSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IamSigner").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Says whether a text looks like an account's e-mail address, and like nothing that would change the path of a URL.
fn is_account(text: &str) -> bool {
    text.contains('@')
        && text.len() <= 320
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'@' | b'.' | b'-' | b'_'))
}

/// Google's word for a refusal, from the details or the status; nothing that could carry content of ours.
fn reason(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let word = details
        .iter()
        .find_map(|detail| detail.get("reason"))
        .or_else(|| error.get("status"))
        .and_then(Value::as_str)?;
    let plain = !word.is_empty()
        && word.len() <= 63
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    plain.then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_cannot_bend_the_path() {
        for good in ["maple@p.iam.gserviceaccount.com", "123-compute@developer.gserviceaccount.com"] {
            assert!(is_account(good), "{good}");
        }
        for bad in ["", "maple", "a@b/c", "a@b?c", "a@b c", "<html>@", "a@b%2f"] {
            assert!(!is_account(bad), "{bad}");
        }
    }

    #[test]
    fn only_a_plain_word_is_taken_from_a_refusal() {
        let cases = [
            (json!({"error": {"status": "PERMISSION_DENIED"}}), Some("PERMISSION_DENIED")),
            (
                json!({"error": {"status": "PERMISSION_DENIED", "details": [{"x": 1}, {"reason": "SERVICE_DISABLED"}]}}),
                Some("SERVICE_DISABLED"),
            ),
            (json!({"error": {"status": "see https://example.org"}}), None),
            (json!({"error": "no"}), None),
            (json!([]), None),
        ];
        for (body, expected) in cases {
            assert_eq!(reason(body.to_string().as_bytes()).as_deref(), expected, "{body}");
        }
        assert_eq!(reason(b"<html>"), None);
    }
}
