//! A point where a part of the stage stands still: it says that it is there, and goes on when it is released. Between the
//! two a test does what must happen at exactly this point: kills the process at the other end, or lets a clock run.
//!
//! The wire's proxy, the relay, the broker and the object store set them ([`crate::postgres::CuttingProxy::trap`],
//! [`crate::smtp::SmtpServer::trap`], [`crate::broker::Broker::trap_ack`], [`crate::google::GoogleFake::trap`]). Each catches
//! once. If the test dies or drops its half, the caught part goes on: nothing hangs for ever.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::watch;

/// The end of a caught step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Goes on as if nothing had been.
    Release,
    /// The step is lost: the connection ends here (the relay, the database), or the ack is forgotten (the broker).
    Cut,
}

/// The test's half of a trap.
#[derive(Debug)]
#[must_use = "dropping it releases whoever is caught"]
pub struct Trapped {
    caught: watch::Receiver<Option<Instant>>,
    fate: watch::Sender<Option<Fate>>,
}

impl Trapped {
    /// Waits until somebody stands there.
    ///
    /// # Errors
    /// The trap caught nothing in time.
    pub async fn hit(&self, patience: Duration) -> Result<()> {
        let mut caught = self.caught.clone();
        match tokio::time::timeout(patience, caught.wait_for(Option::is_some)).await {
            Ok(Ok(_)) => Ok(()),
            // The part that set it is gone, and its last word stays readable.
            Ok(Err(_)) if self.is_hit() => Ok(()),
            Ok(Err(_)) => bail!("the part with the trap has ended, and nobody was caught"),
            Err(_) => bail!("nobody was caught within {patience:?}"),
        }
    }

    /// Whether the trap has caught something.
    #[must_use]
    pub fn is_hit(&self) -> bool {
        self.caught.borrow().is_some()
    }

    /// Time since the catch; zero before it. A part kept longer than its own timers allow goes on without the reply
    /// it waits for.
    #[must_use]
    pub fn caught_for(&self) -> Duration {
        self.caught.borrow().map(|since| now().saturating_duration_since(since)).unwrap_or_default()
    }

    /// Lets the caught part go on. A trap that has caught nothing yet will stop nothing.
    pub fn release(self) {
        self.fate.send_replace(Some(Fate::Release));
    }

    /// Ends the caught part here: what was held back is lost. A trap that has caught nothing yet cuts the first to come.
    pub fn cut(self) {
        self.fate.send_replace(Some(Fate::Cut));
    }
}

/// The half of the part that stands still.
#[derive(Debug)]
pub(crate) struct Snare {
    caught: watch::Sender<Option<Instant>>,
    fate: watch::Receiver<Option<Fate>>,
}

impl Snare {
    /// Makes both halves.
    pub(crate) fn set() -> (Self, Trapped) {
        let (reports, caught) = watch::channel(None);
        let (decides, fate) = watch::channel(None);
        (Self { caught: reports, fate }, Trapped { caught, fate: decides })
    }

    /// Says "here" and stands still until its fate is decided.
    pub(crate) async fn stand(mut self) -> Fate {
        self.caught.send_replace(Some(now()));
        // A test that is gone has no wish: released. The decision stays readable after its sender went.
        let decided = self.fate.wait_for(Option::is_some).await.map(|fate| *fate);
        decided.ok().or_else(|| Some(*self.fate.borrow())).flatten().unwrap_or(Fate::Release)
    }
}

#[expect(clippy::disallowed_methods, reason = "real processes are held back, in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Snares that wait for the n-th to come by, each for a kind of moment.
#[derive(Debug)]
pub(crate) struct Snares<Moment>(Vec<(Moment, u64, Snare)>);

impl<Moment> Default for Snares<Moment> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Moment> Snares<Moment> {
    /// Sets one for the `nth` (from 1) to come by from now on.
    pub(crate) fn set(&mut self, moment: Moment, nth: u64) -> Trapped {
        let (snare, trapped) = Snare::set();
        self.0.push((moment, nth.max(1), snare));
        trapped
    }

    /// Counts this moment at every snare for it; the first whose count is reached catches.
    pub(crate) fn pass(&mut self, here: impl Fn(&Moment) -> bool) -> Option<Snare> {
        let mut caught = None;
        for (place, (wanted, left, _)) in self.0.iter_mut().enumerate() {
            if here(wanted) {
                *left = left.saturating_sub(1);
                if *left == 0 && caught.is_none() {
                    caught = Some(place);
                }
            }
        }
        caught.map(|place| self.0.remove(place).2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn the_nth_is_caught_and_meets_its_fate() {
        let mut snares = Snares::default();
        let (second, third) = (snares.set("a", 2), snares.set("a", 3));
        assert!(snares.pass(|m| *m == "b").is_none());
        assert!(snares.pass(|m| *m == "a").is_none());
        let standing = tokio::spawn(snares.pass(|m| *m == "a").expect("the second").stand());
        second.hit(SOON).await.unwrap();
        assert!(!standing.is_finished() && !third.is_hit());
        second.cut();
        assert_eq!(standing.await.unwrap(), Fate::Cut);
        let standing = tokio::spawn(snares.pass(|m| *m == "a").expect("the third").stand());
        third.hit(SOON).await.unwrap();
        drop(third);
        assert_eq!(standing.await.unwrap(), Fate::Release, "nobody hangs when the test is gone");
        assert!(snares.pass(|m| *m == "a").is_none());
    }

    #[tokio::test]
    async fn who_was_decided_beforehand_is_not_caught() {
        let (snare, trapped) = Snare::set();
        trapped.cut();
        assert_eq!(snare.stand().await, Fate::Cut);
        let (snare, trapped) = Snare::set();
        drop(snare);
        assert!(trapped.hit(SOON).await.is_err());
    }
}
