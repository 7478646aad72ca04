//! Mails that came back, as a second teller of what becomes of ours. Start at [`Returns::run`].
//!
//! A mail is read, believed as far as its token proves it, recorded, and only then moved away: if we die in the middle it is
//! read again, which changes nothing. What was recorded and told nobody of before we died is found in the kept mails, which
//! are read once more at the start. While the database does not take them, mails stay where they are. Never lost: what is not
//! understood or not proved is set aside for a person. Never here: an alert of what no token proves.

mod verdict;

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use verdict::{Verdict, verdict};

use super::Seen;
use super::sender::ReturnAddress;
use crate::config::Config;
use crate::db::DbError;
use crate::gateway::bounces::{Found, Look, Maildir, MaildirError, Pruned};
use crate::ops::clock::since_epoch;
use crate::ops::incident::{Incident, IncidentKey, Incidents};
use crate::ops::metrics::{self, Resolution, ReturnedResult};
use crate::ops::set_aside::Writing;
use crate::ports::Clock;
use crate::routing::journal;
use crate::routing::outages::Outages;
use crate::routing::store::Store;
use crate::routing::store::delivery::{SeenRecorded, Untold};
use crate::routing::sweep::named;
use crate::scrub::scrub;

/// Between two looks into the Maildir.
const LOOK: Duration = Duration::from_secs(10);
/// Mails of one pass.
const PAGE: usize = 200;
/// Between two looks for what may be removed.
const PRUNE: Duration = Duration::from_secs(3600);

/// What it is made of.
pub struct ReturnsParts {
    /// Where mails come back to.
    pub maildir: Maildir,
    /// Knows our tokens.
    pub address: ReturnAddress,
    /// Where what they tell is recorded.
    pub store: Store,
    /// Who tells, in the marks: the same after a restart.
    pub by: String,
    /// Blamed for what cannot be recorded.
    pub outages: Outages,
    /// Raised while the Maildir cannot be used.
    pub incidents: Incidents,
    /// Measures.
    pub clock: Arc<dyn Clock>,
    /// How long mails are kept; follows reloads.
    pub config: watch::Receiver<Arc<Config>>,
    /// Hears of mails that are lost.
    pub lost: Box<dyn Fn(Untold) + Send + Sync>,
}

/// One for the whole process.
pub struct Returns {
    parts: ReturnsParts,
    /// Why the Maildir cannot be used; said once.
    trouble: Option<String>,
    /// What a former process has treated was read again.
    again: bool,
    /// When old mails are removed next.
    prune_at: Option<Instant>,
}

/// What became of one mail.
enum Treated {
    /// It can go.
    Understood(ReturnedResult),
    /// A person must look at it.
    Aside(ReturnedResult),
    /// Its row is locked by somebody else, or refuses what it tells: it comes again.
    Busy,
}

impl Returns {
    /// Reads nothing yet.
    #[must_use]
    pub fn new(parts: ReturnsParts) -> Self {
        Self { parts, trouble: None, again: false, prune_at: None }
    }

    /// Reads what came back until `stop`.
    pub async fn run(mut self, stop: &CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        let clock = Arc::clone(&self.parts.clock);
        loop {
            // The same fault every ten seconds would only make an outage louder.
            if !self.parts.outages.postgres.is_open() {
                self.look().await;
            }
            clock.sleep(LOOK).await;
        }
    }

    /// Looks once: everything that waits is treated, as far as it can be.
    pub async fn look(&mut self) {
        let looked = self.everything().await;
        let many = looked.as_ref().is_ok_and(|treated| *treated >= PAGE);
        self.usable(looked.err());
        let now = self.parts.clock.monotonic();
        if many || self.prune_at.is_none_or(|at| now >= at) {
            self.prune().await;
            self.prune_at = Some(now + PRUNE);
        }
    }

    /// How many mails were there.
    async fn everything(&mut self) -> Result<usize, MaildirError> {
        self.parts.maildir.prepare().await?;
        if !self.again {
            self.again = self.kept().await?;
        }
        self.pass().await
    }

    /// Everything that waits, a page at a time; how many mails that were.
    async fn pass(&self) -> Result<usize, MaildirError> {
        let (mut after, mut looked_at): (Option<OsString>, usize) = (None, 0);
        loop {
            let Look { mails, more, unreadable } = self.parts.maildir.look(after.take(), PAGE).await?;
            looked_at += mails.len();
            for found in &mails {
                match self.treat(found).await {
                    Ok(Treated::Understood(result)) => {
                        self.parts.maildir.treated(&found.name).await?;
                        metrics::returned_mail(result);
                    }
                    Ok(Treated::Aside(result)) => {
                        self.parts.maildir.set_aside(&found.name).await?;
                        metrics::returned_mail(result);
                    }
                    Ok(Treated::Busy) => {}
                    Err(error) => {
                        self.not_recorded(&error);
                        return Ok(looked_at);
                    }
                }
            }
            after = mails.into_iter().next_back().map(|found| found.name);
            if !more || after.is_none() {
                return unreadable.map_or(Ok(looked_at), Err);
            }
        }
    }

