//! Where the policy comes from: a directory, read and proven anew for each decision, so that a file that is changed counts at once.

use std::path::PathBuf;

use super::commands::Policies;
use super::document::canaries;
use super::policy::{self, Away, LIMIT, Proven};

/// The policy of `[forms] policy_dir`.
#[derive(Debug, Clone)]
pub struct PolicyDir(Option<PathBuf>);

impl PolicyDir {
    /// The policy in a directory; without one, none.
    #[must_use]
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self(directory)
    }
}

impl Policies for PolicyDir {
    fn policy(&self) -> Result<Proven, Away> {
        let directory = self.0.as_deref().ok_or(Away::NotConfigured)?;
        policy::load(directory, LIMIT, &canaries())
    }
}
