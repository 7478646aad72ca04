//! A lane: the right to one SMTP transaction at a time, with the connection it may have kept from the last one.
//!
//! While a send is under way its connection belongs to the send alone: an error, a timeout or a dropped future drops
//! it, and it is never used again. It comes back only after a transaction that ended in step. If we die in the
//! middle, the relay has either answered the final dot or it has not; what the ledger calls "begun" is then in doubt.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::classify::{Heard, Verdict, classify};
use super::connection::{Connection, Offers};
use super::lanes::Inner;
use super::patience::{Patience, last_call};
use super::reply::remark;
use crate::ports::{Fault, Outcome, Stage};

/// One message for some recipients.
#[derive(Clone, Copy)]
pub struct Envelope<'a> {
    /// Envelope sender; empty for the null sender.
    pub from: &'a str,
    /// One RCPT each, in this order.
    pub recipients: &'a [String],
    /// The message as it stands, headers and body.
    pub message: &'a [u8],
}

/// See the module's header. Dropping it gives a healthy connection, and the lane, back.
pub struct Lane {
    inner: Arc<Inner>,
    connection: Option<Connection>,
    has_turn: bool,
    /// Last, so that the connection is back before the next holder looks for it.
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("connected", &self.connection.is_some()).finish_non_exhaustive()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.inner.give_back(connection);
        }
    }
}

/// The outcomes of one send, as they become known.
struct Sheet {
    outcomes: Vec<Option<Outcome>>,
}

impl Sheet {
    fn of(recipients: &[String]) -> Self {
        let unusable = |recipient: &String| {
            (!is_speakable(recipient)).then(|| {
                let reply = remark("not an address that can be written in an SMTP command");
                Outcome::Refused(Fault { stage: Stage::Address, reply, about_us: false })
            })
        };
        Self { outcomes: recipients.iter().map(unusable).collect() }
    }

    fn is_open(&self, i: usize) -> bool {
        self.outcomes.get(i).is_some_and(Option::is_none)
    }

    fn is_complete(&self) -> bool {
        self.outcomes.iter().all(Option::is_some)
    }

    fn settle(&mut self, i: usize, outcome: Outcome) {
        if let Some(slot) = self.outcomes.get_mut(i) {
            *slot = Some(outcome);
        }
    }

    fn settle_open(&mut self, outcome: &Outcome) {
        for slot in self.outcomes.iter_mut().filter(|slot| slot.is_none()) {
            *slot = Some(outcome.clone());
        }
    }

    fn into_outcomes(self) -> Vec<Outcome> {
        let missing = || {
            let reply = remark("the send ended without an outcome");
            Outcome::Unknown(Fault { stage: Stage::Dot, reply, about_us: true })
        };
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }
}

impl Lane {
    pub(super) fn new(
        inner: Arc<Inner>,
        connection: Option<Connection>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self { inner, connection, has_turn: false, _permit: permit }
    }

    /// Waits for this lane's turn under `max_per_minute`, and while the relay's queue is too long. Call it before Begin, so that no delivery stands marked
    /// as begun while it waits; [`Self::send`] calls it itself when this was not done. Safe to drop.
    pub async fn turn(&mut self) {
        if !self.has_turn {
            self.inner.pace.turn(&*self.inner.clock).await;
            self.inner.brake.turn(&*self.inner.clock).await;
            self.has_turn = true;
        }
    }

    /// Sends one message, and says of each recipient, in order, what became of it (protocol §4).
    ///
    /// `fence` is asked immediately before the final dot; its refusal drops the connection instead, and every
    /// recipient not yet decided is deferred at stage `Fence`. The whole transaction, the reply to the dot included,
    /// ends within `delivery_deadline`: a relay so slow that less than half of `dot_timeout` is left for that reply
    /// gets no dot either.
    pub async fn send(
        &mut self,
        mail: &Envelope<'_>,
        fence: &(dyn Fn() -> Result<(), String> + Sync),
    ) -> Vec<Outcome> {
        let mut sheet = Sheet::of(mail.recipients);
        if !sheet.is_complete() {
            self.turn().await;
            self.has_turn = false;
            let kept = self.connection.take();
            let message = with_crlf(mail.message);
            let mail = Envelope { message: &message, ..*mail };
            self.connection = self.transaction(kept, &mail, fence, &mut sheet).await;
        }
        sheet.into_outcomes()
    }

