//! The service account's RSA key: made at start, used by `signBlob`, by the key file and by the object store's check.
//!
//! The key is worth nothing outside this process, and leaves it only through [`AccountKey::write_file`].

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// An RSA-2048 key with the account it belongs to.
#[derive(Debug)]
pub(crate) struct AccountKey {
    pub(crate) email: String,
    pub(crate) project: String,
    pub(crate) key_id: String,
    pair: KeyPair,
}

impl AccountKey {
    /// Makes a new key.
    pub(crate) fn generate(project: &str, email: &str) -> Result<Self> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| anyhow!("no RSA key could be made"))?;
        let key_id = hex::encode(aws_lc_rs::digest::digest(
            &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
            pair.public_key().as_ref(),
        ));
        Ok(Self { email: email.to_owned(), project: project.to_owned(), key_id, pair })
    }

    /// RSASSA-PKCS1-v1_5 with SHA-256, as GOOG4-RSA-SHA256 wants it.
    pub(crate) fn sign(&self, content: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), content, &mut signature)
            .map_err(|_| anyhow!("the content could not be signed"))?;
        Ok(signature)
    }

    /// Whether `signature` is this key's signature of `content`.
    pub(crate) fn verifies(&self, content: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.pair.public_key().as_ref())
            .verify(content, signature)
            .is_ok()
    }

    /// Writes the JSON that "create key" of the cloud console downloads.
    pub(crate) fn write_file(&self, path: &Path, token_uri: &str) -> Result<()> {
        let der: Pkcs8V1Der<'_> =
            self.pair.as_der().map_err(|_| anyhow!("the key cannot be written as PKCS#8"))?;
        let content = json!({
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": self.key_id,
            "private_key": pem(der.as_ref()),
            "client_email": self.email,
            "client_id": "100000000000000000001",
            "token_uri": token_uri,
            "universe_domain": "googleapis.com",
        });
        std::fs::write(path, serde_json::to_vec_pretty(&content)?)
            .with_context(|| format!("cannot write the key file {}", path.display()))
    }
}

/// PKCS#8 in the armour of RFC 7468.
fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
    for (index, character) in STANDARD.encode(der).chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    text.push_str("\n-----END PRIVATE KEY-----\n");
    text
}
