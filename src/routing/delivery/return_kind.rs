//! Consequences of a returned mail: pure. Only a token of ours proves that it concerns a mail of ours.

use super::Seen;
use super::sender::{ReturnAddress, TRIAL};
use crate::ports::{Returned, ReturnedKind};
use crate::routing::submission::message_id;
use crate::routing::submission::message_id::Origin;

/// Judgement of a returned mail; see [`verdict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReturnKind {
    /// Reports the status of a mail of ours for some recipients.
    Report(Vec<Seen>),
    /// A mail of no submission came back: one of `test-send` or `check --send`.
    Trial,
    /// An automatic answer (absence, acknowledgement of the mail): nothing follows.
    AutoReply,
    /// A notice that the mail was read: nothing follows.
    Receipt,
    /// No token made from a secret of ours: the sender need not have received a mail of ours.
    Foreign,
    /// An answer to a mail of ours that a person must read.
    NotUnderstood {
        /// The mail.
        origin: Origin,
        /// Reason why it was not understood.
        why: &'static str,
    },
}

/// Decides about a returned mail. `ours` verifies our tokens.
#[must_use]
pub fn verdict(mail: &Returned, ours: &ReturnAddress) -> ReturnKind {
    let origin = mail.to.iter().find_map(|address| ours.origin(address));
    match (&mail.kind, origin) {
        (ReturnedKind::AutoReply, _) => ReturnKind::AutoReply,
        (ReturnedKind::Receipt, _) => ReturnKind::Receipt,
        (ReturnedKind::Report(_) | ReturnedKind::NotUnderstood(_), None) => ReturnKind::Foreign,
        (ReturnedKind::NotUnderstood(why), Some(origin)) => ReturnKind::NotUnderstood { origin, why },
        (ReturnedKind::Report(_), Some(TRIAL)) => ReturnKind::Trial,
        (ReturnedKind::Report(recipients), Some(origin)) => {
            // The report's content is the returning host's word: only the token is proved.
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
            ReturnKind::Report(recipients.iter().map(seen).collect())
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
        let cases: Vec<(Vec<String>, ReturnedKind, ReturnKind)> = vec![
            (vec![plain.clone()], report(), ReturnKind::Foreign),
            (vec![], report(), ReturnKind::Foreign),
            (vec![other.sender(ORIGIN)], report(), ReturnKind::Foreign),
            (vec![plain], not_understood(), ReturnKind::Foreign),
            (
                vec![other.sender(ORIGIN), proved.to_ascii_uppercase()],
                not_understood(),
                ReturnKind::NotUnderstood { origin: ORIGIN, why: "in words" },
            ),
            (vec![proved.clone()], ReturnedKind::AutoReply, ReturnKind::AutoReply),
            (vec![], ReturnedKind::AutoReply, ReturnKind::AutoReply),
            (vec![proved.clone()], ReturnedKind::Receipt, ReturnKind::Receipt),
            (vec![ours().sender(TRIAL)], report(), ReturnKind::Trial),
        ];
        for (to, kind, expected) in cases {
            assert_eq!(verdict(&returned(&to, kind.clone()), &ours()), expected, "{to:?} {kind:?}");
        }
        let ReturnKind::Report(seen) = verdict(&returned(&[proved], report()), &ours()) else {
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
        let ReturnKind::Report(seen) = verdict(&mail, &ours()) else { panic!("a report") };
        assert_eq!((seen[0].origin, &seen[0].message_id), (other, &None));
    }
}
