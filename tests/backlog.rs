//! Memory does not grow with the backlog: a router beside a hundred thousand open submissions and waiting events peaks where
//! it peaks beside a thousand.
//!
//! Two real processes, one after the other, each routing for a while with everything on: the sweep, the gauges, the
//! heartbeat. Their peaks are the kernel's own (`VmHWM`). `BACKLOG=1000000` and `BACKLOG_BINARY=target/release/maple-router`
//! for the night.

use std::path::PathBuf;
use std::time::Duration;

use devkit::forms::Form;
use devkit::postgres::{Cluster, ClusterOptions, Variant};
use devkit::smtp::{Keep, SmtpOptions};
use devkit::stage::{Source, Stage, StageOptions, TOPIC};

/// Backlog of the run that the peak is compared with.
const FEW: u64 = 1_000;
/// Length of a run. The sweep comes twenty times meanwhile.
const RUNS: Duration = Duration::from_secs(20);
/// The factor by which many may need more memory, for the randomness of an allocator.
const RATIO: f64 = 1.5;
/// Highest peak of the binary as shipped.
const MOST_MIB: f64 = 64.0;

/// All kinds of polling, often.
const BUSY: &str = r#"
[routing]
sweep_interval = "1s"
"#;

/// The sweep's own work as well: the submissions are old. No trigger writes their events: those are written here,
/// and a consumer of the topic gets them there.
const BACKLOG: &str = "
SET session_replication_role = replica;
INSERT INTO submissions (id, form_id, created_at, updated_at)
SELECT md5(n::text)::uuid, 'f', at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - interval '3 hours' - n * interval '0.01 s' AS at) AS t;
INSERT INTO router.outbox (kind, entity_id, payload, available_at, created_at, xid)
SELECT 'routing.ready', md5(n::text)::uuid, jsonb_build_object('submission_id', md5(n::text)::uuid, 'form_id', 'f', 'reason',
  'finalized'), now() - interval '3 hours', now() - interval '3 hours', '3' FROM generate_series(1, $rows) AS n;
RESET session_replication_role;
ANALYZE";

fn backlog() -> u64 {
    std::env::var("BACKLOG").ok().map_or(100_000, |rows| rows.parse().expect("BACKLOG is a number of rows"))
}

fn binary() -> (PathBuf, bool) {
    match std::env::var_os("BACKLOG_BINARY") {
        Some(binary) => (std::path::absolute(binary).expect("a path"), true),
        None => (PathBuf::from(env!("CARGO_BIN_EXE_maple-router")), false),
    }
}

/// Peak of a router's memory in MiB beside so much, and how many it routed meanwhile.
async fn peak(cluster: &Cluster, source: Source, rows: u64) -> (f64, i64) {
    let variant = Variant { router: true, audit_readable: true, ..Variant::default() };
    let options = StageOptions {
        variant,
        source,
        smtp: SmtpOptions { keep: Keep::Digests, ..SmtpOptions::default() },
        sample_forms: false,
        ..StageOptions::default()
    };
    let database = cluster.database(variant).await.expect("a database");
    let stage = Stage::on(database, options).await.expect("a stage");
    let form = [Form::new("f").mail_to("a@one.test")];
    devkit::forms::load_into(&stage.database, &form).await.expect("a form");
    let eyes = stage.database.superuser().await.expect("superuser");
    eyes.batch_execute(&BACKLOG.replace("$rows", &rows.to_string())).await.expect("a backlog");
    if source == Source::Pubsub {
        eyes.batch_execute("TRUNCATE router.outbox").await.expect("none there");
        let portal = "SELECT id::text FROM submissions";
        for row in eyes.query(portal, &[]).await.expect("their ids") {
            let id: String = row.get(0);
            let data = format!(r#"{{"submission_id":"{id}","form_id":"f","reason":"finalized"}}"#);
            stage.broker.publish(TOPIC, data, [("type", "routing.ready"), ("v", "1")]).expect("published");
        }
    }
    let (binary, _) = binary();
    let mut router = stage.router(&binary, "router", BUSY).await.expect("a router");
    router.ready().await.expect("ready");
    tokio::time::sleep(RUNS).await;
    let pid = router.pid().expect("it lives");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let mib = kib.expect("a peak").trim().parse::<f64>().expect("a number") / 1024.0;
    router.signal("KILL").await.expect("killed");
    let routed = "SELECT count(*) FROM submissions WHERE status = 'routed'";
    let routed = eyes.query_one(routed, &[]).await.expect("counted").get(0);
    (mib, routed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_does_not_grow_the_process() {
    let many = backlog();
    let (_, as_shipped) = binary();
    // On the disk: a backlog is large.
    let settings = [("fsync", "off"), ("autovacuum", "off"), ("max_wal_size", "2GB")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options = ClusterOptions { durable: true, settings, ..ClusterOptions::default() };
    let cluster = Cluster::start(options).await.expect("a cluster");
    for source in [Source::Postgres, Source::Pubsub] {
        let (few, routed) = peak(&cluster, source, FEW).await;
        assert!(routed > 0, "{source:?}: nothing was routed beside {FEW}");
        let (lots, routed) = peak(&cluster, source, many).await;
        assert!(routed > 0, "{source:?}: nothing was routed beside {many}");
        println!(
            "{source:?}: {few:.1} MiB beside {FEW}, {lots:.1} MiB beside {many} ({routed} routed): {:.2}",
            lots / few
        );
        assert!(lots / few < RATIO, "{source:?}: {few:.1} MiB beside {FEW}, {lots:.1} MiB beside {many}");
        assert!(!as_shipped || lots < MOST_MIB, "{source:?}: {lots:.1} MiB beside {many}");
    }
}
