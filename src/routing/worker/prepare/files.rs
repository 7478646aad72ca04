//! Attachments that travel inside, where their form wants files: read, compared with what was received, and bounded.
//!
//! What may not or cannot travel so is linked; what is gone, or is not what was received, is named. Nothing is written but
//! files without names: if we die, nothing happened. Whether every attachment is clean is asked after this, by the begin.

use std::time::Duration;

use super::Preparer;
use crate::gateway::objects::{Object, Objects, ReadError, type_of};
use crate::ports::{SignedLink, encoded_length};
use crate::routing::compose::{Attachment, Enclosed, Place, clean_file_name};
use crate::routing::journal::files::OfAction;
use crate::routing::submission::content;
use crate::routing::submission::content::SubmissionContent;

/// Time that reading the files of one mail may take; those that were not read by then are linked.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bounds on files that travel inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineRules {
    /// Forms whose mails have files inside.
    pub forms: Vec<String>,
    /// Most that files take in one mail or ticket, encoded, in bytes.
    pub max_total: u64,
    /// Media types that may travel so.
    pub types: Vec<String>,
}

/// Why an attachment is linked, although its form wants files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    /// Its type is not among `mail.inline_types`.
    Type,
    /// Its bytes show another type than was said.
    Bytes,
    /// It does not fit into `mail.inline_max_total`.
    Size,
    /// It is stored compressed.
    Encoded,
    /// The store did not give it out, or not soon enough.
    Store,
    /// The disk did not take it.
    Disk,
}

impl Linked {
    /// The word in the journal.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Bytes => "bytes",
            Self::Size => "size",
            Self::Encoded => "encoded",
            Self::Store => "store",
            Self::Disk => "disk",
        }
    }
}

/// Why an attachment is only named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The store has no such object.
    Gone,
    /// The object is not what was received: another length, or another SHA-256.
    Changed,
}

impl Missing {
    /// The word in the journal.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Changed => "changed",
        }
    }

    /// The reason for readers.
    const fn words(self) -> &'static str {
        match self {
            Self::Gone => "it is not in the store any more",
            Self::Changed => "the file in the store is not the one that was received",
        }
    }
}

/// What becomes of an attachment.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Inside,
    Linked(Linked),
    Missing(Missing),
}

impl Preparer {
    /// Takes the attachments that may travel inside, and gives each its place.
    pub(super) async fn enclose(
        &self,
        of: OfAction<'_>,
        content: &SubmissionContent,
        attachments: &mut [Attachment],
    ) -> Vec<Enclosed> {
        let rules = self.rules.now();
        let (left, files) = (rules.inline.max_total, Vec::new());
        let mut enclosing = Enclosing { of, rules: &rules.inline, left, files };
        let reading = enclosing.all(&self.objects, content, attachments);
        if tokio::time::timeout(PATIENCE, reading).await.is_err() {
            of.not_read_in_time(PATIENCE);
        }
        enclosing.files
    }
}

/// The files of one mail or ticket, as they are read.
struct Enclosing<'a> {
    of: OfAction<'a>,
    rules: &'a InlineRules,
    /// What is left of the bound, in bytes as encoded.
    left: u64,
    files: Vec<Enclosed>,
}

impl Enclosing<'_> {
    async fn all(&mut self, objects: &Objects, content: &SubmissionContent, attachments: &mut [Attachment]) {
        for (recorded, attachment) in content.attachments.iter().zip(attachments) {
            let verdict = match &attachment.place {
                Place::Linked(link) => match self.rules.foresee(recorded, self.left) {
                    Ok(most) => match read(objects, link, most).await {
                        Ok(object) => self.take(recorded, attachment, object),
                        Err(error) => of_error(&error, recorded),
                    },
                    Err(why) => Verdict::Linked(why),
                },
                Place::Inside | Place::Gone(_) => continue,
            };
            match verdict {
                Verdict::Inside => attachment.place = Place::Inside,
                Verdict::Linked(why) => {
                    self.of.not_inside(recorded.id, why.label());
                    if why == Linked::Store || why == Linked::Disk {
                        // An outage costs one wait, not one for each attachment.
                        return;
                    }
                }
                Verdict::Missing(why) => {
                    self.of.missing(recorded.id, why.label());
                    attachment.place = Place::Gone(why.words().to_owned());
                }
            }
        }
    }

    /// Takes an object, if it is what was received and what may travel.
    fn take(&mut self, recorded: &content::Attachment, attachment: &Attachment, object: Object) -> Verdict {
        let verdict = judge(recorded, object.content.length(), &object.sha256, &object.first);
        if verdict == Verdict::Inside {
            self.left = self.left.saturating_sub(encoded_length(object.content.length()));
            self.files.push(Enclosed {
                file_name: clean_file_name(&attachment.file_name),
                content_type: said_type(recorded),
                content: object.content,
            });
        }
        verdict
    }
}

impl InlineRules {
    /// Most bytes that the attachment may have, by what is recorded of it.
    fn foresee(&self, recorded: &content::Attachment, left: u64) -> Result<u64, Linked> {
        if !self.types.contains(&said_type(recorded)) {
            return Err(Linked::Type);
        }
        match recorded_length(recorded) {
            Some(length) if encoded_length(length) > left => Err(Linked::Size),
            Some(length) => Ok(length),
            // As many as still fit when they are encoded.
            None => Ok(left / 78 * 57),
        }
    }
}

