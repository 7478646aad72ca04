//! Keeps trying to record what happened: a fact that meets a database fault is retried until it is recorded
//! (protocol §5), because the mail it stands for cannot be called back.
//!
//! If we die while trying, the deliveries stay begun without an outcome: in doubt, and resolved as such.

use std::time::Duration;

use backon::BackoffBuilder;
use tokio_util::sync::CancellationToken;

use super::claims::Claim;
use super::journal;
use crate::db::DbError;

/// Waits between tries.
const SHORTEST: Duration = Duration::from_millis(200);
/// Longest wait between tries.
const LONGEST: Duration = Duration::from_secs(10);
/// Tries when there is no fact among what is to be recorded: the sweep can take such a row back without harm.
const TRIES_WITHOUT_FACT: usize = 8;

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
}

impl Persist {
    /// `force` is cancelled when the process must end now.
    #[must_use]
    pub fn new(force: CancellationToken) -> Self {
        Self { force }
    }

    /// Runs `record` until it succeeds. `facts` counts the facts at stake: without one it gives up after some tries, with one only when the
    /// process must end.
    ///
    /// # Errors
    /// [`GaveUp`].
    pub async fn until_recorded<T, Recording>(
        &self,
        claim: &Claim,
        facts: usize,
        record: impl Fn() -> Recording,
    ) -> Result<T, GaveUp>
    where
        Recording: Future<Output = Result<T, DbError>>,
    {
        let mut waits = backon::ExponentialBuilder::default()
            .with_min_delay(SHORTEST)
            .with_max_delay(LONGEST)
            .with_jitter()
            .without_max_times()
            .build();
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match record().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            journal::database_fault(claim, "an outcome could not be recorded yet", &error);
            if self.force.is_cancelled() || (facts == 0 && tries >= TRIES_WITHOUT_FACT) {
                return Err(GaveUp { error, facts });
            }
            tokio::select! {
                () = tokio::time::sleep(waits.next().unwrap_or(LONGEST)) => {}
                () = self.force.cancelled() => {}
            }
        }
    }
}
