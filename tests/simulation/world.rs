//! The world of one sequence after another: a database with an observer, a subscription, two daemons with a relay and a door of the help desk each,
//! and the hands of everybody else (the backend, the scan worker, the YAML loader).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use devkit::forms::{self, SubmissionSeed};
use devkit::google::GoogleFake;
use devkit::help_desk::{Door, HelpDesk, Ticket};
use devkit::postgres::{Cluster, TestDatabase, Traffic, Variant};
use devkit::slack::{Mishap, SlackFake};
use devkit::smtp::{Mail, SmtpOptions, SmtpServer};
use devkit::stage::Source;
use jiff::Timestamp;
use maple_router::routing::decide::replay::{Force, ReplayOptions};
use maple_router::routing::store::overrides::Override;
use maple_router::routing::store::{Replayed, Store};
use tempfile::TempDir;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::clock::SimClock;
use crate::coverage::Coverage;
use crate::help_desk;
use crate::history;
use crate::ops::{Again, DAEMONS, Files, FormKind, Op, Point, Refused, Story, Sub};
use crate::outbox;
use crate::process::{Armed, Doom, Place, Process, Tools};
use crate::scene::{connect, fault, form, memory, name, operator, readable, secret};
use crate::topic::Topic;

/// Polls of the runtime in which nothing moves, before nothing runs any more. A poll carries what goes on here one
/// step further, to whichever task is next, and far fewer steps than these lie between two that are counted.
const ROUNDS: u32 = 24;
/// Quiet polls in a row, with all file system waits done in between: two such waits may follow upon each other.
const QUIET: u32 = 3;
/// Longest wait for the server's next word.
const LOOK: Duration = Duration::from_millis(10);
/// Longest wait for quiet.
const LOOKS: u32 = 500;

/// A submission and its attachment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) id: Uuid,
    pub(crate) attachment: Option<Uuid>,
}

/// The simulated world; see the module's header.
pub(crate) struct World {
    pub(crate) eyes: Client,
    backend: Client,
    loader: Client,
    operator: Store,
    database: TestDatabase,
    pub(crate) clock: SimClock,
    /// Traffic of all processes, also of those that died.
    traffic: Traffic,
    /// The subscription; absent where events come from the outbox.
    topic: Option<Arc<Topic>>,
    relays: Vec<SmtpServer>,
    pub(crate) desk: HelpDesk,
    /// A way to the help desk for each daemon.
    doors: Vec<Door>,
    /// Tickets of the sequences before this one.
    former: usize,
    slack: SlackFake,
    tools: Tools,
    processes: Vec<Option<Process>>,
    pub(crate) submissions: Vec<Placed>,
    /// Attachments that are not clean since this moment of real time.
    pub(crate) unclean_since: Vec<(Uuid, Timestamp)>,
    started: u64,
    hold: bool,
    /// `forms_app` sees no attachment.
    hidden: bool,
    pub(crate) coverage: Arc<Coverage>,
    dir: PathBuf,
    _temporary: TempDir,
}

impl World {
    pub(crate) async fn new(source: Source, coverage: Arc<Coverage>) -> Self {
        let router = source == Source::Postgres;
        let cluster = Cluster::shared().await.expect("a cluster");
        let database = cluster.database(Variant { router, ..Variant::default() }).await.expect("a database");
        let temporary =
            tempfile::Builder::new().prefix("maple-sim-").tempdir_in(memory()).expect("a directory");
        let dir = temporary.path().to_owned();
        readable(&dir);
        let clock = SimClock::new(&dir.join("clock"));
        let eyes = database.superuser().await.expect("superuser");
        history::install(&database, &eyes, &dir.join("clock"), router).await;
        let google = GoogleFake::start().await.expect("a key");
        google.write_key_file(dir.join("key.json")).expect("a key file");
        let slack = SlackFake::start().await.expect("a webhook");
        secret(&dir.join("webhook"), &slack.webhook_url());
        let mut relays = Vec::new();
        for _ in 0..DAEMONS {
            relays.push(SmtpServer::start(SmtpOptions::default()).await.expect("a relay"));
        }
        let desk = help_desk::start(&dir).await;
        let mut doors = Vec::new();
        for _ in 0..DAEMONS {
            doors.push(desk.door().await.expect("a door"));
        }
        Self {
            backend: connect(&database, "forms_app", "backend").await,
            loader: connect(&database, "forms_loader", "loader").await,
            operator: operator(&database, &clock, desk.base_url(), &dir),
            eyes,
            topic: (!router).then(|| Topic::new(clock.clone())),
            clock,
            traffic: Traffic::default(),
            database,
            relays,
            desk,
            doors,
            former: 0,
            slack,
            tools: Tools::of(&dir),
            processes: (0..DAEMONS).map(|_| None).collect(),
            submissions: Vec::new(),
            unclean_since: Vec::new(),
            started: 0,
            hold: false,
            hidden: false,
            coverage,
            dir,
            _temporary: temporary,
        }
    }

