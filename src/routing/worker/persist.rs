//! Records outcomes against database faults: a fact is retried until it is recorded (protocol §5), because its mail cannot
//! be called back. An outage of the database ends no claim: decisions made before it are recorded after it, so that the
//! outage leaves neither doubt nor a spent attempt. A record that the database refuses while it takes others is repeated as
//! well, but without the slot of its submission.
//!
//! If we die while trying, the deliveries keep an intent without an outcome: in doubt, and resolved as such.

use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder;
use tokio_util::sync::CancellationToken;

use crate::db::{DbError, DbErrorKind};
use crate::ports::Clock;
use crate::routing::claims::Claim;
use crate::routing::claims::slots::Slot;
use crate::routing::journal;
use crate::routing::outages::Outages;
use crate::routing::spool::Watched;

/// Shortest wait between tries.
const SHORTEST: Duration = Duration::from_millis(200);
/// Longest wait between tries.
const LONGEST: Duration = Duration::from_secs(10);
/// Refusals of a record before its slot goes to other work. Few, because one cause may refuse as many records as there are
/// slots; more than one, because a statement or a connection that no longer fits fails once.
const REFUSALS: u32 = 3;

/// A result that was recorded.
#[derive(Debug, Clone)]
pub struct Persisted<T> {
    /// Answer of the record.
    pub value: T,
    /// An earlier try failed, so that its commit may stand although its answer was lost.
    pub repeated: bool,
}

/// Recording was given up.
#[derive(Debug, Clone)]
pub struct GaveUp {
    /// The last fault.
    pub error: DbError,
    /// Facts that remain unrecorded.
    pub facts: usize,
}

/// Repeats records until they stand.
#[derive(Debug, Clone)]
pub struct Persist {
    force: CancellationToken,
    clock: Arc<dyn Clock>,
}

impl Persist {
    /// `force` is cancelled when the process must end now.
    #[must_use]
    pub fn new(force: CancellationToken, clock: Arc<dyn Clock>) -> Self {
        Self { force, clock }
    }

    /// Runs `record` until it succeeds. The accepted mails among `facts` are at stake: while the spool does not have them,
    /// this gives up only when the process must end. Facts kept on the disk, and records without an accepted mail, are given
    /// up when the claim ends (such a row can be taken back), or when the daemon stops after repeated refusals; unless the
    /// database does not answer. `slot` is given back by then: the row, not the database, is at fault.
    ///
    /// # Errors
    /// [`GaveUp`]: the record does not stand, as far as is known.
    pub async fn until_recorded<T, Recording>(
        &self,
        claim: &Claim,
        (facts, slot): (Option<&Watched<'_>>, Option<&Slot>),
        outages: &Outages,
        record: impl Fn() -> Recording,
    ) -> Result<Persisted<T>, GaveUp>
    where
        Recording: Future<Output = Result<T, DbError>>,
    {
        let mut waits = backon::ExponentialBuilder::default()
            .with_min_delay(SHORTEST)
            .with_max_delay(LONGEST)
            .with_jitter()
            .without_max_times()
            .build();
        let (mut repeated, mut refusals) = (false, 0);
        loop {
            let error = match record().await {
                Ok(value) => return Ok(Persisted { value, repeated }),
                Err(error) => error,
            };
            repeated = true;
            journal::database_fault(claim, "an outcome could not be recorded yet", &error);
            outages.database(&error);
            let kept = facts.is_none_or(Watched::is_kept);
            // While the gate is shut no work waits for the slot, and this very fault may have shut it.
            if is_refusal(&error) && kept && outages.gate.is_open() {
                refusals += 1;
            }
            let refused = refusals >= REFUSALS;
            if let Some(slot) = slot.filter(|_| refused) {
                slot.give_back();
            }
            let answered = error.kind() != DbErrorKind::Unreachable && !outages.is_database_out();
            let ended = self.clock.monotonic() >= claim.deadline() || refused && claim.is_given_up();
            if self.force.is_cancelled() || kept && answered && ended {
                return Err(GaveUp { error, facts: facts.map_or(0, Watched::facts) });
            }
            tokio::select! {
                () = self.clock.sleep(waits.next().unwrap_or(LONGEST)) => {}
                // A recovery repeats the record at once, before the sweep takes the row for abandoned.
                () = outages.postgres.recovered() => {}
                () = outages.contract.recovered() => {}
                () = self.force.cancelled() => {}
                () = claim.given_up(), if refused && !claim.is_given_up() => {}
            }
        }
    }
}

/// Whether the database is reachable and idle enough, but refuses the statement.
fn is_refusal(error: &DbError) -> bool {
    match error.kind() {
        DbErrorKind::Contract | DbErrorKind::Bug => true,
        DbErrorKind::Unreachable | DbErrorKind::Busy => false,
    }
}
