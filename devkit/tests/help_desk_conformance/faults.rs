//! Each scripted fault as a client without any cleverness sees it, and what is made of the ticket meanwhile.

use std::time::{Duration, Instant};

use devkit::help_desk::{
    Account, Act, Call, Field, HelpDeskOptions, Keep, Kind, Limits, Naming, Rule, Stage, Wait,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{PATIENCE, World, said, ticket};

#[expect(clippy::disallowed_methods, reason = "how long a client waited, in real time")]
fn now() -> Instant {
    Instant::now()
}

fn at(stage: Stage, act: Act) -> Rule {
    Rule::at(stage).times(1).act(act)
}

#[tokio::test]
async fn a_5xx_before_and_after_the_ticket_is_made() {
    let world = World::new().await;
    for (stage, made) in [(Stage::Head, 0), (Stage::Body, 0), (Stage::Answer, 1)] {
        world.desk.rule(at(stage, Act::Status(503)).call(Call::Create));
        let (status, body) = said(world.creating("t").send().await.unwrap()).await;
        assert_eq!((status, body["error"].is_string()), (503, true), "{body}");
        assert_eq!(world.desk.counters().made, made, "{stage:?}");
    }
    assert_eq!(world.found("t").await, [1], "the rules are used up");
}

#[tokio::test]
async fn a_connection_ends_at_every_stage() {
    let world = World::new().await;
    for (stage, posts, made) in
        [(Stage::Accepted, 0, 0), (Stage::Head, 1, 0), (Stage::Body, 2, 0), (Stage::Answer, 3, 1)]
    {
        world.desk.rule(at(stage, Act::Disconnect));
        let failed = world.creating("t").send().await.expect_err("no answer");
        assert!(!failed.is_timeout() && !failed.is_connect(), "{stage:?}: {failed:?}");
        let counters = world.desk.counters();
        assert_eq!((counters.posts, counters.made), (posts, made), "{stage:?}");
    }
    assert_eq!(world.create("t").await, 2);
}

#[tokio::test]
async fn nothing_is_said_until_the_client_gives_up() {
    let world = World::new().await;
    for (stage, made) in [(Stage::Accepted, 0), (Stage::Head, 0), (Stage::Body, 0), (Stage::Answer, 1)] {
        world.desk.rule(at(stage, Act::Silence));
        let failed =
            world.creating("t").timeout(Duration::from_millis(400)).send().await.expect_err("no answer");
        assert!(failed.is_timeout(), "{stage:?}: {failed:?}");
        assert_eq!(world.desk.counters().made, made, "{stage:?}");
    }
}

#[tokio::test]
async fn answers_that_say_nothing_of_the_ticket() {
    let world = World::new().await;
    let spoilt = [Act::Html(200), Act::WithoutId, Act::WrongId, Act::Truncated];
    for (made, act) in (1..).zip(spoilt.clone()) {
        world.desk.rule(at(Stage::Answer, act.clone()));
        let response = world.creating("t").send().await.unwrap();
        let html = response.headers()["content-type"].to_str().unwrap().starts_with("text/html");
        let (status, body) = said(response).await;
        assert_eq!((status, html), (200, act == Act::Html(200)), "{body}");
        assert_eq!(body["id"].as_u64(), None, "{act:?}: {body}");
        assert_eq!(world.desk.counters().made, made);
        let no_json = act == Act::Html(200) || act == Act::Truncated;
        let id = if act == Act::WrongId { json!("not-a-number") } else { Value::Null };
        assert_eq!((body.is_string(), &body["id"]), (no_json, &id), "{act:?}: {body}");
    }
    // Before it is made the same words are a lie.
    world.desk.rule(at(Stage::Body, Act::Html(200)));
    assert_eq!(said(world.creating("u").send().await.unwrap()).await.0, 200);
    assert_eq!(world.found("u").await, [0_u64; 0]);
    assert_eq!(world.found("t").await.len(), spoilt.len());
}

#[tokio::test]
async fn a_redirect_names_another_place() {
    let (world, other) = (World::new().await, World::new().await);
    let there = format!("{}tickets/", other.desk.api_url());
    world.desk.rule(at(Stage::Body, Act::Redirect(there.clone())));
    let response = world.creating("t").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["location"].to_str().unwrap()),
        (302, there.as_str())
    );
    assert_eq!((world.desk.counters().made, other.desk.counters().connections), (0, 0));
}

