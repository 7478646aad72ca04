//! State of the model: one submission, two workers, a sweeper, the relay, and how many faults are left.
//!
//! A row is kept as small as the protocol allows; [`super::product`] makes it the product's own ledger, and asks
//! the product's own decisions. Tokens are renamed after every step, so that two worlds that differ only in who
//! minted what are one.

use maple_router::routing::outages::blame::Tally;
use maple_router::routing::submission::ledger::{DeliveryState, FailReason};
use maple_router::routing::table::Status;

/// Deliveries of a submission.
pub(crate) const DELIVERIES: usize = 2;
/// Workers; each is a daemon with one slot.
pub(crate) const WORKERS: usize = 2;
/// Generations a delivery can have: a replay by force makes the second.
pub(crate) const GENERATIONS: usize = 2;

/// A claim token: 0 belongs to nobody any more, 1 and 2 to the worker of that number, 3 to a claim whose worker is gone.
pub(crate) type Token = u8;
/// No worker's token.
pub(crate) const GONE: Token = 0;
/// The live claim of a worker that is gone.
pub(crate) const ORPHANED: Token = 3;

/// The form as the YAML loader last wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    First,
    Second,
    WithoutActions,
}

/// The one attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Attachment {
    Clean,
    Pending,
    Infected,
}

/// One delivery's entry in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Entry {
    pub(crate) state: DeliveryState,
    pub(crate) intent: Option<Token>,
    /// The claim that recorded what it is.
    pub(crate) by: Token,
    pub(crate) doubt: bool,
    pub(crate) doubted: bool,
    /// Failed because it was in doubt, under `hold`.
    pub(crate) on_hold: bool,
    /// The fact came after the end.
    pub(crate) late: bool,
}

/// The row of the submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) status: Status,
    pub(crate) attempts: u8,
    pub(crate) resets: u8,
    pub(crate) claim: Option<Token>,
    /// `next_attempt_at` has passed, or is not set.
    pub(crate) due: bool,
    /// The pinned plan.
    pub(crate) plan: Option<Form>,
    /// The plan whose deliveries were put into the ledger.
    pub(crate) expanded: Option<Form>,
    pub(crate) entries: [Entry; DELIVERIES],
    pub(crate) generation: [u8; DELIVERIES],
    pub(crate) finished: Option<(Token, Option<FailReason>)>,
}

/// A worker's answer for one delivery that is not recorded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Outcome {
    #[default]
    Nothing,
    Accepted,
    Deferred,
    Refused,
    Unknown,
    /// Not sent: in doubt, under `hold`.
    OnHold,
}

/// A worker's step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Step {
    #[default]
    Idle,
    /// The claim was sent, the answer was lost.
    Asking,
    /// Has a claim and the ledger as last read.
    Claimed,
    /// The intents are committed; the fence was not asked yet.
    AtFence,
    /// The fence let it pass: the final dot is being written.
    AtDot,
    /// Has outcomes to record, or none.
    Recording,
    /// Gives the claim back.
    Releasing { refund: bool },
    /// Ends the claim as failed, for an infected attachment.
    Failing,
    /// Committed; the event is still to be settled.
    Settling { ack: bool },
}

/// One worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Worker {
    pub(crate) step: Step,
    /// Holds an event; otherwise the sweep found the submission.
    pub(crate) event: bool,
    /// No write of it was confirmed for so long that the sweep takes its row.
    pub(crate) slow: bool,
    /// A stop was requested.
    pub(crate) stopping: bool,
    /// The ledger as last read: its plan and its entries.
    pub(crate) plan: Option<Form>,
    pub(crate) knows: [Entry; DELIVERIES],
    /// Actions tried under this claim, a bit each.
    pub(crate) tried: u8,
    /// Actions whose tickets were looked for under this claim, a bit each.
    pub(crate) asked: u8,
    /// Deliveries of the send under way, a bit each, and their generation.
    pub(crate) keys: u8,
    pub(crate) generation: u8,
    pub(crate) outcomes: [Outcome; DELIVERIES],
    /// An earlier try to record this committed, but its answer was lost.
    pub(crate) repeated: bool,
    /// The product's own account of what was left open under this claim, and why.
    pub(crate) tally: Tally,
    /// An answer under this claim left open whether the mail is out.
    pub(crate) perhaps_sent: bool,
}

/// Facts that could not be recorded, in the state directory of one daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Spool {
    /// The worker whose daemon knows of them.
    pub(crate) host: u8,
    pub(crate) token: Token,
    pub(crate) facts: u8,
    pub(crate) generation: u8,
}

/// Faults that may still happen: of each kind, and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) in_all: u8,
    pub(crate) crashes: u8,
    /// A worker falls behind, or is frozen in front of the dot.
    pub(crate) slownesses: u8,
    pub(crate) stops: u8,
    /// Events lost or repeated.
    pub(crate) events: u8,
    pub(crate) reloads: u8,
    /// Changes of a clean attachment to pending or infected.
    pub(crate) rescans: u8,
    /// An answer of the relay or of the database is lost.
    pub(crate) answers: u8,
    /// The relay cannot be reached for one send.
    pub(crate) outages: u8,
    /// The policy that shows the attachment is dropped.
    pub(crate) hidings: u8,
    /// A row takes no fact for as long as its claim lasts.
    pub(crate) refusals: u8,
    pub(crate) replays: u8,
}

