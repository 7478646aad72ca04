//! Every (state, command, who) of the parcels' table on the kernel's real statements; what jobs, timers and people do to each other.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_router::kernel::rows::{Attempts, Fence, Kinds, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::ops::gate::{Gate, Shut};
use uuid::Uuid;

use crate::harness::{Bench, LEASE, POISON, Working};
use crate::holds::{Fence as Given, Real, lifecycle_holds};
use crate::parcels::{Command, Parcel, State, ask};
use crate::shop::Shop;

/// Rows of whatever kind.
const ALL: Kinds = Kinds::AllBut(Vec::new());

impl Bench {
    /// A parcel in `state`, leased under the nil token where a worker has it.
    async fn parcel(&self, state: State, leased: bool) -> i64 {
        let sql = "INSERT INTO router.parcels (address, state, attempts, claims, lease_token, leased_until, shipped_at, available_at)
            SELECT 'a', $1::text, 1, 1, CASE WHEN $2 THEN $3::uuid END, CASE WHEN $2 THEN now() + interval '1 h' END,
                CASE WHEN $1 = 'shipped' THEN now() END, now() - interval '1 s' RETURNING id";
        self.eyes.query_one(sql, &[&state.label(), &leased, &Uuid::nil()]).await.expect("a parcel").get(0)
    }

    async fn settle(&self, id: i64, token: Uuid, command: Command) -> bool {
        // A command is given from the state its author believes the row in.
        let mut settled = BTreeSet::new();
        for from in State::ALL {
            let Ok(transition) = Transition::of(*from, command, Who::WORKER) else { continue };
            let write = Write::plain(id, Fence::Lease(token), transition);
            settled.extend(self.rows.settle(&[write]).await.expect("answered"));
        }
        settled.contains(&id)
    }

    async fn ask(&self, id: i64, version: i64, command: Command) -> bool {
        ask((&self.rows, self.rows.pool()), (id, version), command, "y").await.unwrap_or(false)
    }

    async fn shop(&self, worker: &str) -> Shop {
        Shop::open(&self.db.url_as("forms_app"), worker, None).await
    }
}

impl Real<Parcel> for Bench {
    type Id = i64;

    async fn row(&self, state: State, command: Command, _: Who) -> i64 {
        self.alter("DELETE FROM router.parcels; DELETE FROM router.transitions").await;
        let by_hand = matches!(command, Command::Claim | Command::Lapse | Command::Recall | Command::Reopen);
        let leased = state == State::Packing || (state == State::Packed && !by_hand);
        let id = self.parcel(state, leased).await;
        if command == Command::Expire {
            let over = "UPDATE router.parcels SET leased_until = now() - interval '1 s' WHERE lease_token IS NOT NULL";
            self.alter(over).await;
        } else if command == Command::Lapse {
            self.alter("UPDATE router.parcels SET expires_at = now() - interval '1 s'").await;
        }
        id
    }

    async fn give(&self, id: i64, command: Command, by: Who, fence: Given) -> bool {
        let own = fence == Given::Own;
        match (command, by) {
            (
                Command::Pack | Command::Ship | Command::Release | Command::Fail | Command::GiveUp,
                Who::WORKER,
            ) => {
                self.settle(id, if own { Uuid::nil() } else { Uuid::from_u128(1) }, command).await;
            }
            (Command::Recall | Command::Reopen, Who::OPERATOR) => {
                self.ask(id, if own { 1 } else { 0 }, command).await;
            }
            (Command::Claim, Who::WORKER) if own => {
                for from in [State::Ordered, State::Packed] {
                    self.rows.claim(from, &ALL, 10, LEASE, Uuid::from_u128(2)).await.expect("answered");
                }
            }
            (Command::Expire | Command::Lapse, Who::SYSTEM) if own => {
                self.rows.wake(10).await.expect("answered");
            }
            // An order is its row's INSERT.
            _ => return false,
        }
        true
    }

    async fn state(&self, id: i64) -> State {
        Bench::state(self, id).await
    }

    async fn trace(&self, id: i64) -> String {
        format!("{} {:?}", self.look(id).await, self.log(id).await)
    }

    async fn recorded(&self, id: i64, done: Transition<Parcel>) {
        let expected = [
            done.from().expect("a state").label(),
            done.to().label(),
            done.command().label(),
            done.by().label(),
        ];
        assert_eq!(self.log(id).await, [expected], "{done:?}");
        assert_eq!(self.look(id).await["version"], 2, "{done:?}");
    }
}

#[tokio::test]
async fn what_the_table_allows_happens_and_nothing_else() {
    let bench = Bench::new().await;
    let who = [Who::WORKER, Who::SYSTEM, Who::OPERATOR];
    // Ten commands have a statement, each for one role, from every state; fifteen edges lead from a state.
    assert_eq!(lifecycle_holds::<Parcel>(&bench, &who).await, (10 * State::ALL.len(), 15));
}

#[tokio::test]
async fn a_persons_version_beats_a_workers_lease_and_not_another_person() {
    let bench = Bench::new().await;
    let id = bench.parcel(State::Packed, false).await;
    let token = Uuid::from_u128(7);
    let [taken] = &bench.rows.claim(State::Packed, &ALL, 10, LEASE, token).await.expect("claimed")[..] else {
        panic!("one is taken");
    };
    assert_eq!((taken.id, taken.version, taken.token), (id, Some(2), Some(token)));
    assert!(!bench.ask(id, 1, Command::Recall).await, "what was seen has changed: a worker took it");
    assert!(bench.ask(id, 2, Command::Recall).await);
    assert!(!bench.ask(id, 2, Command::Recall).await, "only one of two who saw the same");
    assert!(!bench.settle(id, token, Command::Ship).await, "the worker has lost it");
    assert_eq!(bench.rows.extend(&[(id, token)], LEASE).await.expect("answered"), BTreeSet::new());
    assert_eq!(Bench::state(&bench, id).await, State::Ordered);
}

