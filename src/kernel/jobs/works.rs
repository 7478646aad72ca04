//! Works: a function that is run for each row of a kind; [`jobs`](super) does everything around it.
//!
//! A work is spawned only with a slot: a consumer never leases more than `most` rows. A shut gate takes no rows, a half-open
//! one takes one at a time. A work that panics has answered nothing: its row comes again, and is given up on after `poison`
//! claims, before another run. If we die, leases run out.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::retries::Ending;
use super::{Consumer, Flow, Leased};
use crate::kernel::rows::{Row, Stored};
use crate::ops::gate::{Gate, GateState};

/// The function that is run for a row.
pub trait Work: Send + Sync + 'static {
    /// The lifecycle of the rows.
    type Of: Stored;

    /// Does the work, once. May be dropped at any await, and run again: an effect outside the row must be idempotent, or
    /// recognised.
    fn run<'a>(&'a self, row: &'a Row<Self::Of>) -> BoxFuture<'a, Ending<Self::Of>>;
}

/// The bounds within which works are run.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Claims after which a row is given up on without a run: none of its workers has answered.
    pub poison: u32,
    /// The time for which a stop waits for running works.
    pub drain: Duration,
    /// No work starts while this gate is shut.
    pub gate: Gate,
}

/// Runs `work` for each row of `consumer` until `stop`, or until no more rows can be claimed; then waits for the running
/// works. Returns whether everything was written in time.
pub async fn run<W: Work>(
    mut consumer: Consumer<W::Of>,
    work: Arc<W>,
    bounds: Bounds,
    stop: CancellationToken,
) -> bool {
    let mut running = JoinSet::new();
    let mut state = GateState::Open;
    loop {
        let now = bounds.gate.state();
        if now != state {
            state = now;
            consumer.set_flow(match now {
                GateState::Shut => Flow::Shut,
                GateState::HalfOpen => Flow::Trickle,
                GateState::Open => Flow::Full,
            });
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = bounds.gate.changed_from(state) => {}
            leased = consumer.next() => {
                let Some(leased) = leased else { break };
                if state == GateState::Shut {
                    // Claimed just before the gate was shut, or before this loop could say so.
                    leased.settle(Ending::AtOnce);
                    continue;
                }
                running.spawn(one(Arc::clone(&work), leased, bounds.poison));
                // A steady backlog would keep the last arm from running, and ended tasks in memory.
                while running.try_join_next().is_some() {}
            }
            Some(_) = running.join_next() => {}
        }
    }
    consumer.quiet();
    let drained = async { while running.join_next().await.is_some() {} };
    let in_time = tokio::time::timeout(bounds.drain, drained).await.is_ok();
    // A row whose work is dropped here is released.
    running.shutdown().await;
    consumer.stop(bounds.drain).await && in_time
}

/// Runs the work of one row, and settles it.
async fn one<W: Work>(work: Arc<W>, leased: Leased<W::Of>, poison: u32) {
    let ending = if leased.row.claims > poison {
        Ending::GivenUp {
            why: format!("taken {} times, and nobody came back", leased.row.claims - 1),
            columns: None,
        }
    } else {
        work.run(&leased.row).await
    };
    leased.settle(ending);
}
