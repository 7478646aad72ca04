//! The subject of a review entry: what the room that owns it can say of it, and do for it, without the review's room knowing
//! that room.
//!
//! A look reads only. A remedy runs in the caller's transaction, in which the subject's row is locked before the entry's, and
//! leaves the record that a person's verb would leave; if we die before the commit, nothing happened.

use std::fmt::Debug;

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::words;

words! {
    /// What mends a subject; each is a verb that people have at the command line.
    Remedy {
        /// Only look: somebody mended it elsewhere.
        Check = "check",
        /// Route the submission again by its pinned plan.
        Replay = "replay",
        /// Route the submission again by the form's present actions.
        Replan = "replan",
        /// Send one delivery again, as another mail.
        ForceDelivery = "force_delivery",
        /// Give a claim back.
        Release = "release",
        /// Have a dead letter delivered again.
        Redrive = "redrive",
    }
}

words! {
    /// Why evidence sufficed.
    Evidence {
        /// Every delivery that the plan wants is delivered, by the relay's log.
        Delivered = "delivered",
        /// The submission is routed; nobody follows the relay's log.
        Routed = "routed",
        /// The dead letter was redriven, and its submission has ended.
        Redriven = "redriven",
    }
}

words! {
    /// A decision about an entry that is one about its subject.
    Decision {
        /// It is to be reviewed.
        Escalate = "escalate",
        /// The reviewer approves.
        Approve = "approve",
        /// It is rejected.
        Reject = "reject",
    }
}

/// How people decide about a subject whose entry is its own last word: the entry is taken, escalated, resolved or rejected, and each
/// of these is a transition of the subject, in the same transaction. Nothing else ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deciding {
    /// Whoever escalated does not approve.
    pub four_eyes: bool,
}

/// The state of a subject, as far as a review needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// Nothing is left to do.
    Sufficient(Evidence),
    /// Something is still missing. Words for people: closed words, codes and counts, no address.
    Missing {
        /// What is missing, one sentence each.
        what: Vec<String>,
        /// The newest failure's key (the token of its end), while the subject stands failed.
        failure: Option<String>,
        /// Whether a remedy may help by itself: the form has actions, the submission of an event is known.
        mendable: bool,
    },
    /// The subject was emptied by retention, or is not there.
    Gone,
}

/// On whose account a remedy is carried out.
#[derive(Debug, Clone, Copy)]
pub struct OnAccount<'a> {
    /// `reviewer:NAME`, `operator:NAME` or the daemon's own name.
    pub actor: &'a str,
    /// Why, as that person said.
    pub reason: &'a str,
    /// The attempt: `ENTRY:ATTEMPT`, kept beside the override.
    pub review: &'a str,
    /// The delivery's key, for [`Remedy::ForceDelivery`].
    pub delivery: Option<&'a str>,
}

/// What became of a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedied {
    /// It is done, and follows its course.
    Done,
    /// It is not possible now; the words of the verb that refused it.
    Refused(String),
}

/// The room of a kind of subjects.
pub trait Subject: Debug + Send + Sync {
    /// The kind: `submission`, `dead_letter`.
    fn kind(&self) -> &'static str;

    /// The remedies that this kind of subject has; [`Remedy::Check`] among them.
    fn remedies(&self) -> &'static [Remedy];

    /// How people decide about it; absent where evidence ends an entry, and remedies bring it.
    fn deciding(&self) -> Option<Deciding> {
        None
    }

    /// Takes the subject's own transition of a decision in `tx`, its row locked before the entry.
    fn decide<'a>(
        &'a self,
        _tx: &'a Transaction,
        _id: Uuid,
        decision: Decision,
        _account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        let refused = Remedied::Refused(format!("{decision} is no decision about a {}", self.kind()));
        Box::pin(async move { Ok(refused) })
    }

    /// Looks at the subject. Reads only.
    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>>;

    /// Locks the subject's row in `tx`; to be called before the entry is locked.
    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>>;

    /// Carries `remedy` out in `tx`.
    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>>;
}
