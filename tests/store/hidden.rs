//! P10 where P6 rests on it: as long as a policy may hide an attachment nothing is claimed, begun, failed or taken
//! back, also when the policy goes between a lock and the question; what was sent already is recorded all the same.
//! And a hidden submission is not taken for one that is gone.

use devkit::forms::scan;
use maple_router::db::DbError;
use maple_router::routing::store::{Ahead, BeginAnswer, Merged, NextMail, Recorded};

use super::claims::waiting;
use super::stuck::bounds;
use super::*;

const HIDE: &str = "DROP POLICY attachments_app ON attachments";
const SHOW: &str =
    "CREATE POLICY attachments_app ON attachments FOR ALL TO forms_app USING (true) WITH CHECK (true)";

fn hidden<T: std::fmt::Debug>(answer: &Result<T, DbError>) {
    assert!(matches!(answer, Err(DbError::Hidden(_))), "{answer:?}");
}

async fn alter(bench: &Bench, sql: &str) {
    bench.db.alter(sql).await.expect(sql);
}

#[tokio::test]
async fn nothing_is_claimed_while_attachments_may_be_hidden() {
    let bench = Bench::new().await;
    let seeds = [
        ("infected", SubmissionSeed::of("f").attachment("a", "clean").attachment("b", "infected")),
        ("not_clean", SubmissionSeed::of("f").attachment("a", "pending")),
        ("taken", SubmissionSeed::of("f").attachment("a", "clean")),
        ("taken", SubmissionSeed::of("f")),
    ];
    let mut ids = Vec::new();
    for (_, seed) in &seeds {
        ids.push(bench.insert(seed).await);
    }
    let requests: Vec<ClaimRequest> =
        ids.iter().map(|id| ClaimRequest { id: *id, token: "t".to_owned() }).collect();
    let rows = async || futures::future::join_all(ids.iter().map(|id| bench.row(*id))).await;
    let before = rows().await;
    alter(&bench, HIDE).await;
    hidden(&bench.store.claim(&requests).await);
    let ahead = Ahead { ids: ids.iter().copied().collect(), log_position: None };
    hidden(&bench.store.claim_and_begin(&requests, &ahead).await);
    hidden(&bench.store.content(ids[2]).await);
    // Some of them are seen: that proves nothing of the others.
    alter(
        &bench,
        "CREATE POLICY a_few ON attachments FOR SELECT TO forms_app USING (clamav_status = 'clean')",
    )
    .await;
    hidden(&bench.store.claim(&requests).await);
    assert_eq!(rows().await, before, "untouched");
    alter(&bench, SHOW).await;
    let answers = labels(&bench.store.claim(&requests).await.expect("answered"));
    for (id, (expected, _)) in ids.iter().zip(&seeds) {
        assert_eq!(answers[id], *expected);
    }
}

#[tokio::test]
async fn no_intent_while_attachments_may_be_hidden_and_what_was_sent_is_recorded_beside_it() {
    let bench = Bench::new().await;
    let seed = SubmissionSeed::of("f").attachment("a", "clean");
    let (sent, waits) = (bench.insert(&seed).await, bench.insert(&seed).await);
    for id in [sent, waits] {
        assert!(matches!(bench.claim(id, "t").await, Claimed::Taken(_)));
    }
    assert_eq!(bench.store.begin(sent, "t", &keys(&[A, B])).await.expect("begun"), BeginAnswer::Stands);
    alter(&bench, HIDE).await;
    let before = bench.row(waits).await;
    hidden(&bench.store.begin(waits, "t", &keys(&[A, B])).await);
    let (tried, both) = (BTreeSet::from([1]), keys(&[A, B]));
    let facts = entries("t", "n", &[(A, accepted("QA")), (B, accepted("QB"))]);
    let (intents, recorded) = tokio::join!(
        bench.store.begin(waits, "t", &both),
        bench.store.record(scope(sent, "t", &tried), &facts),
    );
    hidden(&intents);
    assert!(matches!(recorded, Ok(Recorded::Continue(_))), "{recorded:?}");
    assert_eq!(bench.row(waits).await, before, "untouched");
    let released = bench.store.release(scope(waits, "t", &tried), true).await.expect("given back");
    assert!(matches!(released, Recorded::Concluded(_)), "{released:?}");
    assert_eq!(bench.row(waits).await.attempts(), 0);
    alter(&bench, SHOW).await;
    assert!(matches!(bench.claim(waits, "u").await, Claimed::Taken(_)));
    assert_eq!(bench.store.begin(waits, "u", &both).await.expect("begun"), BeginAnswer::Stands);
}

