//! What a bad host does, and the answers that are made here. Nothing of it was seen of a real host; each is written from
//! gitprotocol-http(5), gitprotocol-pack(5) and gitprotocol-v2(5), and breaks them where its name says so.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};

/// Pause between two bytes of [`Act::Drip`].
const DRIP: Duration = Duration::from_secs(1);
/// References of one piece of [`Act::EndlessRefs`].
const REFS_AT_ONCE: u64 = 10_000;
const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";
const RESULT: &str = "application/x-git-upload-pack-result";

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// The references: `GET info/refs`, with which every conversation begins.
    Refs,
    /// The references, by protocol 2: `POST git-upload-pack` with `ls-refs`.
    List,
    /// A pack: any other `POST git-upload-pack`.
    Pack,
}

/// What is done in place of a good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// 302 to this address; the rest of the path is added.
    Redirect(String),
    /// A status, with words in its body; 401 asks for Basic authentication.
    Status(u16),
    /// Nothing is ever said.
    Hang,
    /// The good answer's first bytes, and no more.
    HangAfter(usize),
    /// The good answer, a byte a second.
    Drip,
    /// The good answer's first bytes; then the connection breaks.
    CutAfter(usize),
    /// The good answer's first bytes; then a proper end.
    EndAfter(usize),
    /// Words that are no protocol.
    Garbage,
    /// An error line of the protocol with this text, which may have line ends.
    Error(String),
    /// References without end.
    EndlessRefs,
    /// A pack that is none, as protocol 2 sends one.
    GarbagePack,
}

impl Act {
    /// The answer, where it needs no good one.
    pub(super) async fn instead(&self, at: At, rest: &str) -> Option<Response> {
        Some(match self {
            Self::Redirect(to) => {
                let mut response = answer(302, "text/plain", Body::from("elsewhere\n"));
                if let Ok(to) = HeaderValue::from_str(&format!("{to}{rest}")) {
                    response.headers_mut().insert(header::LOCATION, to);
                }
                response
            }
            Self::Status(status) => {
                let mut response =
                    answer(*status, "text/plain", Body::from("fatal: No space left on device\n"));
                if *status == 401 {
                    let basic = HeaderValue::from_static("Basic realm=\"stand-in\"");
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
                }
                response
            }
            Self::Hang => std::future::pending().await,
            Self::Garbage => answer(200, media_type(at), Body::from("no protocol at all")),
            Self::Error(text) => answer(200, media_type(at), Body::from(error(at, text))),
            Self::EndlessRefs => answer(200, ADVERTISEMENT, Body::from_stream(endless_refs())),
            Self::GarbagePack => answer(200, RESULT, Body::from(garbage_pack())),
            Self::HangAfter(_) | Self::Drip | Self::CutAfter(_) | Self::EndAfter(_) => return None,
        })
    }

    /// The answer, made of the good one.
    pub(super) fn spoil(&self, good: Response) -> Response {
        let (mut head, body) = good.into_parts();
        head.headers.remove(header::CONTENT_LENGTH);
        let bytes = bytes_of(body);
        let body = match *self {
            Self::HangAfter(most) => Body::from_stream(bytes.take(most).chain(stream::pending())),
            Self::CutAfter(most) => {
                let cut = async {
                    // Else what was sent before would not leave this host.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Err(io::Error::other("cut"))
                };
                Body::from_stream(bytes.take(most).chain(stream::once(cut)))
            }
            Self::EndAfter(most) => Body::from_stream(bytes.take(most)),
            Self::Drip => Body::from_stream(bytes.then(async |byte| {
                tokio::time::sleep(DRIP).await;
                byte
            })),
            Self::Redirect(_)
            | Self::Status(_)
            | Self::Hang
            | Self::Garbage
            | Self::Error(_)
            | Self::EndlessRefs
            | Self::GarbagePack => Body::from_stream(bytes),
        };
        Response::from_parts(head, body)
    }
}

/// A body, byte by byte.
fn bytes_of(body: Body) -> impl Stream<Item = io::Result<Bytes>> {
    body.into_data_stream().flat_map(|piece| {
        let piece = piece.unwrap_or_default();
        stream::iter((0..piece.len()).map(move |at| Ok(piece.slice(at..=at))))
    })
}

/// An answer that is made here.
pub(super) fn answer(status: u16, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn media_type(at: At) -> &'static str {
    match at {
        At::Refs => ADVERTISEMENT,
        At::List | At::Pack => RESULT,
    }
}

/// A line of the protocol: its length in four digits, and it.
fn line(bytes: &[u8]) -> Vec<u8> {
    let mut line = format!("{:04x}", bytes.len() + 4).into_bytes();
    line.extend_from_slice(bytes);
    line
}

fn service() -> Vec<u8> {
    let mut lines = line(b"# service=git-upload-pack\n");
    lines.extend_from_slice(b"0000");
    lines
}

fn error(at: At, text: &str) -> Vec<u8> {
    let mut lines = match at {
        At::Refs => service(),
        At::List | At::Pack => Vec::new(),
    };
    lines.extend(line(format!("ERR {text}").as_bytes()));
    lines
}

fn garbage_pack() -> Vec<u8> {
    let mut lines = line(b"packfile\n");
    lines.extend(line(b"\x01PACK\0\0\0\x02\0\0\0\x03no objects of any kind"));
    lines.extend_from_slice(b"0000");
    lines
}

fn endless_refs() -> impl Stream<Item = Result<Vec<u8>, Infallible>> {
    let pieces = (0_u64..).map(|piece| {
        let mut lines = if piece == 0 { service() } else { Vec::new() };
        for number in piece * REFS_AT_ONCE..(piece + 1) * REFS_AT_ONCE {
            let can = if number == 0 { "\0multi_ack" } else { "" };
            let reference = format!("{:040x} refs/heads/b{number}{can}\n", number + 1);
            lines.extend(line(reference.as_bytes()));
        }
        Ok(lines)
    });
    stream::iter(pieces)
}