/// Events that no row shows: the witnesses of the laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Witness {
    /// Terminal transitions since the last replay, and audit rows of them.
    pub(crate) ends: u8,
    pub(crate) audits: u8,
    /// The status was changed by somebody whose claim was not the row's.
    pub(crate) stale_change: bool,
    /// A delivery was started that had its fact.
    pub(crate) intent_after_fact: bool,
    /// A delivery was started by a daemon that has facts of its submission in its state directory.
    pub(crate) intent_spooled: bool,
    /// A delivery was started while the attachment was not clean.
    pub(crate) intent_unclean: bool,
    /// A delivery was started while the attachment could not be seen.
    pub(crate) intent_hidden: bool,
    /// Claims since the last replay that were not given back by a stop, or before an intent.
    pub(crate) tries: u8,
    /// The sweep or the worker gave back the attempt of a claim under which something may have been sent.
    pub(crate) refunded_sent: bool,
    /// By delivery: a worker that may have sent it could not report it.
    pub(crate) unnotified: [bool; DELIVERIES],
    /// By delivery: somebody was making the ticket while its tag was looked for.
    pub(crate) overtaken: [bool; DELIVERIES],
    /// By delivery and generation: the ledger once said "in doubt".
    pub(crate) doubted: [[bool; GENERATIONS]; DELIVERIES],
}

/// The whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) row: Row,
    pub(crate) form: Form,
    pub(crate) attachment: Attachment,
    /// No policy shows the attachment to us: it looks as if it were not there.
    pub(crate) hidden: bool,
    /// Events waiting in the subscription.
    pub(crate) events: u8,
    pub(crate) workers: [Worker; WORKERS],
    pub(crate) spool: Option<Spool>,
    /// Mails accepted, by delivery and generation.
    pub(crate) relay: [[u8; GENERATIONS]; DELIVERIES],
    pub(crate) left: Left,
    pub(crate) witness: Witness,
}

impl World {
    /// A submission that has just been finalized, its event on the way.
    pub(crate) fn new(form: Form, left: Left) -> Self {
        let row = Row {
            status: Status::Received,
            attempts: 0,
            resets: 0,
            claim: None,
            due: true,
            plan: None,
            expanded: None,
            entries: [Entry::default(); DELIVERIES],
            generation: [0; DELIVERIES],
            finished: None,
        };
        Self {
            row,
            form,
            attachment: Attachment::Clean,
            hidden: false,
            events: 1,
            workers: [Worker::default(); WORKERS],
            spool: None,
            relay: [[0; GENERATIONS]; DELIVERIES],
            left,
            witness: Witness::default(),
        }
    }

    /// The attachment as a statement finds it.
    pub(crate) fn seen(&self) -> Attachment {
        if self.hidden { Attachment::Clean } else { self.attachment }
    }

    /// The token that worker `w` mints, and has for as long as it is not idle.
    pub(crate) fn token_of(w: usize) -> Token {
        if w == 0 { 1 } else { 2 }
    }

    /// Whether the claim of the row is worker `w`'s.
    pub(crate) fn is_claimed_by(&self, token: Token) -> bool {
        self.row.status == Status::Processing && self.row.claim == Some(token)
    }

    /// The sweep may take the row: its claim has not been touched for `stuck_after`.
    pub(crate) fn is_untouched(&self) -> bool {
        match self.row.claim {
            Some(token @ (1 | 2)) => self.workers[usize::from(token) - 1].slow,
            Some(_) | None => true,
        }
    }

    /// Worker `w` forgets everything; its event, if it still has one, comes again.
    pub(crate) fn idle(&mut self, w: usize, event_returns: bool) {
        if self.workers[w].event && event_returns {
            self.events = (self.events + 1).min(2);
        }
        self.workers[w] = Worker::default();
        let orphaned = self.row.claim == Some(Self::token_of(w));
        self.rename(Self::token_of(w), if orphaned { ORPHANED } else { GONE });
    }

    /// Takes down what the laws ask for later, and renames a token that nobody can use any more.
    pub(crate) fn tidy(&mut self) {
        for (d, entry) in self.row.entries.iter().enumerate() {
            let generation = usize::from(self.row.generation[d]);
            self.witness.doubted[d][generation] |= entry.doubt || entry.doubted;
        }
        if self.row.claim != Some(ORPHANED) {
            self.rename(ORPHANED, GONE);
        }
    }

    fn rename(&mut self, old: Token, new: Token) {
        let change = |token: &mut Token| {
            if *token == old {
                *token = new;
            }
        };
        let known = self.workers.iter_mut().flat_map(|worker| worker.knows.iter_mut());
        for entry in self.row.entries.iter_mut().chain(known) {
            entry.intent.as_mut().into_iter().for_each(change);
            change(&mut entry.by);
        }
        self.row.claim.as_mut().into_iter().for_each(change);
        self.spool.iter_mut().for_each(|spool| change(&mut spool.token));
        self.row.finished.iter_mut().for_each(|(token, _)| change(token));
    }
}

/// Whether bit `d` is set.
pub(crate) fn has(mask: u8, d: usize) -> bool {
    mask >> d & 1 == 1
}
