//! End of a claim: a record with its consequences, a failure, a release.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Draft;
use crate::kernel::{NotPossible, Transition, Who};
use crate::routing::decide::{self, Verdict};
use crate::routing::submission::ledger::{DeliveryState, FailReason, Ledger, LedgerFault};
use crate::routing::submission::outcome::{Entries, finish_detail};
use crate::routing::table::{Command, Status};

/// Result of a record.
#[derive(Debug)]
pub enum Recorded {
    /// Another action of this claim has open deliveries that were not tried.
    Continue(Box<GoesOn>),
    /// The claim has ended.
    Concluded(Conclusion),
    /// The claim was lost: only facts were recorded.
    Stale,
    /// No such row is visible: nothing was recorded.
    NoRow,
}

/// A claim that goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct GoesOn {
    /// The ledger as it was written, without the intents of the deliveries in `intents`.
    pub ledger: Ledger,
    /// Deliveries of the next mail whose intents were recorded with the outcomes; empty: the worker records them.
    pub intents: Vec<String>,
}

/// End of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// Every delivery is accepted or not implemented.
    Routed {
        /// Database time of the end.
        at: Timestamp,
        /// Whether nothing was sent: every delivery is not implemented.
        only_not_implemented: bool,
    },
    /// Failed for good.
    Failed {
        /// Database time of the end.
        at: Timestamp,
        /// Reason of the failure.
        reason: FailReason,
    },
    /// Given back for another attempt.
    Released {
        /// Earliest instant of the next attempt.
        due: Timestamp,
    },
}

/// Values of the claim that a record needs.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// The claim's token.
    pub token: &'a str,
    /// Actions tried under this claim.
    pub tried: &'a BTreeSet<i32>,
    /// Pause before the next attempt, should there be one.
    pub pause: Duration,
    /// Whether an outage left the open deliveries: a release gives the attempt back (protocol, "Outages").
    pub refund: bool,
    /// Largest number of attempts of a submission.
    pub max_attempts: u32,
}

impl Draft {
    /// Records outcomes and, when nothing is left to try under this claim, ends it. Facts stand also without the claim.
    ///
    /// # Errors
    /// [`LedgerFault`] of a claim of ours: another program wrote to the ledger meanwhile. The facts still stand; the
    /// sweep judges the row.
    pub fn record(&mut self, entries: &Entries, ending: &Ending<'_>) -> Result<Recorded, LedgerFault> {
        self.merge(ending.token, &entries.facts);
        if !self.is_ours(ending.token) {
            return Ok(Recorded::Stale);
        }
        self.note(entries);
        let ledger = self.ledger()?;
        if decide::next_action(&ledger, ending.tried).is_some() {
            return Ok(Recorded::Continue(Box::new(GoesOn { ledger, intents: Vec::new() })));
        }
        Ok(concluded(match decide::verdict_with_refund(&ledger, ending.max_attempts, ending.refund) {
            Verdict::Routed => self.finish(ending.token, &ledger, None),
            Verdict::Failed(reason) => {
                // Deliveries still open fail with the claim.
                let open = Entries::exhausted(&ledger);
                if open.is_empty() {
                    self.finish(ending.token, &ledger, Some(reason))
                } else {
                    self.note(&open);
                    let ledger = self.ledger()?;
                    self.finish(ending.token, &ledger, Some(reason))
                }
            }
            Verdict::Release => self.give_back(ending),
        }))
    }

    /// Ends a claim as failed for a reason that is not in its deliveries.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn fail(&mut self, token: &str, reason: FailReason) -> Result<Recorded, LedgerFault> {
        if !self.is_ours(token) {
            return Ok(Recorded::Stale);
        }
        let ledger = self.ledger()?;
        Ok(concluded(self.finish(token, &ledger, Some(reason))))
    }

    /// Gives the submission back for another attempt.
    #[must_use]
    pub fn release(&mut self, ending: &Ending<'_>) -> Recorded {
        if self.is_ours(ending.token) { concluded(self.give_back(ending)) } else { Recorded::Stale }
    }

    /// Makes the terminal transition with its one audit row (P3).
    fn finish(
        &mut self,
        token: &str,
        ledger: &Ledger,
        reason: Option<FailReason>,
    ) -> Result<Conclusion, NotPossible> {
        let at = self.now;
        let (command, action) = match reason {
            None => (Command::FinishRouted, "submission_routed"),
            Some(_) => (Command::FinishFailed, "submission_route_failed"),
        };
        let status = self.end(command)?;
        let mut finished = json!({"token": token, "at": at, "status": status.label()});
        if let Some(reason) = reason {
            finished["reason"] = json!(reason.label());
        }
        self.set_key("finished", finished);
        self.audit(action, finish_detail(ledger, reason));
        Ok(match reason {
            Some(reason) => Conclusion::Failed { at, reason },
            None => {
                let nothing_sent = |state| state == DeliveryState::NotImplemented;
                let only_not_implemented = ledger.deliveries.values().all(|d| nothing_sent(d.state));
                Conclusion::Routed { at, only_not_implemented }
            }
        })
    }

    /// Goes back to `received`. An intent of another claim that still stands has no outcome: it becomes doubt. An intent
    /// of this claim was never followed by a send, because every record removes the intents of its mails: it goes.
    fn give_back(&mut self, ending: &Ending<'_>) -> Result<Conclusion, NotPossible> {
        let attempts = self.document.get("attempts").and_then(Value::as_u64).unwrap_or(0);
        // The database stores microseconds.
        let pause = Duration::from_micros(u64::try_from(ending.pause.as_micros()).unwrap_or(u64::MAX));
        let due = self.now.checked_add(pause).unwrap_or(Timestamp::MAX);
        let intents: Vec<String> = match self.document.get("deliveries") {
            Some(Value::Object(all)) => {
                let open = |entry: &Value| entry.get("state") == Some(&json!("open"));
                let changed = |entry: &Value| entry.get("begun").is_some() && open(entry);
                all.iter().filter(|(_, entry)| changed(entry)).map(|(key, _)| key.clone()).collect()
            }
            Some(_) | None => Vec::new(),
        };
        for key in intents {
            let mut delivery = self.delivery(&key);
            let entry = delivery.remove("begun").unwrap_or_default();
            if entry.get("token").and_then(Value::as_str) != Some(ending.token) {
                delivery.insert("doubt".to_owned(), json!(true));
            }
            self.set(&key, delivery);
        }
        self.end(Command::Release)?;
        self.set_key("attempts", json!(attempts.saturating_sub(u64::from(ending.refund))));
        self.set_key("next_attempt_at", json!(due));
        Ok(Conclusion::Released { due })
    }

    /// Leaves `processing`; returns the new status.
    fn end(&mut self, command: Command) -> Result<Status, NotPossible> {
        let transition = Transition::of(self.status.unwrap_or(Status::Purged), command, Who::WORKER)?;
        if let Value::Object(document) = &mut self.document {
            document.remove("claim");
            document.remove("next_attempt_at");
        }
        self.change.ends_claim = true;
        self.change.touched = true;
        self.change.transition = Some(transition);
        self.status = Some(transition.to());
        Ok(transition.to())
    }
}

/// A transition that the table refuses was not ours to make: the row is in another status.
fn concluded(end: Result<Conclusion, NotPossible>) -> Recorded {
    end.map_or(Recorded::Stale, Recorded::Concluded)
}
