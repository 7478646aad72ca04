//! Names that are keys to content: `Debug` shows none of them. Pure.

use std::fmt;

use super::fault::StoreError;
use crate::gateway::signed_url::name_fault;

/// An object's name in its bucket.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectName {
    bucket: String,
    object: String,
}

impl ObjectName {
    /// A name that an object can have and a URL can say.
    ///
    /// # Errors
    /// [`StoreError::Name`]: Google's rules for names do not allow it, or it has a part `.` or `..`.
    pub fn new(bucket: impl Into<String>, object: impl Into<String>) -> Result<Self, StoreError> {
        let (bucket, object) = (bucket.into(), object.into());
        match name_fault(&bucket, &object) {
            Some(why) => Err(StoreError::Name(why)),
            None => Ok(Self { bucket, object }),
        }
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The object's name.
    #[must_use]
    pub fn object(&self) -> &str {
        &self.object
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectName(<redacted>)")
    }
}

/// The store's id of a multipart upload.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UploadId(String);

impl UploadId {
    /// An id that the store gave, perhaps long ago.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadId(<redacted>)")
    }
}
