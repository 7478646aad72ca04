//! The server's half of a V4 signed URL (GOOG4-RSA-SHA256): rebuild what must have been signed, and judge it.
//!
//! Written from Google's description of canonical requests, not from the product's code: it decodes the query it got
//! and encodes it again with nothing but RFC 3986's unreserved characters kept, as the service does, so that a client
//! that leaves an asterisk or a plus sign alone is refused here as it would be there. Pure; no clock, no I/O.

use axum::http::{HeaderMap, HeaderName, Method, Uri};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use sha2::{Digest, Sha256};

use super::uri::{decode, decoded_query, encode};
use crate::google::accounts::Accounts;

/// Longest life of a V4 URL.
const MAX_EXPIRES: i64 = 604_800;

/// Furthest a signer's clock may be ahead, in seconds: documented for the expiry of a request, 15 minutes.
const CLOCK_TOLERANCE: i64 = 15 * 60;

/// Why a signature lets nobody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Parts of the signature are missing or malformed.
    Malformed(&'static str),
    /// A header was signed, and is not in the request.
    Missing(String),
    /// An extension header is in the request, and was not signed.
    Unsigned(String),
    /// The signature is not the account's for this request.
    Mismatch,
    /// The signature was good until some time ago.
    Expired,
}

/// The port of `Host` as it was signed. The real service listens on 443 and sees none; of Google's clients some
/// drop that of a loopback endpoint, as Google's test vectors do, and others (Python's) keep it.
#[derive(Debug, Clone, Copy)]
enum Port {
    Dropped,
    Kept,
}

impl Port {
    fn of(self, host: &str) -> &str {
        match (self, host.rsplit_once(':')) {
            (Self::Dropped, Some((name, port))) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            (Self::Dropped | Self::Kept, _) => host,
        }
    }
}

/// Whether the request has a signature at all, good or bad.
pub(super) fn is_signed(uri: &Uri) -> bool {
    decoded_query(uri.query().unwrap_or_default()).iter().any(|(name, _)| name == "X-Goog-Signature")
}

/// Judges one request at the instant `now`; the account that signed it.
pub(super) fn judge(
    accounts: &Accounts,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<String, Fault> {
    let query = decoded_query(uri.query().unwrap_or_default());
    let get = |name: &str| query.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str());

    let signature = get("X-Goog-Signature").ok_or(Fault::Malformed("X-Goog-Signature"))?;
    if get("X-Goog-Algorithm") != Some("GOOG4-RSA-SHA256") {
        return Err(Fault::Malformed("X-Goog-Algorithm"));
    }
    let date = get("X-Goog-Date").ok_or(Fault::Malformed("X-Goog-Date"))?;
    let signed_at = parse_date(date).ok_or(Fault::Malformed("X-Goog-Date"))?;
    let expires: i64 = get("X-Goog-Expires")
        .and_then(|text| text.parse().ok())
        .filter(|seconds| (1..=MAX_EXPIRES).contains(seconds))
        .ok_or(Fault::Malformed("X-Goog-Expires"))?;
    let credential = get("X-Goog-Credential").ok_or(Fault::Malformed("X-Goog-Credential"))?;
    let (account, scope) = credential.split_once('/').ok_or(Fault::Malformed("X-Goog-Credential"))?;
    if scope.split('/').next() != date.get(..8) || !scope.ends_with("/storage/goog4_request") {
        return Err(Fault::Malformed("X-Goog-Credential"));
    }
    let signed_headers = get("X-Goog-SignedHeaders").ok_or(Fault::Malformed("X-Goog-SignedHeaders"))?;
    if !signed_headers.split(';').any(|name| name == "host") {
        return Err(Fault::Malformed("X-Goog-SignedHeaders"));
    }

    if let Some(missing) = signed_headers.split(';').find(|name| !headers.contains_key(*name)) {
        return Err(Fault::Missing(missing.to_owned()));
    }
    let extensions = headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with("x-goog-"));
    if let Some(unsigned) = extensions.into_iter().find(|name| !signed_headers.split(';').any(|s| s == *name))
    {
        return Err(Fault::Unsigned(unsigned.to_owned()));
    }

    let signature = hex::decode(signature).map_err(|_| Fault::Mismatch)?;
    let key = accounts.key(account).ok_or(Fault::Mismatch)?;
    let matches = |port: Port| {
        let canonical = canonical_request(method, uri, &query, headers, signed_headers, port);
        let digest = hex::encode(Sha256::digest(canonical.as_bytes()));
        let string_to_sign = format!("GOOG4-RSA-SHA256\n{date}\n{scope}\n{digest}");
        key.verifies(string_to_sign.as_bytes(), &signature)
    };
    if !(matches(Port::Dropped) || matches(Port::Kept)) {
        return Err(Fault::Mismatch);
    }
    // A request signed in the future is refused like one signed wrongly: the message gives no hint of the clock.
    if signed_at.as_second() > now.as_second() + CLOCK_TOLERANCE {
        return Err(Fault::Mismatch);
    }
    if now.as_second() > signed_at.as_second() + expires {
        return Err(Fault::Expired);
    }
    Ok(account.to_owned())
}

fn canonical_request(
    method: &Method,
    uri: &Uri,
    query: &[(String, String)],
    headers: &HeaderMap,
    signed_headers: &str,
    port: Port,
) -> String {
    let path = encode(&decode(uri.path()), true);
    let mut pairs: Vec<String> = query
        .iter()
        .filter(|(name, _)| name != "X-Goog-Signature")
        .map(|(name, value)| {
            format!("{}={}", encode(name.as_bytes(), false), encode(value.as_bytes(), false))
        })
        .collect();
    pairs.sort();
    let header_lines: String = signed_headers
        .split(';')
        .map(|name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let value = if name == "host" { port.of(value) } else { value };
            format!("{name}:{}\n", value.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    format!("{method}\n{path}\n{}\n{header_lines}\n{signed_headers}\nUNSIGNED-PAYLOAD", pairs.join("&"))
}

fn parse_date(text: &str) -> Option<Timestamp> {
    DateTime::strptime("%Y%m%dT%H%M%SZ", text)
        .ok()?
        .to_zoned(TimeZone::UTC)
        .ok()
        .map(|zoned| zoned.timestamp())
}
