//! The media type that bytes show by themselves.
//!
//! Pure. Formats without a signature are text where every byte of them may stand in one.

/// The type that the first bytes of a file show; `None` where they show none. Text is `text/plain`, whatever its lines mean.
#[must_use]
pub fn type_of(first: &[u8]) -> Option<&'static str> {
    match infer::get(first) {
        Some(found) => Some(found.mime_type()),
        None => is_text(first).then_some("text/plain"),
    }
}

/// Whether bytes that show `shown` may be of the type `declared`. Text is of any text type; what is packed as a ZIP or as an OLE
/// document shows no more than that; bytes that show nothing are of no type whose bytes show it.
#[must_use]
pub fn may_be(declared: &str, shown: Option<&str>) -> bool {
    const TEXTS: [&str; 3] = ["application/json", "application/xml", "application/rtf"];
    let is_text = declared.starts_with("text/") || TEXTS.contains(&declared) || declared.ends_with("+xml");
    let is_packed = declared.starts_with("application/vnd.openxmlformats-officedocument.")
        || declared.starts_with("application/vnd.oasis.opendocument.")
        || declared == "application/epub+zip"
        || declared == "application/x-zip-compressed";
    let is_old_office = declared == "application/msword" || declared.starts_with("application/vnd.ms-");
    match shown {
        Some(shown) if shown == declared => true,
        Some("text/plain") => is_text,
        Some("application/zip") => is_packed,
        Some("application/x-ole-storage" | "application/msword") => is_old_office,
        Some(_) => declared == "application/octet-stream",
        None => !is_text && !infer::is_mime_supported(declared),
    }
}

/// Whether the bytes are text in UTF-8, the last character perhaps cut, without controls that no text has.
fn is_text(first: &[u8]) -> bool {
    let text = match std::str::from_utf8(first) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_show_their_type() {
        for (first, expected) in [
            (&b"%PDF-1.7\n"[..], Some("application/pdf")),
            (b"\x89PNG\r\n\x1a\n....", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"MZ\x90\0", Some("application/vnd.microsoft.portable-executable")),
            (b"PK\x03\x04xxxx", Some("application/zip")),
            (b"<!DOCTYPE html><script>", Some("text/html")),
            (b"#!/bin/sh\n", Some("text/x-shellscript")),
            ("a;b\r\nä;\u{20ac}\r\n".as_bytes(), Some("text/plain")),
            (&"ä".as_bytes()[..1], Some("text/plain")),
            (b"", Some("text/plain")),
            (b"a\0b", None),
            (b"\xfe\xfe\xfe\xfe", None),
        ] {
            assert_eq!(type_of(first), expected, "{}", first.escape_ascii());
        }
    }

    #[test]
    fn a_declared_type_is_one_that_the_bytes_may_be_of() {
        let docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
        for (declared, shown, expected) in [
            ("application/pdf", Some("application/pdf"), true),
            ("application/pdf", Some("text/plain"), false),
            ("application/pdf", None, false),
            ("text/csv", Some("text/plain"), true),
            ("text/csv", Some("text/html"), false),
            ("text/csv", None, false),
            ("application/json", Some("text/plain"), true),
            (docx, Some("application/zip"), true),
            (docx, Some(docx), true),
            (docx, Some("application/pdf"), false),
            ("image/png", Some("application/vnd.microsoft.portable-executable"), false),
            ("application/vnd.example.unknown", None, true),
            ("application/octet-stream", Some("image/png"), true),
        ] {
            assert_eq!(may_be(declared, shown), expected, "{declared} {shown:?}");
        }
    }
}
