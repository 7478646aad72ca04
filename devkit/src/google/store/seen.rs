//! What a test sees of the store's state, without a request.

use std::io;

use jiff::Timestamp;

use super::Store;
use super::shelf::{Object, Shelf};

/// An object, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenObject {
    /// Its name in its bucket.
    pub name: String,
    /// Its generation.
    pub generation: u64,
    /// Its length in bytes.
    pub size: u64,
    /// CRC-32C of its bytes.
    pub crc32c: u32,
    /// MD5 of its bytes; none where it was assembled of parts.
    pub md5: Option<[u8; 16]>,
    /// As its writer said.
    pub content_type: Option<String>,
    /// Time of its writing, by the store's clock.
    pub created: Timestamp,
}

/// A part of a multipart upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPart {
    /// From 1.
    pub number: u16,
    /// Its length in bytes.
    pub size: u64,
    /// Without quotes.
    pub etag: String,
}

/// A multipart upload that is neither complete nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenUpload {
    /// The store's id.
    pub id: String,
    /// The object that it would become.
    pub object: String,
    /// Those that are there, by number.
    pub parts: Vec<SeenPart>,
    /// Time of its beginning, by the store's clock.
    pub initiated: Timestamp,
}

impl From<&Object> for SeenObject {
    fn from(object: &Object) -> Self {
        Self {
            name: object.name.clone(),
            generation: object.generation,
            size: object.content.length(),
            crc32c: object.digests.crc32c,
            md5: object.digests.md5,
            content_type: object.labels.content_type.clone(),
            created: object.created,
        }
    }
}

impl Store {
    pub(in crate::google) fn seen(&self, bucket: &str) -> Vec<SeenObject> {
        self.of(bucket, |shelf| shelf.objects.values().map(|object| SeenObject::from(&**object)).collect())
    }

    pub(in crate::google) fn seen_object(&self, bucket: &str, name: &str) -> Option<SeenObject> {
        let mut shelves = self.shelves();
        shelves.shelf(bucket).ok()?.object(name, None).map(|object| SeenObject::from(&**object))
    }

    pub(in crate::google) fn seen_gone(&self, bucket: &str) -> Vec<SeenObject> {
        let now = self.time();
        let there = |shelf: &Shelf| {
            let gone = shelf.gone.iter().filter(|gone| gone.ends > now);
            gone.map(|gone| SeenObject::from(&*gone.object)).collect()
        };
        self.of(bucket, there)
    }

    pub(in crate::google) fn seen_uploads(&self, bucket: &str) -> Vec<SeenUpload> {
        self.of(bucket, |shelf| {
            let uploads = shelf.uploads.iter().map(|(id, upload)| SeenUpload {
                id: id.clone(),
                object: upload.object.clone(),
                initiated: upload.initiated,
                parts: upload
                    .parts
                    .iter()
                    .map(|(number, part)| SeenPart {
                        number: *number,
                        size: part.content.length(),
                        etag: part.etag(),
                    })
                    .collect(),
            });
            uploads.collect()
        })
    }

    /// An object's bytes, all at once.
    pub(in crate::google) fn bytes(&self, bucket: &str, name: &str) -> io::Result<Option<Vec<u8>>> {
        let content = {
            let mut shelves = self.shelves();
            let object = shelves.shelf(bucket).ok().and_then(|shelf| shelf.object(name, None));
            object.map(|object| object.content.clone())
        };
        content.map(|content| content.whole()).transpose()
    }

    fn of<T>(&self, bucket: &str, look: impl FnOnce(&Shelf) -> Vec<T>) -> Vec<T> {
        self.shelves().shelf(bucket).map(|shelf| look(shelf)).unwrap_or_default()
    }
}
