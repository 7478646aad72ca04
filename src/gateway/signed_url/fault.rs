//! Everything that can go wrong with a signature, and the one function that says what it means for routing.
//!
//! Pure. Texts name the dependency, the key of the configuration or the digest of an object; never a URL, a token, a
//! key or an object's name.

use std::fmt;

use thiserror::Error;

/// Why there is no signed URL.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignError {
    /// Passes by itself: connect, timeout, 429, 5xx. Counted by the signer's breaker.
    #[error("no URL could be signed: {why}; it is tried again later")]
    Unreachable {
        /// The party that did not answer, and how.
        why: String,
    },
    /// Metadata server or IAM refuse us: about our rights, not about the object.
    #[error("no URL may be signed: {why}; {remedy}")]
    NotAllowed {
        /// The refusal.
        why: String,
        /// The grant an operator makes.
        remedy: String,
    },
    /// No link to this object can work. Permanent.
    #[error("object {object} cannot be linked: {why}")]
    UnsignableObject {
        /// First 12 hex digits of the SHA-256 of `bucket/object`: the name itself may show who sent what.
        object: String,
        /// The object's fault.
        why: String,
    },
    /// Does not pass until the configuration or the host is changed.
    #[error("URLs cannot be signed: {what}; {remedy}")]
    Misconfigured {
        /// The key, path or service, and its fault.
        what: String,
        /// The change an operator makes.
        remedy: String,
    },
}

impl SignError {
    /// The error is about us, not the object: the delivery is deferred, the breaker counts (protocol, "Outcome").
    #[must_use]
    pub fn is_about_us(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotAllowed { .. } | Self::Misconfigured { .. } => true,
            Self::UnsignableObject { .. } => false,
        }
    }

    /// Says whether the error passes by itself.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::NotAllowed { .. } | Self::Misconfigured { .. } | Self::UnsignableObject { .. } => false,
        }
    }

    /// The event, without the advice.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::Unreachable { why } | Self::NotAllowed { why, .. } => why.clone(),
            Self::UnsignableObject { object, why } => format!("object {object}: {why}"),
            Self::Misconfigured { what, .. } => what.clone(),
        }
    }

    /// The advice.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Unreachable { .. } => {
                "check that this host reaches iamcredentials.googleapis.com and the metadata server \
                 (not a Google VM? then use signer = \"key-file\")"
                    .to_owned()
            }
            Self::NotAllowed { remedy, .. } | Self::Misconfigured { remedy, .. } => remedy.clone(),
            Self::UnsignableObject { .. } => "store the attachment under another object name".to_owned(),
        }
    }
}

/// The server asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Party {
    Metadata,
    Iam,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metadata => "the metadata server",
            Self::Iam => "IAM signBlob",
        })
    }
}

/// A finding, before it is judged. An error of its own right, so that it can travel as the source of
/// google-cloud-auth's and google-cloud-storage's and be recognised again ([`Fault::carried_by`]).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", classify(self, None).detail())]
pub(super) enum Fault {
    /// No connection, or it broke.
    Connection(Party),
    /// No answer in time.
    Timeout(Party),
    /// An answer that is no success; the reason is Google's word from a closed set.
    Status { party: Party, status: u16, reason: Option<String> },
    /// A success that cannot be understood.
    Garbled(Party),
    /// google-cloud-auth has no access token for us, and says whether that passes.
    NoToken { transient: bool },
    /// The key in this file does not sign.
    UnusableKey { path: String },
    /// No TLS client can be made on this host.
    NoTls,
    /// google-cloud-storage would make no URL of a request that we had found good.
    NoUrl,
    /// google-cloud-storage made a URL that would not open; the reason.
    OddUrl(&'static str),
}

impl Fault {
    /// The fault that lies at the bottom of an error of the libraries, where it is one of ours.
    pub(super) fn carried_by(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        std::iter::successors(Some(error), |error| error.source())
            .find_map(|error| error.downcast_ref::<Self>())
            .cloned()
    }

    /// The fault of a failed request; a broken answer counts as a broken connection.
    pub(super) fn from_http(party: Party, error: &reqwest::Error) -> Self {
        if error.is_timeout() { Self::Timeout(party) } else { Self::Connection(party) }
    }

