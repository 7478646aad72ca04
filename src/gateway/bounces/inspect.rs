//! The line `bounces` of `check`: whether returned mails can be read, and whether a person should look at some.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::Maildir;
use super::maildir::names;
use crate::ports::CheckLine;

const NAME: &str = "bounces";
/// Age of a mail in `new` that no running daemon has read.
const WAITS_LONG: Duration = Duration::from_secs(600);

/// The line of `check`. `owner_of`: a directory of the daemon's user (`state.dir`); `now` since 1970.
pub async fn inspect(maildir: &Maildir, owner_of: &Path, now: Duration) -> CheckLine {
    let owner_of = owner_of.to_path_buf();
    let looked = maildir.blocking(move |dir| {
        let (new, unread) = (names(&dir.join("new"))?, names(&dir.join(".unread/new"))?);
        let waits = |name: &_| {
            let came = fs::symlink_metadata(dir.join("new").join(name)).ok()?.modified().ok()?;
            Some(now.saturating_sub(came.duration_since(UNIX_EPOCH).ok()?))
        };
        let longest = new.iter().filter_map(waits).max().unwrap_or_default();
        let stranger = stranger(dir, &new, &owner_of);
        Ok((dir.join("new").is_dir(), new.len(), longest, unread.len(), stranger))
    });
    let (there, new, longest, unread, stranger) = match looked.await {
        Ok(looked) => looked,
        Err(error) => {
            let remedy =
                "run it as the daemon's user or root; runbooks/install.md, \"Returned mails\", sets it up";
            return CheckLine::fail(NAME, error.to_string(), remedy);
        }
    };
    let shown = maildir.path().display();
    if !there {
        return CheckLine::warn(
            NAME,
            format!("there is no Maildir {shown} yet"),
            "the daemon creates it at its start, Postfix with the first mail; runbooks/install.md, \"Returned mails\"",
        );
    }
    if let Some((path, uid, ours)) = stranger {
        return CheckLine::fail(
            NAME,
            format!(
                "{path} belongs to user {uid}, the daemon's files to user {ours}: it cannot read or move them"
            ),
            "let Postfix deliver as the daemon's user (virtual_uid_maps), and `chown --recursive` what is there",
        );
    }
    if longest > WAITS_LONG {
        let minutes = longest.as_secs() / 60;
        return CheckLine::warn(
            NAME,
            format!("{new} mails wait in {shown}/new, the oldest for {minutes} min"),
            "does the daemon run, and may it read and move them? Its journal says why not",
        );
    }
    if unread > 0 {
        return CheckLine::warn(
            NAME,
            format!(
                "{unread} mails in {shown}/.unread were not understood, or are not proved to be about a mail of ours"
            ),
            format!("look at them (`mutt -f {shown}/.unread`), then remove them"),
        );
    }
    CheckLine::ok(NAME, format!("returned mails are read from {shown}, {new} wait"))
}

/// A file with another owner than the daemon's files.
fn stranger(dir: &Path, new: &[std::ffi::OsString], owner_of: &Path) -> Option<(String, u32, u32)> {
    let ours = fs::metadata(owner_of).ok()?.uid();
    let folders = ["new", "cur", ".unread/new"].map(|below| dir.join(below));
    let mails = new.iter().take(100).map(|name| dir.join("new").join(name));
    let mut owners = folders.into_iter().chain(mails).filter_map(|path| {
        let uid = fs::symlink_metadata(&path).ok()?.uid();
        Some((path.display().to_string(), uid, ours))
    });
    owners.find(|(_, uid, ours)| uid != ours)
}