    /// Empties the world and sets a story's scene.
    pub(crate) async fn set(&mut self, story: &Story) {
        for daemon in 0..DAEMONS {
            if let Some(process) = self.processes[daemon].take() {
                process.crash(self.topic.as_deref()).await;
            }
            self.relays[daemon].clear_rules();
            self.relays[daemon].restart().await.expect("its port");
            self.relays[daemon].forget();
            self.doors[daemon].clear_rules();
            self.doors[daemon].restart().await.expect("its port");
            // The directory is missing before the first spooled fact.
            std::fs::remove_dir_all(self.dir.join(format!("state{daemon}"))).ok();
        }
        self.rest().await;
        self.show().await;
        history::clear(&self.eyes).await;
        match &self.topic {
            Some(topic) => topic.clear(),
            None => self.eyes.batch_execute(outbox::FORGET).await.expect("no events"),
        }
        self.slack.script().clear();
        self.slack.clear_messages();
        self.desk.forget_calls();
        self.former = self.desk.tickets().len();
        self.unclean_since.clear();
        self.submissions.clear();
        self.hold = story.hold;
        for kind in [FormKind::One, FormKind::Many, FormKind::Two, FormKind::Mixed] {
            forms::load(&mut self.loader, &[form(kind, 0)]).await.expect("forms");
        }
        for sub in &story.submissions {
            let placed = self.submit(*sub).await;
            self.submissions.push(placed);
        }
        for daemon in 0..DAEMONS {
            self.start(daemon).await;
        }
    }

    /// Writes what the backend's finalize commits.
    async fn submit(&mut self, sub: Sub) -> Placed {
        let seed = SubmissionSeed::of(name(sub.0)).field("name", "Ann");
        let seed = match sub.1 {
            Files::None => seed,
            Files::Clean => seed.attachment("a.pdf", "clean"),
            Files::Pending => seed.attachment("a.pdf", "pending"),
            Files::Infected => seed.attachment("a.pdf", "infected"),
        };
        // The backend's role adds nothing that it does not see.
        let backend = if self.hidden { &self.eyes } else { &self.backend };
        let seeded = seed.insert(backend).await.expect("a row");
        let placed = Placed { id: seeded.id, attachment: seeded.attachments.first().copied() };
        if matches!(sub.1, Files::Pending | Files::Infected) {
            self.unclean_since.push((placed.id, self.real_time().await));
        }
        placed
    }

    async fn start(&mut self, daemon: usize) {
        self.started += 1;
        let place = Place {
            database: &self.database,
            traffic: &self.traffic,
            relay: &self.relays[daemon],
            door: &self.doors[daemon],
            topic: self.topic.as_ref(),
            clock: &self.clock,
            dir: &self.dir,
            tools: &self.tools,
            state: &self.dir.join(format!("state{daemon}")),
            hold: self.hold,
        };
        let name = format!("w{}", self.started);
        self.processes[daemon] = Some(Process::start(&place, &name, self.started).await);
    }

    /// Carries out one operation.
    pub(crate) async fn carry_out(&mut self, op: Op) {
        self.clock.advance(Duration::from_millis(1));
        let happened = self.happen(op).await;
        if happened {
            self.coverage.happened(op.label());
        }
    }

