//! Searches by a tag: ours are found, others' are not, and whoever cannot be asked has not said "no".

use std::time::Duration;

use maple_router::ports::{Stage, TicketRef};

use crate::harness::{AUTHORIZATION, Desk, Say, TAG, in_time, json, page, with};

fn listed(id: u64, tags: &str) -> String {
    format!(r#"{{"id": {id}, "display_id": "DC{id}", "subject": "{TAG}", "tags": {tags}, "updates": []}}"#)
}

fn paged(tickets: &[String], pages: u64) -> Say {
    let (count, tickets) = (tickets.len(), tickets.join(","));
    json(
        200,
        &format!(r#"{{"page_info": {{"count": {count}, "page_count": {pages}}}, "data": [{tickets}]}}"#),
    )
}

fn ids(found: &[TicketRef]) -> Vec<u64> {
    found.iter().map(|ticket| ticket.id).collect()
}

#[tokio::test]
async fn only_a_ticket_with_exactly_this_tag_is_ours() {
    let desk = Desk::start().await;
    let ours = format!(r#""x, {TAG}""#);
    let longer = format!(r#"["{TAG}0"]"#);
    for (answer, expected) in [
        (paged(&[listed(7, &ours)], 1), vec![7]),
        (paged(&[listed(9, &ours), listed(7, &ours), listed(9, &ours)], 1), vec![7, 9]),
        (
            paged(&[listed(1, "[]"), listed(2, "null"), listed(3, r#"["other"]"#), listed(4, &longer)], 1),
            vec![],
        ),
        (paged(&[], 0), vec![]),
        (json(200, &format!("[{}]", listed(7, &ours))), vec![7]),
        (json(200, "[]"), vec![]),
    ] {
        desk.says("GET tickets/", [answer]);
        let found = in_time(desk.client().find(TAG)).await.expect("an answer");
        assert_eq!(ids(&found), expected);
    }
    let asked = desk.asked("GET");
    let asked = asked.last().expect("one");
    assert_eq!(asked.header("authorization"), AUTHORIZATION);
    let url = url::Url::parse(&format!("http://x{}", asked.target)).expect("a URL");
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let expected = [("status", "_all"), ("q", &format!("tag:\"{TAG}\"")), ("size", "10"), ("page", "1")];
    assert_eq!(query, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn all_pages_are_read_and_too_many_say_nothing() {
    let desk = Desk::start().await;
    let ours = format!(r#""{TAG}""#);
    desk.says("GET tickets/", [paged(&[listed(1, "[]")], 3), paged(&[], 3), paged(&[listed(7, &ours)], 3)]);
    assert_eq!(ids(&in_time(desk.client().find(TAG)).await.expect("an answer")), [7]);
    desk.says("GET tickets/", [paged(&[listed(1, "[]")], 4000)]);
    let fault = in_time(desk.client().find(TAG)).await.expect_err("it did not search for the tag").fault;
    assert!(fault.reply.reply.contains("more tickets than can have our tag"), "{fault:?}");
}

#[tokio::test]
async fn whoever_cannot_be_asked_has_not_said_no() {
    let desk = Desk::start().await;
    let client = desk.client();
    for (answer, shown) in [
        (json(401, ""), "happyfox-api-key and happyfox-auth-code (401)"),
        (json(403, ""), "(403)"),
        (json(404, ""), "base_url (404)"),
        (json(400, ""), "(400)"),
        (page(200), "a page (HTML)"),
        (json(200, r#"{"data": [{"id": 1}]}"#), "do not say their tags"),
        (json(200, &format!(r#"[{{"id": "x", "tags": "{TAG}"}}]"#)), "has our tag, and no id"),
        (json(200, r#"{"error": "Invalid search"}"#), "no list of tickets"),
        (json(500, ""), "(500)"),
        (
            with(302, ("Location", "https://login.example.org/in?next=x"), ""),
            "elsewhere to login.example.org",
        ),
        (Say::Close, "broke"),
        (Say::Silence, "did not answer in time"),
        (Say::Half(200, r#"{"data": []   "#.to_owned()), "cut off"),
    ] {
        desk.says("GET tickets/", [answer]);
        let unanswered = in_time(client.find(TAG)).await.expect_err(shown);
        assert!(unanswered.fault.reply.reply.contains(shown), "{shown} is missing in {unanswered:?}");
        assert_eq!((unanswered.fault.stage, unanswered.fault.about_us), (Stage::Get, true));
        assert_eq!(unanswered.wait, None);
    }
    let before = desk.heads();
    assert!(in_time(client.find("a\" OR tag:\"b")).await.is_err());
    assert_eq!(desk.heads(), before, "what is no tag is not searched for");
    desk.says("GET tickets/", [with(429, ("Retry-After", "30"), "")]);
    let wait = in_time(client.find(TAG)).await.expect_err("throttled").wait;
    assert_eq!(wait, Some(Duration::from_secs(30)));
}

#[tokio::test]
async fn a_probe_tells_what_check_shows() {
    let desk = Desk::start().await;
    let categories = r#"[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]"#;
    let headers = vec![
        ("Date", "Wed, 21 Oct 2026 07:28:00 GMT".to_owned()),
        ("X-RateLimit-Remaining", "499".to_owned()),
    ];
    desk.says("GET categories/", [Say::Answer(200, headers, categories.to_owned())]);
    let probe = in_time(desk.client().probe()).await.expect("it works");
    assert_eq!((probe.categories, probe.limit_left), (2, Some(499)));
    assert_eq!(probe.date, Some("2026-10-21T07:28:00Z".parse().expect("a time")));
}
