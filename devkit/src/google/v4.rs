//! The server's half of a V4 signed URL (GOOG4-RSA-SHA256): rebuild what must have been signed, and judge it.
//!
//! Written from Google's description of canonical requests, not from the product's code: it decodes the query it got
//! and encodes it again with nothing but RFC 3986's unreserved characters kept, as the service does, so that a client
//! that leaves an asterisk or a plus sign alone is refused here as it would be there. Pure; no clock, no I/O.

use axum::http::{HeaderMap, Method, Uri};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use sha2::{Digest, Sha256};

use super::key::AccountKey;

/// Longest life of a V4 URL.
const MAX_EXPIRES: i64 = 604_800;

/// Furthest a signer's clock may be ahead, in seconds: documented for the expiry of a request, 15 minutes.
const CLOCK_TOLERANCE: i64 = 15 * 60;

/// Why the object is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No signature at all: an anonymous caller.
    Anonymous,
    /// Parts of the signature are missing or malformed.
    Malformed(&'static str),
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

/// Judges one request at the instant `now`.
pub(super) fn judge(
    key: &AccountKey,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<(), Refusal> {
    let query = decoded_query(uri.query().unwrap_or_default());
    let get = |name: &str| query.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str());

    let signature = get("X-Goog-Signature").ok_or(Refusal::Anonymous)?;
    if get("X-Goog-Algorithm") != Some("GOOG4-RSA-SHA256") {
        return Err(Refusal::Malformed("X-Goog-Algorithm"));
    }
    let date = get("X-Goog-Date").ok_or(Refusal::Malformed("X-Goog-Date"))?;
    let signed_at = parse_date(date).ok_or(Refusal::Malformed("X-Goog-Date"))?;
    let expires: i64 = get("X-Goog-Expires")
        .and_then(|text| text.parse().ok())
        .filter(|seconds| (1..=MAX_EXPIRES).contains(seconds))
        .ok_or(Refusal::Malformed("X-Goog-Expires"))?;
    let credential = get("X-Goog-Credential").ok_or(Refusal::Malformed("X-Goog-Credential"))?;
    let (account, scope) = credential.split_once('/').ok_or(Refusal::Malformed("X-Goog-Credential"))?;
    if scope.split('/').next() != date.get(..8) || !scope.ends_with("/storage/goog4_request") {
        return Err(Refusal::Malformed("X-Goog-Credential"));
    }
    let signed_headers = get("X-Goog-SignedHeaders").ok_or(Refusal::Malformed("X-Goog-SignedHeaders"))?;
    if !signed_headers.split(';').any(|name| name == "host") {
        return Err(Refusal::Malformed("X-Goog-SignedHeaders"));
    }

    let signature = hex::decode(signature).map_err(|_| Refusal::Mismatch)?;
    let matches = |port: Port| {
        let canonical = canonical_request(method, uri, &query, headers, signed_headers, port);
        let digest = hex::encode(Sha256::digest(canonical.as_bytes()));
        let string_to_sign = format!("GOOG4-RSA-SHA256\n{date}\n{scope}\n{digest}");
        key.verifies(string_to_sign.as_bytes(), &signature)
    };
    if account != key.email || !(matches(Port::Dropped) || matches(Port::Kept)) {
        return Err(Refusal::Mismatch);
    }
    // A request signed in the future is refused like one signed wrongly: the message gives no hint of the clock.
    if signed_at.as_second() > now.as_second() + CLOCK_TOLERANCE {
        return Err(Refusal::Mismatch);
    }
    if now.as_second() > signed_at.as_second() + expires {
        return Err(Refusal::Expired);
    }
    Ok(())
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

/// `name=value` pairs, decoded. A plus sign is a plus sign: this is a URI, not a form.
pub(super) fn decoded_query(query: &str) -> Vec<(String, String)> {
    let text = |part: &str| String::from_utf8_lossy(&decode(part)).into_owned();
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (text(name), text(value))
        })
        .collect()
}

/// Undoes percent-encoding; a stray `%` stays.
pub(super) fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex_digits = bytes.get(at + 1..at + 3).and_then(|pair| hex::decode(pair).ok());
        match (bytes[at], hex_digits) {
            (b'%', Some(byte)) => {
                decoded.extend(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

/// Percent-encodes all but the unreserved characters (and `/` in paths).
fn encode(bytes: &[u8], keep_slash: bool) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (keep_slash && byte == b'/') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

fn parse_date(text: &str) -> Option<Timestamp> {
    DateTime::strptime("%Y%m%dT%H%M%SZ", text)
        .ok()?
        .to_zoned(TimeZone::UTC)
        .ok()
        .map(|zoned| zoned.timestamp())
}
