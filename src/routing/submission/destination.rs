//! Destinations: from an action's text to the deliveries it stands for, and back from their keys.
//!
//! The ledger, the audit log and `explain` share delivery keys (protocol, "delivery"):
//!
//! | key | stands for |
//! | --- | --- |
//! | `order\|address` | one usable recipient, its domain in lower case and in ASCII |
//! | `order\|!n` | the n-th unusable entry, counted from 1 among the unusable ones of this destination |
//! | `order\|!none` | a destination without any recipient |
//! | `order\|!limit` | a destination that names more than `max_recipients`: nothing of it is sent |
//! | `order\|` | an action without recipients |
//!
//! Invariant: pure, and no text causes a panic. A plan is pinned, so the same destination gives the same keys in every
//! attempt; if we die in the middle, the next worker counts the same way.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use super::text::one_line;
use crate::scrub::is_bidi_control;

/// Longest address, in octets (RFC 5321 §4.5.3.1.3, without the angle brackets).
const MAX_ADDRESS: usize = 254;
/// Longest local part, in octets (RFC 5321 §4.5.3.1.1).
const MAX_LOCAL: usize = 64;
/// Longest domain, in octets.
const MAX_DOMAIN: usize = 253;

/// An address with the name in front of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    /// `local@domain`; the domain in lower case and ASCII, the local part as written (it may be non-ASCII).
    pub address: String,
    /// Display name on one line, without control characters.
    pub name: Option<String>,
}

/// One delivery that a destination stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The delivery key.
    pub key: String,
    /// Usability of the delivery.
    pub kind: TargetKind,
}

/// Kind of one delivery of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetKind {
    /// An address mail can be sent to.
    Usable {
        /// As [`Mailbox::address`].
        address: String,
        /// As [`Mailbox::name`].
        name: Option<String>,
    },
    /// No address; the other entries are not affected.
    Unusable {
        /// The entry as written, without the white space around it.
        raw: String,
        /// Reason, for people; never contains the entry itself.
        why: String,
    },
    /// A destination without any recipient.
    None,
    /// A destination that names too many; nothing of it is sent.
    OverLimit {
        /// Number of entries, duplicates removed.
        count: usize,
    },
}

/// The deliveries of a destination: entries separated by `,` or `;`, display names allowed, duplicates removed, in
/// the order written. Never empty.
///
/// Usable and unusable entries both count towards `max_recipients`: a ledger is not filled with a thousand refusals.
#[must_use]
pub fn parse(raw: &str, action_order: i32, max_recipients: usize) -> Vec<Target> {
    let mut seen = HashSet::new();
    let mut targets = Vec::new();
    let mut unusable = 0_usize;
    for (entry, balanced) in entries(raw) {
        let parsed = if balanced { parse_mailbox(entry) } else { Err("a quotation mark is not closed") };
        match parsed {
            Ok(Mailbox { address, name }) => {
                if seen.insert(address.clone()) {
                    let key = format!("{action_order}|{address}");
                    targets.push(Target { key, kind: TargetKind::Usable { address, name } });
                }
            }
            Err(why) => {
                // The raw entry is never a valid address, so never equal to a usable one.
                if seen.insert(entry.to_owned()) {
                    unusable += 1;
                    let key = format!("{action_order}|!{unusable}");
                    let kind = TargetKind::Unusable { raw: entry.to_owned(), why: why.to_owned() };
                    targets.push(Target { key, kind });
                }
            }
        }
    }
    if targets.is_empty() {
        return vec![Target { key: format!("{action_order}|!none"), kind: TargetKind::None }];
    }
    if targets.len() > max_recipients {
        let kind = TargetKind::OverLimit { count: targets.len() };
        return vec![Target { key: format!("{action_order}|!limit"), kind }];
    }
    targets
}

/// Parses one address, alone or after a display name: `it@example.org`, `"Doe, Jane" <jane@example.org>`.
///
/// # Errors
/// The reason why the entry is no address, in words that do not repeat it.
pub fn parse_mailbox(entry: &str) -> Result<Mailbox, &'static str> {
    let entry = entry.trim();
    if entry.contains(['\r', '\n']) {
        return Err("contains a line break");
    }
    let brackets = unquoted_brackets(entry)?;
    let (name, address) = match brackets.as_slice() {
        [] => (None, entry),
        [(open, '<'), (close, '>')] => {
            if close + 1 != entry.len() {
                return Err("something follows the address");
            }
            (display_name(&entry[..*open]), entry[open + 1..*close].trim())
        }
        _ => return Err("angle brackets do not match"),
    };
    Ok(Mailbox { address: parse_address(address)?, name })
}

/// The key of an action that has no recipients.
#[must_use]
pub fn bare_key(action_order: i32) -> String {
    format!("{action_order}|")
}

/// The `action_order` in a delivery key.
#[must_use]
pub fn order_of(key: &str) -> Option<i32> {
    key.split_once('|')?.0.parse().ok()
}

/// The address in a delivery key; `None` for keys that stand for no usable recipient.
#[must_use]
pub fn address_of(key: &str) -> Option<&str> {
    let (_, recipient) = key.split_once('|')?;
    // A local part may start with `!`: only the @ distinguishes an address from `!2`, `!none`, `!limit`.
    recipient.contains('@').then_some(recipient)
}

/// The domain of the address in a delivery key, in lower case; `None` where [`address_of`] is.
#[must_use]
pub fn domain_of(key: &str) -> Option<&str> {
    Some(address_of(key)?.rsplit_once('@')?.1)
}

