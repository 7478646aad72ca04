//! How a form's attachments travel, by mail and as tickets.

use serde::{Deserialize, Serialize};

use super::Config;
use super::problem::Problem;

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

/// Forms whose attachments are to travel as files, which no version does yet: nobody shall wait for that.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mails = config.mail.forms.iter().map(|(name, form)| ("mail", name, form.attachments));
    let tickets = config.happyfox.forms.iter().map(|(name, form)| ("happyfox", name, form.attachments));
    let inline = mails.chain(tickets).filter(|(_, _, way)| *way == Attachments::Inline);
    inline
        .map(|(section, name, _)| Problem {
            keys: vec![(format!("{section}.forms.{name}.attachments"), "\"inline\"".to_owned())],
            rule: "is not carried out by this version".to_owned(),
            remedy: "set it to \"link\" or leave it out: attachments travel as signed links".to_owned(),
        })
        .collect()
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
    use crate::config::validate::problems as all;
    use crate::config::validate::tests::sound;

    #[test]
    fn what_no_version_does_yet_is_refused_by_its_key() {
        let mut config = sound();
        let form = MailForm { attachments: Attachments::Inline };
        config.mail.forms.insert("tips".to_owned(), form);
        let found: Vec<String> =
            all(&config).into_iter().flat_map(|problem| problem.keys).map(|key| key.0).collect();
        assert_eq!(found, ["mail.forms.tips.attachments"]);
    }

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