    async fn happen(&mut self, op: Op) -> bool {
        match op {
            Op::Submit(sub, form, files) => {
                self.submissions[sub] = self.submit(Sub(form, files)).await;
                // The database says so by itself, where it has an outbox.
                if let Some(topic) = &self.topic {
                    topic.publish(self.submissions[sub].id);
                }
            }
            Op::Deliver(_) | Op::Redeliver(_) | Op::Lose(_) | Op::Reorder | Op::ForgetAck => {
                return match &self.topic {
                    Some(topic) => self.to_topic(topic, op),
                    None => self.to_outbox(op).await,
                };
            }
            Op::Flip(sub, to) => return self.flip(sub, to).await,
            Op::Reload(kind, other) => {
                forms::load(&mut self.loader, &[form(kind, other)]).await.expect("a reload");
            }
            Op::Fault(daemon, at, how, to, times) => self.relays[daemon].rule(fault(at, how, to, times)),
            Op::CutAt(daemon, at) => self.catch(daemon, at, Doom::Cut),
            Op::CrashAt(daemon, at) => self.catch(daemon, at, Doom::Crash),
            Op::StallAt(daemon, at) => self.catch(daemon, at, Doom::Stall),
            Op::Outage(daemon, down) => match &self.processes[daemon] {
                Some(process) => process.proxy.sever(down),
                None => return false,
            },
            Op::Hide(hidden) => return self.hide(hidden).await,
            Op::RelayDown(daemon, true) => self.relays[daemon].stop().await,
            Op::RelayDown(daemon, false) => self.relays[daemon].restart().await.expect("its port"),
            Op::Desk(daemon, trouble, times) => help_desk::trouble(&self.doors[daemon], trouble, times),
            Op::DeskDown(daemon, true) => self.doors[daemon].stop().await,
            Op::DeskDown(daemon, false) => self.doors[daemon].restart().await.expect("its port"),
            Op::Crash(daemon) => self.crash(daemon).await,
            Op::Resume(daemon) => return self.resume(daemon),
            Op::Advance(seconds) => self.pass(Duration::from_secs(seconds)).await,
            Op::Jump(seconds) => self.clock.advance(Duration::from_secs(seconds)),
            Op::Stop(daemon) => self.stop(daemon).await,
            Op::Sweep(daemon) => match &mut self.processes[daemon] {
                Some(process) => process.sweep(),
                None => return false,
            },
            Op::Replay(sub, again) => return self.replay(sub, again).await,
            Op::Refuse(sub, refused) => self.refuse(sub, refused).await,
            Op::SlackFault(times, limited) => {
                let mishap = if limited { Mishap::RetryAfter(3) } else { Mishap::Status(500) };
                self.slack.script().next(usize::try_from(times).expect("a few"), mishap);
            }
            Op::Mend => self.heal().await,
            Op::Rush => {}
        }
        true
    }

    /// Applies an operation on events to a subscription.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only what happens to events comes here")]
    fn to_topic(&self, topic: &Topic, op: Op) -> bool {
        match op {
            Op::Deliver(sub) => topic.publish(self.submissions[sub].id),
            Op::Redeliver(sub) => return topic.redeliver(self.submissions[sub].id),
            Op::Lose(sub) => return topic.lose(self.submissions[sub].id),
            Op::Reorder => return topic.reorder(),
            Op::ForgetAck => topic.forget_next_ack(),
            _ => return false,
        }
        true
    }

    /// The same for rows of the outbox, which forgets no answer that it was given.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only what happens to events comes here")]
    async fn to_outbox(&self, op: Op) -> bool {
        match op {
            Op::Deliver(sub) => outbox::publish(&self.backend, self.submissions[sub].id).await,
            Op::Redeliver(sub) => return outbox::redeliver(&self.backend, self.submissions[sub].id).await,
            Op::Lose(sub) => return outbox::lose(&self.backend, self.submissions[sub].id).await,
            Op::Reorder => return outbox::reorder(&self.backend).await,
            _ => return false,
        }
        true
    }

    fn source(&self) -> Source {
        if self.topic.is_some() { Source::Pubsub } else { Source::Postgres }
    }

    /// Waits until nothing moves, and does to every caught process meanwhile what was asked for. Real time does not
    /// matter: everything but PostgreSQL and the file system runs on this very thread, and it is known for whom
    /// these two are at work. A process caught in a trap is quiet, and so is one that waits in real time for a
    /// relay that is silent: then the next operation comes in the middle of something, which it must bear.
    pub(crate) async fn rest(&mut self) {
        let (mut looks, mut quiet) = (0, 0);
        while quiet < QUIET && looks < LOOKS {
            // The only thread for such work takes it in order: what was there before this is done.
            tokio::task::spawn_blocking(|| ()).await.expect("the file system's thread");
            let last = self.activity();
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            if self.doom().await || self.activity() != last {
                quiet = 0;
            } else if self.traffic.at_work() > 0 {
                quiet = 0;
                looks += u32::from(!self.traffic.moves_within(LOOK).await);
            } else {
                quiet += 1;
            }
        }
        self.coverage.rested(quiet == QUIET);
    }

