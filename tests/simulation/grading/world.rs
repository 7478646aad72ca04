//! The world of one sequence after another: a database with an observer, two daemons' main sides, two graders, and whoever they ask.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use devkit::forms::{self, Form};
use devkit::grader::{Kind, MODELS, ScriptedGrader};
use devkit::postgres::{Cluster, TestDatabase, Traffic, Variant};
use maple_router::grading::core::skill::Skill;
use maple_router::grading::grader::texts::version;
use maple_router::routing::store::Store;
use tempfile::TempDir;
use tokio_postgres::Client;
use uuid::Uuid;

use super::history::{claims, clear, install, jobs, log, results, sent, stood, versions};
use super::laws::{DESK, Evidence};
use super::ops::{Op, PROCESSES, Point, Reached, SUBMISSIONS, Says, Story, TWO};
use super::people::daemon;
use super::side::{Armed, Place, Process};
use crate::clock::SimClock;
use crate::history;
use crate::process::Doom;
use crate::scene::{connect, memory, readable, secret};

/// As in the other world: polls in which nothing moves, quiet polls in a row, and for how long quiet is waited for.
const ROUNDS: u32 = 24;
const QUIET: u32 = 3;
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 500;

/// Interval of the workers' looks, and the longest time that passes at once ([`STEP`](super::laws::STEP)): what is due between two looks for
/// deadlines is ended within 30 s.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(14);
/// Time from the last disturbance until everybody has looked again: a look that failed is made up for by the next.
const SETTLED: f64 = 45.0;

const FORMS: [&str; 5] = ["letter", "free", "sends", "listening", "keyless"];

const GRADED: &str = "INSERT INTO assessment.questions (id, skill, prompt, answer_key, set_by) VALUES
  ('visit', 'writing', 'Write to a friend about somebody else''s holidays by the sea.', NULL, 'sim'),
  ('track', 'listening', '', '{\"q1\": \"nine\", \"q2\": [\"coffee\", \"tea\"]}', 'sim'), ('lost', 'listening', '', NULL, 'sim');
INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, gate, on_failed, sla, since, set_by) VALUES
  ('letter', 'writing', 'visit', 'answer', 'email', true, 'hold', '3 minutes', '2026-01-01', 'sim'),
  ('free', 'writing', 'visit', 'answer', 'email', false, 'hold', '3 minutes', '2026-01-01', 'sim'),
  ('sends', 'writing', 'visit', 'answer', 'email', true, 'send', '3 minutes', '2026-01-01', 'sim'),
  ('listening', 'listening', 'track', NULL, NULL, true, 'hold', '1 minute', '2026-01-01', 'sim'),
  ('keyless', 'listening', 'lost', NULL, NULL, true, 'hold', '1 minute', '2026-01-01', 'sim')";

const CALIBRATED: &str = "INSERT INTO grading.calibrations (skill, models, prompt, rubric, items, answered, qwk, mae, ece, suffices, actor)
VALUES ('writing', $1, $2, '1', 30, 30, 0.9, 0.2, 0.1, true, 'sim')";

const FORGOTTEN: &str = "SELECT a.id, a.state FROM assessment.submissions a
WHERE a.current AND a.closed_at IS NULL AND a.state IN ('REVIEW_PENDING', 'FAILED') AND NOT EXISTS (SELECT FROM router.grey_queue g
  WHERE g.subject_id = a.id AND g.cause = CASE a.state WHEN 'FAILED' THEN 'grading_failed' ELSE 'grading' END)";

const UNBORN: &str = "SELECT s.id FROM submissions s WHERE s.status = 'received'
  AND NOT EXISTS (SELECT FROM assessment.submissions a WHERE a.subject = s.id AND a.current)";

/// Nobody's work any more: what is left is a person's.
const DONE: &str =
    "SELECT NOT EXISTS (SELECT FROM assessment.submissions a WHERE a.ended_at IS NULL AND a.closed_at IS NULL
    AND a.state <> 'REVIEW_PENDING')
  AND NOT EXISTS (SELECT FROM grading.jobs j WHERE j.work = 'live')
  AND NOT EXISTS (SELECT FROM mq.grading_request) AND NOT EXISTS (SELECT FROM mq.grading_callback)";

