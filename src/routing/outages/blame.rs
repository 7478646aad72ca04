//! The cause of a delivery that stays open: the dependency that was out, or the delivery itself.
//!
//! The cause decides which breaker gets it, and whether an attempt is given back (protocol, "Outages"). Invariant: nothing
//! here does I/O, and no address leaves this process.

use crate::ports::{Fault, Outcome, Stage};

/// Evidence of one send about the relay, over all its recipients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayNews {
    /// The relay took a mail, or refused it for the recipients' sake: it works.
    Passed {
        /// Indices of the accepted recipients.
        accepted: Vec<usize>,
    },
    /// The connection failed: no server, lost, silent, or turned away before any recipient was named.
    Lost(String),
    /// No recipient was accepted, and some were denied for a reason that seems to be about this host.
    Denied {
        /// Indices of the denied recipients.
        recipients: Vec<usize>,
        /// Reply of the relay.
        what: String,
    },
    /// The relay was not asked.
    Nothing,
}

/// Reads the outcomes of one send. An acceptance outweighs all else, a broken connection outweighs a denial.
#[must_use]
pub fn relay_news(outcomes: &[Outcome]) -> RelayNews {
    let (mut accepted, mut denied, mut asked) = (Vec::new(), Vec::new(), false);
    let (mut lost, mut said) = (None, None);
    for (index, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Outcome::Accepted { .. } => accepted.push(index),
            Outcome::Deferred(fault) | Outcome::Unknown(fault) => match relay_fault(fault) {
                Some(RelayFault::Connection) => lost = lost.or(Some(fault)),
                Some(RelayFault::Denial) => {
                    denied.push(index);
                    said = said.or(Some(fault));
                }
                None => asked |= fault.reply.code.is_some(),
            },
            Outcome::Refused(fault) => asked |= fault.reply.code.is_some(),
            // No mail.
            Outcome::Created { .. } | Outcome::NotImplemented => {}
        }
    }
    match (accepted.is_empty(), lost, said) {
        (false, _, _) => RelayNews::Passed { accepted },
        (true, Some(fault), _) => RelayNews::Lost(text(fault)),
        (true, None, Some(fault)) => RelayNews::Denied { recipients: denied, what: text(fault) },
        (true, None, None) if asked => RelayNews::Passed { accepted },
        (true, None, None) => RelayNews::Nothing,
    }
}

/// A fault for the relay's breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelayFault {
    Connection,
    Denial,
}

fn relay_fault(fault: &Fault) -> Option<RelayFault> {
    let before_recipients = match fault.stage {
        Stage::Connect | Stage::Banner | Stage::Ehlo | Stage::Starttls | Stage::Auth | Stage::Mail => true,
        Stage::Rcpt | Stage::Data | Stage::Dot => false,
        Stage::Address | Stage::Template | Stage::Sign | Stage::Fence => return None,
        // A ticket's stages: no relay has a part in them.
        Stage::Contact | Stage::Category | Stage::Field | Stage::Get | Stage::Post => return None,
    };
    if !fault.about_us {
        return None;
    }
    // Without a code there was no answer; 421 is a server that goes away.
    let connection = before_recipients || matches!(fault.reply.code, None | Some(421));
    Some(if connection { RelayFault::Connection } else { RelayFault::Denial })
}

/// Cause of a delivery that was not sent to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// The relay.
    Relay,
    /// The signer of links.
    Signer,
    /// The database: it could not confirm the claim in time.
    Postgres,
    /// The delivery itself, or an unknown cause.
    Itself,
}

/// The cause of this outcome; `None` for an outcome that leaves nothing open.
///
/// A delivery that perhaps arrived always blames itself: an attempt that may have reached a recipient is never given back.
#[must_use]
pub fn blame(outcome: &Outcome) -> Option<Blame> {
    match outcome {
        Outcome::Accepted { .. }
        | Outcome::Created { .. }
        | Outcome::Refused(_)
        | Outcome::NotImplemented => None,
        Outcome::Unknown(_) => Some(Blame::Itself),
        Outcome::Deferred(fault) if relay_fault(fault).is_some() => Some(Blame::Relay),
        Outcome::Deferred(fault) if fault.stage == Stage::Sign && fault.about_us => Some(Blame::Signer),
        Outcome::Deferred(fault) if fault.stage == Stage::Fence => Some(Blame::Postgres),
        Outcome::Deferred(_) => Some(Blame::Itself),
    }
}

/// Causes of the deliveries left open under one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tally {
    by_outage: bool,
    by_itself: bool,
}

impl Tally {
    /// A delivery stays open because a dependency is out.
    pub fn outage(&mut self) {
        self.by_outage = true;
    }

    /// A delivery stays open because it is paused.
    pub fn paused(&mut self) {
        self.by_outage = true;
    }

    /// A delivery stays open for a reason of its own.
    pub fn itself(&mut self) {
        self.by_itself = true;
    }

    /// Whether the attempt is given back when the claim ends with something open: every delivery left open was left so by an
    /// outage or a pause, and there is such a delivery.
    #[must_use]
    pub fn refunds(self) -> bool {
        self.by_outage && !self.by_itself
    }

    /// Whether nothing under this claim has cost its attempt yet: then an early end (a stop, a shut gate) gives the attempt
    /// back. A delivery that perhaps arrived has cost it, however the claim ends (P8).
    #[must_use]
    pub fn is_unspent(self) -> bool {
        !self.by_itself
    }
}

