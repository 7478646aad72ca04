//! Objects: read and deleted by either API, written whole by the XML API.

use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::content::Intake;
use super::digest::Claimed;
use super::effect::{Effect, Stop, conditions, generation, labels};
use super::refusal::Refusal;
use super::routes::{Api, Asked};
use super::shelf::Object;
use super::{New, Store, download};

/// GET and HEAD; `alt=media` of the JSON API.
pub(super) fn read(asked: &Asked, head: &Parts, who: &str) -> Result<Effect, Stop> {
    let (generation, conditions) = (generation(asked, "generation")?, conditions(asked, &head.headers)?);
    let mut instead = Vec::new();
    for (param, name) in [
        ("response-content-disposition", header::CONTENT_DISPOSITION),
        ("response-content-type", header::CONTENT_TYPE),
    ] {
        if let Some(text) = asked.param(param).filter(|_| asked.api == Api::Xml) {
            // File names stand there as UTF-8, and go out as they came in.
            let value = HeaderValue::from_bytes(text.as_bytes());
            let invalid = |_| Refusal::invalid(&format!("Invalid {param}."));
            instead.push((name, value.map_err(invalid)?));
        }
    }
    let (asked, headers, who) = (asked.clone(), head.headers.clone(), who.to_owned());
    Ok(Box::new(move |store| {
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        let object = shelf.object(&asked.object, generation);
        let object =
            object.ok_or_else(|| store.missing(&who, "storage.objects.get", &asked.bucket, &asked.object))?;
        if conditions.generation_not == Some(object.generation) {
            return Ok(StatusCode::NOT_MODIFIED.into_response());
        }
        conditions.judge(Some(object))?;
        let mut response = download::answer(object, asked.api, &shelf.bucket.storage_class, &headers)?;
        response.headers_mut().extend(instead);
        Ok(response)
    }))
}

/// DELETE.
pub(super) fn delete(asked: &Asked, head: &Parts, who: &str) -> Result<Effect, Stop> {
    let (generation, conditions) = (generation(asked, "generation")?, conditions(asked, &head.headers)?);
    let (asked, who) = (asked.clone(), who.to_owned());
    Ok(Box::new(move |store| {
        let now = store.time();
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        let object = shelf.object(&asked.object, generation);
        let object = object
            .ok_or_else(|| store.missing(&who, "storage.objects.delete", &asked.bucket, &asked.object))?;
        conditions.judge(Some(object))?;
        shelf.remove(&asked.object, now);
        Ok(StatusCode::NO_CONTENT.into_response())
    }))
}

/// PUT of a whole object.
pub(super) async fn write(
    store: &Store,
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
    who: &str,
) -> Result<Effect, Stop> {
    let (claimed, conditions) = (Claimed::of(&head.headers)?, conditions(asked, &head.headers)?);
    if let Some(name) =
        ["x-goog-copy-source", "x-goog-encryption-key"].iter().find(|n| head.headers.contains_key(**n))
    {
        return Err(Refusal::not_implemented(name).into());
    }
    let labels = labels(&head.headers);
    let (content, digests) = received(store, body).await?.finish()?;
    claimed.judge(&digests)?;
    let (asked, who) = (asked.clone(), who.to_owned());
    Ok(Box::new(move |store| {
        let new = New { bucket: &asked.bucket, name: &asked.object, content, digests, labels };
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        let object = store.put(shelf, new, &conditions, &who)?;
        Ok(written(&object, &shelf.bucket.storage_class))
    }))
}

/// Takes a body in, and counts it.
pub(super) async fn received(store: &Store, body: &mut Option<Body>) -> Result<Intake, Stop> {
    let mut intake = Intake::default();
    let ended = intake.read(body.take().unwrap_or_default()).await;
    store.tally.received(intake.length());
    ended?;
    Ok(intake)
}

/// An answer without a body that describes what was written.
fn written(object: &Arc<Object>, storage_class: &str) -> Response {
    let mut response = StatusCode::OK.into_response();
    let headers = response.headers_mut();
    download::describe(headers, object, Api::Xml, storage_class);
    for of_the_body in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::ACCEPT_RANGES] {
        headers.remove(of_the_body);
    }
    response
}

/// Refuses a precondition where the service knows none, instead of going on as if it held.
pub(super) fn without_conditions(head: &Parts) -> Result<(), Refusal> {
    let conditional = |name: &HeaderName| {
        let name = name.as_str();
        name.starts_with("x-goog-if-")
            || ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"].contains(&name)
    };
    match head.headers.keys().find(|name| conditional(name)) {
        Some(name) => Err(Refusal::not_implemented(name.as_str())),
        None if head.method == Method::TRACE => Err(Refusal::method()),
        None => Ok(()),
    }
}
