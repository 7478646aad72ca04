//! What a case needs of a source: both of its ends, and where its promise differs from the others'.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_router::ports::{EventSource, Incoming};
use maple_router::routing::event::{self, Parsed};
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
/// Long enough to believe that nothing comes; longer than a source's own poll and its longest back-off here.
pub(crate) const QUIET: Duration = Duration::from_millis(1_500);

/// What is on its way has arrived. A stream takes a moment to close, and what is sent into it meanwhile waits for its
/// lease to run out, as what a process died with.
pub(crate) const MOMENT: Duration = Duration::from_millis(500);

/// A source, as a case sees it.
pub(crate) trait Rig: Sized + Sync {
    /// What a failure names.
    const NAME: &'static str;
    /// Most events that one instance holds unanswered.
    const SHARE: usize;
    /// How long others wait at most for what an instance held that died.
    const LEASE: Duration;
    /// What becomes of an event whose submission ended for want of attempts: it comes again (until it is set aside).
    const REPEATS_EXHAUSTED: bool;
    /// Whether `pause` keeps what it has from being brought. By default a source that is not asked is paused enough.
    const PAUSES: bool;

    /// A server of one's own, and nothing announced.
    async fn set_up() -> Self;

    /// One instance.
    async fn open(&self) -> Box<dyn EventSource>;

    /// So many submissions become ready, and their events are on their way.
    async fn announce(&self, count: usize) -> BTreeSet<Uuid>;

    /// Something comes that is no event. Where nothing of that kind can come: false.
    async fn announce_garbage(&self) -> bool;

    /// Events that some instance holds, as the server counts.
    async fn held(&self) -> usize;

    /// Events that are not done with, held or not.
    async fn left(&self) -> usize;

    /// Events set aside with their evidence.
    async fn set_aside(&self) -> usize;

    /// Nobody reaches the server, and connections are broken.
    async fn away(&mut self);

    /// It is there again, with what it had.
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

/// Nothing is left, nobody holds anything, and nothing comes to another instance either.
pub(crate) async fn is_done_with<R: Rig>(rig: &R, mut source: Box<dyn EventSource>) {
    until::<R>("nothing left", async || rig.left().await == 0).await;
    let again = next_if_any(&mut *source).await;
    assert!(again.is_none(), "{}: came again: {again:?}", R::NAME);
    assert!(soon::<R, _>("the stop", source.stop(PATIENCE)).await, "{}: the stop", R::NAME);
    let mut another = rig.open().await;
    let again = next_if_any(&mut *another).await;
    assert!(again.is_none(), "{}: came to another: {again:?}", R::NAME);
}
