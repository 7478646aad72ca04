//! Recordings, and the ways in which there are none.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use futures::{StreamExt as _, stream};

use super::heard::SPEECH;

/// Pieces of an endless recording, and their bytes.
const PIECES: usize = 1024;
const PIECE: usize = 64 * 1024;

/// A recording of the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// Bytes of a content type.
    Of(String, Vec<u8>),
    /// Nothing but this status.
    Status(u16),
    /// A redirect to another recording of this bucket.
    Elsewhere(String),
    /// So many bytes, with or without saying so before.
    Long(usize, bool),
    /// It begins, and never ends.
    Hangs,
}

impl Recording {
    /// A recording in which this is said.
    #[must_use]
    pub fn said(text: &str) -> Self {
        Self::Of("audio/mpeg".to_owned(), [b"ID3\x04\xff\x00", SPEECH.as_bytes(), text.as_bytes()].concat())
    }

    /// A recording in which nobody speaks.
    #[must_use]
    pub fn silence() -> Self {
        Self::Of("audio/mpeg".to_owned(), b"ID3\x04\xff\x00".to_vec())
    }

    pub(super) fn sent(&self) -> Response {
        match self {
            Self::Of(media, bytes) => of(media, Body::from(bytes.clone())),
            Self::Status(status) => {
                StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response()
            }
            Self::Elsewhere(name) => Redirect::temporary(&format!("/recordings/{name}")).into_response(),
            Self::Long(length, true) => of("audio/wav", Body::from(vec![b'x'; *length])),
            Self::Long(length, false) => {
                let (pieces, rest) = (length / PIECE, length % PIECE);
                let whole = stream::repeat(Bytes::from_static(&[b'x'; PIECE])).take(pieces.min(PIECES));
                let all = whole.chain(stream::iter([Bytes::from(vec![b'x'; rest])]));
                of("audio/wav", Body::from_stream(all.map(std::io::Result::Ok)))
            }
            Self::Hangs => {
                let begun = stream::iter([std::io::Result::Ok(Bytes::from_static(b"ID3"))]);
                of("audio/mpeg", Body::from_stream(begun.chain(stream::pending())))
            }
        }
    }
}

fn of(media: &str, body: Body) -> Response {
    let mut response = body.into_response();
    let media = HeaderValue::from_str(media).unwrap_or(HeaderValue::from_static("audio/mpeg"));
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
