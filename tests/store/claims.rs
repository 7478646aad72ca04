//! P4: one claim each, however many want it; a stale token changes no status; a lost answer is recognised.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use maple_router::ports::Outcome;
use maple_router::routing::pause::{Pause, PauseBoard, Pauses, Scope};
use maple_router::routing::store::{Ahead, BeginAnswer, Claimed, NextMail, Recorded};
use maple_router::routing::submission::ledger::FailReason;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::*;

const SEED: u64 = 4_711;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_claimers_of_two_hundred_rows_take_each_once_and_never_deadlock() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(bench.ready().await);
    }
    let stores: Vec<Store> = (0..5).map(|_| store(&bench.db, 10)).collect();
    let mut claimers = Vec::new();
    for claimer in 0..50_u64 {
        let store = stores[usize::try_from(claimer % 5).expect("small")].clone();
        let mut rng = rand::rngs::StdRng::seed_from_u64(SEED + claimer);
        let mut order = ids.clone();
        order.shuffle(&mut rng);
        claimers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            while !order.is_empty() {
                let batch = order.split_off(order.len().saturating_sub(rng.random_range(1..30)));
                let requests: Vec<ClaimRequest> = batch
                    .iter()
                    .map(|id| ClaimRequest { id: *id, token: format!("{claimer}/{id}") })
                    .collect();
                let answers = labels(&store.claim(&requests).await.expect("an answer"));
                assert_eq!(answers.len(), batch.len());
                for (id, label) in answers {
                    match label {
                        "taken" => taken.push(id),
                        other => assert!(["held_elsewhere", "busy"].contains(&other), "{other}"),
                    }
                }
            }
            (claimer, taken)
        }));
    }
    let mut takers: BTreeMap<Uuid, Vec<u64>> = BTreeMap::new();
    for claimer in claimers {
        let (claimer, taken) = claimer.await.expect("no panic");
        taken.into_iter().for_each(|id| takers.entry(id).or_default().push(claimer));
    }
    assert_eq!(takers.len(), ids.len(), "seed {SEED}: every row was taken");
    for (id, takers) in takers {
        assert_eq!(takers.len(), 1, "seed {SEED}: {id} was taken by {takers:?}");
        let row = bench.row(id).await;
        assert_eq!(row.ledger["claim"]["token"], format!("{}/{id}", takers[0]), "the row says who");
        assert_eq!(row.attempts(), 1);
    }
    let sql = "SELECT pg_stat_force_next_flush(), deadlocks FROM pg_stat_database WHERE datname = current_database()";
    // The counter is written when the sessions that met a deadlock go idle.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let deadlocks: i64 = bench.eyes.query_one(sql, &[]).await.expect("statistics").get(1);
    assert_eq!(deadlocks, 0, "seed {SEED}");
}

/// A row that somebody else has locked is answered at once, so that it holds up nobody in its batch.
#[tokio::test]
async fn a_locked_row_is_busy_and_its_neighbours_are_claimed() {
    let mut bench = Bench::new().await;
    let (locked, free) = (bench.ready().await, bench.ready().await);
    let hold = bench.backend.transaction().await.expect("a transaction");
    hold.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", &[&locked]).await.expect("locked");
    let requests = [locked, free].map(|id| ClaimRequest { id, token: format!("one/{id}") });
    let answers = labels(&bench.store.claim(&requests).await.expect("an answer"));
    assert_eq!((answers[&locked], answers[&free]), ("busy", "taken"));
    hold.commit().await.expect("let go");
    let answers = labels(&bench.store.claim(&requests).await.expect("an answer"));
    assert_eq!((answers[&locked], answers[&free]), ("taken", "taken"), "the second is known by its token");
}

