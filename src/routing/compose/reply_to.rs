//! `Reply-To`: the address for replies, from a field that the configuration names (`mail.reply_to_fields`).
//!
//! Only the address is used: a name beside it is left out, and a text of more than one address, or of none that every
//! relay takes, gives none. Invariant: no value can become anything but one address of one header.

use super::ComposeInput;
use crate::routing::submission::destination::parse_mailbox;

/// Result of `mail.reply_to_fields` in one mail. Its `Debug` shows no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyTo {
    /// No field is configured.
    NotConfigured,
    /// Replies go to the address in a field.
    Set,
    /// The submission has none of the fields, or only empty ones.
    Absent,
    /// Their values are not one address that every relay takes.
    Unusable,
}

/// Returns the address, and the result of the configured fields. The first field with an address wins.
pub(super) fn reply_to(input: &ComposeInput<'_>) -> (Option<String>, ReplyTo) {
    let keys = input.mail.reply_to_fields;
    if keys.is_empty() {
        return (None, ReplyTo::NotConfigured);
    }
    let mut became = ReplyTo::Absent;
    for key in keys {
        for field in input.ordered_fields().into_iter().filter(|field| field.key == *key) {
            if field.value.trim().is_empty() {
                continue;
            }
            match parse_mailbox(&field.value) {
                Ok(mailbox) if is_plain(&mailbox.address) => return (Some(mailbox.address), ReplyTo::Set),
                Ok(_) | Err(_) => became = ReplyTo::Unusable,
            }
        }
    }
    (None, became)
}

/// Whether the address needs neither quotation marks nor characters that some relay does not take (RFC 5321, `Dot-string`).
fn is_plain(address: &str) -> bool {
    address.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.@".contains(&b))
}
