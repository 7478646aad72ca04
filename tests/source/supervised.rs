//! A source as the daemon has it: under the supervisor that builds anew what has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_router::ops::supervised::{self, Open};
use maple_router::ports::EventSource;
use uuid::Uuid;

use crate::rig::Rig;

/// A rig whose source can be built again and again, and what it is called then.
pub(crate) trait Rebuilt: Rig {
    const SUPERVISED: &'static str;

    fn opener(&self) -> Open;
}

/// The same server, and instances that are supervised.
pub(crate) struct Supervised<R>(R);

impl<R: Rebuilt> Rig for Supervised<R> {
    const NAME: &'static str = R::SUPERVISED;
    const SHARE: usize = R::SHARE;
    const LEASE: Duration = R::LEASE;
    const REPEATS_EXHAUSTED: bool = R::REPEATS_EXHAUSTED;
    // The supervisor's own promise.
    const PAUSES: bool = true;

    async fn set_up() -> Self {
        Self(R::set_up().await)
    }

    async fn open(&self) -> Box<dyn EventSource> {
        Box::new(supervised::Supervised::new(self.0.opener(), 1, |_| {}))
    }

    async fn announce(&self, count: usize) -> BTreeSet<Uuid> {
        self.0.announce(count).await
    }

    async fn announce_garbage(&self) -> bool {
        self.0.announce_garbage().await
    }

    async fn leased(&self) -> usize {
        self.0.leased().await
    }

    async fn left(&self) -> usize {
        self.0.left().await
    }

    async fn set_aside(&self) -> usize {
        self.0.set_aside().await
    }

    async fn away(&mut self) {
        self.0.away().await;
    }

    async fn back(&mut self) {
        self.0.back().await;
    }
}
