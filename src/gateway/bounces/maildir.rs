//! The Maildir that returned mails are delivered into: read in `new`, moved away only when the caller has recorded them.
//!
//! If we die in between, a mail is read again, which changes nothing. Understood mails go to `cur`, the others into
//! the folder `.unread` (Maildir++, so that a mail program shows it); neither move ever overwrites anything. The
//! Maildir never follows a link, opens nothing but regular files, and reads no more of one than [`LARGEST`].

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use nix::unistd::geteuid;

use super::report;
use crate::ports::{Returned, ReturnedKind};

/// Bytes of a mail that are read. A report stands at its beginning; the returned mail follows it, whole.
const LARGEST: u64 = 512 * 1024;
/// Names of a directory that one pass looks at; the rest come when there are fewer.
const MOST_NAMES: usize = 20_000;
/// Most mails in `.unread`; the oldest make room for more. A public address draws anything.
pub(super) const MOST_UNREAD: usize = 1_000;
/// Treated mails that are kept, however young; the oldest make room for more.
const MOST_KEPT: usize = 10_000;
/// Flag of a mail that was seen, as mail programs write it.
const SEEN: &str = ":2,S";

/// The Maildir's path. Cheap to clone; touches nothing until asked to.
#[derive(Debug, Clone)]
pub struct Maildir {
    dir: Arc<Path>,
}

/// Why the Maildir cannot be used; the call may be repeated.
#[derive(Debug, thiserror::Error)]
#[error(
    "returned mails in {} cannot be read or moved: {source}; let the daemon's user own the Maildir, and Postfix deliver \
     into it as that user (virtual_uid_maps)", path.display()
)]
pub struct MaildirError {
    /// The file or directory that could not be used.
    path: PathBuf,
    /// The system's words.
    source: io::Error,
}

/// A mail in `new`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMail {
    /// Name of the mail's file, as the delivering program chose it.
    pub name: OsString,
    /// Content of the mail.
    pub mail: Returned,
}

/// Result of a pass over `new`.
#[derive(Debug, Default)]
pub struct Look {
    /// Mails in the order of their names, which begin with the time of delivery.
    pub mails: Vec<NewMail>,
    /// More mails are there.
    pub more: bool,
    /// Some mails could not be read; those stay in `new`.
    pub unreadable: Option<MaildirError>,
}

/// Numbers of removed mails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Mails treated long ago.
    pub old: usize,
    /// Treated mails, the oldest of too many.
    pub treated: usize,
    /// Mails set aside, the oldest of too many.
    pub aside: usize,
}

impl Maildir {
    /// The Maildir `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into() }
    }

    /// The Maildir's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Makes sure that mails can be delivered and treated: creates the missing directories, for the owner of the
    /// directory above alone, whom the relay delivers as.
    ///
    /// # Errors
    /// [`MaildirError`].
    pub async fn prepare(&self) -> Result<(), MaildirError> {
        self.blocking(|dir| {
            for below in ["", "tmp", "new", "cur", ".unread", ".unread/tmp", ".unread/new", ".unread/cur"] {
                let path = dir.join(below);
                create(&path).map_err(at(&path))?;
            }
            Ok(())
        })
        .await
    }

    /// Reads up to `most` of the mails that wait, of those whose names sort after `after`.
    ///
    /// # Errors
    /// [`MaildirError`]: the directory itself cannot be read.
    pub async fn look(&self, after: Option<OsString>, most: usize) -> Result<Look, MaildirError> {
        self.blocking(move |dir| page(&dir.join("new"), after.as_deref(), most)).await
    }

    /// The same as [`Self::look`] for mails that were treated before.
    ///
    /// # Errors
    /// [`MaildirError`]: the directory itself cannot be read.
    pub async fn kept(&self, after: Option<OsString>, most: usize) -> Result<Look, MaildirError> {
        self.blocking(move |dir| page(&dir.join("cur"), after.as_deref(), most)).await
    }

    /// Moves an understood mail, whose consequences are recorded, to `cur`.
    ///
    /// # Errors
    /// [`MaildirError`]: the mail is still in `new`.
    pub async fn treated(&self, name: &OsStr) -> Result<(), MaildirError> {
        let name = name.to_owned();
        self.blocking(move |dir| move_away(&dir.join("new").join(&name), &dir.join("cur"), &name)).await
    }

    /// Moves a mail that a person must look at into `.unread`.
    ///
    /// # Errors
    /// [`MaildirError`]: the mail is still in `new`.
    pub async fn set_aside(&self, name: &OsStr) -> Result<(), MaildirError> {
        let name = name.to_owned();
        self.blocking(move |dir| move_away(&dir.join("new").join(&name), &dir.join(".unread/new"), &name))
            .await
    }

    /// Removes treated mails that came longer than `keep` before `now` (since 1970), and the oldest of those treated or set
    /// aside where there are too many.
    ///
    /// # Errors
    /// [`MaildirError`].
    pub async fn prune(&self, keep: Duration, now: Duration) -> Result<Pruned, MaildirError> {
        self.blocking(move |dir| {
            let (mut old, cur) = (0, dir.join("cur"));
            for name in names(&cur)? {
                let path = cur.join(name);
                let Ok(found) = fs::symlink_metadata(&path) else { continue };
                let came = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                if came.is_some_and(|came| came.saturating_add(keep) < now) {
                    gone_is_fine(fs::remove_file(&path)).map_err(at(&path))?;
                    old += 1;
                }
            }
            let treated = make_room(&cur, MOST_KEPT)?;
            let aside = make_room(&dir.join(".unread/new"), MOST_UNREAD)?;
            Ok(Pruned { old, treated, aside })
        })
        .await
    }

    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, MaildirError> + Send + 'static,
    ) -> Result<T, MaildirError> {
        let dir = self.dir.to_path_buf();
        let failed = |error| MaildirError { path: self.dir.to_path_buf(), source: io::Error::other(error) };
        tokio::task::spawn_blocking(move || work(&dir)).await.map_err(failed)?
    }
}

