//! The backend's key, the tokens that follow from it, and keyed digests of requests. Pure.
//!
//! A session's token is an HMAC of its id, so that the same request is answered with the same token, and nobody keeps it; the
//! database has its digest. Whoever changes the key ends the tokens of open sessions, and no session.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Fewest characters of the key: `openssl rand -hex 32` writes 64.
const SHORTEST: usize = 32;
/// Beginning of each text that is signed: the same key signs nothing else.
const DOMAIN: &str = "maple-router uploads";
/// Beginning of a token, by which it is recognised where it should not be.
const PREFIX: &str = "mrup_";

/// The key by which the backend makes sessions.
#[derive(Clone)]
pub struct UploadsKey {
    key: hmac::Key,
    text: Vec<u8>,
}

impl fmt::Debug for UploadsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadsKey(<redacted>)")
    }
}

/// The token of one session: its id, and what only the key makes of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(<redacted>)")
    }
}

impl Token {
    /// The text, for its one reader.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the token, which is 256 random bits to everybody without the key.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

/// SHA-256 of a text that somebody presents as a token; `None` where it cannot be one, so that nobody is asked.
#[must_use]
pub fn presented(text: &str) -> Option<[u8; 32]> {
    let (id, random) = text.strip_prefix(PREFIX)?.split_once('.')?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_one = id.len() == 32 && random.len() == 43 && id.bytes().chain(random.bytes()).all(plain);
    is_one.then(|| Sha256::digest(text.as_bytes()).into())
}

impl UploadsKey {
    /// The key from the text of a secret.
    ///
    /// # Errors
    /// The secret is too short; the message does not show it.
    pub fn new(secret: &str) -> Result<Self, String> {
        let secret = secret.trim();
        if secret.len() < SHORTEST {
            return Err(format!(
                "the uploads' key has fewer than {SHORTEST} characters and could be guessed: `openssl rand -hex 32` makes one"
            ));
        }
        Ok(Self { key: hmac::Key::new(HMAC_SHA256, secret.as_bytes()), text: secret.as_bytes().to_vec() })
    }

    /// Whether somebody presents the key itself. Takes as long whatever they present.
    #[must_use]
    pub fn is(&self, presented: &str) -> bool {
        verify_slices_are_equal(presented.as_bytes(), &self.text).is_ok()
    }

    /// The token of a session.
    #[must_use]
    pub fn token(&self, id: Uuid) -> Token {
        let signed = self.signed("token", id.as_bytes());
        Token(format!("{PREFIX}{}.{}", id.simple(), URL_SAFE_NO_PAD.encode(signed)))
    }

    /// The digest of a request. Keyed, because a request has what people wrote.
    #[must_use]
    pub fn request(&self, content: &[u8]) -> [u8; 32] {
        self.signed("request", content)
    }

    fn signed(&self, of: &str, content: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(format!("{DOMAIN}\n{of}\n").as_bytes());
        context.update(content);
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_same_for_the_same_session_and_known_by_its_digest() {
        let key = UploadsKey::new(&"k".repeat(32)).expect("long enough");
        let id = Uuid::from_u128(7);
        let token = key.token(id);
        assert_eq!(token, key.token(id));
        assert_ne!(token, key.token(Uuid::from_u128(8)));
        assert_ne!(token, UploadsKey::new(&"l".repeat(32)).expect("long enough").token(id));
        assert_eq!(presented(token.expose()), Some(token.sha256()));
        for odd in ["", "mrup_", "mrup_.", &token.expose()[1..], &format!("{} ", token.expose())] {
            assert_eq!(presented(odd), None, "{odd}");
        }
        assert!(key.is(&"k".repeat(32)) && !key.is("k") && !key.is(""));
        assert!(UploadsKey::new("short").is_err());
    }
}
