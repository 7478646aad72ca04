//! Header fields and MIME parts of a mail that anybody may have written. Pure.
//!
//! The library reads headers, and decodes single parts. It never sees a part that contains others: it builds a
//! message within a message as deep as they are nested, and a tree of that depth cannot be taken down on a thread's
//! stack. So parts are separated here, one level of them. Time and memory are in proportion to the bytes given.

use mail_parser::{ContentType, HeaderName, HeaderValue, Message, MessageParser, MimeHeaders as _, PartType};

/// Parts of a report are three; more are not looked at.
const PARTS: usize = 8;

/// A block of header fields.
pub(super) struct Fields<'a> {
    message: Message<'a>,
}

impl<'a> Fields<'a> {
    /// The fields at the head of `raw`; `None` where there are none.
    pub(super) fn of(raw: &'a [u8]) -> Option<Self> {
        let message = parser().parse_headers(raw)?;
        message.parts.first().is_some_and(|part| !part.headers.is_empty()).then_some(Self { message })
    }

    /// The values of a field, unfolded, control characters replaced; the first of the block first.
    pub(super) fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = String> + 'b {
        let headers = self.message.parts.first().map(|part| part.headers.as_slice()).unwrap_or_default();
        headers.iter().filter(move |header| header.name.as_str().eq_ignore_ascii_case(name)).filter_map(
            |header| {
                let (from, to) = (header.offset_start as usize, header.offset_end as usize);
                let value = tidy(&String::from_utf8_lossy(self.message.raw_message.get(from..to)?));
                (!value.is_empty()).then_some(value)
            },
        )
    }

    /// The first value of a field.
    pub(super) fn first(&self, name: &str) -> Option<String> {
        self.all(name).next()
    }

    /// `Content-Type` as the library reads it.
    pub(super) fn content_type(&self) -> Option<&ContentType<'a>> {
        let headers = &self.message.parts.first()?.headers;
        let header = headers.iter().find(|header| header.name == HeaderName::ContentType)?;
        match &header.value {
            HeaderValue::ContentType(content_type) => Some(content_type),
            HeaderValue::Address(_)
            | HeaderValue::Text(_)
            | HeaderValue::TextList(_)
            | HeaderValue::DateTime(_)
            | HeaderValue::Received(_)
            | HeaderValue::Empty => None,
        }
    }
}

/// Parses only the fields asked for; everything else stays as written.
fn parser() -> MessageParser {
    MessageParser::new().with_mime_headers().default_header_raw()
}

/// `type/subtype` in lower case; empty where the field is missing.
pub(super) fn kind(content_type: Option<&ContentType<'_>>) -> String {
    let Some(content_type) = content_type else { return String::new() };
    format!("{}/{}", content_type.ctype(), content_type.subtype().unwrap_or_default()).to_ascii_lowercase()
}

/// The bytes after the first empty line.
pub(super) fn body(raw: &[u8]) -> &[u8] {
    let mut rest = raw;
    while !rest.is_empty() {
        let (line, behind) = line(rest);
        rest = behind;
        if line.is_empty() {
            return rest;
        }
    }
    &[]
}

/// The parts between the boundary lines, without the text before the first and after the last.
pub(super) fn parts<'a>(body: &'a [u8], boundary: &str) -> Vec<&'a [u8]> {
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let (mut found, mut rest, mut start) = (Vec::new(), body, None::<usize>);
    while !rest.is_empty() && found.len() < PARTS {
        let at = body.len() - rest.len();
        let (line, behind) = line(rest);
        rest = behind;
        let Some(tail) = line.strip_prefix(delimiter.as_slice()) else { continue };
        let closes = tail.starts_with(b"--");
        if !closes && !tail.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if let Some(part) = start.and_then(|start| body.get(start..at)) {
            found.push(part);
        }
        start = (!closes).then(|| body.len() - rest.len());
        if closes {
            return found;
        }
    }
    // Cut short, by the sender or by us.
    if let Some(part) = start.and_then(|start| body.get(start..)).filter(|_| found.len() < PARTS) {
        found.push(part);
    }
    found
}

