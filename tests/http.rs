//! The loopback endpoint, asked over a real socket.

use std::sync::Arc;
use std::time::Duration;

use maple_router::ops::http::{self, Readiness};
use maple_router::ops::metrics;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn metrics_health_and_readiness_until_shutdown() {
    let recorder = metrics::recorder(maple_router::daemon::ROOMS).expect("buckets are sound");
    ::metrics::with_local_recorder(&recorder, || metrics::start(maple_router::daemon::ROOMS));
    let readiness = Arc::new(Readiness::new());
    let shutdown = CancellationToken::new();
    let listener = http::bind("127.0.0.1:0", "http.listen").await.expect("a free port");
    let base = format!("http://{}", listener.local_addr().expect("address"));
    let server = tokio::spawn(http::serve(listener, recorder.handle(), readiness.clone(), shutdown.clone()));

    let get = |path: &str| reqwest::get(format!("{base}{path}"));
    assert_eq!(get("/-/healthy").await.expect("answer").status(), 200);

    let answer = get("/-/ready").await.expect("answer");
    assert_eq!(answer.status(), 503);
    let body: serde_json::Value = answer.json().await.expect("json");
    assert_eq!(body["ready"], false);
    assert_eq!(body["reasons"][0]["name"], "starting");

    readiness.clear("starting");
    readiness.hold("postgres", "breaker open since 3 faults");
    let answer = get("/-/ready").await.expect("answer");
    assert_eq!(answer.status(), 503);
    assert!(answer.text().await.expect("body").contains("breaker open since 3 faults"));

    readiness.clear("postgres");
    let answer = get("/-/ready").await.expect("answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json::<serde_json::Value>().await.expect("json")["ready"], true);

    let answer = get("/metrics").await.expect("answer");
    assert!(answer.headers()["content-type"].to_str().expect("ascii").starts_with("text/plain"));
    assert!(answer.text().await.expect("body").contains("maple_router_in_flight 0"));
    assert_eq!(get("/other").await.expect("answer").status(), 404);

    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(5), server)
        .await
        .expect("ends when stopped")
        .expect("no panic")
        .expect("no fault");
}

#[tokio::test]
async fn a_port_in_use_is_named_with_a_remedy() {
    let holder = http::bind("127.0.0.1:0", "http.listen").await.expect("a free port");
    let taken = holder.local_addr().expect("address").to_string();
    let message = http::bind(&taken, "http.listen").await.expect_err("taken").to_string();
    assert!(message.contains(&taken) && message.contains("http.listen"), "{message}");
}
