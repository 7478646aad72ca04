//! The text of a V4 signed URL (GOOG4-RSA-SHA256): what is signed, and the link that comes out.
//!
//! Pure: the instant is an argument, the signature is made elsewhere. Byte for byte what Google's Python library makes
//! of the same key, instant and object (`tests/signed_url.rs` compares them).

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use url::{Position, Url};

use crate::ports::{LinkRequest, SignedLink};

/// Where the object store listens: scheme and authority, as they stand in a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: String,
    authority: String,
}

impl Origin {
    /// Reads an endpoint; says what is wrong with it.
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
        let authority = url[Position::BeforeHost..Position::AfterPort].to_owned();
        Ok(Self { scheme: url.scheme().to_owned(), authority })
    }
}

/// A URL that lacks nothing but its signature. Holds no `Debug`: with a signature it opens the object.
pub(super) struct Draft {
    unsigned_url: String,
    string_to_sign: String,
    valid_until: Timestamp,
}

impl Draft {
    /// Writes the canonical request for a GET of the object, valid for `seconds` from the whole second of `instant`.
    pub(super) fn new(
        origin: &Origin,
        request: &LinkRequest,
        account: &str,
        instant: Timestamp,
        seconds: u64,
    ) -> Self {
        let date = instant.strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/auto/storage/goog4_request", instant.strftime("%Y%m%d"));
        let path = format!("/{}/{}", request.bucket, encode(&request.object, b"/"));
        let expires = seconds.to_string();
        // In the order of their encoded text, as the service sorts them.
        let query = [
            ("X-Goog-Algorithm", "GOOG4-RSA-SHA256"),
            ("X-Goog-Credential", &format!("{account}/{scope}")),
            ("X-Goog-Date", &date),
            ("X-Goog-Expires", &expires),
            ("X-Goog-SignedHeaders", "host"),
            ("response-content-disposition", &content_disposition(&request.file_name)),
        ]
        .map(|(name, value)| format!("{name}={}", encode(value, b"")))
        .join("&");
        let canonical = format!("GET\n{path}\n{query}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD", origin.authority);
        let digest = hex::encode(Sha256::digest(canonical.as_bytes()));
        Self {
            unsigned_url: format!("{}://{}{path}?{query}", origin.scheme, origin.authority),
            string_to_sign: format!("GOOG4-RSA-SHA256\n{date}\n{scope}\n{digest}"),
            valid_until: whole_second(instant)
                .checked_add(Duration::from_secs(seconds))
                .unwrap_or(Timestamp::MAX),
        }
    }

    /// What the account signs.
    pub(super) fn string_to_sign(&self) -> &[u8] {
        self.string_to_sign.as_bytes()
    }

    /// The finished link.
    pub(super) fn into_link(self, signature: &[u8]) -> SignedLink {
        let url = format!("{}&X-Goog-Signature={}", self.unsigned_url, hex::encode(signature));
        SignedLink { url, valid_until: self.valid_until }
    }
}

/// `X-Goog-Date` has whole seconds, and the life counts from there.
fn whole_second(instant: Timestamp) -> Timestamp {
    Timestamp::from_second(instant.as_second()).unwrap_or(instant)
}

/// The header that makes a browser save the object under its file name (RFC 6266).
///
/// `filename` is what old programs read, in ASCII; `filename*` (RFC 5987) carries every name that ASCII in quotes
/// cannot carry unharmed, which includes `%`, quotes and backslashes: some browsers decode or drop those in `filename`.
fn content_disposition(file_name: &str) -> String {
    if file_name.is_empty() {
        return "attachment".to_owned();
    }
    let mut text = String::from("attachment; filename=\"");
    for character in file_name.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            ' '..='~' => text.push(character),
            _ => text.push('_'),
        }
    }
    text.push('"');
    let plain = |character: char| matches!(character, ' '..='~') && !matches!(character, '"' | '\\' | '%');
    if !file_name.chars().all(plain) {
        let clean: String = file_name.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        text.push_str("; filename*=UTF-8''");
        text.push_str(&encode(&clean, b""));
    }
    text
}

/// Percent-encodes every byte but RFC 3986's unreserved ones and those in `keep`.
fn encode(text: &str, keep: &[u8]) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || keep.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend(
                [byte >> 4, byte & 0x0f].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
            );
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_become_a_header() {
        let cases = [
            ("", "attachment"),
            ("report.pdf", r#"attachment; filename="report.pdf""#),
            ("my report (1).pdf", r#"attachment; filename="my report (1).pdf""#),
            ("a;b=c.txt", r#"attachment; filename="a;b=c.txt""#),
            ("Grüße.pdf", "attachment; filename=\"Gr__e.pdf\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.pdf"),
            ("100%25.txt", "attachment; filename=\"100%25.txt\"; filename*=UTF-8''100%2525.txt"),
            (r#"a"b\c.txt"#, r#"attachment; filename="a\"b\\c.txt"; filename*=UTF-8''a%22b%5Cc.txt"#),
            ("a\r\nX: y", "attachment; filename=\"a__X: y\"; filename*=UTF-8''a__X%3A%20y"),
            (
                "日本*'().pdf",
                "attachment; filename=\"__*'().pdf\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC%2A%27%28%29.pdf",
            ),
        ];
        for (name, expected) in cases {
            assert_eq!(content_disposition(name), expected, "{name:?}");
        }
    }

    #[test]
    fn an_endpoint_is_scheme_and_authority() {
        let cases = [
            ("https://storage.googleapis.com", Some(("https", "storage.googleapis.com"))),
            ("https://storage.googleapis.com/", Some(("https", "storage.googleapis.com"))),
            ("https://storage.googleapis.com:443", Some(("https", "storage.googleapis.com"))),
            ("http://127.0.0.1:4443", Some(("http", "127.0.0.1:4443"))),
            ("http://[::1]:4443", Some(("http", "[::1]:4443"))),
            ("localhost:4443", None),
            ("storage.googleapis.com", None),
            ("https://host/path", None),
            ("https://host/?q", None),
            ("https://user:pw@host", None),
            ("ftp://host", None),
        ];
        for (endpoint, expected) in cases {
            let origin = Origin::parse(endpoint).ok();
            let seen = origin.as_ref().map(|o| (o.scheme.as_str(), o.authority.as_str()));
            assert_eq!(seen, expected, "{endpoint}");
        }
    }

    #[test]
    fn a_link_is_valid_from_the_whole_second_before() {
        let origin = Origin::parse("https://storage.googleapis.com").unwrap();
        let request = LinkRequest {
            bucket: "bucket".to_owned(),
            object: "o".to_owned(),
            file_name: "f".to_owned(),
            ttl: Duration::from_secs(60),
        };
        let instant: Timestamp = "2026-03-04T05:06:07.987Z".parse().unwrap();
        let draft = Draft::new(&origin, &request, "a@example.org", instant, 60);
        assert_eq!(draft.valid_until, "2026-03-04T05:07:07Z".parse::<Timestamp>().unwrap());
        let url = draft.into_link(&[0xab]).url;
        assert!(url.contains("X-Goog-Date=20260304T050607Z&X-Goog-Expires=60&"), "{url}");
        assert!(url.ends_with("&X-Goog-Signature=ab"), "{url}");
    }
}
