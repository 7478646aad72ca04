//! The message: headers and parts put together by the mail library, the same octets for the same input.
//!
//! `multipart/mixed` around the text, or around `multipart/alternative` where there is HTML (design §7). The values that
//! the library would take from the clock or an rng (Date, Message-ID, boundaries) are set, so that a mail sent again
//! equals the one sent before.

use std::time::SystemTime;

use jiff::Timestamp;
use lettre::Message;
use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentDisposition, ContentTransferEncoding, ContentType, Date};
use lettre::message::{Body, MultiPart, MultiPartBuilder, SinglePart};
use sha2::{Digest, Sha256};

use super::body::Bodies;
use super::headers::{recipients, sender, token, unstructured};
use super::{ComposeFault, ComposeInput, Enclosed};
use crate::ports;
use crate::routing::submission::text::bounded;

/// Longest line sent unencoded; SMTP allows 998 octets.
const LONGEST_LINE: usize = 990;
/// Longest form id shown in `X-Form-ID`, in characters.
const MAX_FORM_ID: usize = 200;

/// Builds the finished message.
pub(super) fn assemble(
    input: &ComposeInput<'_>,
    message_id: &str,
    subject: &str,
    reply_to: Option<&str>,
    bodies: Bodies,
) -> Result<ports::Message, ComposeFault> {
    let from = input.mail.from;
    if !from.address.is_ascii() {
        return Err(ComposeFault::unbuildable(input, "mail.from is not an ASCII address"));
    }
    let address: Address =
        from.address.parse().map_err(|_| ComposeFault::unbuildable(input, "mail.from is not an address"))?;
    // The gateway gives the relay the recipients; the library only refuses to build without an envelope.
    let envelope = Envelope::new(Some(address.clone()), vec![address])
        .map_err(|fault| ComposeFault::unbuildable(input, fault))?;

    let boundary = boundary(message_id, &bodies);
    let text = part(SinglePart::builder().header(ContentType::TEXT_PLAIN), bodies.text);
    let between_parts = format!("=_mixed_{boundary}");
    let mixed = multipart(input, "mixed", &between_parts)?;
    let content = match bodies.html {
        None => mixed.singlepart(text),
        Some(html) => {
            let html = part(SinglePart::builder().header(ContentType::TEXT_HTML), html);
            mixed.multipart(
                multipart(input, "alternative", &format!("=_alternative_{boundary}"))?
                    .singlepart(text)
                    .singlepart(html),
            )
        }
    };
    let mut message = Message::builder()
        .envelope(envelope)
        .header(date(input.date))
        .raw_header(sender(from))
        .raw_header(recipients(&input.mailboxes()));
    if let Some(address) = reply_to {
        message = message.raw_header(token("Reply-To", address));
    }
    let message = message
        .raw_header(unstructured("Subject", subject))
        .raw_header(token("Message-ID", message_id))
        .raw_header(token("Auto-Submitted", "auto-generated"))
        .raw_header(token("X-Submission-ID", &input.submission.id.to_string()))
        .raw_header(unstructured("X-Form-ID", &bounded(input.submission.form_id.to_owned(), MAX_FORM_ID)))
        .multipart(content)
        .map_err(|fault| ComposeFault::unbuildable(input, fault))?
        .formatted();
    if !message.is_ascii() {
        return Err(ComposeFault::unbuildable(input, "the message is not ASCII"));
    }
    if input.files.is_empty() {
        return Ok(ports::Message::text(message));
    }
    with_files(message, &between_parts, input.files).map_err(|why| ComposeFault::unbuildable(input, why))
}

/// Parts between a boundary. The library's own constructors make a random boundary first, and parse the type three times.
fn multipart(input: &ComposeInput<'_>, kind: &str, boundary: &str) -> Result<MultiPartBuilder, ComposeFault> {
    let content_type = ContentType::parse(&format!("multipart/{kind}; boundary=\"{boundary}\""))
        .map_err(|fault| ComposeFault::unbuildable(input, fault))?;
    Ok(MultiPart::builder().header(content_type))
}

/// The message with files as its last parts: what ended it ends it behind them.
fn with_files(mut message: Vec<u8>, boundary: &str, files: &[Enclosed]) -> Result<ports::Message, String> {
    let end = format!("--{boundary}--\r\n");
    let before = message.strip_suffix(end.as_bytes()).ok_or("its parts do not end as they should")?.len();
    message.truncate(before);
    let mut parts = Vec::with_capacity(files.len());
    for file in files {
        let content_type =
            ContentType::parse(&file.content_type).map_err(|fault| format!("a file's type: {fault}"))?;
        let empty = Body::dangerous_pre_encoded(Vec::new(), ContentTransferEncoding::Base64);
        let part = SinglePart::builder()
            .header(content_type)
            .header(ContentDisposition::attachment(&file.file_name))
            .body(empty);
        let mut headers = format!("--{boundary}\r\n").into_bytes();
        headers.extend(part.formatted());
        // The library ends the empty content with a line of its own.
        headers.truncate(headers.len() - 2);
        parts.push((headers, file.content.clone()));
    }
    Ok(ports::Message::with_files(message, parts, end.into_bytes()))
}

/// `Date`. Before 1970 the library would panic, or use the present.
pub(super) fn date(at: Timestamp) -> Date {
    Date::new(SystemTime::from(at.max(Timestamp::UNIX_EPOCH)))
}

/// One part. ASCII text with lines that SMTP takes is sent unencoded, so that a link can be read in the raw message and
/// in a relay's copy of it; the library would break it up at 76.
pub(super) fn part(builder: lettre::message::SinglePartBuilder, text: String) -> SinglePart {
    let plain = text.bytes().all(|b| matches!(b, b'\n' | b'\t' | b' '..=b'~'))
        && text.split('\n').all(|line| line.len() <= LONGEST_LINE);
    if plain {
        let octets = text.replace('\n', "\r\n").into_bytes();
        builder.body(Body::dangerous_pre_encoded(octets, ContentTransferEncoding::SevenBit))
    } else {
        builder.body(text)
    }
}

/// A boundary that does not occur in the text: it is made from a digest of the text itself.
fn boundary(message_id: &str, bodies: &Bodies) -> String {
    let mut digest = Sha256::new();
    for text in [message_id, &bodies.text, bodies.html.as_deref().unwrap_or_default()] {
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    }
    hex::encode(&digest.finalize()[..16])
}
