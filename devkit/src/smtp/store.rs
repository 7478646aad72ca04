//! Mails the scripted SMTP server has received, and its counts. Survives `stop` and `restart`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

/// Extent to which a received mail is kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Every mail with its bytes.
    #[default]
    Mails,
    /// Counts alone, one for each [`Digest`]: for runs of many thousands of mails.
    Digests,
}

/// One mail for which the server was responsible, whether or not the client received the reply.
#[derive(Debug, Clone)]
pub struct Mail {
    /// The queue id named in the reply.
    pub queue_id: String,
    /// Envelope sender.
    pub from: String,
    /// Recipients that were accepted, in order.
    pub recipients: Vec<String>,
    /// The message, dots unstuffed, as it was before the final dot.
    pub raw: Vec<u8>,
    /// Message-ID without angle brackets.
    pub message_id: Option<String>,
    /// `X-Submission-ID`.
    pub submission_id: Option<String>,
    /// Number of the connection it came on, from 1.
    pub connection: u64,
    /// When it was stored.
    pub at: SystemTime,
}

/// Identity of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    /// `X-Submission-ID`, empty where the mail had none.
    pub submission_id: String,
    /// One accepted recipient.
    pub recipient: String,
    /// Message-ID without angle brackets, empty where the mail had none.
    pub message_id: String,
}

/// Counts since the server was first started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// MAIL commands accepted.
    pub transactions: u64,
    /// Mails stored.
    pub mails: u64,
    /// Final dots read, stored or not.
    pub dots: u64,
    /// RSET commands.
    pub rsets: u64,
    /// QUIT commands.
    pub quits: u64,
    /// Times a session had answered everything it had, and waited for its client: the round trips of its dialogue.
    pub rounds: u64,
    /// Times a client wrote on where it had to wait for a reply, and was sent away.
    pub ahead: u64,
}

/// The live form of [`Counters`].
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) connections: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) dots: AtomicU64,
    pub(super) rsets: AtomicU64,
    pub(super) quits: AtomicU64,
    pub(super) rounds: AtomicU64,
    pub(super) ahead: AtomicU64,
}

#[derive(Debug, Default)]
struct Received {
    mails: Vec<Arc<Mail>>,
    digests: HashMap<Digest, u64>,
}

/// Mails, digests and counters of one server.
#[derive(Debug)]
pub(super) struct Store {
    keep: Keep,
    dir: Option<PathBuf>,
    received: Mutex<Received>,
    stored: watch::Sender<u64>,
    next_id: AtomicU64,
    pub(super) tally: Tally,
}

impl Store {
    pub(super) fn new(keep: Keep, dir: Option<PathBuf>) -> Self {
        Self {
            keep,
            dir,
            received: Mutex::default(),
            stored: watch::Sender::new(0),
            next_id: AtomicU64::new(0x4D_4150_4C45),
            tally: Tally::default(),
        }
    }

    /// Ten hexadecimal digits, like a short Postfix queue id.
    pub(super) fn next_queue_id(&self) -> String {
        format!("{:010X}", self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes responsibility for a mail: on disk first (where there is a directory), then in memory, then counted.
    pub(super) fn keep(&self, mail: Mail) -> std::io::Result<()> {
        if let Some(dir) = &self.dir {
            std::fs::write(dir.join(format!("{}.eml", mail.queue_id)), &mail.raw)?;
            let envelope = serde_json::json!({
                "from": mail.from, "recipients": mail.recipients, "message_id": mail.message_id,
                "submission_id": mail.submission_id,
            });
            std::fs::write(dir.join(format!("{}.json", mail.queue_id)), format!("{envelope:#}\n"))?;
        }
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        for recipient in &mail.recipients {
            let digest = Digest {
                submission_id: mail.submission_id.clone().unwrap_or_default(),
                recipient: recipient.clone(),
                message_id: mail.message_id.clone().unwrap_or_default(),
            };
            *received.digests.entry(digest).or_default() += 1;
        }
        if self.keep == Keep::Mails {
            received.mails.push(Arc::new(mail));
        }
        drop(received);
        self.stored.send_modify(|n| *n += 1);
        Ok(())
    }

    pub(super) fn mails(&self) -> Vec<Arc<Mail>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).mails.clone()
    }

    pub(super) fn digests(&self) -> HashMap<Digest, u64> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).digests.clone()
    }

    pub(super) fn forget(&self) {
        *self.received.lock().unwrap_or_else(PoisonError::into_inner) = Received::default();
        self.stored.send_modify(|n| *n = 0);
    }

    /// Follows the number of mails stored.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.stored.subscribe()
    }

    pub(super) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Counters {
            connections: read(&self.tally.connections),
            open: read(&self.tally.open),
            transactions: read(&self.tally.transactions),
            mails: *self.stored.borrow(),
            dots: read(&self.tally.dots),
            rsets: read(&self.tally.rsets),
            quits: read(&self.tally.quits),
            rounds: read(&self.tally.rounds),
            ahead: read(&self.tally.ahead),
        }
    }
}

/// A header's value, unfolded and trimmed. `name` in any case, without the colon.
#[must_use]
pub(super) fn header(raw: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(raw);
    let mut value: Option<String> = None;
    for line in text.split("\r\n").take_while(|line| !line.is_empty()) {
        if let Some(found) = &mut value {
            if !line.starts_with([' ', '\t']) {
                break;
            }
            found.push(' ');
            found.push_str(line.trim());
        } else if let Some((key, rest)) = line.split_once(':')
            && key.eq_ignore_ascii_case(name)
        {
            value = Some(rest.trim().to_owned());
        }
    }
    value.map(|found| found.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::header;

    #[test]
    fn headers_are_unfolded_and_the_body_is_not_searched() {
        let raw =
            b"Subject: a\r\n b\r\nMessage-ID:\r\n <1@x>\r\nX: y\r\n\r\nX-Submission-ID: not a header\r\n";
        assert_eq!(header(raw, "subject").as_deref(), Some("a b"));
        assert_eq!(header(raw, "Message-Id").as_deref(), Some("<1@x>"));
        assert_eq!(header(raw, "X-Submission-ID"), None);
    }
}
