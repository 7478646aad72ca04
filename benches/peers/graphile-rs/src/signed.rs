//! Google's V4 signature for a GET, without a library of theirs: RSA-SHA256 over the canonical request.

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;

#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: String,
}

/// A service account's key, and where the objects are.
pub struct Signer {
    email: String,
    key: RsaKeyPair,
    endpoint: String,
}

impl Signer {
    /// Reads the JSON that the cloud console downloads.
    pub fn read(file: &str, endpoint: &str) -> Result<Self> {
        let file: KeyFile = serde_json::from_slice(&std::fs::read(file)?)?;
        let lines = file.private_key.lines().filter(|line| !line.starts_with("-----"));
        let der = STANDARD.decode(lines.collect::<String>())?;
        let key = RsaKeyPair::from_pkcs8(&der).map_err(|error| anyhow!("the signer's key: {error}"))?;
        Ok(Self { email: file.client_email, key, endpoint: endpoint.trim_end_matches('/').to_owned() })
    }

    /// A link that is good for seven days.
    pub fn url(&self, bucket: &str, object: &str, file_name: &str) -> Result<String> {
        let host = self.endpoint.split_once("://").context("an endpoint with a scheme")?.1;
        let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/auto/storage/goog4_request", &stamp[..8]);
        let path = format!("/{bucket}/{}", object.split('/').map(escaped).collect::<Vec<_>>().join("/"));
        let query = [
            ("X-Goog-Algorithm", "GOOG4-RSA-SHA256"),
            ("X-Goog-Credential", &format!("{}/{scope}", self.email)),
            ("X-Goog-Date", &stamp),
            ("X-Goog-Expires", "604800"),
            ("X-Goog-SignedHeaders", "host"),
            ("response-content-disposition", &format!("attachment; filename=\"{file_name}\"")),
        ]
        .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)))
        .join("&");
        let request = format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
        let digest = hex::encode(ring::digest::digest(&ring::digest::SHA256, request.as_bytes()));
        let content = format!("GOOG4-RSA-SHA256\n{stamp}\n{scope}\n{digest}");
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), content.as_bytes(), &mut signature)
            .map_err(|_| anyhow!("the link could not be signed"))?;
        Ok(format!("{}{path}?{query}&X-Goog-Signature={}", self.endpoint, hex::encode(signature)))
    }
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