/// Waits until `n` sessions of this database wait for a lock.
pub(crate) async fn waiting(client: &Client, n: i64) {
    let sql = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
               WHERE NOT l.granted AND a.datname = current_database()";
    for _ in 0..500 {
        if client.query_one(sql, &[]).await.expect("locks").get::<_, i64>(0) >= n {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody waits for the lock");
}

#[tokio::test]
async fn a_stale_token_changes_nothing() {
    let bench = Bench::new().await;
    let id = bench.claimed("theirs").await;
    bench.store.begin(id, "theirs", &keys(&[A])).await.expect("begun");
    let before = bench.row(id).await;
    let tried = all_tried();
    let stale = scope(id, "stale", &tried);
    let refused =
        [(A, Outcome::Refused(fault(550))), (B, Outcome::NotImplemented), (C, Outcome::Unknown(fault(0)))];
    let refused = entries("stale", "n", &refused);
    assert_eq!(bench.store.begin(id, "stale", &keys(&[C])).await.expect("answered"), BeginAnswer::Stale);
    for recorded in [
        bench.store.record(stale, &refused).await,
        bench.store.record(stale, &Entries::default()).await,
        bench.store.release(stale, true).await,
        bench.store.fail(stale, FailReason::Infected).await,
    ] {
        assert!(matches!(recorded, Ok(Recorded::Stale)), "{recorded:?}");
    }
    let beat = bench.store.heartbeat(&[(id, "stale".to_owned())]).await.expect("a heartbeat");
    assert!(beat.confirmed.is_empty());
    assert!(matches!(bench.claim(id, "stale").await, Claimed::Dropped(_)));
    assert_eq!(bench.row(id).await, before, "byte by byte");
    assert_eq!(bench.audited(id).await.len(), 0);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_found_again_by_its_token_and_costs_nothing_more() {
    let bench = Bench::new().await;
    let id = bench.claimed("mine").await;
    let before = bench.row(id).await;
    let Claimed::Taken(taken) = bench.claim(id, "mine").await else { panic!("it is ours") };
    assert_eq!((taken.ledger.attempts, taken.ledger.plan.len(), taken.ledger.deliveries.len()), (1, 2, 3));
    assert_eq!(bench.row(id).await, before, "byte by byte");
    assert!(matches!(bench.claim(id, "other").await, Claimed::Dropped(_)));
}

#[tokio::test]
async fn a_heartbeat_touches_live_claims_until_their_deadline_and_no_longer() {
    let bench = Bench::new().await;
    let (alive, old) = (bench.claimed("a").await, bench.claimed("b").await);
    // No deadline at all ends this claim, and not the heartbeat of the others.
    let damaged = bench.claimed("c").await;
    bench
        .tamper(damaged, "routing_result = jsonb_set(routing_result, '{claim,deadline}', '\"9999-99-99\"')")
        .await;
    bench.tamper(old, "routing_result = jsonb_set(routing_result, '{claim,deadline}', to_jsonb(now() - interval '1 s'))").await;
    let before = (bench.row(alive).await, bench.row(old).await);
    let all = [(alive, "a".to_owned()), (old, "b".to_owned()), (damaged, "c".to_owned())];
    let beat = bench.store.heartbeat(&all).await.expect("a heartbeat");
    assert_eq!((beat.confirmed, beat.lost), (BTreeSet::from([alive]), BTreeSet::from([old, damaged])));
    let after = (bench.row(alive).await, bench.row(old).await);
    assert!(after.0.updated_at > before.0.updated_at && after.0.text == before.0.text, "only the time moves");
    assert_eq!(after.1, before.1);
}

/// Each row of one batch is judged for itself.
#[tokio::test]
async fn one_batch_answers_for_each_row() {
    let bench = Bench::new().await;
    let of = || SubmissionSeed::of("f");
    let in_time = "jsonb_build_object('v', 1, 'attempts', 1, 'next_attempt_at', now() + interval '30 s')";
    let much_later = "jsonb_build_object('v', 1, 'attempts', 1, 'next_attempt_at', now() + interval '2 min')";
    let soon = bench.insert(&of()).await;
    bench.tamper(soon, &format!("routing_result = {in_time}")).await;
    let later = bench.insert(&of()).await;
    bench.tamper(later, &format!("routing_result = {much_later}")).await;
    let table = [
        (bench.insert(&of()).await, "taken"),
        (bench.insert(&of().attachment("a", "pending")).await, "not_clean"),
        (bench.insert(&of().attachment("a", "infected")).await, "infected"),
        (bench.insert(&of().ledger(serde_json::json!([]))).await, "ledger_damaged"),
        (bench.insert(&of().ledger(serde_json::json!({"v": 2}))).await, "newer_ledger"),
        (bench.insert(&of().ledger(serde_json::json!({"attempts": 5}))).await, "exhausted"),
        (bench.insert(&of().status("processing")).await, "held_elsewhere"),
        (bench.insert(&of().status("routed")).await, "finished"),
        (bench.insert(&of().status("purged")).await, "finished"),
        (soon, "held"),
        (later, "not_due"),
        (Uuid::from_u128(1), "unknown_submission"),
        (bench.insert(&of()).await, "taken"),
    ];
    let request = |(id, _): &(Uuid, &str)| ClaimRequest { id: *id, token: format!("t/{id}") };
    let requests: Vec<ClaimRequest> = table.iter().map(request).collect();
    let answers = labels(&bench.store.claim(&requests).await.expect("an answer"));
    assert_eq!(answers, HashMap::from(table));
}

/// The inputs of mails come with the claim, each its own; where they cannot be read the row is claimed all the
/// same, and a second query gets the reason.
#[tokio::test]
async fn a_claim_brings_what_mails_are_made_from() {
    let bench = Bench::new().await;
    let ids = [bench.ready().await, bench.ready().await, bench.ready().await];
    for (id, value) in ids.iter().zip(["first", "second", "third"]) {
        let sql = "INSERT INTO submission_fields (submission_id, field_key, field_value, position)
          VALUES ($1, 'b', $2, 2), ($1, 'a', NULL, 1)";
        bench.backend.execute(sql, &[id, &value]).await.expect("fields");
    }
    bench
        .backend
        .execute("UPDATE submissions SET created_at = 'infinity' WHERE id = $1", &[&ids[2]])
        .await
        .expect("set");
    let requests = ids.map(|id| ClaimRequest { id, token: format!("one/{id}") });
    let mut answers = bench.store.claim(&requests).await.expect("an answer");
    let mut brought = |id| match answers.remove(&id) {
        Some(Claimed::Taken(row)) => row.content,
        other => panic!("{other:?}"),
    };
    for (id, value) in ids.iter().zip(["first", "second"]) {
        let content = brought(*id).expect("brought");
        let fields: Vec<_> =
            content.fields.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(fields, [("a", ""), ("b", value)]);
    }
    assert!(brought(ids[2]).is_none());
    bench.store.content(ids[2]).await.expect_err("created_at is no instant");
    assert!(bench.store.content(Uuid::from_u128(1)).await.expect("an answer").is_none());
}

/// The first mail's intent may be recorded with its claim, under the same lock: if an in-doubt permit is there, it has no
/// attachment and nothing is in doubt. Such an intent ends like every other, and a release takes it back with the claim.
#[tokio::test]
async fn a_first_mails_intent_comes_with_its_claim_where_nothing_comes_before_it() {
    let bench = Bench::new().await;
    let ids = [bench.ready().await, bench.ready().await, bench.ready().await, bench.ready().await];
    let [plain, unasked, attached, doubtful] = ids;
    let sql = "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
               VALUES ($1, 'a.pdf', 'b', 'o', 'clean')";
    bench.eyes.execute(sql, &[&attached]).await.expect("an attachment");
    claim(&bench.store, doubtful, "former").await;
    bench.store.begin(doubtful, "former", &keys(&[A])).await.expect("begun");
    bench.reset(doubtful).await;
    let requests = ids.map(|id| ClaimRequest { id, token: "t".to_owned() });
    let ahead =
        Ahead { ids: BTreeSet::from([plain, attached, doubtful]), log_position: Some("m".to_owned()) };
    let mut answers = bench.store.claim_and_begin(&requests, &ahead).await.expect("an answer");
    for (id, expected) in [(plain, keys(&[A, B])), (unasked, vec![]), (attached, vec![]), (doubtful, vec![])]
    {
        let Some(Claimed::Taken(row)) = answers.remove(&id) else { panic!("not taken") };
        assert_eq!(row.intents, expected);
        let stored = bench.row(id).await.ledger;
        for key in [A, B] {
            let delivery = &stored["deliveries"][key];
            assert_eq!(delivery["begun"]["token"] == "t", expected.contains(&key.to_owned()), "{delivery}");
            assert_eq!(delivery["log_mark"] == "m", expected.contains(&key.to_owned()), "{delivery}");
        }
        assert!(stored["deliveries"][C].get("begun").is_none(), "of another action");
    }
    // A worker that is not sure that its intent stands records it again.
    let again = bench.store.begin(plain, "t", &keys(&[A, B])).await.expect("an answer");
    assert_eq!(again, BeginAnswer::Stands);
    let sent = entries("t", "n", &[(A, accepted("1")), (B, accepted("2"))]);
    let tried = BTreeSet::from([1]);
    let recorded = bench.store.record(scope(plain, "t", &tried), &sent).await.expect("recorded");
    assert!(matches!(recorded, Recorded::Continue(_)), "{recorded:?}");
    bench.store.release(scope(plain, "t", &tried), true).await.expect("released");
    let row = bench.row(plain).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0));
    assert!(!row.ledger.to_string().contains("\"begun\""), "{}", row.ledger);
}

/// The next mail's intent may be recorded with the outcomes of the one before, under the conditions of a begin, which are
/// looked at anew; where one of them is not met the outcomes stand without it.
#[tokio::test]
async fn a_next_mails_intent_comes_with_the_outcomes_before_it_where_a_begin_would_stand() {
    let bench = Bench::new().await;
    let sent = Arc::new(entries("t", "n", &[(A, accepted("1")), (B, accepted("2"))]));
    let (first, next) = (BTreeSet::from([1]), NextMail { log_position: Some("m".to_owned()) });
    let record_by = async |store: &Store, id: Uuid, token: &str, next: Option<&NextMail>| {
        let recorded = store.record_and_begin(scope(id, token, &first), &sent, next.cloned()).await;
        let goes_on = match recorded.expect("recorded") {
            Recorded::Continue(goes_on) => Some(*goes_on),
            Recorded::Concluded(_) | Recorded::Stale | Recorded::NoRow => None,
        };
        (goes_on, bench.row(id).await)
    };
    let record = async |id, token, next| record_by(&bench.store, id, token, next).await;
    let begun = || async {
        let id = bench.claimed("t").await;
        assert_eq!(bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun"), BeginAnswer::Stands);
        id
    };

    let id = begun().await;
    let (goes_on, row) = record(id, "t", Some(&next)).await;
    let goes_on = goes_on.expect("the second action is open");
    assert_eq!(goes_on.intents, keys(&[C]));
    assert!(goes_on.ledger.deliveries[C].intent.is_none(), "as a claim answers it");
    assert_eq!(
        (row.entry(A)["state"].as_str(), &row.entry(C)["begun"]["token"]),
        (Some("accepted"), &json!("t"))
    );
    assert_eq!(row.entry(C)["log_mark"], "m");
    let (goes_on, again) = record(id, "t", Some(&next)).await;
    assert_eq!(goes_on.expect("it goes on").intents, keys(&[C]), "repeated where its answer was lost");
    assert_eq!(again.entry(A), row.entry(A));

    let (goes_on, row) = record(begun().await, "t", None).await;
    assert_eq!(goes_on.expect("it goes on").intents, keys(&[]), "nobody has a permit for it");
    assert!(row.entry(C).get("begun").is_none());

    for status in ["infected", "pending"] {
        let id = begun().await;
        let sql = format!(
            "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
             VALUES ($1, 'a.pdf', 'b', 'o', '{status}')"
        );
        bench.eyes.execute(&sql, &[&id]).await.expect("an attachment");
        let (goes_on, row) = record(id, "t", Some(&next)).await;
        assert_eq!(goes_on.expect("it goes on").intents, keys(&[]), "{status}: a begin says why not");
        assert_eq!(row.entry(A)["state"], "accepted", "{status}: facts stand");
        assert!(row.entry(C).get("begun").is_none(), "{status}");
    }

    let domain = C.split_once('@').expect("an address").1.to_owned();
    let pause = Pause {
        scope: Scope::Destination(domain),
        since: Timestamp::UNIX_EPOCH,
        until: None,
        reason: "why".to_owned(),
        actor: "operator:alice".to_owned(),
    };
    let paused = PauseBoard::of(Pauses::in_force([pause], Timestamp::UNIX_EPOCH));
    let paused = bench.store.clone().with_pauses(paused);
    let (goes_on, row) = record_by(&paused, begun().await, "t", Some(&next)).await;
    assert_eq!(goes_on.expect("it goes on").intents, keys(&[]), "its destination is paused");
    assert!(row.entry(C).get("begun").is_none());

    let (goes_on, row) = record(begun().await, "another", Some(&next)).await;
    assert!(goes_on.is_none(), "the claim is not ours");
    assert!(row.entry(C).get("begun").is_none());
}
