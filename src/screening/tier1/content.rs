//! What is screened. `Debug` shows counts, never a name, a path or a text.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Content of a submission, as its profile takes it.
#[derive(Clone)]
pub enum Content {
    /// Fields of a web form (profile `fields`).
    Fields(Fields),
    /// Files of a skill repository (profile `git`).
    Tree(Tree),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields(fields) => fields.fmt(f),
            Self::Tree(tree) => tree.fmt(f),
        }
    }
}

/// Fields of a form, in the form's order.
#[derive(Clone, Default)]
pub struct Fields {
    /// Name and text of each.
    pub values: Vec<(String, String)>,
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fields").field("values", &self.values.len()).finish()
    }
}

/// Files of a repository at one commit. Their order makes no difference.
#[derive(Clone, Default)]
pub struct Tree {
    /// The files, without folders and submodules.
    pub files: Vec<File>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("files", &self.files.len()).finish()
    }
}

/// One file.
#[derive(Clone)]
pub struct File {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    /// Mode in the tree.
    pub mode: Mode,
    /// Content; of a symlink, its target.
    pub bytes: Bytes,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("mode", &self.mode)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// Mode of a file in git's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// 100644.
    Regular,
    /// 100755.
    Executable,
    /// 120000.
    Symlink,
}
