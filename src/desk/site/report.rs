//! The report of the service's status, made at most every ten seconds, whoever asks: it counts what has ended as well, which takes
//! as long as there is much of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::Site;
use crate::desk::problem::Problem;
use crate::queries::status::{self, Report};

/// Longest age of a report that is shown.
const FRESH: Duration = Duration::from_secs(10);

/// The latest report, and when it was made.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<Option<(Instant, Arc<Report>)>>);

impl Latest {
    /// The report, and its age. Of many at once one makes it, and the others wait for that one.
    ///
    /// # Errors
    /// [`Problem`]: the database is away; nothing older is shown then.
    pub(super) async fn get(&self, site: &Site) -> Result<(Arc<Report>, Duration), Problem> {
        let mut latest = self.0.lock().await;
        let now = site.parts.clock.monotonic();
        if let Some((at, report)) = &*latest {
            let age = now.saturating_duration_since(*at);
            if age < FRESH {
                return Ok((Arc::clone(report), age));
            }
        }
        *latest = None;
        let report = Arc::new(status::report(&site.reader()?).await?);
        *latest = Some((now, Arc::clone(&report)));
        Ok((report, Duration::ZERO))
    }
}