    /// The steps of one send; the connection comes back where it may be used again.
    async fn transaction(
        &self,
        kept: Option<Connection>,
        mail: &Envelope<'_>,
        fence: &(dyn Fn() -> Result<(), String> + Sync),
        sheet: &mut Sheet,
    ) -> Option<Connection> {
        let settings = &self.inner.settings;
        let clock = &self.inner.clock;
        let limit = settings.command_timeout;
        let started = clock.monotonic();
        let mut patience = Patience::new(settings.delivery_deadline);

        let (mut connection, heard) = match self.mail(kept, mail, &mut patience, sheet).await {
            Ok(begun) => begun,
            Err(end) => return end,
        };
        if let Verdict::Settled { outcome, reusable } = classify(Stage::Mail, heard) {
            sheet.settle_open(&outcome);
            return if reusable { Some(connection) } else { None };
        }

        let mut accepted = 0;
        for (i, recipient) in mail.recipients.iter().enumerate() {
            if !sheet.is_open(i) {
                continue;
            }
            let command = format!("RCPT TO:<{recipient}>");
            let heard = connection.ask(Stage::Rcpt, &command, limit, &mut patience).await;
            match classify(Stage::Rcpt, heard) {
                Verdict::Granted => accepted += 1,
                Verdict::Settled { outcome, reusable: true } => sheet.settle(i, outcome),
                // The connection is gone: those already decided keep their outcome, the rest were not sent.
                Verdict::Settled { outcome, reusable: false } => {
                    sheet.settle_open(&outcome);
                    return None;
                }
            }
        }
        if accepted == 0 {
            return self.reset(connection, &mut patience).await;
        }

        let heard = connection.ask(Stage::Data, "DATA", limit, &mut patience).await;
        if let Verdict::Settled { outcome, reusable } = classify(Stage::Data, heard) {
            sheet.settle_open(&outcome);
            return if reusable { self.reset(connection, &mut patience).await } else { None };
        }

        let may_finish = || {
            let spent = clock.monotonic().saturating_duration_since(started);
            let wait = last_call(settings, spent)?;
            fence().map_err(|why| Fault { stage: Stage::Fence, reply: remark(&why), about_us: false })?;
            Ok(wait)
        };
        match connection.message(mail.message, settings, &mut patience, may_finish).await {
            Err(fault) => {
                sheet.settle_open(&Outcome::Deferred(fault));
                None
            }
            Ok((stage, heard)) => match classify(stage, heard) {
                Verdict::Settled { outcome, reusable } => {
                    sheet.settle_open(&outcome);
                    if reusable && stage == Stage::Dot { Some(connection) } else { None }
                }
                // A 3xx in the middle of the message; the dot is not out.
                Verdict::Granted => {
                    let reply = remark("connection dropped: the relay spoke out of turn");
                    sheet.settle_open(&Outcome::Deferred(Fault { stage, reply, about_us: true }));
                    None
                }
            },
        }
    }

    /// Gets as far as the reply to MAIL, on the kept connection or, once, on a fresh one where the relay had closed
    /// the kept one while it was idle. Nothing has been sent by then, so nothing can be sent twice.
    async fn mail(
        &self,
        kept: Option<Connection>,
        mail: &Envelope<'_>,
        patience: &mut Patience,
        sheet: &mut Sheet,
    ) -> Result<(Connection, Heard), Option<Connection>> {
        let settings = &self.inner.settings;
        let mut may_replace = kept.is_some();
        let mut connection = kept;
        loop {
            let mut current = match connection.take() {
                Some(connection) => connection,
                None => Connection::open(settings, patience).await.map_err(|fault| {
                    sheet.settle_open(&Outcome::Deferred(fault));
                    None
                })?,
            };
            let Some(command) = mail_command(mail, &current.offers, sheet) else {
                return Err(Some(current));
            };
            let heard = current.ask(Stage::Mail, &command, settings.command_timeout, patience).await;
            let is_stale = matches!(heard, Heard::Broken(_) | Heard::Said { code: 421, .. });
            if !(may_replace && is_stale) {
                return Ok((current, heard));
            }
            may_replace = false;
        }
    }

    /// Leaves the transaction without a message, so that the connection can be kept.
    async fn reset(&self, mut connection: Connection, patience: &mut Patience) -> Option<Connection> {
        let limit = self.inner.settings.command_timeout;
        match connection.ask(Stage::Mail, "RSET", limit, patience).await {
            Heard::Said { code: 250, .. } => Some(connection),
            Heard::Said { .. } | Heard::Broken(_) => None,
        }
    }
}