/// The simulated world; see the module's header.
pub(super) struct World {
    pub(super) eyes: Client,
    pub(super) backend: Client,
    pub(super) desk: Client,
    pub(super) daemon: Store,
    database: TestDatabase,
    clock: SimClock,
    traffic: Traffic,
    grader: ScriptedGrader,
    key: PathBuf,
    processes: Vec<Option<Process>>,
    pub(super) submissions: Vec<Uuid>,
    /// What people saw of a submission's attempt before it went on.
    pub(super) late: BTreeMap<usize, (Uuid, i64)>,
    was_bad: bool,
    was_away: bool,
    reorders: bool,
    /// Calm times, and since when nothing was disturbed.
    calm: Vec<(f64, f64)>,
    calm_from: f64,
    started: u64,
    /// Submissions and claims have names that nobody had before.
    pub(super) named: u128,
    pub(super) reached: Arc<Reached>,
    _temporary: TempDir,
}

impl World {
    pub(super) async fn new(reached: Arc<Reached>) -> Self {
        let variant = Variant { router: true, grading: true, ..Variant::default() };
        let cluster = Cluster::shared().await.expect("a cluster");
        let database = cluster.database(variant).await.expect("a database");
        let temporary =
            tempfile::Builder::new().prefix("maple-sim-").tempdir_in(memory()).expect("a directory");
        let dir = temporary.path().to_owned();
        readable(&dir);
        let clock = SimClock::new(&dir.join("clock"));
        let eyes = database.superuser().await.expect("superuser");
        history::install(&database, &eyes, &dir.join("clock"), true).await;
        install(&eyes, &database).await;
        forms::load_into(&database, &FORMS.map(|form| Form::new(form).mail_to("a@one.test")))
            .await
            .expect("forms");
        eyes.batch_execute(GRADED).await.expect("graded forms");
        let grader = ScriptedGrader::start().await.expect("a grader");
        let key = dir.join("key");
        secret(&key, grader.key().expect("it wants one"));
        Self {
            backend: connect(&database, "forms_app", "backend").await,
            desk: connect(&database, "maple_desk", DESK).await,
            daemon: daemon(&database, &clock),
            eyes,
            grader,
            key,
            traffic: Traffic::default(),
            database,
            clock,
            processes: (0..PROCESSES).map(|_| None).collect(),
            submissions: Vec::new(),
            late: BTreeMap::new(),
            was_bad: false,
            was_away: false,
            reorders: false,
            calm: Vec::new(),
            calm_from: 0.0,
            started: 0,
            named: 0,
            reached,
            _temporary: temporary,
        }
    }

    /// Empties the world and sets a story's scene.
    pub(super) async fn set(&mut self, story: &Story) {
        for who in 0..PROCESSES {
            if let Some(running) = self.processes[who].take() {
                running.crash().await;
            }
        }
        self.rest().await;
        clear(&self.eyes).await;
        let sla = format!("UPDATE assessment.profiles SET sla = make_interval(secs => {})", story.sla);
        self.eyes.batch_execute(&sla).await.expect("a promise");
        if story.calibrated {
            let parameters = (MODELS.join(","), version(Skill::Writing));
            self.eyes.execute(CALIBRATED, &[&parameters.0, &parameters.1]).await.expect("a trial");
        }
        self.grader.back().await.expect("its port");
        self.grader.clear_script();
        self.grader.forget();
        (self.was_bad, self.was_away, self.reorders) = (false, false, false);
        (self.calm, self.calm_from) = (Vec::new(), self.seconds() + SETTLED);
        self.answers(Says::Good, None);
        self.late.clear();
        self.submissions = vec![Uuid::nil(); SUBMISSIONS];
        for (place, content) in story.submissions.iter().enumerate() {
            self.submit(place, *content).await;
        }
        for who in 0..PROCESSES {
            self.start(who).await;
        }
    }

    fn answers(&mut self, says: Says, times: Option<usize>) {
        self.was_bad |= says.is_bad();
        self.was_away |= matches!(
            says,
            Says::HalfBody | Says::Disconnect | Says::Busy | Says::Refuses | Says::Page | Says::Slow
        );
        match times {
            Some(times) => self.grader.next_grades(times, says.grading()),
            None => self.grader.grade(says.grading()),
        }
    }

    async fn start(&mut self, who: usize) {
        self.started += 1;
        let Self { database, traffic, grader, key, clock, started, .. } = &*self;
        let place = Place { database, traffic, grader, key, clock };
        let process = Process::start(&place, who, *started).await;
        self.processes[who] = Some(process);
    }

