//! Forged assertions: each is wrong in one thing, and refused for that.

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use maple_router::config::{Assertion, AssertionAlgorithm};
use maple_router::desk::access::assertion::{Disbelief, LEEWAY, ProxyKeys, believed, named_key};
use maple_router::ops::clock::since_epoch;
use serde_json::{Value, json};

/// A proxy's key.
pub(crate) enum Signer {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).expect("a key");
        Self::Ec(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref()).expect("a key"))
    }

    pub(crate) fn es256() -> Self {
        Self::ec(&ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ec(key) => key.sign(&random, message).expect("signed").as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                let padding: &'static dyn RsaEncoding =
                    if algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                key.sign(padding, &random, message, &mut signature).expect("signed");
                signature
            }
        }
    }

    /// The public key, as the proxy publishes it.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Ec(key) => {
                // 0x04, x, y.
                let point = &key.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "kid": kid, "use": "sig", "x": text(x), "y": text(y)})
            }
            Self::Ed(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": text(key.public_key().as_ref())})
            }
            Self::Rsa(key) => {
                let public = key.public_key();
                let n = public.modulus().big_endian_without_leading_zero().to_vec();
                let e = public.exponent().big_endian_without_leading_zero().to_vec();
                json!({"kty": "RSA", "kid": kid, "use": "sig", "n": text(&n), "e": text(&e)})
            }
        }
    }
}

pub(crate) const ISSUER: &str = "https://cloud.google.com/iap";
pub(crate) const AUDIENCE: &str = "/projects/1/global/backendServices/2";
pub(crate) const KID: &str = "key-1";

/// Seconds since 1970, moved by so many.
pub(crate) fn in_seconds(by: i64) -> i64 {
    i64::try_from(since_epoch().as_secs()).expect("seconds") + by
}

/// Claims of somebody whom the proxy has let in a moment ago.
pub(crate) fn claims(email: &str) -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "accounts.google.com:1", "email": email,
        "iat": in_seconds(-10), "exp": in_seconds(600),
    })
}

