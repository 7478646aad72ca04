//! The sweep and claims that no worker ends (protocol, "Crash, doubt" and "Sweep").

use maple_router::ports::Outcome;
use maple_router::routing::store::sweep::{RetakenEnd, SweepBounds};
use maple_router::routing::store::{BeginAnswer, Claimed, Recorded};
use maple_router::routing::submission::ledger::FailReason;
use serde_json::json;

use super::*;

pub(crate) fn bounds() -> SweepBounds {
    SweepBounds::from(&Config::default())
}

impl Bench {
    /// The row looks as if nobody had touched it for this long.
    pub(crate) async fn untouched(&self, id: Uuid, seconds: u32) {
        self.tamper(id, &format!("updated_at = now() - interval '{seconds} s'")).await;
    }

    /// Runs one pass over stuck claims.
    pub(crate) async fn sweep_stuck(&self) -> HashMap<Uuid, RetakenEnd> {
        let page = self.store.sweep_stuck(&bounds(), None, 500, "sweep", &[]).await.expect("swept");
        page.expect("alone").rows.into_iter().map(|row| (row.id, row.end)).collect()
    }
}

fn reset(attempts: u32, refunded: bool, in_doubt: usize) -> RetakenEnd {
    RetakenEnd::Reset { attempts, refunded, in_doubt }
}

#[tokio::test]
async fn a_claim_that_began_nothing_goes_back_and_costs_nothing() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    bench.untouched(id, 700).await;
    assert_eq!(bench.sweep_stuck().await, HashMap::from([(id, reset(0, true, 0))]));
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
    assert_eq!((row.ledger["resets"].as_u64(), row.ledger.get("claim")), (Some(1), None), "{row:?}");
    assert_eq!(row.ledger["plan"].as_array().map(Vec::len), Some(2), "the plan stays pinned");
    assert_eq!(bench.audited(id).await.len(), 0, "a reset is no end");
    assert!(matches!(bench.claim(id, "t2").await, Claimed::Taken(_)), "it is due at once");
}

#[tokio::test]
async fn what_has_an_intent_is_in_doubt_and_the_attempt_is_spent() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    assert_eq!(bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun"), BeginAnswer::Stands);
    bench.untouched(id, 700).await;
    assert_eq!(bench.sweep_stuck().await, HashMap::from([(id, reset(1, false, 2))]));
    let row = bench.row(id).await;
    for key in [A, B] {
        assert_eq!(row.entry(key)["doubt"], true, "{row:?}");
        assert_eq!(row.entry(key).get("begun"), None, "{row:?}");
    }
    assert_eq!(row.entry(C).get("doubt"), None, "{row:?}");
    // An intent that an older claim left counts as well, though not against the new claim's refund.
    let older = format!(
        "routing_result = jsonb_set(routing_result, '{{deliveries,{C},begun}}', '{{\"token\": \"older\", \"at\": \"2026-01-01T00:00:00Z\"}}')"
    );
    bench.tamper(id, &older).await;
    bench.claim(id, "t2").await;
    bench.untouched(id, 700).await;
    assert_eq!(bench.sweep_stuck().await, HashMap::from([(id, reset(1, true, 1))]));
    assert_eq!(bench.row(id).await.entry(C)["doubt"], true);
}

#[tokio::test]
async fn ten_resets_refund_and_the_eleventh_does_not() {
    let bench = Bench::new().await;
    let id = bench.ready().await;
    for round in 0..10 {
        assert!(matches!(bench.claim(id, &format!("t{round}")).await, Claimed::Taken(_)));
        bench.untouched(id, 700).await;
        assert_eq!(bench.sweep_stuck().await[&id], reset(0, true, 0), "round {round}");
    }
    for spent in 1..5 {
        assert!(matches!(bench.claim(id, &format!("u{spent}")).await, Claimed::Taken(_)));
        bench.untouched(id, 700).await;
        assert_eq!(bench.sweep_stuck().await[&id], reset(spent, false, 0), "{spent}");
    }
    assert!(matches!(bench.claim(id, "last").await, Claimed::Taken(_)));
    bench.untouched(id, 700).await;
    assert_eq!(bench.sweep_stuck().await[&id], RetakenEnd::Failed(FailReason::Exhausted));
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), row.reason(), row.attempts()), ("failed", Some("exhausted"), 5));
    let trail = bench.audited(id).await;
    assert_eq!(trail, ["email_failed", "email_failed", "email_failed", "submission_route_failed"]);
}

