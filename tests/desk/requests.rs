//! Which requests are answered at all, and what every answer has.

use std::collections::BTreeMap;

use maple_router::config::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Bench, HOST, ORIGIN, Opened, refusal};

/// What the desk answers to these very bytes, on a connection of their own.
async fn raw(desk: &Opened, request: &str) -> String {
    let address = desk.base.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn another_name_is_not_the_desks() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    // A name that was made to lead here, with the cookie of a browser that believes it; the port that was connected to.
    let own_port = desk.base.strip_prefix("http://").expect("an address").to_owned();
    for host in [
        "evil.example.org",
        "evil.example.org:9465",
        "127.0.0.1:9465",
        "localhost:9465",
        "desk.localhost",
        &own_port,
    ] {
        for path in ["/", "/assets/style.css", "/login/x", "/nowhere", "/api/whoami"] {
            let answer = desk.bare(Method::GET, path).header("host", host).header("cookie", &session);
            let answer = answer.send().await.expect("an answer");
            assert_eq!(refusal(answer).await, (421, "host".to_owned()), "{host} {path}");
        }
    }
    let of_target = format!(
        "GET http://evil.example.org/ HTTP/1.1\r\nhost: {HOST}\r\ncookie: {session}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(status(&raw(&desk, &of_target).await), "421");
    let two = format!(
        "GET / HTTP/1.1\r\nhost: {HOST}\r\nhost: evil.example.org\r\ncookie: {session}\r\nconnection: close\r\n\r\n"
    );
    assert_ne!(status(&raw(&desk, &two).await), "200");
    let none = format!("GET / HTTP/1.0\r\ncookie: {session}\r\n\r\n");
    assert_eq!(status(&raw(&desk, &none).await), "421");
    let ours = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\ncookie: {session}\r\nconnection: close\r\n\r\n");
    assert_eq!(status(&raw(&desk, &ours).await), "200");
}

#[tokio::test]
async fn only_our_own_pages_change_anything() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    // (Sec-Fetch-Site, Origin, may): `same-site` is what a page on another port of the same name has.
    let cases: &[(Option<&str>, Option<&str>, bool)] = &[
        (Some("same-origin"), Some(ORIGIN), true),
        (Some("same-origin"), None, true),
        (None, Some(ORIGIN), true),
        (Some("same-site"), Some("http://desk.localhost:8102"), false),
        (Some("same-site"), Some(ORIGIN), false),
        (Some("cross-site"), Some("http://evil.example.org"), false),
        (Some("none"), None, false),
        (None, None, false),
        (None, Some("null"), false),
        (None, Some("http://127.0.0.1:9465"), false),
    ];
    for (site, origin, may) in cases {
        for path in ["/echo", "/api/echo"] {
            for method in [Method::POST, Method::PUT, Method::DELETE] {
                let mut request =
                    desk.bare(method.clone(), path).header("host", HOST).header("cookie", &session);
                if let Some(site) = site {
                    request = request.header("sec-fetch-site", *site);
                }
                if let Some(origin) = origin {
                    request = request.header("origin", *origin);
                }
                let answer = request.send().await.expect("an answer");
                match (may, method == Method::POST) {
                    (true, true) => assert_eq!(answer.status(), StatusCode::OK, "{site:?} {origin:?}"),
                    (true, false) => {
                        assert_eq!(refusal(answer).await, (405, "method_not_allowed".to_owned()));
                    }
                    (false, _) => {
                        assert_eq!(
                            refusal(answer).await,
                            (403, "csrf".to_owned()),
                            "{method} {site:?} {origin:?}"
                        );
                    }
                }
            }
        }
        let get = desk.bare(Method::GET, "/").header("host", HOST).header("cookie", &session);
        let get = get.header("sec-fetch-site", site.unwrap_or("cross-site")).send().await.expect("an answer");
        assert_eq!(get.status(), StatusCode::OK, "a link from Slack works");
    }
}

#[tokio::test]
async fn a_stranger_cannot_log_a_browser_in_as_somebody_else() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let link = bench.link("rita").await;
    let pressed = desk.bare(Method::POST, &link).header("host", HOST).header("sec-fetch-site", "cross-site");
    let pressed = pressed.form(&[("to", "/")]).send().await.expect("an answer");
    assert_eq!(refusal(pressed).await, (403, "csrf".to_owned()));
    assert_eq!(desk.press(&link, None).await.status(), StatusCode::SEE_OTHER, "nothing was spent");
}

