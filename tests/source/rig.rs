//! A case's needs of a source: both of its ends, and where its promise differs from the others'.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_router::ports::{EventSource, Incoming};
use maple_router::routing::event::{self, Parsed};
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
/// Long enough to believe that nothing comes; longer than a source's own poll and its longest back-off here.
pub(crate) const QUIET: Duration = Duration::from_millis(1_500);

/// Time for events on their way to arrive. A stream takes a moment to close, and an event sent into it meanwhile
/// waits for its lease to run out, as do those that a dead process had.
pub(crate) const MOMENT: Duration = Duration::from_millis(500);

/// A source, as a case sees it.
pub(crate) trait Rig: Sized + Sync {
    /// Name in a failure.
    const NAME: &'static str;
    /// Most events that one instance holds unanswered.
    const SHARE: usize;
    /// Longest wait of others for the leases of an instance that died.
    const LEASE: Duration;
    /// Whether the event of a submission ended for want of attempts comes again (until it is set aside).
    const REPEATS_EXHAUSTED: bool;
    /// Whether `pause` stops the delivery of events. By default a source that is not asked is paused enough.
    const PAUSES: bool;

    /// A server of one's own, and nothing announced.
    async fn set_up() -> Self;

    /// Opens one instance.
    async fn open(&self) -> Box<dyn EventSource>;

    /// Makes so many submissions ready, with their events on their way.
    async fn announce(&self, count: usize) -> BTreeSet<Uuid>;

    /// Sends something that is no event. False where nothing of that kind can come.
    async fn announce_garbage(&self) -> bool;

    /// Events that some instance holds, as the server counts.
    async fn leased(&self) -> usize;

    /// Events that are not done with, leased or not.
    async fn left(&self) -> usize;

    /// Events set aside with their evidence.
    async fn set_aside(&self) -> usize;

    /// Cuts the server off: connections are broken, new ones refused.
    async fn away(&mut self);

    /// Brings the server back, with what it had.
    async fn back(&mut self);
}

/// The submission an event names.
pub(crate) fn named(incoming: &Incoming) -> Option<Uuid> {
    match event::parse(&incoming.attributes, &incoming.data) {
        Parsed::Event(event) => Some(event.submission_id),
        Parsed::Canary | Parsed::Poison { .. } => None,
    }
}

/// Fails the test instead of hanging.
pub(crate) async fn soon<R: Rig, T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("{}: {what}: not within {PATIENCE:?}", R::NAME))
}

/// The next event, which must come.
pub(crate) async fn next<R: Rig>(source: &mut dyn EventSource) -> Incoming {
    soon::<R, _>("an event", source.next())
        .await
        .unwrap_or_else(|error| panic!("{}: the source ended: {error}", R::NAME))
}

/// The next event if one comes; a source that has ended brings none.
pub(crate) async fn next_if_any(source: &mut dyn EventSource) -> Option<Incoming> {
    tokio::time::timeout(QUIET, source.next()).await.ok().and_then(Result::ok)
}

/// Takes so many and answers none.
pub(crate) async fn take<R: Rig>(source: &mut dyn EventSource, count: usize) -> Vec<Incoming> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(next::<R>(source).await);
    }
    taken
}

/// The submissions that events name, and that none is named twice.
pub(crate) fn all_named<R: Rig>(events: &[Incoming]) -> BTreeSet<Uuid> {
    let mut ids = BTreeSet::new();
    for event in events {
        let id = named(event).unwrap_or_else(|| panic!("{}: no event: {event:?}", R::NAME));
        assert!(ids.insert(id), "{}: {id} twice", R::NAME);
    }
    ids
}

/// Routes and acks all of them.
pub(crate) fn finish(events: Vec<Incoming>) {
    events.into_iter().for_each(|event| event.settle.ack());
}

/// Waits until so.
pub(crate) async fn until<R: Rig>(what: &str, so: impl AsyncFn() -> bool) {
    soon::<R, _>(what, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Checks that nothing is left, nothing is leased, and nothing comes to another instance either.
pub(crate) async fn is_done_with<R: Rig>(rig: &R, mut source: Box<dyn EventSource>) {
    until::<R>("nothing left", async || rig.left().await == 0).await;
    let again = next_if_any(&mut *source).await;
    assert!(again.is_none(), "{}: came again: {again:?}", R::NAME);
    assert!(soon::<R, _>("the stop", source.stop(PATIENCE)).await, "{}: the stop", R::NAME);
    let mut another = rig.open().await;
    let again = next_if_any(&mut *another).await;
    assert!(again.is_none(), "{}: came to another: {again:?}", R::NAME);
}