/// A signed header.
pub(crate) fn signed(signer: &Signer, header: &Value, claims: &Value) -> String {
    let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", text(header), text(claims));
    let algorithm = header["alg"].as_str().unwrap_or_default();
    let signature = signer.sign(algorithm, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

pub(crate) fn head() -> Value {
    json!({"alg": "ES256", "typ": "JWT", "kid": KID})
}

fn rules(algorithm: AssertionAlgorithm) -> Assertion {
    Assertion {
        header: "x-goog-iap-jwt-assertion".to_owned(),
        algorithm,
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        ..Assertion::default()
    }
}

fn keys(jwks: &[Value], algorithm: AssertionAlgorithm) -> ProxyKeys {
    ProxyKeys::of(json!({"keys": jwks}).to_string().as_bytes(), algorithm).expect("keys")
}

fn with(mut value: Value, name: &str, to: Value) -> Value {
    value[name] = to;
    value
}

fn without(mut value: Value, name: &str) -> Value {
    value.as_object_mut().expect("an object").remove(name);
    value
}

#[test]
fn what_the_proxy_signed_is_believed_by_each_algorithm() {
    let rsa = || Signer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"));
    let ed = Ed25519KeyPair::generate().expect("a key");
    for (algorithm, name, signer) in [
        (AssertionAlgorithm::Es256, "ES256", Signer::es256()),
        (AssertionAlgorithm::Es384, "ES384", Signer::ec(&ECDSA_P384_SHA384_FIXED_SIGNING)),
        (AssertionAlgorithm::Rs256, "RS256", rsa()),
        (AssertionAlgorithm::Ps256, "PS256", rsa()),
        (AssertionAlgorithm::EdDsa, "EdDSA", Signer::Ed(ed)),
    ] {
        let keys = keys(&[signer.jwk(KID)], algorithm);
        let assertion = signed(&signer, &with(head(), "alg", json!(name)), &claims("rita@example.org"));
        assert_eq!(
            believed(&assertion, &rules(algorithm), &keys).as_deref(),
            Ok("rita@example.org"),
            "{name}"
        );
    }
}

#[test]
fn each_forgery_is_refused_for_what_it_is() {
    let (signer, other) = (Signer::es256(), Signer::es256());
    let keys = keys(&[signer.jwk(KID), other.jwk("key-2")], AssertionAlgorithm::Es256);
    let mine = || claims("ada@example.org");
    let sign = |header: &Value, claims: &Value| signed(&signer, header, claims);
    let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let good = sign(&head(), &mine());
    assert_eq!(believed(&good, &rules(AssertionAlgorithm::Es256), &keys).as_deref(), Ok("ada@example.org"));

    let mut none = Vec::new();
    for alg in ["none", "None", "NONE", ""] {
        let unsigned = format!("{}.{}", text(&with(head(), "alg", json!(alg))), text(&mine()));
        none.extend([
            format!("{unsigned}."),
            format!("{unsigned}.{}", good.rsplit('.').next().expect("a signature")),
        ]);
    }
    // The public key, which everybody has, taken for a shared secret.
    let hmac_with = |secret: &[u8]| {
        let message = format!("{}.{}", text(&with(head(), "alg", json!("HS256"))), text(&mine()));
        let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, secret), message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
    };
    let point = [&[4_u8][..], &coordinates(&signer.jwk(KID))].concat();
    let shared = [hmac_with(&point), hmac_with(signer.jwk(KID).to_string().as_bytes()), hmac_with(b"")];
    let stripped = good.rsplit_once('.').expect("three parts").0.to_owned();
    let swapped = {
        let (head, rest) = good.split_once('.').expect("three parts");
        let signature = rest.rsplit_once('.').expect("three parts").1;
        format!("{head}.{}.{signature}", text(&with(mine(), "email", json!("sam@example.org"))))
    };
    let leeway = i64::try_from(LEEWAY).expect("seconds");
    let claim = |name: &str, to: Value| sign(&head(), &with(mine(), name, to));
    let no_claim = |name: &str| sign(&head(), &without(mine(), name));
    let mut cases = vec![
        (
            signed(&other, &head(), &mine()),
            Disbelief::Signature,
            "another key of the proxy's under this name",
        ),
        (signed(&Signer::es256(), &head(), &mine()), Disbelief::Signature, "somebody's own key"),
        (swapped, Disbelief::Signature, "claims changed"),
        (format!("{stripped}."), Disbelief::Signature, "no signature"),
        (stripped, Disbelief::Malformed, "two parts"),
        (format!("{good}.x"), Disbelief::Malformed, "four parts"),
        (String::new(), Disbelief::Malformed, "nothing"),
        ("a.b.c".to_owned(), Disbelief::Malformed, "no JWT"),
        (format!("{good}{}", "A".repeat(9000)), Disbelief::Malformed, "too long"),
        (sign(&without(head(), "kid"), &mine()), Disbelief::UnknownKey, "no key named"),
        (sign(&with(head(), "kid", json!("key-3")), &mine()), Disbelief::UnknownKey, "an unknown key"),
        (sign(&with(head(), "kid", json!("key-2")), &mine()), Disbelief::Signature, "the wrong key"),
        (sign(&with(head(), "alg", json!("ES384")), &mine()), Disbelief::Algorithm, "another algorithm"),
        (sign(&with(head(), "alg", json!("RS256")), &mine()), Disbelief::Algorithm, "another family"),
        (sign(&with(head(), "crit", json!(["b64"])), &mine()), Disbelief::Critical, "something critical"),
        (claim("iss", json!("https://evil.example.org")), Disbelief::Issuer, "another issuer"),
        (claim("iss", json!(format!("{ISSUER}/"))), Disbelief::Issuer, "nearly the issuer"),
        (no_claim("iss"), Disbelief::Issuer, "no issuer"),
        (claim("aud", json!("/projects/1/global/backendServices/3")), Disbelief::Audience, "another service"),
        (claim("aud", json!(["a", "b"])), Disbelief::Audience, "other services"),
        (claim("aud", json!([])), Disbelief::Audience, "no service"),
        (no_claim("aud"), Disbelief::Audience, "no audience"),
        (claim("exp", json!(in_seconds(-leeway - 5))), Disbelief::Expired, "expired"),
        (claim("exp", json!("tomorrow")), Disbelief::Expired, "expires at no time"),
        (no_claim("exp"), Disbelief::Expired, "expires never"),
        (claim("nbf", json!(in_seconds(leeway + 30))), Disbelief::Premature, "not yet valid"),
        (no_claim("email"), Disbelief::Nobody, "names nobody"),
        (claim("email", json!("")), Disbelief::Nobody, "an empty name"),
        (claim("email", json!(["ada@example.org"])), Disbelief::Nobody, "a list of names"),
        (claim("email_verified", json!(false)), Disbelief::Nobody, "an address that anybody can claim"),
    ];
    cases.extend(none.into_iter().map(|forged| (forged, Disbelief::Malformed, "unsigned")));
    cases.extend(shared.into_iter().map(|forged| (forged, Disbelief::Algorithm, "a shared secret")));
    for (forged, why, what) in cases {
        let found = believed(&forged, &rules(AssertionAlgorithm::Es256), &keys);
        assert_eq!(found, Err(why), "{what}");
    }
    // Within the leeway, and with one audience of several.
    for fine in [
        claim("exp", json!(in_seconds(-leeway + 15))),
        claim("nbf", json!(in_seconds(leeway - 15))),
        claim("aud", json!(["other", AUDIENCE])),
        claim("email_verified", json!(true)),
    ] {
        assert_eq!(
            believed(&fine, &rules(AssertionAlgorithm::Es256), &keys).as_deref(),
            Ok("ada@example.org")
        );
    }
}

/// x and y of a public key.
fn coordinates(jwk: &Value) -> Vec<u8> {
    let part = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().expect("text")).expect("base64url");
    [part("x"), part("y")].concat()
}

