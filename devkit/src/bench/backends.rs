//! Processor time of the backends of PostgreSQL that serve the router: not those of whoever submits, nor those of other programs.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use tokio_postgres::Client;

use super::meter;

/// Connections of the router have its name; others of its role are the backend's of the forms.
const SERVING: &str =
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = 'forms_app'
  AND application_name LIKE 'maple-router%'";

/// Each backend's processor seconds when the turn began, and when it was last seen. What one does between the last look and its end is
/// not counted.
#[derive(Debug)]
pub(crate) struct Backends(BTreeMap<u32, (f64, f64)>);

impl Backends {
    /// Those of now: what they have done so far does not count.
    pub(crate) async fn before(eyes: &Client) -> Result<Self> {
        let used = used(eyes).await?;
        Ok(Self(used.into_iter().map(|(pid, seconds)| (pid, (seconds, seconds))).collect()))
    }

    /// Looks again. All that a backend has done counts that was not there before.
    pub(crate) async fn look(&mut self, eyes: &Client) -> Result<()> {
        for (pid, seconds) in used(eyes).await? {
            self.0.entry(pid).or_insert((0.0, seconds)).1 = seconds;
        }
        Ok(())
    }

    /// Processor seconds of all of them.
    pub(crate) fn seconds(&self) -> Result<f64> {
        ensure!(!self.0.is_empty(), "no backend serves the router");
        Ok(self.0.values().map(|(before, last)| last - before).sum())
    }
}

async fn used(eyes: &Client) -> Result<Vec<(u32, f64)>> {
    let mut used = Vec::new();
    for row in eyes.query(SERVING, &[]).await? {
        let pid = u32::try_from(row.get::<_, i32>(0))?;
        // One that has just ended is not there.
        used.extend(meter::own_cpu_seconds(pid).map(|seconds| (pid, seconds)));
    }
    Ok(used)
}