    /// Worth asking again at once.
    pub(super) fn is_transient(&self) -> bool {
        classify(self, None).is_transient()
    }
}

/// The meaning of a fault. The only function that gives it.
pub(super) fn classify(fault: &Fault, account: Option<&str>) -> SignError {
    let account = account.unwrap_or("the service account of this VM");
    match fault {
        Fault::Connection(party) => SignError::Unreachable { why: format!("no connection to {party}") },
        Fault::Timeout(party) => SignError::Unreachable { why: format!("{party} did not answer in time") },
        Fault::NoToken { transient: true } => {
            SignError::Unreachable { why: "the metadata server gave no access token".to_owned() }
        }
        Fault::Status { party, status: status @ (408 | 429 | 500..=599), .. } => {
            SignError::Unreachable { why: format!("{party} answered {status}") }
        }
        Fault::Status { party: Party::Iam, status: status @ (401 | 403), reason } => {
            let word = reason.as_deref().unwrap_or("no reason given");
            SignError::NotAllowed {
                why: format!("IAM refused {account} the signature ({status}, {word})"),
                remedy: refusal_remedy(word, account),
            }
        }
        Fault::Status { party: Party::Iam, status, reason } => SignError::Misconfigured {
            what: format!(
                "IAM signBlob for {account} answered {status} ({})",
                reason.as_deref().unwrap_or("no reason given")
            ),
            remedy: "check [signed_url] endpoint, and that the service account still exists".to_owned(),
        },
        Fault::Status { party: Party::Metadata, status, .. } => SignError::Misconfigured {
            what: format!("the metadata server answered {status}"),
            remedy: NO_VM_ACCOUNT.to_owned(),
        },
        Fault::NoToken { transient: false } => SignError::Misconfigured {
            what: "the metadata server refuses an access token".to_owned(),
            remedy: NO_VM_ACCOUNT.to_owned(),
        },
        Fault::Garbled(party) => SignError::Misconfigured {
            what: format!("what answers as {party} does not speak its language"),
            remedy: "check [signed_url] endpoint, GCE_METADATA_HOST and any proxy in between".to_owned(),
        },
        Fault::UnusableKey { path } => SignError::Misconfigured {
            what: format!("the private key in {path} does not sign"),
            remedy: "create a new key for the service account and put its JSON there".to_owned(),
        },
        Fault::NoTls => SignError::Misconfigured {
            what: "no TLS client can be made".to_owned(),
            remedy: "install the host's CA certificates (package ca-certificates)".to_owned(),
        },
        Fault::NoUrl => SignError::Misconfigured {
            what: "google-cloud-storage makes no URL of a good request".to_owned(),
            remedy: OUR_FAULT.to_owned(),
        },
        Fault::OddUrl(why) => {
            SignError::Misconfigured { what: format!("a signed URL {why}"), remedy: OUR_FAULT.to_owned() }
        }
    }
}

const NO_VM_ACCOUNT: &str =
    "attach a service account with scope cloud-platform to the VM, or use signer = \"key-file\"";

const OUR_FAULT: &str =
    "this is a fault of maple-router or of a library in it: go back to the version before, report it";

/// Which grant mends a refusal of IAM.
fn refusal_remedy(reason: &str, account: &str) -> String {
    match reason {
        "SERVICE_DISABLED" => {
            "enable the API iamcredentials.googleapis.com in the project of the service account".to_owned()
        }
        "ACCESS_TOKEN_SCOPE_INSUFFICIENT" => "give the VM the access scope cloud-platform".to_owned(),
        _ => format!(
            "grant roles/iam.serviceAccountTokenCreator on {account} to itself, and see that it is enabled"
        ),
    }
}

#[cfg(test)]
mod tests {
    use google_cloud_storage::builder::storage::SignedUrlBuilder;

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Kind {
        Unreachable,
        NotAllowed,
        Misconfigured,
    }

