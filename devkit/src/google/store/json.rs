//! The JSON API's lists, metadata and rewrites.
//!
//! Versions, delimiters and partial responses (`fields`) are not spoken: `versions` and `fields` are passed over, a
//! delimiter is refused. A rewrite is done at once, unless a test wants rounds; its token says how far it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::digest::Claimed;
use super::effect::{Effect, Stop, generation, json_conditions, number, small};
use super::refusal::Refusal;
use super::routes::{Api, Asked};
use super::shelf::{Gone, Labels, METAGENERATION, Object};
use super::{New, Store, download, uri};
use crate::google::accounts::Right;

/// Longest page of a list.
const PAGE: usize = 1000;
/// Headers that the JSON API has names of its own for.
pub(super) const NAMES: [(&str, &str); 4] = [
    ("cache-control", "cacheControl"),
    ("content-disposition", "contentDisposition"),
    ("content-encoding", "contentEncoding"),
    ("content-language", "contentLanguage"),
];

/// An object's resource, with addresses at the host that was asked.
pub(super) fn resource(object: &Object, host: &str, bucket: &str, storage_class: &str) -> Value {
    let (name, generation) = (&object.name, object.generation);
    let path = format!("{bucket}/o/{}", uri::encode(name.as_bytes(), false));
    let time = object.created.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    let mut resource = json!({
        "kind": "storage#object",
        "id": format!("{bucket}/{name}/{generation}"),
        "selfLink": format!("http://{host}/storage/v1/b/{path}"),
        "mediaLink": format!("http://{host}/download/storage/v1/b/{path}?generation={generation}&alt=media"),
        "name": name,
        "bucket": bucket,
        "generation": generation.to_string(),
        "metageneration": METAGENERATION.to_string(),
        "contentType": object.labels.content_type.as_deref().unwrap_or("application/octet-stream"),
        "storageClass": storage_class,
        "size": object.content.length().to_string(),
        "crc32c": object.digests.crc32c_text(),
        "etag": download::etag(object, Api::Json),
        "timeCreated": time, "updated": time, "timeFinalized": time, "timeStorageClassUpdated": time,
    });
    if let Some(md5) = object.digests.md5_text() {
        resource["md5Hash"] = md5.into();
    }
    for (header, name) in NAMES {
        if let Some(value) = object.labels.headers.get(header) {
            resource[name] = value.as_str().into();
        }
    }
    if !object.labels.metadata.is_empty() {
        resource["metadata"] = json!(object.labels.metadata);
    }
    resource
}

/// What a resource that a client sends says of an object, over what is known already, and the digests that it names.
pub(super) fn read_labels(
    sent: &Map<String, Value>,
    mut known: Labels,
) -> Result<(Labels, Claimed), Refusal> {
    let text = |name: &str| sent.get(name).and_then(Value::as_str);
    if let Some(content_type) = text("contentType") {
        known.content_type = Some(content_type.to_owned());
    }
    for (header, name) in NAMES {
        if let Some(value) = text(name) {
            known.headers.insert(header, value.to_owned());
        }
    }
    if let Some(metadata) = sent.get("metadata") {
        let metadata: BTreeMap<String, String> =
            serde_json::from_value(metadata.clone()).map_err(|_| Refusal::invalid("Invalid metadata."))?;
        known.metadata = metadata;
    }
    let mut claimed = Claimed::default();
    for (field, name) in [("crc32c", "crc32c"), ("md5Hash", "md5")] {
        if let Some(value) = text(field) {
            claimed.say(name, value, field)?;
        }
    }
    Ok((known, claimed))
}

/// `GET b/B/o/O`
pub(super) fn metadata(asked: &Asked, who: &str) -> Result<Effect, Stop> {
    let (generation, conditions) = (generation(asked, "generation")?, json_conditions(asked, "if")?);
    let (asked, who) = (asked.clone(), who.to_owned());
    Ok(Box::new(move |store| {
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        if soft(&asked) {
            let gone = shelf
                .gone
                .iter()
                .find(|gone| gone.object.name == asked.object && Some(gone.object.generation) == generation);
            let gone =
                gone.ok_or_else(|| store.missing(&who, "storage.objects.get", &asked.bucket, &asked.object))?;
            return Ok(said(&of_gone(gone, &asked.host, &asked.bucket, &shelf.bucket.storage_class)));
        }
        let object = shelf.object(&asked.object, generation);
        let object =
            object.ok_or_else(|| store.missing(&who, "storage.objects.get", &asked.bucket, &asked.object))?;
        conditions.judge(Some(object))?;
        Ok(said(&resource(object, &asked.host, &asked.bucket, &shelf.bucket.storage_class)))
    }))
}

