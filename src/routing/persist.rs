//! Keeps trying to record what happened: a fact that meets a database fault is retried until it is recorded
//! (protocol §5), because the mail it stands for cannot be called back. An outage of the database ends no claim: what
//! was decided before it is recorded after it, so that the outage leaves neither doubt nor a spent attempt.
//!
//! If we die while trying, the deliveries stay begun without an outcome: in doubt, and resolved as such.

use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder;
use tokio_util::sync::CancellationToken;

use super::claims::Claim;
use super::journal;
use super::outages::Outages;
use crate::db::{DbError, DbErrorKind};
use crate::ports::Clock;

/// Waits between tries.
const SHORTEST: Duration = Duration::from_millis(200);
/// Longest wait between tries.
const LONGEST: Duration = Duration::from_secs(10);

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

    /// Runs `record` until it succeeds. `facts` counts the facts at stake: without one, and with a database that answers,
    /// it gives up when the claim ends (such a row can be taken back without harm); else only when the process must end.
    ///
    /// # Errors
    /// [`GaveUp`].
    pub async fn until_recorded<T, Recording>(
        &self,
        claim: &Claim,
        facts: usize,
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
        let mut repeated = false;
        loop {
            let error = match record().await {
                Ok(value) => return Ok(Persisted { value, repeated }),
                Err(error) => error,
            };
            repeated = true;
            journal::database_fault(claim, "an outcome could not be recorded yet", &error);
            outages.database(&error);
            let answered = error.kind() != DbErrorKind::Unreachable;
            let over = facts == 0 && answered && self.clock.monotonic() >= claim.deadline();
            if self.force.is_cancelled() || over {
                return Err(GaveUp { error, facts });
            }
            tokio::select! {
                () = self.clock.sleep(waits.next().unwrap_or(LONGEST)) => {}
                // Before anybody takes the row for abandoned.
                () = outages.postgres.recovered() => {}
                () = self.force.cancelled() => {}
            }
        }
    }
}
