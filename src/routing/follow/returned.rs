//! Returned mails, as a second source of our mails' status. Start at [`Returns::run`].
//!
//! A mail is read, believed as far as its token proves it, recorded, and only then moved away: if we die in the middle it is
//! read again, which changes nothing. Reports recorded before we died, and not notified, are in the kept mails, which are
//! read once more at the start. While the database does not take reports, mails stay in the Maildir. Never lost: a mail not
//! understood or not proved is set aside for a person. Never here: an alert without the proof of a token.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::routing::delivery::return_kind::{ReturnKind, verdict};

use crate::config::Config;
use crate::db::DbError;
use crate::gateway::bounces::{Look, Maildir, MaildirError, NewMail, Pruned};
use crate::ops::clock::since_epoch;
use crate::ops::incident::{Incident, Incidents};
use crate::ops::set_aside::Writing;
use crate::ports::Clock;
use crate::routing::card;
use crate::routing::delivery::Seen;
use crate::routing::delivery::sender::ReturnAddress;
use crate::routing::journal;
use crate::routing::metrics::{self, Resolution, ReturnedResult};
use crate::routing::outages::Outages;
use crate::routing::outages::named;
use crate::routing::store::Store;
use crate::routing::store::delivery::{SeenRecorded, Unnotified};
use crate::scrub::scrub;

/// Interval of looks into the Maildir.
const LOOK: Duration = Duration::from_secs(10);
/// Number of mails read at once.
const PAGE: usize = 200;
/// Interval of removals of old mails.
const PRUNE: Duration = Duration::from_secs(3600);

/// Parts of the reader.
pub struct ReturnsParts {
    /// Maildir of returned mails.
    pub maildir: Maildir,
    /// Return address, which verifies our tokens.
    pub address: ReturnAddress,
    /// Store of the reports.
    pub store: Store,
    /// Name of this reporter in the relay entries: the same after a restart.
    pub by: String,
    /// Outages, blamed for reports that cannot be recorded.
    pub outages: Outages,
    /// Incidents, raised while the Maildir cannot be used.
    pub incidents: Incidents,
    /// Clock of waits and intervals.
    pub clock: Arc<dyn Clock>,
    /// Configuration with the time for which mails are kept; follows reloads.
    pub config: watch::Receiver<Arc<Config>>,
    /// Receiver of lost mails.
    pub lost: Box<dyn Fn(Unnotified) + Send + Sync>,
}

/// Reader of returned mails, one for the whole process.
pub struct Returns {
    parts: ReturnsParts,
    /// Reason why the Maildir cannot be used; logged once.
    trouble: Option<String>,
    /// Whether the mails processed by a former process were read again.
    again: bool,
    /// Time of the next removal of old mails.
    prune_at: Option<Instant>,
}

/// Result for one mail.
enum Treated {
    /// The mail can go.
    Understood(ReturnedResult),
    /// A person must read the mail.
    Aside(ReturnedResult),
    /// The row is locked elsewhere, or refuses the report: the mail stays.
    Busy,
}

impl Returns {
    /// Reads no mail yet.
    #[must_use]
    pub fn new(parts: ReturnsParts) -> Self {
        Self { parts, trouble: None, again: false, prune_at: None }
    }

