//! The audit log's names of recipients: by domain, and by a keyed digest of the address (data contract, "Audit detail").
//!
//! The log outlives the submission, and a reader of it may have a list of addresses: without the key he cannot try them. A
//! decision about a submission names recipients in full ([`Recipient`](crate::routing::submission::destination::Recipient));
//! the store seals it in the statement's parameters. Pure. Invariant: without a key no digest, never an unkeyed one.

use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Fewest characters of a key: a shorter one could be guessed.
const SHORTEST: usize = 16;
/// Hex digits of the key's own digest that name it.
const NAME: usize = 8;
/// Key of an audit detail that names a recipient; its value is sealed.
const RECIPIENT: &str = "recipient";
/// Key of [`Recipient`](crate::routing::submission::destination::Recipient) that never reaches the log.
const PLAIN: &str = "plain";

/// The key for digests of addresses, with its name; none by default.
#[derive(Clone, Default)]
pub struct AuditKey(Option<(hmac::Key, String)>);

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuditKey({})", self.name().unwrap_or("none"))
    }
}

impl AuditKey {
    /// A key from the text of a secret.
    ///
    /// # Errors
    /// The secret is too short; the message does not show it.
    pub fn new(secret: &str) -> Result<Self, String> {
        let secret = secret.trim();
        if secret.len() < SHORTEST {
            return Err(format!(
                "the audit key has fewer than {SHORTEST} characters: put a line of `openssl rand -hex 32` there"
            ));
        }
        let mut name = hex::encode(Sha256::digest(secret.as_bytes()));
        name.truncate(NAME);
        Ok(Self(Some((hmac::Key::new(HMAC_SHA256, secret.as_bytes()), name))))
    }

    /// The key's name in the log: the first 8 hex digits of its SHA-256.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|(_, name)| name.as_str())
    }

    /// Hex HMAC-SHA256 of an address as in the delivery key, or of the text that was not usable.
    #[must_use]
    pub fn digest(&self, plain: &str) -> Option<String> {
        self.0.as_ref().map(|(key, _)| hex::encode(hmac::sign(key, plain.as_bytes())))
    }

    /// An audit detail as it may be written, the recipient's plain name replaced. A sealed detail stays as it is.
    #[must_use]
    pub fn sealed(&self, detail: &Value) -> Value {
        let mut detail = detail.clone();
        self.seal(&mut detail);
        detail
    }

    fn seal(&self, detail: &mut Value) {
        if let Some(Value::Object(recipient)) = detail.get_mut(RECIPIENT)
            && let Some(plain) = recipient.remove(PLAIN)
        {
            let digest = plain.as_str().and_then(|plain| self.digest(plain));
            recipient.insert("hmac".to_owned(), digest.into());
            recipient.insert("key".to_owned(), self.name().into());
        }
    }

    /// Audit rows, `[{action, detail}]`, with every detail sealed.
    #[must_use]
    pub fn sealed_rows(&self, rows: &[Value]) -> Vec<Value> {
        let mut rows = rows.to_vec();
        self.seal_rows(&mut rows);
        rows
    }

    /// [`Self::sealed_rows`] in place: of rows that are written once.
    pub fn seal_rows(&self, rows: &mut [Value]) {
        rows.iter_mut().filter_map(|row| row.get_mut("detail")).for_each(|detail| self.seal(detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    // printf a@example.org | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
    const DIGEST: &str = "e9e20a20a22caab1086b8b8ce0382a921705a00e02a47bfdb76b48945849cb00";
    // printf 0123456789abcdef0123456789abcdef | sha256sum | cut -c 1-8
    const CALLED: &str = "3eb1bd43";

    #[test]
    fn digests_are_those_of_openssl() {
        let key = AuditKey::new(&format!("{SECRET}\n")).expect("a key");
        assert_eq!(key.digest("a@example.org").as_deref(), Some(DIGEST));
        assert_eq!(key.name(), Some(CALLED));
        let other = AuditKey::new("another secret, long enough").expect("a key");
        assert_ne!(other.digest("a@example.org").as_deref(), Some(DIGEST));
    }

    #[test]
    fn what_is_sealed_names_nobody() {
        let key = AuditKey::new(SECRET).expect("a key");
        let detail = json!({"v": 1, "recipient": {"domain": "example.org", "plain": "a@example.org"}});
        let sealed = json!({"v": 1, "recipient": {"domain": "example.org", "hmac": DIGEST, "key": CALLED}});
        assert_eq!(key.sealed(&detail), sealed);
        assert_eq!(key.sealed(&sealed), sealed, "what is sealed stays so");
        let rows = [
            json!({"action": "email_sent", "detail": detail}),
            json!({"action": "submission_routed", "detail": {"v": 1}}),
        ];
        let expected = [json!({"action": "email_sent", "detail": sealed}), rows[1].clone()];
        assert_eq!(key.sealed_rows(&rows), expected);
        let without = json!({"v": 1, "recipient": {"domain": "example.org", "hmac": null, "key": null}});
        assert_eq!(AuditKey::default().sealed(&detail), without, "no key, no digest");
        // A detail that an older version left in the spool.
        let older = json!({"recipient": {"domain": "example.org", "sha256": "00"}});
        assert_eq!(key.sealed(&older), older);
    }

    #[test]
    fn a_key_that_could_be_guessed_is_refused_and_none_is_shown() {
        for short in ["", "\n", "fifteen letters"] {
            assert!(AuditKey::new(short).is_err(), "{short}");
        }
        let shown = format!("{:?}", AuditKey::new(SECRET).expect("a key"));
        assert!(!shown.contains("0123456789"), "{shown}");
    }
}
