//! Login links: shown as often as anybody likes, spent once.

use maple_router::config::DeskUser;
use maple_router::desk::access::credential::{Credential, Kind};
use maple_router::ops::rng::Rng;
use reqwest::{Method, StatusCode};

use crate::harness::{Bench, HOST, cookie, location, refusal};

#[tokio::test]
async fn a_link_is_shown_to_scanners_and_spent_by_its_button() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let link = bench.link("rita").await;
    for _ in 0..3 {
        // A preview follows the link: no browser's headers, no cookie.
        let shown = desk.bare(Method::GET, &link).header("host", HOST).send().await.expect("an answer");
        assert_eq!(shown.status(), StatusCode::OK);
        assert_eq!(cookie(shown.headers()), None);
        let page = shown.text().await.expect("a page");
        let action = format!("action=\"{}\"", link.replace('/', "&#x2f;"));
        assert!(page.contains(&action) && page.contains("<button"), "{page}");
    }
    assert_eq!(
        bench.count("router.desk_credentials WHERE ended_at IS NOT NULL").await,
        0,
        "nothing is spent"
    );
    let answer = desk.press(&link, None).await;
    assert_eq!((answer.status(), location(&answer)), (StatusCode::SEE_OTHER, "/"));
    let set = answer.headers()["set-cookie"].to_str().expect("text").to_owned();
    for part in
        ["__Host-desk=", "; Path=/;", "; Secure;", "; HttpOnly;", "; SameSite=Lax", "; Max-Age=43200;"]
    {
        assert!(set.contains(part), "{part}: {set}");
    }
    assert!(!set.contains("Domain"), "{set}");
    let session = cookie(answer.headers()).expect("a cookie");
    let page = desk.get("/", &session).await;
    assert_eq!(page.status(), StatusCode::OK);
    let who: serde_json::Value = page.json().await.expect("JSON");
    assert_eq!(who, serde_json::json!({"user": "rita", "role": "reviewer", "by": "session"}));
}

#[tokio::test]
async fn a_spent_link_opens_nothing() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let link = bench.link("rita").await;
    let session = desk.log_in(&bench, "sam").await;
    assert_eq!(desk.press(&link, None).await.status(), StatusCode::SEE_OTHER);
    // Another browser, without a session and with somebody else's.
    for cookie in [None, Some(session.as_str())] {
        let again = desk.press(&link, cookie).await;
        assert!(again.headers().get("set-cookie").is_none());
        assert_eq!(refusal(again).await, (401, "unauthenticated".to_owned()));
    }
    assert_eq!(bench.count("router.desk_credentials WHERE kind = 'session' AND user_name = 'rita'").await, 1);
}

#[tokio::test]
async fn two_browsers_at_once_make_one_session() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let link = bench.link("rita").await;
    let pressed = futures::future::join_all((0..12).map(|_| desk.press(&link, None))).await;
    let cookies = pressed.iter().filter_map(|answer| cookie(answer.headers())).count();
    assert_eq!(cookies, 1);
    assert_eq!(bench.count("router.desk_credentials WHERE kind = 'session'").await, 1);
}

#[tokio::test]
async fn a_second_tab_of_the_same_browser_is_led_on() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let link = bench.link("rita").await;
    let session = cookie(desk.press(&link, None).await.headers()).expect("a cookie");
    let again = desk.press(&link, Some(&session)).await;
    assert_eq!((again.status(), location(&again)), (StatusCode::SEE_OTHER, "/"));
    assert_eq!(cookie(again.headers()), None, "no further session");
    assert_eq!(bench.count("router.desk_credentials WHERE kind = 'session'").await, 1);
}

