//! Notices: alerts that no row and no state stores, whose callers learn when Slack has confirmed them.
//!
//! Bounded: a full queue refuses, and the caller asks again. If we die, every waiting caller learns that nobody was
//! notified.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use crate::ports::{Runbook, Story};

/// Notices that may wait for the alerter's next look.
const QUEUE: usize = 256;

/// An event that people must be notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The event, in words of a closed set: notices with the same cause share a message.
    pub cause: &'static str,
    /// One of the subjects, by an id; never an address.
    pub sample: String,
    /// The command to run.
    pub command: String,
    /// The runbook to read.
    pub runbook: Runbook,
}

type Asked = (Notice, oneshot::Sender<()>);

/// The handle for callers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Alerts(mpsc::Sender<Asked>);

impl Alerts {
    /// Has people notified. Resolves once Slack has confirmed the notice's message; resolves to an error when that will not
    /// happen (too many wait, or the alerter has ended): raise it again later. Dropping the receiver withdraws the notice.
    pub fn notice(&self, notice: Notice) -> oneshot::Receiver<()> {
        let (notified, hear) = oneshot::channel();
        // A queue that is full or closed drops `notified`: the receiver learns that at once.
        drop(self.0.try_send((notice, notified)));
        hear
    }
}

/// Notices by cause, for the alerter.
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

    /// Waits for the next notice. Cancel-safe. Never resolves once all handles are gone.
    pub(super) async fn asked(&mut self) {
        match self.asked.recv().await {
            Some(asked) => self.keep(asked),
            None => std::future::pending().await,
        }
    }

    /// Takes in new notices, and drops those whose receivers are gone. Returns each cause, and whether it has something to
    /// report.
    pub(super) fn gather(&mut self) -> Vec<(&'static str, bool)> {
        while let Ok(asked) = self.asked.try_recv() {
            self.keep(asked);
        }
        for pile in self.piles.values_mut() {
            pile.waiting.retain(|notified| !notified.is_closed());
        }
        let causes = self.piles.iter().map(|(cause, pile)| (*cause, !pile.waiting.is_empty())).collect();
        self.piles.retain(|_, pile| !pile.waiting.is_empty());
        causes
    }

    fn keep(&mut self, (notice, notified): Asked) {
        let pile =
            self.piles.entry(notice.cause).or_insert_with(|| Pile { sample: notice, waiting: Vec::new() });
        pile.waiting.push(notified);
    }

    /// Returns the number of a cause's notices, and their story.
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

    /// Resolves the notices of a cause that Slack confirmed.
    pub(super) fn notified(&mut self, cause: &str) {
        for notified in self.piles.remove(cause).into_iter().flat_map(|pile| pile.waiting) {
            // A receiver that is gone does not need the result.
            notified.send(()).unwrap_or_default();
        }
    }
}