#[tokio::test]
async fn attempts_spent_end_it_and_what_is_in_doubt_stays_known() {
    let bench = Bench::new().await;
    let id = bench.ready().await;
    bench.tamper(id, "routing_result = '{\"v\": 1, \"attempts\": 4}'").await;
    assert!(matches!(bench.claim(id, "t").await, Claimed::Taken(_)));
    bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun");
    let sent = entries("t", "n", &[(A, accepted("QA"))]);
    bench.store.record(scope(id, "t", &BTreeSet::from([1])), &sent).await.expect("recorded");
    bench.untouched(id, 700).await;
    assert_eq!(bench.sweep_stuck().await[&id], RetakenEnd::Failed(FailReason::Exhausted));
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), row.ledger["finished"]["token"].as_str()), ("failed", Some("sweep")));
    assert_eq!(row.entry(A)["state"], "accepted", "the partial result is kept");
    assert_eq!((&row.entry(B)["state"], &row.entry(B)["doubt"]), (&json!("failed"), &json!(true)), "{row:?}");
    assert_eq!(row.entry(C)["state"], "failed");
    assert_eq!((row.ledger.get("claim"), row.ledger.get("next_attempt_at")), (None, None));
    let trail = bench.audited(id).await;
    assert_eq!(trail, ["email_sent", "email_failed", "email_failed", "submission_route_failed"]);
}

#[tokio::test]
async fn each_stuck_row_of_a_page_is_judged_for_itself() {
    let bench = Bench::new().await;
    let of = || SubmissionSeed::of("f").status("processing");
    let ledger = |attempts: u32| {
        json!({
            "v": 1, "attempts": attempts, "resets": 0, "theirs": {"deep": [1, null]}, "overrides": [{"verb": "x"}],
            "claim": {"token": "t", "worker": "host/1", "at": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T00:20:00Z"},
            "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}],
            "deliveries": {A: {"state": "open", "note": "kept"}},
        })
    };
    let mut done = ledger(5);
    done["deliveries"][A] = json!({"state": "accepted", "token": "t", "at": "2026-01-01T00:01:00Z"});
    let huge = format!("{{\"v\": 1, \"attempts\": 1e{}}}", 400);
    let infected = bench.insert(&of().ledger(ledger(1)).attachment("a", "infected")).await;
    let well = bench.insert(&of().ledger(ledger(1))).await;
    let finished = bench.insert(&of().ledger(done)).await;
    let damaged =
        bench.insert(&of().ledger(json!({"v": 1, "attempts": "many", "claim": {"token": "t"}}))).await;
    let array = bench.insert(&of().ledger(json!([1, 2]))).await;
    let scalar = bench.insert(&of().ledger(json!("gone"))).await;
    let null_claim = bench.insert(&of().ledger(json!({"v": 1, "claim": null, "deliveries": {A: []}}))).await;
    let unreadable = bench.insert(&of()).await;
    bench.tamper(unreadable, &format!("routing_result = '{huge}'")).await;
    let newer = bench.insert(&of().ledger(json!({"v": 7, "claim": {"token": "t"}}))).await;
    for id in [infected, well, finished, damaged, array, scalar, null_claim, unreadable, newer] {
        bench.untouched(id, 700).await;
    }
    let before = bench.row(newer).await;
    let ends = bench.sweep_stuck().await;
    assert_eq!(ends[&well], reset(0, true, 0));
    assert_eq!(ends[&finished], reset(5, false, 0), "the next claim only finishes");
    assert_eq!(ends[&infected], RetakenEnd::Failed(FailReason::Infected));
    assert_eq!(ends[&newer], RetakenEnd::Left);
    assert_eq!(bench.row(newer).await, before, "byte by byte");
    for id in [damaged, array, scalar, null_claim, unreadable] {
        assert_eq!(ends[&id], RetakenEnd::Failed(FailReason::LedgerDamaged));
        let trail = bench.audit(id).await;
        assert_eq!(trail.len(), 1, "{trail:?}");
        assert!(!trail[0].1["original"].is_null(), "the original is kept: {trail:?}");
        let row = bench.row(id).await;
        assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("ledger_damaged")));
    }
    let row = bench.row(well).await;
    assert_eq!(row.ledger["theirs"], json!({"deep": [1, null]}), "keys of somebody else survive");
    assert_eq!((&row.entry(A)["note"], &row.ledger["overrides"]), (&json!("kept"), &json!([{"verb": "x"}])));
    assert_eq!(bench.audited(infected).await, ["submission_route_failed"]);
    assert!(matches!(bench.claim(finished, "t2").await, Claimed::Taken(_)));
    let recorded = bench.store.record(scope(finished, "t2", &all_tried()), &Entries::default()).await;
    assert!(matches!(recorded, Ok(Recorded::Concluded(_))));
    assert_eq!(bench.row(finished).await.status, "routed");
}

