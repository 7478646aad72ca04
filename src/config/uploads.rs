//! `[uploads]`: files that browsers and programs bring straight to the object store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::s;
use super::size::Size;

/// Whose bytes are taken instead of a file that is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dedupe {
    /// Nobody's.
    Off,
    /// Those of the same owner.
    #[default]
    Owner,
    /// Those of anybody, in the same form: whoever has a file learns that somebody else has it.
    Form,
}

section! {
    /// `[uploads.forms.FORM]`: what is other for one form.
    UploadForm {
        /// Longest file.
        max_file: Option<Size> = None,
        /// Media types that are taken.
        types: Option<Vec<String>> = None,
        /// Whose bytes are taken instead ([`Dedupe`]).
        dedupe: Option<Dedupe> = None,
    }
}

section! {
    /// `[uploads]`: where schema `content` is there; without an address there is no room for uploads.
    Uploads {
        /// Address of the API; absent: off.
        listen: Option<String> = None,
        /// Origin under which clients know the API; any other `Host` is refused.
        origin: String = "http://127.0.0.1:9466".to_owned(),
        /// Origins of pages that may use the API from a browser.
        allowed_origins: Vec<String> = Vec::new(),
        /// File holding the key by which the backend makes sessions; absent: systemd's credential `uploads-key`.
        key_file: Option<PathBuf> = None,
        /// Bucket of files that were proven: written once, never again.
        bucket: String = String::new(),
        /// Bucket of what is being brought.
        staging_bucket: String = String::new(),
        /// Longest file.
        max_file: Size = Size::mebibytes(100),
        /// Media types that are taken.
        types: Vec<String> = [
            "application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "text/csv", "application/zip",
            "application/msword", "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "application/vnd.ms-excel", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ].map(str::to_owned).to_vec(),
        /// Life of a session that does not come to its end.
        #[serde(with = "humantime_serde")] session_ttl: Duration = s(86_400),
        /// Life of a signed link by which a part is sent.
        #[serde(with = "humantime_serde")] url_ttl: Duration = s(900),
        /// Time within which a file is attached to a submission.
        #[serde(with = "humantime_serde")] unattached_ttl: Duration = s(48 * 3600),
        /// Open sessions of one owner.
        sessions_per_owner: u32 = 20,
        /// Bytes of the open sessions of one owner.
        bytes_per_owner: Size = Size::mebibytes(1024),
        /// Files that are read and scanned at once.
        verify_slots: usize = 2,
        /// Whose bytes are taken instead ([`Dedupe`]).
        dedupe: Dedupe = Dedupe::Owner,
        /// `[uploads.forms.FORM]`
        forms: BTreeMap<String, UploadForm> = BTreeMap::new(),
    }
}

/// What counts for the uploads of one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRules {
    /// Longest file.
    pub max_file: Size,
    /// Media types that are taken.
    pub types: Vec<String>,
    /// Whose bytes are taken instead.
    pub dedupe: Dedupe,
}

impl Uploads {
    /// What counts for a form.
    #[must_use]
    pub fn rules(&self, form: &str) -> UploadRules {
        let own = self.forms.get(form).cloned().unwrap_or_default();
        UploadRules {
            max_file: own.max_file.unwrap_or(self.max_file),
            types: own.types.unwrap_or_else(|| self.types.clone()),
            dedupe: own.dedupe.unwrap_or(self.dedupe),
        }
    }

    /// The longest file that any form takes.
    #[must_use]
    pub fn longest(&self) -> Size {
        self.forms.values().filter_map(|form| form.max_file).fold(self.max_file, Size::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_what_it_does_not_say_otherwise() {
        let mut uploads = Uploads::default();
        let own = UploadForm { max_file: Some(Size::mebibytes(300)), ..UploadForm::default() };
        uploads.forms.insert("x".to_owned(), own);
        let (x, y) = (uploads.rules("x"), uploads.rules("y"));
        assert_eq!(x.max_file, Size::mebibytes(300));
        assert_eq!(y.max_file, Size::mebibytes(100));
        assert_eq!((x.dedupe, &x.types), (Dedupe::Owner, &y.types));
        assert_eq!(uploads.longest(), Size::mebibytes(300));
    }
}
