//! Keeps trying to record what happened: a fact that meets a database fault is retried until it is recorded
//! (protocol §5), because the mail it stands for cannot be called back.
//!
//! If we die while trying, the deliveries stay begun without an outcome: in doubt, and resolved as such.

use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder;
use tokio_util::sync::CancellationToken;

use super::claims::Claim;
use super::journal;
use crate::db::DbError;
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

    /// Runs `record` until it succeeds. `facts` counts the facts at stake: without one it gives up when the claim ends
    /// (such a row can be taken back without harm), with one only when the process must end.
    ///
    /// # Errors
    /// [`GaveUp`].
    pub async fn until_recorded<T, Recording>(
        &self,
        claim: &Claim,
        facts: usize,
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
            let over = facts == 0 && self.clock.monotonic() >= claim.deadline();
            if self.force.is_cancelled() || over {
                return Err(GaveUp { error, facts });
            }
            tokio::select! {
                () = self.clock.sleep(waits.next().unwrap_or(LONGEST)) => {}
                () = self.force.cancelled() => {}
            }
        }
    }
}
