//! The JSON API's uploads: `media`, `multipart` (metadata and bytes in one body) and `resumable` (a session whose address
//! is all that is needed to go on).

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use serde_json::{Map, Value};

use super::content::Intake;
use super::digest::Claimed;
use super::effect::{Effect, Stop, json_conditions, small};
use super::json::{json_body, read_labels, resource, said};
use super::objects::received;
use super::refusal::Refusal;
use super::routes::Asked;
use super::shelf::{Labels, Object, Progress, Session};
use super::{New, Store, download, uri};

/// A chunk that is not the last one is a multiple of this.
const QUANTUM: u64 = 256 << 10;
/// Longest body of an upload in one request with its metadata.
const MULTIPART: usize = 256 << 20;

/// `POST upload/…/o?uploadType=…`
pub(super) async fn begin(
    store: &Arc<Store>,
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
    who: &str,
) -> Result<Effect, Stop> {
    if head.method != Method::POST {
        return Err(Refusal::method().into());
    }
    match asked.param("uploadType") {
        Some("media") => media(store, asked, head, body, who).await,
        Some("multipart") => multipart(store, asked, head, body, who).await,
        Some("resumable") => start(asked, head, body, who).await,
        _ => Err(Refusal::invalid("Invalid uploadType.").into()),
    }
}

async fn media(
    store: &Store,
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
    who: &str,
) -> Result<Effect, Stop> {
    let claimed = Claimed::of(&head.headers)?;
    let labels = Labels { content_type: text(&head.headers, "content-type"), ..Labels::default() };
    let intake = received(store, body).await?;
    whole(asked, asked.object.clone(), labels, claimed, intake, who)
}

async fn multipart(
    store: &Store,
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
    who: &str,
) -> Result<Effect, Stop> {
    let content_type = text(&head.headers, "content-type").unwrap_or_default();
    let boundary = content_type.split(';').filter_map(|part| part.trim().strip_prefix("boundary="));
    let boundary = boundary.map(|name| name.trim_matches(['"', '\''])).next();
    let boundary = boundary.filter(|_| content_type.starts_with("multipart/related"));
    let boundary = boundary.ok_or_else(|| Refusal::invalid("Not multipart/related with a boundary."))?;
    let claimed = Claimed::of(&head.headers)?;
    let bytes = axum::body::to_bytes(body.take().unwrap_or_default(), MULTIPART).await;
    let bytes = bytes.map_err(|_| Stop::Broken)?;
    store.tally.received(bytes.len() as u64);
    let parts = split(&bytes, boundary).ok_or_else(|| Refusal::invalid("Malformed multipart body."))?;
    let [(_, metadata), (media_type, media), rest @ ..] = parts.as_slice() else {
        return Err(Refusal::invalid("Not metadata and media.").into());
    };
    let sent = json_body(metadata)?;
    let (mut labels, mut named) = read_labels(&sent, Labels::default())?;
    labels.content_type = labels.content_type.or_else(|| media_type.clone());
    if let [(_, trailing), ..] = rest {
        // Digests that a client computed while it sent the bytes come behind them.
        named = read_labels(&json_body(trailing)?, Labels::default())?.1.and(named);
    }
    let mut intake = Intake::default();
    intake.take(media)?;
    whole(asked, name(asked, &sent)?, labels, named.and(claimed), intake, who)
}

/// Content type and bytes of each part.
fn split(body: &Bytes, boundary: &str) -> Option<Vec<(Option<String>, Bytes)>> {
    let (delimiter, blank) = (format!("\r\n--{boundary}"), "\r\n\r\n");
    let find = |from: usize, what: &str| {
        let at = body.get(from..)?.windows(what.len()).position(|window| window == what.as_bytes())?;
        Some(from + at)
    };
    // The first delimiter may stand at the very beginning.
    let mut at = if body.starts_with(&delimiter.as_bytes()[2..]) {
        delimiter.len() - 2
    } else {
        find(0, &delimiter)? + delimiter.len()
    };
    let mut parts = Vec::new();
    while !body.get(at..)?.starts_with(b"--") {
        let start = find(at, blank)?;
        let headers = std::str::from_utf8(&body[at..start]).ok()?;
        let mut headers = headers.lines().filter_map(|line| line.split_once(':'));
        let content_type = headers.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-type"));
        let end = find(start + 2, &delimiter)?;
        let bytes = body.slice((start + blank.len()).min(end)..end);
        parts.push((content_type.map(|(_, value)| value.trim().to_owned()), bytes));
        at = end + delimiter.len();
    }
    Some(parts)
}

