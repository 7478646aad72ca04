//! One line of Postfix's log, read. Pure.
//!
//! Strangers wrote part of each line: a sender's address, a Message-ID header, the reply of the remote host, the
//! name of a client. So everything is taken from its own position, from the left, and nothing is searched for:
//! `status=` counts only where Postfix writes it, after fields that no stranger can end early. A line that is not
//! exactly as Postfix 3.7 writes it is foreign, and says nothing. A writer of the log itself can write anything;
//! the journal and a file's owner decide who that is.

use std::net::IpAddr;

use jiff::Timestamp;

use crate::ports::{LogEntry, LogLine, RecipientLine, RelayStatus, SessionSummary};

/// Bytes of a line that are looked at; Postfix's own lines are shorter than 3 KiB.
pub const LOOKED_AT: usize = 8 * 1024;
/// Characters kept of a reply.
const KEPT: usize = 500;
/// The longest queue id that is believed; Postfix's long ones have under 25 characters.
const LONGEST_ID: usize = 40;

/// Reads the lines of one instance of Postfix, known by its `syslog_name`.
#[derive(Debug, Clone)]
pub struct Reader {
    /// `syslog_name` and a slash.
    head: Vec<u8>,
}

/// Programs of Postfix whose lines say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Smtpd,
    Cleanup,
    Qmgr,
    /// Any program that delivers, or fails to.
    Agent,
    Local,
    Pickup,
    Postsuper,
}

impl Program {
    fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"smtpd" => Some(Self::Smtpd),
            b"cleanup" => Some(Self::Cleanup),
            b"qmgr" | b"oqmgr" | b"nqmgr" => Some(Self::Qmgr),
            b"local" => Some(Self::Local),
            b"pickup" => Some(Self::Pickup),
            b"smtp" | b"lmtp" | b"virtual" | b"pipe" | b"error" | b"retry" | b"discard" | b"bounce"
            | b"defer" => Some(Self::Agent),
            b"postsuper" => Some(Self::Postsuper),
            _ => None,
        }
    }
}

impl Reader {
    /// A reader for the instance with this `syslog_name`.
    #[must_use]
    pub fn new(syslog_name: &str) -> Self {
        Self { head: format!("{syslog_name}/").into_bytes() }
    }

    /// Reads a message of the journal.
    #[must_use]
    pub fn message(&self, identifier: &[u8], pid: Option<u32>, message: &[u8]) -> Option<LogEntry> {
        entry(self.program(identifier)?, pid, bounded(message))
    }

    /// Reads a line of a file, without its newline: as rsyslog writes it with a stamp of RFC 3339 or of RFC 3164,
    /// or as Postfix itself does (`maillog_file`), which is the latter.
    #[must_use]
    pub fn text(&self, line: &[u8]) -> Option<LogLine> {
        let line = bounded(line);
        let (stamp, rest) = stamp(line)?;
        let tag = after(rest, b' ')?;
        let time = || stamp.and_then(|stamp| std::str::from_utf8(stamp).ok()?.parse::<Timestamp>().ok());
        if let Some(entry) = suppressed(tag) {
            return Some(LogLine { at: time(), entry });
        }
        let at = tag.strip_prefix(self.head.as_slice()).and_then(|_| memchr::memchr(b':', tag))?;
        let (tag, message) = (&tag[..at], tag[at + 1..].strip_prefix(b" ")?);
        let open = memchr::memchr(b'[', tag)?;
        let program = self.program(&tag[..open])?;
        let pid = number(tag[open + 1..].strip_suffix(b"]")?)?;
        let entry = entry(program, Some(pid), message)?;
        Some(LogLine { at: time(), entry })
    }

    /// `NAME/program` or `NAME/service/program`.
    fn program(&self, identifier: &[u8]) -> Option<Program> {
        let path = identifier.strip_prefix(self.head.as_slice())?;
        match memchr::memrchr(b'/', path) {
            None => Program::of(path),
            Some(slash) if slash > 0 && memchr::memchr(b'/', path) == Some(slash) => {
                Program::of(&path[slash + 1..])
            }
            Some(_) => None,
        }
    }
}