/// Whether what is gone is asked for.
fn soft(asked: &Asked) -> bool {
    asked.param("softDeleted").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn of_gone(gone: &Gone, host: &str, bucket: &str, storage_class: &str) -> Value {
    let mut shown = resource(&gone.object, host, bucket, storage_class);
    shown["softDeleteTime"] = gone.deleted.to_string().into();
    shown["hardDeleteTime"] = gone.ends.to_string().into();
    shown
}

/// `GET b/B`
pub(super) fn bucket(asked: &Asked) -> Result<Effect, Stop> {
    let name = asked.bucket.clone();
    Ok(Box::new(move |store| Ok(said(&store.shelves().shelf(&name)?.bucket.resource(&name)))))
}

/// `GET b/B/o`, by name; what is gone as well where `softDeleted` asks for that alone.
pub(super) fn list(asked: &Asked) -> Result<Effect, Stop> {
    let most: usize = number(asked.param("maxResults"), "maxResults")?.unwrap_or(PAGE);
    if most == 0 {
        return Err(Refusal::invalid("Invalid value for maxResults.").into());
    }
    if asked.param("delimiter").is_some_and(|delimiter| !delimiter.is_empty()) {
        return Err(Refusal::not_implemented("delimiter").into());
    }
    let after = asked.param("pageToken").filter(|token| !token.is_empty()).map(opened).transpose()?;
    let asked = asked.clone();
    Ok(Box::new(move |store| {
        let (most, now) = (most.min(PAGE), store.time());
        let prefix = asked.param("prefix").unwrap_or_default();
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        let class = &shelf.bucket.storage_class;
        let mut all: Vec<(&str, u64, Value)> = Vec::new();
        if soft(&asked) {
            let there =
                shelf.gone.iter().filter(|gone| gone.ends > now && gone.object.name.starts_with(prefix));
            all.extend(there.map(|gone| {
                let object = &gone.object;
                (object.name.as_str(), object.generation, of_gone(gone, &asked.host, &asked.bucket, class))
            }));
            all.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
            all.retain(|(name, generation, _)| {
                after.as_ref().is_none_or(|(n, g)| (*name, *generation) > (n, *g))
            });
        } else {
            // No more of them are described than the page and one beyond it.
            let from = after.as_ref().map_or(prefix, |(name, _)| name.as_str());
            let there = shelf.objects.range(from.to_owned()..).map(|(_, object)| object);
            let there = there.take_while(|object| object.name.starts_with(prefix));
            let there = there.filter(|object| after.as_ref().is_none_or(|(name, _)| object.name > *name));
            all.extend(there.take(most + 1).map(|object| {
                (object.name.as_str(), object.generation, resource(object, &asked.host, &asked.bucket, class))
            }));
        }
        let mut page = json!({"kind": "storage#objects"});
        if all.len() > most {
            let (name, generation, _) = &all[most - 1];
            page["nextPageToken"] = BASE64.encode(format!("{generation}:{name}")).into();
        }
        all.truncate(most);
        if !all.is_empty() {
            page["items"] = all.into_iter().map(|(_, _, item)| item).collect();
        }
        Ok(said(&page))
    }))
}

/// Name and generation behind a page's token.
fn opened(token: &str) -> Result<(String, u64), Refusal> {
    let text = BASE64.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = text.as_deref().and_then(|text| text.split_once(':'));
    let pair = pair.and_then(|(generation, name)| Some((name.to_owned(), generation.parse().ok()?)));
    pair.ok_or_else(|| Refusal::invalid("Invalid pageToken."))
}

/// `POST b/B/o/O/rewriteTo/b/B2/o/O2`
pub(super) async fn rewrite(
    store: &Store,
    asked: &Asked,
    body: &mut Option<Body>,
    caller: &Caller,
) -> Result<Effect, Stop> {
    let (bucket_to, object_to) = asked.to.clone().unwrap_or_default();
    let who = caller.may(store, Api::Json, &bucket_to, Right::Create, "storage.objects.create")?.to_owned();
    let generation = generation(asked, "sourceGeneration")?;
    let (there, source) = (json_conditions(asked, "if")?, json_conditions(asked, "ifSource")?);
    let sent = json_body(&small(body).await?)?;
    let asked = asked.clone();
    Ok(Box::new(move |store| {
        let mut shelves = store.shelves();
        let object = shelves.shelf(&asked.bucket)?.object(&asked.object, generation).map(Arc::clone);
        let object =
            object.ok_or_else(|| store.missing(&who, "storage.objects.get", &asked.bucket, &asked.object))?;
        source.judge(Some(&object))?;
        let (labels, _) = read_labels(&sent, object.labels.clone())?;
        let shelf = shelves.shelf(&bucket_to)?;
        let of = format!("{}:{bucket_to}/{object_to}", object.generation);
        let done = copied(&asked, &of)?.saturating_add(store.rewrite_round.load(Ordering::Relaxed));
        if done < object.content.length() {
            there.judge(shelf.object(&object_to, None).map(|object| &**object))?;
            return Ok(said(&json!({
                "kind": "storage#rewriteResponse", "totalBytesRewritten": done.to_string(), "done": false,
                "objectSize": object.content.length().to_string(),
                "rewriteToken": BASE64.encode(format!("{done}:{of}")),
            })));
        }
        let (content, digests) = (object.content.clone(), object.digests);
        let new = New { bucket: &bucket_to, name: &object_to, content, digests, labels };
        let written = store.put(shelf, new, &there, &who)?;
        let length = object.content.length().to_string();
        Ok(said(&json!({
            "kind": "storage#rewriteResponse", "totalBytesRewritten": length, "objectSize": length, "done": true,
            "resource": resource(&written, &asked.host, &bucket_to, &shelf.bucket.storage_class),
        })))
    }))
}

/// How many bytes an earlier round has copied of this generation to this destination.
fn copied(asked: &Asked, of: &str) -> Result<u64, Refusal> {
    let Some(token) = asked.param("rewriteToken") else { return Ok(0) };
    let text = BASE64.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let done = text.as_deref().and_then(|text| text.split_once(':')).filter(|(_, what)| *what == of);
    let done = done.and_then(|(done, _)| done.parse().ok());
    done.ok_or_else(|| Refusal::invalid("Invalid rewriteToken."))
}

/// `GET b/B/iam/testPermissions`: those of the named permissions that the caller has. The question needs none.
pub(super) fn permissions(asked: &Asked, caller: Caller) -> Result<Effect, Stop> {
    let Caller::Account(email) = caller else {
        return Err(Refusal::anonymous("storage.buckets.testIamPermissions", Api::Json).into());
    };
    let asked = asked.clone();
    Ok(Box::new(move |store| {
        store.shelves().shelf(&asked.bucket)?;
        let held =
            |name: &&str| right(name).is_some_and(|right| store.accounts.may(&email, &asked.bucket, right));
        let held: Vec<&str> = asked.params("permissions").filter(held).collect();
        let mut answer = json!({"kind": "storage#testIamPermissionsResponse"});
        if !held.is_empty() {
            answer["permissions"] = json!(held);
        }
        Ok(said(&answer))
    }))
}

/// The right that a permission is part of.
fn right(permission: &str) -> Option<Right> {
    Some(match permission {
        "storage.objects.create"
        | "storage.multipartUploads.create"
        | "storage.multipartUploads.listParts"
        | "storage.multipartUploads.abort" => Right::Create,
        "storage.objects.get" => Right::Get,
        "storage.objects.delete" => Right::Delete,
        "storage.objects.list" | "storage.multipartUploads.list" => Right::List,
        "storage.buckets.get" => Right::Inspect,
        _ => return None,
    })
}

/// A body that is an object, or nothing.
pub(super) fn json_body(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(bytes)
        .map_err(|_| Refusal::new(400, "InvalidArgument", "parseError", "Parse Error"))
}

pub(super) fn said(body: &Value) -> Response {
    axum::Json(body).into_response()
}
