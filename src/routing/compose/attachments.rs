//! Attachments in a mail: their names made harmless, their places, and how long their links work.
//!
//! An attachment is linked, or goes inside as a file where its form wants that. Anyone with a signed URL can read the object,
//! so a link lives no longer than the submission, and is never logged.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::html::escaped;
use super::when::{in_words, readable_time};
use crate::ports::{SignedLink, Spooled};
use crate::routing::submission::text::{bounded, one_line};
use crate::scrub::is_bidi_control;

/// Longest life of a V4 signed URL.
pub const MAX_LINK_TTL: Duration = Duration::from_secs(7 * 86_400);
/// Longest file name shown, in characters.
const MAX_FILE_NAME: usize = 150;
/// Longest extension kept when a file name is shortened, in characters with its dot.
const MAX_EXTENSION: usize = 16;

/// One attachment as a mail shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// File name as uploaded; cleaned when shown.
    pub file_name: String,
    /// Size, where known.
    pub size_bytes: Option<u64>,
    /// MIME type, where known.
    pub content_type: Option<String>,
    /// Where its content is.
    pub place: Place,
}

/// Where a reader finds an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Behind a link.
    Linked(SignedLink),
    /// In the mail or ticket itself.
    Inside,
    /// Nowhere any longer, for this reason (the mail says "can no longer be linked: …").
    Gone(String),
}

/// A file that goes with a mail or a ticket. Its `Debug` shows neither name nor content.
#[derive(Clone, PartialEq, Eq)]
pub struct Enclosed {
    /// File name offered to the reader, cleaned.
    pub file_name: String,
    /// Media type, without parameters.
    pub content_type: String,
    /// The file.
    pub content: Spooled,
}

impl fmt::Debug for Enclosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enclosed")
            .field("content_type", &self.content_type)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// Life of a link: the configured time, at most seven days, and never longer than the submission's retention. Whole
/// seconds; `None` when less than one is left, so that no link is dead on arrival.
#[must_use]
pub fn link_ttl(
    configured: Duration,
    retention_expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Duration> {
    let retained = match retention_expires_at {
        // A negative time cannot be converted: already past.
        Some(end) => Duration::try_from(end.duration_since(now)).ok()?,
        None => MAX_LINK_TTL,
    };
    let ttl = Duration::from_secs(configured.min(MAX_LINK_TTL).min(retained).as_secs());
    (!ttl.is_zero()).then_some(ttl)
}

/// Makes a file name safe to show and to offer for saving: no control or bidirectional characters, no path separators,
/// no quotation marks, at most 150 characters with its extension kept; `attachment` when nothing is left.
#[must_use]
pub fn clean_file_name(raw: &str) -> String {
    let visible: String = raw
        .chars()
        .filter(|c| !is_bidi_control(*c) && (!c.is_control() || c.is_whitespace()))
        .map(|c| match c {
            '/' | '\\' => '_',
            '"' => '\'',
            c => c,
        })
        .collect();
    let name = one_line(&visible);
    if name.chars().all(|c| c == '.') {
        return "attachment".to_owned();
    }
    if name.chars().nth(MAX_FILE_NAME).is_none() {
        return name;
    }
    let extension = name
        .rfind('.')
        .map(|dot| &name[dot..])
        .filter(|extension| extension.chars().nth(MAX_EXTENSION).is_none())
        .unwrap_or_default();
    let stem = &name[..name.len() - extension.len()];
    format!("{}{extension}", bounded(stem.to_owned(), MAX_FILE_NAME - extension.chars().count()))
}

/// The block that ends a text body; empty without attachments.
pub(super) fn text_block(attachments: &[Attachment], when: When<'_>) -> String {
    if attachments.is_empty() {
        return String::new();
    }
    let mut block = format!("\nAttachments ({}):\n", attachments.len());
    for attachment in attachments {
        let shown = Shown::new(attachment, when);
        block.push_str(&format!("\n- {}{}\n", shown.name, shown.about));
        if let Some(url) = shown.url {
            block.push_str(&format!("  {url}\n"));
        }
        block.push_str(&format!("  {}\n", shown.note));
    }
    block
}

/// The block that ends an HTML body; empty without attachments. A link has a line of its own: beside a name the line
/// could be too long to be sent unencoded.
pub(super) fn html_block(attachments: &[Attachment], when: When<'_>) -> String {
    if attachments.is_empty() {
        return String::new();
    }
    let mut block = format!("\n<h2>Attachments ({})</h2>\n<ul>\n", attachments.len());
    for attachment in attachments {
        let shown = Shown::new(attachment, when);
        let (name, about) = (escaped(&shown.name), escaped(&shown.about));
        let name = match shown.url {
            Some(url) => format!("<a\nhref=\"{}\"\n>{name}</a>", escaped(url)),
            None => name,
        };
        let note = escaped(&shown.note);
        block.push_str(&format!("<li>{name}{about}<br>\n<span class=\"note\">{note}</span></li>\n"));
    }
    block.push_str("</ul>\n");
    block
}

/// Time of the mail, and zone of the times shown in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct When<'a> {
    pub(super) now: Timestamp,
    pub(super) zone: &'a TimeZone,
}

/// An attachment described for readers.
struct Shown<'a> {
    name: String,
    /// Size and type in parentheses, led by a space; empty where neither is known.
    about: String,
    /// The URL, where there is one.
    url: Option<&'a str>,
    /// How to come by the attachment, or why that is over.
    note: String,
}

