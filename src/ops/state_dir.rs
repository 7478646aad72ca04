//! The state directory (`[state] dir`): files for data that must outlive the process and cannot be in the database.
//!
//! A file exists as a whole or not at all, and a write reported as done is on the disk: if we die in the middle of a write,
//! a `.tmp` is left that nothing reads. Never readable by other users, and always by the directory's owner: the daemon owns
//! the files of root's command line. Bounded by what callers write.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::geteuid;

/// Ending of a file that is being written.
const UNFINISHED: &str = ".tmp";

/// An entry of the directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The entry's name.
    pub name: OsString,
    /// Whether the entry is a plain file: no directory, no link.
    pub is_file: bool,
}

/// A directory for such files. Cheap to clone; touches nothing before the first call.
#[derive(Debug, Clone)]
pub struct StateDir {
    dir: Arc<Path>,
}

impl StateDir {
    /// The directory `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into() }
    }

    /// A subdirectory of this one.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        Self { dir: self.dir.join(name).into() }
    }

    /// The directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Makes sure that files can be written here: creates the directory (0700) and probes.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn prepare(&self) -> io::Result<()> {
        self.blocking(create).await?;
        self.probe().await
    }

    /// Probes whether files can be written here; creates no directory.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn probe(&self) -> io::Result<()> {
        self.blocking(|dir| {
            let probe = dir.join(format!(".probe.{}{UNFINISHED}", std::process::id()));
            open_for_owner(&probe, OpenOptions::new().write(true).create(true).truncate(true))?;
            fs::remove_file(probe)
        })
        .await
    }

    /// Writes a file as a whole, 0600, and waits until the disk has it.
    ///
    /// # Errors
    /// The system's errors; then the file is unchanged.
    pub async fn write(&self, name: &str, content: Vec<u8>) -> io::Result<()> {
        let name = name.to_owned();
        self.blocking(move |dir| {
            create(dir)?;
            let unfinished = dir.join(format!(".{name}.{}{UNFINISHED}", std::process::id()));
            let mut file =
                open_for_owner(&unfinished, OpenOptions::new().write(true).create(true).truncate(true))?;
            file.write_all(&content)?;
            file.sync_all()?;
            fs::rename(&unfinished, dir.join(name))?;
            File::open(dir)?.sync_all()
        })
        .await
    }

    /// Appends a line to a file (0600) and waits until the disk has it. Half a line left by an earlier death is ended first,
    /// so that it spoils nothing but itself.
    ///
    /// # Errors
    /// The system's errors; then a part of the line may be in the file.
    pub async fn append(&self, name: &str, line: String) -> io::Result<()> {
        let name = name.to_owned();
        self.blocking(move |dir| {
            create(dir)?;
            let path = dir.join(name);
            let is_new = !path.exists();
            let mut file = open_for_owner(&path, OpenOptions::new().read(true).append(true).create(true))?;
            let mut whole = Vec::with_capacity(line.len() + 2);
            if !ends_with_line_break(&mut file)? {
                whole.push(b'\n');
            }
            whole.extend(line.into_bytes());
            whole.push(b'\n');
            file.write_all(&whole)?;
            file.sync_all()?;
            if is_new {
                File::open(dir)?.sync_all()?;
            }
            Ok(())
        })
        .await
    }

    /// Returns a file's content, at most `limit` bytes of it; `None` where the file does not exist.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn read(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let name = name.to_owned();
        self.blocking(move |dir| match File::open(dir.join(name)) {
            Ok(file) => {
                let mut content = Vec::new();
                file.take(limit).read_to_end(&mut content)?;
                Ok(Some(content))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    /// Folds a file line by line, one in memory at a time; returns `start` where the file does not exist.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn fold<T: Send + 'static>(
        &self,
        name: &str,
        start: T,
        mut each: impl FnMut(&mut T, &[u8]) + Send + 'static,
    ) -> io::Result<T> {
        let name = name.to_owned();
        self.blocking(move |dir| {
            let file = match File::open(dir.join(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(start),
                Err(error) => return Err(error),
            };
            let (mut lines, mut line, mut folded) = (BufReader::new(file), Vec::new(), start);
            while lines.read_until(b'\n', &mut line)? > 0 {
                each(&mut folded, &line);
                line.clear();
            }
            Ok(folded)
        })
        .await
    }

    /// Returns the entries in order of their names; none where the directory does not exist.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn entries(&self) -> io::Result<Vec<Entry>> {
        self.blocking(move |dir| {
            let found = match fs::read_dir(dir) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let mut entries = Vec::new();
            for entry in found {
                let entry = entry?;
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                entries.push(Entry { name: entry.file_name(), is_file });
            }
            entries.sort();
            Ok(entries)
        })
        .await
    }

    /// Removes a file; a missing one is no error.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn remove(&self, name: &str) -> io::Result<()> {
        let name = name.to_owned();
        self.blocking(move |dir| match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        })
        .await
    }

    /// Renames a file; a missing one is no error.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.blocking(move |dir| match fs::rename(dir.join(from), dir.join(to)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let dir: PathBuf = self.dir.to_path_buf();
        tokio::task::spawn_blocking(move || work(&dir)).await.map_err(io::Error::other)?
    }
}

