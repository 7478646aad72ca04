//! Every (state, command) of the lifecycle's table, tried against the real statements; fences; what attempts count.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_router::kernel::rows::{Attempts, Fence as RowFence, Row, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::outbox::store::Redriven;
use maple_router::outbox::table::{Command, Outbox, State};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{ALL, Bench, LEASE};
use crate::holds::{Fence, Real, lifecycle_holds};

fn settling(id: i64, token: Uuid, command: Command) -> Write<Outbox> {
    let (pause, reason) = match command {
        Command::Fail => (Some(Duration::from_secs(60)), Some("no good".to_owned())),
        Command::GiveUp => (None, Some("no good".to_owned())),
        Command::Release => (Some(Duration::from_secs(60)), None),
        Command::Claim | Command::Succeed | Command::Expire | Command::FallDue | Command::Redrive => {
            (None, None)
        }
    };
    let transition = Transition::of(State::Delivering, command, Who::WORKER).expect("an end");
    let attempts = if command == Command::Release { Attempts::Refund } else { Attempts::Keep };
    let columns = Some(json!({"error": reason, "dead_letter": "unreadable"})).filter(|_| reason.is_some());
    Write { pause, reason, attempts, columns, ..Write::plain(id, RowFence::Lease(token), transition) }
}

impl Real<Outbox> for Bench {
    type Id = i64;

    async fn row(&self, state: State, command: Command, _: Who) -> i64 {
        self.alter("DELETE FROM router.outbox; DELETE FROM router.transitions").await;
        let id = Bench::row(self, state).await;
        if command == Command::Expire {
            self.alter("UPDATE router.outbox SET available_at = now() + interval '1 hour'").await;
            self.alter(
                "UPDATE router.outbox SET leased_until = now() - interval '1 s' WHERE state = 'delivering'",
            )
            .await;
        }
        id
    }

    async fn give(&self, id: i64, command: Command, by: Who, fence: Fence) -> bool {
        let store = &self.store;
        let token = if fence == Fence::Own { Uuid::nil() } else { Uuid::new_v4() };
        match (command, by) {
            (Command::Succeed | Command::Fail | Command::GiveUp | Command::Release, Who::WORKER) => {
                drop(store.settle(&[settling(id, token, command)]).await.expect("answered"));
            }
            _ if fence == Fence::Stale => return false,
            (Command::Claim, Who::WORKER) => {
                drop(store.claim(State::Pending, &ALL, 10, LEASE, Uuid::new_v4()).await.expect("answered"));
            }
            (Command::Expire | Command::FallDue, Who::SYSTEM) => {
                store.wake(10).await.expect("answered");
            }
            (Command::Redrive, Who::OPERATOR) => {
                drop(store.redrive(id, "operator:x", "y").await.expect("answered"));
            }
            _ => return false,
        }
        true
    }

    async fn state(&self, id: i64) -> State {
        Bench::state(self, id).await
    }

    async fn trace(&self, id: i64) -> String {
        format!("{} {:?}", self.look(id).await, Bench::recorded(self, id).await)
    }

    async fn recorded(&self, id: i64, done: Transition<Outbox>) {
        let recorded = Bench::recorded(self, id).await;
        let [(from, to, command, who, actor)] = &recorded[..] else { panic!("{done:?}: {recorded:?}") };
        assert_eq!(
            (from.as_str(), to.as_str(), command.as_str(), who.as_str()),
            (
                done.from().expect("a state").label(),
                done.to().label(),
                done.command().label(),
                done.by().label()
            )
        );
        assert_eq!(actor == "operator:x", done.by() == Who::OPERATOR, "{done:?}: {actor}");
    }
}

#[tokio::test]
async fn what_the_table_allows_happens_is_recorded_and_nothing_else_does() {
    let bench = Bench::new().await;
    let who = [Who::WORKER, Who::SYSTEM, Who::OPERATOR];
    assert_eq!(lifecycle_holds::<Outbox>(&bench, &who).await, (8 * State::ALL.len(), 8));
}

#[tokio::test]
async fn only_the_one_who_took_it_ends_a_delivery_and_only_once() {
    let bench = Bench::new().await;
    let id = bench.row(State::Pending).await;
    let token = Uuid::new_v4();
    let taken = bench.store.claim(State::Pending, &ALL, 10, LEASE, token).await.expect("claimed");
    assert_eq!(taken.iter().map(|row| (row.id, row.attempts, row.claims)).collect::<Vec<_>>(), [(id, 1, 2)]);
    for command in [Command::Succeed, Command::Fail, Command::GiveUp, Command::Release] {
        let stranger = [settling(id, Uuid::new_v4(), command)];
        assert_eq!(bench.store.settle(&stranger).await.expect("answered"), BTreeSet::new(), "{command}");
    }
    assert_eq!(bench.store.extend(&[(id, Uuid::new_v4())], LEASE).await.expect("answered"), BTreeSet::new());
    assert_eq!(bench.store.extend(&[(id, token)], LEASE).await.expect("answered"), BTreeSet::from([id]));
    let mine = [settling(id, token, Command::Succeed)];
    assert_eq!(bench.store.settle(&mine).await.expect("answered"), BTreeSet::from([id]));
    assert_eq!(bench.store.settle(&mine).await.expect("answered"), BTreeSet::new(), "settled is settled");
    assert_eq!(bench.commands(id).await, ["claim", "succeed"]);
}

