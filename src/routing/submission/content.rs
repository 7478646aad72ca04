//! Source of a mail, besides the plan.

use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use super::grading::Grade;

/// The submission as its readers will see it.
#[derive(Debug, Clone)]
pub struct SubmissionContent {
    /// Id of the form.
    pub form_id: String,
    /// Name of the form, where there is one.
    pub form_name: Option<String>,
    /// Time of submission.
    pub created_at: Timestamp,
    /// Time at which retention empties the submission.
    pub retention_expires_at: Option<Timestamp>,
    /// Fields in their order.
    pub fields: Vec<(String, String)>,
    /// Attachments in their order.
    pub attachments: Vec<Attachment>,
    /// Its final grade, where there is one.
    pub grade: Option<Grade>,
    /// Database time of the read.
    pub now: Timestamp,
}

/// One attachment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Attachment {
    /// Id of the attachment.
    pub id: Uuid,
    /// File name as uploaded.
    #[serde(default)]
    pub file_name: Option<String>,
    /// Content type as recorded.
    #[serde(default)]
    pub content_type: Option<String>,
    /// Size in bytes.
    #[serde(default)]
    pub size_bytes: Option<i64>,
    /// SHA-256 of the bytes, in hexadecimal digits.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Bucket of the object.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Name of the object.
    #[serde(default)]
    pub object: Option<String>,
}
