//! The parts of one send: its envelope, its commands, and the sheet of its outcomes.
//!
//! Pure. No address gets into a command that could end it.

use super::dialogue::Offers;
use super::reply::remark;
use super::transparency::Data;
use crate::ports::{Fault, Message, Outcome, Stage};

/// One message for some recipients.
#[derive(Clone, Copy)]
pub struct Envelope<'a> {
    /// Envelope sender; empty for the null sender.
    pub from: &'a str,
    /// One RCPT each, in this order.
    pub recipients: &'a [String],
    /// The message as written, headers and body.
    pub message: &'a Message,
}

/// The outcomes of one send, as they become known.
pub(super) struct Sheet {
    outcomes: Vec<Option<Outcome>>,
}

impl Sheet {
    pub(super) fn of(recipients: &[String]) -> Self {
        let unusable = |recipient: &String| {
            (!is_speakable(recipient)).then(|| {
                let reply = remark("not an address that can be written in an SMTP command");
                Outcome::Refused(Fault { stage: Stage::Address, reply, about_us: false })
            })
        };
        Self { outcomes: recipients.iter().map(unusable).collect() }
    }

    pub(super) fn is_open(&self, i: usize) -> bool {
        self.outcomes.get(i).is_some_and(Option::is_none)
    }

    /// The `recipients` of this sheet that have no outcome yet.
    pub(super) fn open<'r>(&self, recipients: &'r [String]) -> impl Iterator<Item = &'r String> {
        recipients
            .iter()
            .zip(&self.outcomes)
            .filter_map(|(recipient, outcome)| if outcome.is_none() { Some(recipient) } else { None })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.outcomes.iter().all(Option::is_some)
    }

    pub(super) fn settle(&mut self, i: usize, outcome: Outcome) {
        if let Some(slot) = self.outcomes.get_mut(i) {
            *slot = Some(outcome);
        }
    }

    pub(super) fn settle_each(&mut self, all: Vec<(usize, Outcome)>) {
        for (i, outcome) in all {
            self.settle(i, outcome);
        }
    }

    pub(super) fn settle_open(&mut self, outcome: &Outcome) {
        for slot in self.outcomes.iter_mut().filter(|slot| slot.is_none()) {
            *slot = Some(outcome.clone());
        }
    }

    pub(super) fn into_outcomes(self) -> Vec<Outcome> {
        let missing = || {
            let reply = remark("the send ended without an outcome");
            Outcome::Unknown(Fault { stage: Stage::Dot, reply, about_us: true })
        };
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }
}

/// The MAIL command this message needs of a relay with these offers; `None` when no recipient is left to send to.
pub(super) fn mail_command(
    mail: &Envelope<'_>,
    data: &Data,
    offers: &Offers,
    sheet: &mut Sheet,
) -> Option<String> {
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
    } else if !data.is_ascii && !offers.eight_bit {
        sheet.settle_open(&our_fault("the relay does not offer 8BITMIME, which this message needs"));
    }
    if sheet.is_complete() {
        return None;
    }
    let mut command = format!("MAIL FROM:<{}>", mail.from);
    if offers.size {
        command.push_str(" SIZE=");
        command.push_str(&data.size.to_string());
    }
    if !data.is_ascii {
        command.push_str(" BODY=8BITMIME");
    }
    if utf8 || !mail.from.is_ascii() {
        command.push_str(" SMTPUTF8");
    }
    Some(command)
}

/// Says that nothing in the address can end its command, or the brackets around it.
fn is_speakable(address: &str) -> bool {
    let quoted = address.starts_with('"') && address.contains("\"@");
    let fits =
        |c: char| !c.is_control() && c != '<' && c != '>' && (!c.is_whitespace() || (quoted && c == ' '));
    !address.is_empty() && address.len() <= 320 && address.chars().all(fits)
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
    fn mail_says_what_the_relay_offers_and_the_message_needs() {
        let recipients = ["a@b".to_owned(), "jörg@b".to_owned()];
        let message = Message::text(b"1234".to_vec());
        let mail = Envelope { from: "me@x", recipients: &recipients, message: &message };
        let data = Data::of(mail.message);
        let all = Offers { size: true, utf8: true, eight_bit: true, pipelining: true };
        let mut sheet = Sheet::of(&recipients);
        let command = mail_command(&mail, &data, &all, &mut sheet);
        assert_eq!(command.as_deref(), Some("MAIL FROM:<me@x> SIZE=6 SMTPUTF8"));

        let command = mail_command(&mail, &data, &Offers::default(), &mut sheet);
        assert_eq!(command.as_deref(), Some("MAIL FROM:<me@x>"));
        assert!(sheet.is_open(0) && !sheet.is_open(1));

        let umlaut = Data::of(&Message::text("für".as_bytes().to_vec()));
        let command = mail_command(&mail, &umlaut, &all, &mut sheet);
        assert_eq!(command.as_deref(), Some("MAIL FROM:<me@x> SIZE=6 BODY=8BITMIME"));
        assert_eq!(mail_command(&mail, &umlaut, &Offers::default(), &mut sheet), None);
        let outcomes = sheet.into_outcomes();
        assert!(matches!(&outcomes[0], Outcome::Deferred(fault) if fault.about_us));
        assert!(matches!(&outcomes[1], Outcome::Refused(fault) if fault.stage == Stage::Rcpt));
    }
}
