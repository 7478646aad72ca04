//! Streams of events: few at once, ended when the desk stops, and renewed often enough that a session that was ended is not
//! watched on.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use futures::{Stream, StreamExt as _, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::problem::Problem;
use crate::ports::Clock;

/// The room for streams of one desk.
#[derive(Debug, Clone)]
pub struct Streams {
    room: Arc<Semaphore>,
    stop: CancellationToken,
    life: Duration,
    clock: Arc<dyn Clock>,
}

impl Streams {
    /// Room for `most` streams of at most `life`, until `stop`.
    #[must_use]
    pub fn new(most: usize, life: Duration, stop: CancellationToken, clock: Arc<dyn Clock>) -> Self {
        Self { room: Arc::new(Semaphore::new(most)), stop, life, clock }
    }
}

/// The room for learners' streams, which are many, and live longer.
#[derive(Debug, Clone)]
pub struct Followers(pub Streams);

/// The right to one stream: an extractor, which refuses with 503 where there is no room.
#[derive(Debug)]
pub struct Permit {
    room: OwnedSemaphorePermit,
    streams: Streams,
}

impl Permit {
    /// The events until the desk stops, the stream's life is over, or the browser goes away; the room is free then.
    pub fn over<S: Stream>(self, events: S) -> impl Stream<Item = S::Item> {
        let Self { room, streams } = self;
        let Streams { stop, life, clock, .. } = streams;
        events.take_until(async move {
            let over = stop.run_until_cancelled(clock.sleep(life)).await;
            drop(room);
            over
        })
    }

    /// A tick each time that the desk's clock has moved on by `pause`, without an end.
    pub fn ticks(&self, pause: Duration) -> impl Stream<Item = ()> + Send + use<> {
        stream::unfold(Arc::clone(&self.streams.clock), move |clock| async move {
            clock.sleep(pause).await;
            Some(((), clock))
        })
    }

    /// Cancelled when the desk stops.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.streams.stop
    }
}

/// The right to one learner's stream.
#[derive(Debug)]
pub struct FollowersPermit(pub Permit);

impl<S: Send + Sync> FromRequestParts<S> for FollowersPermit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Followers(streams) = parts.extensions.get().cloned().ok_or_else(Problem::internal)?;
        Permit::of(streams).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Permit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(parts.extensions.get::<Streams>().cloned().ok_or_else(Problem::internal)?)
    }
}

impl Permit {
    fn of(streams: Streams) -> Result<Self, Problem> {
        let room = Arc::clone(&streams.room).try_acquire_owned().map_err(|_| Problem::busy())?;
        Ok(Self { room, streams })
    }
}
