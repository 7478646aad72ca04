//! Rows a second that leave the outbox: taken, settled and recorded by one consumer, without deliveries.

use std::time::Instant;

use maple_router::kernel::jobs::Consumer;
use maple_router::kernel::jobs::listener::Listener;
use maple_router::outbox::row::delivered;

use crate::harness::Bench;

/// Rows that wait.
const ROWS: u32 = 100_000;

#[tokio::test]
#[ignore = "a measurement: make bench-outbox"]
async fn a_hundred_thousand_rows_leave() {
    let bench = Bench::new().await;
    let fill = format!(
        "INSERT INTO router.outbox (kind, payload) SELECT 'canary', '{{}}' FROM generate_series(1, {ROWS})"
    );
    bench.alter(&fill).await;
    bench.alter("VACUUM ANALYZE router.outbox").await;
    let began = Instant::now();
    let mut consumer = Consumer::start(bench.parts().jobs(), Listener::silent());
    for _ in 0..ROWS {
        consumer.next().await.expect("a row").settle(delivered(None));
    }
    bench
        .until("delivered", "SELECT NOT EXISTS (SELECT FROM router.outbox WHERE state <> 'delivered')")
        .await;
    println!("{:.0} rows a second", f64::from(ROWS) / began.elapsed().as_secs_f64());
}
