//! Signatures of versions: who has signed what, by whose keys. Pure; `policies` reads the list of signers.
//!
//! What is signed is a [`statement`]: a version's form, its number and the digest of its content. It is signed as OpenSSH signs files
//! (`ssh-keygen -Y sign`, PROTOCOL.sshsig), in a namespace of our own, so that a signature that was made for something else counts
//! for nothing here. A signature is judged each time by the list of that time: a key that is taken out of the list, or whose time is
//! over, takes its signatures with it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use ssh_key::{Algorithm, EcdsaCurve, HashAlg, SshSig};

use super::signers::Signers;

/// What signatures are made for: `ssh-keygen -Y sign -n`.
pub const NAMESPACE: &str = "maple-router-form";
/// Longest signature that is read, in bytes; one of RSA with 16,384 bits has less.
pub const LONGEST: usize = 16 << 10;

/// The text that is signed. The form comes last, so that nothing in its id can be taken for another line; with the number, the same
/// content that was given up and is loaded again has to be signed again.
#[must_use]
pub fn statement(form_id: &str, number: u32, digest: &str) -> String {
    format!("maple-router form version\ndigest {digest}\nnumber {number}\nform {form_id}\n")
}

/// A signature that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Whose it is: the first principal of the list's line.
    pub signer: String,
    /// The key's fingerprint: `SHA256:…`.
    pub key: String,
}

/// Why a signature counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// It cannot be read.
    #[error("it is no signature as ssh-keygen -Y sign makes it: {0}")]
    Unreadable(String),
    /// It was made for something else.
    #[error("it was made in namespace {0:?}, and not in {NAMESPACE:?}")]
    Namespace(String),
    /// Keys of this kind are not verified.
    #[error("keys of type {0} are not verified: use ed25519 or ECDSA with P-256, of a security key as well")]
    Algorithm(String),
    /// It is of another text, or was tampered with.
    #[error("it is not of this version's statement")]
    Wrong,
    /// Nobody in the list has this key.
    #[error("its key {0} is nobody's in the list of signers")]
    NotListed(String),
    /// The list cannot be read, so that nobody knows.
    #[error("{0}")]
    NoList(String),
    /// The list has the key for another time.
    #[error("the list of signers has its key {0} for another time")]
    NotNow(String),
}

/// The fingerprint of the key that made a signature which is of this statement; whose it is, the list says.
///
/// # Errors
/// [`Unsigned`].
pub fn key(statement: &str, signature: &str) -> Result<String, Unsigned> {
    read(statement, signature).map(|made| fingerprint(&made))
}

/// Whose signature it is, by this list at this time.
///
/// # Errors
/// [`Unsigned`].
pub fn judge(
    signers: &Signers,
    statement: &str,
    signature: &str,
    now: Timestamp,
) -> Result<Signed, Unsigned> {
    let made = read(statement, signature)?;
    let key = fingerprint(&made);
    let mut of_key = signers.of(made.public_key(), NAMESPACE).peekable();
    if of_key.peek().is_none() {
        return Err(Unsigned::NotListed(key));
    }
    match of_key.find(|signer| signer.is_valid(now)) {
        Some(signer) => Ok(Signed { signer: signer.name().to_owned(), key }),
        None => Err(Unsigned::NotNow(key)),
    }
}

/// Why a version has too few signatures; `None`: it has as many people's as `required`. One person's keys count once.
#[must_use]
pub fn lacking(required: u32, judged: &[Result<Signed, Unsigned>]) -> Option<String> {
    let people: BTreeSet<&str> = judged.iter().flatten().map(|signed| signed.signer.as_str()).collect();
    if people.len() >= usize::try_from(required).unwrap_or(usize::MAX) {
        return None;
    }
    let void: Vec<String> =
        judged.iter().filter_map(|judged| judged.as_ref().err()).map(ToString::to_string).collect();
    let void = match void.first() {
        Some(why) => format!("; of {} that count for nothing one says: {why}", void.len()),
        None => String::new(),
    };
    let people = people.len();
    Some(format!("forms.require_signatures takes {required} people's signatures, and it has {people}{void}"))
}

fn fingerprint(made: &SshSig) -> String {
    made.public_key().fingerprint(HashAlg::Sha256).to_string()
}

/// A signature that its own key made of this statement, for us.
fn read(statement: &str, signature: &str) -> Result<SshSig, Unsigned> {
    if signature.len() > LONGEST {
        return Err(Unsigned::Unreadable(format!("it is longer than {LONGEST} bytes")));
    }
    let made = SshSig::from_pem(signature.trim()).map_err(|error| Unsigned::Unreadable(error.to_string()))?;
    if made.namespace() != NAMESPACE {
        return Err(Unsigned::Namespace(made.namespace().chars().take(64).collect()));
    }
    let algorithm = made.public_key().algorithm();
    if !is_verified(&algorithm) {
        return Err(Unsigned::Algorithm(algorithm.to_string()));
    }
    let key = ssh_key::PublicKey::from(made.public_key().clone());
    key.verify(NAMESPACE, statement.as_bytes(), &made).map_err(|_| Unsigned::Wrong)?;
    Ok(made)
}

/// Whether signatures by such keys are verified here.
fn is_verified(algorithm: &Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::Ed25519
            | Algorithm::SkEd25519
            | Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 }
            | Algorithm::SkEcdsaSha2NistP256
    )
}
