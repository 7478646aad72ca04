//! Wake-ups by writes to the journal: journald touches a file after each writing, within a quarter of a second.
//!
//! Asking the journal itself costs a process that opens all of its files; looking at their times costs nearly
//! nothing. A wake-up is no proof: only reading is. Blocking.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Journal files, their lengths and times.
pub(super) type Seen = Vec<(PathBuf, u64, Option<SystemTime>)>;

/// Directories of journals: on the disk, and until the next boot.
const OURS: [&str; 2] = ["/var/log/journal", "/run/log/journal"];

/// Looks at the journal files of `dir`, or of this host.
pub(super) fn look(dir: Option<&Path>) -> Seen {
    let mut seen = Vec::new();
    match dir {
        Some(dir) => files(dir, true, &mut seen),
        None => OURS.iter().for_each(|dir| files(Path::new(dir), true, &mut seen)),
    }
    seen.sort();
    seen
}

/// A directory that cannot be read adds nothing; reading the journal says why.
fn files(dir: &Path, deeper: bool, seen: &mut Seen) {
    for entry in dir.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = path.metadata() else { continue };
        if meta.is_dir() && deeper {
            files(&path, false, seen);
        } else if meta.is_file() {
            seen.push((path, meta.len(), meta.modified().ok()));
        }
    }
}
