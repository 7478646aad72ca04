//! Signing with a service-account key file: offline, and good for the full life of a link.
//!
//! The file is read once and tried at once, so that a wrong one stops the start and not the first mail. The key is
//! never shown: errors name the path, and there is no `Debug`.

use std::path::Path;

use futures::FutureExt as _;
use google_cloud_auth::credentials::service_account;
use google_cloud_auth::signer::Signer;
use serde_json::Value;

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
        let signer = service_account::Builder::new(content.clone()).build_signer().map_err(|_| {
            wrong(
                format!("the key file {shown} lacks parts of a service-account key"),
                "put the service account's JSON key there, as it was downloaded",
            )
        })?;
        // Local signing never waits; if it did, the first link would show the fault.
        if let Some(Err(_)) = signer.sign(b"maple-router").now_or_never() {
            return Err(classify(&Fault::UnusableKey { path: shown }, None));
        }
        Ok(Self { signer, content, path: shown })
    }

    /// RSASSA-PKCS1-v1_5 with SHA-256, as the account of the file.
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
