//! The one classifier of trouble with the relay's log and queue: the event, its object, the advice.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::unistd::{Gid, Group, Uid, User};

use crate::ports::RelayLogError;
use crate::scrub::scrub;

/// Why the relay's queue cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the relay's queue cannot be asked: {0}")]
pub struct RelayQueueError(pub String);

/// Trouble with a file of the log, or its directory.
pub(super) fn file(path: &Path, error: &io::Error) -> RelayLogError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other kind is said in the system's own words")]
    match error.kind() {
        io::ErrorKind::NotFound => missing(path),
        io::ErrorKind::PermissionDenied => RelayLogError(format!(
            "{} may not be read by this user{}; put the user into that group (systemctl edit maple-router: \
             SupplementaryGroups=), then restart the daemon",
            path.display(),
            owner(path)
        )),
        _ => RelayLogError(format!("{}: {error}", path.display())),
    }
}

/// The file does not exist.
pub(super) fn missing(path: &Path) -> RelayLogError {
    RelayLogError(format!(
        "there is no file {}; is it where Postfix's log goes (postconf maillog_file; rsyslog's mail.*)? Where the journal \
         has it, set [relay_log] unit in place of file",
        path.display()
    ))
}

/// journalctl cannot be started.
pub(super) fn no_journalctl(error: &io::Error) -> RelayLogError {
    RelayLogError(format!(
        "journalctl cannot be started ({error}); where Postfix logs to a file, set [relay_log] file in place of unit"
    ))
}

/// journalctl gave up; `said` is what it wrote to its standard error.
pub(super) fn journalctl(said: &str) -> RelayLogError {
    let said = scrub(said.trim());
    if ["insufficient permissions", "Permission denied", "not seeing messages"]
        .iter()
        .any(|sign| said.contains(sign))
    {
        return RelayLogError(format!(
            "the journal may not be read by this user (journalctl: {said}); put the user into group systemd-journal \
             (systemctl edit maple-router: SupplementaryGroups=systemd-journal), then restart the daemon"
        ));
    }
    RelayLogError(format!(
        "journalctl failed: {}; try it by hand: journalctl --unit=...",
        if said.is_empty() { "it said nothing" } else { &said }
    ))
}

/// journalctl neither ends nor says anything.
pub(super) fn silent(patience: Duration) -> RelayLogError {
    RelayLogError(format!(
        "journalctl said nothing for {}; is the disk busy, or a journal file damaged (journalctl --verify)?",
        humantime::format_duration(patience)
    ))
}

/// Trouble with the queue's socket.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other kind is said in the system's own words")]
pub(super) fn socket(path: &Path, error: &io::Error) -> RelayQueueError {
    let path = path.display();
    RelayQueueError(match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{path} may not be used by this user; put the user into group postdrop (systemctl edit maple-router: \
             SupplementaryGroups=postdrop), then restart the daemon"
        ),
        io::ErrorKind::NotFound => format!(
            "there is no socket {path}; is it Postfix's queue_directory (postconf queue_directory) that stands under \
             [relay_log] queue_directory?"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("nobody answers at {path}; is Postfix running (postfix status)?")
        }
        _ => format!("{path}: {error}"),
    })
}

/// The file's readers, in words.
fn owner(path: &Path) -> String {
    let Ok(meta) = path.metadata() else { return String::new() };
    let user = User::from_uid(Uid::from_raw(meta.uid())).ok().flatten().map(|user| user.name);
    let group = Group::from_gid(Gid::from_raw(meta.gid())).ok().flatten().map(|group| group.name);
    format!(
        " (it belongs to user {}, group {}, mode {:04o})",
        user.unwrap_or_else(|| meta.uid().to_string()),
        group.unwrap_or_else(|| meta.gid().to_string()),
        meta.mode() & 0o7777
    )
}