/// The stamp where it gives the time without a doubt (RFC 3164 knows neither year nor zone), and the rest of the line.
fn stamp(line: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    if line.get(10) == Some(&b'T') && line.get(4) == Some(&b'-') {
        let end = memchr::memchr(b' ', line)?;
        return Some((Some(&line[..end]), &line[end + 1..]));
    }
    let (stamp, rest) = line.split_at_checked(16)?;
    let shape = [(3, b' '), (6, b' '), (9, b':'), (12, b':'), (15, b' ')];
    shape.iter().all(|(index, byte)| stamp[*index] == *byte).then_some((None, rest))
}

fn entry(program: Program, pid: Option<u32>, message: &[u8]) -> Option<LogEntry> {
    if program == Program::Smtpd {
        // Sessions without a message id count, too: `lost connection` and `timeout` are followed by `disconnect` as well.
        if message.starts_with(b"connect from ") {
            return Some(LogEntry::SessionBegan { session: pid? });
        }
        if let Some(rest) = message.strip_prefix(b"disconnect from ") {
            return Some(LogEntry::SessionEnded { session: pid?, summary: summary(rest) });
        }
        // Only here Postfix says how much content it had read: after the dot it says nothing, or END-OF-MESSAGE.
        if [b"lost connection after DATA (".as_slice(), b"timeout after DATA ("]
            .iter()
            .any(|words| message.starts_with(words))
        {
            return Some(LogEntry::Cut { session: pid? });
        }
    }
    let colon = memchr::memchr(b':', &message[..message.len().min(LONGEST_ID + 1)])?;
    let id = queue_id(&message[..colon])?;
    let said = message[colon + 1..].strip_prefix(b" ")?;
    match program {
        Program::Smtpd => {
            let client = client(said.strip_prefix(b"client=")?);
            Some(LogEntry::Received { id: id.to_owned(), session: pid?, client })
        }
        Program::Cleanup => match said.strip_prefix(b"message-id=") {
            Some(value) => Some(LogEntry::MessageId { id: id.to_owned(), message_id: message_id(value)? }),
            None => of_recipient(id, said),
        },
        Program::Qmgr => of_queue(id, said).or_else(|| of_recipient(id, said)),
        Program::Agent => of_recipient(id, said),
        // The mail went through an alias or a .forward and waits under another queue id, with the same Message-ID:
        // its lines give the outcome.
        Program::Local => of_recipient(id, said).and_then(forwarded),
        Program::Pickup => picked_up(id, said),
        Program::Postsuper => match said {
            b"removed" => {
                Some(LogEntry::Expired { id: id.to_owned(), why: "removed from the relay's queue by hand" })
            }
            // The mail comes back under another queue id, with the same Message-ID.
            b"requeued" => Some(LogEntry::Removed { id: id.to_owned() }),
            _ => None,
        },
    }
}

/// A line of qmgr about a message as a whole.
fn of_queue(id: &str, said: &[u8]) -> Option<LogEntry> {
    if said == b"removed" {
        return Some(LogEntry::Removed { id: id.to_owned() });
    }
    let (sender, rest) = address(said.strip_prefix(b"from=")?)?;
    match rest {
        b", status=expired, returned to sender" => {
            Some(LogEntry::Expired { id: id.to_owned(), why: "waited too long in the relay's queue" })
        }
        b", status=force-expired, returned to sender" => {
            Some(LogEntry::Expired { id: id.to_owned(), why: "given up by hand (postsuper)" })
        }
        _ => {
            let rest = digits(rest.strip_prefix(b", size=")?)?;
            let counted = rest.strip_prefix(b", nrcpt=")?;
            let rest = digits(counted)?;
            let recipients = number(&counted[..counted.len() - rest.len()])?;
            let sender = whole(sender).unwrap_or_default();
            (rest == b" (queue active)").then(|| LogEntry::Active { id: id.to_owned(), sender, recipients })
        }
    }
}

