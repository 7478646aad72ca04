//! The pace of a back-fill, its progress for whoever waits, and the wish to end it.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::super::output;
use crate::ops::clock::SystemClock;
use crate::ports::Clock as _;

/// Time between two lines of progress where nobody sits at a terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// The pace at which tickets are opened, so that they do not wait, claimed, for the help desk's.
pub(super) struct Pace {
    each: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// At most `per_minute` tickets a minute.
    pub(super) fn of(per_minute: u32) -> Self {
        Self { each: Duration::from_secs(60) / per_minute.max(1), next: None }
    }

    /// Waits for the turn of so many tickets at once; false where somebody wants to end.
    pub(super) async fn turn(&mut self, tickets: usize, stop: &mut Stop) -> bool {
        let clock = SystemClock;
        if let Some(next) = self.next {
            let pause = next.saturating_duration_since(clock.monotonic());
            tokio::select! {
                () = stop.asked() => return false,
                () = clock.sleep(pause) => {}
            }
        }
        self.next = Some(clock.monotonic() + self.time_of(tickets));
        true
    }

    /// Time that so many more submissions take at least.
    pub(super) fn still(&self, submissions: usize) -> Duration {
        self.time_of(submissions)
    }

    fn time_of(&self, tickets: usize) -> Duration {
        self.each.saturating_mul(u32::try_from(tickets).unwrap_or(u32::MAX))
    }
}

/// The wish to end: Ctrl-C, or SIGTERM. What is begun is finished.
pub(super) struct Stop {
    signals: Vec<Signal>,
}

impl Stop {
    /// Nobody is listened to: a signal ends the process.
    pub(super) fn never() -> Self {
        Self { signals: Vec::new() }
    }

    /// From now on a signal is a wish.
    pub(super) fn on_signals() -> io::Result<Self> {
        Ok(Self { signals: vec![signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    /// Whether somebody has asked.
    pub(super) fn is_asked(&mut self) -> bool {
        self.asked().now_or_never().is_some()
    }

    /// Resolves when somebody asks.
    async fn asked(&mut self) {
        if self.signals.is_empty() {
            return std::future::pending().await;
        }
        futures::future::select_all(self.signals.iter_mut().map(|signal| signal.recv().boxed())).await;
    }
}

/// Progress on stderr: a line that changes at a terminal, now and then a line elsewhere.
pub(super) struct Progress {
    total: Option<usize>,
    terminal: bool,
    said: Instant,
}

impl Progress {
    /// Progress of so many submissions; without a number, of the search for them.
    pub(super) fn of(total: Option<usize>) -> Self {
        Self { total, terminal: io::stderr().is_terminal(), said: SystemClock.monotonic() }
    }

    /// Shows that so many were looked at, and how many of them are wanted.
    pub(super) fn searched(&mut self, looked: usize, found: usize) {
        self.say(&format!("looked at {looked} submissions, {found} with deferred tickets"));
    }

    /// Shows that so many are done, and what the others take at least.
    pub(super) fn at(&mut self, done: usize, still: Duration) {
        let total = self.total.unwrap_or_default();
        let still = humantime::format_duration(Duration::from_secs(still.as_secs()));
        self.say(&format!("{done} of {total} submissions done, at least {still} to go"));
    }

    /// Clears the line for the output after it.
    pub(super) fn end(&self) {
        if self.terminal {
            show("\r\u{1b}[K");
        }
    }

    fn say(&mut self, words: &str) {
        let now = SystemClock.monotonic();
        if self.terminal {
            show(&format!("\r\u{1b}[K{words}"));
        } else if now.saturating_duration_since(self.said) >= LINE_EVERY {
            self.said = now;
            if output::note(words).is_err() {
                // Nobody looks any more.
            }
        }
    }
}

fn show(text: &str) {
    if write!(io::stderr(), "{text}").and_then(|()| io::stderr().flush()).is_err() {
        // Nobody looks any more.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_tickets_are_opened_than_the_help_desk_takes() {
        let clock = SystemClock;
        let (mut pace, mut stop) = (Pace::of(120), Stop::never());
        let began = clock.monotonic();
        for tickets in [1, 1, 3, 1] {
            assert!(pace.turn(tickets, &mut stop).await);
        }
        // The first goes at once, and the last waits for the three before it.
        let took = clock.monotonic().saturating_duration_since(began);
        assert!((Duration::from_millis(2500)..Duration::from_millis(2550)).contains(&took), "{took:?}");
        assert_eq!(pace.still(120), Duration::from_secs(60));
    }

    #[tokio::test]
    async fn a_wish_to_end_is_heard_in_the_middle_of_a_wait() {
        let mut stop = Stop::on_signals().expect("listened to");
        assert!(!stop.is_asked());
        let mut pace = Pace::of(1);
        assert!(pace.turn(1, &mut stop).await);
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).expect("sent");
        assert!(!pace.turn(1, &mut stop).await, "in the minute's middle");
    }
}
