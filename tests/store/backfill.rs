//! Back-fill against the real statements: what is found, what is opened, by two at once and beside whoever has a row.

use maple_router::routing::decide::backfill::BackfillRefusal;
use maple_router::routing::store::Claimed;
use maple_router::routing::store::backfill::{BackfillScope, Backfilled};
use maple_router::routing::table::Status;
use serde_json::json;

use super::*;

static NONE: BTreeSet<i32> = BTreeSet::new();
const AT: &str = "2026-11-01T10:00:00Z";

/// Everything that a routed submission of before may have: an accepted mail with what became of it, and a deferred ticket.
fn deferred() -> Value {
    json!({
        "v": 1, "attempts": 3, "resets": 4, "theirs": 7, "next_attempt_at": "2036-01-01T00:00:00Z",
        "plan": [
            {"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"},
            {"action_order": 2, "action_type": "happyfox_template", "destination": "", "happyfox_category": "General"},
        ],
        "deliveries": {
            A: {"state": "accepted", "nonce": "n", "queue_id": "QA", "generation": 0, "dups": [{"nonce": "m"}]},
            "2|": {"state": "not_implemented", "at": AT},
        },
        "finished": {"token": "t", "at": AT, "status": "routed"},
        "alert": {"for": "t", "confirmed_at": AT},
    })
}

impl Bench {
    async fn put_off(&self) -> Uuid {
        self.insert(&SubmissionSeed::of("f").status("routed").ledger(deferred())).await
    }

    async fn backfill(&self, id: Uuid) -> Backfilled {
        self.store.backfill(id, &NONE, OPERATOR, false).await.expect("answered")
    }
}

#[tokio::test]
async fn deferred_tickets_are_opened_with_who_and_why_and_every_fact_stays() {
    let bench = Bench::new().await;
    let id = bench.put_off().await;
    let before = bench.row(id).await;
    let dry = bench.store.backfill(id, &NONE, OPERATOR, true).await.expect("answered");
    assert!(matches!(dry, Backfilled::Done(_)), "{dry:?}");
    let left = bench.store.backfill(id, &BTreeSet::from([2]), OPERATOR, false).await.expect("answered");
    assert_eq!(left, Backfilled::Refused(BackfillRefusal::NothingDeferred));
    assert_eq!(bench.row(id).await, before, "neither writes");
    let Backfilled::Done(opened) = bench.backfill(id).await else { panic!("deferred") };
    assert_eq!((opened.form_id.as_str(), opened.backfill.actions.as_slice()), ("f", &[2][..]));
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
    assert!(row.updated_at > before.updated_at, "the sweep counts from here");
    for gone in ["finished", "alert", "next_attempt_at", "claim"] {
        assert!(row.ledger.get(gone).is_none(), "{gone}: {row:?}");
    }
    assert_eq!((&row.ledger["theirs"], &row.ledger["plan"]), (&json!(7), &before.ledger["plan"]));
    assert_eq!(row.entry(A), before.entry(A));
    assert_eq!(
        (&row.entry("2|happyfox")["state"], row.entry("2|")),
        (&json!("open"), &Value::Null),
        "{row:?}"
    );
    let noted = &row.ledger["overrides"][0];
    assert_eq!((&noted["actor"], &noted["reason"]), (&json!("operator:test"), &json!("a test")));
    assert_eq!(
        (&noted["finished"], &noted["deliveries"]),
        (&before.ledger["finished"], &json!(1)),
        "{noted}"
    );
    assert!(noted["at"].is_string(), "{noted}");
    // Twice is once.
    let again = bench.backfill(id).await;
    assert_eq!(again, Backfilled::Refused(BackfillRefusal::NotEnded(Status::Received)));
    let Claimed::Taken(taken) = bench.claim(id, "t2").await else { panic!("it is free") };
    assert_eq!((taken.ledger.attempts, taken.ledger.counts()["open"]), (1, 1), "{:?}", taken.ledger);
    assert_eq!(bench.backfill(Uuid::nil()).await, Backfilled::Unknown);
}

