//! What a purge costs routing beside it, and whether the collector's memory stays flat: submissions come at a steady rate, in turns
//! without and with `maple-router gc run` at work on those that ended years ago.
//!
//! The router is the release build, the database a durable cluster of its own, the relay `smtp-sink`. Whoever submits and the
//! collector share the machine with the router, so that a ratio within one run counts and no figure by itself. What a turn leaves
//! behind is cleared away before the next begins: one without a purge would else pay for the one before it. Asserts nothing but that
//! all that came was routed and mailed once, and that as many are purged as the collector says. The figures go to `benches/RESULTS.md`.

mod collector;
mod fill;
mod report;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use self::collector::Collector;
use self::report::Turn;
use crate::bench::backends::Backends;
use crate::bench::{self, FOR_VOLUME, Receiver, ReceiverKind, lag, meter, now, percentile, tail};
use crate::collecting;
use crate::forms::{self, Form};
use crate::postgres::{Cluster, ClusterOptions, Variant};
use crate::program::say;
use crate::stage::{BUCKET, Router, Source, Stage, StageOptions};

/// The form of every submission.
const FORM: &str = "load";
/// Seconds of the turn that warms connections and plans, and is not counted.
const WARM_UP: u32 = 10;
/// Longest time after the last submission of a turn: a router slower than the rate still ends it.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between two looks at who is at work.
const LOOK: Duration = Duration::from_millis(500);
/// Time between two looks whether a submission is open.
const STEP: Duration = Duration::from_millis(100);

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The router.
    pub binary: PathBuf,
    /// Submissions that ended years ago.
    pub rows: u64,
    /// Submissions a second that come meanwhile.
    pub rate: u32,
    /// Length of a turn, in seconds.
    pub seconds: u32,
    /// Pairs of turns: one without a purge, one beside it.
    pub turns: u32,
}

/// Everything that takes part. What is declared first ends first.
struct World<'a> {
    options: &'a Options,
    router: Router,
    people: Vec<Client>,
    eyes: Client,
    sink: Receiver,
    /// Configuration of the collector.
    config: PathBuf,
    stage: Stage,
    _cluster: Cluster,
    /// Submissions that came.
    came: u32,
}

/// Fills a database, starts a router beside it, and prints what was measured; returns whether everything was as it must be.
///
/// # Errors
/// A part cannot be started, or is gone.
pub async fn run(options: &Options) -> Result<bool> {
    ensure!(options.binary.exists(), "{} is missing: `make purge-load` builds it", options.binary.display());
    say(&format!(
        "{}; the router with {}; {} turns of {} s without and beside a purge, {} submissions a second",
        meter::machine(),
        FOR_VOLUME.replace("\\n", " "),
        options.turns,
        options.seconds,
        options.rate
    ));
    let mut world = World::open(options).await?;
    say("warming up");
    let mut wrong = world.turn(WARM_UP.min(options.seconds), false).await?.wrong;
    let (mut turns, mut is_over, all) = (Vec::new(), false, options.turns.saturating_mul(2));
    for number in 1..=all {
        if is_over {
            break;
        }
        let mut turn = world.turn(options.seconds, number % 2 == 0).await?;
        say(&format!("turn {number} of {all}: {}", turn.line()));
        wrong.extend(turn.wrong.drain(..).map(|what| format!("turn {number}: {what}")));
        is_over = turn.purge.as_ref().is_some_and(|purge| purge.is_over);
        let found_none = is_over && turn.purge.as_ref().is_some_and(|purge| purge.purged == 0);
        if is_over {
            let turn = if found_none { "does not count" } else { "is shorter" };
            say(&format!("the collector has ended by itself, because every row is purged: the turn {turn}"));
        }
        if !found_none {
            turns.push(turn);
        }
    }
    say(&report::summary(&turns, options.rows));
    wrong.extend(world.close(&turns, is_over).await?);
    wrong.iter().for_each(|line| say(&format!("NOT as it should: {line}")));
    Ok(wrong.is_empty())
}

impl<'a> World<'a> {
    async fn open(options: &'a Options) -> Result<Self> {
        let settings = bench::server_settings();
        let cluster =
            Cluster::start(ClusterOptions { durable: true, settings, ..ClusterOptions::default() }).await?;
        let variant = Variant { audit_readable: true, router: true, content: true, ..Variant::default() };
        let database = cluster.database(variant).await?;
        let source = Source::Postgres;
        let of_stage = StageOptions { variant, source, sample_forms: false, ..StageOptions::default() };
        let stage = Stage::on(database, of_stage).await?;
        forms::load_into(&stage.database, &[Form::new(FORM).mail_to("a@one.test")]).await?;
        let eyes = stage.database.superuser().await?;
        // No statement is waited for without an end.
        eyes.batch_execute("SET statement_timeout = '15min'").await?;
        fill::ended(&eyes, FORM, options.rows).await?;
        let sink = Receiver::start(ReceiverKind::Sink).await?;
        let settings = format!("{}\n[smtp]\nport = {}\n", FOR_VOLUME.replace("\\n", "\n"), sink.port());
        let mut router = stage.router(&options.binary, "router", &settings).await?;
        router.ready().await?;
        let url = stage.database.url_as("maple_gc");
        let retention = collecting::settings(&stage.google, stage.dir(), &url, &[BUCKET])?;
        let config = stage.write_config("gc", &stage.config("gc", 1, &format!("{settings}{retention}")))?;
        let mut people = Vec::new();
        for _ in 0..lag::PEOPLE {
            let backend = stage.database.client_as("forms_app").await?;
            backend.batch_execute("SET statement_timeout = '1min'").await?;
            people.push(backend);
        }
        Ok(Self { options, router, people, eyes, sink, config, stage, _cluster: cluster, came: 0 })
    }