    /// Mails that a former process has treated: what they told of may have been told to nobody. Whether all were read.
    async fn kept(&self) -> Result<bool, MaildirError> {
        let mut after = None;
        loop {
            let Look { mails, more, unreadable } = self.parts.maildir.kept(after.take(), PAGE).await?;
            for found in &mails {
                let Verdict::Report(seen) = verdict(&found.mail, &self.parts.address) else { continue };
                match self.record(&seen).await {
                    Ok(_) => {}
                    Err(error) => {
                        self.not_recorded(&error);
                        return Ok(false);
                    }
                }
            }
            after = mails.into_iter().next_back().map(|found| found.name);
            if !more || after.is_none() {
                return unreadable.map_or(Ok(true), Err);
            }
        }
    }

    /// One mail: what it tells is recorded.
    async fn treat(&self, found: &Found) -> Result<Treated, DbError> {
        let file = self.file(&found.name);
        Ok(match verdict(&found.mail, &self.parts.address) {
            Verdict::Report(seen) if self.rests(&seen) => Treated::Busy,
            Verdict::Report(seen) => {
                let recorded = self.record(&seen).await?;
                let is_recorded = recorded.busy.is_empty() && recorded.refused.is_empty();
                if is_recorded { Treated::Understood(ReturnedResult::Reported) } else { Treated::Busy }
            }
            Verdict::Trial => {
                tracing::warn!("a test mail came back ({file}): what it says is kept in cur");
                Treated::Understood(ReturnedResult::Reported)
            }
            Verdict::AutoReply => Treated::Understood(ReturnedResult::AutoReply),
            Verdict::Receipt => Treated::Understood(ReturnedResult::Receipt),
            Verdict::Foreign => {
                tracing::info!(
                    "a mail to bounces.address is set aside ({file}): no token of ours proves that it is about a mail of ours"
                );
                Treated::Aside(ReturnedResult::Foreign)
            }
            Verdict::NotUnderstood { origin, why } => {
                tracing::warn!(
                    submission_id = %origin.submission,
                    action_order = origin.action_order,
                    "an answer to a mail of ours is set aside ({file}), because {why}: read it, then remove it"
                );
                Treated::Aside(ReturnedResult::NotUnderstood)
            }
        })
    }

    /// Whether one of its rows refused what was told, a moment ago.
    fn rests(&self, seen: &[Seen]) -> bool {
        let aside = &self.parts.outages.set_aside;
        seen.iter().any(|seen| aside.is_resting(Writing::Mark, seen.origin.submission))
    }

    async fn record(&self, seen: &[Seen]) -> Result<SeenRecorded, DbError> {
        let mut recorded = self.parts.store.record_seen(seen, &self.parts.by).await?;
        if let Some(error) = recorded.fault {
            return Err(error);
        }
        let refuses = |id: &Uuid| recorded.refused.iter().any(|refused| refused.id == *id);
        let took = seen.iter().map(|seen| seen.origin.submission).filter(|id| !refuses(id));
        self.parts.outages.set_aside.note(Writing::Mark, took, &named(&recorded.refused));
        for marked in &recorded.marked {
            metrics::delivery_status(marked.status.into());
            if marked.found {
                metrics::in_doubt(Resolution::Found, 1);
            }
            journal::beyond(marked);
        }
        std::mem::take(&mut recorded.untold).into_iter().for_each(&self.parts.lost);
        Ok(recorded)
    }

    fn file(&self, name: &OsStr) -> String {
        scrub(&name.to_string_lossy().chars().filter(|c| !c.is_control()).take(128).collect::<String>())
    }

    fn not_recorded(&self, error: &DbError) {
        self.parts.outages.database(error);
        tracing::warn!("what returned mails tell could not be recorded yet: {}", scrub(&error.to_string()));
    }

    fn usable(&mut self, error: Option<MaildirError>) {
        let Some(error) = error else {
            if self.trouble.take().is_some() {
                tracing::info!("returned mails are read again");
                self.parts.incidents.resolve(IncidentKey::Bounces);
            }
            return;
        };
        let said = scrub(&error.to_string());
        if self.trouble.as_ref() != Some(&said) {
            tracing::error!("{said}; what they tell of lost mails is not known meanwhile");
            let what = format!("{said}; mails may be lost without anybody being told");
            let incident = Incident::new(IncidentKey::Bounces, what, &["maple-router check"]);
            self.parts
                .incidents
                .raise(incident.advising("runbooks/install.md, \"Returned mails\", sets it up"));
            self.trouble = Some(said);
        }
    }

    async fn prune(&self) {
        let keep = self.parts.config.borrow().bounces.keep;
        let dir = self.parts.maildir.path().display();
        match self.parts.maildir.prune(keep, since_epoch()).await {
            Ok(Pruned { treated: 0, aside: 0, .. }) => {}
            Ok(Pruned { treated, aside, .. }) => tracing::warn!(
                "of too many returned mails the oldest were removed: {treated} understood ones from {dir}/cur, {aside} others \
                 from {dir}/.unread; who writes there?"
            ),
            Err(error) => tracing::warn!("{}", scrub(&error.to_string())),
        }
    }
}
