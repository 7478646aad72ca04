//! The start: dependencies that must answer before the first event is taken. A dependency that is down is waited
//! for, and logged once per change; a fault that can never pass ends the start.
//!
//! Relay and Pub/Sub are waited for only until they are known to be out: from then on their breaker and the stream's
//! supervisor wait, as in every outage. The database is waited for, because nothing may be done before it is known to meet
//! the contract; its breaker notifies people meanwhile. Nothing is written here: if we die in the middle, nothing is lost.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use backon::BackoffBuilder;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::DaemonError;
use super::alerting::Alerting;
use super::source::Source;
use crate::config::Config;
use crate::config::validate::{Subscribed, broken_by};
use crate::db::contract::{self, StartDecision};
use crate::db::pool::Pool;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::facts::SubscriptionFacts;
use crate::gateway::pubsub::inspect::{Verified, verify};
use crate::gateway::pubsub::probe::LOST_AFTER;
use crate::gateway::smtp::{SmtpSettings, greet};
use crate::ops::breaker::Breaker;
use crate::ops::{http, systemd};
use crate::parts;
use crate::ports::{CheckLevel, CheckLine};
use crate::routing::outages::Outages;
use crate::scrub::scrub;

/// Longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(15);

/// Dependencies that must answer before the first event is taken.
pub(super) struct Start<'a> {
    pub(super) config: &'a Config,
    pub(super) readiness: &'a http::Readiness,
    pub(super) outages: &'a Outages,
    source: &'a Source,
    /// Dependencies that neither have answered nor are known to be out.
    unsettled: watch::Sender<BTreeSet<&'static str>>,
    /// The subscription as its server describes it, once it was read.
    found: OnceLock<SubscriptionFacts>,
}

/// Result of asking a dependency.
enum Answer {
    Well,
    /// Not yet; logged once per change.
    Wait(String),
    Hopeless(DaemonError),
}

