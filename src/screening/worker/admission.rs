//! RECEIVED: whose is it, and what will be looked at. A repository is fetched here, once: it has a stage of its own because no host answers
//! within the time of the rules.
//!
//! A source that is at fault is a finding of the first tier, which fails the run; a host that does not answer is tried once more.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;

use super::repository::{self, Fetched};
use super::{MOST_FETCHES, Tools, database, dead, given_up, poisoned};
use crate::gateway::git::GitError;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::screening::journal;
use crate::screening::run::Profile;
use crate::screening::store::Submitted;
use crate::screening::store::results::{KeptFinding, ScanResult, ScanVerdict};
use crate::screening::table::{Command, JobType, Screening, State};

/// Pause after a fault of this host: a full disk, too many processes.
const OURS: Duration = Duration::from_secs(60);
/// Claims after which such a fault is a person's: some four hours.
const MOST_OURS: u32 = 240;

/// The work of a run that was opened.
#[derive(Debug, Clone)]
pub struct Admission {
    /// What it needs.
    pub tools: Tools,
}

impl Work for Admission {
    type Of = Screening;

    fn run<'a>(&'a self, row: &'a Row<Screening>) -> BoxFuture<'a, Ending<Screening>> {
        async move {
            if let Some(poisoned) = poisoned(row) {
                return poisoned;
            }
            let submitted = match self.tools.submitted(row).await {
                Ok(submitted) => submitted,
                Err(ending) => return ending,
            };
            match row.columns.profile {
                Profile::Fields => self.fields(row, &submitted),
                Profile::Git => self.git(row, &submitted).await.unwrap_or_else(|ending| ending),
            }
        }
        .boxed()
    }
}

impl Admission {
    /// Trusted is only whom the backend has authenticated, and the form trusts.
    fn fields(&self, row: &Row<Screening>, submitted: &Submitted) -> Ending<Screening> {
        let form = self.tools.form(&row.columns.form_id);
        let known = submitted.origin.as_deref().map(str::to_ascii_lowercase);
        let trusted =
            known.filter(|origin| form.trusted.iter().any(|trusted| trusted.eq_ignore_ascii_case(origin)));
        admitted(row, submitted, &submitted.digest, trusted.as_deref())
    }

    async fn git(
        &self,
        row: &Row<Screening>,
        submitted: &Submitted,
    ) -> Result<Ending<Screening>, Ending<Screening>> {
        let form = self.tools.form(&row.columns.form_id);
        let Some(git) = &self.tools.git else { return Err(given_up(dead::NO_GIT)) };
        // Each fetch holds a repository in memory.
        let fetched = match self.tools.fetches.acquire().await {
            Ok(_slot) => repository::fetch(git, &form, &submitted.fields).await,
            Err(_) => return Err(Ending::AtOnce),
        };
        match fetched {
            Ok(fetched) => self.fetched(row, submitted, fetched).await,
            Err(GitError::Source(fault)) => {
                let content = submitted.digest.clone();
                let ruleset = self.tools.rulesets.of(&row.columns.form_id, Profile::Git);
                let result = ScanResult {
                    content: content.clone(),
                    ruleset: ruleset.version().to_owned(),
                    verdict: ScanVerdict::Fail,
                    score: None,
                    detail: json!({"findings": 1}),
                };
                let finding = KeptFinding {
                    rule: fault.code().to_owned(),
                    severity: "block".to_owned(),
                    place: format!("field {}", form.url_field),
                    times: 1,
                    waived: None,
                };
                let job = (JobType::Tier1Scan, row.columns.attempt);
                let kept = self.tools.store.record(row.id, job, &result, &[finding]).await;
                kept.map_err(|error| database(row, &error))?;
                Ok(admitted(row, submitted, &content, None))
            }
            Err(error @ GitError::Network(_)) if row.attempts < MOST_FETCHES => {
                journal::waits(row, &error.to_string());
                Ok(Ending::Failed { why: error.to_string(), columns: None })
            }
            Err(GitError::Network(_)) => Ok(given_up(dead::NETWORK)),
            Err(GitError::Ours(_)) if row.claims >= MOST_OURS => Ok(given_up(dead::NO_GIT)),
            Err(error @ GitError::Ours(_)) => {
                journal::waits(row, &error.to_string());
                Ok(Ending::After(OURS))
            }
        }
    }

    async fn fetched(
        &self,
        row: &Row<Screening>,
        submitted: &Submitted,
        fetched: Fetched,
    ) -> Result<Ending<Screening>, Ending<Screening>> {
        let kept = self.tools.store.record_snapshot(row.id, &fetched.snapshot).await;
        // Whoever had the run before may have fetched another state: the one that was kept first is what is looked at.
        let snapshot = kept.map_err(|error| database(row, &error))?;
        if (&snapshot.url, &snapshot.path) != (&fetched.snapshot.url, &fetched.snapshot.path) {
            return Err(given_up(dead::CHANGED));
        }
        let same = snapshot.content == fetched.snapshot.content;
        let trusted = fetched.owner.filter(|_| same);
        Ok(admitted(row, submitted, &snapshot.content, trusted.as_deref()))
    }
}

/// The edge that follows: to the rules, or past them where the origin is proven and trusted, and the form does not want a person for each.
fn admitted(
    row: &Row<Screening>,
    submitted: &Submitted,
    content: &str,
    trusted: Option<&str>,
) -> Ending<Screening> {
    let trusted = trusted.filter(|_| !row.columns.force_review);
    let mut columns = json!({"digest": submitted.digest, "content": content});
    let (command, to) = match trusted {
        Some(origin) => {
            columns["origin"] = json!(origin);
            columns["metadata"] = json!({"org": origin});
            (Command::VendorAutoVerify, State::VendorApproved)
        }
        None => (Command::NonVendorSubmission, State::Tier1Scanning),
    };
    Ending::Done { command, to: Some(to), columns: Some(columns) }
}