/// What was sent is recorded, and the next mail's intent is left to a begin, which says why there is none. Where attachments
/// cannot be read at all nothing is recorded with an intent, and everything without: so a record is repeated without one.
#[tokio::test]
async fn a_next_mail_has_no_intent_while_attachments_may_be_hidden_and_what_was_sent_is_recorded() {
    let bench = Bench::new().await;
    let (tried, next) = (BTreeSet::from([1]), NextMail { log_position: None });
    let facts = Arc::new(entries("t", "n", &[(A, accepted("QA")), (B, accepted("QB"))]));
    for (without, with) in [
        (HIDE, SHOW),
        ("REVOKE SELECT ON attachments FROM forms_app", "GRANT SELECT ON attachments TO forms_app"),
    ] {
        let id = bench.claimed("t").await;
        assert_eq!(bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun"), BeginAnswer::Stands);
        alter(&bench, without).await;
        let before = bench.row(id).await;
        match bench.store.record_and_begin(scope(id, "t", &tried), &facts, Some(next.clone())).await {
            Ok(Recorded::Continue(goes_on)) if without == HIDE => assert_eq!(goes_on.intents, keys(&[])),
            Ok(other) => panic!("{without}: {other:?}"),
            Err(error) => {
                assert_ne!(without, HIDE, "{error}");
                assert_eq!(bench.row(id).await, before, "{without}: untouched");
                let recorded = bench.store.record_and_begin(scope(id, "t", &tried), &facts, None).await;
                assert!(matches!(recorded, Ok(Recorded::Continue(_))), "{without}: {recorded:?}");
            }
        }
        let row = bench.row(id).await;
        assert_eq!(row.entry(A)["state"], "accepted", "{without}: facts stand");
        assert!(row.entry(C).get("begun").is_none(), "{without}");
        alter(&bench, with).await;
        assert_eq!(bench.store.begin(id, "t", &keys(&[C])).await.expect("begun"), BeginAnswer::Stands);
    }
}

/// A `begin` that waited for the row must see that the policy is gone, and not what its snapshot knew.
#[tokio::test]
async fn a_policy_that_goes_while_the_intent_waits_for_the_row_is_missed() {
    let bench = Bench::new().await;
    let id = bench.insert(&SubmissionSeed::of("f").attachment("a", "clean")).await;
    bench.claim(id, "t").await;
    let mut owner = bench.db.superuser().await.expect("superuser");
    let altering = owner.transaction().await.expect("a transaction");
    let lock = "SELECT FROM submissions WHERE id = $1 FOR UPDATE";
    altering.execute(lock, &[&id]).await.expect("the row is locked");
    let store = bench.store.clone();
    let begin = tokio::spawn(async move { store.begin(id, "t", &keys(&[A, B])).await });
    waiting(&bench.eyes, 1).await;
    let infected = "UPDATE attachments SET clamav_status = 'infected' WHERE submission_id = $1";
    altering.execute(infected, &[&id]).await.expect("infected");
    altering.batch_execute(HIDE).await.expect("dropped");
    altering.commit().await.expect("committed");
    hidden(&begin.await.expect("no panic"));
    assert!(bench.row(id).await.entry(A).get("begun").is_none());
}

#[tokio::test]
async fn the_sweep_does_nothing_about_attachments_that_it_may_not_see() {
    let bench = Bench::new().await;
    let orphan = bench.insert(&SubmissionSeed::of("f").attachment("a", "pending")).await;
    let infected = bench.insert(&SubmissionSeed::of("f").attachment("a", "infected")).await;
    let stuck = bench.insert(&SubmissionSeed::of("f").attachment("a", "clean")).await;
    bench.claim(stuck, "t").await;
    for id in [orphan, infected, stuck] {
        bench.untouched(id, 5000).await;
        bench.tamper(id, "created_at = now() - interval '5000 s'").await;
    }
    alter(&bench, HIDE).await;
    let rows = async || [bench.row(orphan).await, bench.row(infected).await, bench.row(stuck).await];
    let before = rows().await;
    let orphans = bench.store.sweep_orphans(&bounds(), 10, &[]).await.expect("swept");
    assert!(orphans.expect("alone").rows.is_empty(), "what looks ready may be infected");
    let page =
        bench.store.sweep_infected(&bounds(), None, 10, "s", &[]).await.expect("swept").expect("alone");
    assert!(page.rows.is_empty());
    hidden(&bench.store.sweep_stuck(&bounds(), None, 10, "s", &[]).await);
    hidden(&bench.store.unready(&bounds()).await);
    hidden(&bench.store.sweep_count(&bounds()).await);
    assert_eq!(rows().await, before, "untouched");
    alter(&bench, SHOW).await;
    assert_eq!(bench.store.unready(&bounds()).await.expect("counted").sample, Some(orphan));
    let page =
        bench.store.sweep_infected(&bounds(), None, 10, "s", &[]).await.expect("swept").expect("alone");
    assert_eq!(page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [infected]);
    assert_eq!(bench.sweep_stuck().await.len(), 1);
    let attachment = "SELECT id FROM attachments WHERE submission_id = $1";
    let attachment = bench.eyes.query_one(attachment, &[&orphan]).await.expect("an attachment").get(0);
    scan(&bench.backend, attachment, "clean").await.expect("scanned");
    let found = bench.store.sweep_orphans(&bounds(), 10, &[]).await.expect("swept").expect("alone");
    assert!(found.rows.iter().any(|found| found.id == orphan), "{found:?}");
}

#[tokio::test]
async fn a_hidden_submission_is_not_gone() {
    let bench = Bench::new().await;
    let (sent, waits, nobody) = (bench.claimed("t").await, bench.ready().await, Uuid::from_u128(7));
    assert_eq!(bench.store.begin(sent, "t", &keys(&[A, B])).await.expect("begun"), BeginAnswer::Stands);
    alter(&bench, "DROP POLICY submissions_app ON submissions").await;
    let before = bench.row(sent).await;
    let tried = BTreeSet::from([1]);
    let facts = entries("t", "n", &[(A, accepted("QA")), (B, accepted("QB"))]);
    let request = |id| ClaimRequest { id, token: "u".to_owned() };
    hidden(&bench.store.claim(&[request(waits)]).await);
    hidden(&bench.store.begin(sent, "t", &keys(&[A, B])).await);
    hidden(&bench.store.record(scope(sent, "t", &tried), &facts).await);
    hidden(&bench.store.merge_facts(sent, "t", &facts.facts).await);
    assert_eq!(bench.row(sent).await, before, "untouched");
    alter(
        &bench,
        "CREATE POLICY submissions_app ON submissions FOR ALL TO forms_app USING (true) WITH CHECK (true)",
    )
    .await;
    assert!(matches!(bench.store.record(scope(sent, "t", &tried), &facts).await, Ok(Recorded::Continue(_))));
    let answers = labels(&bench.store.claim(&[request(waits), request(nobody)]).await.expect("answered"));
    assert_eq!((answers[&waits], answers[&nobody]), ("taken", "unknown_submission"));
    assert!(matches!(bench.store.merge_facts(nobody, "t", &facts.facts).await, Ok(Merged::Gone)));
}
