//! Shared parts of this binary's tests: entries in a form that can stand in a table.

use std::net::IpAddr;

use maple_router::gateway::relay_log::line::Reader;
use maple_router::ports::{LogEntry, RelayStatus};

/// A [`LogEntry`] that borrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short<'a> {
    Began(u32),
    Cut(u32),
    /// Number of recipients taken, and whether the client said QUIT; `None` where the line does not say.
    Ended(u32, Option<(u32, bool)>),
    Received(&'a str, u32, Option<IpAddr>),
    PickedUp(&'a str, Option<&'a str>),
    MessageId(&'a str, &'a str),
    Active(&'a str, &'a str, u32),
    Forwarded(&'a str, &'a str, &'a str),
    Lost(Option<u64>),
    Removed(&'a str),
    Expired(&'a str),
    Recipient {
        id: &'a str,
        to: &'a str,
        original: Option<&'a str>,
        status: RelayStatus,
        dsn: &'a str,
        relay: Option<&'a str>,
        text: &'a str,
    },
}

pub(crate) fn short(entry: &LogEntry) -> Short<'_> {
    match entry {
        LogEntry::SessionBegan { session } => Short::Began(*session),
        LogEntry::Cut { session } => Short::Cut(*session),
        LogEntry::SessionEnded { session, summary } => {
            Short::Ended(*session, summary.map(|summary| (summary.taken, summary.quit)))
        }
        LogEntry::Received { id, session, client } => Short::Received(id, *session, *client),
        LogEntry::PickedUp { id, original } => Short::PickedUp(id, original.as_deref()),
        LogEntry::Forwarded { id, to, next } => Short::Forwarded(id, to, next),
        LogEntry::Lost { suppressed } => Short::Lost(*suppressed),
        LogEntry::MessageId { id, message_id } => Short::MessageId(id, message_id),
        LogEntry::Active { id, sender, recipients } => Short::Active(id, sender, *recipients),
        LogEntry::Removed { id } => Short::Removed(id),
        LogEntry::Expired { id, .. } => Short::Expired(id),
        LogEntry::Recipient { id, line } => Short::Recipient {
            id,
            to: &line.to,
            original: line.original.as_deref(),
            status: line.status,
            dsn: line.dsn.as_deref().unwrap_or_default(),
            relay: line.relay.as_deref(),
            text: &line.text,
        },
    }
}

/// The meaning of a file's line, for people.
pub(crate) fn short_text(line: &str) -> Option<String> {
    Reader::new("postfix").text(line.as_bytes()).map(|line| format!("{:?}", short(&line.entry)))
}

/// A line of a file that says that message `n` is gone.
pub(crate) fn removed(n: u32) -> String {
    format!("Nov 22 07:25:43 rl postfix/qmgr[1]: {}: removed\n", id(n))
}

/// The n-th queue id.
pub(crate) fn id(n: u32) -> String {
    format!("A{n:07}")
}
