//! Metrics, checks and incidents on the card of a room unknown to the program appear everywhere, with no other edit.

use devkit::postgres::{Cluster, Variant};
use futures::FutureExt;
use maple_router::config::Database;
use maple_router::db::contract::{Check, ContractOptions, Look, StartDecision, inspect, verdict};
use maple_router::db::{DbError, Pool, PoolOptions};
use maple_router::kernel::describe::describe;
use maple_router::kernel::metric::Counter;
use maple_router::kernel::{Card, words};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::dependency::Dependency;
use maple_router::ops::incident::{Incident, IncidentKey, Incidents};
use maple_router::ops::metrics;
use maple_router::ports::{CheckLevel, CheckLine, Runbook};
use maple_router::{events, journal};

use crate::parcels::{MIGRATION, Parcel};

words! {
    Carrier { Bike = "bike", Van = "van" }
}
events! {
    EventName { Packed = "packed" info, Lost = "lost" error | warn }
}
static PARCELS: Counter<Carrier> = Counter::new("toy_parcels_total", "Parcels that left").by(&["carrier"]);
const STUCK: IncidentKey = IncidentKey::new("stuck_parcels").in_runbook("rb-000-parcels.md");
const SCALES: Dependency = Dependency::new("breaker_scales");

static CARD: Card = Card {
    lifecycles: &[describe::<Parcel>],
    transactions: &["parcel_claim"],
    metrics: &[&PARCELS],
    events: EventName::EVENTS,
    incidents: &[STUCK, SCALES.incident()],
    checks: &[Check {
        line: "parcels",
        order: 200,
        look: Look::Database(|client, _| {
            async {
                let sql = "SELECT to_regclass('router.parcels') IS NOT NULL";
                let there: bool = client.query_one(sql, &[]).await?.get(0);
                Ok::<_, DbError>(if there {
                    CheckLine::ok("parcels", "there")
                } else {
                    CheckLine::fail("parcels", "not there", "apply the room's migration")
                })
            }
            .boxed()
        }),
    }],
    ..Card::named("parcels")
};

/// All series, after `counted`.
fn shown(counted: impl FnOnce()) -> String {
    let rooms = [&maple_router::daemon::card::CARD, &CARD];
    let recorder = metrics::recorder(&rooms).expect("buckets are sound");
    ::metrics::with_local_recorder(&recorder, || {
        metrics::start(&rooms);
        counted();
    });
    recorder.handle().render()
}

#[test]
fn its_metrics_transactions_and_incidents_are_series_from_the_start() {
    let text = shown(|| ());
    for series in [
        "toy_parcels_total{carrier=\"bike\"} 0",
        "toy_parcels_total{carrier=\"van\"} 0",
        "maple_router_db_transaction_seconds_count{name=\"parcel_claim\"} 0",
        "maple_router_incident_open{incident=\"stuck_parcels\"} 0",
        "maple_router_incident_open{incident=\"breaker_scales\"} 0",
        "maple_router_breaker_open{dependency=\"scales\"} 0",
    ] {
        assert!(text.lines().any(|line| line == series), "{series} is missing in:\n{text}");
    }
    assert!(text.contains("# HELP toy_parcels_total Parcels that left"), "{text}");
    assert!(
        !text.contains("dependency=\"stuck_parcels\""),
        "only a breaker's incident makes a dependency:\n{text}"
    );
}

#[test]
fn what_it_counts_and_raises_is_seen() {
    let text = shown(|| {
        PARCELS.add(Carrier::Van, 3);
        let (incidents, seen) = Incidents::new();
        incidents.raise(Incident::new(STUCK, "three parcels do not move", &["ls"]));
        assert!(seen.borrow().contains_key(&STUCK));
    });
    assert!(text.contains("toy_parcels_total{carrier=\"van\"} 3"), "{text}");
    assert!(text.contains("maple_router_incident_open{incident=\"stuck_parcels\"} 1"), "{text}");
    assert_eq!(STUCK.runbook(), Runbook { file: "rb-000-parcels.md", section: "stuck_parcels" });
}

#[test]
fn its_words_are_written_as_its_card_has_them() {
    let words: Vec<_> = CARD.events.iter().map(|event| (event.word, event.levels)).collect();
    assert_eq!(words, [("packed", &["info"][..]), ("lost", &["error", "warn"][..])]);
    // A room needs no more than that this compiles.
    journal!(info, EventName::Packed, "a parcel is packed");
}

#[tokio::test]
async fn its_line_of_check_is_looked_at_after_the_others_and_keeps_nobody_from_starting() {
    let variant = Variant { router: true, ..Variant::default() };
    let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
    let settings = Database { url: db.url_as("forms_app"), ..Database::default() };
    let pool = Pool::new(&settings, PoolOptions::new(std::sync::Arc::new(SystemClock))).expect("a pool");
    let options = ContractOptions { checks: CARD.checks.iter().collect(), ..ContractOptions::default() };
    let lines = inspect(&pool, &options).await;
    let last = lines.last().expect("lines");
    assert_eq!((last.name, last.level), ("parcels", CheckLevel::Fail), "{lines:#?}");
    assert_eq!(verdict(&lines), StartDecision::Start, "{lines:#?}");
    db.superuser().await.expect("superuser").batch_execute(MIGRATION).await.expect("the room's migration");
    let lines = inspect(&pool, &options).await;
    assert_eq!(lines.last().expect("lines").level, CheckLevel::Ok, "{lines:#?}");
}
