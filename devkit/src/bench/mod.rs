//! `make bench`: the same submissions through `maple-router`, through what people would run instead, and through
//! the limits of the machine; alternating, in one run, every run verified; figures are in `benches/RESULTS.md`.
//!
//! A real PostgreSQL with fsync and `synchronous_commit`, the embedded broker, `smtp-sink` or a real Postfix as
//! relay, and each contestant a process of its own (the router as many as are asked for), started for its trial
//! and ended after it. `shape` has the input, `contestant` the parties, `running` and `peer` their processes, `processors`
//! who runs where, `trial` one trial of a contestant, `limits`, `transcript` and `signatures` the bounds, `meter` the
//! measurements, `verify` the checks, and `summary`, `report` and
//! `plot` the output.
//!
//! If it is killed (SIGKILL), its clusters and Postfixes clear up after themselves; a router or a sink may be left.
//! Nothing here asserts a speed: an unverified run is reported as such, and makes the exit code 1.

mod arena;
pub(crate) mod backends;
mod contestant;
pub(crate) mod lag;
mod limits;
pub(crate) mod meter;
mod peer;
mod plot;
pub mod processors;
mod receiver;
mod report;
mod running;
mod shape;
mod signatures;
pub(crate) mod statements;
mod summary;
mod transcript;
mod trial;
mod verify;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

pub use contestant::Contestant;
pub use limits::Limit;
pub use receiver::Kind as ReceiverKind;
pub use shape::Shape;

pub(crate) use arena::server_settings;
pub(crate) use peer::tail;
pub(crate) use receiver::Receiver;
pub(crate) use summary::{median, percentile};

use arena::Arena;
use summary::Run;

/// An operator's settings where many come at once (runbooks/install.md), as the peers are set to fifty at a time;
/// the defaults are for a host where few do.
pub const FOR_VOLUME: &str =
    "[smtp]\\nlanes = 32\\n[routing]\\nmax_in_flight = 256\\n[pubsub]\\nmax_outstanding = 1000";

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// `maple-router`.
    pub binary: PathBuf,
    /// Output of `benches/peers/build`: `target/peers`.
    pub peers: PathBuf,
    /// Directory for the JSON and the plot.
    pub out: PathBuf,
    /// Size for one action and one recipient; the other shapes have `others`.
    pub main: Size,
    /// Size for the other shapes.
    pub others: Size,
    /// Contestants that take part.
    pub contestants: Vec<Contestant>,
    /// Limits the contestants are compared with.
    pub limits: Vec<Limit>,
    /// Shapes of submissions.
    pub shapes: Vec<Shape>,
    /// Receivers of the mails.
    pub receivers: Vec<ReceiverKind>,
    /// Submissions a second at which the lag is measured; none: it is not.
    pub lag_rates: Vec<u32>,
    /// Length of each of these, in seconds.
    pub lag_seconds: u32,
    /// The receiver has a processor of its own, and everything else the others.
    pub apart: bool,
    /// Sessions of the SMTP limit.
    pub sessions: usize,
    /// Routers that share one database and one source of events; the limits' statements are always one's.
    pub daemons: u32,
    /// Lines laid over the router's configuration.
    pub router_settings: String,
    /// Schema content is there, where schema router is.
    pub content: bool,
    /// Report where PostgreSQL spent its time (`pg_stat_statements`, which costs some).
    pub statements: bool,
    /// `None`, or the directory for profiles by `perf`: the router's trials are recorded.
    pub perf: Option<PathBuf>,
}

/// Size of one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Submissions of a trial.
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

/// Plays everything and writes the report; returns whether every run was as it must be.
///
/// # Errors
/// A part cannot be started, or an end cannot be read.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<bool> {
    std::fs::create_dir_all(&options.out)?;
    // A missing peer shows now, not after an hour.
    options.contestants.iter().try_for_each(|contestant| peer::is_built(options, *contestant))?;
    options.receivers.iter().try_for_each(|receiver| receiver.can_be_started())?;
    let arena = Arena::start(options).await?;
    let rounds: usize = options.shapes.iter().map(|shape| options.size(*shape).repeat).sum();
    let players = options.limits.len() + options.contestants.len();
    say(&format!(
        "{}: {} rounds, then the lag at {} rates for {} s each",
        arena.setting,
        options.receivers.len() * rounds * players,
        options.contestants.len() * options.lag_rates.len(),
        options.lag_seconds
    ));
    let mut runs: Vec<Run> = Vec::new();
    for receiver in &options.receivers {
        for shape in &options.shapes {
            for round in 1..=options.size(*shape).repeat {
                for limit in options.limits.iter().filter(|limit| limit.is_of(*shape)) {
                    let played = limits::play(&arena, *limit, *shape, *receiver, round).await;
                    note(&mut runs, played.with_context(|| format!("the limit {limit}"))?, &say);
                }
                for contestant in &options.contestants {
                    let played = trial::play(&arena, *contestant, *shape, *receiver, round).await;
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
pub(crate) fn now() -> Instant {
    Instant::now()
}
