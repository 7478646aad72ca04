//! The sweep's finds among rows that wait: lost events, due retries, infected attachments, and what never gets ready.

use maple_router::routing::store::Claimed;
use maple_router::routing::store::sweep::{Depth, SweepBounds, SweepCount};
use maple_router::routing::submission::ledger::FailReason;
use maple_router::routing::table::Status;
use serde_json::json;

use super::stuck::bounds;
use super::*;

impl Bench {
    async fn orphans(&self) -> BTreeSet<Uuid> {
        self.orphans_within(&bounds(), 500).await.into_iter().collect()
    }

    async fn orphans_within(&self, bounds: &SweepBounds, room: usize) -> Vec<Uuid> {
        let found = self.store.sweep_orphans(bounds, room, &[]).await.expect("swept").expect("alone");
        found.rows.into_iter().map(|found| found.id).collect()
    }
}

#[tokio::test]
async fn what_waits_is_found_when_its_time_has_come_and_not_before() {
    let bench = Bench::new().await;
    bench.freeze("2026-11-21T12:00:00Z").await;
    // Name, updated, next attempt, found. orphan_after is 900 s, due_grace 120 s.
    let table = [
        ("just in time", "11:45:00", None, false),
        ("orphan", "11:44:59.999", None, true),
        ("due for the grace exactly", "11:50:00", Some("2026-11-21T11:58:00Z"), false),
        ("due for longer", "11:50:00", Some("2026-11-21T11:57:59.999Z"), true),
        ("due, written by the database", "11:50:00", Some("2026-11-21T11:57:59.123456+00:00"), true),
        ("due, in another zone", "11:50:00", Some("2026-11-21T12:57:59+01:00"), true),
        ("not due, in another zone", "11:50:00", Some("2026-11-21T11:04:00-01:00"), false),
        ("due, but touched within the grace", "11:58:00", Some("2026-11-21T11:50:00Z"), false),
        ("not due for long", "11:50:00", Some("2026-11-21T12:05:00Z"), false),
        // The longest back-off is 300 s: nothing of ours is due later than that, unless a clock was ahead.
        (
            "due in a year, changed before back-off and grace",
            "11:52:59.999",
            Some("2027-11-21T12:00:00Z"),
            true,
        ),
        ("due in a year, changed just then", "11:53:00", Some("2027-11-21T12:00:00Z"), false),
        ("due in a year, and changed in an hour", "13:00:00", Some("2027-11-21T12:00:00Z"), true),
        ("no time, young", "11:50:00", Some("tomorrow"), false),
        ("no time, old", "11:44:00", Some("tomorrow"), true),
        ("no such day", "11:44:00", Some("2026-02-30T10:00:00Z"), true),
        ("a leap day that is none", "11:44:00", Some("2026-02-29T10:00:00Z"), true),
        ("a leap day", "11:44:00", Some("2024-02-29T10:00:00Z"), true),
        ("no such hour", "11:44:00", Some("2026-11-21T24:30:00Z"), true),
        ("no such zone", "11:44:00", Some("2026-11-21T10:00:00+19:00"), true),
        ("year zero", "11:44:00", Some("0000-01-01T00:00:00Z"), true),
    ];
    let mut expected = HashMap::new();
    for (name, updated, next, found) in table {
        let mut ledger = json!({"v": 1, "attempts": 1});
        if let Some(next) = next {
            ledger["next_attempt_at"] = json!(next);
        }
        let id = bench.insert(&SubmissionSeed::of("f").ledger(ledger)).await;
        bench.tamper(id, &format!("updated_at = '2026-11-21T{updated}Z'")).await;
        expected.insert(id, (name, found));
    }
    for damaged in
        [json!([]), json!("text"), json!({"next_attempt_at": {"a": 1}}), json!({"next_attempt_at": 1e300})]
    {
        let id = bench.insert(&SubmissionSeed::of("f").ledger(damaged)).await;
        bench.tamper(id, "updated_at = '2026-11-21T11:44:00Z'").await;
        expected.insert(id, ("damaged", true));
    }
    let count = bench.store.sweep_count(&bounds()).await.expect("counted");
    let found = bench.orphans().await;
    for (id, (name, wanted)) in &expected {
        assert_eq!(found.contains(id), *wanted, "{name}");
    }
    assert_eq!(count, SweepCount { stuck: 0, orphans: found.len().try_into().expect("few"), infected: 0 });
    assert_eq!(bench.orphans().await, BTreeSet::new(), "touched rows are not found again at once");
}

