//! How the service is: counts, what is stopped, what waits. One page that prints. Pure.

use askama::Template;
use jiff::Timestamp;

use super::frame::Frame;
use super::queue::{QueueFilters, StateCount};
use super::submissions::SubmissionFilters;
use super::{assets, plain, when};

/// The page at `/status`.
#[derive(Debug, Clone, Template)]
#[template(path = "status.html")]
pub struct StatusPage {
    /// Its surroundings.
    pub frame: Frame,
    /// When it was counted; what is in the review queue is as it is now.
    pub counted_at: Timestamp,
    /// What needs somebody, one sentence each, the worst first; empty when nothing does.
    pub troubles: Vec<Trouble>,
    /// Submissions by status.
    pub submissions: Vec<Count>,
    /// Entries of the review queue by state.
    pub queue: Vec<StateCount>,
    /// Since when the oldest open entry waits.
    pub oldest_entry: Option<Timestamp>,
    /// The daemon on this host, in plain words: `ready`, `does not answer`, …
    pub daemon: String,
    /// Breakers of the daemon.
    pub breakers: Vec<BreakerLine>,
    /// Pauses in force.
    pub pauses: Vec<PauseLine>,
    /// Further figures, in groups: relay, outbox, dead letters.
    pub groups: Vec<Group>,
}

/// What needs somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What, and what to do.
    pub text: String,
    /// The command that tells more or mends it.
    pub command: Option<String>,
}

/// How many, and since when the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Label.
    pub label: String,
    /// How many.
    pub count: u64,
    /// Since when the oldest is so.
    pub oldest: Option<Timestamp>,
}

/// One breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerLine {
    /// The other side.
    pub dependency: String,
    /// `closed`, `open`.
    pub state: String,
}

/// One pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseLine {
    /// What is paused, in plain words.
    pub what: String,
    /// By whom.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
    /// Until when; absent until somebody resumes.
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: String,
}

/// Figures that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Heading.
    pub title: String,
    /// Figures.
    pub counts: Vec<Count>,
    /// A sentence instead of, or beside, the figures.
    pub note: Option<String>,
}

impl StatusPage {
    fn title(&self) -> &'static str {
        "Status"
    }

    fn section(&self) -> &'static str {
        "status"
    }

    fn submissions_href(&self, status: &str) -> String {
        SubmissionFilters { status: Some(status.to_owned()), ..SubmissionFilters::default() }.href()
    }

    fn queue_href(&self, state: &str) -> String {
        QueueFilters { states: vec![state.to_owned()], ..QueueFilters::default() }.href()
    }
}