/// Gives what would be inside its link again.
pub(super) fn back_to_links(attachments: &mut [Attachment], linked: Vec<Attachment>) {
    for (attachment, linked) in attachments.iter_mut().zip(linked) {
        if attachment.place == Place::Inside {
            attachment.place = linked.place;
        }
    }
}

/// Reads an object; once more where its bytes were damaged on the way.
async fn read(objects: &Objects, link: &SignedLink, most: u64) -> Result<Object, ReadError> {
    match objects.read(link, most).await {
        Err(ReadError::Damaged) => objects.read(link, most).await,
        read => read,
    }
}

/// Judges an object that was read.
fn judge(recorded: &content::Attachment, length: u64, sha256: &[u8; 32], first: &[u8]) -> Verdict {
    let other_length = recorded_length(recorded).is_some_and(|recorded| recorded != length);
    let other_bytes = recorded.sha256.as_deref().is_some_and(|recorded| recorded != hex::encode(sha256));
    if other_length || other_bytes {
        return Verdict::Missing(Missing::Changed);
    }
    let (said, shown) = (said_type(recorded), type_of(first));
    // What the lines of a text mean, its bytes do not show.
    let is_text = said.starts_with("text/") && shown == Some("text/plain");
    if shown == Some(said.as_str()) || is_text { Verdict::Inside } else { Verdict::Linked(Linked::Bytes) }
}

fn of_error(error: &ReadError, recorded: &content::Attachment) -> Verdict {
    match error {
        ReadError::Gone => Verdict::Missing(Missing::Gone),
        ReadError::TooLong(_) if recorded_length(recorded).is_some() => Verdict::Missing(Missing::Changed),
        ReadError::TooLong(_) => Verdict::Linked(Linked::Size),
        ReadError::Encoded => Verdict::Linked(Linked::Encoded),
        ReadError::Refused(_) | ReadError::Away(_) | ReadError::Damaged => Verdict::Linked(Linked::Store),
        ReadError::Disk(_) => Verdict::Linked(Linked::Disk),
    }
}

/// The length that is recorded; 0 stands for none.
fn recorded_length(recorded: &content::Attachment) -> Option<u64> {
    recorded.size_bytes.and_then(|length| u64::try_from(length).ok()).filter(|length| *length > 0)
}

/// The type that is recorded, without parameters.
fn said_type(recorded: &content::Attachment) -> String {
    let said = recorded.content_type.as_deref().unwrap_or_default();
    said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn recorded(fields: &Value) -> content::Attachment {
        let mut all =
            json!({"id": "00000000-0000-0000-0000-000000000001", "content_type": "application/pdf"});
        for (key, value) in fields.as_object().expect("fields") {
            all[key] = value.clone();
        }
        serde_json::from_value(all).expect("an attachment")
    }

    #[test]
    fn what_is_recorded_decides_before_anything_is_read() {
        let types = vec!["application/pdf".to_owned(), "text/csv".to_owned()];
        let rules = InlineRules { forms: Vec::new(), max_total: 1_000, types };
        for (fields, expected) in [
            (json!({"size_bytes": 57}), Ok(57)),
            (json!({"size_bytes": 0}), Ok(684)),
            (json!({}), Ok(684)),
            (json!({"size_bytes": 729}), Ok(729)),
            (json!({"size_bytes": 730}), Err(Linked::Size)),
            (json!({"content_type": "Text/CSV; charset=utf-8", "size_bytes": 1}), Ok(1)),
            (json!({"content_type": "text/html", "size_bytes": 1}), Err(Linked::Type)),
            (json!({"content_type": null, "size_bytes": 1}), Err(Linked::Type)),
        ] {
            assert_eq!(rules.foresee(&recorded(&fields), 1_000), expected, "{fields}");
        }
    }

    #[test]
    fn what_was_read_is_what_was_received_and_what_was_said() {
        let bytes = b"%PDF-1.7\n";
        let sha256: [u8; 32] = Sha256::digest(bytes).into();
        let judged = |fields: &Value, first: &[u8]| judge(&recorded(fields), 9, &sha256, first);
        let digest = hex::encode(sha256);
        assert_eq!(judged(&json!({"size_bytes": 9, "sha256": digest}), bytes), Verdict::Inside);
        assert_eq!(judged(&json!({}), bytes), Verdict::Inside);
        let changed = Verdict::Missing(Missing::Changed);
        assert_eq!(judged(&json!({"size_bytes": 8}), bytes), changed);
        assert_eq!(judged(&json!({"size_bytes": 9, "sha256": "00"}), bytes), changed);
        assert_eq!(judged(&json!({}), b"MZ\x90\0"), Verdict::Linked(Linked::Bytes));
        assert_eq!(judged(&json!({"content_type": "text/csv"}), b"a;b\n"), Verdict::Inside);
        assert_eq!(judged(&json!({"content_type": "text/csv"}), b"<html>"), Verdict::Linked(Linked::Bytes));
        assert_eq!(judged(&json!({"content_type": "image/png"}), b"words"), Verdict::Linked(Linked::Bytes));
    }

    #[test]
    fn what_was_not_read_is_linked_or_named() {
        let (known, unknown) = (recorded(&json!({"size_bytes": 9})), recorded(&json!({})));
        assert_eq!(of_error(&ReadError::Gone, &known), Verdict::Missing(Missing::Gone));
        assert_eq!(of_error(&ReadError::TooLong(10), &known), Verdict::Missing(Missing::Changed));
        assert_eq!(of_error(&ReadError::TooLong(10), &unknown), Verdict::Linked(Linked::Size));
        assert_eq!(of_error(&ReadError::Refused(403), &known), Verdict::Linked(Linked::Store));
    }
}
