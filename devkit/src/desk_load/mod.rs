//! What the review desk costs among a million entries: how long its pages take, and what routing loses while somebody floods it.
//!
//! The router is the release build, the database a cluster of its own. The relay is this process and the flood another one of
//! the same machine, so that a ratio within one run counts and no figure by itself. Nothing is asserted: the figures go to `benches/RESULTS.md`.

mod fill;
mod flood;
mod pages;
mod visit;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::Instant;
use tokio_postgres::Client;

pub use flood::flood;

use self::visit::Visitor;
use crate::port::free_port;
use crate::postgres::{Cluster, ClusterOptions};
use crate::program::say;
use crate::stage::{Router, Source, Stage, StageOptions};

/// People of the desk: each may ask three times a second, so the pages are asked for by many; twenty may log in within a minute.
const PEOPLE: usize = 18;
/// Submissions that are routed in one measurement.
const AT_ONCE: i64 = 12_000;
/// Turns, of four measurements each.
const TURNS: usize = 6;
/// Length of a flood before what it costs is measured: a user may ask a hundred and twenty times at once, and then at a pace.
const SPENT: Duration = Duration::from_secs(10);
/// Rest of the router before its memory is looked at.
const REST: Duration = Duration::from_secs(20);

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The router.
    pub binary: PathBuf,
    /// Entries, a tenth of them open.
    pub entries: u64,
}

/// Fills a database, starts a router with the desk on it, and prints what was measured.
///
/// # Errors
/// A part of the stage is gone.
pub async fn run(options: &Options) -> Result<()> {
    let cluster = Cluster::start(ClusterOptions::default()).await?;
    let settings = StageOptions::of(Source::Postgres);
    let database = cluster.database(settings.variant).await?;
    let stage = Stage::on(database, settings).await?;
    let rows = stage.database.superuser().await?;
    say(&format!("filling: {} entries, a tenth of them open", options.entries));
    let began = now();
    fill::entries(&rows, options.entries).await?;
    say(&format!("filled in {:.0} s", began.elapsed().as_secs_f64()));

    let (port, secret) = (free_port()?, stage.dir().join("desk-secret"));
    fs::write(&secret, format!("{:032x}{:032x}\n", rand::random::<u128>(), rand::random::<u128>()))?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let without = started(&stage, &options.binary, "without", "").await?;
    measured_at_rest("desk off", without).await?;
    let mut router = started(&stage, &options.binary, "router", &desk(port, &secret)).await?;
    let pid = router.router.pid().context("the router's id")?;
    tokio::time::sleep(REST).await;
    say(&format!("desk on: ready after {:.2} s, {:.1} MiB at rest", router.ready_after, resident(pid)?));

    let mut people = Vec::new();
    for number in 0..PEOPLE {
        people.push(Visitor::log_in(&stage, &options.binary, router.router.config(), port, number).await?);
    }
    pages::measure(&rows, &people).await?;
    say(&format!("after the pages: {:.1} MiB", resident(pid)?));
    turns(&rows, &people, port).await?;
    say(&format!("after the flood: {:.1} MiB", resident(pid)?));
    router.router.stop().await?;
    Ok(())
}

/// A router, and how long it took.
struct Started {
    router: Router,
    ready_after: f64,
}

async fn started(stage: &Stage, binary: &Path, name: &str, settings: &str) -> Result<Started> {
    let began = now();
    let mut router = stage.router(binary, name, settings).await?;
    router.ready().await?;
    Ok(Started { router, ready_after: began.elapsed().as_secs_f64() })
}

async fn measured_at_rest(label: &str, mut started: Started) -> Result<()> {
    tokio::time::sleep(REST).await;
    let pid = started.router.pid().context("the router's id")?;
    say(&format!("{label}: ready after {:.2} s, {:.1} MiB at rest", started.ready_after, resident(pid)?));
    started.router.stop().await?;
    Ok(())
}

fn desk(port: u16, secret: &Path) -> String {
    let mut text = format!(
        "[desk]\nlisten = \"127.0.0.1:{port}\"\norigin = \"http://desk.localhost:{port}\"\nsecret_file = \"{}\"\n",
        secret.display()
    );
    for number in 0..PEOPLE {
        let name = visit::name(number);
        text += &format!("[desk.users.{name}]\nemail = \"{name}@example.org\"\nrole = \"admin\"\n");
    }
    text
}

/// Routing by itself and beside a flood, in turns of quiet, loud, loud, quiet, so that what changes with time meets both alike.
/// What two quiet ones differ by is the noise.
async fn turns(rows: &Client, people: &[Visitor], port: u16) -> Result<()> {
    let (mut ratios, mut noises) = (Vec::new(), Vec::new());
    routed(rows).await?; // The first warms connections and plans.
    let visitor = people.first().context("somebody")?;
    for turn in 1..=TURNS {
        let before = routed(rows).await?;
        let flood = flood::Flood::start(port, visitor)?;
        tokio::time::sleep(SPENT).await;
        let beside = [routed(rows).await?, routed(rows).await?];
        let answers = flood.end().await?;
        let after = routed(rows).await?;
        let (alone, loud) = (mean(before, after), mean(beside[0], beside[1]));
        say(&format!(
            "turn {turn}: {before:.0} and {after:.0}/s alone, {:.0} and {:.0}/s beside a flood: {:.3} ({answers})",
            beside[0],
            beside[1],
            loud / alone
        ));
        ratios.push(loud / alone);
        noises.push(after / before);
    }
    say(&format!("beside a flood to alone, median of the turns: {:.3}", median(&mut ratios)));
    say(&format!("alone after to alone before, median of the turns: {:.3}", median(&mut noises)));
    Ok(())
}

/// Submissions a second, from their commit until all are routed.
async fn routed(rows: &Client) -> Result<f64> {
    const LOOK: Duration = Duration::from_millis(20);
    fill::clean(rows).await?;
    fill::submissions(rows, AT_ONCE).await?;
    let began = now();
    while fill::is_open(rows).await? {
        tokio::time::sleep(LOOK).await;
    }
    Ok(AT_ONCE as f64 / began.elapsed().as_secs_f64())
}

/// Of two rates at the same amount of work.
fn mean(one: f64, other: f64) -> f64 {
    2.0 / (1.0 / one + 1.0 / other)
}

fn median(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// `VmRSS` in MiB.
fn resident(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the router has ended")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    Ok(kib.context("VmRSS")?.trim().parse::<f64>()? / 1024.0)
}

#[expect(clippy::disallowed_methods, reason = "a load is put on in real time")]
fn now() -> Instant {
    Instant::now()
}
