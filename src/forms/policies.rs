//! Where the policy and the list of signers come from: files, read anew for each decision, so that one that is changed counts at
//! once.

use std::fmt::Debug;
use std::io::Read as _;
use std::path::PathBuf;

use super::document::canaries;
use super::policy::{self, Away, LIMIT, Proven};
use super::signers::{LONGEST, Signers};
use crate::config;

/// Where the policy comes from, read and proven anew for each decision.
pub trait Policies: Debug + Send + Sync {
    /// The policy in force.
    ///
    /// # Errors
    /// [`Away`].
    fn policy(&self) -> Result<Proven, Away>;
}

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

/// Whose signatures a version has to have, by `[forms] require_signatures` and `allowed_signers`.
#[derive(Debug, Clone, Default)]
pub struct Signing {
    required: u32,
    file: Option<PathBuf>,
}

impl Signing {
    /// By these settings.
    #[must_use]
    pub fn new(config: &config::Forms) -> Self {
        Self { required: config.require_signatures, file: config.allowed_signers.clone() }
    }

    /// How many people's.
    #[must_use]
    pub fn required(&self) -> u32 {
        self.required
    }

    /// Whoever may sign; nobody where no list is configured.
    ///
    /// # Errors
    /// Why the list cannot be read: then nothing is signed.
    pub fn signers(&self) -> Result<Signers, String> {
        let Some(file) = &self.file else { return Ok(Signers::default()) };
        let unreadable = |why: &dyn std::fmt::Display| {
            format!("the list of signers, {}, cannot be read: {why}", file.display())
        };
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(|error| unreadable(&error))?;
        opened.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > LONGEST {
            return Err(unreadable(&format!("it is longer than {LONGEST} bytes")));
        }
        Signers::parse(&text).map_err(|bad| unreadable(&bad))
    }

    /// How many may sign, where signatures are required.
    ///
    /// # Errors
    /// Why nothing could be published.
    pub fn people(&self) -> Result<Option<usize>, String> {
        if self.required == 0 {
            return Ok(None);
        }
        let people = self.signers()?.people();
        if people < usize::try_from(self.required).unwrap_or(usize::MAX) {
            return Err(format!(
                "the list of signers has {people} people, and forms.require_signatures is {}",
                self.required
            ));
        }
        Ok(Some(people))
    }
}
