//! The one classifier of a relay's answers: the outcome of one delivery (protocol, "Outcome of one delivery").
//!
//! Pure. Everything that is not a clear word of the relay is transient before the final dot and unknown after it;
//! nothing here ever turns silence into a refusal or an acceptance.

use super::reply::{queue_id, remark, reply};
use crate::ports::{Fault, Outcome, Reply, Stage};
use crate::scrub::scrub;

/// Reply, or lack of one, at one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageReply {
    /// A reply: its code, and its lines joined.
    Said {
        /// Three digits.
        code: u16,
        /// Text after the code.
        text: String,
    },
    /// No reply: refused, lost or timed out. The text is ours.
    Broken(String),
    /// Not SMTP, or sent before it was asked for. The text is ours.
    Astray(String),
}

impl StageReply {
    /// Says whether questions and answers are out of step, so that no answer of a group can be believed: the reply
    /// is none, or grants something that was not asked at `stage`.
    #[must_use]
    pub fn is_astray(&self, stage: Stage) -> bool {
        match self {
            Self::Broken(_) => false,
            Self::Astray(_) => true,
            Self::Said { code, .. } => match code / 100 {
                2 => stage == Stage::Data,
                3 => stage != Stage::Data,
                4 | 5 => false,
                _ => true,
            },
        }
    }
}

/// Effect of a reply on the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyEffect {
    /// The next command may be given.
    Granted,
    /// The recipients concerned have their outcome.
    Settled {
        /// Outcome of this recipient at RCPT, else of all that are open.
        outcome: Outcome,
        /// The dialogue is in step and the relay still listens: the connection may be used again.
        reusable: bool,
    },
}

/// Turns the reply at `stage` into its effect.
#[must_use]
pub fn classify(stage: Stage, stage_reply: StageReply) -> ReplyEffect {
    let (code, text) = match stage_reply {
        StageReply::Said { code, text } => (code, text),
        StageReply::Broken(what) | StageReply::Astray(what) => return broken(stage, remark(&what)),
    };
    let said = reply(code, &text);
    match (code / 100, stage) {
        (2, Stage::Dot) => {
            let queue_id = queue_id(&said.reply);
            ReplyEffect::Settled { outcome: Outcome::Accepted { reply: said, queue_id }, reusable: true }
        }
        (3, Stage::Data) => ReplyEffect::Granted,
        (2, _) if stage != Stage::Data => ReplyEffect::Granted,
        (4, _) => {
            let closing = code == 421;
            let about_us = closing || before_recipients(stage);
            settled(Outcome::Deferred, stage, said, about_us, !closing)
        }
        (5, _) if is_too_large(stage, &said) => settled(Outcome::Refused, stage, said, false, true),
        (5, _) if before_recipients(stage) || is_about_us(&said) => {
            settled(Outcome::Deferred, stage, said, true, true)
        }
        (5, _) => settled(Outcome::Refused, stage, said, false, true),
        // A success that is none at this stage: question and answer are out of step.
        _ => broken(stage, said),
    }
}

fn settled(
    kind: fn(Fault) -> Outcome,
    stage: Stage,
    reply: Reply,
    about_us: bool,
    reusable: bool,
) -> ReplyEffect {
    ReplyEffect::Settled { outcome: kind(Fault { stage, reply, about_us }), reusable }
}

/// Connection-level trouble: the final dot divides what is surely not sent from what is in doubt.
fn broken(stage: Stage, reply: Reply) -> ReplyEffect {
    let kind = if stage == Stage::Dot { Outcome::Unknown } else { Outcome::Deferred };
    settled(kind, stage, reply, true, false)
}

/// Stages before any recipient has been named: a refusal there can only be about us.
fn before_recipients(stage: Stage) -> bool {
    match stage {
        Stage::Connect | Stage::Banner | Stage::Ehlo | Stage::Starttls | Stage::Auth | Stage::Mail => true,
        Stage::Address
        | Stage::Template
        | Stage::Sign
        | Stage::Rcpt
        | Stage::Data
        | Stage::Dot
        | Stage::Fence
        | Stage::Contact
        | Stage::Category
        | Stage::Field
        | Stage::Get
        | Stage::Post => false,
    }
}

/// The message itself is too large: waiting does not shrink it, whichever command is refused first.
fn is_too_large(stage: Stage, said: &Reply) -> bool {
    match said.enhanced.as_deref() {
        Some(enhanced) => enhanced == "5.3.4" && stage != Stage::Rcpt,
        None => said.code == Some(552) && matches!(stage, Stage::Mail | Stage::Data | Stage::Dot),
    }
}

