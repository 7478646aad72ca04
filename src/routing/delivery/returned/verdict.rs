//! What follows from a returned mail: pure. Only what a token of ours proves to be about a mail of ours is believed.

use super::super::Seen;
use super::super::sender::{ReturnAddress, TRIAL};
use crate::ports::{Returned, ReturnedKind};
use crate::routing::message_id::{self, Origin};

/// See [`verdict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It tells what became of a mail of ours for some recipients.
    Report(Vec<Seen>),
    /// A mail of no submission came back: one of `test-send` or `check --send`.
    Trial,
    /// Nothing follows from an absence, nor from a receipt of the mail.
    AutoReply,
    /// Nor from somebody's having read it.
    Receipt,
    /// No token of ours, or not one of our secrets' making: whoever sent it knows nothing that only we could have told.
    Foreign,
    /// It answers a mail of ours, and a person must read it.
    NotUnderstood {
        /// The mail.
        origin: Origin,
        /// Why.
        why: &'static str,
    },
}

/// Decides about a returned mail. `ours` knows our tokens.
#[must_use]
pub fn verdict(mail: &Returned, ours: &ReturnAddress) -> Verdict {
    let origin = mail.to.iter().find_map(|address| ours.origin(address));
    match (&mail.kind, origin) {
        (ReturnedKind::AutoReply, _) => Verdict::AutoReply,
        (ReturnedKind::Receipt, _) => Verdict::Receipt,
        (ReturnedKind::Report(_) | ReturnedKind::NotUnderstood(_), None) => Verdict::Foreign,
        (ReturnedKind::NotUnderstood(why), Some(origin)) => Verdict::NotUnderstood { origin, why },
        (ReturnedKind::Report(_), Some(TRIAL)) => Verdict::Trial,
        (ReturnedKind::Report(recipients), Some(origin)) => {
            // What came back is told by whoever returned it: only the token is proved.
            let of_origin = |id: &&String| message_id::parse(id) == Some(origin);
            let message_id = mail.message_id.as_ref().filter(of_origin);
            let seen = |recipient: &crate::ports::ReturnedRecipient| Seen {
                origin,
                recipient: recipient.address.clone(),
                status: recipient.status,
                at: mail.at,
                queue_id: None,
                proved: false,
                message_id: message_id.cloned(),
                dsn: recipient.dsn.clone(),
                relay: recipient.relay.clone(),
                text: recipient.text.clone(),
            };
            Verdict::Report(recipients.iter().map(seen).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ports::{RelayStatus, ReturnedRecipient};

    const ORIGIN: Origin = Origin { submission: Uuid::from_u128(7), action_order: 2, generation: 1 };

    fn ours() -> ReturnAddress {
        ReturnAddress::new("bounces@example.org", "0123456789abcdef0123456789abcdef").expect("a secret")
    }

    fn returned(to: &[String], kind: ReturnedKind) -> Returned {
        let message_id = Some(message_id::message_id(ORIGIN, "it@example.org"));
        Returned { to: to.to_vec(), kind, at: None, message_id }
    }

    fn report() -> ReturnedKind {
        ReturnedKind::Report(vec![ReturnedRecipient {
            address: "a@example.net".to_owned(),
            rewritten: None,
            status: RelayStatus::Bounced,
            dsn: Some("5.1.1".to_owned()),
            relay: Some("mx.example.net".to_owned()),
            text: "no such user".to_owned(),
        }])
    }

    #[test]
    fn only_a_token_of_ours_is_believed() {
        let (plain, proved) = ("bounces@example.org".to_owned(), ours().sender(ORIGIN));
        let other =
            ReturnAddress::new("bounces@example.org", "f123456789abcdef0123456789abcdef").expect("a secret");
        let not_understood = || ReturnedKind::NotUnderstood("in words");
        let cases: Vec<(Vec<String>, ReturnedKind, Verdict)> = vec![
            (vec![plain.clone()], report(), Verdict::Foreign),
            (vec![], report(), Verdict::Foreign),
            (vec![other.sender(ORIGIN)], report(), Verdict::Foreign),
            (vec![plain], not_understood(), Verdict::Foreign),
            (
                vec![other.sender(ORIGIN), proved.to_ascii_uppercase()],
                not_understood(),
                Verdict::NotUnderstood { origin: ORIGIN, why: "in words" },
            ),
            (vec![proved.clone()], ReturnedKind::AutoReply, Verdict::AutoReply),
            (vec![], ReturnedKind::AutoReply, Verdict::AutoReply),
            (vec![proved.clone()], ReturnedKind::Receipt, Verdict::Receipt),
            (vec![ours().sender(TRIAL)], report(), Verdict::Trial),
        ];
        for (to, kind, expected) in cases {
            assert_eq!(verdict(&returned(&to, kind.clone()), &ours()), expected, "{to:?} {kind:?}");
        }
        let Verdict::Report(seen) = verdict(&returned(&[proved], report()), &ours()) else {
            panic!("a report")
        };
        assert_eq!(
            seen,
            [Seen {
                origin: ORIGIN,
                recipient: "a@example.net".to_owned(),
                status: RelayStatus::Bounced,
                at: None,
                queue_id: None,
                proved: false,
                message_id: Some(message_id::message_id(ORIGIN, "it@example.org")),
                dsn: Some("5.1.1".to_owned()),
                relay: Some("mx.example.net".to_owned()),
                text: "no such user".to_owned(),
            }]
        );
    }

    #[test]
    fn a_message_id_that_the_token_does_not_prove_is_not_taken_over() {
        let other = Origin { submission: Uuid::from_u128(8), ..ORIGIN };
        let mail = returned(&[ours().sender(other)], report());
        let Verdict::Report(seen) = verdict(&mail, &ours()) else { panic!("a report") };
        assert_eq!((seen[0].origin, &seen[0].message_id), (other, &None));
    }
}