#[tokio::test]
async fn only_what_is_untouched_for_stuck_after_is_taken_back_and_history_is_left_alone() {
    let bench = Bench::new().await;
    bench.freeze("2026-11-21T12:00:00Z").await;
    let at = async |updated: &str| {
        let id = bench.claimed("t").await;
        bench.tamper(id, &format!("updated_at = '{updated}'")).await;
        id
    };
    let (young, exact, old) = (
        at("2026-11-21T11:50:01Z").await,
        at("2026-11-21T11:50:00Z").await,
        at("2026-11-21T11:49:59.999999Z").await,
    );
    let ends = bench.sweep_stuck().await;
    assert_eq!(ends.keys().collect::<Vec<_>>(), [&old], "young {young}, exact {exact}");
    // Left behind by whatever routed before us: no claim of ours.
    let seed = || SubmissionSeed::of("f").status("processing");
    let (history, ours) = (bench.insert(&seed()).await, bench.claimed("t").await);
    for id in [history, ours] {
        bench.tamper(id, "created_at = '2026-01-01T00:00:00Z', updated_at = '2026-01-01T00:00:00Z'").await;
    }
    let not_before = Some("2026-06-01T00:00:00Z".parse().expect("a time"));
    let later = SweepBounds { not_before, ..bounds() };
    let page = bench.store.sweep_stuck(&later, None, 500, "s", &[]).await.expect("swept").expect("alone");
    assert_eq!(page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [ours], "not {history}");
    assert!(bench.sweep_stuck().await.contains_key(&history), "without a not_before everything is ours");
}