fn of_recipient(id: &str, said: &[u8]) -> Option<LogEntry> {
    let (to, rest) = address(said.strip_prefix(b"to=")?)?;
    let (original, rest) = match rest.strip_prefix(b", orig_to=") {
        Some(rest) => address(rest).map(|(original, rest)| (Some(original), rest))?,
        None => (None, rest),
    };
    let (relay, mut rest) = field(rest.strip_prefix(b", relay=")?)?;
    // conn_use, delay, delays, tls: Postfix's own numbers and words.
    let dsn = loop {
        let equals = rest.iter().position(|byte| !byte.is_ascii_lowercase() && *byte != b'_')?;
        let (key, value) = (&rest[..equals], rest[equals..].strip_prefix(b"=")?);
        let (value, behind) = field(value)?;
        rest = behind;
        match key {
            b"dsn" => break value,
            b"status" => return None,
            _ => {}
        }
    };
    let rest = rest.strip_prefix(b"status=")?;
    let (status, said) = rest.split_at(memchr::memchr(b' ', rest).unwrap_or(rest.len()));
    let status = match status {
        b"sent" => RelayStatus::Delivered,
        // SOFTBOUNCE: refused for good, and kept to be tried again all the same (`soft_bounce`).
        b"deferred" | b"SOFTBOUNCE" => RelayStatus::Deferred,
        b"bounced" => RelayStatus::Bounced,
        // `deliverable`, `undeliverable`: no mail, but Postfix's own probe.
        _ => return None,
    };
    let text = said.strip_prefix(b" (").unwrap_or_default();
    let line = RecipientLine {
        to: whole(to)?,
        original: match original {
            Some(original) => Some(whole(original)?),
            None => None,
        },
        status,
        dsn: (!dsn.is_empty()).then(|| clean(dsn)),
        relay: (relay != b"none").then(|| clean(relay)),
        text: clean(text.strip_suffix(b")").unwrap_or(text)),
    };
    Some(LogEntry::Recipient { id: id.to_owned(), line })
}

/// A line of local that has made another message of the mail: only its own words begin like that.
fn forwarded(entry: LogEntry) -> Option<LogEntry> {
    let LogEntry::Recipient { id, line } = entry else { return Some(entry) };
    match line.text.strip_prefix("forwarded as ").filter(|_| line.status == RelayStatus::Delivered) {
        Some(next) => {
            let next = queue_id(next.as_bytes())?.to_owned();
            Some(LogEntry::Forwarded { id, to: line.original.unwrap_or(line.to), next })
        }
        None => Some(LogEntry::Recipient { id, line }),
    }
}

/// `uid=102 from=<it@example.org> orig_id=2D702990324`; the last of it only after `postsuper -r`.
fn picked_up(id: &str, said: &[u8]) -> Option<LogEntry> {
    let (_, rest) = address(digits(said.strip_prefix(b"uid=")?)?.strip_prefix(b" from=")?)?;
    let original = match rest {
        b"" => None,
        _ => Some(queue_id(rest.strip_prefix(b" orig_id=")?)?.to_owned()),
    };
    Some(LogEntry::PickedUp { id: id.to_owned(), original })
}

/// The address in `localhost[127.0.0.1]`, before the port (`smtpd_client_port_logging`) or other fields.
fn client(said: &[u8]) -> Option<IpAddr> {
    let (open, close) = (memchr::memchr(b'[', said)?, memchr::memchr(b']', said)?);
    let behind = &said[close + 1..];
    let port = behind.strip_prefix(b":").and_then(digits).unwrap_or(behind);
    (port.is_empty() || port.starts_with(b", ")).then_some(())?;
    let address: IpAddr = std::str::from_utf8(said.get(open + 1..close)?).ok()?.parse().ok()?;
    Some(address.to_canonical())
}

/// `localhost[127.0.0.1] ehlo=1 mail=3 rcpt=3 data=2/3 commands=9/10`: of each command how many succeeded, and of how many.
fn summary(said: &[u8]) -> Option<SessionSummary> {
    let mut words = std::str::from_utf8(said).ok()?.split(' ').skip(1);
    let mut summary = SessionSummary { taken: 0, quit: false, chunked: false };
    let mut ended = false;
    for word in words.by_ref() {
        let (command, counts) = word.split_once('=')?;
        let (done, tried) = counts.split_once('/').unwrap_or((counts, counts));
        let (done, _): (u32, u32) = (number(done.as_bytes())?, number(tried.as_bytes())?);
        match command {
            "data" => summary.taken = done,
            "quit" => summary.quit = done > 0,
            "bdat" => summary.chunked = true,
            _ => {}
        }
        ended = command == "commands";
    }
    ended.then_some(summary)
}