    /// Reads returned mails until `stop`.
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
            // Logging the same fault every ten seconds would only make an outage louder.
            if !self.parts.outages.postgres.is_open() {
                self.look().await;
            }
            clock.sleep(LOOK).await;
        }
    }

    /// Looks once: processes every waiting mail, as far as possible.
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

    /// Processes the kept mails once, then the waiting ones; returns the number of the latter.
    async fn everything(&mut self) -> Result<usize, MaildirError> {
        self.parts.maildir.prepare().await?;
        if !self.again {
            self.again = self.kept().await?;
        }
        self.pass().await
    }

    /// Processes every waiting mail, a page at a time; returns their number.
    async fn pass(&self) -> Result<usize, MaildirError> {
        let (mut after, mut looked_at): (Option<OsString>, usize) = (None, 0);
        loop {
            let Look { mails, more, unreadable } = self.parts.maildir.look(after.take(), PAGE).await?;
            looked_at += mails.len();
            for found in &mails {
                match self.treat(found).await {
                    Ok(Treated::Understood(result)) => {
                        self.parts.maildir.treated(&found.name).await?;
                        metrics::RETURNED_MAILS.add(result, 1);
                    }
                    Ok(Treated::Aside(result)) => {
                        self.parts.maildir.set_aside(&found.name).await?;
                        metrics::RETURNED_MAILS.add(result, 1);
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

    /// Records the mails of a former process again: their reports may lack a notification. Returns whether all were read.
    async fn kept(&self) -> Result<bool, MaildirError> {
        let mut after = None;
        loop {
            let Look { mails, more, unreadable } = self.parts.maildir.kept(after.take(), PAGE).await?;
            for found in &mails {
                let ReturnKind::Report(seen) = verdict(&found.mail, &self.parts.address) else { continue };
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

    /// Processes one mail: records its reports.
    async fn treat(&self, found: &NewMail) -> Result<Treated, DbError> {
        let file = self.file(&found.name);
        Ok(match verdict(&found.mail, &self.parts.address) {
            ReturnKind::Report(seen) if self.rests(&seen) => Treated::Busy,
            ReturnKind::Report(seen) => {
                let recorded = self.record(&seen).await?;
                let is_recorded = recorded.busy.is_empty() && recorded.refused.is_empty();
                if is_recorded { Treated::Understood(ReturnedResult::Reported) } else { Treated::Busy }
            }
            ReturnKind::Trial => {
                tracing::warn!("a test mail came back ({file}): what it says is kept in cur");
                Treated::Understood(ReturnedResult::Reported)
            }
            ReturnKind::AutoReply => Treated::Understood(ReturnedResult::AutoReply),
            ReturnKind::Receipt => Treated::Understood(ReturnedResult::Receipt),
            ReturnKind::Foreign => {
                tracing::info!(
                    "a mail to bounces.address is set aside ({file}): no token of ours proves that it is about a mail of ours"
                );
                Treated::Aside(ReturnedResult::Foreign)
            }
            ReturnKind::NotUnderstood { origin, why } => {
                tracing::warn!(
                    submission_id = %origin.submission,
                    action_order = origin.action_order,
                    "an answer to a mail of ours is set aside ({file}), because {why}: read it, then remove it"
                );
                Treated::Aside(ReturnedResult::NotUnderstood)
            }
        })
    }

    /// Whether a row refused one of these reports a moment ago.
    fn rests(&self, seen: &[Seen]) -> bool {
        let aside = &self.parts.outages.set_aside;
        seen.iter().any(|seen| aside.is_resting(Writing::DeliveryStatus, seen.origin.submission))
    }

    async fn record(&self, seen: &[Seen]) -> Result<SeenRecorded, DbError> {
        let mut recorded = self.parts.store.record_seen(seen, &self.parts.by).await?;
        if let Some(error) = recorded.fault {
            return Err(error);
        }
        let refuses = |id: &Uuid| recorded.refused.iter().any(|refused| refused.id == *id);
        let took = seen.iter().map(|seen| seen.origin.submission).filter(|id| !refuses(id));
        self.parts.outages.set_aside.note(Writing::DeliveryStatus, took, &named(&recorded.refused));
        for changed in &recorded.changed {
            metrics::DELIVERY_STATUS.add(changed.status, 1);
            if changed.found {
                metrics::IN_DOUBT.add(Resolution::Found, 1);
            }
            journal::delivery_status(changed);
        }
        std::mem::take(&mut recorded.unnotified).into_iter().for_each(&self.parts.lost);
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
                self.parts.incidents.resolve(card::BOUNCES);
            }
            return;
        };
        let said = scrub(&error.to_string());
        if self.trouble.as_ref() != Some(&said) {
            tracing::error!("{said}; what they tell of lost mails is not known meanwhile");
            let what = format!("{said}; mails may be lost without anybody being notified");
            let incident = Incident::new(card::BOUNCES, what, &["maple-router check"]);
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
