//! Who asks, by a V4 signed URL (the XML API alone) or an access token, and whether they may.

use axum::http::header;
use axum::http::request::Parts;

use super::Store;
use super::refusal::Refusal;
use super::routes::{Api, Asked};
use super::rules::Call;
use super::v4::{self, Fault};
use crate::google::accounts::{Bearer, Right};

/// A request's sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Caller {
    Account(String),
    Anonymous,
}

impl Caller {
    /// Looks at the request's signature or token.
    pub(super) fn of(store: &Store, asked: &Asked, head: &Parts) -> Result<Self, Refusal> {
        if asked.api == Api::Xml && v4::is_signed(&head.uri) {
            let judged = v4::judge(&store.accounts, &head.method, &head.uri, &head.headers, store.time());
            return judged.map(Self::Account).map_err(refused);
        }
        let Some(value) = head.headers.get(header::AUTHORIZATION) else { return Ok(Self::Anonymous) };
        let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
        match token.map(|token| store.accounts.bearer(token)) {
            Some(Bearer::Account(email)) => Ok(Self::Account(email)),
            Some(Bearer::Refused) | None => Err(Refusal::credentials()),
        }
    }

    /// The account, where it may do this in the bucket. Whether the bucket is there is asked before: its name is no
    /// secret. Whether an object is there is asked after: a stranger does not learn which objects exist.
    pub(super) fn may(
        &self,
        store: &Store,
        api: Api,
        bucket: &str,
        right: Right,
        name: &str,
    ) -> Result<&str, Refusal> {
        match self {
            Self::Anonymous => Err(Refusal::anonymous(name, api)),
            Self::Account(email) => {
                store.shelves().shelf(bucket)?;
                if store.accounts.may(email, bucket, right) {
                    Ok(email)
                } else {
                    Err(Refusal::denied(email, name))
                }
            }
        }
    }
}

/// The right that a call needs first, and its name.
pub(super) fn needed(call: Call) -> (Right, &'static str) {
    match call {
        Call::Initiate | Call::Part | Call::Complete => (Right::Create, "storage.multipartUploads.create"),
        Call::ListParts => (Right::Create, "storage.multipartUploads.listParts"),
        Call::Abort => (Right::Create, "storage.multipartUploads.abort"),
        Call::ListUploads => (Right::List, "storage.multipartUploads.list"),
        Call::Write => (Right::Create, "storage.objects.create"),
        Call::Delete => (Right::Delete, "storage.objects.delete"),
        Call::List => (Right::List, "storage.objects.list"),
        Call::Bucket => (Right::Inspect, "storage.buckets.get"),
        Call::Read | Call::Metadata | Call::Rewrite | Call::Permissions | Call::Preflight | Call::Unknown => {
            (Right::Get, "storage.objects.get")
        }
    }
}

fn refused(fault: Fault) -> Refusal {
    match fault {
        Fault::Malformed(part) => Refusal::malformed_header(part.to_owned()),
        Fault::Missing(name) => Refusal::malformed_header(format!(
            "Header was included in signedheaders, but not in the request: {name}"
        )),
        Fault::Unsigned(name) => Refusal::malformed_header(format!(
            "Header was included in the request, but not in signedheaders: {name}"
        )),
        Fault::Mismatch => Refusal::signature(),
        Fault::Expired => Refusal::expired(),
    }
}
