//! Deliberate faults of a fake: a queue of mishaps, one per request, and one that lasts.
//!
//! Shared by the fakes of Google and Slack. In memory only; the script touches no request by itself, it only says
//! what the fake does with the next one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Answer this HTTP status, with the error body the real service would send.
    Status(u16),
    /// Answer 429 with `Retry-After` in seconds.
    RetryAfter(u64),
    /// Answer as usual, but only after this time.
    Delay(Duration),
    /// Take the request and never answer.
    Hang,
}

/// The fake's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Answer as the real service.
    Usual,
    /// Answer this status; seconds for `Retry-After`, where given.
    Fail(u16, Option<u64>),
}

/// The mishaps of one fake service.
#[derive(Debug, Default)]
pub struct Script {
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<Mishap>,
    always: Option<Mishap>,
}

impl Script {
    /// The next `times` requests meet `mishap`; after those queued before.
    pub fn next(&self, times: usize, mishap: Mishap) {
        self.with(|plan| plan.next.extend(std::iter::repeat_n(mishap, times)));
    }

    /// Every request meets `mishap` once the queue is empty, until [`Script::clear`].
    pub fn always(&self, mishap: Mishap) {
        self.with(|plan| plan.always = Some(mishap));
    }

    /// From now on all is well.
    pub fn clear(&self) {
        self.with(|plan| *plan = Plan::default());
    }

    /// Takes the next mishap and lives through its waiting part.
    pub(crate) async fn step(&self) -> Step {
        match self.with(|plan| plan.next.pop_front().or(plan.always)) {
            None => Step::Usual,
            Some(Mishap::Status(status)) => Step::Fail(status, None),
            Some(Mishap::RetryAfter(seconds)) => Step::Fail(429, Some(seconds)),
            Some(Mishap::Delay(time)) => {
                tokio::time::sleep(time).await;
                Step::Usual
            }
            Some(Mishap::Hang) => std::future::pending().await,
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Plan) -> T) -> T {
        change(&mut self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
