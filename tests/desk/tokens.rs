//! Bearer tokens: for the API alone, and never for more than their user may.

use std::time::Duration;

use maple_router::config::{DeskUser, Role};
use maple_router::desk::access::credential::Kind;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::harness::{Bench, HOST, Opened, refusal};

async fn whoami(desk: &Opened, token: &str) -> Value {
    let answer = desk.ask(Method::GET, "/api/whoami").bearer_auth(token).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    answer.json().await.expect("JSON")
}

#[tokio::test]
async fn a_token_opens_the_api_and_no_page() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let token = bench.token("rita", Role::Reviewer).await;
    assert_eq!(whoami(&desk, &token).await["by"], "token");
    let page = desk.ask(Method::GET, "/").bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(page.headers()["www-authenticate"], "Bearer realm=\"maple-router desk\"");
    assert_eq!(refusal(page).await, (401, "unauthenticated".to_owned()));
    let out = desk.ask(Method::POST, "/logout").bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(refusal(out).await.0, 401);
}

#[tokio::test]
async fn a_token_gives_the_lesser_of_its_cap_and_the_users_role() {
    let mut bench = Bench::new().await;
    let desk = bench.open().await;
    let (capped, open) = (bench.token("ada", Role::Viewer).await, bench.token("rita", Role::Admin).await);
    assert_eq!(whoami(&desk, &capped).await["role"], "viewer");
    assert_eq!(whoami(&desk, &open).await["role"], "reviewer");
    let refused = desk.ask(Method::GET, "/api/admin").bearer_auth(&open).send().await.expect("an answer");
    assert_eq!(refusal(refused).await, (403, "role".to_owned()));
    let lower = DeskUser { email: "rita@example.org".to_owned(), role: Role::Viewer };
    bench.reload(|users| drop(users.insert("rita".to_owned(), lower)));
    assert_eq!(whoami(&desk, &open).await["role"], "viewer");
}

#[tokio::test]
async fn a_token_ends_with_its_days_and_by_hand() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let token =
        bench.credential(Kind::Token, "rita", Some(Role::Viewer), Duration::from_secs(90 * 86_400)).await;
    bench.later("89 days 23 h").await;
    assert_eq!(whoami(&desk, &token).await["user"], "rita");
    bench.later("1 h 1 s").await;
    let over = desk.ask(Method::GET, "/api/whoami").bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(refusal(over).await, (401, "unauthenticated".to_owned()));
    let other = bench.token("rita", Role::Viewer).await;
    bench
        .eyes
        .batch_execute("UPDATE router.desk_credentials SET ended_at = pg_catalog.now()")
        .await
        .expect("ended");
    let ended = desk.ask(Method::GET, "/api/whoami").bearer_auth(&other).send().await.expect("an answer");
    assert_eq!(refusal(ended).await.0, 401);
}

#[tokio::test]
async fn a_bearer_that_is_none_gets_no_help_from_a_cookie() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "ada").await;
    for wrong in ["Bearer nonsense", "Bearer mrdesk_short", "bearer "] {
        let answer = desk
            .ask(Method::GET, "/api/whoami")
            .header("cookie", &session)
            .header("authorization", wrong)
            .send()
            .await
            .expect("an answer");
        assert_eq!(refusal(answer).await.0, 401, "{wrong}");
    }
    // A link's or a session's text is no token.
    let value = session.split_once('=').expect("a pair").1;
    let answer = desk
        .ask(Method::GET, "/api/whoami")
        .bearer_auth(format!("mrdesk_{value}"))
        .send()
        .await
        .expect("an answer");
    assert_eq!(refusal(answer).await.0, 401);
}

#[tokio::test]
async fn a_program_with_a_token_needs_no_browsers_headers() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let token = bench.token("rita", Role::Reviewer).await;
    let post = |path: &str| desk.bare(Method::POST, path).header("host", HOST);
    let done = post("/api/echo").bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(done.status(), StatusCode::OK);
    // On a page's address the same is a cross-site request without a proof.
    let page = post("/echo").bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(refusal(page).await, (403, "csrf".to_owned()));
}