    /// Submissions come for so long, without a purge or beside one. It ends earlier where the collector has nothing left to do.
    async fn turn(&mut self, seconds: u32, purging: bool) -> Result<Turn> {
        fill::clear(&self.eyes).await?;
        let began_at: Timestamp = self.eyes.query_one("SELECT clock_timestamp()", &[]).await?.get(0);
        let router = self.router.pid().context("the router has ended")?;
        let (mut backends, before) = (Backends::before(&self.eyes).await?, meter::cpu_seconds(router)?);
        let mut collector = None;
        if purging {
            let (options, dir) = (self.options, self.stage.dir());
            let host = self.stage.google.metadata_host();
            collector = Some(Collector::start(&options.binary, &self.config, dir, &host, &self.eyes).await?);
        }
        let stop = CancellationToken::new();
        let came = {
            let Self { options, router, people, eyes, .. } = self;
            let load = async {
                let came = submitted(people, options.rate, seconds, &stop).await?;
                until_routed(router, eyes).await?;
                anyhow::Ok(came)
            };
            tokio::select! {
                done = load => done?,
                failed = watch(eyes, &mut backends, collector.as_mut(), &stop) => match failed? {},
            }
        };
        backends.look(&self.eyes).await?;
        let cpu = meter::cpu_seconds(router)? - before;
        let router_mib = meter::peak_mib(router)?;
        let purge = match collector {
            Some(collector) => Some(collector.stop(&self.eyes).await?),
            None => None,
        };
        let lags = lags(&self.eyes, began_at).await?;
        self.came += came.submissions;
        let mut wrong = purge.iter().flat_map(|purge| purge.wrong.clone()).collect::<Vec<_>>();
        if lags.len() != came.submissions as usize {
            wrong.push(format!("{} of {} are routed", lags.len(), came.submissions));
        }
        let at = |share| percentile(&lags, share).unwrap_or(f64::NAN);
        let of_thousand = |seconds: f64| seconds * 1_000.0 / f64::from(came.submissions.max(1));
        Ok(Turn {
            submissions: came.submissions,
            came: f64::from(came.submissions) / came.seconds,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            router_cpu: of_thousand(cpu),
            backends_cpu: of_thousand(backends.seconds()?),
            router_mib,
            purge,
            wrong,
        })
    }

    /// Ends the router, and says what is wrong with what is left.
    async fn close(mut self, turns: &[Turn], is_over: bool) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mails = self.sink.taken(self.came as usize).await?;
        if mails != self.came as usize {
            wrong.push(format!("{mails} mails of {} submissions", self.came));
        }
        let said: u64 = turns.iter().filter_map(|turn| turn.purge.as_ref()).map(|purge| purge.purged).sum();
        let sql = "SELECT count(*) FROM submissions WHERE status = 'purged'";
        let found: i64 = self.eyes.query_one(sql, &[]).await?.get(0);
        if u64::try_from(found)? != said {
            wrong.push(format!("{found} submissions are purged, the collector says {said}"));
        }
        if is_over && said != self.options.rows {
            wrong.push(format!("{said} of {} are purged, and the collector has ended", self.options.rows));
        }
        let status = self.router.stop().await?;
        if !status.success() {
            wrong.push(format!("the router ended with {status}"));
        }
        Ok(wrong)
    }
}

/// Submissions of a turn, and how long they came.
struct Came {
    submissions: u32,
    seconds: f64,
}

/// Submissions come at a steady rate, as in `bench::lag`.
async fn submitted(people: &[Client], rate: u32, seconds: u32, stop: &CancellationToken) -> Result<Came> {
    let began = now();
    let submit = async |backend: &Client| lag::seed(FORM).insert(backend).await.map(drop);
    let submitting = lag::steadily(people, rate, rate.saturating_mul(seconds), stop, submit);
    let longest = Duration::from_secs(u64::from(seconds)) + PATIENCE;
    let submissions =
        tokio::time::timeout(longest, submitting).await.context("the database does not take so many")??;
    Ok(Came { submissions, seconds: began.elapsed().as_secs_f64() })
}

/// Waits until no submission is open. Those that still are after [`PATIENCE`] are missing in the turn's result.
async fn until_routed(router: &mut Router, eyes: &Client) -> Result<()> {
    let open = "SELECT EXISTS (SELECT FROM submissions WHERE status = 'received')
        OR EXISTS (SELECT FROM submissions WHERE status = 'processing')";
    let waiting = now();
    while eyes.query_one(open, &[]).await?.get(0) && waiting.elapsed() <= PATIENCE {
        if let Some(status) = router.end()? {
            bail!("the router ended with {status}:\n{}", tail(&router.log()));
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(())
}

/// Looks at whoever is at work, and has the submissions `stop` where the collector has ended by itself. Ends with what it runs beside.
async fn watch(
    eyes: &Client,
    backends: &mut Backends,
    mut collector: Option<&mut Collector>,
    stop: &CancellationToken,
) -> Result<Infallible> {
    loop {
        tokio::time::sleep(LOOK).await;
        backends.look(eyes).await?;
        if let Some(collector) = &mut collector
            && !collector.look(eyes).await?
        {
            stop.cancel();
        }
    }
}

/// Milliseconds from a submission to its end, of everything since then, sorted. Both are the database's clock.
async fn lags(eyes: &Client, since: Timestamp) -> Result<Vec<f64>> {
    let sql = "SELECT extract(epoch FROM updated_at - created_at)::float8 * 1000 FROM submissions
        WHERE status = 'routed' AND updated_at >= $1 AND created_at >= $1";
    let mut lags: Vec<f64> = eyes.query(sql, &[&since]).await?.iter().map(|row| row.get(0)).collect();
    lags.sort_by(f64::total_cmp);
    Ok(lags)
}
