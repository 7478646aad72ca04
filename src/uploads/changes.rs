//! Changes of sessions, as this process tells itself of them: a commit that is due is begun at once, and whoever waits for its end
//! learns of it at once.
//!
//! They only make things faster. Nothing is kept: another daemon's changes, and one that nobody heard, are found by the next look.

use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

use crate::kernel::jobs::listener::Listener;

/// Ends that one who waits may be behind; beyond that it looks whether its own was among them.
const BEHIND: usize = 256;

/// The changes of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Changes {
    due: Arc<tokio::sync::Notify>,
    ended: broadcast::Sender<Uuid>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { due: Arc::default(), ended: broadcast::Sender::new(BEHIND) }
    }
}

impl Changes {
    /// Says that a commit is due.
    pub fn due(&self) {
        self.due.notify_one();
    }

    /// Says that the commit of a session has ended.
    pub fn ended(&self, upload: Uuid) {
        // Nobody may be waiting.
        drop(self.ended.send(upload));
    }

    /// A listener to commits that are due.
    #[must_use]
    pub fn listener(&self) -> Listener {
        Listener::to(Arc::clone(&self.due))
    }

    /// The end of one session's commit, from now on.
    #[must_use]
    pub fn end_of(&self, upload: Uuid) -> End {
        End { upload, ended: self.ended.subscribe() }
    }
}

/// The end of one session's commit.
#[derive(Debug)]
pub struct End {
    upload: Uuid,
    ended: broadcast::Receiver<Uuid>,
}

impl End {
    /// Resolves when the commit has ended, or may have. Dropped at any await, it may be waited for again.
    pub async fn come(&mut self) {
        loop {
            match self.ended.recv().await {
                Ok(upload) if upload != self.upload => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return,
                // The daemon stops: no commit ends here any more.
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn whoever_waits_hears_of_its_own_end_alone() {
        let changes = Changes::default();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut end = changes.end_of(one);
        changes.ended(other);
        assert!(end.come().now_or_never().is_none(), "another's end");
        changes.ended(one);
        assert!(end.come().now_or_never().is_some(), "its own");
        assert!(end.come().now_or_never().is_none(), "once");
    }

    #[test]
    fn whoever_is_far_behind_looks() {
        let changes = Changes::default();
        let mut end = changes.end_of(Uuid::from_u128(1));
        for other in 0..=BEHIND {
            changes.ended(Uuid::from_u128(1_000 + other as u128));
        }
        assert!(end.come().now_or_never().is_some(), "its own may be among those it has not heard of");
    }

    #[test]
    fn a_due_commit_is_told_also_to_who_listens_later() {
        let changes = Changes::default();
        changes.due();
        assert!(changes.listener().notifications().now_or_never().is_some());
        assert!(changes.listener().notifications().now_or_never().is_none());
    }
}