#[tokio::test]
async fn attempts_are_given_back_kept_or_started_anew() {
    let bench = Bench::new().await;
    for (attempts, expected) in [(Attempts::Keep, 1), (Attempts::Refund, 0), (Attempts::Reset, 0)] {
        let id = bench.parcel(State::Packing, true).await;
        let transition = Transition::of(State::Packing, Command::Release, Who::WORKER).expect("an edge");
        let pause = Some(Duration::from_secs(60));
        let write = Write { attempts, pause, ..Write::plain(id, Fence::Lease(Uuid::nil()), transition) };
        assert_eq!(bench.rows.settle(&[write]).await.expect("settled"), BTreeSet::from([id]));
        assert_eq!(bench.look(id).await["attempts"], expected, "{attempts:?}");
        let taken = bench.rows.claim(State::Ordered, &ALL, 10, LEASE, Uuid::from_u128(3)).await;
        assert_eq!(taken.expect("claimed"), [], "not before its time");
    }
}

#[tokio::test]
async fn claims_and_ends_wait_for_the_disk_unless_their_rows_need_not() {
    let bench = Bench::new().await;
    bench
        .alter(
            "CREATE TABLE public.waits (n bigint GENERATED ALWAYS AS IDENTITY, setting text);
            CREATE FUNCTION public.note_wait() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
              INSERT INTO public.waits (setting) VALUES (current_setting('synchronous_commit'));
              RETURN NULL;
            END $$;
            CREATE TRIGGER note_wait AFTER UPDATE ON router.parcels FOR EACH ROW EXECUTE FUNCTION public.note_wait()",
        )
        .await;
    for (rows, expected) in [(bench.rows.clone(), "on on"), (bench.rows.clone().unawaited(), "off off")] {
        let (id, token) = (bench.order("a").await, Uuid::from_u128(5));
        let taken = rows.claim(State::Ordered, &ALL, 10, LEASE, token).await.expect("claimed");
        assert_eq!(taken.iter().map(|row| row.id).collect::<Vec<_>>(), [id]);
        let release = Transition::of(State::Packing, Command::Release, Who::WORKER).expect("an edge");
        let write =
            Write { pause: Some(Duration::from_secs(60)), ..Write::plain(id, Fence::Lease(token), release) };
        assert_eq!(rows.settle(&[write]).await.expect("settled"), BTreeSet::from([id]));
        let noted = "WITH d AS (DELETE FROM public.waits RETURNING n, setting)
            SELECT string_agg(setting, ' ' ORDER BY n) FROM d";
        let noted: String = bench.eyes.query_one(noted, &[]).await.expect("noted").get(0);
        assert_eq!(noted, expected);
    }
}

#[tokio::test]
async fn only_rows_of_the_kinds_that_are_asked_for_are_taken() {
    let bench = Bench::new().await;
    let id = bench.order("a").await;
    let claim = async |kinds: Kinds| {
        assert_eq!(bench.rows.waits(State::Ordered, &kinds).await.expect("looked"), {
            kinds == Kinds::Only(vec!["ordered"]) || kinds == Kinds::AllBut(vec!["else"])
        });
        let rows = bench.rows.claim(State::Ordered, &kinds, 10, LEASE, Uuid::from_u128(4)).await;
        rows.expect("claimed").len()
    };
    assert_eq!(claim(Kinds::Only(vec!["else"])).await, 0);
    assert_eq!(claim(Kinds::AllBut(vec!["ordered"])).await, 0);
    assert_eq!(claim(Kinds::AllBut(vec!["else"])).await, 1);
    assert_eq!(Bench::state(&bench, id).await, State::Packing);
}

#[tokio::test]
async fn jobs_go_on_what_is_at_fault_is_given_up_on_and_nobody_else_waits() {
    let bench = Bench::new().await;
    let (good, bad, panics) = (bench.order("a").await, bench.order("bad").await, bench.order("panic").await);
    let working = Working::start(&bench.rows, bench.shop("only").await, Gate::new());
    bench
        .until(
            "over",
            "SELECT NOT EXISTS (SELECT FROM router.parcels WHERE state NOT IN ('shipped', 'failed'))",
        )
        .await;
    assert!(working.stop().await, "everything is written");
    assert_eq!(Bench::state(&bench, good).await, State::Shipped);
    assert_eq!(
        (bench.look(bad).await["state"].clone(), bench.look(bad).await["attempts"].clone()),
        ("failed".into(), 3.into())
    );
    assert_eq!(bench.look(panics).await["state"], "failed");
    assert_eq!(bench.look(panics).await["claims"], POISON + 1, "whoever takes it never comes back");
    assert!(
        bench.ask(bad, bench.look(bad).await["version"].as_i64().expect("a version"), Command::Reopen).await
    );
    assert_eq!(bench.look(bad).await["attempts"], 0);
}

#[tokio::test]
async fn no_intent_behind_a_shut_gate_and_a_stop_gives_back_what_has_none() {
    let bench = Bench::new().await;
    let gate = Gate::new();
    gate.close(Shut::Paused);
    let working = Working::start(&bench.rows, bench.shop("only").await, gate.clone());
    // A look may be under way when the gate first learns of it.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let id = bench.order("a").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.look(id).await["claims"], 0, "nobody looks");
    gate.open(Shut::Paused);
    bench.until("shipped", "SELECT NOT EXISTS (SELECT FROM router.parcels WHERE state <> 'shipped')").await;
    assert!(working.stop().await);
    assert_eq!(bench.look(id).await["lease_token"], serde_json::Value::Null);
}
