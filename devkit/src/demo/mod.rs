//! `make demo`: a dozen submissions and what becomes of them, on a real router process, shown live and judged at the end.
//!
//! Reading order: `scenarios` is what is played and expected, `theatre` what runs (`uploads` its part of files), `play` who plays
//! (`bringing` whoever has a file), `review`, `versions`, `retention`, `screening` and `grading` the last acts, `watch` and `narration` what the reader
//! sees, `evidence` and `verdict` what counts. Nothing is judged by the router's own word: only rows, audit rows, mails at the relay, and the dead-letter
//! topic, or schema `router` where that is the source.
//!
//! Files (configuration, log, mails) stay in one directory; everything else ends with the process, however it ends.

mod bringing;
mod evidence;
mod grader;
mod grading;
mod journal;
mod link;
mod narration;
mod play;
mod policy;
mod report;
mod retention;
mod review;
mod scenarios;
mod screener;
mod screening;
mod table;
mod theatre;
mod uploads;
mod verdict;
mod versions;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::SignedDuration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use bringing::Bringer;
use evidence::Witness;
use narration::{Narrator, Tone, now};
use play::{Played, Player, until_over};
use report::Report;
use theatre::Theatre;
use watch::{Labels, Watch};

use crate::stage::Source;

/// After so long the demo judges what is there; what follows takes a few seconds, and 90 are promised.
const AT_MOST: SignedDuration = SignedDuration::from_secs(75);

/// Settings of the demo.
#[derive(Debug, Clone)]
pub struct Options {
    /// `maple-router`.
    pub binary: PathBuf,
    /// Directory for configuration, log and mails; emptied first.
    pub dir: PathBuf,
    /// Leave everything running at the end, until a signal.
    pub keep: bool,
    /// Source of events.
    pub source: Source,
    /// Pause between two stories, for the reader.
    pub pace: Duration,
}

/// The demo's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every submission ended as it should.
    AsExpected,
    /// A story ended otherwise, or something else went wrong; the output says what.
    NotAsExpected,
    /// The user ended it early.
    Interrupted,
}

/// Plays the demo and prints it. SIGINT, SIGTERM and SIGHUP end it early and cleanly.
///
/// # Errors
/// A part cannot be started, or is gone in the middle.
pub async fn run(options: Options) -> Result<Ending> {
    let stop = stopped_by_signals()?;
    let narrator = Narrator::new();
    let printing = narrator.spawn();
    let parts = match options.source {
        Source::Pubsub => {
            "PostgreSQL, clamd, Pub/Sub, a relay, IAM, an object store, a help desk, a judge, a grader and Slack"
        }
        Source::Postgres => {
            "PostgreSQL with schema router, clamd, a relay, IAM, an object store, a help desk, a judge, a grader and Slack"
        }
    };
    narrator.print(&format!("maple-router demo: starting {parts}"), Tone::Bold);
    narrator.print(
        "on loopback, all but PostgreSQL and clamd made for tests, and the real `maple-router run` on them.",
        Tone::Bold,
    );
    let opened = stop.run_until_cancelled(Theatre::open(&options)).await;
    let Some(opened) = opened else { return Ok(Ending::Interrupted) };
    let mut theatre = opened?;
    narrator.print(&report::orientation(&theatre), Tone::Plain);

    let mut played = Vec::new();
    let shown = stop.run_until_cancelled(show(&options, &mut theatre, &narrator, &mut played)).await;
    printing.abort();
    let ending = match shown {
        None => Ending::Interrupted,
        Some(shown) => {
            let report = shown.with_context(|| {
                format!("the demo cannot go on; the router's log is {}", theatre.router.log_file().display())
            })?;
            report.print(&narrator, &options, &theatre);
            if report.is_good() { Ending::AsExpected } else { Ending::NotAsExpected }
        }
    };
    if options.keep && ending != Ending::Interrupted {
        theatre.mend_forms().await?;
        narrator.print(&report::addresses(&options, &theatre).await?, Tone::Plain);
        stop.cancelled().await;
    }
    if stop.is_cancelled() {
        narrator.print("\nstopping everything", Tone::Plain);
    }
    match theatre.close(stop.is_cancelled()).await {
        Some(fault) if ending == Ending::AsExpected => {
            narrator.print(&format!("NOT as it should: {fault}"), Tone::Bad);
            Ok(Ending::NotAsExpected)
        }
        Some(_) | None => Ok(ending),
    }
}

/// The show up to the report.
async fn show(
    options: &Options,
    theatre: &mut Theatre,
    narrator: &Arc<Narrator>,
    played: &mut Vec<Played>,
) -> Result<Report> {
    let deadline = now() + AT_MOST;
    let labels = Labels::default();
    let stage = &theatre.stage;
    let witness = Witness::of(stage, &theatre.help_desk).await?;
    let log = theatre.router.log_file().to_owned();
    let mut watch = Watch::new(stage, Arc::clone(narrator), Arc::clone(&labels), log);
    let bringer = Bringer {
        stage,
        uploads: &theatre.uploads,
        binary: &theatre.binary,
        config: theatre.router.config().to_owned(),
        labels: Arc::clone(&labels),
    };
    let player = Player::new(bringer, &witness, Arc::clone(narrator), labels, options.pace).await?;
    let router = &mut theatre.router;
    let acting = async {
        player.all(played).await?;
        narrator.headline("All are under way: waiting for those that are tried again.");
        until_over(stage, &witness, router, played, deadline).await
    };
    let faults = tokio::select! {
        faults = acting => faults,
        () = watch.go_on() => Ok(Vec::new()),
    };
    watch.look();
    let faults = faults?;
    let theatre = &*theatre;
    let mut report = Report::gather(theatre, &witness, played, faults).await?;
    narrator.headline(format!("{}. review: {}", played.len() + 2, review::STORY));
    tokio::select! {
        reviewed = review::play(theatre, &witness, played, narrator, &mut report) => reviewed?,
        () = watch.go_on() => {}
    }
    watch.look();
    narrator.headline(format!("{}. versions: {}", played.len() + 3, versions::STORY));
    tokio::select! {
        acted = versions::play(theatre, narrator, &mut report) => acted?,
        () = watch.go_on() => {}
    }
    watch.look();
    narrator.headline(format!("{}. retention: {}", played.len() + 4, retention::STORY));
    tokio::select! {
        acted = retention::play(theatre, narrator, &mut report) => acted?,
        () = watch.go_on() => {}
    }
    watch.look();
    narrator.headline(format!("{}. screening: {}", played.len() + 5, screening::STORY));
    tokio::select! {
        acted = screening::play(theatre, narrator, &mut report) => acted?,
        () = watch.go_on() => {}
    }
    watch.look();
    narrator.headline(format!("{}. grading: {}", played.len() + 6, grading::STORY));
    tokio::select! {
        acted = grading::play(theatre, narrator, &mut report) => acted?,
        () = watch.go_on() => {}
    }
    watch.look();
    Ok(report)
}

/// Cancelled by the first signal that asks us to end.
fn stopped_by_signals() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signal, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            if signal.recv().await.is_some() {
                stop.cancel();
            }
        });
    }
    Ok(stop)
}