/// A refusal that names the recipient but means this client, this sender or this relay's configuration.
fn is_about_us(said: &Reply) -> bool {
    // RFC 4954: authentication required, or too weak; RFC 3207: STARTTLS first. Never about a recipient.
    if matches!(said.code, Some(530 | 534 | 535 | 538)) {
        return true;
    }
    const ANY_POLICY: [&str; 4] =
        ["client host rejected", "sender address rejected", "helo command rejected", "ehlo command rejected"];
    const RELAY: [&str; 9] = [
        "relay access denied",
        "relay denied",
        "relaying denied",
        "relay not permitted",
        "not permitted to relay",
        "unable to relay",
        "relaying not allowed",
        "relaying is not allowed",
        "relaying is prohibited",
    ];
    // Addresses are taken out: a mailbox may be called relay.denied@.
    let text = scrub(&said.reply).to_ascii_lowercase();
    let policy = said.enhanced.as_deref().is_none_or(|enhanced| enhanced.starts_with("5.7."));
    ANY_POLICY.iter().any(|phrase| text.contains(phrase))
        || (policy && RELAY.iter().any(|phrase| text.contains(phrase)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Short {
        Granted,
        Accepted,
        Refused,
        Deferred,
        DeferredUs,
        Unknown,
    }
    use Short::{Accepted, Deferred, DeferredUs, Granted, Refused, Unknown};

    fn short(verdict: &ReplyEffect) -> (Short, bool) {
        match verdict {
            ReplyEffect::Granted => (Granted, true),
            ReplyEffect::Settled { outcome, reusable } => {
                let short = match outcome {
                    Outcome::Accepted { .. } => Accepted,
                    Outcome::Refused(fault) => {
                        assert!(!fault.about_us, "a refusal is never about us: {fault:?}");
                        Refused
                    }
                    Outcome::Deferred(fault) if fault.about_us => DeferredUs,
                    Outcome::Deferred(_) => Deferred,
                    Outcome::Unknown(_) => Unknown,
                    Outcome::Created { .. } | Outcome::NotImplemented => panic!("no relay says so"),
                };
                (short, *reusable)
            }
        }
    }

    const BEFORE: [Stage; 6] =
        [Stage::Connect, Stage::Banner, Stage::Ehlo, Stage::Starttls, Stage::Auth, Stage::Mail];

    #[test]
    fn a_break_is_transient_before_the_dot_and_unknown_after() {
        for stage_reply in [StageReply::Broken("gone".to_owned()), StageReply::Astray("what?".to_owned())] {
            for stage in BEFORE.into_iter().chain([Stage::Rcpt, Stage::Data]) {
                let found = classify(stage, stage_reply.clone());
                assert_eq!(short(&found), (DeferredUs, false), "{stage:?} {stage_reply:?}");
            }
            assert_eq!(
                short(&classify(Stage::Dot, stage_reply.clone())),
                (Unknown, false),
                "{stage_reply:?}"
            );
        }
    }

    #[test]
    fn answers_are_astray_when_they_are_none_or_grant_something_else() {
        let said = |code| StageReply::Said { code, text: String::new() };
        for (stage_reply, at_rcpt, at_data) in [
            (said(250), false, true),
            (said(354), true, false),
            (said(451), false, false),
            (said(550), false, false),
            (said(421), false, false),
            (said(199), true, true),
            (StageReply::Broken("gone".to_owned()), false, false),
            (StageReply::Astray("what?".to_owned()), true, true),
        ] {
            let found = [Stage::Mail, Stage::Rcpt, Stage::Data].map(|stage| stage_reply.is_astray(stage));
            assert_eq!(found, [at_rcpt, at_rcpt, at_data], "{stage_reply:?}");
        }
    }

    #[test]
    fn what_concerns_the_connection_concerns_us() {
        for stage in BEFORE {
            for (code, text, expected, reusable) in [
                (220, "welcome", Granted, true),
                (450, "4.7.1 later", DeferredUs, true),
                (421, "4.3.2 shutting down", DeferredUs, false),
                (550, "5.7.1 go away", DeferredUs, true),
                (554, "no", DeferredUs, true),
                (354, "what?", DeferredUs, false),
            ] {
                let found = classify(stage, StageReply::Said { code, text: text.to_owned() });
                assert_eq!(short(&found), (expected, reusable), "{stage:?} {code}");
            }
        }
    }

    #[test]
    fn the_protocols_outcome_table() {
        use Stage::{Data, Dot, Mail, Rcpt};
        for (stage, code, text, expected, reusable) in [
            (Rcpt, 250, "2.1.5 Ok", Granted, true),
            (Rcpt, 251, "will forward", Granted, true),
            (Rcpt, 550, "5.1.1 <bob@x>: Recipient address rejected: User unknown", Refused, true),
            (Rcpt, 552, "5.2.2 mailbox full", Refused, true),
            (Rcpt, 552, "mailbox full", Refused, true),
            (Rcpt, 553, "what a name", Refused, true),
            (Rcpt, 554, "5.7.1 <bob@x>: Recipient address rejected: Access denied", Refused, true),
            (Rcpt, 554, "5.7.1 <bob@x>: Relay access denied", DeferredUs, true),
            (Rcpt, 550, "5.7.1 Unable to relay", DeferredUs, true),
            (Rcpt, 550, "5.7.54 SMTP; Unable to relay recipient in non-accepted domain", DeferredUs, true),
            (Rcpt, 550, "relay not permitted", DeferredUs, true),
            (Rcpt, 550, "5.7.1 <bob@x>... Relaying denied", DeferredUs, true),
            (Rcpt, 554, "5.7.1 <unknown[10.0.0.1]>: Client host rejected: Access denied", DeferredUs, true),
            (Rcpt, 550, "5.1.8 <me@x>: Sender address rejected: Domain not found", DeferredUs, true),
            (Rcpt, 530, "5.7.0 Authentication required", DeferredUs, true),
            // The words of a relay's refusal inside an address, or about something else, are not one.
            (Rcpt, 550, "5.1.1 <relay.denied@x>: User unknown", Refused, true),
            (Rcpt, 550, "5.7.1 <\"relay access denied\"@x>: Recipient address rejected", Refused, true),
            (Rcpt, 550, "5.1.1 relay denied says the list owner", Refused, true),
            (Rcpt, 450, "4.2.0 greylisted", Deferred, true),
            (Rcpt, 452, "4.5.3 too many recipients", Deferred, true),
            (Rcpt, 421, "4.7.0 too many errors", DeferredUs, false),
            (Rcpt, 354, "huh", DeferredUs, false),
            (Rcpt, 199, "huh", DeferredUs, false),
            (Rcpt, 600, "huh", DeferredUs, false),
            (Mail, 552, "5.3.4 Message size exceeds fixed limit", Refused, true),
            (Mail, 552, "too big", Refused, true),
            (Mail, 552, "5.7.9 odd", DeferredUs, true),
            (Mail, 452, "4.3.1 Insufficient system storage", DeferredUs, true),
            (Data, 354, "go ahead", Granted, true),
            (Data, 250, "out of step", DeferredUs, false),
            (Data, 451, "4.3.0 later", Deferred, true),
            (Data, 554, "5.5.1 no valid recipients", Refused, true),
            (Data, 552, "too big", Refused, true),
            (Data, 421, "4.3.2 bye", DeferredUs, false),
            (Dot, 250, "2.0.0 Ok: queued as 4XYZ", Accepted, true),
            (Dot, 451, "4.3.0 queue file write error", Deferred, true),
            (Dot, 421, "4.3.2 bye", DeferredUs, false),
            (Dot, 550, "5.7.1 content rejected", Refused, true),
            (Dot, 552, "5.3.4 too big", Refused, true),
            (Dot, 554, "5.7.1 Relay access denied", DeferredUs, true),
            (Dot, 354, "huh", Unknown, false),
        ] {
            let found = classify(stage, StageReply::Said { code, text: text.to_owned() });
            assert_eq!(short(&found), (expected, reusable), "{stage:?} {code} {text}");
        }
    }

    #[test]
    fn an_acceptance_keeps_its_evidence() {
        let found =
            classify(Stage::Dot, StageReply::Said { code: 250, text: "2.0.0 Ok: queued as 4XYZ".to_owned() });
        let reply = Reply {
            code: Some(250),
            enhanced: Some("2.0.0".to_owned()),
            reply: "Ok: queued as 4XYZ".to_owned(),
        };
        let queue_id = Some("4XYZ".to_owned());
        assert_eq!(
            found,
            ReplyEffect::Settled { outcome: Outcome::Accepted { reply, queue_id }, reusable: true }
        );
    }
}
