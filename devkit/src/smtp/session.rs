//! One connection of the scripted SMTP server: the dialogue, with every reply open to a rule.
//!
//! A client that writes on where it has to wait is sent away: after the greeting, EHLO, DATA and QUIT in any case,
//! after every command where PIPELINING is not offered. A mail is stored before its reply is written, as RFC 5321
//! §4.1.1.4 asks of a relay; so a rule at `AfterDot` leaves the client in doubt about a mail that exists.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::TcpStream;

use super::Shared;
use super::lines::{multi_line, path};
use super::rules::{Act, Moment, Orders, Stage};
use super::store::{Mail, header};
use crate::trap::{Fate, Snare};

/// Whether the dialogue goes on.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Go,
    Close,
}

/// A rule's effect on the normal reply.
enum Said {
    /// A reply was given; whether it granted what was asked.
    Reply { granted: bool },
    /// No more dialogue on this connection.
    Over,
}

#[derive(Debug, Default)]
struct Transaction {
    from: Option<String>,
    recipients: Vec<String>,
    utf8: bool,
}

struct Session {
    stream: BufReader<BufWriter<TcpStream>>,
    shared: Arc<Shared>,
    number: u64,
    transaction: Transaction,
}

/// Counts a connection as open for as long as it lives, however it ends.
struct Open(Arc<Shared>);

impl Open {
    fn count(shared: &Arc<Shared>) -> Self {
        shared.store.tally.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.store.tally.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves one connection to its end; a broken connection is an end like any other.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>, number: u64) {
    let _open = Open::count(&shared);
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let stream = BufReader::new(BufWriter::new(stream));
    let mut session = Session { stream, shared, number, transaction: Transaction::default() };
    if let Err(broken) = session.dialogue().await {
        tracing::debug!(connection = number, "smtp dialogue broke off: {broken}");
    }
}

/// Stands still where a trap is; cut there, nothing more is said.
async fn stand(snare: Option<Snare>, act: Act) -> Act {
    if let Some(snare) = snare
        && snare.stand().await == Fate::Cut
    {
        return Act::Disconnect;
    }
    act
}

impl Session {
    async fn dialogue(&mut self) -> io::Result<()> {
        let banner = format!("220 {} ESMTP Postfix", self.shared.name);
        match self.answer(Stage::Banner, &[], &[banner]).await? {
            // Like Postfix after a 5xx greeting: it waits for QUIT, everything else is refused below as it comes.
            Said::Reply { .. } => {}
            Said::Over => return Ok(()),
        }
        while let Some(line) = self.line().await? {
            if self.command(&line).await? == Next::Close {
                break;
            }
        }
        Ok(())
    }

    async fn command(&mut self, line: &str) -> io::Result<Next> {
        let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => self.ehlo(true).await,
            "HELO" => self.ehlo(false).await,
            "MAIL" => self.mail(argument).await,
            "RCPT" => self.rcpt(argument).await,
            "DATA" => self.data().await,
            "RSET" => {
                self.shared.store.tally.rsets.fetch_add(1, Ordering::SeqCst);
                self.transaction = Transaction::default();
                self.plain(Stage::Rset, "250 2.0.0 Ok").await
            }
            "NOOP" => self.plain(Stage::Noop, "250 2.0.0 Ok").await,
            "QUIT" => {
                self.shared.store.tally.quits.fetch_add(1, Ordering::SeqCst);
                self.plain(Stage::Quit, "221 2.0.0 Bye").await?;
                Ok(Next::Close)
            }
            _ => self.say("502 5.5.2 Error: command not recognized").await,
        }
    }

    async fn ehlo(&mut self, extended: bool) -> io::Result<Next> {
        self.transaction = Transaction::default();
        let mut lines = vec![format!("250 {}", self.shared.name)];
        if extended {
            lines.extend(self.shared.extensions.iter().map(|offered| format!("250 {offered}")));
        }
        self.answered(Stage::Ehlo, &[], &lines).await
    }

