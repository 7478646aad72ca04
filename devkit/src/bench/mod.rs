//! `make bench`: the same submissions through `maple-router`, through what people would run instead, and through the limits of
//! the machine; in turns, in one run, every run verified; figures are in `benches/RESULTS.md`.
//!
//! A real PostgreSQL with fsync and `synchronous_commit`, the embedded broker, `smtp-sink` or a real Postfix as relay, and
//! each contestant a process of its own, started for its turn and ended after it. What is played is in `shape`, who plays, in
//! `contestant` and `peer`, what nobody can beat, in `limits` and `transcript`, what is measured, in `meter`, whether it
//! counts, in `verify`, and what is told of it, in `summary`, `report` and `plot`.
//!
//! If it is killed (SIGKILL), its clusters and Postfixes clear up after themselves; a router or a sink may be left. Nothing here asserts a
//! speed: a run that was not verified is told as such, and makes the exit code 1.

mod arena;
mod contestant;
mod lag;
mod limits;
mod meter;
mod peer;
mod plot;
mod receiver;
mod report;
mod shape;
mod summary;
mod transcript;
mod verify;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

pub use contestant::Contestant;
pub use limits::Limit;
pub use receiver::Kind as ReceiverKind;
pub use shape::Shape;

use arena::Arena;
use summary::Run;

/// What an operator sets where many come at once (runbooks/install.md), as the peers are set to fifty at a time; the defaults
/// are for a host where few do.
pub const FOR_VOLUME: &str =
    "[smtp]\\nlanes = 32\\n[routing]\\nmax_in_flight = 256\\n[pubsub]\\nmax_outstanding = 1000";

/// How it is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// `maple-router`.
    pub binary: PathBuf,
    /// What `benches/peers/build` made: `target/peers`.
    pub peers: PathBuf,
    /// Where the JSON and the plot go.
    pub out: PathBuf,
    /// How much is played of one action and one recipient, and how much of everything else.
    pub main: Size,
    /// See `main`.
    pub others: Size,
    /// Who plays.
    pub contestants: Vec<Contestant>,
    /// What they are held against.
    pub limits: Vec<Limit>,
    /// What is played.
    pub shapes: Vec<Shape>,
    /// Who takes the mails.
    pub receivers: Vec<ReceiverKind>,
    /// Submissions a second at which the lag is measured; none: it is not.
    pub lag_rates: Vec<u32>,
    /// How long each of these lasts, in seconds.
    pub lag_seconds: u32,
    /// Of the SMTP limit.
    pub sessions: usize,
    /// Lines laid over the router's configuration.
    pub router_settings: String,
    /// Tell what PostgreSQL spent its time on (`pg_stat_statements`, which costs some).
    pub statements: bool,
    /// `None`, or where profiles by `perf` go: the router's turns are recorded.
    pub perf: Option<PathBuf>,
}

/// How much of one setting is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Submissions of a turn.
    pub submissions: usize,
    /// Rounds; the medians are over these.
    pub repeat: usize,
}

impl Options {
    fn size(&self, shape: Shape) -> Size {
        match shape {
            Shape::One => self.main,
            Shape::Many | Shape::Links => self.others,
        }
    }
}

/// Plays everything and writes the report; answers whether every run was as it must be.
///
/// # Errors
/// A part cannot be started, or an end cannot be read.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<bool> {
    std::fs::create_dir_all(&options.out)?;
    // Not found missing after an hour.
    options.contestants.iter().try_for_each(|contestant| peer::is_built(options, *contestant))?;
    options.receivers.iter().try_for_each(|receiver| receiver.can_be_started())?;
    let arena = Arena::start(options).await?;
    let rounds: usize = options.shapes.iter().map(|shape| options.size(*shape).repeat).sum();
    let players = options.limits.len() + options.contestants.len();
    say(&format!(
        "{}: {} turns, then the lag in {} paces of {} s",
        arena.setting,
        options.receivers.len() * rounds * players,
        options.contestants.len() * options.lag_rates.len(),
        options.lag_seconds
    ));
    let mut runs: Vec<Run> = Vec::new();
    for receiver in &options.receivers {
        for shape in &options.shapes {
            for round in 1..=options.size(*shape).repeat {
                for limit in &options.limits {
                    let played = limits::play(&arena, *limit, *shape, *receiver, round).await;
                    note(&mut runs, played.with_context(|| format!("the limit {limit}"))?, &say);
                }
                for contestant in &options.contestants {
                    let played = contestant::play(&arena, *contestant, *shape, *receiver, round).await;
                    note(&mut runs, played.with_context(|| format!("{contestant}"))?, &say);
                }
                report::write_json(&arena, &runs, &[])?;
            }
        }
    }
    let lags = lag::measure(&arena, &say).await?;
    report::write_json(&arena, &runs, &lags)?;
    let text = report::text(&arena.setting, &runs, &lags);
    say(&text);
    std::fs::write(options.out.join("bench.md"), &text)?;
    plot::write(&options.out, &runs, &lags)?;
    say(&format!("JSON, table and plot are in {}", options.out.display()));
    Ok(runs.iter().all(|run| run.wrong.is_empty()) && lags.iter().all(|lag| lag.wrong.is_empty()))
}

fn note(runs: &mut Vec<Run>, run: Run, say: &impl Fn(&str)) {
    say(&run.line());
    run.statements.iter().for_each(|line| say(&format!("    {line}")));
    run.wrong.iter().for_each(|line| say(&format!("  NOT as it should: {line}")));
    runs.push(run);
}

/// Real time is what is measured.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}
