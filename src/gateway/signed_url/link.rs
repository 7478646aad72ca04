//! From a request to an unsigned V4 URL, and from a signed one to a link: all our additions to `google-cloud-storage`.
//!
//! The crate writes the canonical request; byte for byte what Google's Python library makes of the same key,
//! instant and object (`tests/signed_url.rs` compares them). It takes the instant (`X-Goog-Date`) when a URL is
//! started, so before the signature is asked for. No I/O here.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use google_cloud_storage::builder::storage::SignedUrlBuilder;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use reqwest::Method;
use url::{Position, Url};

use super::fault::Fault;
use super::{PartRequest, disposition};
use crate::ports::{LinkRequest, SignedLink};

/// Address of the object store: scheme and authority, as written in a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin(String);

impl Origin {
    /// Reads an endpoint; the error says what is wrong with it.
    pub(super) fn parse(endpoint: &str) -> Result<Self, &'static str> {
        let url = Url::parse(endpoint).map_err(|_| "is not a URL")?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("is not an http or https URL");
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err("has more than a host: path, query or fragment would be lost");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has a user or a password in it");
        }
        Ok(Self(url[..Position::AfterPort].to_owned()))
    }

    /// As written in a link.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// A GET of the object as `account`, valid for `seconds` from now; lacks nothing but its signature.
///
/// The crate signs the host without its port, as Google's test vectors do; only a loopback endpoint has one.
pub(super) fn begin(origin: &Origin, request: &LinkRequest, account: &str, seconds: u64) -> SignedUrlBuilder {
    of_object(origin, &request.bucket, &request.object, account, seconds)
        .with_query_param("response-content-disposition", disposition::attachment(&request.file_name))
}

/// A PUT of one part of a multipart upload, as above. Where the part's digest is signed, whoever sends it must say the same
/// one in `Content-MD5`, and the store refuses other bytes.
pub(super) fn begin_part(
    origin: &Origin,
    request: &PartRequest<'_>,
    account: &str,
    seconds: u64,
) -> SignedUrlBuilder {
    let builder = of_object(origin, request.bucket, request.object, account, seconds)
        .with_method(Method::PUT)
        .with_query_param("partNumber", request.number.to_string())
        .with_query_param("uploadId", request.upload_id);
    match request.content_md5 {
        Some(digest) => builder.with_header("content-md5", STANDARD.encode(digest)),
        None => builder,
    }
}

fn of_object(origin: &Origin, bucket: &str, object: &str, account: &str, seconds: u64) -> SignedUrlBuilder {
    SignedUrlBuilder::for_object(format!("projects/_/buckets/{bucket}"), object)
        .with_endpoint(&origin.0)
        .with_client_email(account)
        .with_expiration(Duration::from_secs(seconds))
}

/// Passes a signed URL that the object store will accept as signed, and reads its validity from it.
///
/// An asterisk in the query is refused: the crate writes it as it is, the object store signs `%2A`, and the
/// reader's link would answer 403. Looking at the finished URL covers every parameter, whoever added it.
pub(super) fn finish(url: String) -> Result<SignedLink, Fault> {
    let parsed = Url::parse(&url).map_err(|_| Fault::OddUrl("is no URL"))?;
    if parsed.query().unwrap_or_default().contains('*') {
        return Err(Fault::OddUrl("has an asterisk in its query, which would not match its signature"));
    }
    let value = |name: &str| parsed.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value);
    let valid_until = value("X-Goog-Date")
        .and_then(|date| DateTime::strptime("%Y%m%dT%H%M%SZ", date.as_ref()).ok())
        .and_then(|date| Offset::UTC.to_timestamp(date).ok())
        .zip(value("X-Goog-Expires").and_then(|seconds| seconds.parse().ok()))
        .and_then(|(from, seconds)| Timestamp::checked_add(from, Duration::from_secs(seconds)).ok())
        .ok_or(Fault::OddUrl("does not say how long it is good"))?;
    Ok(SignedLink { url, valid_until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_scheme_and_authority() {
        let cases = [
            ("https://storage.googleapis.com", Some("https://storage.googleapis.com")),
            ("HTTPS://Storage.GoogleAPIs.com/", Some("https://storage.googleapis.com")),
            ("https://storage.googleapis.com:443", Some("https://storage.googleapis.com")),
            ("http://127.0.0.1:4443", Some("http://127.0.0.1:4443")),
            ("http://[::1]:4443", Some("http://[::1]:4443")),
            ("localhost:4443", None),
            ("storage.googleapis.com", None),
            ("https://host/path", None),
            ("https://host/?q", None),
            ("https://user:pw@host", None),
            ("ftp://host", None),
        ];
        for (endpoint, expected) in cases {
            let origin = Origin::parse(endpoint).ok();
            assert_eq!(origin.as_ref().map(|o| o.0.as_str()), expected, "{endpoint}");
        }
    }

    fn signed(query: &str) -> Result<Timestamp, Fault> {
        finish(format!("https://storage.googleapis.com/bucket/o?{query}&X-Goog-Signature=ab"))
            .map(|link| link.valid_until)
    }

    #[test]
    fn a_link_is_good_from_its_own_date_on() {
        let until = |text: &str| Ok(text.parse::<Timestamp>().unwrap());
        let day = "X-Goog-Date=20260304T050607Z&X-Goog-Expires";
        assert_eq!(signed(&format!("{day}=60")), until("2026-03-04T05:07:07Z"));
        assert_eq!(signed(&format!("{day}=604800")), until("2026-03-11T05:06:07Z"));
        let unsaid = Err(Fault::OddUrl("does not say how long it is good"));
        for query in
            ["", "X-Goog-Expires=60", "X-Goog-Date=20260304T050607Z", "X-Goog-Date=now&X-Goog-Expires=60"]
        {
            assert_eq!(signed(query), unsaid, "{query}");
        }
        assert_eq!(signed(&format!("{day}=-1")), unsaid);
        assert_eq!(signed(&format!("{day}=18446744073709551615")), unsaid);
    }

    #[test]
    fn a_query_value_with_an_asterisk_is_refused() {
        let dated = "X-Goog-Date=20260304T050607Z&X-Goog-Expires=60";
        let encoded =
            format!("{dated}&response-content-disposition=attachment%3B%20filename%2A%3DUTF-8%27%27a");
        assert!(signed(&encoded).is_ok(), "encoded as the object store encodes it");
        for query in
            [encoded.replace("%2A", "*"), format!("{dated}&a*b=c"), format!("X-Goog-Credential=*&{dated}")]
        {
            let refused = signed(&query).unwrap_err();
            assert!(
                matches!(refused, Fault::OddUrl(why) if why.contains("asterisk")),
                "{query}: {refused:?}"
            );
        }
        let path = format!("https://storage.googleapis.com/bucket/a%2A?{dated}&X-Goog-Signature=ab");
        assert!(finish(path).is_ok());
    }
}
