//! Attachments in a mail: their names made harmless, their links with the time until which they work.
//!
//! The mail never carries a file itself (design §7); whoever holds a signed URL can read the object, so a link is
//! given no longer a life than the submission has, and is never logged.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::ports::SignedLink;
use crate::routing::text::{bounded, is_bidi_control, one_line};

/// The longest life a V4 signed URL can have.
pub const MAX_LINK_TTL: Duration = Duration::from_secs(7 * 86_400);
/// Longest file name shown, in characters.
const MAX_FILE_NAME: usize = 150;
/// Longest extension kept when a file name is shortened, in characters with its dot.
const MAX_EXTENSION: usize = 16;

/// One attachment as a mail shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentLink {
    /// File name as uploaded; cleaned when shown.
    pub file_name: String,
    /// Size, where known.
    pub size_bytes: Option<u64>,
    /// MIME type, where known.
    pub content_type: Option<String>,
    /// The link, or why there can be none any longer (the mail says "can no longer be linked: …").
    pub link: Result<SignedLink, String>,
}

/// How long a link may work: the configured time, at most seven days, and never beyond the submission's retention.
/// Whole seconds; `None` when less than one is left, so that nothing is signed that is dead on arrival.
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

/// A file name that is safe to show and to offer for saving: no control or bidirectional characters, no path
/// separators, no quotation marks, at most 150 characters with its extension kept; `attachment` when nothing is left.
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

/// A time for readers: `2026-06-04 16:03 CEST (Europe/Berlin)`, `2026-06-04 14:03 (UTC)`. Seconds are cut, so that
/// "until" is never promised too late.
pub(super) fn readable_time(at: Timestamp, zone: &TimeZone) -> String {
    let local = at.to_zoned(zone.clone());
    let abbreviation = local.strftime("%Z").to_string();
    let minute = local.strftime("%Y-%m-%d %H:%M");
    match zone.iana_name() {
        Some(name) if name != abbreviation => format!("{minute} {abbreviation} ({name})"),
        Some(_) | None => format!("{minute} ({abbreviation})"),
    }
}

/// The block that ends a text body; empty without attachments.
pub(super) fn text_block(attachments: &[AttachmentLink], zone: &TimeZone) -> String {
    if attachments.is_empty() {
        return String::new();
    }
    let mut block = format!("\nAttachments ({}):\n", attachments.len());
    for attachment in attachments {
        let shown = Shown::new(attachment, zone);
        block.push_str(&format!("\n- {}{}\n", shown.name, shown.about));
        match shown.link {
            Ok((url, until)) => block.push_str(&format!("  {url}\n  {until}\n")),
            Err(why) => block.push_str(&format!("  {why}\n")),
        }
    }
    block
}

/// The block that ends an HTML body; empty without attachments.
pub(super) fn html_block(attachments: &[AttachmentLink], zone: &TimeZone) -> String {
    if attachments.is_empty() {
        return String::new();
    }
    let mut block = format!("\n<hr>\n<p>Attachments ({}):</p>\n<ul>\n", attachments.len());
    for attachment in attachments {
        let shown = Shown::new(attachment, zone);
        let (name, about) = (escaped(&shown.name), escaped(&shown.about));
        match shown.link {
            Ok((url, until)) => block.push_str(&format!(
                "<li><a href=\"{}\">{name}</a>{about}<br>{}</li>\n",
                escaped(url),
                escaped(&until)
            )),
            Err(why) => block.push_str(&format!("<li>{name}{about}<br>{}</li>\n", escaped(&why))),
        }
    }
    block.push_str("</ul>\n");
    block
}

/// An attachment in words.
struct Shown<'a> {
    name: String,
    /// Size and type in parentheses, led by a space; empty where neither is known.
    about: String,
    /// The URL and until when it works, or why there is none.
    link: Result<(&'a str, String), String>,
}

impl<'a> Shown<'a> {
    fn new(attachment: &'a AttachmentLink, zone: &TimeZone) -> Self {
        let facts: Vec<String> = attachment
            .size_bytes
            .map(human_size)
            .into_iter()
            .chain(attachment.content_type.as_deref().map(|kind| bounded(one_line(kind), 100)))
            .filter(|fact| !fact.is_empty())
            .collect();
        let about = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let link = match &attachment.link {
            Ok(link) => Ok((
                link.url.as_str(),
                format!("valid until at the latest {}", readable_time(link.valid_until, zone)),
            )),
            Err(why) => Err(format!("can no longer be linked: {}", bounded(one_line(why), 300))),
        };
        Self { name: clean_file_name(&attachment.file_name), about, link }
    }
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

/// Text for HTML, in element content and in quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
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
    fn times_name_their_zone() {
        let time = at("2026-06-04T14:03:59Z");
        let berlin = TimeZone::get("Europe/Berlin").expect("the zone database");
        assert_eq!(readable_time(time, &berlin), "2026-06-04 16:03 CEST (Europe/Berlin)");
        assert_eq!(readable_time(time, &TimeZone::UTC), "2026-06-04 14:03 (UTC)");
        assert_eq!(readable_time(Timestamp::MAX, &TimeZone::UTC).len(), "9999-12-30 00:00 (UTC)".len());
    }

    #[test]
    fn html_is_escaped() {
        assert_eq!(escaped("<a href='x'>&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;");
    }
}
