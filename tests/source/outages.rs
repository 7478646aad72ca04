//! The server goes away and comes back: the source, or its newly opened successor, goes on by itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use maple_router::ports::EventSource;
use uuid::Uuid;

use crate::rig::{PATIENCE, Rig, finish, is_done_with, named, next, until};

/// Longer than a connection that is merely lost; shorter than the steps in which Pub/Sub's client tries again.
const OUTAGE: Duration = Duration::from_secs(2);

/// Takes and finishes until all of them have come; a source that ends is opened again, as its supervisor does.
/// Events leased through an outage may come twice.
async fn work_off<R: Rig>(
    rig: &R,
    mut source: Box<dyn EventSource>,
    wanted: &BTreeSet<Uuid>,
) -> Box<dyn EventSource> {
    let started = Instant::now();
    let mut seen = BTreeSet::new();
    // An answer that was lost on the way is no answer: what it was for comes again.
    while seen != *wanted || rig.left().await > 0 {
        assert!(started.elapsed() < 2 * PATIENCE, "{}: {} of {} came", R::NAME, seen.len(), wanted.len());
        match tokio::time::timeout(Duration::from_secs(1), source.next()).await {
            Ok(Ok(event)) => {
                seen.extend(named(&event));
                finish(vec![event]);
            }
            Ok(Err(_ended)) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                source = rig.open().await;
            }
            Err(_nothing) => {}
        }
    }
    source
}

pub(crate) async fn goes_on_when_its_server_is_back<R: Rig>() {
    let mut rig = R::set_up().await;
    let mut source = rig.open().await;
    rig.announce(1).await;
    let event = next::<R>(&mut *source).await;
    finish(vec![event]);
    until::<R>("the answer", async || rig.left().await == 0).await;
    rig.away().await;
    // The receiver goes on asking.
    let during = tokio::time::timeout(OUTAGE, source.next()).await;
    assert!(!matches!(during, Ok(Ok(_))), "{}: from nowhere: {during:?}", R::NAME);
    if during.is_ok() {
        tokio::time::sleep(OUTAGE).await;
        source = Box::new(Ended);
    }
    rig.back().await;
    let announced = rig.announce(5).await;
    let source = work_off(&rig, source, &announced).await;
    is_done_with(&rig, source).await;
}

/// Events announced before and not taken, and those leased when the server went, are there afterwards.
pub(crate) async fn keeps_what_is_announced_while_its_server_is_away<R: Rig>() {
    let mut rig = R::set_up().await;
    let announced = rig.announce(8).await;
    let mut source = rig.open().await;
    let leased = vec![next::<R>(&mut *source).await, next::<R>(&mut *source).await];
    rig.away().await;
    tokio::time::sleep(OUTAGE).await;
    // No server gets the answer.
    drop(leased);
    rig.back().await;
    let source = work_off(&rig, source, &announced).await;
    is_done_with(&rig, source).await;
}

/// The source has ended, so that the next one is opened.
struct Ended;

impl EventSource for Ended {
    fn next(
        &mut self,
    ) -> futures::future::BoxFuture<'_, Result<maple_router::ports::Incoming, maple_router::ports::SourceError>>
    {
        let subscription = String::new();
        Box::pin(std::future::ready(Err(maple_router::ports::SourceError::Ended { subscription })))
    }

    fn quiet(&mut self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn stop(self: Box<Self>, _timeout: Duration) -> futures::future::BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }
}
