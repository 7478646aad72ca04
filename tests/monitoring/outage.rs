//! The rules as shipped, in a real Prometheus, over a real daemon that loses its relay: what an operator would be woken by.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::prometheus::Prometheus;

use crate::{routing, until};

/// Minutes are seconds.
const FASTER: u32 = 60;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_relay_that_is_gone_wakes_somebody_and_its_return_lets_him_sleep() {
    let (stage, mut router) = routing(&[Form::new("f").mail_to("a@x.test")], "").await;
    let prometheus = Prometheus::start(&[router.address()], FASTER).await.expect("a Prometheus");
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    for _ in 0..600 {
        if prometheus
            .query("maple_router_ready")
            .await
            .expect("an answer")
            .iter()
            .any(|ready| ready.value() == 1.0)
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Longer than any `for` of what could be wrong at the start.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(prometheus.firing().await.expect("an answer"), Vec::<String>::new(), "all is well");

    stage.relay.stop().await;
    let id = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    stage.publish(id, "finalized").expect("published");
    let alert = prometheus.fires("MapleRouterBreakerOpen", PATIENCE).await.expect("it fires");
    assert_eq!(alert.labels["dependency"], "relay");
    assert_eq!(alert.labels["severity"], "critical");
    assert!(alert.annotations["description"].contains("maple-router check"), "{alert:?}");
    assert!(alert.annotations["summary"].contains("relay is down"), "{alert:?}");

    stage.relay.restart().await.expect("the relay is back");
    until(&router, "submissions_total{outcome=\"routed\"}", |routed| routed == 1.0).await;
    prometheus.falls_silent("MapleRouterBreakerOpen", PATIENCE).await.expect("it ends");

    router.stop().await.expect("stopped");
    let down = prometheus.fires("MapleRouterDown", PATIENCE).await.expect("it fires");
    assert_eq!(down.labels["instance"], router.address());
}
