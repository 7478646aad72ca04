//! A session of an upload, as its row has it. Pure.
//!
//! Whoever brings a file, and what they call it, is shown by no `Debug`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

/// A text whose `Debug` shows nothing of it.
macro_rules! hidden {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name(pub String);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(<redacted>)"))
            }
        }
    };
}

hidden! {
    /// Whoever brings a file.
    Owner
}
hidden! {
    /// The name of a file.
    FileName
}

/// An upload's columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The form it is for.
    pub form_id: String,
    /// Whoever brings it, as the backend names them. Not for logs.
    pub owner: Owner,
    /// The submission that it belongs to, once it is attached.
    pub submission_id: Option<Uuid>,
    /// The file's name, cleaned. Not for logs.
    pub file_name: FileName,
    /// Media type as declared.
    pub content_type: String,
    /// Length as declared, in bytes.
    pub length: u64,
    /// SHA-256 as declared, in hexadecimal digits.
    pub sha256: Option<String>,
    /// Length of every part but the last, in bytes.
    pub part_size: u64,
    /// SHA-256 of the session's token.
    pub token_sha256: [u8; 32],
    /// The store's name of the multipart upload.
    pub store_upload_id: Option<String>,
    /// The parts and their ETags, in order.
    pub etags: Option<Value>,
    /// The blob that is to be made.
    pub planned_blob: Uuid,
    /// The blob that was made, or found.
    pub blob_id: Option<Uuid>,
    /// Whether an equal blob was there.
    pub deduplicated: bool,
    /// Why it was aborted, as it is answered.
    pub problem: Option<Value>,
    /// When an open session ends by itself.
    pub expires_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Session {
    /// Number of parts.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.length.div_ceil(self.part_size)
    }

    /// Length of part `number`, from 1; 0 where there is no such part.
    #[must_use]
    pub fn part_length(&self, number: u64) -> u64 {
        let before = number.saturating_sub(1).saturating_mul(self.part_size);
        if number == 0 { 0 } else { self.length.saturating_sub(before).min(self.part_size) }
    }

    /// Time left at `now`.
    #[must_use]
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        Duration::try_from(self.expires_at.duration_since(now)).ok().filter(|left| !left.is_zero())
    }

    /// Object of the session's own bytes, in the staging bucket.
    #[must_use]
    pub fn staging_object(id: Uuid, planned_blob: Uuid) -> String {
        // The second part is drawn, and told to nobody who has only the session's id.
        format!("staging/{}/{}", id.simple(), planned_blob.simple())
    }

    /// Object of the blob, in the content bucket.
    #[must_use]
    pub fn blob_object(&self) -> String {
        format!("blobs/{}/{}", self.form_id, self.planned_blob.simple())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An open session of `length` bytes in parts of 8 MiB.
    pub(crate) fn session(length: u64) -> Session {
        Session {
            form_id: "contact".to_owned(),
            owner: Owner("somebody".to_owned()),
            submission_id: None,
            file_name: FileName("a.pdf".to_owned()),
            content_type: "application/pdf".to_owned(),
            length,
            sha256: None,
            part_size: 8 << 20,
            token_sha256: [0; 32],
            store_upload_id: None,
            etags: None,
            planned_blob: Uuid::nil(),
            blob_id: None,
            deduplicated: false,
            problem: None,
            expires_at: Timestamp::UNIX_EPOCH,
            created_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
        }
    }

    #[test]
    fn the_last_part_has_what_is_left() {
        let part = 8 << 20;
        for (length, lengths) in
            [(1, vec![1]), (part, vec![part]), (part + 1, vec![part, 1]), (3 * part, vec![part, part, part])]
        {
            let session = session(length);
            assert_eq!(session.parts(), lengths.len() as u64, "{length}");
            let of = (1..=session.parts()).map(|number| session.part_length(number)).collect::<Vec<_>>();
            assert_eq!(of, lengths, "{length}");
            assert_eq!((session.part_length(0), session.part_length(session.parts() + 1)), (0, 0));
        }
    }

    #[test]
    fn a_name_and_its_owner_are_shown_by_no_debug() {
        let shown = format!("{:?}", session(1));
        assert!(!shown.contains("a.pdf") && !shown.contains("somebody"), "{shown}");
    }
}
