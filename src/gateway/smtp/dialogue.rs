//! One connection to the relay, from TCP connect to QUIT: the steps of the dialogue, each with its time limit.
//!
//! Dropping a dialogue at any point breaks it off there; before the final dot that means the relay forgets the
//! message. A dialogue never retries and never decides an outcome: it only reports the reply, and at which stage.

use std::convert::Infallible;
use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::SmtpSettings;
use super::classify::{ReplyEffect, StageReply, classify};
use super::dial::dial;
use super::patience::{Patience, human};
use super::replies::Said;
use super::reply::{join, remark};
use super::stream::{Stream, Trouble, Unwritten};
use super::transparency::{Data, Lead, lines};
use crate::ports::{BASE64_LINE, Fault, Outcome, Spooled, Stage};

/// Time limit of a QUIT; a later answer is not awaited.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a message with its final dot up to which both are one write, in one piece where the system has room for it.
const ONE_WRITE: usize = 64 * 1024;
/// Bytes of a file that are encoded and written at a time: whole lines.
const FILE_CHUNK: usize = 1024 * BASE64_LINE;
/// Bytes of the longest group that is one write: the replies to a longer one could fill the sockets while commands
/// are still written, and each side would wait for the other.
const LONGEST_GROUP: usize = 16 * 1024;

/// Extensions that the relay offered in its EHLO reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Offers {
    pub(super) size: bool,
    pub(super) utf8: bool,
    pub(super) eight_bit: bool,
    pub(super) pipelining: bool,
}

/// Replies that followed the answer to MAIL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// The answers to all that was asked; the relay waits for a command.
    InStep,
    /// The connection's end.
    End,
    /// An answer to something else: so the previous one may have been, too.
    Astray,
}

/// A connection past EHLO.
pub(super) struct Dialogue {
    stream: Stream,
    /// Commands being written; kept, so that the buffer is allocated once.
    outbox: Vec<u8>,
    /// Commands put together whose replies have not been asked for.
    owed: usize,
    pub(super) offers: Offers,
    /// The banner's text.
    pub(super) banner: String,
    pub(super) address: SocketAddr,
}

impl Dialogue {
    /// Connects, reads the banner, says EHLO.
    pub(super) async fn open(settings: &SmtpSettings, patience: &Patience) -> Result<Self, Fault> {
        let limit = settings.connect_timeout;
        let tcp = match patience.allow(limit, dial(settings)).await {
            Some(dialled) => dialled,
            None => Err(format!("no connection to {} within {}", settings.relay(), human(limit))),
        };
        let tcp =
            tcp.map_err(|what| Fault { stage: Stage::Connect, reply: remark(&what), about_us: true })?;
        let address = tcp.peer_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let mut dialogue = Self {
            stream: Stream::new(tcp),
            outbox: Vec::new(),
            owed: 0,
            offers: Offers::default(),
            banner: String::new(),
            address,
        };
        let limit = settings.command_timeout;
        let welcome = dialogue.hear(Stage::Banner, limit, patience).await;
        let welcome = greeted(Stage::Banner, welcome)?;
        dialogue.banner = welcome.lines().next().unwrap_or_default().trim().to_owned();
        dialogue.say(format_args!("EHLO {}", settings.hello_name));
        let offered = dialogue.hear(Stage::Ehlo, limit, patience).await;
        let was_said = offered.is_ok();
        match greeted(Stage::Ehlo, offered) {
            Ok(offered) => dialogue.offers = offers(&offered),
            Err(fault) => {
                if was_said {
                    dialogue.quit().await;
                }
                return Err(fault);
            }
        }
        Ok(dialogue)
    }