#[tokio::test]
async fn a_login_takes_a_new_session_and_ends_the_old_one() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let old = desk.log_in(&bench, "rita").await;
    let answer = desk.press(&bench.link("sam").await, Some(&old)).await;
    let new = cookie(answer.headers()).expect("a cookie");
    assert_ne!(old, new);
    assert_eq!(desk.get("/", &old).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(desk.get("/", &new).await.status(), StatusCode::OK);
    // A cookie that somebody planted becomes nobody's session.
    let planted = format!("__Host-desk={}", Credential::new(Kind::Session, &Rng::seeded(1)).expose());
    let answer = desk.press(&bench.link("ada").await, Some(&planted)).await;
    assert_ne!(cookie(answer.headers()).expect("a cookie"), planted);
    assert_eq!(desk.get("/", &planted).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_link_lives_ten_minutes_by_the_databases_clock() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let (soon, late) = (bench.link("rita").await, bench.link("rita").await);
    bench.later("9 min 59 s").await;
    assert_eq!(desk.press(&soon, None).await.status(), StatusCode::SEE_OTHER);
    bench.later("2 s").await;
    assert_eq!(refusal(desk.press(&late, None).await).await.0, 401);
}

#[tokio::test]
async fn what_is_no_link_is_refused_without_a_word_about_why() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let stranger = Credential::new(Kind::Link, &Rng::seeded(9)).expose().to_owned();
    // A session's or a token's text is no link, though its digest would be in the same table.
    let session = desk.log_in(&bench, "rita").await;
    let session = session.split_once('=').expect("a pair").1.to_owned();
    let mut told = Vec::new();
    for token in [stranger.as_str(), session.as_str(), "short"] {
        let answer = desk.press(&format!("/login/{token}"), None).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{token}");
        told.push(answer.text().await.expect("a body"));
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{told:?}");
    let shown = desk.ask(Method::GET, "/login/short").send().await.expect("an answer");
    assert_eq!(refusal(shown).await, (401, "unauthenticated".to_owned()));
}

#[tokio::test]
async fn a_link_leads_to_our_own_pages_only() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    for (to, expected) in [
        ("/queue?state=Pending", "/queue?state=Pending"),
        ("//evil.example.org/", "/"),
        ("https://evil.example.org/", "/"),
        ("/\\evil.example.org", "/"),
    ] {
        let link = bench.link("rita").await;
        let query =
            format!("{link}?to={}", url::form_urlencoded::byte_serialize(to.as_bytes()).collect::<String>());
        let page =
            desk.ask(Method::GET, &query).send().await.expect("an answer").text().await.expect("a page");
        assert!(page.contains(&format!("value=\"{}\"", expected.replace('/', "&#x2f;"))), "{to}: {page}");
        let pressed = desk.ask(Method::POST, &link).form(&[("to", to)]).send().await.expect("an answer");
        assert_eq!((pressed.status(), location(&pressed)), (StatusCode::SEE_OTHER, expected), "{to}");
    }
}

#[tokio::test]
async fn a_link_of_a_user_who_is_gone_logs_nobody_in() {
    let mut bench = Bench::new().await;
    let desk = bench.open().await;
    let link = bench.link("rita").await;
    bench.reload(|users| drop(users.remove("rita")));
    assert_eq!(refusal(desk.press(&link, None).await).await, (403, "unknown_user".to_owned()));
    assert_eq!(bench.count("router.desk_credentials WHERE kind = 'session'").await, 0);
    // Nor later, should there be one of that name again.
    bench.reload(|users| drop(users.insert("rita".to_owned(), DeskUser::default())));
    assert_eq!(refusal(desk.press(&link, None).await).await.0, 401);
}

#[tokio::test]
async fn attempts_to_log_in_are_limited_together() {
    let mut bench = Bench::new().await;
    bench.bounds.logins.0 = 3.try_into().expect("not zero");
    let desk = bench.open().await;
    let good = bench.link("rita").await;
    let guess = |seed| format!("/login/{}", Credential::new(Kind::Link, &Rng::seeded(seed)).expose());
    for seed in 0..3 {
        assert_eq!(refusal(desk.press(&guess(seed), None).await).await.0, 401);
    }
    let limited = desk.press(&good, None).await;
    let after: u64 = limited.headers()["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=20).contains(&after), "{after}");
    assert_eq!(refusal(limited).await, (429, "rate_limited".to_owned()));
    bench.clock.advance(std::time::Duration::from_secs(after));
    assert_eq!(desk.press(&good, None).await.status(), StatusCode::SEE_OTHER, "the link still counts");
}
