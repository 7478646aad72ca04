//! Signing with a service-account key file: offline, and good for the full life of a link.
//!
//! The file is read once and tried at once, so that a wrong one stops the start and not the first mail. The key is
//! never shown: errors name the path, and no `Debug` has it.
//!
//! google-cloud-auth has such a signer too, but reads and checks the key anew for each signature, which takes about as long as
//! to sign. So this one is ours, an implementation of the crate's [`SigningProvider`].

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use bytes::Bytes;
use google_cloud_auth::credentials::service_account;
use google_cloud_auth::signer::{Result as Signed, Signer, SigningError, SigningProvider};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::fault::{Fault, SignError, classify};
use super::tokens::Issuer;

/// A key that signs: google-cloud-auth's signer of its account, and its tokens.
pub(super) struct KeyFile {
    signer: Signer,
    content: Value,
    path: String,
}

impl KeyFile {
    /// Reads the file and makes one signature with it.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, SignError> {
        let Some(path) = path else {
            return Err(SignError::Misconfigured {
                what: "[signed_url] signer is \"key-file\" and no key file is named".to_owned(),
                remedy: "set [signed_url] key_file or GOOGLE_APPLICATION_CREDENTIALS".to_owned(),
            });
        };
        let shown = path.display().to_string();
        let wrong = |what: String, remedy: &str| SignError::Misconfigured { what, remedy: remedy.to_owned() };
        let bytes = std::fs::read(path).map_err(|error| {
            wrong(
                format!("the key file {shown} cannot be read ({})", error.kind()),
                "put the service account's JSON key there, readable for the service's user",
            )
        })?;
        let content: Value = serde_json::from_slice(&bytes).map_err(|error| {
            wrong(
                format!(
                    "the key file {shown} is not JSON (line {}, column {})",
                    error.line(),
                    error.column()
                ),
                "put the service account's JSON key there, as it was downloaded",
            )
        })?;
        let kind = content.get("type").and_then(Value::as_str).unwrap_or_default();
        let account = content.get("client_email").and_then(Value::as_str).unwrap_or_default();
        if kind != "service_account" || account.is_empty() {
            return Err(wrong(
                format!("the key file {shown} is not a service-account key"),
                "use a JSON key whose type is \"service_account\"; other credentials cannot sign",
            ));
        }
        // The library's own reader knows which parts such a key has.
        service_account::Builder::new(content.clone()).build_signer().map_err(|_| {
            wrong(
                format!("the key file {shown} lacks parts of a service-account key"),
                "put the service account's JSON key there, as it was downloaded",
            )
        })?;
        let pem = content.get("private_key").and_then(Value::as_str).unwrap_or_default();
        let signer = FileSigner::new(account, pem)
            .ok_or_else(|| classify(&Fault::UnusableKey { path: shown.clone() }, None))?;
        Ok(Self { signer: Signer::from(signer), content, path: shown })
    }

    /// A signer as the account of the file.
    pub(super) fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Where the account's tokens come from.
    pub(super) fn tokens(&self) -> Issuer {
        Issuer::Key { content: self.content.clone(), path: self.path.clone() }
    }

    /// The fault of a signer that does not sign.
    pub(super) fn fault(&self) -> Fault {
        Fault::UnusableKey { path: self.path.clone() }
    }
}

/// Signs as RSASSA-PKCS1-v1_5 with SHA-256, on threads for what takes a processor's time: a signature is some tenths of a
/// millisecond, for which nothing else of the daemon has to wait. No more of them at once than there are processors.
struct FileSigner {
    account: String,
    key: Arc<RsaKeyPair>,
    processors: Arc<Semaphore>,
}

impl FileSigner {
    /// A signer whose key has signed once; `None` where it does not.
    fn new(account: &str, pem: &str) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok()?;
        signature(&key, b"maple-router")?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Some(Self {
            account: account.to_owned(),
            key: Arc::new(key),
            processors: Arc::new(Semaphore::new(processors)),
        })
    }
}

impl SigningProvider for FileSigner {
    async fn client_email(&self) -> Signed<String> {
        Ok(self.account.clone())
    }

    async fn sign(&self, content: &[u8]) -> Signed<Bytes> {
        let processor = Arc::clone(&self.processors).acquire_owned().await.map_err(SigningError::from_msg)?;
        let (key, content) = (Arc::clone(&self.key), content.to_vec());
        let signed = tokio::task::spawn_blocking(move || {
            // Whoever waits for the signature may be gone: the processor is busy until it is made.
            let _busy = processor;
            signature(&key, &content)
        });
        let signature = signed.await.map_err(SigningError::from_msg)?;
        signature.map(Bytes::from).ok_or_else(|| SigningError::from_msg("the key does not sign"))
    }
}

impl fmt::Debug for FileSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSigner").finish_non_exhaustive()
    }
}

fn signature(key: &RsaKeyPair, content: &[u8]) -> Option<Vec<u8>> {
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), content, &mut signature).ok()?;
    Some(signature)
}
