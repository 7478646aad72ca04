//! Every (state, command, role) of a run's lifecycle on the real statements.

use maple_router::kernel::rows::{Fence as Right, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::screening::store::people::Decided;
use maple_router::screening::table::{ADMIN, Command, Screening, State};
use uuid::Uuid;

use crate::harness::Scene;
use crate::holds::{Fence, Real, lifecycle_holds};

const TOKEN: Uuid = Uuid::from_u128(42);

impl Real<Screening> for Scene {
    type Id = Uuid;

    async fn row(&self, state: State, command: Command, by: Who) -> Uuid {
        let submission = self.submit("on", state.label()).await;
        let run = self.run_of(submission).await;
        self.put(run, state.label()).await;
        self.sql(&format!(
            "INSERT INTO screening.scan_results (submission_id, job_type, attempt, content, ruleset, verdict, score)
             SELECT id, 'tier2-scan', 1, screening.digest_of(subject), 'abc', 'pass', 90 FROM screening.submissions WHERE id = '{run}';
             DELETE FROM screening.submission_state_events WHERE submission_id = '{run}'"
        ))
        .await;
        let leased = !matches!(command, Command::Claim) && by != ADMIN;
        if leased && state.job().is_some() {
            let until = if command == Command::Expire { "- interval '1 s'" } else { "+ interval '1 h'" };
            let lease = if command == Command::Tier2Unavailable && by == Who::SYSTEM {
                "expires_at = now() - interval '1 s'".to_owned()
            } else {
                format!("lease_token = '{TOKEN}', leased_until = now() {until}, attempts = 1, claims = 1")
            };
            self.sql(&format!("UPDATE screening.submissions SET {lease} WHERE id = '{run}'")).await;
        }
        run
    }

    async fn give(&self, id: Uuid, command: Command, by: Who, fence: Fence) -> bool {
        if by == ADMIN {
            return self.decided(id, command, fence).await;
        }
        if by == Who::SYSTEM {
            // Timers take no fence, and one sweep fires all: only what this row's own timers allow is looked at.
            if fence == Fence::Stale || !matches!(command, Command::Expire | Command::Tier2Unavailable) {
                return false;
            }
            self.store.wake(100).await.expect("woken");
            return true;
        }
        if command == Command::Claim {
            if fence == Fence::Stale {
                return false;
            }
            for state in State::ALL.iter().filter(|state| state.job().is_some()) {
                let only = maple_router::kernel::rows::Kinds::Only(vec!["live"]);
                self.store.claim(*state, &only, 100, crate::harness::PATIENCE, TOKEN).await.expect("claimed");
            }
            return true;
        }
        let token = if fence == Fence::Own { TOKEN } else { Uuid::from_u128(7) };
        let mut given = false;
        for (from, to) in State::ALL.iter().flat_map(|from| State::ALL.iter().map(move |to| (*from, *to))) {
            let Ok(transition) = Transition::<Screening>::leading(from, command, to, by) else { continue };
            given = true;
            let columns = if command == Command::GiveUp {
                serde_json::json!({"dead_reason": "poison"})
            } else if command == Command::VendorAutoVerify {
                serde_json::json!({"origin": "x"})
            } else if command == Command::Tier2Pass {
                serde_json::json!({"score": 90})
            } else {
                serde_json::json!({})
            };
            let write = Write { columns: Some(columns), ..Write::plain(id, Right::Lease(token), transition) };
            drop(self.store.settle(std::slice::from_ref(&write)).await);
        }
        given
    }

    async fn state(&self, id: Uuid) -> State {
        State::parse(&self.state(id).await).expect("a state")
    }

    async fn trace(&self, id: Uuid) -> String {
        self.one(&format!(
            "SELECT concat_ws(E'\\n', (SELECT (r.state, r.version, r.lease_token, r.attempts, r.claims, r.dead_reason)::text
               FROM screening.submissions r WHERE r.id = '{id}'),
               (SELECT string_agg(e.trigger, ',') FROM screening.submission_state_events e WHERE e.submission_id = '{id}'))"
        ))
        .await
    }

    async fn recorded(&self, id: Uuid, done: Transition<Screening>) {
        let expected: Vec<String> =
            if done.from() == Some(done.to()) { Vec::new() } else { vec![done.command().to_string()] };
        assert_eq!(self.triggers(id).await, expected, "one event for each transition (S4)");
        if done.command() == Command::GiveUp {
            assert_eq!(self.entries(id).await, ["screening_job poison Pending"]);
        }
        if done.to() == State::NeedsReview {
            assert_eq!(self.entries(id).await.len(), 1, "a person is told");
        }
    }
}

impl Scene {
    /// A person's command, by the function; `false` where it is none.
    async fn decided(&self, id: Uuid, command: Command, fence: Fence) -> bool {
        let mut given = false;
        for from in State::ALL {
            let Ok(edge) = Transition::<Screening>::of(*from, command, ADMIN) else { continue };
            given = true;
            let version = if fence == Fence::Own { 1 } else { 7 };
            let decided = self.desk.pool().transaction("screening_decide", async |tx| {
                self.desk.decide(&tx, (id, version), edge, ("reviewer:x", "because")).await
            });
            let decided = decided.await.expect("answered");
            assert!(fence == Fence::Own || decided != Decided::Done);
        }
        given
    }
}

#[tokio::test]
async fn every_command_of_everybody_in_every_state_is_as_the_table_says() {
    let scene = Scene::new().await;
    let (tried, allowed) = lifecycle_holds::<Screening>(&scene, &[Who::WORKER, Who::SYSTEM, ADMIN]).await;
    // Of the worker ten transitions, and claim, retry and give-up in five states; six timers; of people four.
    assert_eq!((tried, allowed), (180, 35));
}