#[tokio::test]
async fn whatever_is_closed_needs_a_login_even_where_a_handler_forgets() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    for path in ["/", "/forgetful", "/stream", "/hurt", "/api/whoami"] {
        let answer = desk.ask(Method::GET, path).send().await.expect("an answer");
        assert_eq!(refusal(answer).await, (401, "unauthenticated".to_owned()), "{path}");
    }
    let open = desk.ask(Method::GET, "/assets/style.css").send().await.expect("an answer");
    assert_eq!(open.status(), StatusCode::OK);
    let nowhere = desk.ask(Method::GET, "/nowhere").send().await.expect("an answer");
    assert_eq!(refusal(nowhere).await, (404, "not_found".to_owned()));
}

#[tokio::test]
async fn every_answer_guards_its_page() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                  form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'";
    let expected = BTreeMap::from([
        ("content-security-policy", policy),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ]);
    for path in ["/", "/nowhere", "/hurt", "/assets/style.css", "/login/x", "/stream"] {
        let answer = desk.get(path, &session).await;
        for (name, value) in &expected {
            assert_eq!(answer.headers()[*name], *value, "{path}: {name}");
        }
        assert!(answer.headers()["permissions-policy"].to_str().expect("text").contains("camera=()"));
    }
    let other_host = desk.bare(Method::GET, "/").send().await.expect("an answer");
    assert_eq!(other_host.status(), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(other_host.headers()["content-security-policy"], policy);
}

#[tokio::test]
async fn a_body_has_at_most_64_kib() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let document = |size: usize| format!("\"{}\"", "x".repeat(size - 2));
    let send = async |path: &str, body: reqwest::Body| {
        let request = desk.ask(Method::POST, path).header("cookie", &session);
        request.header("content-type", "application/json").body(body).send().await.expect("an answer")
    };
    for path in ["/echo", "/document"] {
        assert_eq!(send(path, document(64 * 1024).into()).await.status(), StatusCode::OK, "{path}");
        let too_large = send(path, document(64 * 1024 + 1).into()).await;
        assert_eq!(too_large.headers()["connection"], "close", "{path}: nothing can follow an unread body");
        assert_eq!(refusal(too_large).await, (413, "too_large".to_owned()), "{path}");
    }
    // Without a length: it is counted as it comes.
    let address = desk.base.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let head = format!(
        "POST /echo HTTP/1.1\r\nhost: {HOST}\r\nsec-fetch-site: same-origin\r\ncookie: {session}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    for _ in 0..3 {
        stream.write_all(chunk.as_bytes()).await.expect("written");
    }
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).await.expect("an answer");
    assert_eq!(status(&String::from_utf8_lossy(&answer[..read])), "413");
}

#[tokio::test]
async fn a_content_that_is_not_understood_is_refused() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let post = |path: &str| desk.ask(Method::POST, path).header("cookie", &session);
    for path in ["/echo", "/document"] {
        for kind in ["text/plain", "multipart/form-data; boundary=x", "application/xml"] {
            let answer = post(path).header("content-type", kind).body("{}").send().await.expect("an answer");
            assert_eq!(refusal(answer).await, (415, "unsupported_media_type".to_owned()), "{path} {kind}");
        }
        let broken =
            post(path).header("content-type", "application/json").body("{").send().await.expect("an answer");
        assert_eq!(refusal(broken).await, (400, "bad_request".to_owned()), "{path}");
    }
    let unnamed = post("/echo").body("{}").send().await.expect("an answer");
    assert_eq!(refusal(unnamed).await.0, 415);
    // A form, a document, and nothing.
    let form =
        post("/echo").form(&[("reason", "x"), ("idempotency_key", "k-1")]).send().await.expect("an answer");
    let form: Value = form.json().await.expect("JSON");
    assert_eq!(
        (form["form"].as_bool(), form["key"].as_str(), form["body"]["reason"].as_str()),
        (Some(true), Some("k-1"), Some("x"))
    );
    let document = post("/echo")
        .header("idempotency-key", "k-2")
        .json(&json!({"a": 1}))
        .send()
        .await
        .expect("an answer");
    let document: Value = document.json().await.expect("JSON");
    assert_eq!(
        (document["form"].as_bool(), document["key"].as_str(), document["body"]["a"].as_i64()),
        (Some(false), Some("k-2"), Some(1))
    );
    let nothing: Value = post("/echo").send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(nothing["body"], json!({}));
    let bad_key =
        post("/echo").header("idempotency-key", "a b").json(&json!({})).send().await.expect("an answer");
    assert_eq!(refusal(bad_key).await, (400, "bad_request".to_owned()));
}