/// A part without parts, decoded; empty for one that might have some.
pub(super) fn decoded(part: &[u8]) -> Vec<u8> {
    let leaf = Fields::of(part)
        .map(|fields| kind(fields.content_type()))
        .is_some_and(|kind| kind.ends_with("/delivery-status") || kind.ends_with("/global-delivery-status"));
    let message =
        leaf.then(|| MessageParser::new().with_mime_headers().default_header_raw().parse(part)).flatten();
    let first = message.as_ref().and_then(|message| message.parts.first());
    match first.map(|part| (&part.body, part.content_transfer_encoding())) {
        Some((PartType::Text(text) | PartType::Html(text), Some(_))) => text.as_bytes().to_vec(),
        Some((PartType::Binary(bytes) | PartType::InlineBinary(bytes), Some(_))) => bytes.to_vec(),
        // Undecoded, as written.
        Some((
            PartType::Text(_)
            | PartType::Html(_)
            | PartType::Binary(_)
            | PartType::InlineBinary(_)
            | PartType::Message(_)
            | PartType::Multipart(_),
            _,
        ))
        | None => body(part).to_vec(),
    }
}

/// Blocks of fields, separated by empty lines.
pub(super) fn blocks(text: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut block = Vec::new();
        while !rest.is_empty() {
            let (line, behind) = line(rest);
            rest = behind;
            if line.iter().all(u8::is_ascii_whitespace) {
                if !block.is_empty() {
                    break;
                }
                continue;
            }
            block.extend_from_slice(line);
            block.push(b'\n');
        }
        // The library needs an empty line at the end of the fields.
        (!block.is_empty()).then(|| {
            block.push(b'\n');
            block
        })
    })
}

/// The first line, without its end, and the bytes after it.
fn line(rest: &[u8]) -> (&[u8], &[u8]) {
    let (line, behind) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default()),
        None => (rest, &[][..]),
    };
    (line.strip_suffix(b"\r").unwrap_or(line), behind)
}

/// A value on one line, without control characters.
fn tidy(value: &str) -> String {
    let mut tidy = String::with_capacity(value.len());
    for word in value.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !tidy.is_empty() {
            tidy.push(' ');
        }
        tidy.push_str(word);
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_stands_between_the_boundaries() {
        let cases: [(&str, &[&str]); 8] = [
            ("before\n--b\none\n--b\r\ntwo\r\n--b--\nafter\n--b\nthree", &["one\n", "two\r\n"]),
            ("--b\none\n--bb\nstill\n--b--", &["one\n--bb\nstill\n"]),
            ("--b\ncut short", &["cut short"]),
            ("--b  \none\n--b--  ", &["one\n"]),
            (" --b\nnot at the start", &[]),
            ("--b--", &[]),
            ("", &[]),
            ("--b\n--b\n--b", &["", ""]),
        ];
        for (body, expected) in cases {
            let found: Vec<_> =
                parts(body.as_bytes(), "b").into_iter().map(String::from_utf8_lossy).collect();
            let mut expected: Vec<_> = expected.iter().map(|part| (*part).to_owned()).collect();
            if body.ends_with("--b\n--b") {
                expected.push(String::new());
            }
            assert_eq!(found, expected, "{body:?}");
        }
        assert_eq!(parts("--b\n".repeat(1_000).as_bytes(), "b").len(), PARTS);
    }

    #[test]
    fn fields_are_unfolded_and_found_whatever_their_case() {
        let raw = b"Delivered-To: one@x\nX-Folded: a\n\t b\r\n  c\nDELIVERED-TO: two@x\n\nbody: no\n";
        let fields = Fields::of(raw).expect("fields");
        assert_eq!(fields.all("delivered-to").collect::<Vec<_>>(), ["one@x", "two@x"]);
        assert_eq!(fields.first("x-folded").as_deref(), Some("a b c"));
        assert_eq!(fields.first("body"), None);
        assert_eq!(body(raw), b"body: no\n");
        assert!(Fields::of(b"").is_none() && Fields::of(b"\n\nno fields").is_none());
    }
}