#[tokio::test]
async fn a_429_names_its_wait_in_either_form() {
    let world = World::new().await;
    let ten_hours = 36_000;
    for wait in [
        Wait::in_header(ten_hours),
        Wait::in_body(ten_hours),
        Wait::in_both(ten_hours),
        Wait::unnamed(),
        Wait { header: Some(1), body: Some(300) },
    ] {
        world.desk.rule(at(Stage::Body, Act::Throttled(wait)));
        let response = world.creating("t").send().await.unwrap();
        let header =
            response.headers().get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap());
        let (status, body) = said(response).await;
        let named =
            wait.body.map_or("Throttled.".to_owned(), |wait| format!("Throttled, wait {wait} seconds."));
        assert_eq!((status, header, body), (429, wait.header, Value::String(named)));
    }
    assert_eq!(
        (world.desk.counters().made, world.desk.counters().throttled),
        (0, 0),
        "not the account's own limit"
    );
}

#[tokio::test]
async fn past_a_limit_every_request_is_refused_until_the_throttle_ends() {
    let limits =
        Limits { posts: 3, throttle: Duration::from_secs(600), naming: Naming::Header, ..Limits::default() };
    let world = World::with(HelpDeskOptions { limits, ..HelpDeskOptions::default() }).await;
    for _ in 0..3 {
        world.create("t").await;
    }
    let refused = world.creating("t").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "600"));
    let read = world.get("ticket/1/").send().await.unwrap();
    assert_eq!(read.status(), 429, "a GET as well");
    world.desk.set_limits(Limits { naming: Naming::Body, ..limits });
    let (_, words) = said(world.get("ticket/1/").send().await.unwrap()).await;
    assert!(words.as_str().unwrap().starts_with("Throttled, wait "), "{words}");
    let counters = world.desk.counters();
    assert_eq!((counters.made, counters.throttled, counters.posts, counters.gets), (3, 3, 4, 2));
    assert_eq!((world.desk.peaks().posts, world.desk.peaks().gets), (4, 2));
    world.desk.end_throttle();
    world.create("t").await;
    world.desk.throttle(Duration::from_millis(300));
    assert_eq!(world.creating("t").send().await.unwrap().status(), 429);
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert_eq!(world.create("t").await, 5);
}

#[tokio::test]
async fn the_index_lags_behind() {
    let world = World::new().await;
    world.desk.set_index_lag(Duration::from_millis(700));
    world.create("slow").await;
    assert_eq!(world.found("slow").await, [0_u64; 0]);
    assert_eq!(
        said(world.get("ticket/1/").send().await.unwrap()).await.1["tags"],
        "slow",
        "read, it is there"
    );
    let seen = devkit::waiting::until(PATIENCE, Duration::from_millis(50), async || {
        world.found("slow").await == [1]
    });
    assert!(seen.await, "never seen");
    world.desk.release_index();
    world.desk.hold_index();
    world.create("held").await;
    assert_eq!((world.found("held").await.len(), world.found("slow").await.len()), (0, 1));
    world.desk.release_index();
    assert_eq!(world.found("held").await, [2]);
}

#[tokio::test]
async fn a_search_finds_others_or_everything_or_nothing() {
    let world = World::new().await;
    world.create("mine").await;
    world.create("yours").await;
    let rule = |act| at(Stage::Body, act).call(Call::Search).tagged("mine");
    world.desk.rule(rule(Act::Strangers(3)));
    assert_eq!(world.found("yours").await, [2], "another search");
    let (_, body) = world.search("tag:\"mine\"").await;
    let rows = body["data"].as_array().unwrap();
    assert_eq!((rows.len(), &body["page_info"]["last_index"]), (3, &json!(3)));
    assert!(rows.iter().all(|row| row["tags"] != "mine" && row["id"].as_u64() > Some(100)), "{body}");
    world.desk.rule(rule(Act::IgnoreQuery));
    assert_eq!(world.found("mine").await, [2, 1]);
    world.desk.rule(rule(Act::Status(503)));
    assert_eq!(world.search("tag:\"mine\"").await.0, 503);
    assert_eq!(world.found("mine").await, [1]);
}

#[tokio::test]
async fn answers_are_slow() {
    let world = World::new().await;
    world.desk.rule(Rule::at(Stage::Answer).delay(Duration::from_millis(300)));
    let start = now();
    world.create("t").await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    let failed = world.creating("t").timeout(Duration::from_millis(100)).send().await.expect_err("too slow");
    assert!(failed.is_timeout());
    world.desk.clear_rules();
    world.desk.await_tickets(2, PATIENCE).await.expect("made, and nobody heard of it");
}