#[tokio::test]
async fn a_head_is_bounded() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let long = format!(
        "GET / HTTP/1.1\r\nhost: {HOST}\r\nx: {}\r\nconnection: close\r\n\r\n",
        "x".repeat(17 * 1024)
    );
    assert_eq!(status(&raw(&desk, &long).await), "431");
    let many: String = (0..70).map(|n| format!("x-{n}: x\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\n{many}connection: close\r\n\r\n");
    assert_eq!(status(&raw(&desk, &many).await), "431");
}

#[tokio::test]
async fn a_panic_is_one_requests_and_quotes_nothing() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let hurt = futures::future::join_all((0..4).map(|_| desk.get("/hurt", &session)));
    let fine = futures::future::join_all((0..4).map(|_| desk.get("/", &session)));
    let (hurt, fine) = futures::join!(hurt, fine);
    for answer in hurt {
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let text = answer.text().await.expect("a body");
        assert!(text.contains("urn:maple-router:problem:internal") && !text.contains("bob@"), "{text}");
    }
    assert!(fine.iter().all(|answer| answer.status() == StatusCode::OK));
}

#[tokio::test]
async fn a_person_is_shown_a_page_and_a_program_a_document() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "vera").await;
    let asked = async |path: &str, cookie: &str| {
        let request =
            desk.ask(Method::GET, path).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        let answer = request.header("cookie", cookie).send().await.expect("an answer");
        let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
        (answer.status().as_u16(), kind, answer.text().await.expect("a body"))
    };
    let html = "text/html; charset=utf-8";
    let (status, kind, page) = asked("/", "").await;
    assert_eq!((status, kind.as_str()), (401, html));
    assert!(page.contains("desk login NAME") && !page.contains("logged in as"), "{page}");
    let (status, kind, page) = asked("/hurt", &session).await;
    assert_eq!((status, kind.as_str()), (500, html));
    assert!(page.contains("logged in as vera"), "{page}");
    assert_eq!(asked("/nowhere", &session).await.0, 404);
    let (status, kind, _) = asked("/api/admin", &session).await;
    assert_eq!((status, kind.as_str()), (403, "application/problem+json"));
}

#[tokio::test]
async fn what_is_answered_is_counted_by_class_and_never_by_path() {
    let recorder = maple_router::ops::metrics::install(maple_router::daemon::ROOMS).expect("metrics");
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let token = bench.token("rita", Role::Viewer).await;
    assert_eq!(desk.get("/", &session).await.status(), 200);
    assert_eq!(desk.get("/", "").await.status(), 401);
    let link = bench.link("rita").await;
    assert_eq!(desk.ask(Method::GET, &link).send().await.expect("an answer").status(), 200);
    assert_eq!(desk.press("/login/short", None).await.status(), 401);
    let api = desk.ask(Method::GET, "/api/whoami").bearer_auth(&token);
    assert_eq!(api.send().await.expect("an answer").status(), 200);
    assert_eq!(desk.get("/stream", &session).await.status(), 200);
    assert_eq!(desk.get("/assets/style.css", &session).await.status(), 200);
    assert_eq!(desk.get("/nowhere", &session).await.status(), 404);
    let shown = recorder.render();
    for line in [
        "maple_router_desk_requests_total{route=\"page\",status=\"2xx\"} 1",
        "maple_router_desk_requests_total{route=\"page\",status=\"4xx\"} 1",
        "maple_router_desk_requests_total{route=\"login\",status=\"2xx\"} 1",
        "maple_router_desk_requests_total{route=\"login\",status=\"3xx\"} 1",
        "maple_router_desk_requests_total{route=\"login\",status=\"4xx\"} 1",
        "maple_router_desk_requests_total{route=\"api\",status=\"2xx\"} 1",
        "maple_router_desk_requests_total{route=\"stream\",status=\"2xx\"} 1",
        "maple_router_desk_requests_total{route=\"asset\",status=\"2xx\"} 1",
        "maple_router_desk_requests_total{route=\"other\",status=\"4xx\"} 1",
        "maple_router_desk_problems_total{kind=\"not_found\"} 1",
        "maple_router_desk_problems_total{kind=\"unauthenticated\"} 2",
        "maple_router_desk_logins_total{outcome=\"logged_in\"} 1",
        "maple_router_desk_logins_total{outcome=\"refused_link\"} 1",
        "maple_router_desk_request_seconds_count 9",
    ] {
        assert!(shown.contains(line), "{line} is missing in:\n{shown}");
    }
    assert!(!shown.contains("/login") && !shown.contains("nowhere"), "{shown}");
}
