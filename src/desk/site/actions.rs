//! The forms of an entry's page: each command of its state that this person may give, with what it needs. Pure.

use crate::desk::access::{Role, User, Visitor};
use crate::desk::pages::decision::{Action, Ask, FieldError, NotNow, Typed};
use crate::desk::pages::queue::Choice;
use crate::grey_queue::decide::{GRADING_QUEUE, Possible, Verb};
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::State;
use crate::kernel::subject::Remedy;

use super::words::{choice, command, remedy};

/// What the forms are made from.
pub(super) struct Offer<'a> {
    pub(super) entry: &'a Entry,
    pub(super) possible: &'a [Possible],
    pub(super) remedies: &'static [Remedy],
    /// Whoever can get a mail once more.
    pub(super) recipients: Vec<Choice>,
    /// The evidence is sufficient.
    pub(super) proved: bool,
    pub(super) visitor: &'a Visitor,
    pub(super) users: &'a [User],
}

impl Offer<'_> {
    /// The forms, the likeliest first.
    pub(super) fn actions(&self, key: impl Fn() -> String) -> Vec<Action> {
        let mut asks: Vec<(usize, Ask)> =
            self.possible.iter().filter(|one| one.allowed).flat_map(|one| self.asks(one.command)).collect();
        asks.sort_by_key(|(rank, _)| *rank);
        let action = |(_, ask)| Action {
            ask,
            idempotency_key: key(),
            typed: Typed::default(),
            error: None::<FieldError>,
        };
        asks.into_iter().map(action).collect()
    }

    /// The commands that are not possible now, and why.
    pub(super) fn not_now(&self) -> Vec<NotNow> {
        // Whoever has it needs no word on why it cannot be taken.
        let is_mine = self.is_mine();
        let said = |one: &Possible| !(is_mine && one.command == Verb::Assign);
        let not = self.possible.iter().filter(|one| said(one));
        not.filter_map(|one| {
            Some(NotNow { command: command(one.command), why: sentence(one.why_not.as_deref()?) })
        })
        .collect()
    }

    fn is_mine(&self) -> bool {
        self.entry.assignee.as_deref() == Some(self.visitor.user.as_str())
    }

    fn asks(&self, verb: Verb) -> Vec<(usize, Ask)> {
        match verb {
            Verb::Assign => self.assign(),
            Verb::Unassign => vec![(7, Ask::Unassign)],
            Verb::Escalate => vec![(5, Ask::Escalate)],
            Verb::DeEscalate => vec![(4, Ask::DeEscalate)],
            Verb::Resolve => self.resolve(),
            // A grade is owed whatever was handed in.
            Verb::Reject if self.entry.queue == GRADING_QUEUE => Vec::new(),
            Verb::Reject => vec![(6, Ask::Reject)],
            Verb::Dismiss => vec![(6, Ask::Dismiss)],
            // Both are the same for a failed entry.
            Verb::Reopen if self.entry.state == State::Failed => Vec::new(),
            Verb::Reopen => vec![(0, Ask::Reopen)],
            Verb::Reset => vec![(0, Ask::Reset)],
            Verb::Start => {
                let remedies = self.offered();
                if remedies.is_empty() { Vec::new() } else { vec![(3, Ask::Start(remedies))] }
            }
        }
    }

    fn assign(&self) -> Vec<(usize, Ask)> {
        if self.entry.state == State::UnderReview {
            let from = self.entry.assignee.clone().unwrap_or_default();
            return vec![(8, Ask::TakeOver(from))];
        }
        let mut asks = vec![(0, Ask::AssignToMe)];
        if self.visitor.role == Role::Admin {
            let others = self.reviewers();
            if !others.is_empty() {
                asks.push((4, Ask::AssignTo(others)));
            }
        }
        asks
    }

    /// Whoever else may decide this entry.
    fn reviewers(&self) -> Vec<Choice> {
        let least = match self.entry.queue.as_str() {
            "security" => Role::Security,
            GRADING_QUEUE => Role::Instructor,
            _ => Role::Reviewer,
        };
        let others = self.users.iter().filter(|user| user.role >= least && user.name != self.visitor.user);
        others.map(|user| choice(&user.name, &format!("{}, {}", user.name, user.role))).collect()
    }

    fn resolve(&self) -> Vec<(usize, Ask)> {
        let remedies = self.offered();
        let mut asks = Vec::new();
        if !remedies.is_empty() || self.proved {
            asks.push((1, Ask::Resolve { remedies, by_evidence: self.proved }));
        }
        // A work's entry ends with a grade, which has a form of its own; nobody vouches for one.
        if !self.proved && self.entry.queue != GRADING_QUEUE {
            asks.push((2, Ask::Vouch));
        }
        asks
    }

    fn offered(&self) -> Vec<crate::desk::pages::decision::Remedy> {
        self.remedies.iter().filter_map(|one| remedy(*one, &self.recipients)).collect()
    }
}

/// The words with a capital and a full stop.
pub(super) fn sentence(words: &str) -> String {
    let mut letters = words.trim_end_matches('.').chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).chain(['.']).collect()
}