/// Returns the content of a file that is made once, 0600, and never changed: of `make`, where it does not exist yet. Of
/// two processes at once the first wins, and both return its content; if we die in between, the file is whole or missing.
///
/// # Errors
/// The system's errors.
pub fn made_once(dir: &Path, name: &str, make: impl FnOnce() -> String) -> io::Result<String> {
    let path = dir.join(name);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    create(dir)?;
    let unfinished = dir.join(format!(".{name}.{}{UNFINISHED}", std::process::id()));
    let mut file = open_for_owner(&unfinished, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(make().as_bytes())?;
    file.sync_all()?;
    // Unlike a rename, a link does not replace a file that came meanwhile.
    let linked = fs::hard_link(&unfinished, &path);
    fs::remove_file(&unfinished)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => File::open(dir)?.sync_all()?,
    }
    fs::read_to_string(&path)
}

/// Creates a missing directory, with its parent's owner.
fn create(dir: &Path) -> io::Result<()> {
    let is_new = !dir.exists();
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    match dir.parent().filter(|_| is_new) {
        Some(above) => give(above, &open_itself(dir, OpenOptions::new().read(true))?),
        None => Ok(()),
    }
}

/// Opens a file in a directory that may be another user's: 0600, and owned by the directory's owner if root creates it, for
/// the daemon could neither read nor write a file of root. Links are not followed: the directory's owner could lead root's
/// command line to any file with one.
///
/// # Errors
/// The system's errors; `ELOOP` for a link.
pub fn open_for_owner(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let file = open_itself(path, how.mode(0o600))?;
    give(path.parent().unwrap_or(Path::new("/")), &file)?;
    Ok(file)
}

fn open_itself(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.custom_flags(nix::libc::O_NOFOLLOW).open(path)
}

