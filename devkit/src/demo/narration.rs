//! The demo's output while it runs: one line an event, from several sources, in the order of their times.
//!
//! A line waits a moment before it is printed, because the router's log is read a little later than it is written.
//! If we die, at most that moment is lost. A reader that goes away (a closed pipe) is no fault.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;

/// A line's wait for earlier ones.
const PATIENCE: SignedDuration = SignedDuration::from_millis(300);
/// Columns of a line; longer text wraps under its own column.
const WIDTH: usize = 80;
/// Columns before the text.
const MARGIN: usize = 31;

/// A line's look on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Unstyled.
    Plain,
    /// Of little interest.
    Faint,
    /// A good result.
    Good,
    /// An open or odd state.
    Warn,
    /// An end that somebody has to look at.
    Bad,
    /// A headline.
    Bold,
}

/// One line: its source, its subject, its text.
#[derive(Debug)]
struct Line {
    /// Empty for what is not about one submission.
    teller: &'static str,
    label: String,
    text: String,
    tone: Tone,
}

/// The only printer of the demo.
#[derive(Debug)]
pub(super) struct Narrator {
    start: Timestamp,
    waiting: Mutex<BTreeMap<(Timestamp, u64), Line>>,
    colours: bool,
}

/// Real time: this is a show for people.
#[expect(clippy::disallowed_methods, reason = "the demo tells people when things happen")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

impl Narrator {
    /// Times count from here.
    pub(super) fn new() -> Arc<Self> {
        let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Arc::new(Self { start: now(), waiting: Mutex::default(), colours })
    }

    /// Prints lines when they have waited long enough, until aborted.
    pub(super) fn spawn(self: &Arc<Self>) -> JoinHandle<()> {
        let narrator = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                narrator.print_until(now() - PATIENCE);
            }
        })
    }

    /// An event of now.
    pub(super) fn say(&self, teller: &'static str, label: &str, tone: Tone, text: impl Into<String>) {
        self.say_at(now(), teller, label, tone, text);
    }

    /// An event of then.
    pub(super) fn say_at(
        &self,
        at: Timestamp,
        teller: &'static str,
        label: &str,
        tone: Tone,
        text: impl Into<String>,
    ) {
        let line = Line { teller, label: label.to_owned(), text: text.into(), tone };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = 0;
        while waiting.contains_key(&(at, number)) {
            number += 1;
        }
        waiting.insert((at, number), line);
    }

    /// A headline of now.
    pub(super) fn headline(&self, text: impl Into<String>) {
        self.say("", "", Tone::Bold, text);
    }

    /// Prints everything that waits, and then this, as it is.
    pub(super) fn print(&self, text: &str, tone: Tone) {
        self.print_until(Timestamp::MAX);
        self.out(&format!("{}\n", self.paint(tone, text)));
    }

    fn print_until(&self, until: Timestamp) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        while let Some(entry) = waiting.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((at, _), line) = entry.remove_entry();
            text += &self.laid_out(at, &line);
        }
        self.out(&text);
    }

    fn laid_out(&self, at: Timestamp, line: &Line) -> String {
        let Line { teller, label, text, tone } = line;
        if teller.is_empty() {
            let body = wrapped(text, WIDTH).join("\n");
            return format!("\n{}\n", self.paint(*tone, &body));
        }
        let seconds = at.duration_since(self.start).as_secs_f64().max(0.0);
        let margin = format!("{seconds:>6.2} {teller:<7} {label:<15} ");
        let body = wrapped(text, WIDTH - MARGIN).join(&format!("\n{}", " ".repeat(MARGIN)));
        format!("{}{}\n", self.paint(Tone::Faint, &margin), self.paint(*tone, &body))
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Bold => "1",
        };
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn out(&self, text: &str) {
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            // The reader has gone; the exit code still speaks.
        }
    }
}

/// The words in lines of so many columns; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_the_order_of_their_times() {
        let start: Timestamp = "2026-06-04T14:00:00Z".parse().expect("a time");
        let narrator = Narrator { start, waiting: Mutex::default(), colours: false };
        let at = |millis| start + SignedDuration::from_millis(millis);
        narrator.say_at(at(1_500), "router", "plain", Tone::Good, "second");
        narrator.say_at(at(20), "backend", "plain", Tone::Plain, "first");
        narrator.say_at(at(1_500), "relay", "plain", Tone::Plain, "third");
        let waiting = narrator.waiting.into_inner().expect("lock");
        let texts: Vec<_> = waiting.values().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["first", "second", "third"]);
    }

    #[test]
    fn a_line_has_its_columns_and_goes_on_under_its_text() {
        let start: Timestamp = "2026-06-04T14:00:00Z".parse().expect("a time");
        let mut narrator = Narrator { start, waiting: Mutex::default(), colours: false };
        let line = Line {
            teller: "router",
            label: "published twice".to_owned(),
            text: "word ".repeat(20),
            tone: Tone::Bad,
        };
        let plain = narrator.laid_out(start + SignedDuration::from_millis(1_234), &line);
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines.len(), 2, "{plain}");
        assert!(lines[0].starts_with("  1.23 router  published twice word word"), "{plain}");
        assert_eq!(lines[1].find("word"), Some(MARGIN), "{plain}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{plain}");
        narrator.colours = true;
        assert!(narrator.laid_out(start, &line).contains("\x1b[31mword"));
    }

    #[test]
    fn words_are_never_cut() {
        assert_eq!(wrapped("aa bb  cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrapped("a longerthan b", 4), ["a", "longerthan", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