impl<'a> Shown<'a> {
    fn new(attachment: &'a Attachment, when: When<'_>) -> Self {
        let facts: Vec<String> = attachment
            .size_bytes
            .map(human_size)
            .into_iter()
            .chain(attachment.content_type.as_deref().map(kind_of_file))
            .filter(|fact| !fact.is_empty())
            .collect();
        let about = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let (url, note) = match &attachment.place {
            Place::Linked(link) => (
                Some(link.url.as_str()),
                format!(
                    "The link works until {} at the latest, about {} after this mail.",
                    readable_time(link.valid_until, when.zone),
                    in_words(when.now, link.valid_until)
                ),
            ),
            Place::Inside => (None, "It is attached.".to_owned()),
            Place::Gone(why) => {
                let why = bounded(one_line(why), 300);
                (None, format!("It can no longer be linked: {}.", why.trim_end_matches('.')))
            }
        };
        Self { name: clean_file_name(&attachment.file_name), about, url, note }
    }
}

/// Common name of a MIME type; a type without one is shown as it is.
fn kind_of_file(mime: &str) -> String {
    let mime = bounded(one_line(mime), 100);
    let bare = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let name =
        match bare.as_str() {
            "application/pdf" => "PDF document",
            "application/zip" | "application/x-zip-compressed" => "ZIP archive",
            "application/msword"
            | "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "Word document",
            "application/vnd.ms-excel"
            | "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "Excel sheet",
            "application/vnd.ms-powerpoint"
            | "application/vnd.openxmlformats-officedocument.presentationml.presentation" => {
                "PowerPoint presentation"
            }
            "application/vnd.oasis.opendocument.text" => "OpenDocument text",
            "application/vnd.oasis.opendocument.spreadsheet" => "OpenDocument sheet",
            "image/gif" => "GIF image",
            "image/heic" => "HEIC image",
            "image/jpeg" => "JPEG image",
            "image/png" => "PNG image",
            "text/csv" => "CSV table",
            "text/plain" => "plain text",
            "video/mp4" => "MP4 video",
            _ => return mime,
        };
    name.to_owned()
}

/// A size in the decimal units that file managers show: `0 bytes`, `999 bytes`, `1.4 MB`.
fn human_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (unit, name) in UNITS {
        // Just below a unit, one decimal of the smaller one would already round up to 1000.0.
        if bytes >= unit - unit / 20_000 {
            let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    #[test]
    fn a_link_lives_no_longer_than_allowed() {
        let now = at("2026-06-04T12:00:00Z");
        let day = Duration::from_secs(86_400);
        let cases = [
            (day, None, Some(day)),
            (30 * day, None, Some(7 * day)),
            (7 * day, Some("2026-06-06T12:00:00Z"), Some(2 * day)),
            (day, Some("2027-01-01T00:00:00Z"), Some(day)),
            (7 * day, Some("2026-06-04T12:00:01.9Z"), Some(Duration::from_secs(1))),
            (7 * day, Some("2026-06-04T12:00:00.9Z"), None),
            (7 * day, Some("2026-06-04T12:00:00Z"), None),
            (7 * day, Some("2020-01-01T00:00:00Z"), None),
            (Duration::ZERO, None, None),
            (Duration::from_millis(1_700), None, Some(Duration::from_secs(1))),
        ];
        for (configured, retention, expected) in cases {
            assert_eq!(
                link_ttl(configured, retention.map(at), now),
                expected,
                "{configured:?} {retention:?}"
            );
        }
        assert_eq!(link_ttl(day, Some(Timestamp::MAX), Timestamp::MIN), Some(day));
        assert_eq!(link_ttl(day, Some(Timestamp::MIN), Timestamp::MAX), None);
    }

    #[test]
    fn file_names_cannot_mislead() {
        let cases = [
            ("report.pdf", "report.pdf"),
            ("Übersicht 2026 – final.PDF", "Übersicht 2026 – final.PDF"),
            ("invoice\u{202E}fdp.exe", "invoicefdp.exe"),
            ("a\r\nContent-Type: x.txt", "a Content-Type: x.txt"),
            ("..\\..\\etc/passwd", ".._.._etc_passwd"),
            ("nul\0\u{1b}[31m.txt", "nul[31m.txt"),
            ("say \"hi\".txt", "say 'hi'.txt"),
            ("", "attachment"),
            (" \u{200F}\t", "attachment"),
            ("..", "attachment"),
        ];
        for (raw, expected) in cases {
            assert_eq!(clean_file_name(raw), expected, "{raw:?}");
        }
        let long = clean_file_name(&format!("{}.tar.gz", "ä".repeat(400)));
        assert_eq!(long.chars().count(), MAX_FILE_NAME);
        assert!(long.ends_with("….gz"), "{long}");
        assert_eq!(clean_file_name(&"x".repeat(400)).chars().count(), MAX_FILE_NAME);
    }

    #[test]
    fn sizes_for_people() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (1_449_000, "1.4 MB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (2_500_000_000, "2.5 GB"),
            (u64::MAX, "18446744.1 TB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(human_size(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn kinds_of_files_have_names_that_people_use() {
        let cases = [
            ("application/pdf", "PDF document"),
            ("Image/JPEG", "JPEG image"),
            ("text/plain; charset=utf-8", "plain text"),
            ("application/x-odd\r\nBcc: x", "application/x-odd Bcc: x"),
            ("", ""),
        ];
        for (mime, expected) in cases {
            assert_eq!(kind_of_file(mime), expected, "{mime:?}");
        }
    }
}
