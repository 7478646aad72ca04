//! The objects that can be linked at all: decided before any server is asked for a signature.
//!
//! Pure. The rules are Google's for bucket and object names, and the browsers': a path segment `.` or `..` is folded
//! away before the request is sent, so such a link would never match its signature.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::PartRequest;
use super::fault::SignError;
use crate::ports::LinkRequest;

/// Longest object name, in bytes of UTF-8.
const MAX_OBJECT_BYTES: usize = 1024;
/// Shortest life of a V4 URL.
const MIN_TTL: Duration = Duration::from_secs(1);
/// Longest life of a V4 URL: 7 days.
pub(super) const MAX_TTL: Duration = Duration::from_secs(604_800);

/// Most parts of a multipart upload.
const MAX_PARTS: u32 = 10_000;

/// Passes a request that can be signed; gives its life in whole seconds, rounded down.
pub(super) fn check(request: &LinkRequest) -> Result<u64, SignError> {
    let (bucket, object) = (&request.bucket, &request.object);
    judged(bucket, object, request.ttl, None)
}

/// The same of a part, which must be one of those that an upload may have.
pub(super) fn check_part(request: &PartRequest<'_>) -> Result<u64, SignError> {
    let fault = (!(1..=MAX_PARTS).contains(&request.number))
        .then(|| format!("parts are numbered from 1 to 10000, and part {} was asked for", request.number));
    judged(request.bucket, request.object, request.ttl, fault)
}

fn judged(bucket: &str, object: &str, ttl: Duration, fault: Option<String>) -> Result<u64, SignError> {
    let verdict = name_fault(bucket, object).map(str::to_owned).or_else(|| ttl_fault(ttl)).or(fault);
    match verdict {
        None => Ok(ttl.as_secs()),
        Some(why) => Err(SignError::UnsignableObject { object: digest(bucket, object), why }),
    }
}

/// Names an object without showing its name.
fn digest(bucket: &str, object: &str) -> String {
    let full = Sha256::new().chain_update(bucket).chain_update("/").chain_update(object).finalize();
    hex::encode(&full[..6])
}

/// What is wrong with a name; the rules are the same for whoever signs nothing.
pub(in crate::gateway) fn name_fault(bucket: &str, object: &str) -> Option<&'static str> {
    bucket_fault(bucket).or_else(|| object_fault(object))
}

fn bucket_fault(bucket: &str) -> Option<&'static str> {
    let longest = if bucket.contains('.') { 222 } else { 63 };
    let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    if !(3..=longest).contains(&bucket.len()) {
        return Some("its bucket name is too short or too long");
    }
    if !bucket.bytes().all(inside) || !edge(bucket.bytes().next()) || !edge(bucket.bytes().last()) {
        return Some("its bucket name has a character that no bucket may have");
    }
    if bucket.split('.').any(|label| label.is_empty() || label.len() > 63) {
        return Some("its bucket name has an empty or too long part between dots");
    }
    None
}

fn object_fault(object: &str) -> Option<&'static str> {
    if object.is_empty() {
        return Some("its name is empty");
    }
    if object.len() > MAX_OBJECT_BYTES {
        return Some("its name is longer than 1024 bytes");
    }
    if object.contains(['\r', '\n']) {
        return Some("its name has a line break");
    }
    if object.split('/').any(|segment| segment == "." || segment == "..") {
        return Some("its name has a part '.' or '..', which browsers fold away");
    }
    None
}

fn ttl_fault(ttl: Duration) -> Option<String> {
    (!(MIN_TTL..=MAX_TTL).contains(&ttl))
        .then(|| format!("a link may live 1 s to 7 d, and {} s were asked for", ttl.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bucket: &str, object: &str, ttl: Duration) -> LinkRequest {
        LinkRequest { bucket: bucket.to_owned(), object: object.to_owned(), file_name: "f".to_owned(), ttl }
    }

    #[test]
    fn objects_that_can_be_linked() {
        let longest = "ä".repeat(512);
        for object in
            ["a", "a/b/c.pdf", "a b+c%d~é'\"?#&=*", ".hidden", "a..b", "...", "//", longest.as_str()]
        {
            assert_eq!(check(&request("maple-uploads", object, MIN_TTL)), Ok(1), "{object:?}");
        }
        for bucket in ["abc", "a_b-c.example.org", "0bucket9"] {
            assert_eq!(check(&request(bucket, "o", MAX_TTL)), Ok(604_800), "{bucket:?}");
        }
    }

    #[test]
    fn objects_that_cannot_be_linked_are_named_by_digest() {
        let long = "x".repeat(1025);
        let long_bucket = "b".repeat(64);
        let cases = [
            ("maple-uploads", ""),
            ("maple-uploads", "."),
            ("maple-uploads", ".."),
            ("maple-uploads", "anna/../otto.pdf"),
            ("maple-uploads", "anna/./otto.pdf"),
            ("maple-uploads", "anna\notto.pdf"),
            ("maple-uploads", "anna\rotto.pdf"),
            ("maple-uploads", long.as_str()),
            ("", "anna.pdf"),
            ("ab", "anna.pdf"),
            ("Maple", "anna.pdf"),
            ("maple uploads", "anna.pdf"),
            ("maple/uploads", "anna.pdf"),
            ("-maple", "anna.pdf"),
            ("maple.", "anna.pdf"),
            ("ma..ple", "anna.pdf"),
            (long_bucket.as_str(), "anna.pdf"),
        ];
        for (bucket, object) in cases {
            let error = check(&request(bucket, object, MIN_TTL)).expect_err(object);
            assert!(!error.is_about_us() && !error.is_transient(), "{bucket:?} {object:?}");
            assert!(!error.to_string().contains("anna"), "{error}");
            assert!(
                matches!(&error, SignError::UnsignableObject { object, .. } if object.len() == 12),
                "{error}"
            );
        }
    }

    #[test]
    fn a_life_outside_one_second_to_seven_days_is_refused() {
        let cases = [
            (Duration::ZERO, None),
            (Duration::from_millis(999), None),
            (Duration::from_secs(1), Some(1)),
            (Duration::from_millis(1999), Some(1)),
            (Duration::from_secs(604_800), Some(604_800)),
            (Duration::from_millis(604_800_001), None),
            (Duration::from_secs(30 * 86_400), None),
        ];
        for (ttl, expected) in cases {
            assert_eq!(check(&request("bucket", "o", ttl)).ok(), expected, "{ttl:?}");
        }
    }
}
