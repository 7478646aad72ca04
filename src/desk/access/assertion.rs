//! A header that a proxy signed (JWT): who a visitor is, or why it is not believed. Pure but for the wall clock, by which the
//! library judges `exp` and `nbf`: they are the proxy's times, and the proxy knows no database.
//!
//! The algorithm is the configuration's and never the header's: neither `none` nor a public key taken for a shared secret
//! counts. A key is chosen by `kid` among the proxy's keys, and from nowhere else (`jku`, `jwk`, `x5u` are not read).

use std::collections::BTreeMap;

use jsonwebtoken::jwk::{JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::config::{Assertion, AssertionAlgorithm};
use crate::kernel::words;

/// Seconds by which the clocks of proxy and host may differ.
pub const LEEWAY: u64 = 30;
/// Longest assertion that is looked at.
const LONGEST: usize = 8 * 1024;

words! {
    /// Why an assertion is not believed.
    Disbelief {
        /// It is no JWT.
        Malformed = "malformed",
        /// It is signed by another algorithm than the configured one, or not at all.
        Algorithm = "algorithm",
        /// It names no key, or one that is not among the proxy's.
        UnknownKey = "unknown_key",
        /// The signature is not of that key.
        Signature = "signature",
        /// Another issuer, or none.
        Issuer = "issuer",
        /// Another audience, or none.
        Audience = "audience",
        /// It has expired, or says not when it does.
        Expired = "expired",
        /// It is not valid yet.
        Premature = "premature",
        /// It wants something understood that is not.
        Critical = "critical",
        /// It names nobody, or an address that is not verified.
        Nobody = "nobody",
    }
}

/// The public keys of a proxy, by `kid`.
#[derive(Clone, Default)]
pub struct ProxyKeys(BTreeMap<String, DecodingKey>);

impl std::fmt::Debug for ProxyKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl ProxyKeys {
    /// The keys of a JWKS document that can sign by `algorithm`: no secrets, none for encryption, none without a name.
    ///
    /// # Errors
    /// The document is no JWKS, or has no such key.
    pub fn of(document: &[u8], algorithm: AssertionAlgorithm) -> Result<Self, String> {
        let set: JwkSet =
            serde_json::from_slice(document).map_err(|_| "it is no JWKS document".to_owned())?;
        let family = spelt(algorithm).family();
        let usable = set.keys.iter().filter_map(|key| {
            let kid = key.common.key_id.clone()?;
            let signs = !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
            let decoding = DecodingKey::from_jwk(key).ok().filter(|key| signs && key.family() == family)?;
            Some((kid, decoding))
        });
        let keys: BTreeMap<_, _> = usable.collect();
        if keys.is_empty() {
            return Err(format!("it has no named key for {algorithm:?}"));
        }
        Ok(Self(keys))
    }

    /// Whether a key of this name is among them.
    #[must_use]
    pub fn has(&self, kid: &str) -> bool {
        self.0.contains_key(kid)
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is known yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The key that an assertion names, before anything of it is believed.
///
/// # Errors
/// [`Disbelief`]: it cannot be an assertion of this proxy, whatever its keys are.
pub fn named_key(assertion: &str, algorithm: AssertionAlgorithm) -> Result<String, Disbelief> {
    if assertion.len() > LONGEST {
        return Err(Disbelief::Malformed);
    }
    // An algorithm that the library does not know (`none`) is no header to it.
    let header = decode_header(assertion).map_err(|_| Disbelief::Malformed)?;
    if header.alg != spelt(algorithm) {
        return Err(Disbelief::Algorithm);
    }
    if header.crit.is_some() {
        return Err(Disbelief::Critical);
    }
    header.kid.ok_or(Disbelief::UnknownKey)
}

/// The address that a believed assertion names.
///
/// # Errors
/// [`Disbelief`].
pub fn believed(assertion: &str, rules: &Assertion, keys: &ProxyKeys) -> Result<String, Disbelief> {
    let kid = named_key(assertion, rules.algorithm)?;
    let key = keys.0.get(&kid).ok_or(Disbelief::UnknownKey)?;
    let mut validation = Validation::new(spelt(rules.algorithm));
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation.set_issuer(&[&rules.issuer]);
    validation.set_audience(&[&rules.audience]);
    validation.validate_nbf = true;
    validation.leeway = LEEWAY;
    let claims: Map<String, Value> =
        decode(assertion, key, &validation).map_err(|error| disbelief(error.kind()))?.claims;
    if claims.get("email_verified") == Some(&Value::Bool(false)) {
        return Err(Disbelief::Nobody);
    }
    match claims.get(&rules.claim) {
        Some(Value::String(address)) if !address.is_empty() => Ok(address.clone()),
        Some(_) | None => Err(Disbelief::Nobody),
    }
}

fn disbelief(kind: &jsonwebtoken::errors::ErrorKind) -> Disbelief {
    use jsonwebtoken::errors::ErrorKind;
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library's errors may become more: none is a reason to believe"
    )]
    match kind {
        ErrorKind::InvalidSignature => Disbelief::Signature,
        ErrorKind::InvalidAlgorithm | ErrorKind::MissingAlgorithm => Disbelief::Algorithm,
        ErrorKind::InvalidIssuer => Disbelief::Issuer,
        ErrorKind::InvalidAudience => Disbelief::Audience,
        ErrorKind::ExpiredSignature => Disbelief::Expired,
        ErrorKind::ImmatureSignature => Disbelief::Premature,
        ErrorKind::MissingRequiredClaim(claim) => match claim.as_str() {
            "iss" => Disbelief::Issuer,
            "aud" => Disbelief::Audience,
            "exp" => Disbelief::Expired,
            _ => Disbelief::Malformed,
        },
        _ => Disbelief::Malformed,
    }
}

const fn spelt(algorithm: AssertionAlgorithm) -> Algorithm {
    match algorithm {
        AssertionAlgorithm::Es256 => Algorithm::ES256,
        AssertionAlgorithm::Es384 => Algorithm::ES384,
        AssertionAlgorithm::Rs256 => Algorithm::RS256,
        AssertionAlgorithm::Ps256 => Algorithm::PS256,
        AssertionAlgorithm::EdDsa => Algorithm::EdDSA,
    }
}
