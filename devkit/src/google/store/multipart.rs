//! Multipart uploads of the XML API: begun, filled part by part in any order, listed, and completed or aborted.
//!
//! A completion that is repeated finds no upload any more: 404, and the object is there. Guessed: how the service words its
//! refusals, that an ETag is compared without regard to its quotes, that the answer to a completion does not tell the
//! object's generation, and that an empty list of parts is malformed.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::content::Content;
use super::digest::{Claimed, Digests};
use super::effect::{Effect, Stop, labels, number, small};
use super::objects::{received, without_conditions};
use super::refusal::Refusal;
use super::routes::{Api, Asked};
use super::shelf::{Conditions, Part, Upload};
use super::{New, Store, download, xml};

/// The least a part may have that is not the last one.
const LEAST: u64 = 5 << 20;
/// Most parts or uploads in a list.
const PAGE: usize = 1000;

/// `POST ?uploads`
pub(super) fn initiate(asked: &Asked, head: &Parts) -> Result<Effect, Stop> {
    without_conditions(head)?;
    let (asked, labels) = (asked.clone(), labels(&head.headers));
    Ok(Box::new(move |store| {
        let id = store.new_upload_id();
        let upload = Upload {
            object: asked.object.clone(),
            labels,
            initiated: store.time(),
            parts: std::collections::BTreeMap::new(),
        };
        store.shelves().shelf(&asked.bucket)?.uploads.insert(id.clone(), upload);
        let fields = [("Bucket", &asked.bucket), ("Key", &asked.object), ("UploadId", &id)];
        let fields = fields.map(|(name, text)| xml::leaf(name, text)).concat();
        Ok(said(&xml::result("InitiateMultipartUploadResult", &fields)))
    }))
}

/// `PUT ?partNumber&uploadId`: the same part again replaces it.
pub(super) async fn part(
    store: &Store,
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
) -> Result<Effect, Stop> {
    without_conditions(head)?;
    let claimed = Claimed::of(&head.headers)?;
    let range = || Refusal::invalid("Part number must be an integer between 1 and 10000, inclusive.");
    let number = asked.part().ok_or_else(range)?;
    let asked = asked.clone();
    let id = asked.param("uploadId").unwrap_or_default().to_owned();
    store.shelves().shelf(&asked.bucket)?.upload(&asked.object, &id)?;
    let (content, digests) = received(store, body).await?.finish()?;
    claimed.judge(&digests)?;
    Ok(Box::new(move |store| {
        let part = Part { content, digests, modified: store.time() };
        let etag = part.etag();
        store.shelves().shelf(&asked.bucket)?.upload(&asked.object, &id)?.parts.insert(number, part);
        let mut response = StatusCode::OK.into_response();
        download::put(response.headers_mut(), header::ETAG, &format!("\"{etag}\""));
        download::hashes(response.headers_mut(), digests.headers(), Api::Xml);
        Ok(response)
    }))
}

/// `GET ?uploadId`
pub(super) fn list_parts(asked: &Asked, head: &Parts) -> Result<Effect, Stop> {
    without_conditions(head)?;
    let marker: u16 = number(asked.param("part-number-marker"), "part-number-marker")?.unwrap_or_default();
    let most = page(asked, "max-parts")?;
    let asked = asked.clone();
    Ok(Box::new(move |store| {
        let id = asked.param("uploadId").unwrap_or_default();
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        let class = shelf.bucket.storage_class.clone();
        let upload = shelf.upload(&asked.object, id)?;
        let after: Vec<_> = upload.parts.range(marker.saturating_add(1)..).collect();
        let shown = &after[..after.len().min(most)];
        let mut fields = [
            ("Bucket", asked.bucket.as_str()),
            ("Key", &asked.object),
            ("UploadId", id),
            ("StorageClass", &class),
        ]
        .map(|(name, text)| xml::leaf(name, text))
        .concat();
        fields += &xml::leaf("PartNumberMarker", &marker.to_string());
        if let Some((last, _)) = shown.last().filter(|_| shown.len() < after.len()) {
            fields += &xml::leaf("NextPartNumberMarker", &last.to_string());
        }
        fields += &xml::leaf("MaxParts", &most.to_string());
        fields += &xml::leaf("IsTruncated", &(shown.len() < after.len()).to_string());
        for (number, part) in shown {
            let part = [
                ("PartNumber", number.to_string()),
                ("LastModified", part.modified.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()),
                ("ETag", format!("\"{}\"", part.etag())),
                ("Size", part.content.length().to_string()),
            ];
            fields += &xml::element("Part", &part.map(|(name, text)| xml::leaf(name, &text)).concat());
        }
        Ok(said(&xml::result("ListPartsResult", &fields)))
    }))
}

