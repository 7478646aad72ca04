//! The alerter: collects what is pending, groups it by cause, posts what is due, confirms what Slack took.
//!
//! Pending alerts are stored elsewhere (failures in their rows, incidents in their state, notices with their senders), so
//! that nothing is lost while Slack is away or when we die; only their timing is here. One message at a time, every wait
//! bounded: an hour without Slack costs a few attempts and delays nobody. The alerter never routes, never changes a status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::channel::{Channel, long};
use super::groups::{AlertIntervals, Groups, Say};
use super::message::Headline;
use super::notice::{Alerts, Notices};
use super::sender::{AlertSender, Notified, why};
use crate::journal;
use crate::kernel::metric::Gauge;
use crate::ops::incident::{Incident, IncidentKey, Open};
use crate::ops::rng::Rng;
use crate::ops::telemetry::EventName;
use crate::ports::{AlertLease, Clock, LedgerTrouble, Posted, Story, Unalerted};

/// Failures that nobody was notified of, at the last look.
pub static UNALERTED: Gauge =
    Gauge::new("maple_router_unalerted", "Failures that wait for their alert, at the last look");

/// Shortest pause between two looks at the rows; `LONGEST_LOOK` is the longest.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// Most leases posted and not yet confirmed in the rows; people are notified again of the rest.
const UNCONFIRMED: usize = 32;
/// Shortest pause of the loop, so that no mistake here can make it spin.
const BREATH: Duration = Duration::from_millis(10);

/// The subject of a message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Incident(IncidentKey),
    Notice(&'static str),
    /// The index of their source, and their cause.
    Failures(usize, String),
}

/// The parts of the alerter.
#[derive(Debug)]
pub struct AlerterParts {
    /// Makes and posts messages.
    pub sender: Arc<AlertSender>,
    /// The intervals between alerts to people.
    pub intervals: AlertIntervals,
    /// The open incidents.
    pub incidents: watch::Receiver<Open>,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// The jitter of pauses.
    pub rng: Arc<Rng>,
    /// Whether this alerter's pending failures are what [`UNALERTED`] shows.
    pub is_measured: bool,
}

/// An incident, as last seen.
#[derive(Debug)]
struct Known {
    since: Instant,
    over: Option<Instant>,
    incident: Incident,
}

/// The alerter's task.
#[derive(Debug)]
pub struct Alerter {
    parts: AlerterParts,
    groups: Groups<Topic>,
    channel: Channel,
    notices: Notices,
    /// Incidents that are open, or over and not yet reported so.
    known: BTreeMap<IncidentKey, Known>,
    /// Leases that Slack confirmed and the rows do not yet, with the index of their source.
    unconfirmed: Vec<(usize, AlertLease)>,
    /// Number of failures that nobody was notified of, by source.
    unalerted: Vec<u64>,
    look_every: Duration,
    look_at: Instant,
    /// The ledger's trouble logged last.
    ledger_trouble: Option<LedgerTrouble>,
    rejected: Option<(Topic, String)>,
}

impl Alerter {
    /// Returns the task, and the handle for notices.
    #[must_use]
    pub fn new(parts: AlerterParts) -> (Self, Alerts) {
        let (notices, alerts) = Notices::new();
        let alerter = Self {
            groups: Groups::new(parts.intervals),
            channel: Channel::default(),
            notices,
            known: BTreeMap::new(),
            unconfirmed: Vec::new(),
            unalerted: vec![0; parts.sender.failures.len()],
            look_every: (parts.intervals.group_wait / 2).clamp(SHORTEST_LOOK, LONGEST_LOOK),
            look_at: parts.clock.monotonic(),
            ledger_trouble: None,
            rejected: None,
            parts,
        };
        (alerter, alerts)
    }