#[test]
fn a_key_of_another_use_or_kind_is_none_of_the_proxys() {
    let (signer, rsa) =
        (Signer::es256(), Signer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")));
    let secret = json!({"kty": "oct", "kid": "shared", "k": URL_SAFE_NO_PAD.encode("a shared secret of 32 characters")});
    let unnamed = without(Signer::es256().jwk("x"), "kid");
    let to_encrypt = with(Signer::es256().jwk("encrypts"), "use", json!("enc"));
    let all = [signer.jwk(KID), rsa.jwk("rsa"), secret.clone(), unnamed, to_encrypt];
    let known = keys(&all, AssertionAlgorithm::Es256);
    assert_eq!(known.len(), 1, "{known:?}");
    assert!(known.has(KID));
    for nothing in [json!({"keys": []}), json!({"keys": [secret]}), json!({}), json!([])] {
        assert!(
            ProxyKeys::of(nothing.to_string().as_bytes(), AssertionAlgorithm::Es256).is_err(),
            "{nothing}"
        );
    }
    // A key that the assertion itself brings, or leads to, is not looked at.
    let own = Signer::es256();
    let brought = with(with(head(), "jwk", own.jwk(KID)), "jku", json!("https://evil.example.org/jwks"));
    let forged = signed(&own, &brought, &claims("ada@example.org"));
    assert_eq!(believed(&forged, &rules(AssertionAlgorithm::Es256), &known), Err(Disbelief::Signature));
}

#[test]
fn an_assertion_names_its_key_before_anything_is_believed() {
    let assertion = signed(&Signer::es256(), &head(), &claims("x@example.org"));
    assert_eq!(named_key(&assertion, AssertionAlgorithm::Es256).as_deref(), Ok(KID));
    assert_eq!(named_key(&assertion, AssertionAlgorithm::EdDsa), Err(Disbelief::Algorithm));
}
