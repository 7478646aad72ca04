//! An entry of the grey queue, as API, page and command line show it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::table::State;
use crate::kernel::subject::Remedy;
use crate::words;

words! {
    /// How an entry was resolved.
    Resolution {
        /// Every delivery is delivered, by the relay's log.
        Delivered = "delivered",
        /// The submission is routed; nobody follows the relay's log.
        Routed = "routed",
        /// The dead letter was redriven, and its submission has ended.
        Redriven = "redriven",
        /// A person vouches for it.
        Vouched = "vouched",
        /// The room that owns the subject decided.
        Owner = "owner",
    }
}

/// The subject of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubjectRef {
    /// `submission`, `dead_letter`.
    pub kind: String,
    /// Its id.
    pub id: Uuid,
}

/// That somebody asked the security team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Escalation {
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: Option<String>,
    /// When the security team was notified; absent until that is confirmed.
    pub notified_at: Option<Timestamp>,
}

/// That somebody rejected it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// Why.
    pub reason: String,
    /// Who.
    pub by: String,
}

/// That it is resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// How.
    pub how: Resolution,
    /// By whom; the daemon, where evidence became sufficient by itself.
    pub by: Option<String>,
}

/// The remedy of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    /// The remedy.
    pub remedy: Remedy,
    /// Who asked for it; absent where it was the policy.
    pub requested_by: Option<String>,
    /// Attempts that are over.
    pub attempts: u32,
    /// When the present attempt was carried out; absent before.
    pub carried_out_at: Option<Timestamp>,
    /// The next look, or the next attempt.
    pub next_at: Timestamp,
    /// A worker looks at it right now.
    pub leased: bool,
}

/// The cause of an entry about an infected file that was mailed: that the mails arrived is no remedy for it.
pub const LATE_INFECTION: &str = "late_infection";

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its id.
    pub id: Uuid,
    /// Raised by every transition and occurrence: the fence of people.
    pub version: i64,
    /// Its state.
    pub state: State,
    /// `failed`, `infected`, `bounced`, `dead_letter`, `late_infection`, and those of rooms to come.
    pub cause: String,
    /// The cause's own word.
    pub reason: String,
    /// Whose it is: `operations`, `security`.
    pub queue: String,
    /// What it is about.
    pub subject: SubjectRef,
    /// The submission's form.
    pub form_id: Option<String>,
    /// Codes, domains and counts; no address.
    pub detail: Value,
    /// How many events it stands for.
    pub occurrences: i32,
    /// When the first of them was.
    pub opened_at: Timestamp,
    /// When the last of them was.
    pub seen_at: Timestamp,
    /// Since when it is in its state.
    pub state_since: Timestamp,
    /// When it expires, unless somebody takes it; absent until planned.
    pub expires_at: Option<Timestamp>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Who reviews it.
    pub assignee: Option<String>,
    /// Since when.
    pub assigned_at: Option<Timestamp>,
    /// That the security team was asked.
    pub escalation: Option<Escalation>,
    /// That it was rejected.
    pub rejection: Option<Rejection>,
    /// That it is resolved.
    pub resolution: Option<Resolved>,
    /// Its remedy, once there was one.
    pub job: Option<Job>,
}

/// A line of an entry's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The entry's version after it.
    pub version: i64,
    /// When.
    pub at: Timestamp,
    /// The command.
    pub command: String,
    /// State before; absent at birth.
    pub from: Option<String>,
    /// State after.
    pub to: String,
    /// Who: a role and a name, or the daemon.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// More: the assignee, the remedy, the resolution.
    pub metadata: Value,
}
