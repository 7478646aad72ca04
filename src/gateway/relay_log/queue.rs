//! Postfix's queue, asked of its own socket (`public/showq`), as `postqueue` does. That program is setgid and
//! cannot be used where no new privileges are given.
//!
//! The answer is a list of attributes for each message, each a name and a value ended by NUL; an empty name ends a list, an
//! empty list ends the answer. Postfix 3.6 and later announce the protocol's name first. showq looks at one queue after the
//! other in the order an incoming message goes through them (incoming, active, deferred, hold), so that a message never
//! tried before is never overlooked; a message that is tried again may be. Files that cleanup has not finished are not
//! listed. The answer is read as a stream: only what was asked for is kept. Asking changes nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::trouble;
pub use super::trouble::RelayQueueError;
use crate::ports::{QueueListing, QueuedMail};

/// Limit of one question; showq opens ten thousand files in a second or two.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes kept of a name or a value.
const KEPT: usize = 1_024;
/// Recipients kept of a message.
const RECIPIENTS: usize = 1_000;

/// Postfix's queue.
#[derive(Debug, Clone)]
pub struct RelayQueue {
    socket: PathBuf,
    patience: Duration,
}

impl RelayQueue {
    /// The queue of the instance with this `queue_directory`. Connects to nothing.
    #[must_use]
    pub fn new(queue_directory: &Path) -> Self {
        Self { socket: queue_directory.join("public/showq"), patience: PATIENCE }
    }

    /// The same, with another limit of time.
    #[must_use]
    pub fn patient_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Looks for messages by their queue ids.
    ///
    /// # Errors
    /// [`RelayQueueError`].
    pub async fn find<I: AsRef<str>>(&self, ids: &[I]) -> Result<QueueListing, RelayQueueError> {
        if ids.is_empty() {
            return Ok(QueueListing { found: Vec::new(), complete: true });
        }
        let mut listing = QueueListing::default();
        let mut outstanding: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        let mut parser = Listing::new(|id| ids.iter().any(|wanted| wanted.as_ref() == id));
        let ended = self
            .ask(&mut parser, |message| {
                let Some(mail) = message else { return true };
                outstanding.retain(|id| *id != mail.id);
                listing.found.push(mail);
                !outstanding.is_empty()
            })
            .await?;
        listing.complete = ended || outstanding.is_empty();
        Ok(listing)
    }

    /// Counts the messages, and says whether counting ended at `limit`.
    ///
    /// # Errors
    /// [`RelayQueueError`].
    pub async fn depth(&self, limit: usize) -> Result<(usize, bool), RelayQueueError> {
        let mut count = 0;
        let mut parser = Listing::new(|_| false);
        let ended = self
            .ask(&mut parser, |_| {
                count += 1;
                count < limit
            })
            .await?;
        if ended || count >= limit {
            return Ok((count, count >= limit));
        }
        Err(RelayQueueError(format!(
            "{}: the answer broke off after {count} messages; see Postfix's log",
            self.socket.display()
        )))
    }

    /// Gives each message to `each` (`None`: one that was not asked for) until that returns false. True: the answer
    /// was read to its end.
    async fn ask<W: Fn(&str) -> bool>(
        &self,
        parser: &mut Listing<W>,
        mut each: impl FnMut(Option<QueuedMail>) -> bool,
    ) -> Result<bool, RelayQueueError> {
        let asked = async {
            let mut stream = UnixStream::connect(&self.socket).await?;
            let mut buffer = vec![0; 16 << 10];
            loop {
                let had = stream.read(&mut buffer).await?;
                if had == 0 {
                    return Ok(false);
                }
                for byte in &buffer[..had] {
                    match parser.take(*byte) {
                        None => {}
                        Some(Parsed::Message(mail)) => {
                            let goes_on = each(mail);
                            if !goes_on {
                                return Ok(false);
                            }
                        }
                        Some(Parsed::End) => return Ok(true),
                    }
                }
            }
        };
        match timeout(self.patience, asked).await {
            Ok(answer) => answer.map_err(|error| trouble::socket(&self.socket, &error)),
            Err(_) => Err(RelayQueueError(format!(
                "{}: no answer within {}; is Postfix busy (postfix status)?",
                self.socket.display(),
                humantime::format_duration(self.patience)
            ))),
        }
    }
}

/// Item that a byte completed.
#[derive(Debug)]
enum Parsed {
    /// A message; `None`: not one that was asked for.
    Message(Option<QueuedMail>),
    /// The whole answer.
    End,
}

/// Reads the answer, byte by byte.
struct Listing<W> {
    wanted: W,
    token: Vec<u8>,
    /// Name whose value comes next.
    name: Option<Vec<u8>>,
    /// The present list has a value.
    started: bool,
    /// The present list is about a message.
    message: bool,
    mail: QueuedMail,
}

impl<W: Fn(&str) -> bool> Listing<W> {
    fn new(wanted: W) -> Self {
        Self { wanted, token: Vec::new(), name: None, started: false, message: false, mail: nothing() }
    }

    fn take(&mut self, byte: u8) -> Option<Parsed> {
        if byte != 0 {
            if self.token.len() < KEPT {
                self.token.push(byte);
            }
            return None;
        }
        match self.name.take() {
            Some(name) => {
                self.value(&name);
                self.token.clear();
                None
            }
            None if self.token.is_empty() => self.end_of_list(),
            None => {
                self.name = Some(std::mem::take(&mut self.token));
                None
            }
        }
    }

    fn value(&mut self, name: &[u8]) {
        self.started = true;
        let value = || String::from_utf8_lossy(&self.token).into_owned();
        match name {
            b"queue_name" => self.mail.queue = value(),
            b"queue_id" => {
                self.mail.id = value();
                self.message = true;
            }
            b"sender" => self.mail.sender = value(),
            b"recipient" if self.mail.recipients.len() < RECIPIENTS && (self.wanted)(&self.mail.id) => {
                self.mail.recipients.push(value());
            }
            // The protocol's name; size, time, reason of the wait.
            _ => {}
        }
    }

    fn end_of_list(&mut self) -> Option<Parsed> {
        if !std::mem::take(&mut self.started) {
            return Some(Parsed::End);
        }
        let mail = std::mem::replace(&mut self.mail, nothing());
        std::mem::take(&mut self.message).then(|| Parsed::Message((self.wanted)(&mail.id).then_some(mail)))
    }
}

fn nothing() -> QueuedMail {
    QueuedMail { id: String::new(), queue: String::new(), sender: String::new(), recipients: Vec::new() }
}
