//! Three daemons, one database, every event twice and in any order: each mail exactly once.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "the test tells how long it took")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Keep, SmtpOptions};
use devkit::stage::{Source, Stage, StageOptions};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use crate::harness::{PATIENCE, binary, stage_of};

const SUBMISSIONS: usize = 1000;
const DAEMONS: usize = 3;
/// Change it to try another order; a failing test shows it.
const SEED: u64 = 20_261_101;

fn forms() -> [Form; 3] {
    [
        Form::new("one").mail_to("a@x.test"),
        Form::new("two").mail_to("a@x.test, b@x.test"),
        Form::new("acts").mail_to("a@x.test").mail_to("b@x.test, c@x.test"),
    ]
}

devkit::with_either_source!(a_thousand_submissions_twice_each_over_three_daemons_are_mailed_exactly_once);

async fn a_thousand_submissions_twice_each_over_three_daemons_are_mailed_exactly_once(source: Source) {
    let began = Instant::now();
    let mut rng = rand::rngs::StdRng::seed_from_u64(SEED);
    let smtp = SmtpOptions { keep: Keep::Digests, ..SmtpOptions::default() };
    let stage = stage_of(StageOptions { smtp, ..StageOptions::of(source) }, &forms()).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut wanted: BTreeMap<Uuid, usize> = BTreeMap::new();
    for _ in 0..SUBMISSIONS {
        let form = rng.random_range(0..3);
        let seed = SubmissionSeed::of(["one", "two", "acts"][form]).field("f", "v");
        let seed = if rng.random_bool(0.1) { seed.attachment("a.pdf", "clean") } else { seed };
        // Events come only when all of them can be taken.
        wanted.insert(stage.submit_unannounced(&seed, &backend).await.expect("a row").id, form);
    }
    let mut routers = Vec::new();
    for number in 0..DAEMONS {
        let mut router = stage.router(binary(), &format!("daemon-{number}"), "").await.expect("a router");
        router.ready().await.expect("ready");
        routers.push(router);
    }
    let mut events: Vec<Uuid> = wanted.keys().chain(wanted.keys()).copied().collect();
    events.shuffle(&mut rng);
    let published = Instant::now();
    for id in events {
        stage.publish(id, "finalized").expect("published");
    }
    settle(&stage).await;
    let took = published.elapsed();

    let statuses = "SELECT status::text, count(*) FROM submissions GROUP BY 1";
    let eyes = stage.database.superuser().await.expect("superuser");
    let rows = eyes.query(statuses, &[]).await.expect("statuses");
    let counted: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(counted, [("routed".to_owned(), SUBMISSIONS as i64)], "seed {SEED}");

    let mut expected = BTreeMap::new();
    for (id, form) in &wanted {
        for (order, action) in (1..).zip(&forms()[*form].actions) {
            for recipient in action.destination.split(", ") {
                let message_id = format!("maple.{}.{order}.0@greenpeace.org", id.simple());
                expected.insert((id.to_string(), recipient.to_owned(), message_id), 1_u64);
            }
        }
    }
    let found: BTreeMap<_, _> = stage
        .relay
        .digests()
        .into_iter()
        .map(|(d, n)| ((d.submission_id, d.recipient, d.message_id), n))
        .collect();
    assert!(found == expected, "seed {SEED}: {} mails expected, {} found", expected.len(), found.len());

    let trail = "SELECT count(*), count(DISTINCT submission_id), max(attempts) FROM (SELECT submission_id,
                 (detail->>'attempt')::int AS attempts FROM audit_log WHERE action = 'submission_routed') AS t";
    let row = eyes.query_one(trail, &[]).await.expect("the trail");
    let trail: (i64, i64, i32) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(trail, (SUBMISSIONS as i64, SUBMISSIONS as i64, 1), "once each, at the first attempt");
    let sent = "SELECT count(*), count(DISTINCT (submission_id, detail->'recipient', detail->'action_order'))
                FROM audit_log WHERE action = 'email_sent'";
    let row = eyes.query_one(sent, &[]).await.expect("the trail");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (expected.len() as i64, expected.len() as i64));
    let others = "SELECT count(*) FROM audit_log WHERE actor LIKE 'maple%'
                  AND action NOT IN ('submission_routed', 'email_sent')";
    assert_eq!(eyes.query_one(others, &[]).await.expect("the trail").get::<_, i64>(0), 0);

    let who = "SELECT DISTINCT usename::text FROM pg_stat_activity
               WHERE datname = current_database() AND application_name LIKE 'maple-router%'";
    let who: Vec<String> = eyes.query(who, &[]).await.expect("who").iter().map(|row| row.get(0)).collect();
    assert_eq!(who, ["forms_app"], "the daemons connect as nobody else");
    let workers = "SELECT count(DISTINCT e.value->>'token') FROM submissions s, jsonb_each(s.routing_result->'deliveries') e";
    let tokens: i64 = eyes.query_one(workers, &[]).await.expect("tokens").get(0);
    assert_eq!(tokens, SUBMISSIONS as i64, "one claim each");

    let mut shares = BTreeSet::new();
    let mut total = 0.0;
    for router in &mut routers {
        let routed =
            router.metric("maple_router_submissions_total{outcome=\"routed\"}").await.expect("metrics");
        shares.insert(routed.unwrap_or_default() as u64);
        total += routed.unwrap_or_default();
        assert!(router.stop().await.expect("stops").success(), "{}", router.log());
        let log = router.log();
        for word in ["\"error\"", "deadlock", "stale_settle"] {
            assert!(!log.contains(word), "{word} in\n{log}");
        }
    }
    assert_eq!(total as usize, SUBMISSIONS);
    assert!(shares.first().is_some_and(|least| *least > 0), "each of them worked: {shares:?}");
    println!(
        "{SUBMISSIONS} submissions in {took:.1?} after the first event; {:.1?} in all; {shares:?}",
        began.elapsed()
    );
}

/// Waits until every event is settled.
async fn settle(stage: &Stage) {
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        let stats = stage.events().await.expect("stats");
        if stats.outstanding == 0 && stats.backlog == 0 {
            assert_eq!((stats.forwarded, stats.acked as usize), (0, 2 * SUBMISSIONS), "{stats:?}");
            return;
        }
        assert!(Instant::now() < deadline, "not settled: {stats:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
