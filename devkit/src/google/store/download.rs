//! An object on its way out: its headers, the range that was asked for, and what spoils it.

use std::io;
use std::ops::Range;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::{Stream, StreamExt as _};

use super::refusal::Refusal;
use super::routes::Api;
use super::rules::Act;
use super::shelf::{METAGENERATION, Object};

/// Time for half a download to leave before its connection ends.
const FLUSHED: Duration = Duration::from_millis(50);

/// The whole object or the range that was asked for.
pub(super) fn answer(
    object: &Object,
    api: Api,
    storage_class: &str,
    asked: &HeaderMap,
) -> Result<Response, Refusal> {
    let length = object.content.length();
    let range = asked.get(header::RANGE).and_then(|value| value.to_str().ok()).and_then(wanted);
    let range = match range {
        None => None,
        Some(wanted) => Some(wanted.of(length).ok_or_else(|| Refusal::range(length))?),
    };
    let sent = range.clone().unwrap_or(0..length);
    let mut response = Response::new(Body::from_stream(object.content.stream(sent.clone())));
    describe(response.headers_mut(), object, api, storage_class);
    put(response.headers_mut(), header::CONTENT_LENGTH, &(sent.end - sent.start).to_string());
    if range.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let place = format!("bytes {}-{}/{length}", sent.start, sent.end.saturating_sub(1));
        put(response.headers_mut(), header::CONTENT_RANGE, &place);
    }
    Ok(response)
}

/// What the service says of an object. The XML API says each digest in a header of its own, the JSON API all in one.
pub(super) fn describe(headers: &mut HeaderMap, object: &Object, api: Api, storage_class: &str) {
    let labels = &object.labels;
    let content_type = labels.content_type.as_deref().unwrap_or("application/octet-stream");
    let encoding = labels.headers.get("content-encoding").map_or("identity", String::as_str);
    let modified = object.created.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    for (name, value) in [
        ("content-type", content_type),
        ("etag", &etag(object, api)),
        ("last-modified", &modified),
        ("accept-ranges", "bytes"),
        ("x-goog-generation", &object.generation.to_string()),
        ("x-goog-metageneration", &METAGENERATION.to_string()),
        ("x-goog-stored-content-length", &object.content.length().to_string()),
        ("x-goog-stored-content-encoding", encoding),
        ("x-goog-storage-class", storage_class),
    ] {
        put(headers, HeaderName::from_static(name), value);
    }
    for (name, value) in &labels.headers {
        put(headers, HeaderName::from_static(name), value);
    }
    for (name, value) in &labels.metadata {
        if let Ok(name) = HeaderName::try_from(format!("x-goog-meta-{name}")) {
            put(headers, name, value);
        }
    }
    hashes(headers, object.digests.headers(), api);
}

/// The digests.
pub(super) fn hashes(headers: &mut HeaderMap, digests: Vec<String>, api: Api) {
    let name = HeaderName::from_static("x-goog-hash");
    let lines = match api {
        Api::Xml => digests,
        Api::Json => vec![digests.join(",")],
    };
    for value in lines.iter().filter_map(|line| HeaderValue::from_str(line).ok()) {
        headers.append(name.clone(), value);
    }
}

/// What the APIs call an object's state: the XML API its MD5 where there is one, in quotes.
pub(super) fn etag(object: &Object, api: Api) -> String {
    use base64::Engine as _;
    let state = || {
        let numbers = [object.generation.to_be_bytes(), METAGENERATION.to_be_bytes()].concat();
        base64::engine::general_purpose::STANDARD.encode(numbers)
    };
    match (api, object.digests.md5) {
        (Api::Xml, Some(md5)) => format!("\"{}\"", hex::encode(md5)),
        (Api::Xml, None) => format!("\"-{}\"", state()),
        (Api::Json, _) => state(),
    }
}

/// A header's value, where it can be one; file names stand there as UTF-8, and go out as they came in.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}

/// A range as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    From(u64, Option<u64>),
    Last(u64),
}

/// One range of bytes; what is none, or several, is as if nothing had been said.
fn wanted(value: &str) -> Option<Wanted> {
    let (start, end) = value.strip_prefix("bytes=")?.split_once('-')?;
    match (start, end) {
        ("", last) => last.parse().ok().map(Wanted::Last),
        (start, "") => start.parse().ok().map(|start| Wanted::From(start, None)),
        (start, end) => {
            let (start, end) = (start.parse().ok()?, end.parse().ok()?);
            (start <= end).then_some(Wanted::From(start, Some(end)))
        }
    }
}

impl Wanted {
    /// The bytes of an object of this length; none where it has none of them.
    fn of(self, length: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(start, end) => start..end.map_or(length, |end| end.saturating_add(1).min(length)),
            Self::Last(last) => length.saturating_sub(last)..length,
        };
        (range.start < range.end).then_some(range)
    }
}

/// The same download with a bit changed, cut, or without an end.
pub(super) fn spoilt(response: Response, act: Act) -> Response {
    let (head, body) = response.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length: u64 = length.and_then(|length| length.parse().ok()).unwrap_or_default();
    let mut seen = 0;
    let stream = body.into_data_stream().map(|bytes| bytes.map_err(io::Error::other));
    let body = match act {
        Act::Flipped => Body::from_stream(stream.map(move |bytes| {
            let mut bytes = bytes?.to_vec();
            seen += bytes.len() as u64;
            if seen == length
                && let Some(last) = bytes.last_mut()
            {
                *last ^= 1;
            }
            Ok::<_, io::Error>(bytes)
        })),
        Act::Truncated => {
            let end = futures::stream::once(async {
                // What was given before is on its way meanwhile.
                tokio::time::sleep(FLUSHED).await;
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut"))
            });
            Body::from_stream(half(stream, length).chain(end))
        }
        Act::Stalled => Body::from_stream(half(stream, length).chain(futures::stream::pending())),
        Act::Normal | Act::Status(_) | Act::Disconnect | Act::Silence | Act::ErrorInside => {
            Body::from_stream(stream)
        }
    };
    Response::from_parts(head, body)
}

/// The first half of a download.
fn half(
    stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    length: u64,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let mut left = usize::try_from(length / 2).unwrap_or(usize::MAX);
    let half = stream.map(move |bytes| {
        let mut bytes = bytes?;
        bytes.truncate(left);
        left -= bytes.len();
        Ok(bytes)
    });
    half.take_while(|bytes| std::future::ready(!matches!(bytes, Ok(bytes) if bytes.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_it_says() {
        for (value, range) in [
            ("bytes=0-0", Some(0..1)),
            ("bytes=2-", Some(2..10)),
            ("bytes=2-99", Some(2..10)),
            ("bytes=-3", Some(7..10)),
            ("bytes=-99", Some(0..10)),
            ("bytes=10-", None),
            ("bytes=-0", None),
        ] {
            assert_eq!(wanted(value).expect("a range").of(10), range, "{value}");
        }
        for value in ["bytes=3-2", "bytes=0-1,3-4", "bytes=-", "items=0-1", "bytes=a-"] {
            assert_eq!(wanted(value), None, "{value}");
        }
    }
}
