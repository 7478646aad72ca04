//! What is handed out, and what is kept of it: 256 random bits, of which the database has an HMAC under a key that only this
//! host has. So whoever reads the table has no way in, and whoever writes it makes none. Pure; randomness is an argument.

use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngExt;

use crate::kernel::words;
use crate::ops::rng::Rng;

words! {
    /// The kind of a credential.
    Kind {
        /// Logs in once.
        Link = "link",
        /// A browser's cookie.
        Session = "session",
        /// A program's bearer token.
        Token = "token",
    }
}

/// Fewest characters of the secret: `desk init` writes 64.
const SHORTEST: usize = 32;
/// Beginning of each text that is digested: the same secret signs nothing else.
const DOMAIN: &str = "maple-router desk";
/// Beginning of a bearer token, by which it is recognised where it should not be.
const TOKEN_PREFIX: &str = "mrdesk_";
/// Characters of 256 bits in base64url.
const LENGTH: usize = 43;

/// The key of the desk's digests.
#[derive(Clone)]
pub struct DeskKey(hmac::Key);

impl fmt::Debug for DeskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeskKey(<redacted>)")
    }
}

/// What the database has of a credential, or of a request: an HMAC under the desk's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedDigest([u8; 32]);

impl KeyedDigest {
    /// The bytes, for a statement.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// The digest as operators name a credential: hex.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl TryFrom<&[u8]> for KeyedDigest {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self)
    }
}

/// A credential as it is handed out, once. Neither `Debug` nor any log shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    kind: Kind,
    text: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}, <redacted>)", self.kind)
    }
}

impl Credential {
    /// A new one.
    #[must_use]
    pub fn new(kind: Kind, rng: &Rng) -> Self {
        let random: [u8; 32] = rng.with(RngExt::random);
        Self { kind, text: format!("{}{}", prefix(kind), URL_SAFE_NO_PAD.encode(random)) }
    }

    /// The credential that somebody presents; `None` where it cannot be one, so that nobody is asked.
    #[must_use]
    pub fn presented(kind: Kind, text: &str) -> Option<Self> {
        let random = text.strip_prefix(prefix(kind))?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let is_one = random.len() == LENGTH && random.bytes().all(plain);
        is_one.then(|| Self { kind, text: text.to_owned() })
    }

    /// The text, for its one reader.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

const fn prefix(kind: Kind) -> &'static str {
    match kind {
        Kind::Link | Kind::Session => "",
        Kind::Token => TOKEN_PREFIX,
    }
}

impl DeskKey {
    /// The key from the text of a secret.
    ///
    /// # Errors
    /// The secret is too short; the message does not show it.
    pub fn new(secret: &str) -> Result<Self, String> {
        let secret = secret.trim();
        if secret.len() < SHORTEST {
            return Err(format!(
                "the desk's secret has fewer than {SHORTEST} characters and could be guessed: `maple-router desk init` makes one"
            ));
        }
        Ok(Self(hmac::Key::new(HMAC_SHA256, secret.as_bytes())))
    }

    /// The digest of a credential. A text that counts as one kind counts as no other.
    #[must_use]
    pub fn digest(&self, credential: &Credential) -> KeyedDigest {
        self.signed(credential.kind.label(), credential.text.as_bytes())
    }

    /// The digest of anything else that is kept by its digest: `what` tells it from credentials.
    #[must_use]
    pub fn signed(&self, what: &str, content: &[u8]) -> KeyedDigest {
        let mut context = hmac::Context::with_key(&self.0);
        for part in [DOMAIN.as_bytes(), what.as_bytes()] {
            context.update(part);
            context.update(b"\0");
        }
        context.update(content);
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        KeyedDigest(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn key() -> DeskKey {
        DeskKey::new(&format!("{SECRET}\n")).expect("a key")
    }

    #[test]
    fn a_digest_is_of_one_kind_under_one_secret() {
        let rng = Rng::seeded(1);
        let link = Credential::new(Kind::Link, &rng);
        let same_text = Credential { kind: Kind::Session, text: link.text.clone() };
        assert_eq!(key().digest(&link), key().digest(&link.clone()));
        assert_ne!(key().digest(&link), key().digest(&same_text), "a link is no cookie");
        let other = DeskKey::new("another secret that is long enough").expect("a key");
        assert_ne!(key().digest(&link), other.digest(&link));
        assert_ne!(key().digest(&link), key().digest(&Credential::new(Kind::Link, &rng)));
    }

    #[test]
    fn the_digest_is_that_of_openssl() {
        // printf 'maple-router desk\0link\0x' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
        let digest = key().signed("link", b"x").hex();
        assert_eq!(digest, "9139565f614179394510bdd23ff840a4274a010cc4415c0b62782f19594d9b00");
    }

    #[test]
    fn what_cannot_be_one_is_no_credential() {
        let rng = Rng::seeded(2);
        for kind in Kind::ALL.iter().copied() {
            let made = Credential::new(kind, &rng);
            assert_eq!(Credential::presented(kind, made.expose()).as_ref(), Some(&made));
            let longer = format!("{}A", made.expose());
            for not in ["", "short", &made.expose()[1..], &longer, &made.expose().replace(|_| true, "/")] {
                assert_eq!(Credential::presented(kind, not), None, "{kind}: {not}");
            }
        }
        let token = Credential::new(Kind::Token, &rng);
        assert!(token.expose().starts_with("mrdesk_"));
        assert_eq!(Credential::presented(Kind::Session, token.expose()), None, "a token is no cookie");
    }

    #[test]
    fn nothing_is_shown() {
        let made = Credential::new(Kind::Token, &Rng::seeded(3));
        let shown = format!("{made:?} {:?}", key());
        assert!(!shown.contains(made.expose()) && !shown.contains(SECRET), "{shown}");
        for short in ["", "\n", "fifteen letters", &SECRET[1..]] {
            let error = DeskKey::new(short).expect_err("refused");
            assert!(short.trim().is_empty() || !error.contains(short), "{error}");
        }
    }
}
