//! The thousand kills: `maple-router` before a real Postfix dies of SIGKILL again and again, at any moment and, in
//! a good share of cases, between the final dot and the committed fact. Then every mail is counted at the upstream,
//! by submission, recipient and Message-ID, and compared with what the routers said of doubt.
//!
//! `moment` has where it dies, `world` its surroundings, and `verdict` the expected results. Several worlds run
//! side by side, because each mostly waits. Nothing outlives this process; a run that is ended has no verdict.

mod moment;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

/// The daemon's knowledge of the relay besides its 250.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// The relay's log and queue can be read.
    Readable,
    /// The log cannot be read, and a delivery in doubt is sent again.
    Resend,
    /// The log cannot be read, and a delivery in doubt is put on hold.
    Hold,
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Readable => "the log is readable",
            Self::Resend => "no log, in doubt: resend",
            Self::Hold => "no log, in doubt: hold",
        })
    }
}

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// `maple-router`.
    pub binary: PathBuf,
    /// Number of kills.
    pub kills: u64,
    /// The relay's [`Log`].
    pub log: Log,
    /// Worlds that share the kills.
    pub side_by_side: u64,
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

/// Counts, of one world or of all.
#[derive(Debug, Default)]
struct Counts {
    submissions: u64,
    failed: u64,
    mails: u64,
    kills: u64,
    /// Kills between the final dot and the committed fact, by the name of the moment.
    caught: BTreeMap<&'static str, u64>,
    /// The routers' statements on doubt, by resolution; a death may have doubled one.
    doubts: BTreeMap<String, u64>,
    duplicates: u64,
    lost: u64,
    wrong: Vec<String>,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.submissions += other.submissions;
        self.failed += other.failed;
        self.mails += other.mails;
        self.kills += other.kills;
        self.duplicates += other.duplicates;
        self.lost += other.lost;
        other.caught.into_iter().for_each(|(name, n)| *self.caught.entry(name).or_default() += n);
        other.doubts.into_iter().for_each(|(how, n)| *self.doubts.entry(how).or_default() += n);
        self.wrong.extend(other.wrong);
    }
}

/// Runs it and judges.
///
/// # Errors
/// A part cannot be started, or the end cannot be read.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<Report> {
    let began = now();
    let worlds = options.side_by_side.clamp(1, options.kills.max(1));
    let share = |place: u64| options.kills / worlds + u64::from(place < options.kills % worlds);
    let played = (0..worlds).map(|place| world::play(options, place, share(place), &say));
    let mut all = Counts::default();
    try_join_all(played).await?.into_iter().for_each(|counts| all.add(counts));
    Ok(verdict::judge(options, all, began.elapsed()))
}

/// Real time is what happens here.
#[expect(clippy::disallowed_methods, reason = "whoever is killed lives in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Longest duration of anything before it counts as lost. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
