//! The desk behind a proxy that signs who somebody is: nothing else counts, and what cannot be verified is nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode as Code;
use axum::routing::get;
use maple_router::config::{Assertion, DeskAuth, Role};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::assertions::{AUDIENCE, ISSUER, KID, Signer, claims, head, in_seconds, signed};
use crate::harness::{Bench, HOST, Opened, PATIENCE, refusal};

const HEADER: &str = "x-goog-iap-jwt-assertion";

/// The address of a proxy's keys.
struct KeyServer {
    url: String,
    answer: watch::Sender<(u16, String)>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    async fn start(keys: &[Value]) -> Self {
        let (answer, asked) = (watch::channel((200, jwks(keys))).0, Arc::new(AtomicUsize::new(0)));
        let (seen, count) = (answer.subscribe(), Arc::clone(&asked));
        let serve = move || {
            count.fetch_add(1, Ordering::SeqCst);
            let (status, body) = seen.borrow().clone();
            async move { (Code::from_u16(status).expect("a status"), [("location", "/elsewhere")], body) }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
        let elsewhere = Router::new().route("/keys", get(serve)).route("/elsewhere", get(|| async { "{}" }));
        tokio::spawn(async move { axum::serve(listener, elsewhere).await });
        Self { url, answer, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until it was asked so often.
    async fn asked_for(&self, times: usize) {
        for _ in 0..600 {
            if self.asked() >= times {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("asked {} times", self.asked());
    }
}

fn jwks(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn asserted(bench: &mut Bench, url: &str) {
    bench.config.desk.auth = DeskAuth::Assertion;
    bench.config.desk.assertion = Some(Assertion {
        header: HEADER.to_owned(),
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        keys_url: Some(url.to_owned()),
        ..Assertion::default()
    });
}

fn with(desk: &Opened, path: &str, assertion: &str) -> RequestBuilder {
    desk.ask(Method::GET, path).header(HEADER, assertion)
}

/// Asks until the keys are known.
async fn settled(desk: &Opened, assertion: &str) -> Value {
    for _ in 0..600 {
        let answer = with(desk, "/", assertion).send().await.expect("an answer");
        if answer.status() == StatusCode::OK {
            return answer.json().await.expect("JSON");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never believed");
}

#[tokio::test]
async fn whoever_the_proxy_names_is_let_in_as_the_configuration_says() {
    let mut bench = Bench::new().await;
    let signer = Signer::es256();
    let keys = KeyServer::start(&[signer.jwk(KID)]).await;
    asserted(&mut bench, &keys.url);
    let desk = bench.open().await;
    let of = |email: &str| signed(&signer, &head(), &claims(email));
    let who = settled(&desk, &of("Rita@example.org")).await;
    assert_eq!(who, json!({"user": "rita", "role": "reviewer", "by": "assertion"}));
    let stranger = with(&desk, "/", &of("eve@example.org")).send().await.expect("an answer");
    let text = stranger.text().await.expect("a body");
    assert!(text.contains("problem:unknown_user") && text.contains("[desk.users.NAME]"), "{text}");
    bench.reload(|users| drop(users.remove("rita")));
    let removed = with(&desk, "/", &of("rita@example.org")).send().await.expect("an answer");
    assert_eq!(refusal(removed).await, (403, "unknown_user".to_owned()));
    // There is nothing to log in to, and nothing to log out of.
    assert_eq!(
        desk.ask(Method::GET, &bench.link("sam").await).send().await.expect("an answer").status(),
        404
    );
    let out = desk
        .ask(Method::POST, "/logout")
        .header(HEADER, of("sam@example.org"))
        .send()
        .await
        .expect("an answer");
    assert_eq!(refusal(out).await, (400, "bad_request".to_owned()));
    assert_eq!(keys.asked(), 1, "the keys are kept");
}

#[tokio::test]
async fn nothing_but_the_signed_header_counts() {
    let mut bench = Bench::new().await;
    let session = bench.open().await.log_in(&bench, "ada").await;
    let signer = Signer::es256();
    let keys = KeyServer::start(&[signer.jwk(KID)]).await;
    asserted(&mut bench, &keys.url);
    let desk = bench.open().await;
    let good = signed(&signer, &head(), &claims("rita@example.org"));
    settled(&desk, &good).await;
    let ask = || desk.ask(Method::GET, "/");
    let forged = signed(&Signer::es256(), &head(), &claims("ada@example.org"));
    let expired = {
        let mut over = claims("ada@example.org");
        over["exp"] = json!(in_seconds(-120));
        signed(&signer, &head(), &over)
    };
    let refused = [
        ("no header", ask()),
        ("a cookie that counted elsewhere", ask().header("cookie", &session)),
        (
            "unsigned headers",
            ask().header("x-goog-authenticated-user-email", "accounts.google.com:ada@example.org"),
        ),
        ("other proxies' headers", ask().header("x-forwarded-user", "ada").header("remote-user", "ada")),
        ("the same in another header", ask().header("cf-access-jwt-assertion", &good)),
        ("as a bearer", ask().bearer_auth(&good)),
        ("two of them", ask().header(HEADER, &good).header(HEADER, &forged)),
        ("another key", ask().header(HEADER, &forged)),
        ("another key, beside a cookie", ask().header(HEADER, &forged).header("cookie", &session)),
        ("expired", ask().header(HEADER, &expired)),
        ("an empty one", ask().header(HEADER, "")),
        ("plain text", ask().header(HEADER, "ada@example.org")),
    ];
    for (what, request) in refused {
        let answer = request.send().await.expect("an answer");
        assert_eq!(refusal(answer).await, (401, "unauthenticated".to_owned()), "{what}");
    }
}

#[tokio::test]
async fn a_proxys_own_cookie_does_not_make_changes_ours() {
    let mut bench = Bench::new().await;
    let signer = Signer::es256();
    let keys = KeyServer::start(&[signer.jwk(KID)]).await;
    asserted(&mut bench, &keys.url);
    let desk = bench.open().await;
    let good = signed(&signer, &head(), &claims("rita@example.org"));
    settled(&desk, &good).await;
    // The proxy signs whatever a browser sends, another page's form included.
    let post = |site: &str| {
        desk.bare(Method::POST, "/echo")
            .header("host", HOST)
            .header("sec-fetch-site", site)
            .header(HEADER, &good)
    };
    assert_eq!(refusal(post("cross-site").send().await.expect("an answer")).await, (403, "csrf".to_owned()));
    assert_eq!(post("same-origin").send().await.expect("an answer").status(), StatusCode::OK);
}

#[tokio::test]
async fn a_token_works_behind_the_proxy_as_well() {
    let mut bench = Bench::new().await;
    let signer = Signer::es256();
    let keys = KeyServer::start(&[signer.jwk(KID)]).await;
    asserted(&mut bench, &keys.url);
    let desk = bench.open().await;
    let token = bench.token("vera", Role::Admin).await;
    let who: Value = desk
        .ask(Method::GET, "/api/whoami")
        .bearer_auth(&token)
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    assert_eq!(who, json!({"user": "vera", "role": "viewer", "by": "token"}));
}

#[tokio::test]
async fn keys_are_changed_without_a_restart_and_not_at_strangers_pace() {
    let mut bench = Bench::new().await;
    let (old, new) = (Signer::es256(), Signer::es256());
    let keys = KeyServer::start(&[old.jwk(KID)]).await;
    asserted(&mut bench, &keys.url);
    let desk = bench.open().await;
    let by_old = signed(&old, &head(), &claims("rita@example.org"));
    let by_new = signed(&new, &json!({"alg": "ES256", "kid": "key-2"}), &claims("rita@example.org"));
    settled(&desk, &by_old).await;
    keys.answer.send_replace((200, jwks(&[old.jwk(KID), new.jwk("key-2")])));
    // Within a minute of the last look, unknown names make nobody look.
    for n in 0..20 {
        let unknown = signed(
            &new,
            &json!({"alg": "ES256", "kid": format!("strange-{n}")}),
            &claims("rita@example.org"),
        );
        assert_eq!(refusal(with(&desk, "/", &unknown).send().await.expect("an answer")).await.0, 401);
    }
    assert_eq!(keys.asked(), 1);
    bench.clock.advance(Duration::from_secs(60));
    let all = (0..10).map(|_| async { with(&desk, "/", &by_new).send().await.expect("an answer").status() });
    assert!(futures::future::join_all(all).await.iter().all(|status| *status == StatusCode::OK));
    assert_eq!(keys.asked(), 2, "one look for all who wait");
    assert_eq!(with(&desk, "/", &by_old).send().await.expect("an answer").status(), StatusCode::OK);
}

#[tokio::test]
async fn keys_that_are_known_outlive_whoever_publishes_them() {
    let mut bench = Bench::new().await;
    let signer = Signer::es256();
    let keys = KeyServer::start(&[signer.jwk(KID)]).await;
    asserted(&mut bench, &keys.url);
    let desk = bench.open().await;
    let good = signed(&signer, &head(), &claims("rita@example.org"));
    settled(&desk, &good).await;
    let mut looks = keys.asked();
    for broken in [
        (500, String::new()),
        (200, "no JSON".to_owned()),
        (200, jwks(&[])),
        (200, format!("{{\"keys\": [], \"x\": \"{}\"}}", "x".repeat(300 * 1024))),
        (302, jwks(&[Signer::es256().jwk(KID)])),
    ] {
        keys.answer.send_replace(broken.clone());
        bench.clock.advance(Duration::from_secs(3600));
        looks += 1;
        keys.asked_for(looks).await;
        let answer = with(&desk, "/", &good).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{}", broken.0);
    }
}

#[tokio::test]
async fn without_any_key_nobody_is_believed() {
    let mut bench = Bench::new().await;
    let signer = Signer::es256();
    let keys = KeyServer::start(&[]).await;
    asserted(&mut bench, &keys.url);
    let desk = bench.open().await;
    keys.asked_for(1).await;
    let good = signed(&signer, &head(), &claims("rita@example.org"));
    let waits = with(&desk, "/", &good).send().await.expect("an answer");
    assert_eq!(waits.headers()["retry-after"], "60");
    assert_eq!(refusal(waits).await, (503, "busy".to_owned()));
    assert_eq!(refusal(desk.ask(Method::GET, "/").send().await.expect("an answer")).await.0, 401);
    keys.answer.send_replace((200, jwks(&[signer.jwk(KID)])));
    bench.clock.advance(Duration::from_secs(60));
    settled(&desk, &good).await;
}

#[tokio::test]
async fn keys_may_lie_in_a_file() {
    let mut bench = Bench::new().await;
    let signer = Signer::es256();
    let file = bench.dir().join("jwks.json");
    std::fs::write(&file, jwks(&[signer.jwk(KID)])).expect("written");
    asserted(&mut bench, "");
    let rules = bench.config.desk.assertion.as_mut().expect("there");
    (rules.keys_url, rules.keys_file) = (None, Some(file));
    let desk = tokio::time::timeout(PATIENCE, bench.open()).await.expect("in time");
    let good = signed(&signer, &head(), &claims("sam@example.org"));
    assert_eq!(settled(&desk, &good).await["user"], "sam");
}