    fn kind(error: &SignError) -> Kind {
        match error {
            SignError::Unreachable { .. } => Kind::Unreachable,
            SignError::NotAllowed { .. } => Kind::NotAllowed,
            SignError::Misconfigured { .. } => Kind::Misconfigured,
            SignError::UnsignableObject { .. } => panic!("no fault of a service is about the object"),
        }
    }

    fn status(party: Party, status: u16) -> Fault {
        Fault::Status { party, status, reason: None }
    }

    #[test]
    fn every_fault_means_one_thing() {
        use Kind::{Misconfigured, NotAllowed, Unreachable};
        use Party::{Iam, Metadata};
        let table = [
            (Fault::Connection(Iam), Unreachable),
            (Fault::Connection(Metadata), Unreachable),
            (Fault::Timeout(Iam), Unreachable),
            (Fault::Timeout(Metadata), Unreachable),
            (Fault::NoToken { transient: true }, Unreachable),
            (Fault::NoToken { transient: false }, Misconfigured),
            (status(Iam, 408), Unreachable),
            (status(Iam, 429), Unreachable),
            (status(Iam, 500), Unreachable),
            (status(Iam, 503), Unreachable),
            (status(Iam, 599), Unreachable),
            (status(Iam, 401), NotAllowed),
            (status(Iam, 403), NotAllowed),
            (status(Iam, 302), Misconfigured),
            (status(Iam, 400), Misconfigured),
            (status(Iam, 404), Misconfigured),
            (status(Metadata, 429), Unreachable),
            (status(Metadata, 503), Unreachable),
            (status(Metadata, 403), Misconfigured),
            (status(Metadata, 404), Misconfigured),
            (Fault::Garbled(Iam), Misconfigured),
            (Fault::Garbled(Metadata), Misconfigured),
            (Fault::UnusableKey { path: "/k.json".to_owned() }, Misconfigured),
            (Fault::NoTls, Misconfigured),
            (Fault::NoUrl, Misconfigured),
            (Fault::OddUrl("is odd"), Misconfigured),
        ];
        for (fault, expected) in table {
            let error = classify(&fault, Some("a@example.iam.gserviceaccount.com"));
            assert_eq!(kind(&error), expected, "{fault:?}");
            assert_eq!(fault.is_transient(), expected == Unreachable, "{fault:?}");
            assert!(error.is_about_us(), "{fault:?}");
            assert!(!error.remedy().is_empty(), "{fault:?}");
        }
    }

    #[tokio::test]
    async fn a_fault_is_found_again_at_the_bottom_of_the_libraries_errors() {
        use google_cloud_auth::signer::{Result, Signer, SigningError, SigningProvider};
        #[derive(Debug)]
        struct Refuses(Option<Fault>);
        impl SigningProvider for Refuses {
            async fn client_email(&self) -> Result<String> {
                Ok("a@example.org".to_owned())
            }
            async fn sign(&self, _: &[u8]) -> Result<bytes::Bytes> {
                Err(self.0.clone().map_or_else(|| SigningError::from_msg("no"), SigningError::from_msg))
            }
        }
        for fault in [Some(status(Party::Iam, 403)), Some(Fault::Timeout(Party::Metadata)), None] {
            let signer = Signer::from(Refuses(fault.clone()));
            let builder = SignedUrlBuilder::for_object("projects/_/buckets/bucket", "o");
            let error = builder.sign_with(&signer).await.unwrap_err();
            assert_eq!(Fault::carried_by(&error), fault, "{error:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_grant_that_mends_it() {
        let table = [
            (None, "roles/iam.serviceAccountTokenCreator"),
            (Some("IAM_PERMISSION_DENIED"), "roles/iam.serviceAccountTokenCreator"),
            (Some("SERVICE_DISABLED"), "iamcredentials.googleapis.com"),
            (Some("ACCESS_TOKEN_SCOPE_INSUFFICIENT"), "cloud-platform"),
        ];
        for (reason, expected) in table {
            let fault = Fault::Status { party: Party::Iam, status: 403, reason: reason.map(str::to_owned) };
            let error = classify(&fault, Some("a@example.iam.gserviceaccount.com"));
            assert!(error.remedy().contains(expected), "{reason:?}: {error}");
            assert!(error.to_string().contains(expected), "{reason:?}: {error}");
        }
    }
}
