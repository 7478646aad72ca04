//! Objects of the store. [`Objects`] reads them through signed links, with no right beyond that of whoever reads the mail;
//! [`store`] is the store as the daemon's own account uses it.
//!
//! By a link an object is read in one answer, which is of one generation, into a file without a name, and its length and CRC-32C are
//! compared with those that the store says. Nothing is repeated, no redirect is followed. If we die in the middle, the file is
//! gone. No link, bucket, object or byte of content is in a log, an error or `Debug`; nothing here knows what a submission is.

pub mod store;
mod type_of;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderName};
use reqwest::{Client, Response, StatusCode, redirect, retry};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

pub use self::type_of::{may_be, type_of};

use crate::ports::{SignedLink, Spooled};

/// Name look-up, TCP and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Silence of a connection.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// First bytes of an object that are kept in memory: what its type is told by.
const FIRST: usize = 8 * 1024;
/// Digests that the store says of an object, and its length as stored.
const HASH: HeaderName = HeaderName::from_static("x-goog-hash");
const STORED_LENGTH: HeaderName = HeaderName::from_static("x-goog-stored-content-length");
const STORED_ENCODING: HeaderName = HeaderName::from_static("x-goog-stored-content-encoding");

/// Why an object was not read. No name and no URL is in it.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The object does not exist.
    #[error("the store has no such object")]
    Gone,
    /// The object has more bytes than were wanted.
    #[error("the object has {0} bytes")]
    TooLong(u64),
    /// The object is stored compressed: its bytes are not what a reader gets.
    #[error("the object is stored with an encoding")]
    Encoded,
    /// The store did not give it out.
    #[error("the store answers {0}")]
    Refused(u16),
    /// The store cannot be reached, or its answer broke off.
    #[error("the store does not answer: {0}")]
    Away(String),
    /// The bytes are not those that the store says it has.
    #[error("the object came with other bytes than the store says")]
    Damaged,
    /// The disk did not take it.
    #[error("the object could not be written to the disk: {0}")]
    Disk(#[from] io::Error),
}

/// An object, read.
#[derive(Clone)]
pub struct Object {
    /// Its bytes.
    pub content: Spooled,
    /// SHA-256 of its bytes.
    pub sha256: [u8; 32],
    /// Its first bytes.
    pub first: Vec<u8>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("content", &self.content).finish_non_exhaustive()
    }
}

/// A reader of objects. Cheap to share by reference; safe to use from many tasks at once.
#[derive(Debug)]
pub struct Objects {
    http: Client,
    dir: PathBuf,
}

impl Objects {
    /// A reader whose files are in `dir`, which must exist; connects to nothing.
    ///
    /// # Errors
    /// No HTTPS client can be made; in words.
    pub fn new(dir: &Path) -> Result<Self, String> {
        let http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.without_url().to_string())?;
        Ok(Self { http, dir: dir.to_owned() })
    }

    /// Reads the object behind a link, where it has `most` bytes at most.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read(&self, link: &SignedLink, most: u64) -> Result<Object, ReadError> {
        // What is stored compressed comes as it is stored, and says so.
        let asked = self.http.get(&link.url).header(ACCEPT_ENCODING, "gzip");
        let response = asked.send().await.map_err(away)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(ReadError::Gone),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(ReadError::Away(format!("it says {}", status.as_u16())));
            }
            status => return Err(ReadError::Refused(status.as_u16())),
        }
        let said = Said::of(response.headers());
        if said.is_encoded {
            return Err(ReadError::Encoded);
        }
        match said.length {
            Some(length) if length > most => Err(ReadError::TooLong(length)),
            _ => self.spool(response, &said, most).await,
        }
    }

    async fn spool(&self, mut response: Response, said: &Said, most: u64) -> Result<Object, ReadError> {
        let dir = self.dir.clone();
        let file = tokio::task::spawn_blocking(move || tempfile::tempfile_in(dir));
        let mut file = File::from_std(file.await.map_err(io::Error::other)??);
        let (mut length, mut crc32c, mut sha256) = (0_u64, 0, Sha256::new());
        let mut first = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(away)? {
            length += chunk.len() as u64;
            if length > most {
                return Err(ReadError::TooLong(length));
            }
            first.extend_from_slice(&chunk[..chunk.len().min(FIRST - first.len())]);
            crc32c = crc32c::crc32c_append(crc32c, &chunk);
            sha256.update(&chunk);
            file.write_all(&chunk).await?;
        }
        file.flush().await?;
        if said.length.is_some_and(|said| said != length) || said.crc32c.is_some_and(|said| said != crc32c) {
            return Err(ReadError::Damaged);
        }
        let content = Spooled::new(file.into_std().await)?;
        Ok(Object { content, sha256: sha256.finalize().into(), first })
    }
}

/// What the store says of an object.
struct Said {
    length: Option<u64>,
    crc32c: Option<u32>,
    is_encoded: bool,
}

impl Said {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let number = |name: &HeaderName| text(name)?.trim().parse().ok();
        let encoding = text(&STORED_ENCODING).or_else(|| text(&CONTENT_ENCODING));
        Self {
            length: number(&STORED_LENGTH).or_else(|| number(&CONTENT_LENGTH)),
            crc32c: headers.get_all(&HASH).iter().find_map(|value| crc32c(value.to_str().ok()?)),
            is_encoded: encoding.is_some_and(|encoding| !encoding.trim().eq_ignore_ascii_case("identity")),
        }
    }
}

/// The CRC-32C of a header with digests: big-endian, in BASE64.
fn crc32c(digests: &str) -> Option<u32> {
    let written = digests.split(',').find_map(|digest| digest.trim().strip_prefix("crc32c="))?;
    let bytes: [u8; 4] = BASE64.decode(written).ok()?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// The cause of a failed request; without the URL, which is a key to the object.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn away(error: reqwest::Error) -> ReadError {
    let what = match (error.is_connect(), error.is_timeout()) {
        (_, true) => "it takes too long",
        (true, false) => "no connection was made",
        (false, false) => "the connection broke",
    };
    ReadError::Away(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crc32c_is_found_among_the_digests() {
        // RFC 3720 B.4: 32 bytes of zeroes.
        for (digests, expected) in [
            ("crc32c=ipE2qg==,md5=cLxmkfz9NAZcDLKnTkK4eA==", Some(0x8a91_36aa)),
            ("md5=x, crc32c=ipE2qg==", Some(0x8a91_36aa)),
            ("crc32c=ipE2", None),
            ("md5=x", None),
        ] {
            assert_eq!(crc32c(digests), expected, "{digests}");
        }
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
