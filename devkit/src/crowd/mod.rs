//! The crowd: a backend and scan workers in plain SQL, many at once, each with its own role, killed at random in the middle
//! of transactions; and a router whose orphan pass is off. No client publishes anything. Then everything is counted.
//!
//! `client` has their work, `witness` the moments that triggers of our own write down, and the expected results. Clients are
//! processes (this program again) or, in tests, connections that are dropped. Whichever part dies, everything ends with the
//! process.

pub mod client;
mod witness;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::forms::{self, Form};
use crate::postgres::{Cluster, ClusterOptions, Variant};
use crate::smtp::{Keep, SmtpOptions};
use crate::stage::{Source, Stage, StageOptions};
use client::Part;

/// Settings of a crowd.
#[derive(Debug, Clone)]
pub struct Options {
    /// `maple-router`.
    pub binary: PathBuf,
    /// The program that plays a client with `client PART --url URL --seed N`; absent: connections of this process.
    pub client: Option<PathBuf>,
    /// Submissions that are finalized at least.
    pub submissions: u64,
    /// Source of the router's events; over Pub/Sub its relay publishes them.
    pub source: Source,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Results of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Figures, a line each.
    pub figures: Vec<String>,
    /// Violations.
    pub wrong: Vec<String>,
}

/// Clients at once.
const CLIENTS: [(Part, usize); 2] = [(Part::Backend, 6), (Part::Scanner, 10)];
/// Between two deaths.
const DEATH_EVERY: Duration = Duration::from_millis(150);
/// Longest quiet time at the end before open submissions count as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// The sweep finds no orphan within any run.
const NO_ORPHANS: &str = r#"
[routing]
orphan_after = "30d"
unready_alert_after = "30d"
max_in_flight = 256
[smtp]
lanes = 16
[database]
max_connections = 12
"#;

/// Runs it and judges.
///
/// # Errors
/// A part cannot be started, or the end cannot be read.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<Report> {
    let kept_small =
        vec![("autovacuum".to_owned(), "on".to_owned()), ("max_wal_size".to_owned(), "2GB".to_owned())];
    let cluster =
        Cluster::start(ClusterOptions { settings: kept_small, ..ClusterOptions::default() }).await?;
    let variant = Variant { router: true, audit_readable: true, ..Variant::default() };
    let stage = StageOptions {
        variant,
        source: options.source,
        smtp: SmtpOptions { keep: Keep::Digests, ..SmtpOptions::default() },
        sample_forms: false,
        ..StageOptions::default()
    };
    let stage = Stage::on(cluster.database(variant).await?, stage).await?;
    let form = [Form::new(client::FORM).mail_to("a@one.test")];
    forms::load_into(&stage.database, &form).await?;
    let eyes = stage.database.superuser().await?;
    witness::watch(&eyes).await?;
    let mut router = stage.router(&options.binary, "router", NO_ORPHANS).await?;
    router.ready().await?;

    let began = now();
    let mut crowd = Crowd::gather(options, &stage);
    let mut rng = rand::rngs::StdRng::seed_from_u64(options.seed);
    let (mut deaths, mut terminated, mut moved, mut last) = (0_u64, 0_u64, now(), 0);
    let mut said = now();
    let drained = loop {
        tokio::time::sleep(DEATH_EVERY).await;
        crowd.receive();
        let count = witness::progress(&eyes).await?;
        if said.elapsed() > Duration::from_secs(10) {
            said = now();
            say(&format!("{:6.0} s  {count}", began.elapsed().as_secs_f64()));
        }
        if count.finalized >= options.submissions {
            crowd.dismiss(Part::Backend);
        }
        if count.finalized >= options.submissions && count.unscanned == 0 {
            crowd.dismiss(Part::Scanner);
        }
        if crowd.is_gone() && count.open == 0 && count.undelivered == 0 {
            break true;
        }
        let sum = count.finalized + count.ended;
        if sum != last {
            (last, moved) = (sum, now());
        }
        if moved.elapsed() > PATIENCE {
            break false;
        }
        if rng.random_bool(0.5) {
            deaths += crowd.kill_one(&mut rng);
        } else {
            terminated += witness::terminate_one(&eyes).await?;
        }
    };
    let took = began.elapsed();
    crowd.receive();
    let mut report = witness::judge(&eyes, &stage).await?;
    let head = format!(
        "{:?}: {:.0} s, {deaths} clients killed, {terminated} sessions terminated in a transaction, router {}",
        options.source,
        took.as_secs_f64(),
        if router.end()?.is_none() { "alive" } else { "DEAD" }
    );
    report.figures.insert(0, head);
    report.wrong.append(&mut crowd.complaints);
    if !drained {
        report
            .wrong
            .push(format!("nothing moved for {} s, and there was something left", PATIENCE.as_secs()));
    }
    if router.end()?.is_some() {
        report.wrong.push("the router did not live to the end".to_owned());
    }
    router.stop().await?;
    Ok(report)
}