#[tokio::test]
async fn of_two_at_once_one_opens_and_a_row_that_somebody_has_is_left() {
    let bench = Bench::new().await;
    let other = store(&bench.db, 4);
    for _ in 0..20 {
        let id = bench.put_off().await;
        let (one, two) = tokio::join!(bench.backfill(id), other.backfill(id, &NONE, OPERATOR, false));
        let done = [one, two.expect("answered")];
        let opened = done.iter().filter(|one| matches!(one, Backfilled::Done(_))).count();
        assert_eq!(opened, 1, "{done:?}");
        let row = bench.row(id).await;
        assert_eq!(row.ledger["overrides"].as_array().map(Vec::len), Some(1), "{row:?}");
    }
    let id = bench.put_off().await;
    let mut client = bench.db.superuser().await.expect("superuser");
    let holding = client.transaction().await.expect("begun");
    holding.execute("SELECT FROM submissions WHERE id = $1 FOR NO KEY UPDATE", &[&id]).await.expect("locked");
    assert_eq!(bench.backfill(id).await, Backfilled::Busy, "and not waited for");
    holding.rollback().await.expect("released");
    assert!(matches!(bench.backfill(id).await, Backfilled::Done(_)));
}

#[tokio::test]
async fn a_row_that_would_fail_or_is_not_believed_stays() {
    let bench = Bench::new().await;
    let infected = bench
        .insert(&SubmissionSeed::of("f").status("routed").ledger(deferred()).attachment("a", "infected"))
        .await;
    let mut damaged = deferred();
    damaged["attempts"] = json!("many");
    let damaged = bench.insert(&SubmissionSeed::of("f").status("routed").ledger(damaged)).await;
    for id in [infected, damaged] {
        let before = bench.row(id).await;
        let refused = bench.backfill(id).await;
        assert!(refused.refusal().is_some(), "{refused:?}");
        assert_eq!(bench.row(id).await, before);
    }
}

/// Pages are of rows, whether wanted or not; together they have each that is wanted once, and damaged documents end nothing.
#[tokio::test]
async fn pages_walk_over_everything_and_find_what_is_wanted() {
    let bench = Bench::of(&[form(), Form::new("g").ticket_in("General")]).await;
    let mut wanted = BTreeSet::new();
    for n in 0..7 {
        wanted.insert(bench.put_off().await);
        bench.ready().await;
        let odd = [
            json!({"deliveries": "none"}),
            json!({"deliveries": [{"state": "open"}]}),
            json!(7),
            json!([null]),
        ];
        bench.insert(&SubmissionSeed::of("f").status("routed").ledger(odd[n % 4].clone())).await;
    }
    let failed = bench.insert(&SubmissionSeed::of("f").status("failed").ledger(deferred())).await;
    let of_g = bench.insert(&SubmissionSeed::of("g").status("routed").ledger(deferred())).await;
    let old = SubmissionSeed::of("f").status("routed").ledger(deferred()).age(Duration::from_secs(86_400));
    let old = bench.insert(&old).await;
    bench.insert(&SubmissionSeed::of("f").status("purged").ledger(deferred())).await;
    wanted.extend([failed, of_g, old]);
    let walk = async |most: usize, scope: BackfillScope<'static>| {
        let (mut found, mut looked, mut after) = (Vec::new(), 0, None);
        loop {
            let page = bench.store.backfill_page(after, most, scope).await.expect("a page");
            assert!(page.looked <= most, "{page:?}");
            looked += page.looked;
            found.extend(page.found.iter().map(|one| one.id));
            after = page.next;
            if after.is_none() {
                return (found, looked);
            }
        }
    };
    let any = BackfillScope::default();
    for most in [1, 4, 25, 500] {
        let (found, looked) = walk(most, any).await;
        assert_eq!((found.len(), looked), (wanted.len(), 25), "pages of {most}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted, "pages of {most}");
    }
    let (found, _) = walk(4, BackfillScope { form: Some("g"), since: None }).await;
    assert_eq!(found, [of_g]);
    let hour_ago =
        bench.store.now().await.expect("the time").checked_sub(Duration::from_secs(3600)).expect("a time");
    let (found, _) = walk(4, BackfillScope { form: None, since: Some(hour_ago) }).await;
    assert!(found.len() == wanted.len() - 1 && !found.contains(&old), "{found:?}");
}
