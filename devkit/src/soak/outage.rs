//! One part is gone for minutes, in real time, while events go on coming: no submission fails, no attempt is spent, one
//! alert, one message when it is over, then everything is sent.
//!
//! One daemon with the protocol's own timings, as in production; only the subscription's redelivery is faster. All rows are
//! inserted beforehand, because a backend without its database submits nothing; their events come at an even rate.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use uuid::Uuid;

use super::world::World;
use super::{Options, witness};
use crate::forms::SubmissionSeed;

/// The part that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The relay refuses connections.
    Relay,
    /// PostgreSQL is stopped, as by a crash.
    Postgres,
    /// The help desk answers everything with 429.
    HelpDesk,
}

/// Tickets a minute, as the shipped configuration has it.
const LIMIT: usize = 120;
/// Before the outage.
const CALM: Duration = Duration::from_secs(20);
/// Events a second.
const RATE: u64 = 2;
/// Longest time until everything is sent.
const DRAIN: Duration = Duration::from_secs(600);
/// After the end: for a message that should not come, or comes late.
const ECHO: Duration = Duration::from_secs(60);

/// The report of an outage.
#[derive(Debug, Serialize)]
struct Report {
    part: Part,
    seconds: u64,
    submitted: u64,
    routed: u64,
    not_routed: Vec<String>,
    /// Submissions that took more than the one attempt they need.
    attempts_spent: Vec<String>,
    duplicates: u64,
    alerts: Vec<String>,
    recoveries: Vec<String>,
    other_messages: Vec<String>,
    /// From the return of the part to the last submission; absent where some are left.
    drained_after_seconds: Option<f64>,
    deliveries: u64,
    dead_lettered: u64,
    tickets: Tickets,
    ended_well: bool,
}

/// What the help desk has seen.
#[derive(Debug, Serialize)]
struct Tickets {
    wanted: usize,
    /// Tags of tickets that are there, each once.
    once: usize,
    twice: Vec<String>,
    /// The most POSTs in a minute, and what the daemon's configuration allows.
    most_posts_a_minute: usize,
    limit: usize,
    /// Requests that met the throttle.
    throttled: u64,
}

impl Tickets {
    fn of(world: &World, wanted: usize) -> Self {
        let digests = world.help_desk.digests();
        let twice = digests.iter().filter(|(_, copies)| **copies != 1).map(|(tag, _)| tag.clone()).collect();
        Self {
            wanted,
            once: digests.values().filter(|copies| **copies == 1).count(),
            twice,
            most_posts_a_minute: world.help_desk.peaks().posts,
            limit: LIMIT,
            throttled: world.help_desk.counters().throttled,
        }
    }

    /// Every ticket once, never more requests than allowed, and a throttle that was asked once in a while at most.
    fn is_good(&self, part: Part, seconds: u64) -> bool {
        let probes = if part == Part::HelpDesk { 10 + seconds / 30 } else { 0 };
        self.once == self.wanted
            && self.twice.is_empty()
            && self.most_posts_a_minute <= self.limit
            && self.throttled <= probes
    }
}

impl Report {
    fn is_good(&self) -> bool {
        self.routed == self.submitted
            && self.attempts_spent.is_empty()
            && self.duplicates == 0
            && self.alerts.len() == 1
            && self.recoveries.len() == 1
            && self.other_messages.is_empty()
            && self.drained_after_seconds.is_some()
            && self.tickets.is_good(self.part, self.seconds)
            && self.ended_well
    }
}

