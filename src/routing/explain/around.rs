//! Obstacles outside a submission's row: a daemon that is silent or waits, a pause, an event among the dead letters.
//!
//! Invariant: pure. Adds to the explanation of the row, and hides nothing of it.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::super::pause::Pause;
use super::tickets::{self, HelpDesk};
use super::{Explanation, MAX_REPLY, Next, Remedy, Step, at};
use crate::routing::submission::text::{bounded, one_line};

/// Obstacles around a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Around {
    /// Id of the submission.
    pub id: Uuid,
    /// State of the daemon on this host.
    pub daemon: Daemon,
    /// The help desk, where a ticket waits for it.
    pub help_desk: HelpDesk,
    /// The pause that stops the submission.
    pub pause: Option<Pause>,
    /// An open dead letter of the submission.
    pub letter: Option<Letter>,
}

/// The daemon's state, as its loopback endpoint reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Daemon {
    /// Not asked, because the state did not matter.
    NotAsked,
    /// No `maple-router` answers there.
    Silent {
        /// `http.listen`.
        listen: String,
    },
    /// The daemon takes work, as far as no pause keeps it from that.
    Working,
    /// The daemon does not work yet, or no more.
    Idle {
        /// The daemon's reasons.
        reasons: Vec<Reason>,
    },
    /// The daemon waits for a dependency; its sweep goes on.
    BreakerOpen {
        /// The dependencies that failed.
        reasons: Vec<Reason>,
    },
}

/// One reason of the daemon for taking no work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// `relay`, `postgres`, `starting`, …
    pub name: String,
    /// Text by the daemon.
    pub detail: String,
}

/// An open dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Letter {
    /// Id of the dead letter.
    pub id: Uuid,
    /// Kind of the dead letter.
    pub kind: &'static str,
    /// Time of its arrival.
    pub at: Timestamp,
}

impl Explanation {
    /// Whether the next step is a daemon's, so that the daemon's state matters.
    #[must_use]
    pub fn waits_for_daemon(&self) -> bool {
        match self.next.code {
            Step::Claim | Step::Attempt | Step::Finish | Step::Rescue | Step::Fail | Step::Alert => true,
            Step::Finalize
            | Step::Scan
            | Step::Screen
            | Step::Grade
            | Step::Upgrade
            | Step::Purge
            | Step::Nothing => false,
        }
    }

    /// Adds the obstacles to the explanation. The first one to mend comes first.
    #[must_use]
    pub fn within(self, around: &Around) -> Self {
        let mut explanation = self;
        if let Some(letter) = &around.letter {
            explanation = dead(explanation, letter);
        }
        explanation = tickets::waiting(explanation, around.help_desk);
        match &around.daemon {
            Daemon::NotAsked | Daemon::Working => {}
            Daemon::Silent { listen } => explanation = silent(explanation, listen),
            Daemon::Idle { reasons } => explanation = idle(explanation, reasons),
            Daemon::BreakerOpen { reasons } => explanation = waiting(explanation, reasons),
        }
        match &around.pause {
            Some(pause) => paused(explanation, around.id, pause),
            None => explanation,
        }
    }

    /// Defers the next step until an obstacle is gone; `first` are the remedies for that.
    fn deferred(self, why: &str, until: &str, when: Option<Timestamp>, first: Vec<Remedy>) -> Self {
        let next =
            Next { code: Step::Nothing, what: format!("nothing {until}; then: {}", self.next.what), when };
        let mut remedy = first;
        // An event changes nothing while no worker takes it.
        let later = self.remedy.into_iter().filter(|other| other.verb != Some("publish"));
        for other in later {
            if !remedy.iter().any(|known| known.line == other.line) {
                remedy.push(other);
            }
        }
        Self { why: format!("{why}. Otherwise: {}", self.why), next, remedy }
    }
}

/// Adds a pause of the submission.
fn paused(explanation: Explanation, id: Uuid, pause: &Pause) -> Explanation {
    let why = format!(
        "{} is paused since {} by {} ({})",
        pause.scope,
        at(pause.since),
        one_line(&pause.actor),
        bounded(one_line(&pause.reason), MAX_REPLY)
    );
    let resume = Remedy { question: None, line: pause.remedy(), verb: Some("resume") };
    let mut deferred = explanation.deferred(&why, "while it is paused", pause.until, vec![resume]);
    let publish = Remedy::command("publish", &id.to_string());
    deferred.remedy.insert(1, publish.when("to have it looked at right after that, and not by the sweep:"));
    deferred
}

fn silent(explanation: Explanation, listen: &str) -> Explanation {
    let start = Remedy::advice("systemctl status maple-router; systemctl start maple-router");
    if explanation.next.code == Step::Alert {
        let mut remedy = vec![start];
        remedy.extend(explanation.remedy);
        let why = format!("{}; no daemon answers on {listen}, so nobody is alerted", explanation.why);
        return Explanation { why, remedy, ..explanation };
    }
    let why = format!("no daemon answers on {listen}, and unless another host has one, nobody works on it");
    explanation.deferred(&why, "until a daemon runs", None, vec![start])
}

fn idle(explanation: Explanation, reasons: &[Reason]) -> Explanation {
    if explanation.next.code == Step::Alert {
        return explanation;
    }
    let why = format!("the daemon on this host takes no work: {}", words(reasons));
    let look = vec![Remedy::advice("systemctl status maple-router"), Remedy::command("check", "")];
    explanation.deferred(&why, "until it does", None, look)
}

fn waiting(explanation: Explanation, reasons: &[Reason]) -> Explanation {
    if !matches!(explanation.next.code, Step::Claim | Step::Attempt) {
        return explanation;
    }
    let names: Vec<&str> = reasons.iter().map(|reason| service(&reason.name)).collect();
    let names = names.join(" and ");
    let why = format!("the breaker is open: {names} failed, so nothing is claimed and no attempt is spent");
    let mut look: Vec<Remedy> = Vec::new();
    if reasons.iter().any(|reason| reason.name == "relay") {
        look.push(Remedy::advice("systemctl status postfix"));
    }
    look.push(Remedy::command("check", ""));
    look.push(Remedy::advice("journalctl -u maple-router EVENT=breaker_open -n 3"));
    explanation.deferred(&why, &format!("until a probe of the daemon's finds that {names} works"), None, look)
}

/// Name of a dependency for people.
fn service(name: &str) -> &str {
    match name {
        "relay" => "the relay (Postfix)",
        "postgres" => "the database",
        "signer" => "the signing of URLs",
        "pubsub" => "Pub/Sub",
        "contract" => "the contract with the database",
        "help_desk" => "the help desk",
        other => other,
    }
}

fn words(reasons: &[Reason]) -> String {
    let one = |reason: &Reason| match reason.name.as_str() {
        "starting" | "stopping" => one_line(&reason.detail),
        name => format!("{}: {}", one_line(name), one_line(&reason.detail)),
    };
    bounded(reasons.iter().map(one).collect::<Vec<_>>().join("; "), 2 * MAX_REPLY)
}

/// Adds the dead letter of the submission's event.
fn dead(explanation: Explanation, letter: &Letter) -> Explanation {
    let why = format!(
        "{}; its event became a dead letter ({}) at {}",
        explanation.why,
        letter.kind.replace('_', " "),
        at(letter.at)
    );
    let mut remedy = explanation.remedy;
    // Another event beside it is the second choice.
    let index = remedy.iter().position(|other| other.verb == Some("publish")).unwrap_or(remedy.len());
    remedy.insert(index, Remedy::command("dlq", &format!("redrive {} --reason TEXT", letter.id)));
    Explanation { why, remedy, ..explanation }
}
