//! Works: a function that is run for each row of a kind; everything around it is [`jobs`](super)'s.
//!
//! Nothing is spawned without a slot: a consumer never holds more than `most` rows. A gate that is shut takes no rows, one that is
//! half open takes one at a time. A work that panics has answered nothing: its row comes again, and is given up on after `poison`
//! claims, before it is run once more. If we die, leases run out.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::retries::Ending;
use super::{Consumer, Flow, Leased};
use crate::kernel::rows::{Row, Stored};
use crate::ops::gate::{Gate, Passage};

/// The function that is run for a row.
pub trait Work: Send + Sync + 'static {
    /// Whose rows.
    type Of: Stored;

    /// Does it, once. May be dropped at any await, and run again: whatever is done outside the row must stand being done twice,
    /// or be recognised.
    fn run<'a>(&'a self, row: &'a Row<Self::Of>) -> BoxFuture<'a, Ending<Self::Of>>;
}

/// The bounds within which works are run.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Claims after which a row is given up on unseen: whoever took it never came back.
    pub poison: u32,
    /// The time a stop waits for works under way.
    pub drain: Duration,
    /// Nothing is begun while it is shut.
    pub gate: Gate,
}

/// Runs `work` for each row of `consumer` until `stop`, or until there are no rows to be taken any more; then waits for what is
/// being done. Answers whether everything was written in time.
pub async fn run<W: Work>(
    mut consumer: Consumer<W::Of>,
    work: Arc<W>,
    bounds: Bounds,
    stop: CancellationToken,
) -> bool {
    let mut running = JoinSet::new();
    let mut passage = Passage::Open;
    loop {
        let now = bounds.gate.passage();
        if now != passage {
            passage = now;
            consumer.set_flow(match now {
                Passage::Shut => Flow::Shut,
                Passage::Ajar => Flow::Trickle,
                Passage::Open => Flow::Full,
            });
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = bounds.gate.changed_from(passage) => {}
            leased = consumer.next() => {
                let Some(leased) = leased else { break };
                running.spawn(one(Arc::clone(&work), leased, bounds.poison));
                // A backlog that never lets the last arm come is no reason to keep what has ended.
                while running.try_join_next().is_some() {}
            }
            Some(_) = running.join_next() => {}
        }
    }
    consumer.quiet();
    let drained = async { while running.join_next().await.is_some() {} };
    let in_time = tokio::time::timeout(bounds.drain, drained).await.is_ok();
    // A row whose work is dropped here goes back.
    running.shutdown().await;
    consumer.stop(bounds.drain).await && in_time
}

/// Works on a row.
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
