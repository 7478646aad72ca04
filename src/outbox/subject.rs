//! A dead letter as the subject of a review: a look at it, and its redrive, as `dlq redrive` does it.
//!
//! All of it happens in the caller's transaction: a row of the outbox is delivered again; a message of Pub/Sub's that names a
//! submission is replaced by an event of the outbox. If we die before the commit nothing happened. Nothing goes over the
//! network from here.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use uuid::Uuid;

use super::journal;
use super::store::OutboxStore;
use super::store::dead_letters::DeadLetter;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::subject::{Evidence, Looked, OnAccount, Remedied, Remedy, Subject};

/// The kind of these subjects.
pub const KIND: &str = "dead_letter";
/// The verb of a redrive in the journal.
pub const REDRIVE: &str = "dlq redrive";
/// The reason in the event that is written in place of a message: a person asked for it.
const OPERATOR: &str = "operator";

/// The dead-letter records of one database.
#[derive(Debug, Clone)]
pub struct DeadLetterSubject {
    /// The records, and the rows that some are about.
    pub store: OutboxStore,
}

impl Subject for DeadLetterSubject {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[Remedy::Check, Remedy::Redrive]
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        async move { Ok(self.store.dead_letter(id).await?.as_ref().map_or(Looked::Gone, evidence)) }.boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        async move { self.store.hold_dead_letter(tx, id).await.map(drop) }.boxed()
    }

    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move {
            match remedy {
                Remedy::Check => Ok(Remedied::Done),
                Remedy::Redrive => self.redrive(tx, id, account).await,
                Remedy::Replay | Remedy::Replan | Remedy::ForceDelivery | Remedy::Release => {
                    Ok(Remedied::Refused(format!("a dead letter has no remedy {remedy}")))
                }
            }
        }
        .boxed()
    }
}

impl DeadLetterSubject {
    async fn redrive(&self, tx: &Transaction, id: Uuid, account: OnAccount<'_>) -> Result<Remedied, DbError> {
        let OnAccount { actor, reason, .. } = account;
        let Some(letter) = self.store.hold_dead_letter(tx, id).await? else {
            return refused("there is no such dead letter");
        };
        if letter.redriven.as_ref().is_some_and(|(who, why)| who == actor && why == reason) {
            // The same act once more: the answer to its commit was lost.
            return Ok(Remedied::Done);
        }
        if letter.redriven.is_some() || letter.discarded {
            return refused("it is closed already");
        }
        match (letter.row, letter.submission) {
            (Some(row), _) => {
                if let Some(why) = self.store.redrive_in(tx, row, actor, reason).await?.refusal() {
                    return Ok(Remedied::Refused(why));
                }
            }
            (None, Some(submission)) => {
                let (both, by) = ((id, submission), (actor, reason));
                self.store.announce_in_place_of(tx, both, OPERATOR, by).await?;
            }
            (None, None) => {
                return refused(
                    "its message names no submission, so that only its topic can take it again: `maple-router dlq redrive` \
                     publishes it",
                );
            }
        }
        let (actor, reason) = (actor.to_owned(), reason.to_owned());
        tx.on_commit(move || journal::dead_letter_closed(id, letter.submission, (&actor, REDRIVE, &reason)));
        Ok(Remedied::Done)
    }
}

fn refused(why: &str) -> Result<Remedied, DbError> {
    Ok(Remedied::Refused(why.to_owned()))
}

/// Decides what can be said of a dead letter.
fn evidence(letter: &DeadLetter) -> Looked {
    let mut what = Vec::new();
    if letter.discarded {
        what.push("the dead letter was discarded by somebody: nothing was delivered, a person has to vouch for that");
    } else if letter.redriven.is_none() {
        what.push("the dead letter is open: nobody has had it delivered again");
    }
    match (letter.submission, letter.known) {
        (None, _) => what.push("its message names no submission"),
        (Some(_), false) => what.push("the submission it names is not known"),
        (Some(_), true) if !letter.ended => what.push("the submission it names has not ended"),
        (Some(_), true) => {}
    }
    if what.is_empty() {
        return Looked::Sufficient(Evidence::Redriven);
    }
    Looked::Missing {
        what: what.into_iter().map(str::to_owned).collect(),
        failure: None,
        mendable: letter.known && letter.redriven.is_none() && !letter.discarded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_is_well_once_it_is_redriven_and_its_submission_has_ended() {
        const OPEN: &str = "the dead letter is open: nobody has had it delivered again";
        const DISCARDED: &str = "the dead letter was discarded by somebody: nothing was delivered, a person has to vouch for that";
        const NOBODY: &str = "its message names no submission";
        const UNKNOWN: &str = "the submission it names is not known";
        const GOES_ON: &str = "the submission it names has not ended";
        // Redriven, discarded; the submission named, known, ended; what is missing.
        let cases = [
            ([true, false], [true, true, true], vec![]),
            ([true, false], [true, true, false], vec![GOES_ON]),
            ([true, false], [true, false, false], vec![UNKNOWN]),
            ([true, false], [false, false, false], vec![NOBODY]),
            ([false, false], [true, true, true], vec![OPEN]),
            ([false, false], [true, false, false], vec![OPEN, UNKNOWN]),
            ([false, false], [false, false, false], vec![OPEN, NOBODY]),
            ([false, true], [true, true, true], vec![DISCARDED]),
            ([false, true], [true, false, false], vec![DISCARDED, UNKNOWN]),
        ];
        for ([redriven, discarded], [named, known, ended], missing) in cases {
            let letter = DeadLetter {
                row: None,
                submission: named.then_some(Uuid::nil()),
                known,
                ended,
                redriven: redriven.then(|| ("operator:x".to_owned(), "because".to_owned())),
                discarded,
            };
            let expected = if missing.is_empty() {
                Looked::Sufficient(Evidence::Redriven)
            } else {
                Looked::Missing {
                    what: missing.iter().map(|&what| what.to_owned()).collect(),
                    failure: None,
                    mendable: known && !redriven && !discarded,
                }
            };
            assert_eq!(evidence(&letter), expected, "{letter:?}");
        }
    }
}
