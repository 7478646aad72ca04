//! Who plays, and one turn of it: started and ready before the clock starts, then all events at once, and the end is what the
//! rows say. A contestant that dies ends the benchmark; one that does wrong is told as such.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use super::arena::{Arena, Turn};
use super::peer::Peer;
use super::receiver;
use super::shape::{FORM, Shape};
use super::summary::Run;
use super::{meter, now, verify};
use crate::postgres::{Bouncer, PoolMode};
use crate::stage::{Router, Source, TOPIC};

/// No turn takes longer than this, but on a machine that does something else.
const PATIENCE: Duration = Duration::from_secs(1_800);
const STEP: Duration = Duration::from_millis(100);
/// Sessions of the server behind the proxy: more than the router's pool has connections, so that nobody waits for one.
const SESSIONS: u32 = 20;

/// A way to route submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// `maple-router` with its events from the broker.
    Router,
    /// `maple-router` with its events from PostgreSQL (schema `router`).
    RouterPostgres,
    /// The same behind a PgBouncer that pools transactions, as which it says every statement unnamed.
    RouterPooled,
    /// A worker in Python that follows the design document.
    Python,
    /// graphile-worker with nodemailer.
    GraphileJs,
    /// The crate `graphile_worker` with lettre.
    GraphileRs,
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Router => "router",
            Self::RouterPostgres => "router-postgres",
            Self::RouterPooled => "router-pooled",
            Self::Python => "python",
            Self::GraphileJs => "graphile-js",
            Self::GraphileRs => "graphile-rs",
        })
    }
}

impl Contestant {
    /// Everybody.
    pub const ALL: [Self; 6] = [
        Self::Router,
        Self::RouterPostgres,
        Self::RouterPooled,
        Self::Python,
        Self::GraphileJs,
        Self::GraphileRs,
    ];

    pub(super) fn source(self) -> Source {
        match self {
            Self::Router | Self::RouterPooled | Self::Python => Source::Pubsub,
            // The queues have no broker either; their events are their jobs. Schema router is the router's own.
            Self::RouterPostgres | Self::GraphileJs | Self::GraphileRs => Source::Postgres,
        }
    }

    /// Whether it is `maple-router`.
    pub fn is_router(self) -> bool {
        matches!(self, Self::Router | Self::RouterPostgres | Self::RouterPooled)
    }
}

/// A contestant's process.
pub(super) enum Running {
    /// With the proxy that it goes through, if any.
    Router(Box<(Router, Option<Bouncer>)>),
    Peer(Box<Peer>),
}

impl Running {
    /// Starts it, and waits until it is ready.
    pub(super) async fn start(arena: &Arena<'_>, turn: &Turn, contestant: Contestant) -> Result<Self> {
        if !contestant.is_router() {
            return Ok(Self::Peer(Box::new(Peer::start(arena.options, turn, contestant).await?)));
        }
        let mut settings = turn.settings(&arena.options.router_settings);
        let mut bouncer = None;
        if contestant == Contestant::RouterPooled {
            let proxy = Bouncer::start(&turn.stage.database, PoolMode::Transaction, SESSIONS).await?;
            settings
                .push_str(&format!("\n[database]\nurl = \"{}\"\npooling = \"transaction\"\n", proxy.url()));
            bouncer = Some(proxy);
        }
        let mut router = turn.stage.router(&arena.options.binary, "router", &settings).await?;
        router.ready().await?;
        Ok(Self::Router(Box::new((router, bouncer))))
    }

    pub(super) fn pid(&self) -> Result<u32> {
        let pid = match self {
            Self::Router(router) => router.0.pid(),
            Self::Peer(peer) => peer.pid(),
        };
        pid.context("it has ended")
    }

    pub(super) fn still_runs(&mut self) -> Result<()> {
        match self {
            Self::Router(router) => match router.0.end()? {
                Some(status) => bail!("it ended with {status}:\n{}", tail(&router.0.log())),
                None => Ok(()),
            },
            Self::Peer(peer) => peer.still_runs(),
        }
    }

    pub(super) async fn stop(self) -> Result<()> {
        match self {
            Self::Router(mut router) => router.0.stop().await.map(drop),
            Self::Peer(peer) => peer.stop().await,
        }
    }
}