/// The touch makes its last change this moment, from which the back-off would be counted anew.
#[tokio::test]
async fn what_no_clock_of_ours_has_put_off_is_claimed_when_it_is_found() {
    let bench = Bench::new().await;
    let ledger = json!({"v": 1, "attempts": 1, "next_attempt_at": "2999-01-01T00:00:00Z", "of_another": 1});
    let id = bench.insert(&SubmissionSeed::of("f").ledger(ledger)).await;
    assert!(matches!(bench.claim(id, "t").await, Claimed::Nacked(_)), "it has only just been changed");
    bench.tamper(id, "updated_at = now() - interval '10 minutes'").await;
    assert_eq!(bench.orphans().await, BTreeSet::from([id]));
    let Claimed::Taken(taken) = bench.claim(id, "t").await else { panic!("found, and not to be had") };
    assert_eq!(taken.ledger.attempts, 2);
    assert_eq!(bench.row(id).await.ledger["of_another"], json!(1), "the rest of the ledger stays");
}

/// Every text that the statement would cast is a time to PostgreSQL.
#[tokio::test]
async fn no_text_that_looks_like_a_time_can_abort_a_page() {
    let bench = Bench::new().await;
    let mut texts = Vec::new();
    for year in ["1000", "1900", "2000", "2024", "2025", "2100", "9999"] {
        for month in 1..=13 {
            for day in [1, 28, 29, 30, 31, 32] {
                texts.push(format!("{year}-{month:02}-{day:02}T23:59:59.999999999Z"));
            }
        }
    }
    for time in ["00:00:00", "23:59:60", "24:00:00", "12:60:00", "12:00:00.", "12:00"] {
        for zone in ["Z", "z", "+00", "+14:59", "-14:59", "+15:00", "+0530", "+05:60", "", " UTC"] {
            texts.push(format!("2026-11-21T{time}{zone}"));
        }
    }
    texts
        .extend(["infinity", "now", "epoch", "today", "J2451187", "2026-W01-1T00:00:00Z"].map(str::to_owned));
    for text in &texts {
        bench.insert(&SubmissionSeed::of("f").ledger(json!({"v": 1, "next_attempt_at": text}))).await;
    }
    bench
        .eyes
        .batch_execute("UPDATE submissions SET updated_at = now() - interval '1 day'")
        .await
        .expect("old");
    let found = bench.orphans_within(&bounds(), 5000).await;
    assert!(found.len() > texts.len() / 4, "{} of {}", found.len(), texts.len());
}

#[tokio::test]
async fn only_what_is_ready_and_not_history_is_found_and_only_as_much_as_there_is_room_for() {
    let bench = Bench::new().await;
    let of = || SubmissionSeed::of("f");
    let mut ready = Vec::new();
    for age in 0..5 {
        let id = bench.insert(&of().attachment("a", "clean")).await;
        bench.untouched(id, 2000 - age).await;
        ready.push(id);
    }
    let waiting = [
        bench.insert(&of().attachment("a", "pending")).await,
        bench.insert(&of().attachment("a", "infected")).await,
        bench.insert(&of().status("processing")).await,
        bench.insert(&of().status("routed")).await,
        bench.insert(&of().status("failed")).await,
        bench.insert(&of().status("purged")).await,
    ];
    let history = bench.ready().await;
    bench.tamper(history, "created_at = '2026-01-01T00:00:00Z'").await;
    for id in waiting.iter().chain([&history]) {
        bench.untouched(*id, 3000).await;
    }
    let not_before = Some("2026-01-01T00:00:00.000001Z".parse().expect("a time"));
    let here = SweepBounds { not_before, ..bounds() };
    assert_eq!(bench.store.sweep_count(&here).await.expect("counted").orphans, 5);
    assert_eq!(bench.orphans_within(&here, 2).await, ready[..2], "the oldest first");
    let mut rest = bench.orphans_within(&here, 500).await;
    rest.sort();
    ready.drain(..2);
    ready.sort();
    assert_eq!(rest, ready);
    let exact = SweepBounds { not_before: Some("2026-01-01T00:00:00Z".parse().expect("a time")), ..bounds() };
    assert_eq!(bench.orphans_within(&exact, 500).await, [history]);
    // Rows found are claimed like any other, and judged there.
    assert!(matches!(bench.claim(history, "t").await, Claimed::Taken(_)));
}

#[tokio::test]
async fn infected_rows_fail_with_their_audit_whatever_their_ledger_says() {
    let bench = Bench::new().await;
    let of = || SubmissionSeed::of("f").attachment("a", "infected").attachment("b", "pending");
    let plain = bench.insert(&of()).await;
    let damaged = bench.insert(&of().ledger(json!([1]))).await;
    let later = bench
        .insert(&of().ledger(json!({"v": 1, "attempts": 1, "next_attempt_at": "2036-01-01T00:00:00Z"})))
        .await;
    let newer = bench.insert(&of().ledger(json!({"v": 7}))).await;
    let history = bench.insert(&of()).await;
    bench.tamper(history, "created_at = '2026-01-01T00:00:00Z'").await;
    let pending = bench.insert(&SubmissionSeed::of("f").attachment("a", "pending")).await;
    let working = bench.insert(&of().status("processing")).await;
    let here = SweepBounds { not_before: Some("2026-02-01T00:00:00Z".parse().expect("a time")), ..bounds() };
    assert_eq!(bench.store.sweep_count(&here).await.expect("counted").infected, 4);
    let (mut after, mut failed) = (None, BTreeSet::new());
    loop {
        let page =
            bench.store.sweep_infected(&here, after, 1, "sweep", &[]).await.expect("swept").expect("alone");
        for row in page.rows {
            assert_eq!(row.reason, FailReason::Infected);
            failed.insert(row.id);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(failed, BTreeSet::from([plain, damaged, later]));
    for id in failed {
        let row = bench.row(id).await;
        assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("infected")));
        assert_eq!(row.ledger["finished"]["token"], "sweep");
        assert_eq!(bench.audited(id).await, ["submission_route_failed"]);
    }
    for id in [newer, history, pending] {
        assert_eq!(bench.row(id).await.status, "received");
    }
    assert_eq!(bench.row(working).await.status, "processing", "its worker sees to it");
}

