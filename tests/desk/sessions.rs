//! Sessions: for how long, and for whom.

use maple_router::config::{DeskUser, Role};
use maple_router::desk::access::credential::{Credential, Kind};
use maple_router::ops::rng::Rng;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::harness::{Bench, location, refusal};

#[tokio::test]
async fn a_forged_cookie_is_nobodys() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let real = desk.log_in(&bench, "rita").await;
    let value = real.split_once('=').expect("a pair").1;
    // The bytes of the row itself are no cookie.
    let digest: Vec<u8> = bench
        .eyes
        .query_one("SELECT digest FROM router.desk_credentials WHERE kind = 'session'", &[])
        .await
        .expect("a row")
        .get(0);
    let of_row = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, digest);
    let other = Credential::new(Kind::Session, &Rng::seeded(5)).expose().to_owned();
    for forged in [
        String::new(),
        "__Host-desk=".to_owned(),
        format!("__Host-desk={other}"),
        format!("__Host-desk={of_row}"),
        format!("desk={value}"),
        format!("__host-desk={value}"),
        format!("{real}; {real}"),
        format!("__Host-desk={value}x"),
    ] {
        assert_eq!(refusal(desk.get("/api/whoami", &forged).await).await.0, 401, "{forged}");
    }
    assert_eq!(desk.get("/api/whoami", &format!("a=b; {real}; c=d")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn whoever_writes_the_table_makes_no_session() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let chosen = Credential::new(Kind::Session, &Rng::seeded(6)).expose().to_owned();
    // The backend shares the daemon's role in the database, and has not the secret of its host.
    let backend = bench.db.client_as("forms_app").await.expect("forms_app");
    for digest in ["sha256($1::text::bytea)", "sha256(('maple-router desk' || $1)::bytea)"] {
        let sql = format!(
            "INSERT INTO router.desk_credentials (digest, kind, user_name, expires_at)
             VALUES ({digest}, 'session', 'ada', pg_catalog.now() + interval '1 h')"
        );
        backend.execute(&sql, &[&chosen]).await.expect("written");
    }
    assert_eq!(refusal(desk.get("/", &format!("__Host-desk={chosen}")).await).await.0, 401);
}

#[tokio::test]
async fn a_session_rests_an_hour_and_lives_twelve() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let (used, resting) = (desk.log_in(&bench, "rita").await, desk.log_in(&bench, "rita").await);
    bench.later("59 min").await;
    assert_eq!(desk.get("/", &used).await.status(), StatusCode::OK);
    bench.later("1 min").await;
    assert_eq!(refusal(desk.get("/", &resting).await).await, (401, "unauthenticated".to_owned()), "an hour");
    for _ in 0..11 {
        assert_eq!(desk.get("/", &used).await.status(), StatusCode::OK);
        bench.later("59 min").await;
    }
    assert_eq!(desk.get("/", &used).await.status(), StatusCode::OK, "11 h 49 min");
    bench.later("12 min").await;
    assert_eq!(refusal(desk.get("/", &used).await).await.0, 401, "twelve hours and a minute");
}

#[tokio::test]
async fn a_stream_that_comes_again_keeps_no_session_awake() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    for _ in 0..3 {
        bench.later("19 min").await;
        let stream =
            desk.ask(Method::GET, "/stream").header("cookie", &session).header("accept", "text/event-stream");
        assert_eq!(stream.send().await.expect("an answer").status(), StatusCode::OK);
    }
    bench.later("4 min").await;
    assert_eq!(refusal(desk.get("/", &session).await).await.0, 401);
}

#[tokio::test]
async fn a_use_is_written_once_a_minute() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let used = async || -> Option<String> {
        let sql = "SELECT last_used_at::text FROM router.desk_credentials WHERE kind = 'session'";
        bench.eyes.query_one(sql, &[]).await.expect("a row").get(0)
    };
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
    let first = used().await.expect("written");
    bench.later("50 s").await;
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
    assert_eq!(used().await.as_ref(), Some(&first));
    bench.later("11 s").await;
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
    assert_ne!(used().await.as_ref(), Some(&first));
}

#[tokio::test]
async fn who_leaves_is_out_in_every_tab() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let left = desk.post("/logout", &session).await;
    assert_eq!((left.status(), location(&left)), (StatusCode::SEE_OTHER, "/logged-out"));
    let set = left.headers()["set-cookie"].to_str().expect("text");
    assert!(set.starts_with("__Host-desk=;") && set.contains("Max-Age=0"), "{set}");
    assert_eq!(refusal(desk.get("/", &session).await).await.0, 401);
    assert_eq!(refusal(desk.post("/logout", &session).await).await.0, 401, "twice is once");
}

#[tokio::test]
async fn a_user_who_is_removed_is_out_at_once() {
    let mut bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let token = bench.token("rita", Role::Reviewer).await;
    bench.reload(|users| drop(users.remove("rita")));
    assert_eq!(refusal(desk.get("/", &session).await).await, (403, "unknown_user".to_owned()));
    let api = desk.ask(Method::GET, "/api/whoami").bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(refusal(api).await, (403, "unknown_user".to_owned()));
}

#[tokio::test]
async fn a_role_that_is_lowered_is_lower_at_once() {
    let mut bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "ada").await;
    assert_eq!(desk.get("/api/admin", &session).await.status(), StatusCode::OK);
    let lowered = DeskUser { email: "ada@example.org".to_owned(), role: Role::Reviewer };
    bench.reload(|users| drop(users.insert("ada".to_owned(), lowered)));
    let refused = desk.get("/api/admin", &session).await;
    let problem: Value = refused.json().await.expect("JSON");
    assert_eq!(problem["type"], "urn:maple-router:problem:role");
    assert_eq!((problem["needed"].as_str(), problem["role"].as_str()), (Some("admin"), Some("reviewer")));
    let who: Value = desk.get("/", &session).await.json().await.expect("JSON");
    assert_eq!(who["role"], "reviewer");
}

#[tokio::test]
async fn what_has_expired_is_deleted_and_what_counts_stays() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let many = "INSERT INTO router.desk_credentials (digest, kind, user_name, created_at, expires_at)
        SELECT sha256(n::text::bytea), 'link', 'rita', pg_catalog.now() - interval '2 h', pg_catalog.now() - interval '1 h'
        FROM generate_series(1, 1200) AS s (n)";
    bench.eyes.batch_execute(many).await.expect("written");
    bench.clock.advance(std::time::Duration::from_secs(600));
    for _ in 0..600 {
        if bench.count("router.desk_credentials WHERE user_name = 'rita' AND kind = 'link'").await == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(
        bench.count("router.desk_credentials").await,
        2,
        "the spent link that is not yet old, and the session"
    );
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
}