/// Runs it; returns whether everything was as it must be.
///
/// # Errors
/// A part cannot be started, or the end cannot be read.
pub async fn run(options: Options, part: Part) -> Result<bool> {
    // No submission of these forms has an address of its own.
    let contact = "[happyfox]\nfallback_contact_email = \"forms@greenpeace.org\"\n";
    let world = World::with(&options, contact).await?;
    witness::watch(&world.stage.database).await?;
    let planned = RATE * (CALM.as_secs() + options.seconds);
    let backend = world.stage.database.client_as("forms_app").await?;
    let mut ids = Vec::new();
    for number in 0..planned {
        let form = match (number % 3, part) {
            (0, Part::HelpDesk) => "ticketed",
            (0, Part::Relay | Part::Postgres) => "both",
            _ => "one",
        };
        // The event comes later, one way or the other.
        ids.push(world.stage.submit_unannounced(&SubmissionSeed::of(form), &backend).await?.id);
    }
    let mut router = world.start("a", 1).await?;
    router.ready().await?;
    let began = world.elapsed();
    world.say(&format!("{planned} submissions at {RATE} a second; {part:?} goes after {CALM:?}"));
    let publishing = publish(&world, &ids, began);
    let failing = async {
        tokio::time::sleep(CALM).await;
        match part {
            Part::Relay => world.stage.relay.stop().await,
            Part::Postgres => world.cluster.stop().await,
            Part::HelpDesk => world.help_desk.throttle(Duration::from_secs(options.seconds)),
        }
        world.say(&format!("{part:?} is gone for {} s", options.seconds));
        tokio::time::sleep(Duration::from_secs(options.seconds)).await;
        match part {
            Part::Relay => world.stage.relay.restart().await?,
            Part::Postgres => world.cluster.start_again().await?,
            // It ends by itself, as it said.
            Part::HelpDesk => {}
        }
        world.say(&format!("{part:?} is back; Slack has {} messages", world.stage.slack.messages().len()));
        anyhow::Ok(())
    };
    let (published, failed) = tokio::join!(publishing, failing);
    published?;
    failed?;
    let drained = witness::drained(&world, DRAIN).await?;
    world.say(&format!("drained: {drained:?}; listening for {ECHO:?} more"));
    tokio::time::sleep(ECHO).await;
    let ended_well = router.stop().await?.success();
    let tickets = Tickets::of(&world, if part == Part::HelpDesk { ids.len().div_ceil(3) } else { 0 });
    let report = tell(&world, (part, tickets), &options, ids, drained, ended_well).await?;
    let text = serde_json::to_string_pretty(&report)?;
    std::fs::write(options.dir.join("outage-report.json"), &text)?;
    world.say(&text);
    world.say(if report.is_good() { "as it must be" } else { "NOT as it must be" });
    Ok(report.is_good())
}

async fn publish(world: &World, ids: &[Uuid], began: Duration) -> Result<()> {
    for (number, id) in (0_u32..).zip(ids) {
        let due = began + Duration::from_secs(1) / u32::try_from(RATE)? * number;
        tokio::time::sleep(due.saturating_sub(world.elapsed())).await;
        world.stage.publish(*id, "finalized")?;
    }
    Ok(())
}

async fn tell(
    world: &World,
    (part, tickets): (Part, Tickets),
    options: &Options,
    ids: Vec<Uuid>,
    drained: Option<Duration>,
    ended_well: bool,
) -> Result<Report> {
    let evidence = witness::gather(world, ids, drained).await?;
    let rows: Vec<_> =
        evidence.ids().into_iter().filter_map(|id| Some((id, evidence.rows.get(&id)?))).collect();
    let routed = rows.iter().filter(|(_, row)| row.status == "routed").count();
    let not_routed = rows.iter().filter(|(_, row)| row.status != "routed");
    let not_routed = not_routed.map(|(id, row)| format!("{id}: {} {}", row.status, row.ledger)).collect();
    let spent = rows.iter().filter(|(_, row)| row.ledger["attempts"] != 1);
    let attempts_spent = spent.map(|(id, row)| format!("{id}: {}", row.ledger)).collect();
    let duplicates =
        evidence.received.values().flat_map(|mails| mails.values()).map(|copies| copies - 1).sum();
    let (mut alerts, mut recoveries, mut other_messages) = (Vec::new(), Vec::new(), Vec::new());
    for text in evidence.slack {
        if text.starts_with(":white_check_mark:") {
            recoveries.push(text);
        } else if text.starts_with(":rotating_light:") {
            alerts.push(text);
        } else {
            other_messages.push(text);
        }
    }
    let stats = world.stage.events().await?;
    Ok(Report {
        part,
        seconds: options.seconds,
        submitted: u64::try_from(rows.len())?,
        routed: u64::try_from(routed)?,
        not_routed,
        attempts_spent,
        duplicates,
        alerts,
        recoveries,
        other_messages,
        drained_after_seconds: drained.map(|took| took.as_secs_f64()),
        deliveries: stats.delivered,
        dead_lettered: stats.forwarded,
        tickets,
        ended_well,
    })
}