/// The MAIL command this message needs of a relay with these offers; `None` when no recipient is left to send to.
fn mail_command(mail: &Envelope<'_>, offers: &Offers, sheet: &mut Sheet) -> Option<String> {
    let mut utf8 = false;
    for (i, recipient) in mail.recipients.iter().enumerate() {
        if recipient.is_ascii() || !sheet.is_open(i) {
            continue;
        }
        if offers.utf8 {
            utf8 = true;
        } else {
            let reply = remark("the relay does not offer SMTPUTF8, which this address needs");
            sheet.settle(i, Outcome::Refused(Fault { stage: Stage::Rcpt, reply, about_us: false }));
        }
    }
    let our_fault =
        |what: &str| Outcome::Deferred(Fault { stage: Stage::Mail, reply: remark(what), about_us: true });
    if !mail.from.is_empty() && !is_speakable(mail.from) {
        sheet.settle_open(&our_fault("the sender is not an address that can be written in an SMTP command"));
    } else if !mail.from.is_ascii() && !offers.utf8 {
        sheet.settle_open(&our_fault("the relay does not offer SMTPUTF8, which the sender's address needs"));
    } else if !mail.message.is_ascii() && !offers.eight_bit {
        sheet.settle_open(&our_fault("the relay does not offer 8BITMIME, which this message needs"));
    }
    if sheet.is_complete() {
        return None;
    }
    let mut command = format!("MAIL FROM:<{}>", mail.from);
    if offers.size {
        command.push_str(&format!(" SIZE={}", mail.message.len()));
    }
    if !mail.message.is_ascii() {
        command.push_str(" BODY=8BITMIME");
    }
    if utf8 || !mail.from.is_ascii() {
        command.push_str(" SMTPUTF8");
    }
    Some(command)
}

/// Nothing in it can end the command it stands in, or the brackets around it.
fn is_speakable(address: &str) -> bool {
    let quoted = address.starts_with('"') && address.contains("\"@");
    let fits =
        |c: char| !c.is_control() && c != '<' && c != '>' && (!c.is_whitespace() || (quoted && c == ' '));
    !address.is_empty() && address.len() <= 320 && address.chars().all(fits)
}

/// The message with every line end as `CR LF`: a lone `LF` or `CR` reads as a line end to some relays and not to
/// others, and could smuggle a second message in.
fn with_crlf(message: &[u8]) -> Cow<'_, [u8]> {
    let stray = message.iter().enumerate().any(|(i, b)| match b {
        b'\r' => message.get(i + 1) != Some(&b'\n'),
        b'\n' => i == 0 || message[i - 1] != b'\r',
        _ => false,
    });
    if !stray {
        return Cow::Borrowed(message);
    }
    let mut whole = Vec::with_capacity(message.len() + 64);
    let mut rest = message.iter().copied().peekable();
    while let Some(b) = rest.next() {
        match b {
            b'\r' => {
                rest.next_if_eq(&b'\n');
                whole.extend_from_slice(b"\r\n");
            }
            b'\n' => whole.extend_from_slice(b"\r\n"),
            _ => whole.push(b),
        }
    }
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_cannot_leave_their_command_are_spoken() {
        for (address, expected) in [
            ("a@b", true),
            ("\"john doe\"@b", true),
            ("jörg@b", true),
            ("", false),
            ("a b@c", false),
            ("a@b>\r\nDATA", false),
            ("a@b\nc", false),
            ("a@b> SIZE=1", false),
            ("a\u{0}@b", false),
            ("a\u{a0}b@c", false),
        ] {
            assert_eq!(is_speakable(address), expected, "{address:?}");
        }
        assert!(!is_speakable(&format!("{}@b", "a".repeat(400))));
    }

    #[test]
    fn every_line_end_becomes_crlf_and_a_good_message_is_left_alone() {
        assert!(matches!(with_crlf(b"a\r\n.\r\nb"), Cow::Borrowed(_)));
        for (given, expected) in [
            (&b"a\nb"[..], &b"a\r\nb"[..]),
            (b"a\rb", b"a\r\nb"),
            (b"a\r\n\n.\nb\r", b"a\r\n\r\n.\r\nb\r\n"),
            (b"\n", b"\r\n"),
            (b"", b""),
        ] {
            assert_eq!(&*with_crlf(given), expected);
        }
    }

    #[test]
    fn mail_says_what_the_relay_offers_and_the_message_needs() {
        let recipients = ["a@b".to_owned(), "jörg@b".to_owned()];
        let mail = Envelope { from: "me@x", recipients: &recipients, message: b"1234" };
        let all = Offers { size: true, utf8: true, eight_bit: true };
        let mut sheet = Sheet::of(&recipients);
        let command = mail_command(&mail, &all, &mut sheet);
        assert_eq!(command.as_deref(), Some("MAIL FROM:<me@x> SIZE=4 SMTPUTF8"));

        let command = mail_command(&mail, &Offers::default(), &mut sheet);
        assert_eq!(command.as_deref(), Some("MAIL FROM:<me@x>"));
        assert!(sheet.is_open(0) && !sheet.is_open(1));

        let umlaut = Envelope { message: "für".as_bytes(), ..mail };
        let command = mail_command(&umlaut, &all, &mut sheet);
        assert_eq!(command.as_deref(), Some("MAIL FROM:<me@x> SIZE=4 BODY=8BITMIME"));
        assert_eq!(mail_command(&umlaut, &Offers::default(), &mut sheet), None);
        let outcomes = sheet.into_outcomes();
        assert!(matches!(&outcomes[0], Outcome::Deferred(fault) if fault.about_us));
        assert!(matches!(&outcomes[1], Outcome::Refused(fault) if fault.stage == Stage::Rcpt));
    }
}
