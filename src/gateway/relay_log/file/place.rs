//! Where a reader of a log file stands, told so that the place is found again after rotation, copying and restarts.
//!
//! A file is known by its device and inode, and by its first bytes: an inode is given to another file when the first one
//! has been removed, and a copy (`copytruncate`) has another inode. Only bytes that were read are compared, so that a file
//! that grows stays the same. Nothing is ever written.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::packed::{Source, packed_by};

/// As many first bytes are compared.
const HEAD: u64 = 512;
/// So many are enough to know a copy by: a line's stamp, host, process, and some of what it says.
const TELLING: u64 = 48;
/// When a file was last written to: seconds and nanoseconds.
pub(super) type Written = (i64, i64);

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The file that is followed, as configured.
    pub(super) file: PathBuf,
    dev: u64,
    ino: u64,
    /// Everything before was read.
    pub(super) offset: u64,
    /// `offset` is inside of a line that is too long; the rest of it is skipped.
    pub(super) inside: bool,
    /// Bytes of the head that was read, and their digest.
    head: u64,
    digest: String,
    /// When the file had been written to last, as we last looked.
    pub(super) written: Written,
    /// Nothing was behind `offset` then.
    pub(super) at_end: bool,
}

/// A file that stands beside the one that is followed, and may be an earlier one.
#[derive(Debug)]
pub(super) struct Sibling {
    pub(super) path: PathBuf,
    pub(super) written: Written,
    /// It is packed, and nobody here unpacks it.
    pub(super) closed: bool,
    pub(super) empty: bool,
}

pub(super) fn written(meta: &Metadata) -> Written {
    (meta.mtime(), meta.mtime_nsec())
}

impl Place {
    /// The beginning of an opened file.
    pub(super) fn beginning(followed: &Path, meta: &Metadata) -> Self {
        Self {
            file: followed.to_owned(),
            dev: meta.dev(),
            ino: meta.ino(),
            offset: 0,
            inside: false,
            head: 0,
            digest: String::new(),
            written: written(meta),
            at_end: false,
        }
    }

    /// The beginning of a file that is not there yet.
    pub(super) fn before_everything(followed: &Path) -> Self {
        Self {
            file: followed.to_owned(),
            dev: 0,
            ino: 0,
            offset: 0,
            inside: false,
            head: 0,
            digest: String::new(),
            written: (i64::MIN, 0),
            at_end: true,
        }
    }

    /// No file was there when this place was taken.
    pub(super) fn is_before_everything(&self) -> bool {
        self.ino == 0
    }

    pub(super) fn is_inode(&self, meta: &Metadata) -> bool {
        (self.dev, self.ino) == (meta.dev(), meta.ino())
    }

    /// This place, in a copy of the file.
    pub(super) fn within(&self, meta: &Metadata) -> Self {
        Self { dev: meta.dev(), ino: meta.ino(), ..self.clone() }
    }

    /// Whether `file` is the one that was read up to here, or a copy of it.
    pub(super) fn fits(&self, file: &mut Source, meta: &Metadata) -> io::Result<bool> {
        if self.is_before_everything() || (!file.is_packed() && meta.len() < self.offset) {
            return Ok(false);
        }
        let known = self.head >= TELLING || self.is_inode(meta);
        Ok(known && (self.head == 0 || digest(file, self.head)? == self.digest))
    }

    /// Takes up what was read by now.
    pub(super) fn learn(&mut self, file: &mut Source) -> io::Result<()> {
        let head = self.offset.min(HEAD);
        if head > self.head {
            self.digest = digest(file, head)?;
            self.head = head;
        }
        Ok(())
    }
}

fn digest(file: &mut Source, length: u64) -> io::Result<String> {
    let mut head = vec![0; usize::try_from(length.min(HEAD)).unwrap_or_default()];
    let had = file.read_at(&mut head, 0)?;
    // Shorter than it was: another file, or emptied.
    Ok(if had < head.len() { "shorter".to_owned() } else { hex::encode(&Sha256::digest(&head)[..12]) })
}

/// Files beside `followed` whose names begin with its name, the one written to first at the head.
pub(super) fn siblings(followed: &Path) -> io::Result<Vec<Sibling>> {
    let (Some(dir), Some(name)) = (followed.parent(), followed.file_name()) else { return Ok(Vec::new()) };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let name = name.as_encoded_bytes();
    let mut found = Vec::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        let of_it = entry
            .file_name()
            .as_encoded_bytes()
            .strip_prefix(name)
            .is_some_and(|rest| matches!(rest.first(), Some(b'.' | b'-' | b'_' | b'~')));
        if !of_it {
            continue;
        }
        let path = entry.path();
        // Gone meanwhile, or not ours to look at: then it cannot be read either.
        let Ok(meta) = path.metadata() else { continue };
        if meta.is_file() {
            let packed = packed_by(&path);
            // It is being packed: until that is done, the other one is whole.
            if packed.is_some() && path.with_extension("").exists() {
                continue;
            }
            let closed = packed == Some(None);
            found.push(Sibling { path, written: written(&meta), closed, empty: meta.len() == 0 });
        }
    }
    found.sort_by_key(|sibling| sibling.written);
    Ok(found)
}