/// A notice in a file that lines were suppressed before they got there: rsyslog's of its own limits, and journald's
/// of a unit of Postfix. Their process, if named at all, is a process id: each notice counts.
fn suppressed(line: &[u8]) -> Option<LogEntry> {
    let colon = memchr::memchr(b':', line)?;
    let program = &line[..memchr::memchr(b'[', &line[..colon]).unwrap_or(colon)];
    if ![b"rsyslogd".as_slice(), b"systemd-journald"].contains(&program) {
        return None;
    }
    let said = std::str::from_utf8(line[colon + 1..].strip_prefix(b" ")?).ok()?;
    match program {
        b"rsyslogd" if said.contains("due to rate-limiting") => {
            let mut words = said.split(' ');
            let count = words.find_map(|word| word.parse().ok()).filter(|_| said.contains(" lost "));
            Some(LogEntry::Lost { suppressed: count })
        }
        b"systemd-journald" => {
            let (count, unit) = suppressed_by_journald(said)?;
            unit.starts_with("postfix").then_some(LogEntry::Lost { suppressed: Some(count) })
        }
        _ => None,
    }
}

/// `Suppressed 120 messages from postfix@-.service`: the count, and the unit.
pub(super) fn suppressed_by_journald(said: &str) -> Option<(u64, &str)> {
    let (count, unit) = said.strip_prefix("Suppressed ")?.split_once(" messages from ")?;
    Some((count.parse().ok()?, unit))
}

/// A queue id, short (hexadecimal) or long (without vowels); `NOQUEUE` is neither.
fn queue_id(bytes: &[u8]) -> Option<&str> {
    let long = |byte: &u8| byte.is_ascii_alphanumeric() && !b"AEIOUaeiou".contains(byte);
    let short = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
    let is_one =
        (6..=LONGEST_ID).contains(&bytes.len()) && (bytes.iter().all(short) || bytes.iter().all(long));
    if is_one { std::str::from_utf8(bytes).ok() } else { None }
}

/// The content of `<...>`, and the rest. A local part in quotes may contain anything, quoted by backslashes.
fn address(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = bytes.strip_prefix(b"<")?;
    let mut from = 0;
    if inner.first() == Some(&b'"') {
        let mut at = 1;
        loop {
            match inner.get(at)? {
                b'\\' => at += 2,
                b'"' => break,
                _ => at += 1,
            }
        }
        from = at;
    }
    let end = from + memchr::memchr(b'>', &inner[from..])?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// The Message-ID, where the header had one in angle brackets and nothing else.
fn message_id(value: &[u8]) -> Option<String> {
    let value = value.trim_ascii_end();
    let inner = value.strip_prefix(b"<")?.strip_suffix(b">")?;
    if inner.is_empty()
        || value.len() > KEPT
        || !inner.iter().all(|b| b.is_ascii_graphic() && !b"<>".contains(b))
    {
        return None;
    }
    String::from_utf8(value.to_vec()).ok()
}

/// A value up to the comma that ends it, and the rest.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let comma = memchr::memchr(b',', bytes)?;
    Some((&bytes[..comma], bytes[comma + 1..].strip_prefix(b" ")?))
}

/// The rest after some digits.
fn digits(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    (end > 0).then(|| &bytes[end..])
}

fn number(bytes: &[u8]) -> Option<u32> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn after(bytes: &[u8], byte: u8) -> Option<&[u8]> {
    memchr::memchr(byte, bytes).map(|at| &bytes[at + 1..])
}

fn bounded(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(LOOKED_AT)]
}

/// A whole address; an address that is too long is nobody's.
fn whole(address: &[u8]) -> Option<String> {
    (address.len() <= KEPT).then(|| clean(address))
}

/// Text that can be shown and stored: valid, without control characters, not long.
fn clean(bytes: &[u8]) -> String {
    // No character is longer than four bytes.
    String::from_utf8_lossy(&bytes[..bytes.len().min(4 * KEPT)])
        .chars()
        .map(|c| if c.is_control() || is_invisible(c) { '?' } else { c })
        .take(KEPT)
        .collect()
}

/// Says that a character changes the direction of a line or breaks it, and is no control character by name.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
