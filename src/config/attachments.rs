//! How a form's attachments travel, by mail and as tickets.

use serde::{Deserialize, Serialize};

/// The way of attachments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attachments {
    /// As signed links.
    #[default]
    Link,
    /// As files; what may not or cannot travel so is linked, or named.
    Inline,
}

section! {
    /// `[mail.forms.FORM]`
    MailForm {
        /// The way of this form's attachments ([`Attachments`]).
        attachments: Attachments = Attachments::Link,
    }
}

/// A media type without parameters, as object stores write it.
pub(super) fn is_media_type(text: &str) -> bool {
    let token = |text: &str| {
        let plain =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'_');
        !text.is_empty() && text.bytes().all(plain)
    };
    text.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_has_two_parts_and_no_parameters() {
        for good in ["application/pdf", "image/svg+xml", "application/vnd.ms-excel", "text/x-log"] {
            assert!(is_media_type(good), "{good}");
        }
        for bad in ["", "pdf", "image/*", "text/plain; charset=utf-8", "Image/PNG", "a/b/c", "/pdf", "text/"]
        {
            assert!(!is_media_type(bad), "{bad}");
        }
    }
}
