//! Files of a ticket, as parts of its form.

use futures::stream;
use reqwest::Body;
use reqwest::multipart::Part;

use super::payload::file_name;
use super::words::of_ours;
use crate::ports::{Fault, FileContent, Spooled, Stage, TicketFile};

/// Media type of what says none that can be read.
const UNKNOWN: &str = "application/octet-stream";
/// Bytes that are read from the disk at a time.
const CHUNK: usize = 64 * 1024;

/// The files as parts; what is spooled is streamed from the disk later.
///
/// # Errors
/// A fault of ours: a part cannot be made.
pub(super) fn parts(files: &[TicketFile]) -> Result<Vec<Part>, Fault> {
    let part = |file: &TicketFile| {
        let body = match &file.content {
            FileContent::Bytes(bytes) => Body::from(bytes.clone()),
            FileContent::Spooled(file) => streamed(file.clone()),
        };
        let part = Part::stream_with_length(body, file.content.length()).file_name(file_name(&file.name));
        let part = part.mime_str(media_type(&file.content_type));
        part.map_err(|error| of_ours(Stage::Post, &format!("a file of the ticket cannot be sent: {error}")))
    };
    files.iter().map(part).collect()
}

/// The file as a body. A file that cannot be read ends the request, which was begun by then.
fn streamed(file: Spooled) -> Body {
    Body::wrap_stream(stream::try_unfold((file, 0), async |(file, offset)| {
        let chunk = file.read_at(offset, CHUNK).await?;
        let next = offset + chunk.len() as u64;
        Ok::<_, std::io::Error>((!chunk.is_empty()).then_some((chunk, (file, next))))
    }))
}

/// The type without parameters.
fn media_type(said: &str) -> &str {
    let essence = said.split(';').next().unwrap_or_default().trim();
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    let sound = essence.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub));
    if sound { essence } else { UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_that_cannot_be_read_is_unknown() {
        for (said, expected) in [
            ("application/pdf", "application/pdf"),
            ("text/plain; charset=utf-8", "text/plain"),
            ("image/svg+xml", "image/svg+xml"),
            ("pdf", UNKNOWN),
            ("text/plain\r\nX: y", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(media_type(said), expected, "{said}");
        }
    }
}