/// The clients; a client that dies is replaced until its part is over.
struct Crowd {
    program: Option<PathBuf>,
    urls: [(Part, String); 2],
    alive: Vec<(Part, AbortHandle)>,
    tasks: JoinSet<()>,
    tell: mpsc::UnboundedSender<String>,
    reports: mpsc::UnboundedReceiver<String>,
    complaints: Vec<String>,
    over: Vec<Part>,
    seed: u64,
}

impl Crowd {
    fn gather(options: &Options, stage: &Stage) -> Self {
        let (tell, reports) = mpsc::unbounded_channel();
        let mut crowd = Self {
            program: options.client.clone(),
            urls: [Part::Backend, Part::Scanner].map(|part| (part, stage.database.url_as(part.role()))),
            alive: Vec::new(),
            tasks: JoinSet::new(),
            tell,
            reports,
            complaints: Vec::new(),
            over: Vec::new(),
            seed: options.seed << 20,
        };
        for (part, count) in CLIENTS {
            (0..count).for_each(|_| crowd.join(part));
        }
        crowd
    }

    fn join(&mut self, part: Part) {
        let url = self.urls.iter().find(|(other, _)| *other == part).map(|(_, url)| url.clone());
        let (url, tell) = (url.unwrap_or_default(), self.tell.clone());
        self.seed += 1;
        let seed = self.seed;
        let program = self.program.clone();
        let handle = self.tasks.spawn(async move {
            let lived = match program {
                Some(program) => process(&program, part, &url, seed, &tell).await,
                None => client::play(part, &url, seed, |line| drop(tell.send(line))).await,
            };
            if let Err(error) = lived {
                drop(tell.send(format!("a client could not play: {error:#}")));
            }
        });
        self.alive.push((part, handle));
    }

    /// Takes in what clients reported and none should ever see.
    fn receive(&mut self) {
        while let Ok(line) = self.reports.try_recv() {
            if self.complaints.len() < 100 {
                self.complaints.push(line);
            }
        }
    }

    /// Kills one client in the middle of whatever it does, and starts another.
    fn kill_one(&mut self, rng: &mut rand::rngs::StdRng) -> u64 {
        if self.alive.is_empty() {
            return 0;
        }
        let (part, handle) = self.alive.swap_remove(rng.random_range(0..self.alive.len()));
        handle.abort();
        if !self.over.contains(&part) {
            self.join(part);
        }
        1
    }

    /// A part is over; again and again is the same.
    fn dismiss(&mut self, part: Part) {
        if !self.over.contains(&part) {
            self.over.push(part);
        }
        self.alive.retain(|(other, handle)| {
            if *other == part {
                handle.abort();
            }
            *other != part
        });
    }

    fn is_gone(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.is_empty()
    }
}

/// A client in a process of its own, killed with SIGKILL when this is dropped.
async fn process(
    program: &std::path::Path,
    part: Part,
    url: &str,
    seed: u64,
    tell: &mpsc::UnboundedSender<String>,
) -> Result<()> {
    let mut child = tokio::process::Command::new(program)
        .args(["client", part.name(), "--url", url, "--seed", &seed.to_string()])
        // Kept open: a client ends when its stdin is closed.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting a client")?;
    let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
    while let Some(line) = lines.next_line().await? {
        drop(tell.send(line));
    }
    let status = child.wait().await?;
    anyhow::bail!("it ended by itself: {status}")
}

/// Real time is what happens here.
#[expect(clippy::disallowed_methods, reason = "a crowd lives in real time")]
fn now() -> Instant {
    Instant::now()
}