    /// Puts MAIL, the RCPTs and DATA together, to be written as one (RFC 2920) when the first of them is asked.
    /// Then every one of them must be asked, in this order. Returns false, and puts nothing together, where the
    /// relay does not offer PIPELINING, or the group would be too long.
    pub(super) fn put_together<'r>(
        &mut self,
        mail: &str,
        recipients: impl Iterator<Item = &'r String>,
    ) -> bool {
        if !self.offers.pipelining {
            return false;
        }
        self.say(mail);
        self.owed = 2;
        for recipient in recipients {
            self.say(Rcpt(recipient));
            self.owed += 1;
            if self.outbox.len() > LONGEST_GROUP {
                self.outbox.clear();
                self.owed = 0;
                return false;
            }
        }
        self.say("DATA");
        true
    }

    /// Every command has its reply.
    pub(super) fn is_settled(&self) -> bool {
        self.owed == 0
    }

    /// Reads the replies owed to a group whose MAIL was refused. The commands after that MAIL can only be refused:
    /// a relay that grants one is out of step, or waits for a message.
    pub(super) async fn hear_out(&mut self, limit: Duration, patience: &Patience) -> Behind {
        while !self.is_settled() {
            match self.ask(Stage::Data, "", limit, patience).await {
                StageReply::Said { code: 421, .. } | StageReply::Broken(_) => return Behind::End,
                StageReply::Said { code: 400..600, .. } => {}
                StageReply::Said { .. } | StageReply::Astray(_) => return Behind::Astray,
            }
        }
        Behind::InStep
    }

    /// Gives one command (without line end), unless the group it belongs to is written already, and reads its reply.
    pub(super) async fn ask(
        &mut self,
        stage: Stage,
        command: impl fmt::Display,
        limit: Duration,
        patience: &Patience,
    ) -> StageReply {
        if self.is_settled() {
            self.say(command);
        } else {
            self.owed -= 1;
        }
        match self.hear(stage, limit, patience).await {
            Ok(said) => StageReply::Said { code: said.code, text: join(said.code, said.lines()) },
            Err(broken) => broken,
        }
    }

    /// Puts a command into the outbox, which is written when its reply is waited for.
    fn say(&mut self, command: impl fmt::Display) {
        // Writing to memory cannot fail.
        drop(write!(self.outbox, "{command}\r\n"));
    }

    /// Writes the outbox, and reads a reply.
    async fn hear(&mut self, stage: Stage, limit: Duration, patience: &Patience) -> Result<Said, StageReply> {
        let exchange = async {
            if !self.outbox.is_empty() {
                self.stream.write(&self.outbox).await?;
                self.outbox.clear();
            }
            self.stream.reply().await
        };
        match patience.allow(limit, exchange).await {
            Some(Ok(said)) => Ok(said),
            Some(Err(trouble)) => Err(trouble.into()),
            None => Err(no_answer(stage, limit)),
        }
    }

    /// Writes the message, asks `may_finish` immediately before the final dot, writes the dot, reads its reply.
    ///
    /// `may_finish` says how long the reply may take. `Err` where it refused: then the dot was not written and the
    /// connection must be dropped. The stage says whether the dot was out: `Data` before, `Dot` after.
    ///
    /// A short message takes its dot along in one write, so `may_finish` is asked before that. Where the system does not
    /// take all of it, what is left goes as a long one does: the dot alone, last, and `may_finish` is asked again.
    pub(super) async fn message(
        &mut self,
        data: &Data,
        settings: &SmtpSettings,
        patience: &Patience,
        may_finish: impl Fn() -> Result<Duration, Fault> + Send,
    ) -> Result<(Stage, StageReply), Fault> {
        for lead in data.lead() {
            let sent = match lead {
                Lead::Bytes(bytes) => self.before_the_dot(bytes, settings, patience).await,
                Lead::File(file) => self.file(file, settings, patience).await?,
            };
            if let Err(reply) = sent {
                return Ok((Stage::Data, reply));
            }
        }
        let (bytes, dot_at) = (data.end(), data.dot_at());
        let mut wait = Duration::ZERO;
        let mut written = 0;
        while written < bytes.len() {
            let has_dot = written >= dot_at || (written == 0 && bytes.len() <= ONE_WRITE);
            let end = if has_dot { bytes.len() } else { dot_at };
            let may = || -> Result<(), Fault> {
                if has_dot {
                    wait = may_finish()?;
                }
                Ok(())
            };
            let moved = self.stream.write_some(&bytes[written..end], may);
            let reply = match patience.allow(settings.command_timeout, moved).await {
                Some(Ok(moved)) => {
                    written += moved;
                    continue;
                }
                Some(Err(Unwritten::Forbidden(why))) => return Err(why),
                Some(Err(Unwritten::Trouble(trouble))) => unwritten(trouble),
                None => too_slow(),
            };
            return Ok((Stage::Data, reply));
        }
        // From here on a loss is a doubt.
        let reply = match self.hear(Stage::Dot, wait, patience).await {
            Ok(said) => StageReply::Said { code: said.code, text: join(said.code, said.lines()) },
            Err(broken) => broken,
        };
        Ok((Stage::Dot, reply))
    }

    /// Writes a part of the message that is not its end.
    async fn before_the_dot(
        &mut self,
        bytes: &[u8],
        settings: &SmtpSettings,
        patience: &Patience,
    ) -> Result<(), StageReply> {
        let mut written = 0;
        while written < bytes.len() {
            let moved = self.stream.write_some(&bytes[written..], || Ok::<_, Infallible>(()));
            match patience.allow(settings.command_timeout, moved).await {
                Some(Ok(moved)) => written += moved,
                Some(Err(Unwritten::Trouble(trouble))) => return Err(unwritten(trouble)),
                None => return Err(too_slow()),
            }
        }
        Ok(())
    }

    /// Writes a file of the message as BASE64. `Err` where the file cannot be read: the relay is not at fault.
    async fn file(
        &mut self,
        file: &Spooled,
        settings: &SmtpSettings,
        patience: &Patience,
    ) -> Result<Result<(), StageReply>, Fault> {
        let mut offset = 0;
        while offset < file.length() {
            let bytes = file.read_at(offset, FILE_CHUNK).await.map_err(|error| Fault {
                stage: Stage::Fence,
                reply: remark(&format!("a spooled file cannot be read: {error}")),
                about_us: false,
            })?;
            offset += bytes.len() as u64;
            if let Err(reply) = self.before_the_dot(&lines(&bytes), settings, patience).await {
                return Ok(Err(reply));
            }
        }
        Ok(Ok(()))
    }

    /// Says goodbye, briefly. The answer does not matter: nothing is in flight.
    pub(super) async fn quit(mut self) {
        let goodbye = async {
            self.stream.write(b"QUIT\r\n").await?;
            self.stream.reply().await
        };
        if !matches!(timeout(QUIT_TIMEOUT, goodbye).await, Ok(Ok(_))) {
            tracing::debug!("the relay did not answer QUIT");
        }
    }

    /// [`Self::quit`] from where nothing can be awaited; without a runtime the connection is just closed.
    pub(super) fn retire(self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(self.quit()));
        }
    }
}

