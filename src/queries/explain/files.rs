//! The files of a submission that came by uploads, and what the scanner says of them. Reads only.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::db::DbError;
use crate::queries::Reader;
use crate::routing::explain::at;
use crate::uploads::store::Verdict;

/// Files that are looked at.
const MOST: usize = 50;

/// One file.
#[derive(Debug, Serialize)]
pub(crate) struct FilePart {
    pub(crate) attachment: Uuid,
    pub(crate) upload: Option<Uuid>,
    pub(crate) verdict: Verdict,
    /// The scanner's name for what it found, or why it could not or did not judge.
    pub(crate) signature: Option<String>,
    /// When the scanner is asked next.
    pub(crate) scan_due_at: Option<Timestamp>,
}

/// The files of these attachments; absent where there are no uploads, or none of them is one.
pub(super) async fn of(reader: &Reader, attachments: &[Uuid]) -> Result<Option<Vec<FilePart>>, DbError> {
    if attachments.is_empty() {
        return Ok(None);
    }
    let Some(uploads) = reader.uploads().await? else { return Ok(None) };
    let asked = &attachments[..attachments.len().min(MOST)];
    let found = uploads.of_attachments(asked).await?;
    let parts: Vec<FilePart> = found
        .into_iter()
        .map(|found| FilePart {
            attachment: found.attachment,
            upload: found.upload,
            verdict: found.verdict,
            signature: found.signature,
            scan_due_at: found.scan_due_at,
        })
        .collect();
    Ok((!parts.is_empty()).then_some(parts))
}

impl FilePart {
    /// What it waits for, where it waits.
    pub(crate) fn waits(&self) -> Option<String> {
        let upload = self.upload.map(|id| format!("upload {id}: ")).unwrap_or_default();
        let why = self.signature.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        match self.verdict {
            Verdict::Clean | Verdict::Infected => None,
            Verdict::Unscanned => {
                let next = self
                    .scan_due_at
                    .map(|due| format!(", asked again from {} on", at(due)))
                    .unwrap_or_default();
                Some(format!("{upload}the scanner has given no verdict{why}{next}"))
            }
            Verdict::Unscannable => {
                Some(format!("{upload}the scanner cannot judge it{why}: rb-011 says what to do"))
            }
        }
    }
}