    /// All counters that show work: readings of the clock, events moved, words with the database, the relays,
    /// the help desk and the webhook. Beside these, which only rise, the connections that are open.
    fn activity(&self) -> (u64, u64) {
        let counters = || self.relays.iter().map(SmtpServer::counters);
        let words = counters().map(|seen| {
            seen.connections
                + seen.transactions
                + seen.mails
                + seen.dots
                + seen.rsets
                + seen.quits
                + seen.rounds
        });
        let events = self.topic.as_ref().map_or(0, |topic| topic.moved());
        let asked = self.desk.counters();
        let desk = asked.connections + asked.gets + asked.posts + asked.made + asked.searches;
        let moved = self.clock.asked() + desk + events + self.traffic.moved() + self.slack.attempts();
        (moved + words.sum::<u64>(), counters().map(|seen| seen.open).sum())
    }

    /// Applies to each caught process the fate meant for it. Returns whether there was any.
    async fn doom(&mut self) -> bool {
        let mut any = false;
        for daemon in 0..DAEMONS {
            let Some(process) = &mut self.processes[daemon] else { continue };
            let mut crash = None;
            for place in (0..process.traps.len()).rev() {
                let Armed { point, doom, trapped, seen } = &mut process.traps[place];
                if !trapped.is_hit() || *seen {
                    continue;
                }
                any = true;
                *seen = true;
                self.coverage.caught(*doom, *point);
                match doom {
                    Doom::Crash => crash = Some(()),
                    Doom::Cut => process.traps.remove(place).trapped.cut(),
                    Doom::Stall => {}
                }
            }
            if let Some(after) = process.tie.died_at_ack() {
                let point = if after { Point::AfterAck } else { Point::BeforeAck };
                self.coverage.caught(Doom::Crash, point);
                crash = Some(());
            }
            if crash.is_some() {
                any = true;
                self.crash(daemon).await;
            }
        }
        any
    }

    fn catch(&mut self, daemon: usize, at: Point, doom: Doom) {
        let source = self.source();
        if let Some(process) = &mut self.processes[daemon] {
            process.catch((&self.relays[daemon], &self.doors[daemon]), source, at, doom);
        }
    }

    /// Kills the daemon, and starts another instead.
    async fn crash(&mut self, daemon: usize) {
        if let Some(process) = self.processes[daemon].take() {
            process.crash(self.topic.as_deref()).await;
        }
        self.start(daemon).await;
    }

    fn resume(&mut self, daemon: usize) -> bool {
        let Some(process) = &mut self.processes[daemon] else { return false };
        let is_stalled = |armed: &mut Armed| armed.seen && armed.doom == Doom::Stall;
        let stalled: Vec<Armed> = process.traps.extract_if(.., is_stalled).collect();
        let any = !stalled.is_empty();
        stalled.into_iter().for_each(|armed| armed.trapped.release());
        any
    }

    /// Time passes; every process that works or waits notices every bit of it.
    pub(crate) async fn pass(&mut self, mut time: Duration) {
        const STEP: Duration = Duration::from_secs(40);
        while !time.is_zero() {
            let step = time.min(STEP);
            self.clock.advance(step);
            time -= step;
            self.rest().await;
        }
    }

    /// SIGTERM, the wait that systemd grants, and a new process.
    async fn stop(&mut self, daemon: usize) {
        let Some(process) = &self.processes[daemon] else { return };
        let stop = process.stop.clone();
        stop.cancel();
        // TimeoutStopSec is 240 s.
        for _ in 0..48 {
            self.rest().await;
            match &self.processes[daemon] {
                Some(process) if process.stop.is_cancelled() && !process.has_ended() => {}
                // The process crashed meanwhile, and another is there already.
                Some(process) if !process.stop.is_cancelled() => return,
                Some(_) | None => break,
            }
            self.clock.advance(Duration::from_secs(5));
        }
        self.crash(daemon).await;
    }

    async fn flip(&mut self, sub: usize, to: Files) -> bool {
        let Placed { id, attachment: Some(attachment) } = self.submissions[sub] else { return false };
        let status = match to {
            Files::None => return false,
            Files::Clean => "clean",
            Files::Pending => "pending",
            Files::Infected => "infected",
        };
        let scanner = if self.hidden { &self.eyes } else { &self.backend };
        forms::scan(scanner, attachment, status).await.expect("scanned");
        self.unclean_since.retain(|(unclean, _)| *unclean != id);
        if to != Files::Clean {
            self.unclean_since.push((id, self.real_time().await));
        }
        true
    }

