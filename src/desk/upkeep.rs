//! What has expired is deleted: credentials, and answers that are kept no longer. A bounded statement at a time, and a day's worth
//! within minutes; if we die in between, the next look goes on.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::store::credentials::Credentials;
use super::store::idempotency;
use crate::db::{DbError, Pool};
use crate::ports::Clock;

/// Interval of looks.
const EVERY: Duration = Duration::from_secs(600);
/// Rows of one statement.
const AT_ONCE: i64 = 500;

/// Deletes until `stop`.
pub(super) async fn run(pool: Pool, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let credentials = Credentials::new(pool.clone());
    loop {
        if let Err(error) = prune(&credentials, &pool).await {
            // Whoever asks the desk meets the same, and is told.
            tracing::debug!("expired credentials of the desk stay for now: {}", error.named());
        }
        if stop.run_until_cancelled(clock.sleep(EVERY)).await.is_none() {
            return;
        }
    }
}

async fn prune(credentials: &Credentials, pool: &Pool) -> Result<(), DbError> {
    let full = u64::try_from(AT_ONCE).unwrap_or(u64::MAX);
    while credentials.prune(AT_ONCE).await? == full {}
    while idempotency::prune(pool, AT_ONCE).await? == full {}
    Ok(())
}