/// The relay's words where it granted a greeting's request.
fn greeted(stage: Stage, reply: Result<Said, StageReply>) -> Result<Said, Fault> {
    let (said, reply) = match reply {
        Ok(said) => {
            let text = join(said.code, said.lines());
            (Some(said.clone()), StageReply::Said { code: said.code, text })
        }
        Err(broken) => (None, broken),
    };
    let unreadable = || Fault { stage, reply: remark("the relay's greeting cannot be read"), about_us: true };
    match classify(stage, reply) {
        ReplyEffect::Granted => said.ok_or_else(unreadable),
        ReplyEffect::Settled {
            outcome: Outcome::Deferred(fault) | Outcome::Refused(fault) | Outcome::Unknown(fault),
            ..
        } => Err(fault),
        ReplyEffect::Settled {
            outcome: Outcome::Accepted { .. } | Outcome::Created { .. } | Outcome::NotImplemented,
            ..
        } => Err(unreadable()),
    }
}

/// RCPT for an address in which nothing can end the command.
pub(super) struct Rcpt<'r>(pub(super) &'r str);

impl fmt::Display for Rcpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RCPT TO:<{}>", self.0)
    }
}

impl From<Trouble> for StageReply {
    fn from(trouble: Trouble) -> Self {
        let what = trouble.to_string();
        match trouble {
            Trouble::Early(_) | Trouble::Unfinished | Trouble::NotSmtp => Self::Astray(what),
            Trouble::Closed | Trouble::Lost(_) => Self::Broken(what),
        }
    }
}

/// A 4xx or 5xx in the middle of the message: the relay did not want to wait for the dot.
fn early_refusal(trouble: &Trouble) -> Option<StageReply> {
    let Trouble::Early(said) = trouble else { return None };
    let text = join(said.code, said.lines());
    (400..600).contains(&said.code).then_some(StageReply::Said { code: said.code, text })
}

/// The answer to a message that was not written whole.
fn unwritten(trouble: Trouble) -> StageReply {
    early_refusal(&trouble).unwrap_or_else(|| trouble.into())
}

fn too_slow() -> StageReply {
    StageReply::Broken("the message could not be written in time".to_owned())
}

fn no_answer(stage: Stage, limit: Duration) -> StageReply {
    let what = match stage {
        Stage::Banner => "no greeting",
        Stage::Ehlo => "no answer to EHLO",
        Stage::Mail => "no answer to MAIL",
        Stage::Rcpt => "no answer to RCPT",
        Stage::Data => "no answer to DATA",
        Stage::Dot => "no answer to the final dot",
        Stage::Address
        | Stage::Template
        | Stage::Sign
        | Stage::Connect
        | Stage::Starttls
        | Stage::Auth
        | Stage::Fence
        | Stage::Contact
        | Stage::Category
        | Stage::Field
        | Stage::Get
        | Stage::Post => "no answer",
    };
    StageReply::Broken(format!("{what} within {}, or the delivery's time was up", human(limit)))
}

/// Reads the offers from the reply to EHLO; its first line is the relay's name.
fn offers(said: &Said) -> Offers {
    let keyword = |line: &str| line.split_ascii_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    let words: Vec<String> = said.lines().skip(1).map(keyword).collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    Offers {
        size: has("SIZE"),
        utf8: has("SMTPUTF8"),
        eight_bit: has("8BITMIME"),
        pipelining: has("PIPELINING"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::replies::Replies;
    use super::*;

    #[test]
    fn offers_are_read_behind_the_relays_name() {
        let found = |bytes: &[u8]| {
            let mut replies = Replies::default();
            replies.push(bytes);
            offers(&replies.next().unwrap().unwrap())
        };
        let all = found(b"250-SMTPUTF8\r\n250-size 10\r\n250-PIPELINING\r\n250 8BITMIME\r\n");
        assert_eq!(all, Offers { size: true, utf8: false, eight_bit: true, pipelining: true });
        assert_eq!(found(b"250 size\r\n"), Offers::default());
    }
}
