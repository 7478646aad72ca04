//! Something people must be told of that no row and no state tells: its finder learns when Slack has confirmed it.
//!
//! Bounded: a full queue refuses, and whoever asked asks again. If we die, every waiting finder learns that nobody was
//! told.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use crate::ports::{Runbook, Story};

/// Notices that may wait for the alerter to look.
const QUEUE: usize = 256;

/// What people must be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What happened, in words of a closed set: notices with the same cause share a message.
    pub cause: &'static str,
    /// One of them, by an id; never an address.
    pub sample: String,
    /// The command to run.
    pub command: String,
    /// What to read.
    pub runbook: Runbook,
}

type Asked = (Notice, oneshot::Sender<()>);

/// The handle for finders. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Alerts(mpsc::Sender<Asked>);

impl Alerts {
    /// Has people told. Resolves once Slack has confirmed the message it is in; resolves to an error when nobody will
    /// be told (too many wait, or the alerter has ended): raise it again later. Dropping the receiver takes it back.
    pub fn notice(&self, notice: Notice) -> oneshot::Receiver<()> {
        let (told, hear) = oneshot::channel();
        // A queue that is full or closed drops `told`: the receiver learns it at once.
        drop(self.0.try_send((notice, told)));
        hear
    }
}

/// Notices by cause, as the alerter keeps them.
#[derive(Debug)]
pub(super) struct Notices {
    asked: mpsc::Receiver<Asked>,
    piles: BTreeMap<&'static str, Pile>,
}

#[derive(Debug)]
struct Pile {
    sample: Notice,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Notices {
    pub(super) fn new() -> (Self, Alerts) {
        let (ask, asked) = mpsc::channel(QUEUE);
        (Self { asked, piles: BTreeMap::new() }, Alerts(ask))
    }

    /// Waits for the next. Cancel-safe. For ever where nobody can ask any more.
    pub(super) async fn heard(&mut self) {
        match self.asked.recv().await {
            Some(asked) => self.keep(asked),
            None => std::future::pending().await,
        }
    }

    /// Takes in what was asked, and lets go of what nobody waits for any more. Answers each cause, and whether there is
    /// something of it to tell.
    pub(super) fn gather(&mut self) -> Vec<(&'static str, bool)> {
        while let Ok(asked) = self.asked.try_recv() {
            self.keep(asked);
        }
        for pile in self.piles.values_mut() {
            pile.waiting.retain(|told| !told.is_closed());
        }
        let causes = self.piles.iter().map(|(cause, pile)| (*cause, !pile.waiting.is_empty())).collect();
        self.piles.retain(|_, pile| !pile.waiting.is_empty());
        causes
    }

    fn keep(&mut self, (notice, told): Asked) {
        let pile =
            self.piles.entry(notice.cause).or_insert_with(|| Pile { sample: notice, waiting: Vec::new() });
        pile.waiting.push(told);
    }

    /// How many of a cause wait, and what is told of them.
    pub(super) fn story(&self, cause: &str) -> Option<(usize, Story)> {
        let Pile { sample, waiting } = self.piles.get(cause)?;
        let story = Story {
            what: sample.cause.to_owned(),
            details: vec![format!("one of them: {}", sample.sample)],
            commands: vec![sample.command.clone()],
            runbook: sample.runbook,
        };
        Some((waiting.len(), story))
    }

    /// Slack confirmed it: everybody who waited learns it.
    pub(super) fn told(&mut self, cause: &str) {
        for told in self.piles.remove(cause).into_iter().flat_map(|pile| pile.waiting) {
            // Who has gone meanwhile does not need to know.
            told.send(()).unwrap_or_default();
        }
    }
}
