//! A request that was let in and read: what is left to do, and the ways not to get there.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::response::Response;

use super::Store;
use super::refusal::Refusal;
use super::routes::{Api, Asked};
use super::shelf::{Conditions, Labels};

/// What is left to do. All of it happens at once, under the lock of the shelves, or not at all.
pub(super) type Effect = Box<dyn FnOnce(&Store) -> Result<Response, Refusal> + Send>;

/// Why nothing is done.
#[derive(Debug)]
pub(super) enum Stop {
    Refused(Refusal),
    /// The connection broke while its request was read.
    Broken,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// Reads a small body.
pub(super) async fn small(body: &mut Option<Body>) -> Result<Bytes, Stop> {
    let body = body.take().unwrap_or_default();
    axum::body::to_bytes(body, 16 << 20).await.map_err(|_| Stop::Broken)
}

/// The generation that is asked for.
pub(super) fn generation(asked: &Asked, name: &str) -> Result<Option<u64>, Refusal> {
    number(asked.param(name), name)
}

/// A number that is given, or none.
pub(super) fn number<T: std::str::FromStr>(text: Option<&str>, name: &str) -> Result<Option<T>, Refusal> {
    text.map(|text| text.parse().map_err(|_| Refusal::invalid(&format!("Invalid value for {name}."))))
        .transpose()
}

/// What the request wants to hold before it has an effect.
pub(super) fn conditions(asked: &Asked, headers: &HeaderMap) -> Result<Conditions, Refusal> {
    match asked.api {
        Api::Json => json_conditions(asked, "if"),
        Api::Xml => {
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let (generation, metageneration) =
                ("x-goog-if-generation-match", "x-goog-if-metageneration-match");
            Ok(Conditions {
                generation: number(header(generation), generation)?,
                metageneration: number(header(metageneration), metageneration)?,
                ..Conditions::default()
            })
        }
    }
}

/// Those of the JSON API: `if` those of the object itself, `ifSource` those of a rewrite's source.
pub(super) fn json_conditions(asked: &Asked, prefix: &str) -> Result<Conditions, Refusal> {
    let get = |name: &str| {
        let name = format!("{prefix}{name}");
        number(asked.param(&name), &name)
    };
    Ok(Conditions {
        generation: get("GenerationMatch")?,
        generation_not: get("GenerationNotMatch")?,
        metageneration: get("MetagenerationMatch")?,
        metageneration_not: get("MetagenerationNotMatch")?,
    })
}

/// What the headers of an upload say of the object.
pub(super) fn labels(headers: &HeaderMap) -> Labels {
    let text = |name: &str| headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    let known = ["cache-control", "content-disposition", "content-encoding", "content-language"];
    let custom = |name: &str| name.strip_prefix("x-goog-meta-").map(str::to_owned);
    Labels {
        content_type: text("content-type").map(str::to_owned),
        headers: known.iter().filter_map(|name| Some((*name, text(name)?.to_owned()))).collect(),
        metadata: headers
            .keys()
            .filter_map(|name| Some((custom(name.as_str())?, text(name.as_str())?.to_owned())))
            .collect(),
    }
}