    /// Posts alerts until `stop`; the message on its way is finished and confirmed.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.look().await;
            self.speak(&stop).await;
            let pause = self.pause();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                // Without a sender of incidents the other sources go on.
                Ok(()) = self.parts.incidents.changed() => {}
                () = self.notices.asked() => {}
                () = self.parts.clock.sleep(pause) => {}
            }
        }
    }

    fn now(&self) -> Instant {
        self.parts.clock.monotonic()
    }

    /// Returns the time until an alert is due that may be posted, or the next look at the rows.
    fn pause(&self) -> Duration {
        let due = self.groups.next().map(|due| self.channel.opens().map_or(due, |opens| due.max(opens)));
        let until = due.map_or(self.look_at, |due| due.min(self.look_at));
        until.saturating_duration_since(self.now()).max(BREATH)
    }

    /// Collects the pending alerts.
    async fn look(&mut self) {
        let now = self.now();
        self.look_at_incidents(now);
        for (cause, waits) in self.notices.gather() {
            let topic = Topic::Notice(cause);
            if waits { self.groups.waiting(&topic, now) } else { self.groups.nothing(&topic) }
        }
        if self.look_at <= now {
            self.look_at = now + self.look_every;
            self.confirm().await;
            self.look_at_failures().await;
        }
        self.groups.tidy(now);
    }

    fn look_at_incidents(&mut self, now: Instant) {
        let open = self.parts.incidents.borrow_and_update().clone();
        for (key, incident) in &open {
            let known = self.known.entry(*key);
            let known = known.or_insert_with(|| Known { since: now, over: None, incident: incident.clone() });
            (known.over, known.incident) = (None, incident.clone());
            self.groups.raised(&Topic::Incident(*key), now);
        }
        let groups = &mut self.groups;
        self.known.retain(|key, known| {
            let topic = Topic::Incident(*key);
            if !open.contains_key(key) {
                known.over.get_or_insert(now);
                groups.resolved(&topic, now);
            }
            open.contains_key(key) || groups.has_to_tell(&topic)
        });
    }

    async fn look_at_failures(&mut self) {
        let sender = Arc::clone(&self.parts.sender);
        let mut trouble = None;
        for (source, failures) in sender.failures.iter().enumerate() {
            match failures.unalerted().await {
                Ok(waiting) => self.found(source, waiting),
                // The pending failures of this source stay as they were; the other sources go on.
                Err(found) => trouble = Some(found),
            }
        }
        if self.parts.is_measured {
            UNALERTED.set((), self.unalerted.iter().sum::<u64>());
        }
        match trouble {
            Some(trouble) => self.ledger_is_in_trouble(trouble),
            None if self.unconfirmed.is_empty() => self.ledger_trouble = None,
            None => {}
        }
    }

    /// Takes in the pending failures of one source.
    fn found(&mut self, source: usize, waiting: Vec<Unalerted>) {
        let now = self.now();
        if let Some(known) = self.unalerted.get_mut(source) {
            *known = waiting.iter().map(|found| found.count).sum();
        }
        let found: BTreeSet<Topic> =
            waiting.into_iter().map(|found| Topic::Failures(source, found.cause)).collect();
        for topic in &found {
            self.groups.waiting(topic, now);
        }
        let gone = |topic: &&Topic| {
            matches!(topic, Topic::Failures(at, _) if *at == source) && !found.contains(*topic)
        };
        let gone: Vec<Topic> = self.groups.causes().filter(gone).cloned().collect();
        for topic in gone {
            self.groups.nothing(&topic);
        }
    }

    /// Records the confirmed leases; people are notified again of those that cannot be recorded in time.
    async fn confirm(&mut self) {
        let sender = Arc::clone(&self.parts.sender);
        let mut in_trouble = BTreeSet::new();
        for (source, lease) in std::mem::take(&mut self.unconfirmed) {
            let Some(failures) = sender.failures.get(source) else { continue };
            // One attempt shows whether a source works.
            if !in_trouble.contains(&source) {
                let Err(trouble) = failures.confirm(&lease).await else { continue };
                in_trouble.insert(source);
                self.ledger_is_in_trouble(trouble);
            }
            if self.unconfirmed.len() < UNCONFIRMED {
                self.unconfirmed.push((source, lease));
            }
        }
    }

    fn ledger_is_in_trouble(&mut self, trouble: LedgerTrouble) {
        if self.ledger_trouble.as_ref() != Some(&trouble) {
            tracing::warn!("failures cannot be read or marked now, their alerts wait: {trouble}");
            self.ledger_trouble = Some(trouble);
        }
    }

    /// Posts the alerts that are due, as long as Slack takes them.
    async fn speak(&mut self, stop: &CancellationToken) {
        for (topic, say) in self.groups.due(self.now()) {
            if stop.is_cancelled() || !self.channel.is_open(self.now()) {
                return;
            }
            match &topic {
                Topic::Incident(key) => self.tell_incident(*key, say).await,
                Topic::Notice(cause) => self.tell_notices(cause).await,
                Topic::Failures(source, cause) => self.tell_failures(*source, cause).await,
            }
        }
    }

    async fn tell_incident(&mut self, key: IncidentKey, say: Say) {
        let Some(Known { since, over, incident }) = self.known.get(&key) else { return };
        let lasts = over.unwrap_or(self.now()).saturating_duration_since(*since);
        let story = Story {
            what: incident.what.clone(),
            details: Some(incident.advice.clone()).filter(|advice| !advice.is_empty()).into_iter().collect(),
            commands: incident.commands.clone(),
            runbook: key.runbook(),
        };
        let posted = self.parts.sender.tell(key.label(), Headline::Incident { say, lasts }, &story).await;
        self.became(&Topic::Incident(key), &posted, false);
    }

    async fn tell_notices(&mut self, cause: &'static str) {
        let Some((count, story)) = self.notices.story(cause) else { return };
        let headline = Headline::Pile { count, more: false };
        let posted = self.parts.sender.tell(cause, headline, &story).await;
        if self.became(&Topic::Notice(cause), &posted, false) {
            self.notices.notified(cause);
        }
    }

    async fn tell_failures(&mut self, source: usize, cause: &str) {
        let topic = Topic::Failures(source, cause.to_owned());
        let sender = Arc::clone(&self.parts.sender);
        let Some(failures) = sender.failures.get(source) else { return };
        match sender.tell_failures(failures.as_ref(), cause).await {
            Ok(Notified::Sent(lease)) => {
                self.became(&topic, &Posted::Sent, lease.more);
                self.unconfirmed.push((source, lease));
                self.confirm().await;
            }
            Ok(Notified::Nothing) => self.groups.nothing(&topic),
            Ok(Notified::Not(posted)) => drop(self.became(&topic, &posted, false)),
            Err(trouble) => {
                self.ledger_is_in_trouble(trouble);
                self.groups.postponed(&topic, self.now() + self.look_every);
            }
        }
    }

    /// Follows up a posted message; returns whether Slack took it.
    fn became(&mut self, topic: &Topic, posted: &Posted, more: bool) -> bool {
        let now = self.now();
        if *posted == Posted::Sent {
            if self.channel.worked() {
                tracing::info!("Slack takes alerts again");
            }
            self.rejected = None;
            self.groups.sent(topic, more, now);
            return true;
        }
        let rng = self.parts.rng.with(RngExt::random::<f64>);
        match self.channel.failed(posted, now, rng) {
            None => {
                self.groups.postponed(topic, now + long(rng));
                let said = Some((topic.clone(), why(posted)));
                if self.rejected != said {
                    journal!(
                        error,
                        EventName::AlertDeferred,
                        "an alert is refused as it is and stays pending: {}",
                        why(posted)
                    );
                    self.rejected = said;
                }
            }
            Some(shut) => {
                let (why, seconds) = (shut.why, shut.pause.as_secs());
                match (shut.human, shut.changed) {
                    (true, true) => journal!(
                        error,
                        EventName::AlertDeferred,
                        "alerts reach nobody and stay pending: {why}; renew slack.webhook_file, then `maple-router check --send`"
                    ),
                    (false, true) => journal!(
                        warn,
                        EventName::AlertDeferred,
                        "alerts stay pending: {why}; tried again in {seconds} s"
                    ),
                    (_, false) => journal!(
                        debug,
                        EventName::AlertDeferred,
                        "alerts still stay pending: {why}; tried again in {seconds} s"
                    ),
                }
            }
        }
        false
    }
}
