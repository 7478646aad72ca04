//! The Message-ID of a mail: a pure function of submission, action and generation.
//!
//! If we die in the middle of a send, the next attempt makes the same identifier again, so that the relay's log can
//! resolve a doubt and a reader's mail client fold a repeated mail into one (protocol, "send"). The identifier is never
//! random, and never depends on the attempt or the recipient.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Source of a Message-ID of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The submission.
    pub submission: Uuid,
    /// Order of the action in the plan.
    pub action_order: i32,
    /// Generation of the action; raised only by an operator's `replay --force-action` or `--force-delivery`.
    pub generation: u32,
}

/// First part of every Message-ID of ours.
const PREFIX: &str = "maple";

/// Returns `<maple.SUBMISSION.ORDER.GENERATION@DOMAIN>` with the domain of `from`, an address such as `it@example.org`.
///
/// Characters that RFC 5322 does not allow in a Message-ID's domain are left out; `localhost` replaces a domain of which
/// nothing remains.
#[must_use]
pub fn message_id(origin: Origin, from: &str) -> String {
    let Origin { submission, action_order, generation } = origin;
    let domain = id_domain(from.rsplit_once('@').map_or("", |(_, domain)| domain));
    format!("<{PREFIX}.{}.{action_order}.{generation}@{domain}>", submission.simple())
}

/// The domain as RFC 5322 allows it to the right of the @: a dot-atom or a bracketed literal.
fn id_domain(raw: &str) -> String {
    let literal = raw.starts_with('[') && raw.ends_with(']') && raw.matches(['[', ']']).count() == 2;
    let kept: String = raw
        .chars()
        .filter(|c| {
            c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') || (literal && "[]:".contains(*c))
        })
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let labels: Vec<&str> = kept.split('.').filter(|label| !label.is_empty()).collect();
    if labels.is_empty() { "localhost".to_owned() } else { labels.join(".") }
}

/// Parses a Message-ID, with or without its angle brackets; `None` for a foreign one.
///
/// The domain is not compared: `mail.from` may have changed since the mail was sent.
#[must_use]
pub fn parse(message_id: &str) -> Option<Origin> {
    let trimmed = message_id.trim();
    let bare = trimmed.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(trimmed);
    let (left, domain) = bare.split_once('@')?;
    if domain.is_empty() {
        return None;
    }
    let mut parts = left.split('.');
    if parts.next() != Some(PREFIX) {
        return None;
    }
    let (submission, order, generation) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let origin = Origin {
        submission: Uuid::try_parse(submission).ok()?,
        action_order: order.parse().ok()?,
        generation: generation.parse().ok()?,
    };
    // `+1`, `01` or a hyphenated UUID would parse without being our own spelling.
    let canonical =
        format!("{PREFIX}.{}.{}.{}", origin.submission.simple(), origin.action_order, origin.generation);
    (left == canonical).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin =
        Origin { submission: Uuid::from_u128(0x0123_4567_89ab_cdef), action_order: 2, generation: 1 };

    #[test]
    fn stable_and_readable_back() {
        let id = message_id(ORIGIN, "gpus-it-security@Greenpeace.org");
        assert_eq!(id, "<maple.00000000000000000123456789abcdef.2.1@greenpeace.org>");
        assert_eq!(id, message_id(ORIGIN, "other@greenpeace.org"), "only the domain of the sender counts");
        assert_eq!(parse(&id), Some(ORIGIN));
        assert_eq!(parse(id.trim_matches(['<', '>'])), Some(ORIGIN));
    }

    #[test]
    fn every_part_makes_a_difference() {
        let base = message_id(ORIGIN, "a@x.org");
        for other in [
            Origin { submission: Uuid::nil(), ..ORIGIN },
            Origin { action_order: 3, ..ORIGIN },
            Origin { action_order: -2, ..ORIGIN },
            Origin { generation: 2, ..ORIGIN },
        ] {
            let id = message_id(other, "a@x.org");
            assert_ne!(id, base);
            assert_eq!(parse(&id), Some(other));
        }
    }

    #[test]
    fn odd_senders_still_give_a_valid_id() {
        assert!(message_id(ORIGIN, "nonsense").ends_with("@localhost>"));
        assert!(message_id(ORIGIN, "a@[192.0.2.1]").ends_with("@[192.0.2.1]>"));
        assert!(message_id(ORIGIN, "a@.x..org.").ends_with("@x.org>"));
        assert!(message_id(ORIGIN, "A <a@x.org>\r\nBcc: y").ends_with("@x.orgbccy>"));
    }

    #[test]
    fn foreign_ids_are_not_ours() {
        for foreign in [
            "",
            "<>",
            "<20260604.1@example.org>",
            "<maple.1@example.org>",
            "<maple.00000000-0000-0000-0123-456789abcdef.2.1@x.org>",
            "<maple.00000000000000000123456789abcdef.+2.1@x.org>",
            "<maple.00000000000000000123456789abcdef.02.1@x.org>",
            "<maple.00000000000000000123456789abcdef.2.1.9@x.org>",
            "<maple.00000000000000000123456789abcdef.2.1@>",
            "<maple.00000000000000000123456789abcdef.2.-1@x.org>",
        ] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