    /// Takes the policy away, or gives it back. Not while a stalled transaction locks the table.
    async fn hide(&mut self, hidden: bool) -> bool {
        let sql = if hidden {
            "DROP POLICY attachments_app ON attachments"
        } else {
            "CREATE POLICY attachments_app ON attachments FOR ALL TO forms_app USING (true) WITH CHECK (true)"
        };
        if hidden == self.hidden {
            return false;
        }
        let done = self.eyes.batch_execute(&format!("SET lock_timeout = '150ms'; {sql}")).await.is_ok();
        self.eyes.batch_execute("RESET lock_timeout").await.expect("reset");
        if done {
            self.hidden = hidden;
        }
        done
    }

    /// Gives the policy back, as soon as the last transaction of a dead process is gone.
    async fn show(&mut self) {
        for _ in 0..50 {
            if !self.hidden || self.hide(false).await {
                break;
            }
        }
        assert!(!self.hidden, "somebody still holds the attachments");
        self.rest().await;
    }

    /// Returns whether there was something to open again.
    async fn replay(&self, sub: usize, again: Again) -> bool {
        let mut options = ReplayOptions::default();
        match again {
            Again::Plain => {}
            Again::Force(action) => options.force = Some(Force::Action(action)),
            Again::Replan => options.replan = true,
        }
        let more = serde_json::json!({});
        let note =
            Override { actor: "operator:ann", verb: "replay", reason: Some("a simulation"), more: &more };
        let replayed = self.operator.replay(self.submissions[sub].id, options, note, false).await;
        // A row locked by a stalled transaction cannot be replayed now; the operator sees so.
        matches!(replayed, Ok(Replayed::Done { .. }))
    }

    async fn refuse(&self, sub: usize, refused: Refused) {
        let id = &self.submissions[sub].id;
        let changed = match refused {
            Refused::Nothing => {
                self.eyes.execute("DELETE FROM sim.refused WHERE submission = $1", &[id]).await
            }
            Refused::Facts | Refused::Everything => {
                let sql = "INSERT INTO sim.refused VALUES ($1, $2)
                    ON CONFLICT (submission) DO UPDATE SET everything = excluded.everything";
                self.eyes.execute(sql, &[id, &(refused == Refused::Everything)]).await
            }
        };
        changed.expect("set for the trigger");
    }

    /// PostgreSQL's real clock.
    async fn real_time(&self) -> Timestamp {
        self.eyes.query_one("SELECT clock_timestamp()", &[]).await.expect("a time").get(0)
    }

    /// Ends all faults: every part is there, everything works, nothing is caught.
    pub(crate) async fn heal(&mut self) {
        self.slack.script().clear();
        self.eyes.execute("DELETE FROM sim.refused", &[]).await.expect("set for the trigger");
        for daemon in 0..DAEMONS {
            self.relays[daemon].clear_rules();
            self.relays[daemon].restart().await.expect("its port");
            self.doors[daemon].clear_rules();
            self.doors[daemon].restart().await.expect("its port");
            if let Some(process) = &mut self.processes[daemon] {
                process.tie.trap_ack(None);
                process.proxy.sever(false);
                process.traps.drain(..).for_each(|armed| armed.trapped.release());
            }
        }
        self.rest().await;
        self.show().await;
    }

    /// Time goes on until nothing is left to do; says whether it came to that.
    pub(crate) async fn quiesce(&mut self) -> bool {
        for _ in 0..60 {
            self.pass(Duration::from_secs(80)).await;
            if self.nothing_is_left().await {
                return true;
            }
        }
        false
    }

    async fn nothing_is_left(&self) -> bool {
        let sql = "SELECT NOT EXISTS (SELECT FROM submissions s WHERE s.status = 'processing'
                     OR (s.status = 'failed' AND (s.routing_result#>>'{alert,confirmed_at}') IS NULL)
                     OR (s.status = 'received' AND NOT EXISTS (
                       SELECT FROM attachments x WHERE x.submission_id = s.id AND x.clamav_status = 'pending')))";
        let events_left = match &self.topic {
            Some(topic) => topic.leased() > 0,
            None => outbox::is_open(&self.eyes).await,
        };
        !events_left && self.eyes.query_one(sql, &[]).await.expect("an answer").get::<_, bool>(0)
    }

    /// Alerts as people could read them.
    pub(crate) fn alerts(&self) -> Vec<String> {
        self.slack.messages().iter().map(devkit::slack::SlackMessage::visible_text).collect()
    }

    /// Tickets of this sequence.
    pub(crate) fn tickets(&self) -> Vec<Arc<Ticket>> {
        self.desk.tickets().split_off(self.former)
    }

    /// Mails for which the relays took responsibility.
    pub(crate) fn mails(&self) -> Vec<Arc<Mail>> {
        self.relays.iter().flat_map(SmtpServer::mails).collect()
    }
}