#[tokio::test]
async fn what_never_gets_ready_is_counted_with_the_oldest_as_a_sample() {
    let bench = Bench::new().await;
    bench.freeze("2026-11-21T12:00:00Z").await;
    let at = async |seed: SubmissionSeed, created: &str| {
        let id = bench.insert(&seed).await;
        bench.tamper(id, &format!("created_at = '2026-11-21T{created}Z'")).await;
        id
    };
    let of = || SubmissionSeed::of("f");
    let here = bounds();
    let none = bench.store.unready(&here).await.expect("counted");
    assert_eq!((none.count, none.oldest, none.sample), (0, Duration::ZERO, None));
    at(of().attachment("a", "pending"), "11:00:00").await;
    at(of().attachment("a", "pending"), "10:59:59").await;
    let oldest = at(of().attachment("a", "pending"), "10:00:00").await;
    at(of().attachment("a", "infected"), "09:00:00").await;
    at(of(), "09:00:00").await;
    at(of().attachment("a", "pending").status("failed"), "09:00:00").await;
    at(of().attachment("a", "pending"), "08:00:00").await;
    let here = SweepBounds { not_before: Some("2026-11-21T08:30:00Z".parse().expect("a time")), ..here };
    let unready = bench.store.unready(&here).await.expect("counted");
    assert_eq!((unready.count, unready.oldest, unready.sample), (2, Duration::from_secs(7200), Some(oldest)));
}

#[tokio::test]
async fn the_gauges_know_every_status() {
    let bench = Bench::new().await;
    bench.ready().await;
    bench.claimed("t").await;
    bench.tamper(bench.ready().await, "created_at = now() - interval '1 hour'").await;
    let history = bench.ready().await;
    bench.tamper(history, "created_at = now() - interval '30 days'").await;
    let found = async |bounds: &SweepBounds| -> HashMap<&str, (u64, u64)> {
        let open = bench.store.open_depths(bounds).await.expect("counted");
        let ended = bench.store.ended_depths().await.expect("counted");
        open.iter()
            .chain(&ended)
            .map(|depth| (depth.status.label(), (depth.count, depth.oldest.as_secs() / 60)))
            .collect()
    };
    assert_eq!(found(&bounds()).await["received"], (3, 43_200));
    // A row left alone does not wait: it must not look as if it did.
    let yesterday =
        bench.eyes.query_one("SELECT now() - interval '1 day' AS at", &[]).await.expect("a time").get("at");
    let ours = SweepBounds { not_before: Some(yesterday), ..bounds() };
    let expected = [
        ("received", (3, 60)),
        ("processing", (1, 0)),
        ("routed", (0, 0)),
        ("failed", (0, 0)),
        ("purged", (0, 0)),
    ];
    assert_eq!(found(&ours).await, HashMap::from(expected));
}

/// PostgreSQL before 17 subtracts nothing from them, and one such row would end every look.
#[tokio::test]
async fn what_has_no_instant_is_counted_and_has_no_age() {
    let bench = Bench::new().await;
    for time in ["-infinity", "infinity"] {
        let pending = bench.insert(&SubmissionSeed::of("f").attachment("a", "pending")).await;
        let ended = bench.insert(&SubmissionSeed::of("f").status("failed")).await;
        let claimed = bench.claimed("t").await;
        for id in [pending, ended, claimed] {
            bench.tamper(id, &format!("created_at = '{time}', updated_at = '{time}'")).await;
        }
    }
    let open = bench.store.open_depths(&bounds()).await.expect("counted");
    let ended = bench.store.ended_depths().await.expect("counted");
    let known = |depths: &[Depth], status| {
        let depth = depths.iter().find(|depth| depth.status == status).expect("every status");
        (depth.count, depth.oldest)
    };
    assert_eq!(known(&open, Status::Received), (2, Duration::ZERO));
    assert_eq!(known(&open, Status::Processing), (2, Duration::ZERO));
    assert_eq!(known(&ended, Status::Failed), (2, Duration::ZERO));
    let unready = bench.store.unready(&bounds()).await.expect("counted");
    assert_eq!((unready.count, unready.oldest), (1, Duration::ZERO), "the other one is to come");
    assert!(unready.sample.is_some());
}