/// An upload that came in one piece.
fn whole(
    asked: &Asked,
    name: String,
    labels: Labels,
    claimed: Claimed,
    intake: Intake,
    who: &str,
) -> Result<Effect, Stop> {
    if name.is_empty() {
        return Err(Refusal::new(400, "InvalidArgument", "required", "Required parameter: name").into());
    }
    let (content, digests) = intake.finish()?;
    claimed.judge(&digests)?;
    let conditions = json_conditions(asked, "if")?;
    let (host, bucket, who) = (asked.host.clone(), asked.bucket.clone(), who.to_owned());
    Ok(Box::new(move |store| {
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&bucket)?;
        let new = New { bucket: &bucket, name: &name, content, digests, labels };
        let object = store.put(shelf, new, &conditions, &who)?;
        Ok(said(&resource(&object, &host, &bucket, &shelf.bucket.storage_class)))
    }))
}

async fn start(asked: &Asked, head: &Parts, body: &mut Option<Body>, who: &str) -> Result<Effect, Stop> {
    let sent = json_body(&small(body).await?)?;
    let upload_type = text(&head.headers, "x-upload-content-type");
    let (labels, claimed) = read_labels(&sent, Labels { content_type: upload_type, ..Labels::default() })?;
    let session = Session {
        object: name(asked, &sent)?,
        labels,
        claimed: Claimed::of(&head.headers)?.and(claimed),
        conditions: json_conditions(asked, "if")?,
        account: who.to_owned(),
        progress: Progress::Open(Intake::default()),
    };
    let path = format!(
        "http://{}/upload/storage/v1/b/{}/o",
        asked.host,
        uri::encode(asked.bucket.as_bytes(), false)
    );
    let bucket = asked.bucket.clone();
    Ok(Box::new(move |store| {
        let id = store.new_upload_id();
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&bucket)?;
        session.conditions.judge(shelf.object(&session.object, None).map(|object| &**object))?;
        let name = uri::encode(session.object.as_bytes(), false);
        let address = format!("{path}?uploadType=resumable&name={name}&upload_id={id}");
        shelf.sessions.insert(id, session);
        let mut response = StatusCode::OK.into_response();
        download::put(response.headers_mut(), header::LOCATION, &address);
        Ok(response)
    }))
}

/// The object's name, from the query or the resource.
fn name(asked: &Asked, sent: &Map<String, Value>) -> Result<String, Refusal> {
    let sent = sent.get("name").and_then(Value::as_str).unwrap_or_default();
    let name = if asked.object.is_empty() { sent } else { &asked.object };
    if name.is_empty() {
        return Err(Refusal::new(400, "InvalidArgument", "required", "Required parameter: name"));
    }
    Ok(name.to_owned())
}

/// Where the bytes of a request belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// None where only the state is asked for, or an end without bytes is told.
    start: Option<u64>,
    total: Option<u64>,
}

/// `bytes A-B/TOTAL`, `bytes A-*/*`, `bytes */TOTAL`, `bytes */*`; without it the body is all of it.
fn place(headers: &HeaderMap) -> Result<Place, Refusal> {
    let Some(text) = text(headers, "content-range") else {
        return Ok(Place { start: Some(0), total: None });
    };
    let parsed = || {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let total = if total == "*" { None } else { Some(total.parse().ok()?) };
        let start = if range == "*" { None } else { Some(range.split_once('-')?.0.parse().ok()?) };
        Some(Place { start, total })
    };
    parsed().ok_or_else(|| Refusal::invalid("Invalid Content-Range."))
}

/// `PUT` or `DELETE` of a session's address.
pub(super) async fn resume(
    store: &Arc<Store>,
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
) -> Result<Effect, Stop> {
    let id = asked.param("upload_id").unwrap_or_default().to_owned();
    if head.method == Method::DELETE {
        let bucket = asked.bucket.clone();
        return Ok(Box::new(move |store| {
            store.shelves().shelf(&bucket)?.sessions.remove(&id).ok_or_else(Refusal::no_upload)?;
            Ok(StatusCode::from_u16(499).unwrap_or(StatusCode::NO_CONTENT).into_response())
        }));
    }
    let at = place(&head.headers)?;
    let open_end = head.headers.contains_key("content-range") && at.total.is_none();
    let claimed = Claimed::of(&head.headers)?;
    let mut intake = match taken(store, asked, &id)? {
        Ok(intake) => intake,
        Err(finished) => {
            let (host, bucket) = (asked.host.clone(), asked.bucket.clone());
            return Ok(Box::new(move |store| {
                let class = store.shelves().shelf(&bucket)?.bucket.storage_class.clone();
                Ok(said(&resource(&finished, &host, &bucket, &class)))
            }));
        }
    };
    let had = intake.length();
    let ended = match at.start {
        // Bytes behind a gap are of no use: the answer says how far it got.
        Some(start) if start <= had => append(&mut intake, body, had - start).await,
        _ => Ok(()),
    };
    store.tally.received(intake.length() - had);
    let length = intake.length();
    let streamed = text(&head.headers, "content-range").is_some_and(|range| range.contains("-*/"));
    let last = at.total.map_or(!open_end || streamed && ended.is_ok(), |total| total == length);
    let (broken, odd) = (ended.is_err(), !last && length % QUANTUM != 0 && length > had && ended.is_ok());
    let (host, bucket) = (asked.host.clone(), asked.bucket.clone());
    let put_back = |progress| -> Result<(), Refusal> {
        let mut shelves = store.shelves();
        let session = shelves.shelf(&bucket)?.sessions.get_mut(&id).ok_or_else(Refusal::no_upload)?;
        session.progress = progress;
        Ok(())
    };
    put_back(Progress::Open(intake))?;
    if broken {
        return Err(Stop::Broken);
    }
    if odd {
        return Err(Refusal::invalid("A chunk is no multiple of 262144 bytes.").into());
    }
    if !last {
        return Ok(Box::new(move |_| Ok(incomplete(length))));
    }
    Ok(Box::new(move |store| finish(store, &host, &bucket, &id, claimed)))
}