#[tokio::test]
async fn a_pass_goes_page_by_page_and_rows_that_are_left_do_not_hold_it_up() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for number in 0..7 {
        let id = bench.claimed("t").await;
        if number % 2 == 0 {
            bench.tamper(id, "routing_result = routing_result || '{\"v\": 7}'").await;
        }
        bench.untouched(id, 700).await;
        ids.push(id);
    }
    let (mut after, mut pages, mut seen) = (None, 0, Vec::new());
    loop {
        let page =
            bench.store.sweep_stuck(&bounds(), after, 2, "s", &[]).await.expect("swept").expect("alone");
        assert!(page.rows.len() <= 2);
        pages += 1;
        seen.extend(page.rows.into_iter().map(|row| row.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    ids.sort();
    assert_eq!((seen, pages), (ids, 4));
}

/// The row that a worker is just writing to is skipped, not waited for; and what waits for the sweep finds its token gone.
#[tokio::test]
async fn the_sweep_waits_for_nobody_and_a_late_worker_finds_its_claim_gone() {
    let mut bench = Bench::new().await;
    let (busy, free) = (bench.claimed("t").await, bench.claimed("t").await);
    bench.store.begin(free, "t", &keys(&[A, B])).await.expect("begun");
    for id in [busy, free] {
        bench.untouched(id, 700).await;
    }
    let hold = bench.backend.transaction().await.expect("a transaction");
    hold.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", &[&busy]).await.expect("locked");
    let page = bench.store.sweep_stuck(&bounds(), None, 500, "s", &[]).await.expect("swept").expect("alone");
    assert_eq!(page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [free]);
    hold.commit().await.expect("let go");
    let before = bench.row(free).await;
    let tried = all_tried();
    let stale = scope(free, "t", &tried);
    assert!(matches!(bench.store.fail(stale, FailReason::Infected).await, Ok(Recorded::Stale)));
    assert!(matches!(bench.store.release(stale, true).await, Ok(Recorded::Stale)));
    let beat = bench.store.heartbeat(&[(free, "t".to_owned())]).await.expect("a heartbeat");
    assert_eq!(beat.lost, BTreeSet::from([free]), "the fence falls");
    assert_eq!(bench.row(free).await, before);
    // The stale claim's acceptance is a fact all the same, and ends the doubt.
    let recorded = bench.store.record(stale, &entries("t", "n", &[(A, accepted("QA"))])).await;
    assert!(matches!(recorded, Ok(Recorded::Stale)));
    let row = bench.row(free).await;
    assert_eq!((row.status.as_str(), &row.entry(A)["doubted"]), ("received", &json!(true)));
    assert_eq!(row.entry(B)["doubt"], true);
}

/// Sweep against finish, refusal and heartbeat, over and over: the first wins, and the other sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_between_the_sweep_and_the_worker_has_one_winner() {
    let bench = Bench::new().await;
    let mut resets = 0;
    for round in 0..30 {
        let id = bench.claimed("t").await;
        bench.untouched(id, 700).await;
        let tried = all_tried();
        let refused = || Outcome::Refused(fault(550));
        let ends = entries("t", "n", &[(A, refused()), (B, refused()), (C, refused())]);
        let others = store(&bench.db, 2);
        let here = bounds();
        let (swept, finished, beat) = futures::join!(
            others.sweep_stuck(&here, None, 500, "sweep", &[]),
            bench.store.record(scope(id, "t", &tried), &ends),
            async {
                let claim = [(id, "t".to_owned())];
                if round % 2 == 0 {
                    Some(bench.store.heartbeat(&claim).await.expect("a heartbeat"))
                } else {
                    None
                }
            },
        );
        let swept = swept.expect("swept").expect("alone").rows.len();
        let ended = matches!(finished.expect("answered"), Recorded::Concluded(_));
        let row = bench.row(id).await;
        assert_eq!(
            (swept == 1, ended),
            (row.status == "received", row.status == "failed"),
            "{beat:?} {row:?}"
        );
        assert_ne!(swept == 1, ended, "one winner: {beat:?} {row:?}");
        let ends = bench.audited(id).await.iter().filter(|action| action.starts_with("submission_")).count();
        assert_eq!(ends, usize::from(ended));
        resets += swept;
    }
    println!("the sweep won {resets} of 30");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_sweepers_one_takes_each_claim_back_and_none_sweeps_beside_another() {
    let mut bench = Bench::new().await;
    let mut ids = BTreeSet::new();
    for _ in 0..40 {
        let id = bench.claimed("t").await;
        bench.untouched(id, 700).await;
        ids.insert(id);
    }
    let lock = "SELECT pg_advisory_xact_lock(hashtext('maple-router'), hashtext('sweep'))";
    let hold = bench.backend.transaction().await.expect("a transaction");
    hold.execute(lock, &[]).await.expect("locked");
    let here = bounds();
    assert!(bench.store.sweep_stuck(&here, None, 500, "s", &[]).await.expect("answered").is_none());
    assert!(bench.store.sweep_orphans(&here, 10, &[]).await.expect("answered").is_none());
    assert!(bench.store.sweep_infected(&here, None, 500, "s", &[]).await.expect("answered").is_none());
    hold.commit().await.expect("let go");
    let stores: Vec<Store> = (0..4).map(|_| store(&bench.db, 1)).collect();
    let sweeps = stores.iter().map(|store| async {
        let mut taken = Vec::new();
        loop {
            match store.sweep_stuck(&here, None, 3, "s", &[]).await.expect("answered") {
                None => tokio::time::sleep(Duration::from_millis(5)).await,
                Some(page) if page.rows.is_empty() => break,
                Some(page) => taken.extend(page.rows.into_iter().map(|row| row.id)),
            }
        }
        taken
    });
    let taken: Vec<Uuid> = futures::future::join_all(sweeps).await.into_iter().flatten().collect();
    assert_eq!(taken.len(), ids.len(), "none twice");
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), ids);
    for id in ids {
        assert_eq!(bench.row(id).await.ledger["resets"], 1);
    }
}
