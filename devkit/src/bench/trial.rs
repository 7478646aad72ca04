//! One trial of a contestant: its processes are ready before the clock starts, then all events come at once, and the
//! rows say when it ends. A contestant that dies ends the benchmark; wrong results are reported as such.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use super::arena::{Arena, Trial};
use super::contestant::Contestant;
use super::receiver;
use super::running::Running;
use super::shape::{FORM, Shape};
use super::summary::Run;
use super::{meter, now, verify};
use crate::stage::TOPIC;

/// No trial takes longer than this, but on a machine that does something else.
const PATIENCE: Duration = Duration::from_secs(1_800);
const STEP: Duration = Duration::from_millis(100);

/// Runs one trial.
pub(super) async fn play(
    arena: &Arena<'_>,
    contestant: Contestant,
    shape: Shape,
    receiver: receiver::Kind,
    round: usize,
) -> Result<Run> {
    let trial = arena.trial(Some(contestant), shape, receiver, arena.options.size(shape).submissions).await?;
    let mut running = Running::start(arena, &trial, contestant).await?;
    let profile = profile(arena, contestant, round, &running.pids()?)?;
    let used = |running: &Running| -> Result<[f64; 5]> {
        let own = meter::cpu_seconds(std::process::id())?;
        let (postgres, relay) = (arena.postgres_cpu()?, trial.receiver.cpu()?);
        Ok([running.cpu_seconds()?, postgres, relay, own, meter::busy_seconds()])
    };
    let (before, wal_before) = (used(&running)?, trial.wal_kib().await?);
    let began = let_go(&trial, contestant).await?;
    let started = now();
    until_routed(&trial, &mut running).await?;
    let acked = verify::settled(&trial, contestant).await?;
    let (elapsed, after) = (started.elapsed().as_secs_f64(), used(&running)?);
    let wal_kib = trial.wal_kib().await? - wal_before;
    let ended: f64 = trial
        .superuser
        .query_one(
            "SELECT extract(epoch FROM max(updated_at))::float8 FROM submissions WHERE status = 'routed'",
            &[],
        )
        .await?
        .get(0);
    let (peak_mib, shares) = (running.peak_mib()?, running.shares().await?);
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
    let processors = meter::processors();
    Ok(Run {
        who: contestant.party(arena.options.daemons),
        shape: shape.to_string(),
        receiver: receiver.to_string(),
        round,
        submissions: trial.ids.len(),
        seconds: ended - began,
        cpu: Some(cpu),
        postgres_cpu: Some(postgres),
        receiver_cpu: Some(relay),
        bench_cpu: Some(bench),
        wal_kib: Some(wal_kib),
        peak_mib: Some(peak_mib),
        shares,
        others: ((busy - cpu - postgres - relay - bench) / (elapsed * processors)).clamp(0.0, 1.0),
        load: meter::load(),
        redelivered: verify::redelivered(&trial, contestant).await?,
        statements: trial.statements(arena).await?,
        wrong: verify::trial(&trial, contestant, acked).await?,
    })
}

/// Lets all events go at once; returns when the first could be had, by the database's clock.
async fn let_go(trial: &Trial, contestant: Contestant) -> Result<f64> {
    match contestant {
        Contestant::Router | Contestant::RouterPooled | Contestant::Python => {
            let began = trial.clock().await?;
            for id in &trial.ids {
                let event = serde_json::json!({"submission_id": id, "form_id": FORM, "reason": "finalized"});
                let attributes = [("type", "routing.ready"), ("v", "1")];
                trial.stage.broker.publish(TOPIC, event.to_string().into_bytes(), attributes)?;
            }
            Ok(began)
        }
        Contestant::RouterPostgres => {
            trial.superuser.batch_execute("BEGIN").await?;
            let sql = "INSERT INTO router.outbox (kind, entity_id, payload)
                SELECT 'routing.ready', id, jsonb_build_object('submission_id', id, 'form_id', $2::text, 'reason', 'finalized')
                FROM unnest($1::uuid[]) AS t(id)";
            trial.superuser.execute(sql, &[&trial.ids, &FORM]).await?;
            trial.superuser.batch_execute("SELECT pg_notify('maple_router_outbox', '')").await?;
            let began = trial.clock().await?;
            trial.superuser.batch_execute("COMMIT").await?;
            Ok(began)
        }
        Contestant::GraphileJs | Contestant::GraphileRs | Contestant::GraphileRsNodelay => {
            trial.superuser.batch_execute("BEGIN").await?;
            // One notification, as the other sources have one: each `add_job` would be one of its own to be read.
            let sql = "SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
                SELECT ROW('route', json_build_object('id', id), NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
                FROM unnest($1::uuid[]) AS t(id)))";
            trial.superuser.query(sql, &[&trial.ids]).await?;
            // A queue that is in use has statistics.
            trial.superuser.batch_execute("ANALYZE graphile_worker._private_jobs").await?;
            let began = trial.clock().await?;
            trial.superuser.batch_execute("COMMIT").await?;
            Ok(began)
        }
    }
}

async fn until_routed(trial: &Trial, running: &mut Running) -> Result<()> {
    let open = "SELECT EXISTS (SELECT FROM submissions WHERE status IN ('received', 'processing'))";
    let waiting = now();
    while trial.superuser.query_one(open, &[]).await?.get(0) {
        running.still_runs()?;
        if waiting.elapsed() > PATIENCE {
            let sql = "SELECT count(*) FROM submissions WHERE status IN ('received', 'processing')";
            let left: i64 = trial.superuser.query_one(sql, &[]).await?.get(0);
            bail!("{left} submissions are still open after {PATIENCE:?}");
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(())
}

/// `perf record` of a router's processes, where it is asked for.
fn profile(arena: &Arena<'_>, contestant: Contestant, round: usize, pids: &[u32]) -> Result<Option<Child>> {
    let Some(dir) = arena.options.perf.as_ref().filter(|_| contestant.is_router()) else { return Ok(None) };
    std::fs::create_dir_all(dir)?;
    let pids = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "-F", "499", "-g", "-p", &pids, "-o"]);
    perf.arg(dir.join(format!("{contestant}-{round}.data")));
    perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    Ok(Some(perf.spawn().context("starting perf")?))
}