/// Makes the object of a session whose bytes are all there; a session whose bytes are not what was said ends.
fn finish(store: &Store, host: &str, bucket: &str, id: &str, claimed: Claimed) -> Result<Response, Refusal> {
    let mut shelves = store.shelves();
    let shelf = shelves.shelf(bucket)?;
    let mut session = shelf.sessions.remove(id).ok_or_else(Refusal::no_upload)?;
    let object = match std::mem::replace(&mut session.progress, Progress::Taken) {
        Progress::Finished(object) => object,
        Progress::Taken => return Err(Refusal::trouble(503)),
        Progress::Open(intake) => {
            let (content, digests) = intake.finish().map_err(|_| Refusal::trouble(500))?;
            session.claimed.judge(&digests)?;
            claimed.judge(&digests)?;
            let labels = session.labels.clone();
            let new = New { bucket, name: &session.object, content, digests, labels };
            store.put(shelf, new, &session.conditions, &session.account)?
        }
    };
    let response = said(&resource(&object, host, bucket, &shelf.bucket.storage_class));
    session.progress = Progress::Finished(object);
    shelf.sessions.insert(id.to_owned(), session);
    Ok(response)
}

/// The session's bytes so far, in this request's hands; the object where it is finished.
fn taken(store: &Store, asked: &Asked, id: &str) -> Result<Result<Intake, Arc<Object>>, Refusal> {
    let mut shelves = store.shelves();
    let session = shelves.shelf(&asked.bucket)?.sessions.get_mut(id).ok_or_else(Refusal::no_upload)?;
    match std::mem::replace(&mut session.progress, Progress::Taken) {
        Progress::Open(intake) => Ok(Ok(intake)),
        Progress::Taken => Err(Refusal::trouble(503)),
        Progress::Finished(object) => {
            session.progress = Progress::Finished(Arc::clone(&object));
            Ok(Err(object))
        }
    }
}

/// Takes in what follows the bytes that are there already.
async fn append(intake: &mut Intake, body: &mut Option<Body>, mut known: u64) -> Result<(), Stop> {
    let mut stream = body.take().unwrap_or_default().into_data_stream();
    while let Some(bytes) = stream.next().await {
        let bytes = bytes.map_err(|_| Stop::Broken)?;
        let skipped = known.min(bytes.len() as u64);
        known -= skipped;
        intake.take(&bytes[usize::try_from(skipped).unwrap_or(bytes.len())..])?;
    }
    Ok(())
}

/// 308, and how far it got.
fn incomplete(length: u64) -> Response {
    let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
    if let Some(last) = length.checked_sub(1) {
        download::put(response.headers_mut(), header::RANGE, &format!("bytes=0-{last}"));
    }
    response
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_split_at_its_boundary_and_nowhere_else() {
        let body = "--b\r\ncontent-type: application/json\r\n\r\n{}\r\n--b\r\nContent-Type: text/plain\r\n\r\n\r\na--b\r\n\r\n--b\r\n\r\n\r\n--b--";
        let parts = split(&Bytes::from_static(body.as_bytes()), "b").expect("three parts");
        let parts: Vec<_> = parts.iter().map(|(kind, bytes)| (kind.as_deref(), &bytes[..])).collect();
        let wanted: [(_, &[u8]); 3] =
            [(Some("application/json"), b"{}"), (Some("text/plain"), b"\r\na--b\r\n"), (None, b"")];
        assert_eq!(parts, wanted);
        assert_eq!(split(&Bytes::from_static(b"--b\r\n\r\nx"), "b"), None);
    }
}
