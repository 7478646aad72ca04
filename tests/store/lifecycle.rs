//! Every (state, command, who) of the submission's table, tried against the real statements, even where the row carries the
//! very token that is asked with (`holds.rs`).

use maple_router::kernel::{Transition, Who};
use maple_router::ports::Outcome;
use maple_router::routing::decide::replay::{Force, ReplayOptions};
use maple_router::routing::store::overrides::Override;
use maple_router::routing::submission::ledger::FailReason;
use maple_router::routing::table::{Command, Status, Submission};
use serde_json::json;

use super::*;
use crate::holds::{Fence, Real, lifecycle_holds};
use crate::stuck::bounds;

/// The operator who asks.
const NOTE: Override<'static> =
    Override { actor: "operator:x", verb: "release", reason: Some("y"), more: &Value::Null };

impl Real<Submission> for Bench {
    type Id = Uuid;

    async fn row(&self, status: Status, command: Command, by: Who) -> Uuid {
        let mut ledger = json!({
            "v": 1, "attempts": 1,
            "plan": [
                {"action_order": 1, "action_type": "email_raw", "destination": "a@x.test, b@x.test"},
                {"action_order": 2, "action_type": "email_raw", "destination": "c@x.test"},
            ],
            "deliveries": {A: {"state": "open"}, B: {"state": "open"}, C: {"state": "open"}},
        });
        if command != Command::Claim {
            ledger["claim"] = json!({
                "token": "t", "worker": "host/1", "at": "2026-01-01T00:00:00Z", "deadline": "2036-01-01T00:00:00Z",
            });
        }
        if command == Command::Replay {
            ledger["deliveries"][A] = json!({"state": "accepted", "nonce": "n"});
        }
        if command == Command::Backfill {
            let ticket = json!({"action_order": 3, "action_type": "happyfox_template", "destination": ""});
            ledger["plan"].as_array_mut().expect("a plan").push(ticket);
            ledger["deliveries"]["3|"] = json!({"state": "not_implemented"});
        }
        let seed = SubmissionSeed::of("f").status(status.label()).ledger(ledger);
        let taken_back = command == Command::FinishFailed && by != Who::WORKER;
        let infected = command == Command::Refuse || taken_back;
        let id = self.insert(&if infected { seed.attachment("a", "infected") } else { seed }).await;
        self.untouched(id, 700).await;
        id
    }

    async fn give(&self, id: Uuid, command: Command, by: Who, fence: Fence) -> bool {
        let tried = all_tried();
        let token = if fence == Fence::Own { "t" } else { "s" };
        let scope = scope(id, token, &tried);
        let fenced = fence == Fence::Own;
        match (command, by) {
            (Command::Claim | Command::Refuse, Who::WORKER) if fenced => drop(self.claim(id, "t").await),
            (Command::Refuse, Who::SYSTEM) if fenced => {
                drop(self.store.sweep_infected(&bounds(), None, 500, "s", &[]).await.expect("swept"));
            }
            (Command::FinishRouted, Who::WORKER) => {
                drop(self.store.record(scope, &all_accepted(token, "n")).await.expect("answered"));
            }
            (Command::FinishFailed, Who::WORKER) => {
                let no = || Outcome::Refused(fault(550));
                let failed = entries(token, "n", &[(A, no()), (B, no()), (C, no())]);
                drop(self.store.record(scope, &failed).await.expect("answered"));
                // The other way to the same end.
                drop(self.store.fail(scope, FailReason::Infected).await.expect("answered"));
            }
            (Command::Release, Who::WORKER) => {
                let open = entries(token, "n", &[(A, Outcome::Deferred(fault(451)))]);
                drop(self.store.record(scope, &open).await.expect("answered"));
                drop(self.store.release(scope, true).await.expect("answered"));
            }
            (Command::Replay, Who::OPERATOR) if fenced => {
                // Something is accepted in every row, so that a routed one can be forced.
                let options = ReplayOptions { force: Some(Force::Action(1)), replan: false };
                drop(self.store.replay(id, options, NOTE, false).await.expect("answered"));
            }
            (Command::Backfill, Who::OPERATOR) if fenced => {
                drop(self.store.backfill(id, &BTreeSet::new(), NOTE, false).await.expect("answered"));
            }
            (Command::Reset | Command::FinishFailed, Who::SYSTEM) if fenced => {
                drop(self.sweep_stuck().await);
            }
            (Command::Reset | Command::FinishFailed, Who::OPERATOR) if fenced => {
                drop(self.store.reset(id, "u", NOTE).await.expect("answered"));
            }
            // No statement purges yet.
            _ => return false,
        }
        true
    }

    async fn state(&self, id: Uuid) -> Status {
        Status::parse(&Bench::row(self, id).await.status).expect("a status")
    }

    async fn trace(&self, id: Uuid) -> String {
        format!("{:?} {:?}", Bench::row(self, id).await, self.audit(id).await)
    }

    async fn recorded(&self, id: Uuid, done: Transition<Submission>) {
        let trail = self.audited(id).await;
        let ends: Vec<&str> = trail.iter().filter_map(|action| action.strip_prefix("submission_")).collect();
        let expected: &[&str] = match done.to() {
            Status::Routed => &["routed"],
            Status::Failed => &["route_failed"],
            Status::Received | Status::Processing | Status::Purged => &[],
        };
        assert_eq!(ends, expected, "{done:?}: {trail:?}");
    }

    /// Facts merge, transitions fence.
    fn leaves_facts(&self, command: Command) -> bool {
        command == Command::FinishRouted
    }
}

#[tokio::test]
async fn what_the_table_allows_happens_and_nothing_else() {
    let bench = Bench::new().await;
    let who = [Who::WORKER, Who::SYSTEM, Who::OPERATOR];
    // Claim, Refuse twice, FinishRouted, FinishFailed three times, Release, Reset twice, Replay, Backfill, from every status.
    assert_eq!(lifecycle_holds::<Submission>(&bench, &who).await, (12 * Status::ALL.len(), 13));
}