/// Consequence of a dependency that does not answer.
enum Without<'a> {
    /// Its breaker, once open, waits for it; the routing can begin.
    GoOn(&'a Breaker),
    /// Its breaker notifies people; the routing cannot begin.
    Stay(&'a Breaker),
    /// The routing can begin after this many tries: another task watches it from then on.
    GoOnAfter(u32),
}

impl<'a> Start<'a> {
    pub(super) fn new(
        config: &'a Config,
        readiness: &'a http::Readiness,
        outages: &'a Outages,
        source: &'a Source,
    ) -> Self {
        let mut unsettled = BTreeSet::from(["postgres", "relay"]);
        unsettled.extend(source.pubsub().map(|_| "pubsub"));
        let unsettled = watch::Sender::new(unsettled);
        Self { config, readiness, outages, source, unsettled, found: OnceLock::new() }
    }

    /// The subscription as it was read; `None` where it could not be, or there is none: then the configured values count.
    pub(super) fn found(self) -> Option<SubscriptionFacts> {
        self.found.into_inner()
    }

    /// The whole start. READY is sent by the task that begins the routing; or here, when every missing dependency
    /// is known to be out. From then on people are notified, whatever keeps the routing from beginning.
    /// `Ok(false)`: `stop` came first.
    pub(super) async fn begin(
        &self,
        (pool, smtp): (&Pool, &SmtpSettings),
        tell: impl FnOnce() -> Alerting,
        stop: &CancellationToken,
    ) -> (Result<bool, DaemonError>, Option<Alerting>) {
        let mut answers = std::pin::pin!(self.dependencies(pool, smtp));
        let answered = tokio::select! {
            biased;
            () = stop.cancelled() => return (Ok(false), None),
            answered = &mut answers => Some(answered),
            () = self.settled() => None,
        };
        match answered {
            Some(Ok(())) => (Ok(true), Some(tell())),
            Some(Err(error)) => (Err(error), None),
            None => {
                let alerting = tell();
                tracing::warn!("started; nothing is routed before the database answers");
                systemd::ready();
                let answered = tokio::select! {
                    biased;
                    () = stop.cancelled() => Ok(false),
                    answered = &mut answers => answered.map(|()| true),
                };
                (answered, Some(alerting))
            }
        }
    }

    /// Waits until the routing can begin: the database meets the contract, the relay, and the subscription where
    /// there is one, have answered or are known to be out. The routing waits for those by itself.
    pub(super) async fn dependencies(&self, pool: &Pool, smtp: &SmtpSettings) -> Result<(), DaemonError> {
        let (postgres, relay_breaker) = (&self.outages.postgres, &self.outages.relay);
        let pubsub = async {
            let Some(pubsub) = self.source.pubsub() else { return Ok(()) };
            self.wait_for("pubsub", Without::GoOnAfter(LOST_AFTER), || self.subscription(pubsub)).await
        };
        tokio::try_join!(
            self.wait_for("postgres", Without::Stay(postgres), || self.database(pool)),
            self.wait_for("relay", Without::GoOn(relay_breaker), || relay(smtp)),
            pubsub,
        )?;
        Ok(())
    }

    /// Resolves when each has answered once, or is deliberately waited for: the start as such is over then, however
    /// long the database stays away.
    pub(super) async fn settled(&self) {
        if self.unsettled.subscribe().wait_for(BTreeSet::is_empty).await.is_err() {
            // The sender is our own, so the channel cannot close.
            std::future::pending::<()>().await;
        }
    }

    fn settle(&self, name: &'static str) {
        self.unsettled.send_if_modified(|unsettled| unsettled.remove(name));
    }

    /// Asks until the dependency is well, with growing pauses; one that is down is waited for.
    async fn wait_for<Asking>(
        &self,
        name: &'static str,
        without: Without<'_>,
        ask: impl Fn() -> Asking,
    ) -> Result<(), DaemonError>
    where
        Asking: Future<Output = Answer>,
    {
        let mut pauses = backon::ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(250))
            .with_max_delay(LONGEST)
            .without_max_times()
            .build();
        let (mut said, mut tries) = (String::new(), 0);
        loop {
            let why = match ask().await {
                Answer::Well => {
                    self.readiness.clear(name);
                    self.settle(name);
                    return Ok(());
                }
                Answer::Hopeless(error) => return Err(error),
                Answer::Wait(why) => why,
            };
            self.readiness.hold(name, why.clone());
            if said != why {
                tracing::error!(dependency = name, "waiting for {name}: {why}");
                said.clone_from(&why);
            }
            tries += 1;
            match &without {
                Without::GoOn(breaker) => {
                    breaker.fault(&why);
                    if breaker.verdict().await {
                        self.settle(name);
                        return Ok(());
                    }
                }
                Without::Stay(breaker) => {
                    breaker.fault(&why);
                    if breaker.verdict().await {
                        self.settle(name);
                    }
                }
                Without::GoOnAfter(enough) if tries >= *enough => {
                    tracing::warn!(
                        "{name} is not waited for any longer: events come when it answers, the sweep goes on"
                    );
                    self.readiness.clear(name);
                    self.settle(name);
                    return Ok(());
                }
                Without::GoOnAfter(_) => {}
            }
            tokio::time::sleep(pauses.next().unwrap_or(LONGEST)).await;
        }
    }

    /// Checks the inequalities against the subscription as it is, whatever the configuration says of it.
    async fn subscription(&self, pubsub: &PubsubSettings) -> Answer {
        match verify(pubsub).await {
            Ok(Verified::Readable(facts)) => {
                let (_, retry_max) = facts.retry.unwrap_or_default();
                let found = Subscribed { retry_max, ack_deadline: facts.ack_deadline };
                let broken = broken_by(self.config, found);
                if !broken.is_empty() {
                    let problems: Vec<String> = broken.iter().map(ToString::to_string).collect();
                    return Answer::Hopeless(DaemonError::Subscription {
                        name: pubsub.subscription.clone(),
                        broken: problems.join("; "),
                    });
                }
                // Asked again only where nothing was read.
                drop(self.found.set(facts));
                Answer::Well
            }
            Ok(Verified::Unreadable { said }) => {
                tracing::warn!(
                    "the subscription's settings cannot be read ({said}), and [pubsub] is believed: grant roles/pubsub.viewer, so \
                     that they can be verified"
                );
                Answer::Well
            }
            Err(error) if error.needs_a_human() => Answer::Hopeless(error.into()),
            Err(error) => Answer::Wait(error.to_string()),
        }
    }

    async fn database(&self, pool: &Pool) -> Answer {
        let lines = contract::inspect(pool, &parts::contract_options(self.config, super::checks())).await;
        let failed = || {
            let failed = lines.iter().filter(|line| line.level == CheckLevel::Fail);
            let problems: Vec<String> = failed
                .map(|l| {
                    format!(
                        "{}: {} ({})",
                        l.name,
                        l.detail,
                        l.remedy.as_deref().unwrap_or("see `maple-router check`")
                    )
                })
                .collect();
            scrub(&problems.join("; "))
        };
        let level = |line: &&CheckLine| line.name == "router_schema" && line.detail == contract::NO_OUTBOX;
        if let Some(line) = lines.iter().find(level) {
            return Answer::Hopeless(DaemonError::Contract(line.detail.clone()));
        }
        match contract::verdict(&lines) {
            StartDecision::Start => Answer::Well,
            StartDecision::LookAgain => Answer::Wait(failed()),
            StartDecision::Refuse => Answer::Hopeless(DaemonError::Contract(failed())),
        }
    }
}

async fn relay(smtp: &SmtpSettings) -> Answer {
    match greet(smtp).await {
        Ok(_) => Answer::Well,
        Err(fault) => Answer::Wait(format!(
            "{} does not take mail ({}): is Postfix running? `systemctl status postfix`",
            smtp.relay(),
            scrub(&fault.reply.reply)
        )),
    }
}
