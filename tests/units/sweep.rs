//! The sweep outside the daemon (`routing.sweep = "timer"`): the daemon counts what waits, and leaves it to the timer's
//! command.

use std::time::Duration;

use devkit::forms::SubmissionSeed;

use crate::harness::{PATIENCE, Systemd, binary, stage};

#[tokio::test]
async fn the_daemon_only_counts_and_the_timer_s_command_finds() {
    let stage = stage().await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    SubmissionSeed::of("contact").age(Duration::from_secs(7200)).insert(&backend).await.expect("a row");
    let systemd = Systemd::on(&stage);
    let by_timer = "[routing]\nsweep = \"timer\"\nsweep_interval = \"1s\"\n";
    let mut router =
        stage.router_under(binary(), "one", by_timer, &systemd.variables(None)).await.expect("a process");
    router.ready().await.expect("ready");
    let waits = "maple_router_queue_depth{status=\"received\"}";
    for _ in 0..PATIENCE.as_millis() / 50 {
        if router.metric(waits).await.expect("metrics") == Some(1.0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(router.metric(waits).await.expect("metrics"), Some(1.0), "{}", router.log());
    // Three more passes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(stage.relay.counters().mails, 0, "the daemon swept:\n{}", router.log());
    assert_eq!(router.metric("maple_router_orphans_total").await.expect("metrics"), Some(0.0));

    let config = router.config().to_owned();
    let answer = stage.ask(binary(), &config, &["sweep", "--once", "--json"]).await.expect("a verb");
    assert_eq!(
        (answer.code, answer.json().expect("JSON")["orphans"].as_u64()),
        (Some(0), Some(1)),
        "{answer:?}"
    );
    stage.relay.await_mails(1, PATIENCE).await.expect("it was announced, and routed");
}
