//! One screener: the real workers on a wire of its own to the database, so that it can be caught, cut and killed alone.
//!
//! A kill aborts all its tasks, cuts its wire and stops its clock: nothing more comes from it, as from a dead process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use devkit::judge::{MODEL, ScriptedJudge};
use devkit::postgres::{CuttingProxy, TestDatabase, Traffic};
use devkit::trap::Trapped;
use maple_router::config::secret::Secret;
use maple_router::config::{Config, Screening, ScreeningForm, ScreeningJudge};
use maple_router::db::{Pool, PoolOptions};
use maple_router::gateway::judge::{Judge, JudgeSettings, base_url};
use maple_router::kernel::jobs::listener::Listener;
use maple_router::ops::rng::Rng;
use maple_router::ports::Clock;
use maple_router::screening::store::ScreeningStore;
use maple_router::screening::worker::{self, Judging, Rulesets, Tools, Trees};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ops::Point;
use crate::clock::SimClock;
use crate::history;
use crate::outbox::MortalClock;
use crate::process::Doom;

/// The form whose submissions are screened.
pub(super) const FORM: &str = "on";
/// The caller that is trusted, and the column in which the backend names one.
pub(super) const TRUSTED: &str = "Greenpeace-NL";
pub(super) const ORIGIN_COLUMN: &str = "happyfox_status";
/// A field that people do not see.
pub(super) const HONEYPOT: &str = "website";
/// Time for which the judge is waited for.
const PATIENCE: Duration = Duration::from_secs(600);

/// The settings of all worlds.
fn settings() -> Screening {
    let form = ScreeningForm {
        honeypot_fields: vec![HONEYPOT.to_owned()],
        origin_column: Some(ORIGIN_COLUMN.to_owned()),
        trusted: vec![TRUSTED.to_owned()],
        // The same words come again and again here.
        same_per_hour: 1_000,
        ..ScreeningForm::default()
    };
    Screening { patience: PATIENCE, forms: [(FORM.to_owned(), form)].into(), ..Screening::default() }
}

/// The rules, which take seconds to compile here, and know nothing of who uses them.
fn rulesets() -> Arc<Rulesets> {
    static RULES: OnceLock<Arc<Rulesets>> = OnceLock::new();
    let rules = || Arc::new(Rulesets::new(&settings(), "").expect("rules that compile"));
    Arc::clone(RULES.get_or_init(rules))
}

/// A trap that waits, or holds somebody.
pub(super) struct Armed {
    pub(super) point: Point,
    pub(super) doom: Doom,
    pub(super) trapped: Trapped,
    /// Counted already: it stands there since.
    pub(super) seen: bool,
}

/// A running screener.
pub(super) struct Screener {
    pub(super) traps: Vec<Armed>,
    pub(super) proxy: CuttingProxy,
    pub(super) stop: CancellationToken,
    mortal: MortalClock,
    main: JoinHandle<()>,
}

impl Screener {
    /// Starts one under a name nobody had before.
    pub(super) async fn start(
        (database, traffic): (&TestDatabase, &Traffic),
        judge: &ScriptedJudge,
        clock: &SimClock,
        (name, seed): (&str, u64),
    ) -> Self {
        let proxy = CuttingProxy::counted(database, traffic).await.expect("a wire");
        let mut config = Config::default();
        config.database.url = format!("{}&{}", proxy.url_as("maple_screener"), history::options(name));
        config.database.max_connections = 4;
        // Real time, for a statement that waits for a row locked by a stalled transaction.
        config.database.lock_timeout = Duration::from_millis(150);
        config.database.statement_timeout = Duration::from_secs(1);
        let mortal = MortalClock::new(clock);
        let own: Arc<dyn Clock> = Arc::new(mortal.clone());
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::clone(&own))).expect("a pool");
        let tools = Tools {
            store: ScreeningStore::new(pool.clone(), name),
            rulesets: rulesets(),
            trees: Trees::own(),
            git: None,
            judge: Some(judging(judge, &own)),
            patience: PATIENCE,
            scans: Arc::new(Semaphore::new(2)),
            fetches: Arc::new(Semaphore::new(1)),
            clock: own,
            rng: Arc::new(Rng::seeded(seed)),
        };
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let main = tokio::spawn(async move {
            worker::run(tools, Listener::silent, stopping).await;
            pool.close();
        });
        Self { traps: Vec::new(), proxy, stop, mortal, main }
    }

    /// Catches the next to come to a point.
    pub(super) fn catch(&mut self, point: Point, doom: Doom) {
        let trapped = self.proxy.trap(point.trap(), 1);
        self.traps.push(Armed { point, doom, trapped, seen: false });
    }

    /// Whether it ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.main.is_finished()
    }

    /// Dies now. Its connections break, its leases run out.
    pub(super) async fn crash(self) {
        self.mortal.die();
        self.main.abort();
        drop(self.proxy);
        for armed in self.traps {
            armed.trapped.cut();
        }
        // Gone is gone: only then does anything else happen.
        self.main.await.ok();
    }
}

/// The judge's client: only a fault waits for its limit, in real time.
fn judging(judge: &ScriptedJudge, clock: &Arc<dyn Clock>) -> Arc<Judging> {
    let settings = JudgeSettings {
        section: "screening.judge",
        base_url: base_url(&judge.base_url()).expect("an address"),
        model: MODEL.to_owned(),
        timeout: Duration::from_secs(2),
    };
    let key = judge.key().map(Secret::new);
    let client = Judge::new(&settings, key, Arc::clone(clock)).expect("a client");
    let config =
        ScreeningJudge { model: MODEL.to_owned(), allow_scripted: true, ..ScreeningJudge::default() };
    Arc::new(Judging::new(client, &config))
}