/// `POST ?uploadId`: the named parts, in the order of their numbers, become the object. Parts that are not named go.
pub(super) async fn complete(
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
    who: &str,
) -> Result<Effect, Stop> {
    without_conditions(head)?;
    let text = small(body).await?;
    let text = std::str::from_utf8(&text).map_err(|_| Refusal::malformed_xml("It is not UTF-8."))?;
    let named = xml::parts(text).map_err(Refusal::malformed_xml)?;
    let location = format!("http://{}{}", asked.host, head.uri.path());
    let (asked, who) = (asked.clone(), who.to_owned());
    Ok(Box::new(move |store| {
        let id = asked.param("uploadId").unwrap_or_default();
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        let upload = shelf.upload(&asked.object, id)?;
        let (content, digests) = assembled(upload, &named)?;
        let labels = upload.labels.clone();
        let new = New { bucket: &asked.bucket, name: &asked.object, content, digests, labels };
        let object = store.put(shelf, new, &Conditions::default(), &who)?;
        shelf.uploads.remove(id);
        let etag = download::etag(&object, Api::Xml);
        let fields =
            [("Location", &location), ("Bucket", &asked.bucket), ("Key", &asked.object), ("ETag", &etag)];
        let fields = fields.map(|(name, text)| xml::leaf(name, text)).concat();
        let mut response = said(&xml::result("CompleteMultipartUploadResult", &fields));
        download::hashes(response.headers_mut(), object.digests.headers(), Api::Xml);
        Ok(response)
    }))
}

/// The named parts as one.
fn assembled(upload: &Upload, named: &[(u16, String)]) -> Result<(Content, Digests), Refusal> {
    if named.is_empty() {
        return Err(Refusal::malformed_xml("There is no Part."));
    }
    if named.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(Refusal::part_order());
    }
    let found = named.iter().map(|(number, etag)| {
        let part = upload.parts.get(number).filter(|part| part.etag() == *etag);
        part.map(|part| (*number, part)).ok_or_else(|| Refusal::part(format!("Part {number}, ETag {etag}.")))
    });
    let found: Vec<(u16, &Part)> = found.collect::<Result<_, _>>()?;
    let small = found.iter().rev().skip(1).rev().find(|(_, part)| part.content.length() < LEAST);
    if let Some((number, part)) = small {
        return Err(Refusal::part_small(*number, part.content.length()));
    }
    let crc32c = found.iter().fold(0, |crc, (_, part)| {
        let length = usize::try_from(part.content.length()).unwrap_or(usize::MAX);
        crc32c::crc32c_combine(crc, part.digests.crc32c, length)
    });
    Ok((Content::joined(found.iter().map(|(_, part)| &part.content)), Digests { crc32c, md5: None }))
}

/// `DELETE ?uploadId`
pub(super) fn abort(asked: &Asked, head: &Parts) -> Result<Effect, Stop> {
    without_conditions(head)?;
    let asked = asked.clone();
    Ok(Box::new(move |store| {
        let id = asked.param("uploadId").unwrap_or_default();
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        shelf.upload(&asked.object, id)?;
        shelf.uploads.remove(id);
        Ok(StatusCode::NO_CONTENT.into_response())
    }))
}

/// `GET ?uploads` of a bucket, by object and then by upload id.
pub(super) fn list_uploads(asked: &Asked) -> Result<Effect, Stop> {
    let most = page(asked, "max-uploads")?;
    if asked.param("delimiter").is_some() {
        return Err(Refusal::not_implemented("delimiter").into());
    }
    let asked = asked.clone();
    Ok(Box::new(move |store| {
        let param = |name: &str| asked.param(name).unwrap_or_default();
        let (prefix, key, id) = (param("prefix"), param("key-marker"), param("upload-id-marker"));
        let mut shelves = store.shelves();
        let shelf = shelves.shelf(&asked.bucket)?;
        // Without the second marker all uploads of the first one's object are behind us.
        let behind = |object: &str, upload: &str| {
            object < key || object == key && !key.is_empty() && (id.is_empty() || upload <= id)
        };
        let mut all: Vec<(&str, &str, &Upload)> = shelf
            .uploads
            .iter()
            .map(|(id, upload)| (upload.object.as_str(), id.as_str(), upload))
            .filter(|(object, id, _)| object.starts_with(prefix) && !behind(object, id))
            .collect();
        all.sort_by_key(|(object, id, _)| (*object, *id));
        let shown = &all[..all.len().min(most)];
        let mut fields = [("Bucket", asked.bucket.as_str()), ("KeyMarker", key), ("UploadIdMarker", id)]
            .map(|(name, text)| xml::leaf(name, text))
            .concat();
        if let Some((object, id, _)) = shown.last().filter(|_| shown.len() < all.len()) {
            fields += &xml::leaf("NextKeyMarker", object);
            fields += &xml::leaf("NextUploadIdMarker", id);
        }
        fields += &xml::leaf("MaxUploads", &most.to_string());
        fields += &xml::leaf("IsTruncated", &(shown.len() < all.len()).to_string());
        for (object, id, upload) in shown {
            let initiated = upload.initiated.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
            let upload = [
                ("Key", *object),
                ("UploadId", id),
                ("StorageClass", &shelf.bucket.storage_class),
                ("Initiated", &initiated),
            ];
            fields += &xml::element("Upload", &upload.map(|(name, text)| xml::leaf(name, text)).concat());
        }
        Ok(said(&xml::result("ListMultipartUploadsResult", &fields)))
    }))
}

/// The length of a list's page.
fn page(asked: &Asked, name: &str) -> Result<usize, Refusal> {
    let wanted: Option<usize> = number(asked.param(name), name)?;
    match wanted {
        Some(0) => Err(Refusal::invalid(&format!("{name} must be positive."))),
        wanted => Ok(wanted.unwrap_or(PAGE).min(PAGE)),
    }
}

fn said(document: &str) -> Response {
    let name: HeaderName = header::CONTENT_TYPE;
    (StatusCode::OK, [(name, xml::TYPE)], document.to_owned()).into_response()
}