    async fn mail(&mut self, argument: &str) -> io::Result<Next> {
        let Some((from, parameters)) = path(argument, "FROM:") else {
            return self.say("501 5.5.4 Syntax: MAIL FROM:<address>").await;
        };
        if self.transaction.from.is_some() {
            return self.say("503 5.5.1 Error: nested MAIL command").await;
        }
        let mut utf8 = false;
        for parameter in parameters.split_ascii_whitespace() {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match key.to_ascii_uppercase().as_str() {
                "SIZE" => {
                    let size = value.parse().unwrap_or(usize::MAX);
                    if self.size_limit().is_some_and(|limit| size > limit) {
                        return self.say("552 5.3.4 Message size exceeds fixed limit").await;
                    }
                }
                "SMTPUTF8" if self.offers("SMTPUTF8") => utf8 = true,
                "BODY" if self.offers("8BITMIME") => {}
                _ => return self.say("555 5.5.4 Unsupported option").await,
            }
        }
        if !from.is_ascii() && !utf8 {
            return self.say("553 5.6.7 Must declare SMTPUTF8 to send unicode address").await;
        }
        self.transaction = Transaction { from: Some(from), recipients: Vec::new(), utf8 };
        match self.answer(Stage::Mail, &[], &["250 2.1.0 Ok".to_owned()]).await? {
            Said::Reply { granted: true } => {
                self.shared.store.tally.transactions.fetch_add(1, Ordering::SeqCst);
                Ok(Next::Go)
            }
            Said::Reply { granted: false } => {
                self.transaction = Transaction::default();
                Ok(Next::Go)
            }
            Said::Over => Ok(Next::Close),
        }
    }

    async fn rcpt(&mut self, argument: &str) -> io::Result<Next> {
        if self.transaction.from.is_none() {
            return self.say("503 5.5.1 Error: need MAIL command").await;
        }
        let Some((recipient, _)) = path(argument, "TO:").filter(|(address, _)| !address.is_empty()) else {
            return self.say("501 5.1.3 Bad recipient address syntax").await;
        };
        if !recipient.is_ascii() && !self.transaction.utf8 {
            return self.say("553 5.6.7 Must declare SMTPUTF8 to send unicode address").await;
        }
        let asked = [recipient];
        match self.answer(Stage::Rcpt, &asked, &["250 2.1.5 Ok".to_owned()]).await? {
            Said::Reply { granted } => {
                if granted {
                    self.transaction.recipients.extend(asked);
                }
                Ok(Next::Go)
            }
            Said::Over => Ok(Next::Close),
        }
    }

    async fn data(&mut self) -> io::Result<Next> {
        if self.transaction.recipients.is_empty() {
            return self.say("554 5.5.1 Error: no valid recipients").await;
        }
        let recipients = self.transaction.recipients.clone();
        let start = ["354 End data with <CR><LF>.<CR><LF>".to_owned()];
        match self.answer(Stage::Data, &recipients, &start).await? {
            Said::Reply { granted: true } => {}
            Said::Reply { granted: false } => return Ok(Next::Go),
            Said::Over => return Ok(Next::Close),
        }
        let Some(raw) = self.message(&recipients).await? else {
            return Ok(Next::Close);
        };
        self.shared.store.tally.dots.fetch_add(1, Ordering::SeqCst);
        self.dot(raw, recipients).await
    }

    /// Reads up to the final dot, unstuffing; `None` where a rule ends the connection before it.
    async fn message(&mut self, recipients: &[String]) -> io::Result<Option<Vec<u8>>> {
        let mut raw = Vec::new();
        // Bytes of the body are there, and not taken yet: the dot is not read even where it has arrived.
        self.count_round();
        self.stream.fill_buf().await?;
        match self.answer(Stage::Body, recipients, &[]).await? {
            Said::Reply { .. } => {}
            Said::Over => return Ok(None),
        }
        loop {
            let start = raw.len();
            if self.stream.read_until(b'\n', &mut raw).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = &raw[start..];
            let on_a_line_of_its_own = start == 0 || raw[..start].ends_with(b"\r\n");
            if on_a_line_of_its_own && line == b".\r\n" {
                raw.truncate(start);
                return Ok(Some(raw));
            }
            if on_a_line_of_its_own && line.starts_with(b".") {
                raw.remove(start);
            }
        }
    }

