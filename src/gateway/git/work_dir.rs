//! The directory of one fetch: made for it, watched while it lasts, and removed whatever happens.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::sleep;

use super::fault::{GitError, OurFault};

/// Beginning of the names of such directories.
const PREFIX: &str = "git-fetch-";
/// Pause between two looks at what has been written.
const LOOK: Duration = Duration::from_millis(50);
/// Tries to remove it, and the pause between: processes that were killed may write for another moment.
const REMOVALS: u32 = 200;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// A directory that ends with its fetch. It must be dropped after the processes that write to it are killed.
#[derive(Debug)]
pub(super) struct WorkDir {
    dir: Option<TempDir>,
    /// Without symbolic links: git compares it as text.
    path: PathBuf,
}

impl WorkDir {
    pub(super) fn make(parent: &Path) -> Result<Self, GitError> {
        let made = || {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let path = dir.path().canonicalize()?;
            Ok(Self { dir: Some(dir), path })
        };
        made().map_err(|error: io::Error| fault(&error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns once more than so many bytes were written.
    pub(super) async fn outgrown(&self, most: u64) {
        loop {
            sleep(LOOK).await;
            let path = self.path.clone();
            let size = tokio::task::spawn_blocking(move || size(&path)).await;
            if size.unwrap_or_default() > most {
                return;
            }
        }
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let Some(dir) = self.dir.take() else { return };
        // Once it is gone nothing can be made in it, so the first success is the last one needed.
        for _ in 0..REMOVALS {
            match fs::remove_dir_all(&self.path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.path.exists() => break,
                Err(_) => thread::sleep(REMOVAL_PAUSE),
            }
        }
        drop(dir);
    }
}

/// Removes what an earlier process left when it was killed; their number. The directory must be of this process alone.
pub(super) fn clear(parent: &Path) -> io::Result<usize> {
    let mut cleared = 0;
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
            cleared += 1;
        }
    }
    Ok(cleared)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other kind is one of the directory")]
fn fault(error: &io::Error) -> GitError {
    GitError::Ours(match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OurFault::DiskFull,
        _ => OurFault::Directory,
    })
}

/// Bytes of all files below; files come and go meanwhile.
fn size(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_cleared_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let left = WorkDir::make(parent.path()).unwrap();
        fs::create_dir(parent.path().join("other")).unwrap();
        fs::write(left.path().join("file"), "x").unwrap();
        assert_eq!(size(parent.path()), 1);
        assert_eq!(clear(parent.path()).unwrap(), 1);
        drop(left);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_missing_is_our_fault() {
        let error = WorkDir::make(Path::new("/nonexistent")).expect_err("no directory");
        assert_eq!(error, GitError::Ours(OurFault::Directory));
    }
}
