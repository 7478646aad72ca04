//! Every (state, command) of the lifecycle's table, tried against the real statements: what the table allows happens,
//! and nothing else does, even where the row carries the very token that is asked with.

use maple_router::lifecycle::next;
use maple_router::lifecycle::submission::{Command, Status, TABLE};
use maple_router::ports::Outcome;
use maple_router::routing::ledger::FailReason;
use maple_router::routing::replay::ReplayOptions;
use maple_router::routing::store::seams::Override;
use serde_json::json;

use super::*;

/// A row in `status` of which everything but the status allows `command`.
async fn row_for(bench: &Bench, status: Status, command: Command) -> Uuid {
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
    let seed = SubmissionSeed::of("f").status(status.label()).ledger(ledger);
    let seed = if command == Command::Refuse { seed.attachment("a", "infected") } else { seed };
    bench.insert(&seed).await
}

/// Gives the command; `false` where there is no statement for it yet.
async fn give(bench: &Bench, id: Uuid, command: Command) -> bool {
    let tried = all_tried();
    let scope = scope(id, "t", &tried);
    match command {
        Command::Claim | Command::Refuse => drop(bench.claim(id, "t").await),
        Command::FinishRouted => {
            drop(bench.store.record(scope, &all_accepted("t", "n")).await.expect("answered"));
        }
        Command::FinishFailed => {
            let no = || Outcome::Refused(fault(550));
            let failed = entries("t", "n", &[(A, no()), (B, no()), (C, no())]);
            drop(bench.store.record(scope, &failed).await.expect("answered"));
            // The other way to the same end.
            drop(bench.store.fail(scope, FailReason::Infected).await.expect("answered"));
        }
        Command::Release => {
            let open = entries("t", "n", &[(A, Outcome::Deferred(fault(451)))]);
            drop(bench.store.record(scope, &open).await.expect("answered"));
            drop(bench.store.release(scope, true).await.expect("answered"));
        }
        Command::Replay => {
            // Something is accepted in every row, so that a routed one can be forced.
            let options = ReplayOptions { force_action: Some(1), replan: false };
            drop(bench.store.replay(id, options, OPERATOR, false).await.expect("answered"));
        }
        Command::Reset => {
            drop(bench.sweep_stuck().await);
            // The operator's way to the same end.
            let note = Override { actor: "operator:x", verb: "release", reason: Some("y"), more: &json!({}) };
            drop(bench.store.reset(id, "u", note).await.expect("answered"));
        }
        Command::Purge => return false,
    }
    true
}

#[tokio::test]
async fn what_the_table_allows_happens_and_nothing_else() {
    let bench = Bench::new().await;
    let mut tried = 0;
    for from in Status::ALL {
        for command in Command::ALL {
            let id = row_for(&bench, from, command).await;
            bench.untouched(id, 700).await;
            let before = bench.row(id).await;
            if !give(&bench, id, command).await {
                continue;
            }
            tried += 1;
            let row = bench.row(id).await;
            let expected = next(TABLE, from, command).unwrap_or(from);
            assert_eq!(row.status, expected.label(), "{command} from {from}: {row:?}");
            let trail = bench.audited(id).await;
            let ends = trail.iter().filter(|action| action.starts_with("submission_")).count();
            assert_eq!(
                ends == 1,
                expected != from && expected.is_terminal(),
                "{command} from {from}: {trail:?}"
            );
            if expected == from && command != Command::FinishRouted {
                // Only facts are written where the table says no.
                assert_eq!((row, trail.len()), (before, 0), "{command} from {from} leaves no trace");
            }
        }
    }
    assert_eq!(tried, Status::ALL.len() * 7, "every pair that has a statement");
}
