//! The content of a returned mail: a delivery status notification (RFC 3464), or something that is none. Pure.
//!
//! Anybody may have written the mail: nothing here panics, and every list and text is bounded. The reader never
//! believes anything: the caller, who knows the tokens, asks whether the report is about a mail of ours.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::fields::{Fields, blocks, body, decoded, kind, parts};
use crate::ports::{RelayStatus, Returned, ReturnedKind, ReturnedRecipient};

/// Recipients that are looked at: an action has at most as many (`mail.max_recipients`).
const MOST_RECIPIENTS: usize = 1_000;
/// Addresses that are looked at for a token.
const MOST_ADDRESSES: usize = 16;
/// Characters of a quoted reply.
const LONGEST_TEXT: usize = 500;
/// Characters of an address, a host, an identifier.
const LONGEST_WORD: usize = 320;
/// Fields with the address a mail came to, the most reliable first: Postfix and others write the first two.
const TO: [&str; 4] = ["X-Original-To", "Delivered-To", "Envelope-To", "To"];

/// Reads a returned mail.
#[must_use]
pub fn read(raw: &[u8]) -> Returned {
    let Some(fields) = Fields::of(raw) else {
        return Returned {
            to: Vec::new(),
            kind: ReturnedKind::NotUnderstood("it has no header"),
            at: None,
            message_id: None,
        };
    };
    let content_type = fields.content_type();
    let boundary = content_type.and_then(|content_type| content_type.attribute("boundary"));
    let parts = match (kind(content_type).as_str(), boundary) {
        ("multipart/report", Some(boundary)) => parts(body(raw), boundary),
        _ => Vec::new(),
    };
    let report = content_type.and_then(|content_type| content_type.attribute("report-type"));
    let report = report.unwrap_or_default().to_ascii_lowercase();
    let status = parts.iter().find(|part| {
        let kind = Fields::of(part).map(|fields| kind(fields.content_type())).unwrap_or_default();
        ["message/delivery-status", "message/global-delivery-status"].contains(&kind.as_str())
    });
    let (kind, at) = match status {
        Some(part) => delivery_status(&decoded(part)),
        None => (other(&fields, &report), None),
    };
    Returned {
        to: TO
            .iter()
            .flat_map(|name| fields.all(name))
            .filter_map(|value| address(&value))
            .take(MOST_ADDRESSES)
            .collect(),
        kind,
        at: at.or_else(|| fields.first("Date").and_then(|date| time(&date))),
        message_id: parts.iter().find_map(|part| message_id(part)),
    }
}

/// A mail that reports no delivery.
fn other(fields: &Fields<'_>, report: &str) -> ReturnedKind {
    let automatic = fields.first("Auto-Submitted").is_some_and(|value| !value.eq_ignore_ascii_case("no"));
    let vacation = ["X-Autoreply", "X-Autorespond", "X-Auto-Response-From"];
    if report == "disposition-notification" {
        ReturnedKind::Receipt
    } else if report == "delivery-status" {
        ReturnedKind::NotUnderstood("it calls itself a report of a delivery, and has none")
    } else if !report.is_empty() {
        ReturnedKind::NotUnderstood("it reports something else than a delivery")
    } else if fields.first("X-Failed-Recipients").is_some() {
        // Old versions of Exim say so, and it is no absence.
        ReturnedKind::NotUnderstood("it tells of a failure in words only")
    } else if automatic || vacation.iter().any(|name| fields.first(name).is_some()) {
        ReturnedKind::AutoReply
    } else {
        ReturnedKind::NotUnderstood("it has no report: a person wrote it, or a mail server of old")
    }
}

/// The fields of `message/delivery-status`: a block about the message, then one for each recipient.
fn delivery_status(text: &[u8]) -> (ReturnedKind, Option<Timestamp>) {
    let (mut found, mut at, mut reporter) = (Vec::new(), None, None);
    for block in blocks(text).take(MOST_RECIPIENTS + 1) {
        let Some(fields) = Fields::of(&block) else { continue };
        reporter = reporter.or_else(|| fields.first("Reporting-MTA").and_then(|value| host(&value)));
        at = at.or_else(|| fields.first("Last-Attempt-Date").and_then(|date| time(&date)));
        found.extend(recipient(&fields, reporter.as_deref()));
    }
    found.truncate(MOST_RECIPIENTS);
    let kind = if found.is_empty() {
        ReturnedKind::NotUnderstood("its report names no recipient with an action we know")
    } else {
        ReturnedKind::Report(found)
    };
    (kind, at)
}