/// Gives an open file to the owner of `dir`; does nothing unless we are root.
fn give(dir: &Path, file: &File) -> io::Result<()> {
    let owner = fs::metadata(dir)?;
    if geteuid().is_root() && owner.uid() != 0 {
        fchown(file, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

fn ends_with_line_break(file: &mut File) -> io::Result<bool> {
    use std::io::{Seek as _, SeekFrom};
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    async fn names(dir: &StateDir) -> Vec<(String, bool)> {
        let entries = dir.entries().await.expect("listed").into_iter();
        entries.map(|entry| (entry.name.into_string().expect("utf-8"), entry.is_file)).collect()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_once_stays_whoever_comes_first() {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = temporary.path().join("state");
        assert_eq!(made_once(&dir, "key", || "first".to_owned()).expect("made"), "first");
        assert_eq!(made_once(&dir, "key", || panic!("it is there")).expect("read"), "first");
        assert_eq!((mode(&dir), mode(&dir.join("key"))), (0o700, 0o600));
        // Another process is faster, between our look and our link.
        let other = made_once(&dir, "late", || {
            fs::write(dir.join("late"), "theirs").expect("written");
            "ours".to_owned()
        });
        assert_eq!(other.expect("read"), "theirs");
        assert_eq!(fs::read_dir(&dir).expect("listed").count(), 2, "nothing is left behind");
    }

    #[tokio::test]
    async fn files_are_whole_private_and_found_again() {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = StateDir::new(temporary.path()).below("spool");
        assert_eq!(names(&dir).await, [], "no directory yet");
        dir.prepare().await.expect("prepared");
        dir.write("b.json", b"2".to_vec()).await.expect("written");
        dir.write("a.json", b"1".to_vec()).await.expect("written");
        dir.write("a.json", b"11".to_vec()).await.expect("written again");
        fs::create_dir(dir.path().join("c.json")).expect("a directory");
        let file = |name: &str| (name.to_owned(), true);
        assert_eq!(names(&dir).await, [file("a.json"), file("b.json"), ("c.json".to_owned(), false)]);
        fs::remove_dir(dir.path().join("c.json")).expect("removed");
        assert_eq!(dir.read("a.json", 1).await.expect("read"), Some(b"1".to_vec()), "bounded");
        assert_eq!((mode(dir.path()), mode(&dir.path().join("a.json"))), (0o700, 0o600));
        dir.rename("a.json", "a.bad").await.expect("renamed");
        dir.remove("b.json").await.expect("removed");
        dir.remove("b.json").await.expect("gone is gone");
        assert_eq!(names(&dir).await, [file("a.bad")], "nothing unfinished is left");
        assert_eq!(dir.read("b.json", 9).await.expect("read"), None);
    }

    #[tokio::test]
    async fn half_a_line_spoils_only_itself() {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = StateDir::new(temporary.path());
        dir.append("x.jsonl", "one".to_owned()).await.expect("appended");
        let mut file = OpenOptions::new().append(true).open(temporary.path().join("x.jsonl")).expect("open");
        file.write_all(b"tw").expect("half");
        dir.append("x.jsonl", "three".to_owned()).await.expect("appended");
        let read = dir.read("x.jsonl", 99).await.expect("read").expect("there");
        assert_eq!(String::from_utf8(read).expect("text"), "one\ntw\nthree\n");
        assert_eq!(mode(&temporary.path().join("x.jsonl")), 0o600);
    }

    /// A user other than root makes files of its own.
    #[tokio::test]
    async fn what_root_writes_is_the_daemons() {
        let temporary = tempfile::tempdir().expect("a directory");
        if geteuid().is_root() {
            chown(temporary.path(), Some(54_321), Some(54_322)).expect("root may");
        }
        let owner = fs::metadata(temporary.path()).expect("it is there");
        let dir = StateDir::new(temporary.path()).below("spool");
        dir.write("a.json", b"1".to_vec()).await.expect("written");
        dir.append("x.jsonl", "one".to_owned()).await.expect("appended");
        for path in [dir.path().to_owned(), dir.path().join("a.json"), dir.path().join("x.jsonl")] {
            let found = fs::metadata(&path).expect("it is there");
            assert_eq!((found.uid(), found.gid()), (owner.uid(), owner.gid()), "{}", path.display());
        }
    }

    #[tokio::test]
    async fn no_link_leads_out_of_the_directory() {
        let temporary = tempfile::tempdir().expect("a directory");
        let victim = temporary.path().join("shadow");
        fs::write(&victim, "as it was").expect("written");
        let dir = StateDir::new(&temporary.path().join("state"));
        dir.prepare().await.expect("prepared");
        for name in ["x.jsonl".to_owned(), format!(".a.json.{}{UNFINISHED}", std::process::id())] {
            std::os::unix::fs::symlink(&victim, dir.path().join(name)).expect("a link");
        }
        assert!(dir.append("x.jsonl", "one".to_owned()).await.is_err());
        assert!(dir.write("a.json", b"1".to_vec()).await.is_err());
        assert_eq!(fs::read_to_string(&victim).expect("read"), "as it was");
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_written_to_says_so() {
        let temporary = tempfile::tempdir().expect("a directory");
        fs::write(temporary.path().join("taken"), "a file").expect("a file");
        let dir = StateDir::new(temporary.path()).below("taken").below("spool");
        assert!(dir.prepare().await.is_err());
        assert!(dir.write("a", Vec::new()).await.is_err());
    }
}