/// Whether `address` is in one of `allowed_domains`: exactly, whatever the case; an empty list allows every domain.
#[must_use]
pub fn allowed(address: &str, allowed_domains: &[String]) -> bool {
    if allowed_domains.is_empty() {
        return true;
    }
    let Some((_, domain)) = address.rsplit_once('@') else { return false };
    let Some(domain) = ascii_domain(domain) else { return false };
    allowed_domains
        .iter()
        .any(|allowed| ascii_domain(allowed.trim()).is_some_and(|allowed| allowed == domain))
}

/// Recipient of a delivery. Never written as it is: the audit log outlives the submission, and gets a keyed digest in
/// place of the text ([`AuditKey`](crate::routing::store::audit_key::AuditKey)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recipient {
    /// Domain of the address; absent where there is no usable address.
    pub domain: Option<String>,
    /// The address as in the delivery key, else the text that was not usable.
    pub plain: String,
}

/// Returns a delivery's recipient. `destination` is the pinned text the key was made from; it is read only where the key
/// itself has no address: the entry for `!n`, the whole text for `!none` and `!limit`.
#[must_use]
pub fn recipient(key: &str, destination: &str) -> Recipient {
    if let Some(address) = address_of(key) {
        return Recipient { domain: domain_of(key).map(ToOwned::to_owned), plain: address.to_owned() };
    }
    let entry = parse(destination, order_of(key).unwrap_or_default(), usize::MAX)
        .into_iter()
        .find(|target| target.key == key)
        .and_then(|target| match target.kind {
            TargetKind::Unusable { raw, .. } => Some(raw),
            TargetKind::Usable { .. } | TargetKind::None | TargetKind::OverLimit { .. } => None,
        });
    Recipient { domain: None, plain: entry.unwrap_or_else(|| destination.trim().to_owned()) }
}

/// The entries of a destination, without the empty ones; `false` beside one whose quotation mark is never closed.
fn entries(raw: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut rest = raw;
    loop {
        let (end, balanced) = entry_end(rest);
        let entry = rest[..end].trim();
        if !entry.is_empty() {
            found.push((entry, balanced));
        }
        match rest.get(end + 1..) {
            Some(after) => rest = after,
            None => return found,
        }
    }
}

/// End of the first entry of `rest`, and whether its quotation marks match. A quotation mark that is never closed
/// protects no separator, so that it costs its own entry and not all that follow.
fn entry_end(rest: &str) -> (usize, bool) {
    let mut quoted_from = None;
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match (quoted_from, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(_), '"') => quoted_from = None,
            (None, '"') => quoted_from = Some(at),
            (None, ',' | ';') => return (at, true),
            _ => {}
        }
    }
    match quoted_from {
        None => (rest.len(), true),
        Some(quote) => (rest[quote..].find([',', ';']).map_or(rest.len(), |at| quote + at), false),
    }
}

/// The angle brackets outside quotation marks, with their byte positions.
fn unquoted_brackets(entry: &str) -> Result<Vec<(usize, char)>, &'static str> {
    let (mut quoted, mut escaped) = (false, false);
    let mut brackets = Vec::new();
    for (at, c) in entry.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '<' | '>' if !quoted => brackets.push((at, c)),
            _ => {}
        }
    }
    if quoted { Err("a quotation mark is not closed") } else { Ok(brackets) }
}

/// A display name without its quotation marks and escapes.
fn display_name(raw: &str) -> Option<String> {
    let (mut quoted, mut escaped) = (false, false);
    let mut name = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            _ if escaped => {
                escaped = false;
                name.push(c);
            }
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            // Stripped, not replaced: a control character is no part of a name.
            c if c.is_control() && c != '\t' => {}
            c => name.push(c),
        }
    }
    let name = one_line(&name);
    (!name.is_empty()).then_some(name)
}

/// `local@domain`, its domain made lower case and ASCII.
fn parse_address(address: &str) -> Result<String, &'static str> {
    if address.is_empty() {
        return Err("there is no address");
    }
    if address.chars().any(|c| c.is_control() || is_bidi_control(c)) {
        return Err("contains a control character");
    }
    if address.chars().any(char::is_whitespace) {
        return Err("contains a space");
    }
    let Some((local, domain)) = address.rsplit_once('@') else {
        return Err("has no @");
    };
    if local.is_empty() {
        return Err("has nothing before the @");
    }
    if local.len() > MAX_LOCAL {
        return Err("is too long before the @ (more than 64 octets)");
    }
    let Some(domain) = ascii_domain(domain).filter(|domain| is_domain(domain)) else {
        return Err("has no valid domain after the @");
    };
    if local.len() + 1 + domain.len() > MAX_ADDRESS {
        return Err("is too long (more than 254 octets)");
    }
    // The mail library must be able to write the address to the relay; one that it refuses could never be sent to.
    match lettre::Address::new(local, &domain) {
        Ok(_) => Ok(format!("{local}@{domain}")),
        Err(_) => Err("is not an address"),
    }
}

/// The domain in ASCII and lower case; `None` where IDNA refuses it.
fn ascii_domain(domain: &str) -> Option<String> {
    if domain.is_ascii() {
        return Some(domain.to_ascii_lowercase());
    }
    idna::domain_to_ascii(domain).ok()
}

/// Whether `domain` (ASCII, lower case) is a host name or an address literal.
fn is_domain(domain: &str) -> bool {
    if let Some(literal) = domain.strip_prefix('[') {
        let Some(literal) = literal.strip_suffix(']') else { return false };
        return match literal.strip_prefix("ipv6:") {
            Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
            None => literal.parse::<Ipv4Addr>().is_ok(),
        };
    }
    domain.len() <= MAX_DOMAIN
        && domain.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
}

#[cfg(test)]
mod tests;