    fn seconds(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// Whether a daemon, or what it waits for, is not as it should be.
    fn is_disturbed(&self) -> bool {
        self.reorders || self.processes.iter().take(TWO).flatten().any(Process::is_disturbed)
    }

    /// Notes whether this moment was calm.
    fn note(&mut self) {
        let now = self.seconds();
        if self.is_disturbed() {
            self.calm_from = now + SETTLED;
        } else if now > self.calm_from {
            match self.calm.last_mut() {
                Some((from, until)) if *from == self.calm_from => *until = now,
                Some(_) | None => self.calm.push((self.calm_from, now)),
            }
        }
    }

    /// Carries out one operation.
    pub(super) async fn carry_out(&mut self, op: Op) {
        self.clock.advance(Duration::from_millis(1));
        if self.happen(op).await {
            self.reached.happened(op);
        }
        self.note();
    }

    async fn happen(&mut self, op: Op) -> bool {
        match op {
            Op::Submit(place, content) => self.submit(place, content).await,
            Op::Change(place) => return self.change(place).await,
            Op::Grader(says) => self.answers(says, None),
            Op::Next(says, times) => self.answers(says, Some(times)),
            Op::Away(true) => {
                self.was_away = true;
                self.grader.away().await;
            }
            Op::Away(false) => self.grader.back().await.expect("its port"),
            Op::Review(place, twice) => return self.review(place, twice).await,
            Op::ReviewLate(place) => return self.review_late(place).await,
            Op::Regrade(place) => {
                let sql = "SELECT answer FROM assessment.regrade($1, 'ann', 'a simulation')";
                return self.by_operator(sql, "regraded", place).await;
            }
            Op::Release(place) => {
                let sql = "SELECT assessment.release($1, 'ann', 'a simulation')";
                return self.by_operator(sql, "released", place).await;
            }
            Op::Purge(place) => return self.purge(place).await,
            Op::Claim(place) => return self.claim(place).await,
            Op::Redeliver(place) => return self.redeliver(place).await,
            Op::AskAgain(place) => return self.ask_again(place).await,
            Op::Garble(place) => return self.garble(place).await,
            Op::Reorder(reorders) => self.reorder(reorders).await,
            Op::CrashAt(who, point) => return self.catch(who, point, Doom::Crash),
            Op::CutAt(who, point) => return self.catch(who, point, Doom::Cut),
            Op::StallAt(who, point) => return self.catch(who, point, Doom::Stall),
            Op::Resume(who) => return self.resume(who),
            Op::Crash(who) => self.crash(who).await,
            Op::Stop(who) => self.stop(who).await,
            Op::Outage(who, down) => match &mut self.processes[who] {
                Some(running) => running.sever(down),
                None => return false,
            },
            Op::Advance(seconds) => self.pass(Duration::from_secs(seconds)).await,
            Op::Jump(seconds) => {
                self.clock.advance(Duration::from_secs(seconds));
                self.calm_from = self.seconds() + SETTLED;
            }
            Op::Mend => self.heal().await,
            Op::Rush => {}
        }
        true
    }

    async fn reorder(&mut self, reorders: bool) {
        let sql = if reorders { "INSERT INTO sim.reorders VALUES (true)" } else { "TRUNCATE sim.reorders" };
        self.eyes.batch_execute(sql).await.expect("the queue");
        self.reorders = reorders;
    }

    fn catch(&mut self, who: usize, point: Point, doom: Doom) -> bool {
        let Some(running) = &mut self.processes[point.side() + who] else { return false };
        running.catch(point, doom);
        true
    }

    fn resume(&mut self, who: usize) -> bool {
        let Some(running) = &mut self.processes[who] else { return false };
        let is_stalled = |armed: &mut Armed| armed.seen && armed.doom == Doom::Stall;
        let stalled: Vec<Armed> = running.traps.extract_if(.., is_stalled).collect();
        let any = !stalled.is_empty();
        stalled.into_iter().for_each(|armed| armed.trapped.release());
        any
    }

    /// Kills a process, and starts another instead.
    async fn crash(&mut self, who: usize) {
        if let Some(running) = self.processes[who].take() {
            running.crash().await;
        }
        self.start(who).await;
    }

    /// SIGTERM, the wait that systemd grants, and a new one.
    async fn stop(&mut self, who: usize) {
        let Some(running) = &self.processes[who] else { return };
        running.stop.cancel();
        for _ in 0..18 {
            self.rest().await;
            match &self.processes[who] {
                Some(running) if running.stop.is_cancelled() && !running.has_ended() => {}
                // It crashed meanwhile, and another is there already.
                Some(running) if !running.stop.is_cancelled() => return,
                Some(_) | None => break,
            }
            self.clock.advance(Duration::from_secs(5));
            self.note();
        }
        self.crash(who).await;
    }

    /// Counters that show work: readings of the clock, questions, words with the database.
    fn activity(&self) -> u64 {
        self.clock.asked() + self.grader.calls(Kind::Grading) + self.traffic.moved()
    }

    /// Waits until nothing moves, as the other world does, and does to every caught process what was asked for.
    pub(super) async fn rest(&mut self) {
        let (mut looks, mut quiet) = (0, 0);
        while quiet < QUIET && looks < LOOKS {
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
        if quiet < QUIET {
            self.reached.way("waited in vain".to_owned());
        }
    }

    /// Applies to each caught process the fate meant for it. Returns whether there was any.
    async fn doom(&mut self) -> bool {
        let mut any = false;
        for who in 0..PROCESSES {
            let Some(running) = &mut self.processes[who] else { continue };
            let mut crash = false;
            for place in (0..running.traps.len()).rev() {
                let Armed { point, doom, trapped, seen } = &mut running.traps[place];
                if !trapped.is_hit() || *seen {
                    continue;
                }
                (any, *seen) = (true, true);
                self.reached.caught(*doom, *point);
                match doom {
                    Doom::Crash => crash = true,
                    Doom::Cut => running.traps.remove(place).trapped.cut(),
                    Doom::Stall => {}
                }
            }
            if crash {
                self.crash(who).await;
            }
        }
        if any {
            // Not only as it is now, but as it was until now.
            self.calm_from = self.seconds() + SETTLED;
        }
        any
    }

    /// Time passes; everybody who works or waits notices every bit of it. Each step of a job waits for the next look, so that the
    /// first seconds are passed one by one.
    pub(super) async fn pass(&mut self, mut time: Duration) {
        let steps = std::iter::repeat_n(LOOKS_EVERY, 5).chain(std::iter::repeat(LONG));
        for step in steps {
            let step = time.min(step);
            if step.is_zero() {
                break;
            }
            self.clock.advance(step);
            time -= step;
            self.rest().await;
            self.note();
        }
    }

    /// Ends all faults: the grader is there, and answers; nobody is caught.
    pub(super) async fn heal(&mut self) {
        self.grader.back().await.expect("its port");
        self.grader.clear_script();
        self.answers(Says::Good, None);
        self.reorder(false).await;
        for running in self.processes.iter_mut().flatten() {
            running.sever(false);
            running.traps.drain(..).for_each(|armed| armed.trapped.release());
        }
        self.rest().await;
    }

    /// Time goes on until only people have something left to do; says whether it came to that.
    pub(super) async fn quiesce(&mut self) -> bool {
        for _ in 0..60 {
            if self.eyes.query_one(DONE, &[]).await.expect("an answer").get::<_, bool>(0) {
                return true;
            }
            self.pass(Duration::from_secs(33)).await;
        }
        false
    }

    /// All that is known of this sequence.
    pub(super) async fn evidence(&self) -> Evidence {
        let ended = self.processes.iter().flatten().any(Process::has_ended);
        assert!(!ended, "a process has ended by itself");
        let rows = async |sql: &str| self.eyes.query(sql, &[]).await.expect("an answer");
        let progress = "SELECT p.request_id, a.state FROM assessment.progress p JOIN assessment.submissions a ON a.id = p.request_id";
        let copied = "SELECT count(*) FROM grading.steps WHERE copied";
        Evidence {
            versions: versions(&self.eyes).await,
            stood: stood(&self.eyes).await,
            results: results(&self.eyes).await,
            jobs: jobs(&self.eyes).await,
            sent: sent(&self.eyes).await,
            claims: claims(&self.eyes).await,
            log: log(&self.eyes).await,
            calm: self.calm.clone(),
            was_bad: self.was_bad,
            was_away: self.was_away,
            progress: rows(progress).await.iter().map(|row| (row.get(0), row.get(1))).collect(),
            forgotten: rows(FORGOTTEN).await.iter().map(|row| (row.get(0), row.get(1))).collect(),
            unborn: rows(UNBORN).await.iter().map(|row| row.get(0)).collect(),
            copied: self.eyes.query_one(copied, &[]).await.expect("an answer").get(0),
        }
    }
}