#[tokio::test]
async fn attempts_count_what_the_row_itself_does_wrong() {
    let bench = Bench::new().await;
    let id = bench.row(State::Pending).await;
    let at_once = format!("UPDATE router.outbox SET available_at = now() - interval '1 s' WHERE id = {id}");
    for (round, (command, expected)) in [
        (Command::Release, 0),
        (Command::Fail, 1),
        (Command::Release, 1),
        (Command::Fail, 2),
        (Command::Expire, 2),
        (Command::GiveUp, 3),
    ]
    .into_iter()
    .enumerate()
    {
        bench.store.wake(10).await.expect("woken");
        let token = Uuid::new_v4();
        let taken = bench.store.claim(State::Pending, &ALL, 10, LEASE, token).await.expect("claimed");
        assert_eq!(taken.len(), 1, "round {round}");
        if command == Command::Expire {
            let lapsed =
                "UPDATE router.outbox SET leased_until = now() - interval '1 s' WHERE state = 'delivering'";
            bench.alter(lapsed).await;
            assert_eq!(bench.store.wake(10).await.expect("woken").expired, 1);
        } else {
            bench.store.settle(&[settling(id, token, command)]).await.expect("settled");
        }
        let row = bench.look(id).await;
        assert_eq!(
            (row["attempts"].as_u64(), row["claims"].as_u64()),
            (Some(expected), Some(round as u64 + 2)),
            "{command}"
        );
        bench.alter(&at_once).await;
    }
    assert_eq!(bench.state(id).await, State::DeadLetter);
}

#[tokio::test]
async fn what_is_given_up_on_becomes_a_dead_letter_and_a_redrive_closes_it() {
    let bench = Bench::new().await;
    let count = async |open: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM router.dead_letters WHERE (redriven_at IS NULL) = {open}");
        bench.eyes.query_one(&sql, &[]).await.expect("records").get(0)
    };
    let id = bench.row(State::Delivering).await;
    let other = bench.row(State::DeadLetter).await;
    bench.store.settle(&[settling(id, Uuid::nil(), Command::GiveUp)]).await.expect("settled");
    assert_eq!((count("true").await, count("false").await), (1, 0));
    let sql =
        "SELECT d.kind, d.reason, d.message_id, d.payload = convert_to(o.payload::text, 'UTF8') AS whole,
        encode(sha256(d.payload), 'hex') = d.payload_sha256 AS digest, d.submission_id = o.entity_id AS named
        FROM router.dead_letters d, router.outbox o WHERE o.id = $1";
    let record = bench.eyes.query_one(sql, &[&id]).await.expect("a record");
    let text = |column: &str| record.get::<_, String>(column);
    assert_eq!((text("kind"), text("reason")), ("unreadable".to_owned(), "no good".to_owned()));
    assert_eq!(text("message_id"), format!("outbox:{id}:1"));
    assert!(["whole", "digest", "named"].iter().all(|column| record.get::<_, bool>(column)));
    assert_eq!(bench.store.redrive(id, "operator:x", "mended").await.expect("answered"), Redriven::Done);
    assert_eq!((count("true").await, count("false").await), (0, 1));
    assert_eq!(bench.state(other).await, State::DeadLetter, "another's record is another's");
    // Again, and it is a record of its own.
    let token = Uuid::new_v4();
    bench.store.claim(State::Pending, &ALL, 10, LEASE, token).await.expect("claimed");
    bench.store.settle(&[settling(id, token, Command::GiveUp)]).await.expect("settled");
    assert_eq!((count("true").await, count("false").await), (1, 1));
    assert_eq!(bench.store.redrive(-1, "operator:x", "y").await.expect("answered"), Redriven::Unknown);
    let pending = bench.row(State::Pending).await;
    let refused = bench.store.redrive(pending, "operator:x", "y").await.expect("answered");
    assert!(matches!(&refused, Redriven::Refused(why) if why.legal == ["claim"]), "{refused:?}");
}

