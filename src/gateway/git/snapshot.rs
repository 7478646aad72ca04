//! What was fetched, and its digest.
//!
//! Pure. The digest is over a manifest and thereby over every byte of every file: two snapshots with the same digest are the
//! same tree. The manifest is, in bytes, the line `maple-router git manifest 1`, then for each entry in the order of the paths'
//! bytes: mode, space, size, space, SHA-256 of the content in hexadecimal (of a submodule: the commit's id), tab, path, NUL.

use std::fmt;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

const HEAD: &[u8] = b"maple-router git manifest 1\n";

/// One state of a repository, or of a part of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Id of the commit.
    pub commit: String,
    /// Name under which the host had it: a branch, a tag, or HEAD.
    pub reference: String,
    /// Entries, in the order of their paths' bytes.
    pub files: Vec<Entry>,
    /// SHA-256 of the manifest.
    pub digest: [u8; 32],
    /// Bytes of all files, of those too that are not kept whole.
    pub total: u64,
}

impl Snapshot {
    pub(super) fn new(commit: String, reference: String, mut files: Vec<Entry>) -> Self {
        files.sort_unstable_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
        let digest = digest(&files);
        let total = files.iter().map(|entry| entry.content.size()).sum();
        Self { commit, reference, files, digest, total }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("files", &self.files.len())
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

/// An entry of the tree that is no tree.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path from the root of the repository: UTF-8 without control characters, `.`, `..` or `.git`.
    pub path: String,
    /// Its kind.
    pub mode: Mode,
    /// What it contains.
    pub content: Content,
}

impl Entry {
    /// The content, where it is kept whole.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Whole { bytes, .. } => Some(bytes),
            Content::TooLarge { .. } | Content::Submodule { .. } => None,
        }
    }

    /// Returns whether it is a link that leads out of the tree, as its text has it: absolute, with more `..` than it is deep,
    /// empty, or too long to be kept.
    #[must_use]
    pub fn leads_out(&self) -> bool {
        if self.mode != Mode::Symlink {
            return false;
        }
        let Some(target) = self.bytes() else { return true };
        if target.is_empty() || target.starts_with(b"/") {
            return true;
        }
        let mut depth = self.path.matches('/').count();
        for name in target.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => match depth.checked_sub(1) {
                    Some(above) => depth = above,
                    None => return true,
                },
                _ => depth += 1,
            }
        }
        false
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("mode", &self.mode)
            .field("size", &self.content.size())
            .finish_non_exhaustive()
    }
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A file.
    File,
    /// A file that may be executed.
    Executable,
    /// A symbolic link; its target is its content, and is never followed.
    Symlink,
    /// A commit of another repository, which is never fetched.
    Submodule,
}

impl Mode {
    /// Mode in git's own words.
    #[must_use]
    pub fn octal(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Submodule => "160000",
        }
    }
}

/// What an entry contains. Attributes, filters and LFS are never applied: these are the bytes of the repository.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    Whole {
        /// Its bytes.
        bytes: Bytes,
        /// Their SHA-256.
        sha256: [u8; 32],
    },
    /// More than is kept: its beginning. It was read to its end.
    TooLarge {
        /// Its first bytes, 4 KiB at most.
        head: Bytes,
        /// Its size.
        size: u64,
        /// SHA-256 of all of it.
        sha256: [u8; 32],
    },
    /// Nothing of this repository.
    Submodule {
        /// Id of a commit elsewhere.
        commit: String,
    },
}

impl Content {
    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Whole { bytes, .. } => bytes.len() as u64,
            Self::TooLarge { size, .. } => *size,
            Self::Submodule { .. } => 0,
        }
    }

    fn pin(&self) -> String {
        match self {
            Self::Whole { sha256, .. } | Self::TooLarge { sha256, .. } => hex::encode(sha256),
            Self::Submodule { commit } => commit.clone(),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("size", &self.size()).finish_non_exhaustive()
    }
}

fn digest(files: &[Entry]) -> [u8; 32] {
    let mut digest = Sha256::new_with_prefix(HEAD);
    for Entry { path, mode, content } in files {
        digest.update(format!("{} {} {}\t{path}\0", mode.octal(), content.size(), content.pin()));
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, mode: Mode, bytes: &[u8]) -> Entry {
        let bytes = Bytes::copy_from_slice(bytes);
        let sha256 = Sha256::digest(&bytes).into();
        Entry { path: path.to_owned(), mode, content: Content::Whole { bytes, sha256 } }
    }

    fn digest_of(files: Vec<Entry>) -> [u8; 32] {
        Snapshot::new(String::new(), String::new(), files).digest
    }

    #[test]
    fn the_digest_is_over_all_and_over_nothing_else() {
        let (a, b) = (entry("a", Mode::File, b"1"), entry("b/c", Mode::File, b"2"));
        let whole = digest_of(vec![a.clone(), b.clone()]);
        assert_eq!(whole, digest_of(vec![b.clone(), a.clone()]));
        for other in [
            vec![a.clone()],
            vec![a.clone(), entry("b/d", Mode::File, b"2")],
            vec![a.clone(), entry("b/c", Mode::Executable, b"2")],
            vec![a, entry("b/c", Mode::File, b"3")],
            vec![],
        ] {
            assert_ne!(whole, digest_of(other));
        }
    }

    #[test]
    fn the_manifest_is_what_its_page_says() {
        let line = "100644 1 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\ta\0";
        let whole = format!("maple-router git manifest 1\n{line}");
        let expected: [u8; 32] = Sha256::digest(whole).into();
        assert_eq!(digest_of(vec![entry("a", Mode::File, b"1")]), expected);
    }

    #[test]
    fn links_that_lead_out_are_told() {
        let out = |path: &str, target: &str| entry(path, Mode::Symlink, target.as_bytes()).leads_out();
        for (path, target) in
            [("a", "/etc/passwd"), ("a", "../x"), ("d/a", "../../x"), ("a", "b/../../x"), ("a", "")]
        {
            assert!(out(path, target), "{path} -> {target}");
        }
        for (path, target) in
            [("a", "b"), ("d/a", "../x"), ("a", "b/.."), ("d/e/a", "../../x/y"), ("a", "b//c")]
        {
            assert!(!out(path, target), "{path} -> {target}");
        }
        assert!(!entry("a", Mode::File, b"/etc/passwd").leads_out());
    }

    #[test]
    fn no_word_of_the_content_is_in_debug() {
        let snapshot = Snapshot::new("c".into(), "r".into(), vec![entry("path", Mode::File, b"planted")]);
        let said = format!("{snapshot:?} {:?} {:?}", snapshot.files, snapshot.files[0].content);
        assert!(!said.contains("planted") && !said.contains("path"), "{said}");
    }
}
