//! Position of a log file's reader, kept so that it is recovered after rotation, copying and restarts.
//!
//! A file is known by its device and inode, and by its first bytes: an inode is given to another file when the
//! first one has been removed, and a copy (`copytruncate`) has another inode. Only bytes that were read are
//! compared, so that a file that grows stays the same. Nothing is ever written.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::packed::{Source, packed_by};

/// First bytes that are compared.
const HEAD: u64 = 512;
/// First bytes that are enough to recognise a copy: a line's stamp, host, process, and some of its text.
const TELLING: u64 = 48;
/// Time of a file's last write: seconds and nanoseconds.
pub(super) type Written = (i64, i64);

/// Position of a reader in one file (module header).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The file that is followed, as configured.
    pub(super) file: PathBuf,
    dev: u64,
    ino: u64,
    /// Offset up to which everything was read.
    pub(super) offset: u64,
    /// `offset` is inside a line that is too long; the rest of it is skipped.
    pub(super) inside: bool,
    /// Bytes of the head that was read, and their digest.
    head: u64,
    digest: String,
    /// Time of the file's last write, at our last look.
    pub(super) written: Written,
    /// Nothing was after `offset` at that look.
    pub(super) at_end: bool,
}

/// A file beside the followed one, perhaps an earlier one.
#[derive(Debug)]
pub(super) struct Sibling {
    pub(super) path: PathBuf,
    pub(super) written: Written,
    /// The file is packed, and no program here unpacks it.
    pub(super) closed: bool,
    pub(super) empty: bool,
}

pub(super) fn written(meta: &Metadata) -> Written {
    (meta.mtime(), meta.mtime_nsec())
}

impl Position {
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

    /// Says that no file was there when this position was taken.
    pub(super) fn is_before_everything(&self) -> bool {
        self.ino == 0
    }

    pub(super) fn is_inode(&self, meta: &Metadata) -> bool {
        (self.dev, self.ino) == (meta.dev(), meta.ino())
    }

    /// This position, in a copy of the file.
    pub(super) fn within(&self, meta: &Metadata) -> Self {
        Self { dev: meta.dev(), ino: meta.ino(), ..self.clone() }
    }

    /// Says whether `file` is the one that was read up to here, or a copy of it.
    pub(super) fn fits(&self, file: &mut Source, meta: &Metadata) -> io::Result<bool> {
        if self.is_before_everything() || (!file.is_packed() && meta.len() < self.offset) {
            return Ok(false);
        }
        let known = self.head >= TELLING || self.is_inode(meta);
        Ok(known && (self.head == 0 || digest(file, self.head)? == self.digest))
    }

    /// Takes up the bytes read by now.
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
        // Gone meanwhile, or not ours to look at: then reading would fail, too.
        let Ok(meta) = path.metadata() else { continue };
        if meta.is_file() {
            let packed = packed_by(&path);
            // Being packed: until that is done, the other file is whole.
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
