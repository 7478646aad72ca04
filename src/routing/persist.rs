//! Keeps trying to record what happened: a fact that meets a database fault is retried until it is recorded
//! (protocol §5), because the mail it stands for cannot be called back. An outage of the database ends no claim: what
//! was decided before it is recorded after it, so that the outage leaves neither doubt nor a spent attempt. A record that the
//! database refuses while it takes others is repeated as well, but without the slot of its submission.
//!
//! If we die while trying, the deliveries stay begun without an outcome: in doubt, and resolved as such.

use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder;
use tokio_util::sync::CancellationToken;

use super::claims::Claim;
use super::journal;
use super::outages::Outages;
use super::slots::Slot;
use super::spool::Watched;
use crate::db::{DbError, DbErrorKind};
use crate::ports::Clock;

/// Waits between tries.
const SHORTEST: Duration = Duration::from_millis(200);
/// Longest wait between tries.
const LONGEST: Duration = Duration::from_secs(10);
/// So often a record is refused before others get its slot. Few, because what keeps it may keep as many as there are slots;
/// more than one, because a statement or a connection that no longer fits fails once.
const REFUSALS: u32 = 3;

/// Something that was recorded.
#[derive(Debug, Clone)]
pub struct Persisted<T> {
    /// What the record answered.
    pub value: T,
    /// An earlier try failed, so that its commit may stand although its answer was lost.
    pub repeated: bool,
}

/// Recording was given up.
#[derive(Debug, Clone)]
pub struct GaveUp {
    /// The last fault.
    pub error: DbError,
    /// Facts among what was not recorded.
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

    /// Runs `record` until it succeeds. What was accepted is at stake in `facts`: while it is nowhere else, this gives up only
    /// when the process must end. What is kept on the disk, and what tells of nothing accepted, is given up when the claim
    /// ends (such a row can be taken back), or when the daemon stops after it was refused again and again; unless the database
    /// does not answer. `slot` is given back by then: the row, not the database, is at fault.
    ///
    /// # Errors
    /// [`GaveUp`].
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
            // While the gate is shut nobody waits for the slot, and it may be shut because of this very fault.
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
                // Before anybody takes the row for abandoned.
                () = outages.postgres.recovered() => {}
                () = outages.contract.recovered() => {}
                () = self.force.cancelled() => {}
                () = claim.given_up(), if refused && !claim.is_given_up() => {}
            }
        }
    }
}

/// The database is there, has time, and does not take it.
fn is_refusal(error: &DbError) -> bool {
    match error.kind() {
        DbErrorKind::Contract | DbErrorKind::Bug => true,
        DbErrorKind::Unreachable | DbErrorKind::Busy => false,
    }
}