    async fn dot(&mut self, raw: Vec<u8>, recipients: Vec<String>) -> io::Result<Next> {
        let message_id = header(&raw, "Message-ID").map(|id| id.trim_matches(['<', '>']).to_owned());
        let submission_id = header(&raw, "X-Submission-ID");
        let from = self.transaction.from.take().unwrap_or_default();
        self.transaction = Transaction::default();
        let too_large = self.size_limit().is_some_and(|limit| raw.len() > limit);
        if too_large {
            return self.say("552 5.3.4 Error: message file too big").await;
        }
        let known = |stage| Moment {
            stage,
            sender: &from,
            recipients: &recipients,
            message_id: message_id.as_deref(),
            submission_id: submission_id.as_deref(),
        };
        let (snare, verdict) = self.before(known(Stage::Dot)).await;
        let verdict = stand(snare, verdict).await;
        if let Act::Reply(lines) = &verdict
            && lines.first().is_some_and(|line| line.starts_with('2'))
        {
            // Accepted, in the relay's own words.
            let queue_id = self.shared.store.next_queue_id();
            self.store(queue_id, &from, &recipients, raw, &message_id, &submission_id)?;
            self.write(lines).await?;
            return Ok(Next::Go);
        }
        if verdict != Act::Normal {
            return Ok(match self.carry_out(verdict, &[]).await? {
                Said::Reply { .. } => Next::Go,
                Said::Over => Next::Close,
            });
        }
        let queue_id = self.shared.store.next_queue_id();
        let reply = [format!("250 2.0.0 Ok: queued as {queue_id}")];
        let (snare, act) = self.before(known(Stage::AfterDot)).await;
        self.store(queue_id, &from, &recipients, raw, &message_id, &submission_id)?;
        match self.carry_out(stand(snare, act).await, &reply).await? {
            Said::Reply { granted: true } => {}
            Said::Reply { granted: false } => return Ok(Next::Go),
            Said::Over => return Ok(Next::Close),
        }
        let (snare, act) = self.before(known(Stage::Replied)).await;
        Ok(match self.carry_out(stand(snare, act).await, &[]).await? {
            Said::Reply { .. } => Next::Go,
            Said::Over => Next::Close,
        })
    }

