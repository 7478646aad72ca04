//! The task that tells people: looks at what waits, groups it by cause, posts what is due, confirms what Slack took.
//!
//! What waits lives elsewhere (failures in their rows, incidents in their state, notices with their finders), so that
//! nothing is lost while Slack is away or when we die; here is only when to speak. One message at a time, every wait
//! bounded: an hour without Slack costs a few tries and holds up nobody. Never routes, never changes a status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::channel::{Channel, long};
use super::desk::{Desk, Told, why};
use super::groups::{Groups, Pace, Say};
use super::message::Headline;
use super::notice::{Alerts, Notices};
use crate::journal;
use crate::ops::chance::Chance;
use crate::ops::incident::{Incident, IncidentKey, Open};
use crate::ops::metrics;
use crate::ops::telemetry::EventName;
use crate::ports::{AlertLease, Clock, LedgerTrouble, Posted, Story, Unalerted};

/// The rows are looked at no more often than this, and no more rarely than `LONGEST_LOOK`.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// Told of, not confirmed in the rows yet: no more than this are kept, the rest is told of again.
const UNCONFIRMED: usize = 32;
/// So that no mistake here can spin.
const BREATH: Duration = Duration::from_millis(10);

/// What a message is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Incident(IncidentKey),
    Notice(&'static str),
    /// Where they are kept, and their cause.
    Failures(usize, String),
}

/// What the task is made of.
#[derive(Debug)]
pub struct AlerterParts {
    /// Where messages are made.
    pub desk: Arc<Desk>,
    /// How often people may be told.
    pub pace: Pace,
    /// What is wrong now.
    pub incidents: watch::Receiver<Open>,
    /// For pauses.
    pub clock: Arc<dyn Clock>,
    /// For pauses.
    pub chance: Arc<Chance>,
}

/// An incident, as it was last seen.
#[derive(Debug)]
struct Known {
    since: Instant,
    over: Option<Instant>,
    incident: Incident,
}

/// The task.
#[derive(Debug)]
pub struct Alerter {
    parts: AlerterParts,
    groups: Groups<Topic>,
    channel: Channel,
    notices: Notices,
    /// Incidents that are open, or over and not told so yet.
    known: BTreeMap<IncidentKey, Known>,
    /// And where what they lease is kept.
    unconfirmed: Vec<(usize, AlertLease)>,
    /// Failures nobody was told of, by where they are kept.
    unalerted: Vec<u64>,
    look_every: Duration,
    look_at: Instant,
    /// Said already.
    ledger_trouble: Option<LedgerTrouble>,
    rejected: Option<(Topic, String)>,
}

impl Alerter {
    /// The task, and the handle for notices.
    #[must_use]
    pub fn new(parts: AlerterParts) -> (Self, Alerts) {
        let (notices, alerts) = Notices::new();
        let alerter = Self {
            groups: Groups::new(parts.pace),
            channel: Channel::default(),
            notices,
            known: BTreeMap::new(),
            unconfirmed: Vec::new(),
            unalerted: vec![0; parts.desk.failures.len()],
            look_every: (parts.pace.group_wait / 2).clamp(SHORTEST_LOOK, LONGEST_LOOK),
            look_at: parts.clock.monotonic(),
            ledger_trouble: None,
            rejected: None,
            parts,
        };
        (alerter, alerts)
    }

