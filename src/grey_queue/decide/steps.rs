//! The steps of a command through the table, and the columns that each of them sets.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Person, Refusal, Rules};
use crate::grey_queue::entry::{Entry, Resolution};
use crate::grey_queue::table::{Command, GreyQueue, State};
use crate::kernel::Transition;
use crate::kernel::rows::Attempts;
use crate::kernel::subject::Remedy;

/// Time from a remedy to the first look at what became of it.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// One transition, with what it sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The edge.
    pub transition: Transition<GreyQueue>,
    /// The change of the attempts.
    pub attempts: Attempts,
    /// Time until the entry is due.
    pub pause: Option<Duration>,
    /// Why.
    pub reason: Option<String>,
    /// The columns it sets.
    pub columns: Value,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The transitions, in order.
    pub steps: Vec<Step>,
    /// The remedy to carry out in the same transaction, and its delivery.
    pub remedy: Option<(Remedy, Option<String>)>,
    /// Who is to be told that the entry is theirs; absent where it is whoever asked.
    pub assigned: Option<String>,
}

impl Plan {
    /// The state after the last step.
    #[must_use]
    pub fn ends_in(&self) -> Option<State> {
        self.steps.last().map(|step| step.transition.to())
    }
}

/// Steps being made.
pub(super) struct Steps<'a> {
    pub(super) entry: &'a Entry,
    pub(super) person: &'a Person,
    pub(super) rules: &'a Rules<'a>,
    reason: Option<String>,
    state: State,
    plan: Plan,
}

impl<'a> Steps<'a> {
    pub(super) fn new(
        entry: &'a Entry,
        person: &'a Person,
        rules: &'a Rules<'a>,
        reason: Option<String>,
    ) -> Self {
        let plan = Plan { steps: Vec::new(), remedy: None, assigned: None };
        Self { entry, person, rules, reason, state: entry.state, plan }
    }

    pub(super) fn plan(self) -> Plan {
        self.plan
    }

    /// Whoever ends or opens an entry says why.
    pub(super) fn reasoned(self) -> Result<Self, Refusal> {
        super::required("reason", self.reason.as_deref())?;
        Ok(self)
    }

    fn step(mut self, command: Command, columns: Value) -> Result<Self, Refusal> {
        let transition = Transition::of(self.state, command, self.person.role)?;
        self.state = transition.to();
        let reason = self.reason.clone();
        self.plan.steps.push(Step { transition, attempts: Attempts::Keep, pause: None, reason, columns });
        Ok(self)
    }

    fn last(mut self, change: impl FnOnce(&mut Step)) -> Self {
        if let Some(step) = self.plan.steps.last_mut() {
            change(step);
        }
        self
    }

    fn now(&self) -> Timestamp {
        self.rules.now
    }

    /// Back to Pending: nobody's, and its expiry is planned anew.
    pub(super) fn back_to_pending(self, command: Command) -> Result<Self, Refusal> {
        let columns = json!({
            "assignee": null, "requested_by": null,
            "expiry_planned_at": null, "expiry_warned_at": null, "expires_at": null,
            "rejected_by": null, "reject_reason": null,
            "escalation_reason": null, "escalated_at": null, "escalated_by": null,
            "alerted_at": null, "alert_leased_until": null, "remedied_at": null,
        });
        let steps = self.step(command, columns)?;
        Ok(if command == Command::Reset { steps.last(|step| step.attempts = Attempts::Reset) } else { steps })
    }

    /// To `to`, from Pending or out of a remedy's hands.
    pub(super) fn assign(mut self, to: &str) -> Result<Self, Refusal> {
        let command = if self.state == State::Processing { Command::HandOver } else { Command::Assign };
        if to != self.person.name {
            self.plan.assigned = Some(to.to_owned());
        }
        let columns = json!({"assignee": to, "requested_by": null});
        self.step(command, columns)
    }

    pub(super) fn escalate(self, why: &str) -> Result<Self, Refusal> {
        let columns = json!({
            "escalation_reason": why, "escalated_at": self.now(), "escalated_by": self.person.name,
            "alerted_at": null, "alert_leased_until": null,
        });
        let why = why.to_owned();
        Ok(self.step(Command::Escalate, columns)?.last(|step| step.reason = Some(why)))
    }

    pub(super) fn de_escalate(mut self, to: &str) -> Result<Self, Refusal> {
        if to != self.person.name {
            self.plan.assigned = Some(to.to_owned());
        }
        let columns = json!({
            "assignee": to, "escalation_reason": null, "escalated_at": null,
            "escalated_by": null, "alerted_at": null, "alert_leased_until": null,
        });
        self.step(Command::DeEscalate, columns)
    }

    pub(super) fn resolve(self, how: Resolution) -> Result<Self, Refusal> {
        let columns = json!({"resolution": how, "resolved_by": self.person.name});
        self.step(Command::Resolve, columns)
    }

    pub(super) fn reject(self) -> Result<Self, Refusal> {
        let columns = json!({"rejected_by": self.person.name, "reject_reason": self.reason});
        self.step(Command::Reject, columns)
    }

    pub(super) fn dismiss(self) -> Result<Self, Refusal> {
        self.step(Command::Dismiss, json!({}))
    }

    /// A remedy that this person asks for: carried out now, then looked after by a worker.
    pub(super) fn start(mut self, remedy: Remedy, delivery: Option<String>) -> Result<Self, Refusal> {
        let columns = json!({
            "remedy": remedy, "requested_by": self.person.name, "remedied_at": self.now(),
            "assignee": null,
        });
        self.plan.remedy = Some((remedy, delivery));
        self.plan.assigned = None;
        Ok(self.step(Command::Start, columns)?.last(|step| {
            step.attempts = Attempts::Reset;
            step.pause = Some(FIRST_LOOK);
        }))
    }
}