pub(super) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().rev().take(12).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// One turn.
pub(super) async fn play(
    arena: &Arena<'_>,
    contestant: Contestant,
    shape: Shape,
    receiver: receiver::Kind,
    round: usize,
) -> Result<Run> {
    let turn = arena.turn(Some(contestant), shape, receiver, arena.options.size(shape).submissions).await?;
    let mut running = Running::start(arena, &turn, contestant).await?;
    let pid = running.pid()?;
    let profile = profile(arena, contestant, round, pid)?;
    let used = || -> Result<[f64; 5]> {
        let own = meter::cpu_seconds(std::process::id())?;
        let (postgres, relay) = (arena.postgres_cpu()?, turn.receiver.cpu()?);
        Ok([meter::cpu_seconds(pid)?, postgres, relay, own, meter::busy_seconds()])
    };
    let before = used()?;
    let began = let_go(&turn, contestant).await?;
    let started = now();
    until_routed(&turn, &mut running).await?;
    let acked = verify::settled(&turn, contestant).await?;
    let (elapsed, after) = (started.elapsed().as_secs_f64(), used()?);
    let ended: f64 = turn
        .superuser
        .query_one(
            "SELECT extract(epoch FROM max(updated_at))::float8 FROM submissions WHERE status = 'routed'",
            &[],
        )
        .await?
        .get(0);
    let peak_mib = meter::peak_mib(pid)?;
    if let Some(mut profile) = profile {
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(i32::try_from(profile.id().context("perf has ended")?)?),
            nix::sys::signal::Signal::SIGINT,
        )?;
        profile.wait().await?;
    }
    running.stop().await?;
    let [cpu, postgres, relay, bench, busy] = std::array::from_fn(|at| after[at] - before[at]);
    // Children of this process are the contestants and the receiver: what is left is the broker, and what measures.
    let bench = (bench - cpu - if receiver == receiver::Kind::Sink { relay } else { 0.0 }).max(0.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Ok(Run {
        who: contestant.to_string(),
        shape: shape.to_string(),
        receiver: receiver.to_string(),
        round,
        submissions: turn.ids.len(),
        seconds: ended - began,
        cpu: Some(cpu),
        postgres_cpu: Some(postgres),
        receiver_cpu: Some(relay),
        bench_cpu: Some(bench),
        peak_mib: Some(peak_mib),
        others: ((busy - cpu - postgres - relay - bench) / (elapsed * processors)).clamp(0.0, 1.0),
        load: meter::load(),
        redelivered: verify::redelivered(&turn, contestant).await?,
        statements: turn.statements(arena).await?,
        wrong: verify::turn(&turn, contestant, acked).await?,
    })
}

/// Lets all events go at once; answers when the first could be had, by the database's clock.
async fn let_go(turn: &Turn, contestant: Contestant) -> Result<f64> {
    match contestant {
        Contestant::Router | Contestant::RouterPooled | Contestant::Python => {
            let began = turn.clock().await?;
            for id in &turn.ids {
                let event = serde_json::json!({"submission_id": id, "form_id": FORM, "reason": "finalized"});
                let attributes = [("type", "routing.ready"), ("v", "1")];
                turn.stage.broker.publish(TOPIC, event.to_string().into_bytes(), attributes)?;
            }
            Ok(began)
        }
        Contestant::RouterPostgres => {
            turn.superuser.batch_execute("BEGIN").await?;
            let sql = "INSERT INTO router.outbox (kind, entity_id, payload)
                SELECT 'routing.ready', id, jsonb_build_object('submission_id', id, 'form_id', $2::text, 'reason', 'finalized')
                FROM unnest($1::uuid[]) AS t(id)";
            turn.superuser.execute(sql, &[&turn.ids, &FORM]).await?;
            turn.superuser.batch_execute("SELECT pg_notify('maple_router_outbox', '')").await?;
            let began = turn.clock().await?;
            turn.superuser.batch_execute("COMMIT").await?;
            Ok(began)
        }
        Contestant::GraphileJs | Contestant::GraphileRs => {
            turn.superuser.batch_execute("BEGIN").await?;
            // With one notification, as the other sources have one: each `add_job` would be one of its own to be read.
            let sql = "SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
                SELECT ROW('route', json_build_object('id', id), NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
                FROM unnest($1::uuid[]) AS t(id)))";
            turn.superuser.query(sql, &[&turn.ids]).await?;
            // A queue that is in use has statistics.
            turn.superuser.batch_execute("ANALYZE graphile_worker._private_jobs").await?;
            let began = turn.clock().await?;
            turn.superuser.batch_execute("COMMIT").await?;
            Ok(began)
        }
    }
}

async fn until_routed(turn: &Turn, running: &mut Running) -> Result<()> {
    let open = "SELECT EXISTS (SELECT FROM submissions WHERE status IN ('received', 'processing'))";
    let waiting = now();
    while turn.superuser.query_one(open, &[]).await?.get(0) {
        running.still_runs()?;
        if waiting.elapsed() > PATIENCE {
            let sql = "SELECT count(*) FROM submissions WHERE status IN ('received', 'processing')";
            let left: i64 = turn.superuser.query_one(sql, &[]).await?.get(0);
            bail!("{left} submissions are still open after {PATIENCE:?}");
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(())
}

/// `perf record` of a router, where it is asked for.
fn profile(arena: &Arena<'_>, contestant: Contestant, round: usize, pid: u32) -> Result<Option<Child>> {
    let Some(dir) = arena.options.perf.as_ref().filter(|_| contestant.is_router()) else { return Ok(None) };
    std::fs::create_dir_all(dir)?;
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "-F", "499", "-g", "-p", &pid.to_string(), "-o"]);
    perf.arg(dir.join(format!("{contestant}-{round}.data")));
    perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    Ok(Some(perf.spawn().context("starting perf")?))
}
