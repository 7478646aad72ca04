//! Multipart uploads: begun, filled by whoever has part URLs, listed, completed or aborted.
//!
//! The store's own list says what is there. An upload that is completed or aborted is gone; which of the two, the object
//! tells. A completion overwrites an object of that name and takes no precondition: a staging name is never used twice.

use std::time::Duration;

use reqwest::{Method, header};

use super::call::Call;
use super::fault::{StoreError, classify};
use super::said::{self, Initiated, Part, PartsPage};
use super::{ObjectName, ObjectStore, UploadId, garbled};
use crate::gateway::signed_url::PartRequest;
use crate::ports::SignedLink;

/// Parts on a page; the store gives no more.
const PAGE: &str = "1000";

impl ObjectStore {
    /// Begins an upload. Where the answer is lost, an upload that nobody knows is left to the bucket's lifecycle.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::NoBucket`] where there is none.
    pub async fn initiate(&self, name: &ObjectName, content_type: &str) -> Result<UploadId, StoreError> {
        let request = self.request(Method::POST, self.xml(name, &[("uploads", "")])).body("");
        let body = self.answer(Call::Initiate, request.header(header::CONTENT_TYPE, content_type)).await?;
        let begun: Option<Initiated> = said::document(&body, "InitiateMultipartUploadResult");
        match begun.filter(|begun| !begun.upload_id.is_empty()) {
            Some(begun) => Ok(UploadId::new(begun.upload_id)),
            None => Err(garbled(Call::Initiate)),
        }
    }

    /// The URL that one part is put by, valid from now on. Where `content_md5` is given, whoever puts it must say the same in
    /// `Content-MD5` (BASE64), and the store refuses other bytes.
    ///
    /// # Errors
    /// [`StoreError::Signing`]; that is not about us where the number is none of 1 to 10,000, or the validity none of 1 s to
    /// 7 d.
    pub async fn part_url(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        number: u32,
        content_md5: Option<[u8; 16]>,
        validity: Duration,
    ) -> Result<SignedLink, StoreError> {
        let (bucket, object, upload_id) = (name.bucket(), name.object(), upload.as_str());
        let request = PartRequest { bucket, object, upload_id, number, content_md5, ttl: validity };
        self.0.signer.sign_part(&request).await.map_err(StoreError::Signing)
    }

    /// The parts that the store has, by number; page by page until it has no more.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Gone`] where there is no such upload: completed, aborted, or never there.
    pub async fn list_parts(&self, name: &ObjectName, upload: &UploadId) -> Result<Vec<Part>, StoreError> {
        let call = Call::ListParts;
        let mut parts: Vec<Part> = Vec::new();
        let mut after = 0;
        loop {
            let marker = after.to_string();
            let mut query = vec![("uploadId", upload.as_str()), ("max-parts", PAGE)];
            if after > 0 {
                query.push(("part-number-marker", &marker));
            }
            let body = self.answer(call, self.request(Method::GET, self.xml(name, &query))).await?;
            let page: PartsPage = said::document(&body, "ListPartsResult").ok_or_else(|| garbled(call))?;
            let next = page.next_part_number_marker.filter(|_| page.is_truncated);
            let is_truncated = page.is_truncated;
            parts.extend(page.parts());
            match next {
                _ if !parts.is_sorted_by(|one, other| one.number < other.number) => {
                    return Err(garbled(call));
                }
                None if is_truncated => return Err(garbled(call)),
                None => return Ok(parts),
                // A page that leads nowhere would be asked for without end.
                Some(next) if next <= after => return Err(garbled(call)),
                Some(next) => after = next,
            }
        }
    }

    /// Makes the object of these parts, in this order; parts that are not named go. The answer says nothing of the object's
    /// generation: [`ObjectStore::stat`] does.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Gone`] where there is no such upload, perhaps because an earlier completion's answer was
    /// lost: then the object is there. [`StoreError::Invalid`] where the parts are not those that the store has.
    pub async fn complete(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        parts: &[(u32, String)],
    ) -> Result<(), StoreError> {
        let url = self.xml(name, &[("uploadId", upload.as_str())]);
        let request = self.request(Method::POST, url).body(said::completion(parts));
        let body = self.answer(Call::Complete, request).await?;
        match said::completed(&body) {
            Some(Ok(())) => Ok(()),
            Some(Err(finding)) => Err(classify(Call::Complete, &finding)),
            None => Err(garbled(Call::Complete)),
        }
    }

    /// Gives an upload up, with all its parts; done also where there is none (any more). A part that is on its way meanwhile
    /// may be left: whoever wants to be sure aborts again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn abort(&self, name: &ObjectName, upload: &UploadId) -> Result<(), StoreError> {
        let url = self.xml(name, &[("uploadId", upload.as_str())]);
        match self.answer(Call::Abort, self.request(Method::DELETE, url)).await {
            Ok(_) | Err(StoreError::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