    fn store(
        &self,
        queue_id: String,
        from: &str,
        recipients: &[String],
        raw: Vec<u8>,
        message_id: &Option<String>,
        submission_id: &Option<String>,
    ) -> io::Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a development server tells real time")]
        let at = SystemTime::now();
        self.shared.store.keep(Mail {
            queue_id,
            from: from.to_owned(),
            recipients: recipients.to_vec(),
            raw,
            message_id: message_id.clone(),
            submission_id: submission_id.clone(),
            connection: self.number,
            at,
        })
    }

    /// Asks the script and sits out its delay.
    async fn before(&self, moment: Moment<'_>) -> (Option<Snare>, Act) {
        let orders = self.shared.script.lock().unwrap_or_else(PoisonError::into_inner).ask(&moment);
        let Orders { delay, snare, act } = orders;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        (snare, act)
    }

    async fn answer(&mut self, stage: Stage, recipients: &[String], normal: &[String]) -> io::Result<Said> {
        let sender = self.transaction.from.clone().unwrap_or_default();
        let moment = Moment { stage, sender: &sender, recipients, message_id: None, submission_id: None };
        let (snare, act) = self.before(moment).await;
        let act = stand(snare, act).await;
        if self.must_be_last(stage) && self.is_ahead() {
            self.shared.store.tally.ahead.fetch_add(1, Ordering::SeqCst);
            self.write(&["503 5.5.0 Error: improper use of command pipelining".to_owned()]).await?;
            return self.hang_up().await;
        }
        self.carry_out(act, normal).await
    }

    /// Whether a client has to wait for the reply here (RFC 2920 §3.1).
    fn must_be_last(&self, stage: Stage) -> bool {
        match stage {
            Stage::Banner | Stage::Ehlo | Stage::Data | Stage::Noop | Stage::Quit => true,
            Stage::Mail | Stage::Rcpt | Stage::Rset => !self.offers("PIPELINING"),
            Stage::Body | Stage::Dot | Stage::AfterDot | Stage::Replied => false,
        }
    }

    /// Whether bytes have arrived that are not read yet.
    fn is_ahead(&mut self) -> bool {
        matches!(self.stream.fill_buf().now_or_never(), Some(Ok(bytes)) if !bytes.is_empty())
    }

    /// About to read: a round starts where everything that came has been answered.
    fn count_round(&self) {
        if self.stream.buffer().is_empty() {
            self.shared.store.tally.rounds.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn answered(&mut self, stage: Stage, recipients: &[String], normal: &[String]) -> io::Result<Next> {
        Ok(match self.answer(stage, recipients, normal).await? {
            Said::Reply { .. } => Next::Go,
            Said::Over => Next::Close,
        })
    }

    async fn plain(&mut self, stage: Stage, reply: &str) -> io::Result<Next> {
        self.answered(stage, &[], &[reply.to_owned()]).await
    }

    async fn carry_out(&mut self, act: Act, normal: &[String]) -> io::Result<Said> {
        match act {
            Act::Normal => {
                self.write(normal).await?;
                Ok(Said::Reply { granted: true })
            }
            Act::Reply(lines) => {
                self.write(&lines).await?;
                let class = normal.first().and_then(|line| line.chars().next());
                let granted = lines.first().and_then(|line| line.chars().next()) == class;
                Ok(Said::Reply { granted })
            }
            Act::ReplyThenClose(line) => {
                self.write(&[line]).await?;
                self.hang_up().await
            }
            Act::Disconnect => Ok(Said::Over),
            Act::Silence => {
                self.drain().await?;
                Ok(Said::Over)
            }
            Act::Bytes(bytes) => {
                self.stream.write_all(&bytes).await?;
                self.stream.flush().await?;
                Ok(Said::Reply { granted: true })
            }
            Act::NormalThenBytes(bytes) => {
                let mut all = multi_line(normal);
                all.extend(bytes);
                self.stream.write_all(&all).await?;
                self.stream.flush().await?;
                Ok(Said::Reply { granted: true })
            }
        }
    }

    /// Closes in good order, so that what was said arrives: unread input would make the close a reset.
    async fn hang_up(&mut self) -> io::Result<Said> {
        self.stream.shutdown().await?;
        let drained = tokio::time::timeout(Duration::from_secs(1), self.drain()).await;
        if let Ok(Err(broken)) = drained {
            return Err(broken);
        }
        Ok(Said::Over)
    }

    /// Reads on, so that the client can always write, until the client closes.
    async fn drain(&mut self) -> io::Result<()> {
        let mut waste = [0_u8; 4096];
        while self.stream.read(&mut waste).await? > 0 {}
        Ok(())
    }

    async fn say(&mut self, line: &str) -> io::Result<Next> {
        self.write(&[line.to_owned()]).await?;
        Ok(Next::Go)
    }

    async fn write(&mut self, lines: &[String]) -> io::Result<()> {
        self.stream.write_all(&multi_line(lines)).await?;
        self.stream.flush().await
    }

    async fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        self.count_round();
        if self.stream.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
    }

    fn offers(&self, extension: &str) -> bool {
        self.shared.extensions.iter().any(|offered| offered.eq_ignore_ascii_case(extension))
    }

    fn size_limit(&self) -> Option<usize> {
        self.shared.extensions.iter().find_map(|offered| offered.strip_prefix("SIZE ")?.parse().ok())
    }
}