    /// Tells until `stop`; the message that is on its way is finished and confirmed.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.look().await;
            self.speak(&stop).await;
            let pause = self.pause();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                // Nobody left who could raise one: the others go on.
                Ok(()) = self.parts.incidents.changed() => {}
                () = self.notices.heard() => {}
                () = self.parts.clock.sleep(pause) => {}
            }
        }
    }

    fn now(&self) -> Instant {
        self.parts.clock.monotonic()
    }

    /// Until something is due that may be told, or the rows are to be looked at.
    fn pause(&self) -> Duration {
        let due = self.groups.next().map(|due| self.channel.opens().map_or(due, |opens| due.max(opens)));
        let until = due.map_or(self.look_at, |due| due.min(self.look_at));
        until.saturating_duration_since(self.now()).max(BREATH)
    }

    /// What there is to tell.
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
        let desk = Arc::clone(&self.parts.desk);
        let mut trouble = None;
        for (place, failures) in desk.failures.iter().enumerate() {
            match failures.unalerted().await {
                Ok(waiting) => self.found(place, waiting),
                // What waits there is as it was; what waits elsewhere is told of.
                Err(found) => trouble = Some(found),
            }
        }
        metrics::unalerted(self.unalerted.iter().sum());
        match trouble {
            Some(trouble) => self.ledger_is_in_trouble(trouble),
            None if self.unconfirmed.is_empty() => self.ledger_trouble = None,
            None => {}
        }
    }

    /// What waits in one place.
    fn found(&mut self, place: usize, waiting: Vec<Unalerted>) {
        let now = self.now();
        if let Some(known) = self.unalerted.get_mut(place) {
            *known = waiting.iter().map(|found| found.count).sum();
        }
        let found: BTreeSet<Topic> =
            waiting.into_iter().map(|found| Topic::Failures(place, found.cause)).collect();
        for topic in &found {
            self.groups.waiting(topic, now);
        }
        let gone = |topic: &&Topic| {
            matches!(topic, Topic::Failures(at, _) if *at == place) && !found.contains(*topic)
        };
        let gone: Vec<Topic> = self.groups.causes().filter(gone).cloned().collect();
        for topic in gone {
            self.groups.nothing(&topic);
        }
    }

    /// Records what Slack has confirmed; what cannot be recorded in time is told of again.
    async fn confirm(&mut self) {
        let desk = Arc::clone(&self.parts.desk);
        let mut in_trouble = BTreeSet::new();
        for (place, lease) in std::mem::take(&mut self.unconfirmed) {
            let Some(failures) = desk.failures.get(place) else { continue };
            // One try tells enough about a place.
            if !in_trouble.contains(&place) {
                let Err(trouble) = failures.confirm(&lease).await else { continue };
                in_trouble.insert(place);
                self.ledger_is_in_trouble(trouble);
            }
            if self.unconfirmed.len() < UNCONFIRMED {
                self.unconfirmed.push((place, lease));
            }
        }
    }

    fn ledger_is_in_trouble(&mut self, trouble: LedgerTrouble) {
        if self.ledger_trouble.as_ref() != Some(&trouble) {
            tracing::warn!("failures cannot be read or marked now, their alerts wait: {trouble}");
            self.ledger_trouble = Some(trouble);
        }
    }

    /// Tells what is due, as long as Slack takes it.
    async fn speak(&mut self, stop: &CancellationToken) {
        for (topic, say) in self.groups.due(self.now()) {
            if stop.is_cancelled() || !self.channel.is_open(self.now()) {
                return;
            }
            match &topic {
                Topic::Incident(key) => self.tell_incident(*key, say).await,
                Topic::Notice(cause) => self.tell_notices(cause).await,
                Topic::Failures(place, cause) => self.tell_failures(*place, cause).await,
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
        let posted = self.parts.desk.tell(key.label(), Headline::Incident { say, lasts }, &story).await;
        self.became(&Topic::Incident(key), &posted, false);
    }

    async fn tell_notices(&mut self, cause: &'static str) {
        let Some((count, story)) = self.notices.story(cause) else { return };
        let headline = Headline::Pile { count, more: false };
        let posted = self.parts.desk.tell(cause, headline, &story).await;
        if self.became(&Topic::Notice(cause), &posted, false) {
            self.notices.told(cause);
        }
    }

    async fn tell_failures(&mut self, place: usize, cause: &str) {
        let topic = Topic::Failures(place, cause.to_owned());
        let desk = Arc::clone(&self.parts.desk);
        let Some(failures) = desk.failures.get(place) else { return };
        match desk.tell_failures(failures.as_ref(), cause).await {
            Ok(Told::Sent(lease)) => {
                self.became(&topic, &Posted::Sent, lease.more);
                self.unconfirmed.push((place, lease));
                self.confirm().await;
            }
            Ok(Told::Nothing) => self.groups.nothing(&topic),
            Ok(Told::Not(posted)) => drop(self.became(&topic, &posted, false)),
            Err(trouble) => {
                self.ledger_is_in_trouble(trouble);
                self.groups.postponed(&topic, self.now() + self.look_every);
            }
        }
    }

    /// Draws the consequences; answers whether it was taken.
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
        let chance = self.parts.chance.with(RngExt::random::<f64>);
        match self.channel.failed(posted, now, chance) {
            None => {
                self.groups.postponed(topic, now + long(chance));
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
