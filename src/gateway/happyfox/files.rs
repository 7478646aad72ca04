//! Files of a ticket, opened before anything is sent: what is gone or has changed costs no half-written request.

use reqwest::Body;
use reqwest::multipart::Part;
use tokio::fs::File;

use super::payload::file_name;
use super::words::of_ours;
use crate::ports::{Fault, FileContent, Stage, TicketFile};

/// Media type of what says none that can be read.
const UNKNOWN: &str = "application/octet-stream";

/// Opens the files; what is spooled is streamed from the disk later.
///
/// # Errors
/// A fault of ours: a spooled file is gone, or has another length than was said.
pub(super) async fn open(files: &[TicketFile]) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::with_capacity(files.len());
    for file in files {
        let body = match &file.content {
            FileContent::Bytes(bytes) => Body::from(bytes.clone()),
            FileContent::Spooled { path, length } => {
                let opened = File::open(path).await.map_err(|error| spool(&error.to_string()))?;
                let found = opened.metadata().await.map_err(|error| spool(&error.to_string()))?.len();
                if found != *length {
                    return Err(spool(&format!("it has {found} bytes instead of {length}")));
                }
                Body::from(opened)
            }
        };
        let part = Part::stream_with_length(body, file.content.length()).file_name(file_name(&file.name));
        let part = part.mime_str(media_type(&file.content_type));
        parts.push(part.map_err(|error| spool(&error.to_string()))?);
    }
    Ok(parts)
}

fn spool(why: &str) -> Fault {
    of_ours(Stage::Post, &format!("a spooled file of the ticket cannot be sent: {why}"))
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