/// The signer's fault among outcomes decided without a send, where there is one.
#[must_use]
pub fn signer_fault<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Option<String> {
    outcomes.into_iter().find_map(|outcome| match outcome {
        Outcome::Deferred(fault) if blame(outcome) == Some(Blame::Signer) => Some(fault.reply.reply.clone()),
        Outcome::Deferred(_)
        | Outcome::Accepted { .. }
        | Outcome::Created { .. }
        | Outcome::Refused(_)
        | Outcome::Unknown(_)
        | Outcome::NotImplemented => None,
    })
}

/// A fault in words: stage, codes, what was said.
pub(super) fn text(fault: &Fault) -> String {
    let stage = serde_json::to_value(fault.stage).ok().and_then(|stage| stage.as_str().map(str::to_owned));
    let mut words = vec![stage.unwrap_or_default()];
    words.extend(fault.reply.code.map(|code| code.to_string()));
    words.extend(fault.reply.enhanced.clone());
    words.push(fault.reply.reply.clone());
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Reply;

    fn fault(stage: Stage, code: Option<u16>, about_us: bool) -> Fault {
        Fault { stage, reply: Reply { code, enhanced: None, reply: "said".to_owned() }, about_us }
    }

    fn deferred(stage: Stage, code: Option<u16>, about_us: bool) -> Outcome {
        Outcome::Deferred(fault(stage, code, about_us))
    }

    fn accepted() -> Outcome {
        Outcome::Accepted { reply: Reply::default(), queue_id: None }
    }

    #[test]
    fn what_a_send_says_of_the_relay() {
        use Stage::{Address, Banner, Connect, Data, Dot, Ehlo, Fence, Mail, Rcpt};
        let lost = |text: &str| RelayNews::Lost(text.to_owned());
        let denied = |recipients: &[usize]| RelayNews::Denied {
            recipients: recipients.to_vec(),
            what: "RCPT 554 said".to_owned(),
        };
        let passed = |accepted: &[usize]| RelayNews::Passed { accepted: accepted.to_vec() };
        let relay_denied = || deferred(Rcpt, Some(554), true);
        let table = [
            (vec![deferred(Connect, None, true)], lost("connect said")),
            (vec![deferred(Banner, Some(554), true)], lost("banner 554 said")),
            (vec![deferred(Ehlo, Some(550), true)], lost("EHLO 550 said")),
            (vec![deferred(Mail, Some(452), true)], lost("MAIL 452 said")),
            (vec![deferred(Rcpt, None, true)], lost("RCPT said")),
            (vec![deferred(Data, Some(421), true)], lost("DATA 421 said")),
            (vec![Outcome::Unknown(fault(Dot, None, true))], lost("dot said")),
            (vec![relay_denied()], denied(&[0])),
            (vec![deferred(Rcpt, Some(450), false), relay_denied()], denied(&[1])),
            (vec![relay_denied(), accepted()], passed(&[1])),
            (vec![relay_denied(), deferred(Data, None, true)], lost("DATA said")),
            (vec![accepted(), accepted()], passed(&[0, 1])),
            (vec![deferred(Rcpt, Some(450), false)], passed(&[])),
            (vec![Outcome::Refused(fault(Rcpt, Some(550), false))], passed(&[])),
            (vec![Outcome::Refused(fault(Address, None, false))], RelayNews::Nothing),
            (vec![deferred(Fence, None, false)], RelayNews::Nothing),
            (vec![Outcome::NotImplemented], RelayNews::Nothing),
            (vec![], RelayNews::Nothing),
        ];
        for (outcomes, expected) in table {
            assert_eq!(relay_news(&outcomes), expected, "{outcomes:?}");
        }
    }

    #[test]
    fn whom_an_open_delivery_blames() {
        let table = [
            (accepted(), None),
            (Outcome::NotImplemented, None),
            (Outcome::Refused(fault(Stage::Rcpt, Some(550), false)), None),
            (Outcome::Unknown(fault(Stage::Dot, None, true)), Some(Blame::Itself)),
            (deferred(Stage::Connect, None, true), Some(Blame::Relay)),
            (deferred(Stage::Rcpt, Some(554), true), Some(Blame::Relay)),
            (deferred(Stage::Rcpt, Some(450), false), Some(Blame::Itself)),
            (deferred(Stage::Sign, None, true), Some(Blame::Signer)),
            (deferred(Stage::Sign, None, false), Some(Blame::Itself)),
            (deferred(Stage::Template, None, false), Some(Blame::Itself)),
            (deferred(Stage::Fence, None, false), Some(Blame::Postgres)),
        ];
        for (outcome, expected) in table {
            assert_eq!(blame(&outcome), expected, "{outcome:?}");
        }
    }

    #[test]
    fn an_attempt_is_given_back_only_when_an_outage_alone_left_things_open() {
        for (outage, itself, refunds) in
            [(false, false, false), (true, false, true), (false, true, false), (true, true, false)]
        {
            let mut tally = Tally::default();
            if outage {
                tally.outage();
            }
            if itself {
                tally.itself();
            }
            assert_eq!((tally.refunds(), tally.is_unspent()), (refunds, !itself));
        }
    }
}
