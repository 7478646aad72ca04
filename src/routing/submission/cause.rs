//! Cause of a failed submission, as far as alerts distinguish failures: the reason, and the stage and code of the
//! refusal by the relay (or by us).
//!
//! Pure. The key is made in SQL from closed forms (`reason|stage|code|enhanced`), so that no document, however damaged,
//! and no reply puts its own text into it. A server's own wording is never part of a cause.

use super::ledger::FailReason;
use crate::ports::Runbook;

/// A cause, as read from its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause<'a> {
    /// `None`: the ledger names no reason that this version knows.
    pub reason: Option<FailReason>,
    /// `RCPT`, `550`, `5.1.1`: the parts that are known.
    pub details: Vec<&'a str>,
}

/// The runbook of an infected attachment.
const INFECTED: &str = "rb-008-infected-attachment.md";
/// The runbook of what screening keeps out.
const SCREENED_OUT: &str = "rb-014-screening.md";
/// The runbook of every other failure.
const FAILED: &str = "rb-009-routing-failure.md";

impl<'a> Cause<'a> {
    /// Reads a key.
    #[must_use]
    pub fn of(key: &'a str) -> Self {
        let mut parts = key.split('|');
        let reason = parts.next().and_then(FailReason::parse);
        Self { reason, details: parts.filter(|part| !part.is_empty()).collect() }
    }

    /// Describes the cause for people.
    #[must_use]
    pub fn words(&self) -> String {
        let meaning = self.reason.map_or("its ledger gives no reason", FailReason::meaning);
        let mut words = format!("submission failed: {meaning}");
        if !self.details.is_empty() {
            words.push_str(&format!(" ({})", self.details.join(" ")));
        }
        words
    }

    /// The runbook to follow; its section has the reason's own name.
    #[must_use]
    pub fn runbook(&self) -> Runbook {
        let file = match self.reason {
            Some(FailReason::Infected) => INFECTED,
            Some(FailReason::ScreenedOut) => SCREENED_OUT,
            Some(
                FailReason::Refused
                | FailReason::Exhausted
                | FailReason::NoActions
                | FailReason::LedgerDamaged
                | FailReason::InDoubt,
            )
            | None => FAILED,
        };
        Runbook { file, section: self.reason.map_or("unknown", FailReason::label) }
    }

    /// The command that lists the submissions of this cause.
    #[must_use]
    pub fn listing(&self) -> String {
        let all = "maple-router list --status failed";
        self.reason.map_or(all.to_owned(), |reason| format!("{all} --reason-code {}", reason.label()))
    }
}

/// Removes the recipient from a server's reply: neither the address nor one of its halves alone remains. `key` is the
/// delivery's (`1|a@example.org`).
#[must_use]
pub fn anonymous(reply: &str, key: &str) -> String {
    let address = key.split_once('|').map_or("", |(_, address)| address).to_lowercase();
    let (local, domain) = address.rsplit_once('@').unwrap_or((&address, ""));
    let names_somebody = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        !word.is_empty() && (word == local || word == domain)
    };
    let words = reply.split_inclusive(|c: char| c.is_whitespace() || "<>()[],;:'\"=".contains(c));
    let hidden = words.map(|piece| {
        let word = piece.trim_end_matches(|c: char| c.is_whitespace() || "<>()[],;:'\"=".contains(c));
        let rest = &piece[word.len()..];
        if names_somebody(word) { format!("…{rest}") } else { piece.to_owned() }
    });
    // Whole addresses come first: a half that is hidden would leave the other one visible.
    let whole: String = crate::scrub::scrub(reply);
    if whole == reply { hidden.collect() } else { anonymous(&whole, key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_becomes_words_a_runbook_and_a_command() {
        for (key, words, runbook, listing) in [
            (
                "refused|RCPT|550|5.1.1",
                "a delivery was refused for good (RCPT 550 5.1.1)",
                FAILED,
                " --reason-code refused",
            ),
            (
                "exhausted|connect||",
                "its attempts are spent and something is still open (connect)",
                FAILED,
                " --reason-code exhausted",
            ),
            ("refused|||", "a delivery was refused for good", FAILED, " --reason-code refused"),
            ("infected", "an attachment is infected (rb-008)", INFECTED, " --reason-code infected"),
            ("no_actions", "its form has no actions", FAILED, " --reason-code no_actions"),
            ("unknown", "its ledger gives no reason", FAILED, ""),
            ("", "its ledger gives no reason", FAILED, ""),
        ] {
            let cause = Cause::of(key);
            assert_eq!(cause.words(), format!("submission failed: {words}"), "{key}");
            assert_eq!(cause.runbook().file, runbook, "{key}");
            let section = key.split('|').next().filter(|word| !word.is_empty());
            assert_eq!(cause.runbook().section, section.unwrap_or("unknown"), "{key}");
            assert_eq!(cause.listing(), format!("maple-router list --status failed{listing}"), "{key}");
        }
    }

    #[test]
    fn a_reply_names_nobody() {
        for (reply, key, expected) in [
            ("<alice@x.test>: User unknown", "1|alice@x.test", "<address>: User unknown"),
            ("no user alice here", "1|alice@x.test", "no user … here"),
            ("no user 'Alice', at X.test.", "1|alice@x.test", "no user '…', at …"),
            ("user=alice is over quota", "1|alice@x.test", "user=… is over quota"),
            ("alice@x.test: alice unknown", "1|alice@x.test", "<address>: … unknown"),
            ("not an address", "1|!2", "not an address"),
            ("queue full", "2|", "queue full"),
            ("", "1|alice@x.test", ""),
            ("anything", "", "anything"),
        ] {
            assert_eq!(anonymous(reply, key), expected, "{reply}");
        }
    }
}
