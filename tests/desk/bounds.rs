//! Too much: of one user, of all at once, of the database's patience.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use maple_router::config::Role;
use maple_router::desk::server::Routes;
use reqwest::{Method, StatusCode};
use tokio::sync::watch;

use crate::harness::{Bench, refusal, routes};

#[tokio::test]
async fn a_user_who_asks_too_often_waits_alone() {
    let mut bench = Bench::new().await;
    bench.bounds.per_user = (5.try_into().expect("not zero"), Duration::from_secs(5));
    let desk = bench.open().await;
    let (rita, sam) = (desk.log_in(&bench, "rita").await, desk.log_in(&bench, "sam").await);
    let token = bench.token("rita", Role::Viewer).await;
    for _ in 0..5 {
        assert_eq!(desk.get("/", &rita).await.status(), StatusCode::OK);
    }
    let limited = desk.get("/", &rita).await;
    assert_eq!(limited.headers()["retry-after"], "1");
    assert_eq!(refusal(limited).await, (429, "rate_limited".to_owned()));
    // It is the user who is limited, whichever credential is used; others are not.
    let api = desk.ask(Method::GET, "/api/whoami").bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(refusal(api).await.0, 429);
    assert_eq!(desk.get("/", &sam).await.status(), StatusCode::OK);
    assert_eq!(desk.get("/assets/style.css", &rita).await.status(), StatusCode::OK);
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(desk.get("/", &rita).await.status(), StatusCode::OK);
    assert_eq!(refusal(desk.get("/", &rita).await).await.0, 429);
}

#[tokio::test]
async fn a_refusal_that_costs_nothing_to_provoke_waits_and_takes_no_room() {
    let mut bench = Bench::new().await;
    (bench.bounds.at_once, bench.bounds.refusal) = (1, Duration::from_secs(3600));
    let desk = bench.open().await;
    let rita = desk.log_in(&bench, "rita").await;
    let strangers =
        async { futures::future::join_all((0..8).map(|_| desk.get("/", "")).collect::<Vec<_>>()).await };
    let meanwhile = async {
        // Until the strangers have been refused, each of them takes the room for a moment.
        tokio::time::sleep(Duration::from_millis(500)).await;
        for _ in 0..20 {
            assert_eq!(desk.get("/", &rita).await.status(), StatusCode::OK);
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    tokio::select! {
        answers = strangers => panic!("an answer without rest: {answers:?}"),
        () = meanwhile => {}
    }
}

#[tokio::test]
async fn more_at_once_than_there_is_room_for_are_told_to_come_again() {
    let mut bench = Bench::new().await;
    bench.bounds.at_once = 3;
    let (release, held) = watch::channel(0_usize);
    let (arrive, arrived) = (release.clone(), held.clone());
    let hold = move || {
        let (arrive, mut held) = (arrive.clone(), held.clone());
        async move {
            arrive.send_modify(|waiting| *waiting += 1);
            drop(held.wait_for(|waiting| *waiting == usize::MAX).await);
            "at last"
        }
    };
    let routes = routes(&bench.pool);
    let desk = bench
        .open_with(Routes { closed: routes.closed.merge(Router::new().route("/hold", get(hold))), ..routes })
        .await;
    let session = desk.log_in(&bench, "rita").await;
    let holding = async { futures::future::join_all((0..3).map(|_| desk.get("/hold", &session))).await };
    let asking = async {
        arrived.clone().wait_for(|waiting| *waiting == 3).await.expect("three wait");
        for path in ["/", "/assets/style.css", "/nowhere"] {
            let busy = desk.get(path, &session).await;
            assert_eq!(busy.headers()["retry-after"], "2");
            assert_eq!(refusal(busy).await, (503, "busy".to_owned()), "{path}");
        }
        release.send_replace(usize::MAX);
    };
    let (held, ()) = futures::join!(holding, asking);
    assert!(held.iter().all(|answer| answer.status() == StatusCode::OK));
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_given_up() {
    let mut bench = Bench::new().await;
    bench.bounds.answer = Duration::from_millis(300);
    let stuck = Router::new().route("/stuck", get(std::future::pending::<&str>));
    let routes = routes(&bench.pool);
    let desk = bench.open_with(Routes { closed: routes.closed.merge(stuck), ..routes }).await;
    let session = desk.log_in(&bench, "rita").await;
    assert_eq!(refusal(desk.get("/stuck", &session).await).await, (503, "busy".to_owned()));
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn streams_have_room_of_their_own() {
    let mut bench = Bench::new().await;
    (bench.bounds.at_once, bench.bounds.streams) = (2, 4);
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = desk.get("/stream", &session).await;
        assert_eq!(stream.status(), StatusCode::OK);
        assert!(stream.chunk().await.expect("read").is_some_and(|chunk| chunk.starts_with(b"data: hello")));
        open.push(stream);
    }
    assert_eq!(refusal(desk.get("/stream", &session).await).await, (503, "busy".to_owned()));
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK, "streams are no requests");
    // One that goes away makes room.
    drop(open.pop());
    let mut again = desk.get("/stream", &session).await;
    for _ in 0..200 {
        if again.status() == StatusCode::OK {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        again = desk.get("/stream", &session).await;
    }
    assert_eq!(again.status(), StatusCode::OK);
    // And each is over after its time, so that its browser proves anew who it is.
    bench.clock.advance(bench.bounds.stream);
    for mut stream in open {
        while let Some(more) = stream.chunk().await.expect("it ends well") {
            assert!(!more.is_empty());
        }
    }
}

#[tokio::test]
async fn a_database_that_is_slow_or_locked_is_busy_and_no_more() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let began = tokio::time::Instant::from_std(monotonic());
    let slow = desk.ask(Method::GET, "/api/busy").header("cookie", &session).send().await.expect("an answer");
    assert_eq!(refusal(slow).await, (503, "busy".to_owned()));
    assert!(began.elapsed() < Duration::from_secs(12), "a statement has five seconds: {:?}", began.elapsed());
    bench
        .eyes
        .batch_execute("BEGIN; LOCK TABLE router.desk_credentials IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("locked");
    let began = tokio::time::Instant::from_std(monotonic());
    assert_eq!(refusal(desk.get("/", &session).await).await, (503, "busy".to_owned()));
    assert!(began.elapsed() < Duration::from_secs(6), "a lock has two seconds: {:?}", began.elapsed());
    bench.eyes.batch_execute("ROLLBACK").await.expect("unlocked");
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
}

#[expect(clippy::disallowed_methods, reason = "a real wait is measured")]
fn monotonic() -> std::time::Instant {
    std::time::Instant::now()
}
