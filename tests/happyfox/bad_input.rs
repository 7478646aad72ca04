//! What cannot be sent as it is: refused with its name, or mended, and never a reason to ask again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use maple_router::gateway::happyfox::LONGEST_SUBJECT;
use maple_router::ports::{NewTicket, Stage};

use crate::harness::{Desk, Leap, Say, TAG, client, create, created, in_time, json, page, ticket, words};

#[tokio::test]
async fn what_the_help_desk_does_not_have_is_refused_by_name() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [created()]);
    type Change = fn(&mut NewTicket);
    let cases: [(Change, Stage, &str); 7] = [
        (|t| t.category = "Renamed".to_owned(), Stage::Category, "category \"Renamed\" does not exist"),
        (|t| t.category = "99".to_owned(), Stage::Category, "category \"99\" does not exist"),
        (|t| t.category = "Staff".to_owned(), Stage::Category, "category \"Staff\" is not public"),
        (|t| t.category = "8".to_owned(), Stage::Category, "category \"8\" is not public"),
        (
            |t| t.ticket_fields = BTreeMap::from([(9, "x".to_owned())]),
            Stage::Field,
            "knows no custom field 9 of tickets",
        ),
        (
            |t| t.contact_fields = BTreeMap::from([(3, "North".to_owned())]),
            Stage::Field,
            "knows no custom field 3 of contacts",
        ),
        (
            |t| t.ticket_fields = BTreeMap::from([(3, "East".to_owned())]),
            Stage::Field,
            "custom field 3 (\"Region\") has no choice \"East\"",
        ),
    ];
    for (change, stage, shown) in cases {
        let mut ticket = ticket();
        change(&mut ticket);
        let found = create(&desk.client(), &ticket).await;
        assert_eq!(found.label(), "refused", "{found:?}");
        assert!(words(&found).contains(shown), "{shown} is missing in {found:?}");
        let fault = found.fault().expect("a fault");
        assert_eq!((fault.stage, fault.about_us), (stage, false));
    }
    assert_eq!(desk.asked("POST").len(), 0, "nobody was asked to make it");
}

#[tokio::test]
async fn texts_are_mended_and_a_contact_that_is_no_address_is_refused() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [created()]);
    let odd = NewTicket {
        subject: format!("a\r\nBcc: x\0\u{202e}{}", "\u{e4}".repeat(10_000)),
        text: Some("one\r\ntwo\u{7}\u{1b}[2J\0\tthree".to_owned()),
        contact_name: "Ada\r\nLovelace\0".to_owned(),
        ..ticket()
    };
    assert_eq!(create(&desk.client(), &odd).await.label(), "created");
    let sent = desk.asked("POST")[0].json();
    let subject = sent["subject"].as_str().expect("text");
    assert!(subject.starts_with("a Bcc: x") && subject.ends_with('\u{2026}'), "{subject}");
    assert_eq!(subject.chars().count(), LONGEST_SUBJECT);
    assert_eq!(sent["text"], "one\ntwo[2J\tthree");
    assert_eq!(sent["name"], "Ada Lovelace");

    for contact in ["ada@example.org\r\nBcc: x@y", "ada\0@example.org", "ada", "", "a b@c"] {
        let found =
            create(&desk.client(), &NewTicket { contact_email: contact.to_owned(), ..ticket() }).await;
        assert_eq!((found.label(), found.fault().expect("a fault").stage), ("refused", Stage::Contact));
    }
    let found = create(&desk.client(), &NewTicket { tags: vec!["a\"b".to_owned()], ..ticket() }).await;
    assert_eq!(found.label(), "about_us", "a tag that nobody finds again is not sent: {found:?}");
    assert_eq!(desk.asked("POST").len(), 1);
}

#[tokio::test]
async fn a_category_made_meanwhile_is_found_and_the_lists_are_kept_for_an_hour() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [created()]);
    let clock = Leap::new();
    let client = client(&desk.settings(), clock.clone());
    let lists = || desk.asked("GET").len();
    assert_eq!(create(&client, &ticket()).await.label(), "created");
    assert_eq!(create(&client, &ticket()).await.label(), "created");
    assert_eq!(lists(), 3, "asked for once");

    clock.advance(Duration::from_secs(60));
    desk.says("GET categories/", [json(200, r#"[{"id": 9, "name": "New", "public": true}]"#)]);
    let new = NewTicket { category: "New".to_owned(), ..ticket() };
    assert_eq!(create(&client, &new).await.label(), "created");
    assert_eq!(desk.asked("POST").last().expect("one").json()["category"], 9);
    assert_eq!(lists(), 6, "a miss asks once more");

    clock.advance(Duration::from_secs(3599));
    assert_eq!(create(&client, &new).await.label(), "created");
    assert_eq!(lists(), 6);
    clock.advance(Duration::from_secs(2));
    assert_eq!(create(&client, &new).await.label(), "created");
    assert_eq!(lists(), 9, "an hour is over");
}

#[tokio::test]
async fn a_storm_of_misses_asks_once() {
    let desk = Desk::start().await;
    let client = desk.client();
    client.directory().await.expect("three lists");
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    let gone = NewTicket { category: "Gone".to_owned(), ..ticket() };
    let found = futures::future::join_all((0..50).map(|_| create(&client, &gone))).await;
    assert!(found.iter().all(|found| found.label() == "refused"), "{found:?}");
    assert_eq!(desk.asked("GET").len(), 6);
}

#[tokio::test]
async fn lists_that_cannot_be_read_are_an_outage_and_no_refusal() {
    for (answer, shown) in [
        (page(200), "answered 200: a page (HTML)"),
        (json(200, r#"{"error": "no"}"#), "is no list"),
        (json(200, "oops"), "is no list"),
        (json(401, ""), "happyfox-api-key and happyfox-auth-code (401)"),
        (json(403, ""), "happyfox-api-key and happyfox-auth-code (403)"),
        (page(404), "is not at [happyfox] base_url"),
        (json(500, ""), "answers no questions (500)"),
        (Say::Close, "broke"),
        (Say::Half(200, "[".repeat(100)), "too long or was cut off"),
    ] {
        let desk = Desk::start().await;
        desk.says("POST tickets/", [created()]);
        desk.says("GET categories/", [answer]);
        let found = create(&desk.client(), &ticket()).await;
        assert_eq!(found.label(), "about_us", "{found:?}");
        assert!(words(&found).contains(shown), "{shown} is missing in {found:?}");
        assert_eq!(found.fault().expect("a fault").stage, Stage::Get);
        let probed = in_time(desk.client().probe()).await.expect_err("an outage");
        assert!(probed.fault.about_us && probed.fault.reply.reply.contains(shown), "{probed:?}");
        assert_eq!(desk.asked("POST").len(), 0);
    }
    assert!(TAG.len() < 100);
}