fn recipient(fields: &Fields<'_>, reporter: Option<&str>) -> Option<ReturnedRecipient> {
    let of = |name: &str| fields.first(name).and_then(|value| typed_address(&value));
    let (original, final_) = (of("Original-Recipient"), of("Final-Recipient"));
    let address = original.clone().or_else(|| final_.clone())?;
    let dsn = fields.first("Status").and_then(|value| enhanced(&value));
    let status = match first_word(&fields.first("Action")?).to_ascii_lowercase().as_str() {
        // A transient last word: the reporting host has given up, as the relay's own log calls it.
        "failed" if dsn.as_deref().is_some_and(|dsn| dsn.starts_with('4')) => RelayStatus::Expired,
        "failed" => RelayStatus::Bounced,
        "delayed" => RelayStatus::Deferred,
        "delivered" | "relayed" | "expanded" => RelayStatus::Delivered,
        _ => return None,
    };
    let said = fields.first("Diagnostic-Code").map(|value| behind_type(&value).to_owned());
    Some(ReturnedRecipient {
        rewritten: final_.filter(|known| !known.eq_ignore_ascii_case(&address)),
        address,
        status,
        dsn,
        relay: fields
            .first("Remote-MTA")
            .and_then(|value| host(&value))
            .or_else(|| reporter.map(str::to_owned)),
        text: said.unwrap_or_default().chars().take(LONGEST_TEXT).collect(),
    })
}

/// The Message-ID of the mail that came back, from the part that contains it or its header.
fn message_id(part: &[u8]) -> Option<String> {
    let of_part = Fields::of(part)?;
    let kind = kind(of_part.content_type());
    let holds = ["message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers"];
    if !holds.contains(&kind.as_str()) {
        return None;
    }
    let id = Fields::of(body(part))?.first("Message-ID")?;
    (id.len() <= LONGEST_WORD).then_some(id)
}

/// `rfc822; user@example.org`; an address of another kind is none of ours.
fn typed_address(value: &str) -> Option<String> {
    let (kind, rest) = value.split_once(';')?;
    let kind = kind.trim();
    (kind.eq_ignore_ascii_case("rfc822") || kind.eq_ignore_ascii_case("utf-8"))
        .then(|| address(rest))
        .flatten()
}

/// One address, bare or the last in angle brackets.
fn address(value: &str) -> Option<String> {
    let bare = match (value.rfind('<'), value.rfind('>')) {
        (Some(from), Some(to)) if from < to => value.get(from + 1..to)?,
        _ => value,
    };
    let bare = bare.trim();
    let fits = bare.len() <= LONGEST_WORD && bare.contains('@') && !bare.chars().any(char::is_whitespace);
    fits.then(|| bare.to_owned())
}

/// `dns; mx.example.org (192.0.2.1)`: the name alone.
fn host(value: &str) -> Option<String> {
    let host = first_word(behind_type(value)).trim_end_matches('.');
    (!host.is_empty() && host.len() <= LONGEST_WORD).then(|| host.to_owned())
}

/// RFC 3463: `5.1.1`, whatever follows it.
fn enhanced(value: &str) -> Option<String> {
    let word = first_word(value);
    let numbers: Vec<&str> = word.split('.').collect();
    let [class, subject, detail] = numbers.as_slice() else { return None };
    let short = |text: &&str| (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    (["2", "4", "5"].contains(class) && short(subject) && short(detail)).then(|| word.to_owned())
}

fn time(value: &str) -> Option<Timestamp> {
    let value = value.get(..100).unwrap_or(value);
    DateTimeParser::new().parse_timestamp(value).ok()
}

/// The text after `type;`.
fn behind_type(value: &str) -> &str {
    value.split_once(';').map_or(value, |(_, rest)| rest).trim()
}

fn first_word(value: &str) -> &str {
    value.split([' ', '(', ',']).find(|word| !word.is_empty()).unwrap_or_default()
}