/// A directory created by root still belongs to its parent's owner.
fn create(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if let Some(above) = path.parent().filter(|_| is_new && geteuid().is_root()) {
        let owner = fs::metadata(above)?;
        lchown(path, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

fn at(path: &Path) -> impl Fn(io::Error) -> MaildirError {
    let path = path.to_path_buf();
    move |source| MaildirError { path: path.clone(), source }
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Names in order; files that begin with a dot are nobody's mail.
pub(super) fn names(dir: &Path) -> Result<Vec<OsString>, MaildirError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(dir)(error)),
    };
    let mut names = Vec::new();
    for entry in entries.take(MOST_NAMES) {
        let name = entry.map_err(at(dir))?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Removes the oldest until no more than `most` are left; returns how many were removed.
fn make_room(dir: &Path, most: usize) -> Result<usize, MaildirError> {
    let mut removed = 0;
    loop {
        // A very long directory shows only some names at once.
        let seen = names(dir)?;
        let Some(many) = seen.len().checked_sub(most).filter(|many| *many > 0) else { return Ok(removed) };
        for name in seen.iter().take(many) {
            let path = dir.join(name);
            gone_is_fine(fs::remove_file(&path)).map_err(at(&path))?;
            removed += 1;
        }
    }
}

fn page(dir: &Path, after: Option<&OsStr>, most: usize) -> Result<Look, MaildirError> {
    let waiting = names(dir)?.into_iter().filter(|name| after.is_none_or(|after| name.as_os_str() > after));
    let mut look = Look::default();
    for name in waiting {
        if look.mails.len() >= most {
            look.more = true;
            break;
        }
        match read(&dir.join(&name)) {
            Ok(Some(mail)) => look.mails.push(NewMail { name, mail }),
            // Another process was faster.
            Ok(None) => {}
            Err(error) => look.unreadable = Some(error),
        }
    }
    Ok(look)
}

/// Reads one mail; `None` where the file is gone. Anything but a regular file is not understood, and never opened
/// for long: a pipe without a writer does not block the daemon.
fn read(path: &Path) -> Result<Option<Returned>, MaildirError> {
    let opened =
        OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A socket, or a device without a driver.
        Err(error) if is_a_link(path) || error.raw_os_error() == Some(nix::libc::ENXIO) => {
            return Ok(Some(no_file()));
        }
        Err(error) => return Err(at(path)(error)),
    };
    if !file.metadata().map_err(at(path))?.is_file() {
        return Ok(Some(no_file()));
    }
    contents(file).map(|raw| Some(understood(raw))).map_err(at(path))
}

fn is_a_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

fn contents(file: File) -> io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    file.take(LARGEST).read_to_end(&mut raw)?;
    Ok(raw)
}

/// A library that panics over one mail must not keep the daemon from the others.
fn understood(raw: Vec<u8>) -> Returned {
    std::panic::catch_unwind(move || report::read(&raw))
        .unwrap_or_else(|_| not_understood("it cannot be taken apart"))
}

fn no_file() -> Returned {
    not_understood("it is no regular file")
}

fn not_understood(why: &'static str) -> Returned {
    Returned { to: Vec::new(), kind: ReturnedKind::NotUnderstood(why), at: None, message_id: None }
}

/// Moves a mail into another directory under its name, without flags it may have, and never over another one.
fn move_away(from: &Path, into: &Path, name: &OsStr) -> Result<(), MaildirError> {
    let mut to = name.to_owned();
    if into.ends_with("cur") {
        to.push(SEEN);
    }
    let mut path = into.join(&to);
    // Names are unique by agreement only.
    for copy in 1..100 {
        if fs::symlink_metadata(&path).is_err() {
            break;
        }
        let mut other = name.to_owned();
        other.push(format!(",{copy}{}", if into.ends_with("cur") { SEEN } else { "" }));
        path = into.join(other);
    }
    gone_is_fine(fs::rename(from, &path)).map_err(at(from))
}
