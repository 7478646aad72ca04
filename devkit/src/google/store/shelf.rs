//! What is stored: buckets with their objects, what was deleted of late, and uploads that are not complete. Pure but for the
//! bytes, which are only passed on.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::bucket::Bucket;
use super::content::{Content, Intake};
use super::digest::{Claimed, Digests};
use super::refusal::Refusal;

/// What a client says of an object beside its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) content_type: Option<String>,
    /// `Cache-Control`, `Content-Disposition`, `Content-Encoding` and `Content-Language`, by header.
    pub(super) headers: BTreeMap<&'static str, String>,
    /// Custom metadata.
    pub(super) metadata: BTreeMap<String, String>,
}

/// A stored object: one generation, which never changes.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) content: Content,
    pub(super) digests: Digests,
    pub(super) labels: Labels,
    /// Number of the object's generation; every write makes a new one.
    pub(super) generation: u64,
    pub(super) created: Timestamp,
}

/// An object that was deleted or overwritten, and can be had back for a while.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    pub(super) object: Arc<Object>,
    pub(super) deleted: Timestamp,
    pub(super) ends: Timestamp,
}

/// A part of a multipart upload.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) content: Content,
    pub(super) digests: Digests,
    pub(super) modified: Timestamp,
}

impl Part {
    /// Without quotes.
    pub(super) fn etag(&self) -> String {
        hex::encode(self.digests.md5.unwrap_or_default())
    }
}

/// A multipart upload that is neither complete nor aborted.
#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) object: String,
    pub(super) labels: Labels,
    pub(super) initiated: Timestamp,
    pub(super) parts: BTreeMap<u16, Part>,
}

/// A resumable upload by the JSON API.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) object: String,
    pub(super) labels: Labels,
    pub(super) claimed: Claimed,
    pub(super) conditions: Conditions,
    /// Who began it: whoever has its address goes on in this name.
    pub(super) account: String,
    pub(super) progress: Progress,
}

#[derive(Debug)]
pub(super) enum Progress {
    Open(Intake),
    /// A request has the bytes in its hands.
    Taken,
    Finished(Arc<Object>),
}

/// What must be so before a call has an effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) generation: Option<u64>,
    pub(super) generation_not: Option<u64>,
    pub(super) metageneration: Option<u64>,
    pub(super) metageneration_not: Option<u64>,
}

/// Every object's: nobody changes what is known of one.
pub(super) const METAGENERATION: u64 = 1;

impl Conditions {
    /// Whether they hold of what is there; generation 0 is nothing.
    pub(super) fn judge(&self, there: Option<&Object>) -> Result<(), Refusal> {
        let generation = there.map_or(0, |object| object.generation);
        let metageneration = there.map_or(0, |_| METAGENERATION);
        let hold = self.generation.is_none_or(|wanted| wanted == generation)
            && self.generation_not.is_none_or(|other| other != generation)
            && self.metageneration.is_none_or(|wanted| wanted == metageneration)
            && self.metageneration_not.is_none_or(|other| other != metageneration);
        if hold { Ok(()) } else { Err(Refusal::condition()) }
    }
}

/// A bucket with all that is in it.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) bucket: Bucket,
    pub(super) objects: BTreeMap<String, Arc<Object>>,
    pub(super) gone: Vec<Gone>,
    /// By upload id.
    pub(super) uploads: BTreeMap<String, Upload>,
    /// By upload id.
    pub(super) sessions: BTreeMap<String, Session>,
}

impl Shelf {
    /// The object of this name, and of this generation where one is named.
    pub(super) fn object(&self, name: &str, generation: Option<u64>) -> Option<&Arc<Object>> {
        self.objects.get(name).filter(|object| generation.is_none_or(|wanted| object.generation == wanted))
    }

    /// Stores an object; what it replaces is gone.
    pub(super) fn put(&mut self, object: Object, now: Timestamp) -> Arc<Object> {
        let object = Arc::new(object);
        if let Some(old) = self.objects.insert(object.name.clone(), Arc::clone(&object)) {
            self.bury(old, now);
        }
        object
    }

    /// Takes an object away; whether it was there.
    pub(super) fn remove(&mut self, name: &str, now: Timestamp) -> bool {
        let old = self.objects.remove(name);
        let was_there = old.is_some();
        if let Some(old) = old {
            self.bury(old, now);
        }
        was_there
    }

    fn bury(&mut self, object: Arc<Object>, now: Timestamp) {
        let kept = SignedDuration::try_from(self.bucket.soft_delete).unwrap_or(SignedDuration::ZERO);
        self.gone.retain(|gone| gone.ends > now);
        if !kept.is_zero() {
            self.gone.push(Gone { object, deleted: now, ends: now + kept });
        }
    }

    /// The upload of this id, which must be this object's.
    pub(super) fn upload(&mut self, object: &str, id: &str) -> Result<&mut Upload, Refusal> {
        self.uploads.get_mut(id).filter(|upload| upload.object == object).ok_or_else(Refusal::no_upload)
    }
}

/// All buckets.
#[derive(Debug, Default)]
pub(super) struct Shelves(pub(super) BTreeMap<String, Shelf>);

impl Shelves {
    pub(super) fn shelf(&mut self, bucket: &str) -> Result<&mut Shelf, Refusal> {
        self.0.get_mut(bucket).ok_or_else(Refusal::no_bucket)
    }

    /// A bucket that nobody declared and a test puts something into: nothing is kept of what it deletes.
    pub(super) fn implied(&mut self, bucket: &str) -> &mut Shelf {
        self.0.entry(bucket.to_owned()).or_insert_with(|| {
            let bucket = Bucket { soft_delete: std::time::Duration::ZERO, ..Bucket::default() };
            Shelf { bucket, ..Shelf::default() }
        })
    }
}