#[tokio::test]
async fn a_row_that_somebody_holds_holds_up_nobody_else() {
    let bench = Bench::new().await;
    let (first, second) = (bench.row(State::Pending).await, bench.row(State::Pending).await);
    let holder = bench.db.superuser().await.expect("superuser");
    holder
        .batch_execute(&format!("BEGIN; SELECT FROM router.outbox WHERE id = {first} FOR UPDATE"))
        .await
        .expect("locked");
    let ids = |rows: Vec<Row<Outbox>>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(
        ids(bench.store.claim(State::Pending, &ALL, 10, LEASE, Uuid::new_v4()).await.expect("claimed")),
        [second]
    );
    holder.batch_execute("ROLLBACK").await.expect("let go");
    assert_eq!(
        ids(bench.store.claim(State::Pending, &ALL, 10, LEASE, Uuid::new_v4()).await.expect("claimed")),
        [first]
    );
}

#[tokio::test]
async fn many_at_once_take_each_row_once() {
    let bench = Bench::new().await;
    bench
        .alter(
            "INSERT INTO router.outbox (kind, payload) SELECT 'canary', '{}' FROM generate_series(1, 2000)",
        )
        .await;
    let taker = async || {
        let mut mine = Vec::new();
        loop {
            let rows =
                bench.store.claim(State::Pending, &ALL, 37, LEASE, Uuid::new_v4()).await.expect("claimed");
            if rows.is_empty() {
                return mine;
            }
            mine.extend(rows.into_iter().map(|row| row.id));
        }
    };
    let (a, b, c) = tokio::join!(taker(), taker(), taker());
    let all: Vec<i64> = [a, b, c].concat();
    // Skipped because locked just then: free again, since nobody else takes them.
    let all = [all, taker().await].concat();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (2000, 2000));
}

#[tokio::test]
async fn only_what_was_delivered_long_ago_is_pruned_and_its_history_with_it() {
    let bench = Bench::new().await;
    let mut kept = Vec::new();
    for state in State::ALL {
        kept.push(bench.row(*state).await);
    }
    let old = bench.row(State::Delivering).await;
    bench.store.settle(&[settling(old, Uuid::nil(), Command::Succeed)]).await.expect("settled");
    bench.alter("UPDATE router.outbox SET created_at = now() - interval '30 d', available_at = now() - interval '30 d'").await;
    bench
        .alter(&format!("UPDATE router.outbox SET delivered_at = now() - interval '8 d' WHERE id = {old}"))
        .await;
    let others = "INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
        VALUES ('grey', '{}', 'a', 'b', 'c', 'd', 'worker')";
    bench.alter(&others.replace("{}", &old.to_string())).await;
    let week = Duration::from_secs(7 * 86_400);
    assert_eq!(bench.store.prune(week, 100).await.expect("pruned"), 1);
    assert_eq!(bench.store.prune(week, 100).await.expect("pruned"), 0);
    assert_eq!(bench.commands(old).await.len(), 0);
    for id in kept {
        bench.look(id).await;
    }
    let left = "SELECT count(*) FROM router.transitions WHERE lifecycle = 'grey'";
    assert_eq!(bench.eyes.query_one(left, &[]).await.expect("a count").get::<_, i64>(0), 1);
    let app = bench.db.client_as("forms_app").await.expect("forms_app");
    let gone = app.execute("DELETE FROM router.transitions", &[]).await.expect("allowed, and empty");
    assert_eq!(gone, 0, "nobody removes another lifecycle's history");
    assert!(app.execute("UPDATE router.transitions SET actor = 'x'", &[]).await.is_err(), "append-only");
}

#[tokio::test]
async fn depths_tell_what_is_not_over_and_announcements_are_rows() {
    let bench = Bench::new().await;
    for state in State::ALL {
        bench.row(*state).await;
    }
    bench.row(State::Pending).await;
    let depths = bench.store.depths().await.expect("depths");
    let counted: Vec<_> = depths.iter().map(|depth| (depth.state, depth.count)).collect();
    let expected =
        [(State::Pending, 2), (State::Delivering, 1), (State::RetryWait, 1), (State::DeadLetter, 1)];
    assert_eq!(counted, expected);
    let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
    let ids = bench.store.announce(&[a, b, a], "operator").await.expect("announced");
    assert_eq!(ids.len(), 3);
    let row = bench.look(ids[1]).await;
    assert_eq!(row["payload"], serde_json::json!({"submission_id": b, "reason": "operator"}));
    let about = bench.store.about(a, 10).await.expect("rows");
    assert_eq!(about.iter().map(|row| row.id).collect::<Vec<_>>(), [ids[2], ids[0]]);
    let canary = bench.store.canary().await.expect("a canary");
    assert_eq!(bench.look(canary).await["kind"], "canary");
}
