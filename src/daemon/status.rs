//! Keeps the line that `systemctl status` shows true: at once when the daemon's activity changes, and every ten
//! seconds for the numbers.
//!
//! Only reports; if the task dies, the line stays as it was. [`crate::ops::status_line`] makes the line itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::kernel::tasks::Task;
use crate::ops::gate::{Gate, Shut};
use crate::ops::http::Readiness;
use crate::ops::status_line::{Facts, Line, Paused, Stage, Wait, line};
use crate::ops::systemd;
use crate::ops::tally::Tally;
use crate::ports::Clock;
use crate::routing::pause::PauseBoard;
use crate::routing::pause::Scope;
use crate::scrub::scrub;

/// Interval between two looks; nobody sees more often.
const LOOK: Duration = Duration::from_millis(500);
/// Interval between two lines that differ in their numbers only.
const NUMBERS: Duration = Duration::from_secs(10);

/// Inputs of the line.
pub(super) struct Watched {
    pub(super) readiness: Arc<Readiness>,
    pub(super) gate: Gate,
    pub(super) board: PauseBoard,
    pub(super) clock: Arc<dyn Clock>,
}

/// Stage of the daemon; dropping it ends the updates.
pub(super) struct StatusLine {
    stage: watch::Sender<Stage>,
    _task: Task,
}

impl StatusLine {
    /// Updates the line from now on.
    pub(super) fn start(watched: Watched) -> Self {
        let (stage, seen) = watch::channel(Stage::Starting);
        Self { stage, _task: Task::spawn("status line", |_| watched.tell(seen)) }
    }

    /// Channel for the tasks that know how far the daemon has come.
    pub(super) fn stages(&self) -> watch::Sender<Stage> {
        self.stage.clone()
    }
}

impl Watched {
    async fn tell(self, mut stage: watch::Receiver<Stage>) {
        let (mut said, mut said_at) = (Line::default(), None::<Instant>);
        let mut since = BTreeMap::new();
        loop {
            let now = self.clock.monotonic();
            let facts = self.facts(*stage.borrow_and_update(), now, &mut since);
            let line = line(&facts);
            let due = said_at.is_none_or(|at| now.saturating_duration_since(at) >= NUMBERS);
            if line.what != said.what || (due && line != said) {
                systemd::status(&line.text());
                (said, said_at) = (line, Some(now));
            }
            tokio::select! {
                changed = stage.changed() => if changed.is_err() { return },
                () = self.clock.sleep(LOOK) => {}
            }
        }
    }

    fn facts(&self, stage: Stage, now: Instant, since: &mut BTreeMap<&'static str, Instant>) -> Facts {
        let shut = self.gate.reasons();
        let reasons = self.readiness.reasons();
        since.retain(|name, _| reasons.iter().any(|reason| reason.name == *name));
        let mut waits = Vec::new();
        for reason in reasons {
            if ["starting", "stopping", Shut::Paused.label()].contains(&reason.name) {
                continue;
            }
            let lasting = now.saturating_duration_since(*since.entry(reason.name).or_insert(now));
            let breaker =
                shut.iter().any(|shut| matches!(shut, Shut::Breaker(_)) && shut.label() == reason.name);
            waits.push(Wait { name: reason.name, said: scrub(&reason.detail), lasting, breaker });
        }
        Facts { stage, waits, paused: self.paused(&shut), tally: Tally::now() }
    }

    fn paused(&self, shut: &[Shut]) -> Paused {
        let pauses = self.board.now();
        let count = |of: fn(&Scope) -> bool| pauses.iter().filter(|pause| of(&pause.scope)).count();
        Paused {
            // Before the first look everything is paused, without anybody having asked for it.
            all: pauses.of_all().filter(|_| shut.contains(&Shut::Paused)).map(|pause| pause.until),
            forms: count(|scope| matches!(scope, Scope::Form(_))),
            destinations: count(|scope| matches!(scope, Scope::Destination(_))),
        }
    }
}
