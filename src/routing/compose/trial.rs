//! Mails of the program's own to one person: that of `test-send`, and those that tell a reviewer of an entry. Nothing of a
//! submission stands in them.
//!
//! Pure; date and Message-ID are arguments. Marked `Auto-Submitted`, so that no vacation notice answers them.

use jiff::Timestamp;
use lettre::Message;
use lettre::address::{Address, Envelope};
use lettre::message::SinglePart;

use super::headers::{recipients, sender, token, unstructured};
use super::message::{date, part};
use crate::ports;
use crate::routing::submission::destination::Mailbox;
use crate::routing::submission::text::one_line;

/// Makes a mail to one address that names the sending host. ASCII, lines ended by CRLF, not dot-stuffed.
///
/// # Errors
/// The mail library's refusal: in practice of a sender that is not an ASCII address.
pub fn trial_mail(
    from: &Mailbox,
    to: &Mailbox,
    message_id: &str,
    at: Timestamp,
    host: &str,
) -> Result<ports::Message, String> {
    let host = one_line(host);
    let text = format!(
        "This is a test of maple-router on {host}: it reached the relay by the same path as every mail of a form.\n\
         Nobody needs to do anything.\n"
    );
    note_mail(from, to, message_id, at, &format!("maple-router test mail from {host}"), text)
}

/// Makes a mail of plain text to one address. ASCII, lines ended by CRLF, not dot-stuffed.
///
/// # Errors
/// The mail library's refusal: in practice of a sender that is not an ASCII address.
pub fn note_mail(
    from: &Mailbox,
    to: &Mailbox,
    message_id: &str,
    at: Timestamp,
    subject: &str,
    text: String,
) -> Result<ports::Message, String> {
    let address: Address =
        from.address.parse().map_err(|_| "mail.from is not an ASCII address".to_owned())?;
    let envelope = Envelope::new(Some(address.clone()), vec![address]).map_err(|fault| fault.to_string())?;
    let text = part(SinglePart::builder().header(lettre::message::header::ContentType::TEXT_PLAIN), text);
    let message = Message::builder()
        .envelope(envelope)
        .header(date(at))
        .raw_header(sender(from))
        .raw_header(recipients(std::slice::from_ref(to)))
        .raw_header(unstructured("Subject", subject))
        .raw_header(token("Message-ID", message_id))
        .raw_header(token("Auto-Submitted", "auto-generated"))
        .singlepart(text)
        .map_err(|fault| fault.to_string())?
        .formatted();
    if message.is_ascii() {
        Ok(ports::Message::text(message))
    } else {
        Err("the message is not ASCII".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::submission::destination::parse_mailbox;

    #[test]
    fn it_is_a_mail_of_our_own_and_says_so() {
        let (from, to) =
            (parse_mailbox("it@example.org").unwrap(), parse_mailbox("Zoë <z@example.org>").unwrap());
        let at = "2026-11-01T10:00:00Z".parse().unwrap();
        let mail =
            trial_mail(&from, &to, "<maple-test.1@example.org>", at, "host\r\nBcc: x@example.org").unwrap();
        let mail = String::from_utf8(mail.shown()).unwrap();
        let (headers, body) = mail.split_once("\r\n\r\n").expect("headers and body");
        for expected in [
            "From: it@example.org",
            "Message-ID: <maple-test.1@example.org>",
            "Auto-Submitted: auto-generated",
            "Date: Sun, 01 Nov 2026 10:00:00 +0000",
        ] {
            assert!(headers.lines().any(|line| line == expected), "{expected}:\n{headers}");
        }
        assert!(!headers.lines().any(|line| line.starts_with("Bcc")), "{headers}");
        assert!(body.contains("host Bcc: x@example.org"), "{body}");
    }
}