#[tokio::test]
async fn administrators_change_the_account_meanwhile() {
    let world = World::new().await;
    let create = async |changes: Value| {
        let (status, body) = said(world.post("tickets/").json(&ticket(changes)).send().await.unwrap()).await;
        (status, body["error"][0]["field"].clone())
    };
    let named = async || {
        let (_, list) = said(world.get("categories/").send().await.unwrap()).await;
        list.as_array()
            .unwrap()
            .iter()
            .map(|row| (row["name"].clone(), row["public"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(create(json!({"t-cf-2": 11})).await.0, 200);
    world.desk.change(|account| account.set_public(1, false));
    assert_eq!(create(json!({})).await, (400, json!("category")));
    assert_eq!(named().await[0], (json!("General"), json!(false)));
    world.desk.change(|account| account.set_public(1, true));
    world.desk.change(|account| account.rename_category(1, "Everything"));
    assert_eq!(named().await[0], (json!("Everything"), json!(true)));
    assert_eq!(create(json!({})).await.0, 200);
    world.desk.change(|account| account.remove_ticket_field(2));
    assert_eq!(create(json!({"t-cf-2": 11})).await, (400, json!("t-cf-2")));
    world.desk.change(|account| account.ticket_fields.push(Field::new(8, "Case", Kind::Text).required()));
    assert_eq!(create(json!({})).await, (400, json!("t-cf-8")));
    world.desk.change(|account| account.remove_category(1));
    assert_eq!(create(json!({"t-cf-8": "C"})).await, (400, json!("category")));
    let (status, old) = said(world.get("ticket/1/").send().await.unwrap()).await;
    assert_eq!(
        (status, &old["category"]["name"]),
        (200, &json!("General")),
        "a ticket outlives its category"
    );
}

#[tokio::test]
async fn a_request_is_caught_before_and_after_the_ticket_is_made() {
    let world = World::new().await;
    let mut made = 0;
    for (stage, before, cut, after) in [
        (Stage::Body, 0, false, 1),
        (Stage::Body, 0, true, 0),
        (Stage::Answer, 1, false, 1),
        (Stage::Answer, 1, true, 1),
    ] {
        let trapped = world.desk.trap(Rule::at(stage).call(Call::Create).tagged("t"));
        let sending = tokio::spawn(world.creating("t").send());
        trapped.hit(PATIENCE).await.unwrap();
        assert_eq!(world.desk.counters().made, made + before, "{stage:?}");
        assert!(!sending.is_finished());
        if cut {
            trapped.cut();
        } else {
            trapped.release();
        }
        assert_eq!(sending.await.unwrap().is_err(), cut, "{stage:?}");
        made += after;
        assert_eq!(world.desk.counters().made, made, "{stage:?}, cut: {cut}");
    }
}

#[tokio::test]
async fn a_request_that_was_read_is_done_though_its_client_is_gone() {
    let world = World::new().await;
    let trapped = world.desk.trap(Rule::at(Stage::Body).call(Call::Create));
    let sending = tokio::spawn(world.creating("t").send());
    trapped.hit(PATIENCE).await.unwrap();
    sending.abort();
    assert!(sending.await.unwrap_err().is_cancelled());
    // The server hears of it, and goes on all the same.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.desk.counters().made, 0);
    trapped.release();
    world.desk.await_tickets(1, PATIENCE).await.unwrap();
    // A request of which the client sent half is not.
    let mut half = TcpStream::connect(world.desk.base_url().replace("http://", "")).await.unwrap();
    let head = "POST /api/1.1/json/tickets/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n";
    half.write_all(format!("{head}\r\n{{").as_bytes()).await.unwrap();
    drop(half);
    assert_eq!(world.create("t").await, 2);
}

#[tokio::test]
async fn a_stop_ends_everything_and_a_restart_keeps_the_tickets() {
    let world = World::new().await;
    world.create("t").await;
    let trapped = world.desk.trap(Rule::at(Stage::Body).call(Call::Create));
    let sending = tokio::spawn(world.creating("t").send());
    trapped.hit(PATIENCE).await.unwrap();
    world.desk.stop().await;
    sending.await.unwrap().expect_err("its connection ended");
    drop(trapped);
    assert!(world.creating("t").send().await.expect_err("nobody listens").is_connect());
    assert_eq!(world.desk.counters().made, 1);
    world.desk.restart().await.unwrap();
    assert_eq!(world.found("t").await, [1]);
    assert_eq!(world.create("t").await, 2);
}

#[tokio::test]
async fn digests_are_enough_to_find_and_to_count() {
    let account = Account::sample();
    let options = HelpDeskOptions { keep: Keep::Digests, account, ..HelpDeskOptions::default() };
    let world = World::with(options).await;
    for tag in ["a", "b", "a, c"] {
        let (_, body) = said(world.creating(tag).send().await.unwrap()).await;
        assert_eq!((&body["subject"], &body["tags"]), (&json!("A question"), &json!(tag)), "answered whole");
    }
    let kept = &world.desk.tickets()[0];
    assert_eq!((kept.subject.as_str(), kept.text.as_deref(), kept.contact.email.as_str()), ("", None, ""));
    assert_eq!(world.found("a").await, [3, 1]);
    let counts: Vec<(String, u64)> = world.desk.digests().into_iter().collect();
    assert_eq!(counts, [("a".to_owned(), 2), ("b".to_owned(), 1), ("c".to_owned(), 1)]);
    assert_eq!(world.desk.tagged("b").len(), 1);
}
