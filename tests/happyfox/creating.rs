//! Creations: what is sent, and what each answer means.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use maple_router::ports::{
    Creation, Fault, FileContent, NewTicket, Reply, Spooled, Stage, TicketFile, TicketRef,
};
use serde_json::json;

use crate::harness::{
    AUTHORIZATION, Desk, Say, TAG, client, create, created, go, in_time, json as said, page, settings,
    ticket, with, words,
};

#[tokio::test]
async fn a_ticket_is_made_of_its_fields() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [created()]);
    let whole = NewTicket {
        html: Some("<p>Look there.".to_owned()),
        ticket_fields: BTreeMap::from([(3, "South".to_owned()), (4, "Ice, Whales".to_owned())]),
        contact_fields: BTreeMap::from([(5, "+31 20 1".to_owned())]),
        ..ticket()
    };
    let found = create(&desk.client(), &whole).await;
    let made = TicketRef { id: 41, display_id: "DC00000041".to_owned() };
    assert_eq!(found, Creation::Created(made));
    let [asked] = &desk.asked("POST")[..] else { panic!("one") };
    assert_eq!(asked.target, "/api/1.1/json/tickets/");
    assert_eq!(asked.header("authorization"), AUTHORIZATION);
    assert_eq!(asked.header("content-type"), "application/json");
    assert_eq!(
        asked.json(),
        json!({
            "category": 7, "subject": "A tip", "text": "Look there.", "html": "<p>Look there.", "name": "Ada",
            "email": "ada@example.org", "tags": TAG, "t-cf-3": 31, "t-cf-4": [41, 40], "c-cf-5": "+31 20 1",
        })
    );
}

#[tokio::test]
async fn files_go_with_it_from_memory_and_from_the_disk() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [created()]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("spooled");
    let spooled: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&path, &spooled).expect("written");
    let files = vec![
        TicketFile {
            name: "pl\u{e4}n \"1\".pdf".to_owned(),
            content_type: "application/pdf".to_owned(),
            content: FileContent::Bytes(Bytes::from_static(b"%PDF-1.7\r\n--x--\r\n")),
        },
        TicketFile {
            name: "big.bin".to_owned(),
            content_type: "no type".to_owned(),
            content: FileContent::Spooled(Spooled::new(File::open(&path).expect("a file")).expect("spooled")),
        },
    ];
    let with_files =
        NewTicket { files, ticket_fields: BTreeMap::from([(4, "Ice, Whales".to_owned())]), ..ticket() };
    assert_eq!(create(&desk.client(), &with_files).await.label(), "created");
    let [asked] = &desk.asked("POST")[..] else { panic!("one") };
    assert_eq!(asked.header("authorization"), AUTHORIZATION);
    assert_eq!(asked.header("transfer-encoding"), "", "a length, because not every server takes chunks");
    let boundary =
        asked.header("content-type").strip_prefix("multipart/form-data; boundary=").expect("a form");
    let parts = parts(&asked.body, boundary);
    let named: Vec<(&str, &[u8])> = parts.iter().map(|(head, body)| (head.as_str(), &body[..])).collect();
    let field = |name: &str| format!("Content-Disposition: form-data; name=\"{name}\"");
    for (at, (name, value)) in [
        ("category", "7"),
        ("subject", "A tip"),
        ("text", "Look there."),
        ("name", "Ada"),
        ("email", "ada@example.org"),
        ("tags", TAG),
        ("t-cf-4", "41"),
        ("t-cf-4", "40"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(named[at], (field(name).as_str(), value.as_bytes()));
    }
    let [first, second] = &named[8..] else { panic!("two files: {}", named.len()) };
    assert!(first.0.contains("name=\"attachments\"; filename=\"pl\u{e4}n _1_.pdf\""), "{}", first.0);
    assert!(first.0.contains("Content-Type: application/pdf"), "{}", first.0);
    assert_eq!(first.1, b"%PDF-1.7\r\n--x--\r\n");
    assert!(second.0.contains("Content-Type: application/octet-stream"), "{}", second.0);
    assert!(second.1 == spooled, "byte for byte");

    // Bytes that are lost while they are sent end the request, which may have been carried out.
    std::fs::write(&path, b"shorter").expect("written");
    let found = create(&desk.client(), &with_files).await;
    assert_eq!(found.label(), "unknown", "{found:?}");
}

/// The parts of a form: head and body.
fn parts(body: &[u8], boundary: &str) -> Vec<(String, Vec<u8>)> {
    let split = |bytes: &[u8], by: &[u8]| {
        let at = bytes.windows(by.len()).position(|window| window == by);
        at.map(|at| (bytes[..at].to_vec(), bytes[at + by.len()..].to_vec()))
    };
    let (opening, between) = (format!("--{boundary}\r\n"), format!("\r\n--{boundary}"));
    let (_, mut rest) = split(body, opening.as_bytes()).expect("an opening boundary");
    let mut found = Vec::new();
    while let Some((part, behind)) = split(&rest, between.as_bytes()) {
        let (head, content) = split(&part, b"\r\n\r\n").expect("a head");
        found.push((String::from_utf8(head).expect("text"), content));
        rest = behind.strip_prefix(b"\r\n").unwrap_or(&behind).to_vec();
    }
    assert_eq!(rest, b"--\r\n");
    found
}

#[tokio::test]
async fn each_answer_means_one_thing() {
    let desk = Desk::start().await;
    let client = desk.client();
    let invalid = r#"{"error": "subject of ada@example.org is invalid"}"#;
    for (answer, label, shown) in [
        (created(), "created", ""),
        (said(201, r#"{"id": 1}"#), "created", ""),
        (said(200, r#"{"display_id": "DC1"}"#), "unknown", "has no id"),
        (said(200, r#"{"id": "41"}"#), "unknown", "is no number"),
        (said(200, "not JSON"), "unknown", "no ticket"),
        (page(200), "unknown", "a page (HTML) instead of a ticket"),
        (said(400, invalid), "refused", "error: subject of <address> is invalid"),
        (said(404, invalid), "refused", "(404)"),
        (
            said(422, r#"{"t-cf-9": ["This field is required."]}"#),
            "refused",
            "t-cf-9: This field is required.",
        ),
        (page(404), "refused", "a page (HTML)"),
        (said(401, ""), "about_us", "happyfox-api-key and happyfox-auth-code (401)"),
        (page(403), "about_us", "happyfox-api-key and happyfox-auth-code (403)"),
        (said(405, ""), "about_us", "takes no tickets (405)"),
        (said(413, ""), "too_large", "too large"),
        (Say::Early(413), "too_large", "too large"),
        (said(500, ""), "unknown", "(500)"),
        (page(502), "unknown", "(502)"),
        (said(503, ""), "unknown", "(503)"),
        (Say::Close, "unknown", "broke"),
        (Say::Silence, "unknown", "did not answer in time"),
        (Say::Half(200, r#"{"id": 41, "display_id": "DC41", "text": "so long"#.to_owned()), "created", ""),
        (Say::Half(200, r#"{"text": "so long"#.to_owned()), "unknown", "has no id"),
        (Say::Half(400, r#"{"error": "so long"#.to_owned()), "refused", "(400)"),
    ] {
        desk.says("POST tickets/", [answer]);
        let found = create(&client, &ticket()).await;
        assert_eq!(found.label(), label, "{found:?}");
        assert!(words(&found).contains(shown), "{shown} is missing in {found:?}");
        if let Some(fault) = found.fault() {
            assert_eq!(fault.stage, Stage::Post);
            assert_eq!(fault.about_us, matches!(label, "about_us" | "unknown"), "{found:?}");
        }
    }
}

#[tokio::test]
async fn a_long_answer_is_believed_by_its_top_and_long_words_are_cut() {
    let desk = Desk::start().await;
    let long = "long ".repeat(100_000);
    desk.says(
        "POST tickets/",
        [said(200, &format!(r#"{{"id": 41, "display_id": "DC41", "updates": "{long}"}}"#))],
    );
    assert_eq!(create(&desk.client(), &ticket()).await.label(), "created");
    desk.says("POST tickets/", [said(200, &format!(r#"{{"updates": "{long}", "id": 41}}"#))]);
    assert_eq!(create(&desk.client(), &ticket()).await.label(), "unknown");
    desk.says("POST tickets/", [said(400, &long)]);
    let found = create(&desk.client(), &ticket()).await;
    assert!(words(&found).chars().count() <= 500, "{found:?}");
}

#[tokio::test]
async fn credentials_that_are_repeated_are_not_kept() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [said(400, "no k3y-of-the-account:c0de-of-the-account here")]);
    let found = create(&desk.client(), &ticket()).await;
    assert!(words(&found).contains("no <credential>:<credential> here"), "{found:?}");
    assert!(!format!("{:?}", desk.client()).contains("k3y"));
}

#[tokio::test]
async fn without_a_connection_nothing_was_sent() {
    // Nobody listens any more.
    let desk = Desk::start().await;
    let lone = desk.client();
    lone.directory().await.expect("three lists");
    drop(desk);
    // Until the kept connection is known to be closed.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let found = create(&lone, &ticket()).await;
    assert_eq!(found.label(), "about_us");
    assert_eq!(found.fault().expect("a fault").reply.code, None);
    assert!(words(&found).contains("no connection to the help desk was made"), "{found:?}");

    // No TLS, and no answer to TLS at all.
    let desk = Desk::start().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent = (silent.local_addr().expect("an address").to_string(), silent);
    for address in [&desk.address, &silent.0] {
        let client = client(
            &settings(&format!("https://{address}/api/1.1/json/")),
            std::sync::Arc::new(maple_router::ops::clock::SystemClock),
        );
        let found = create(&client, &ticket()).await;
        assert_eq!(found.label(), "about_us", "{address}: {found:?}");
        assert!(words(&found).contains("no connection to the help desk was made"), "{found:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_credentials_stay() {
    let (desk, other) = (Desk::start().await, Desk::start().await);
    other.says("POST tickets/", [created()]);
    other.says("GET tickets/", [created()]);
    for (status, label) in
        [(301, "about_us"), (302, "about_us"), (303, "unknown"), (307, "about_us"), (308, "about_us")]
    {
        let there = format!("http://{}/api/1.1/json/tickets/", other.address);
        desk.says("POST tickets/", [with(status, ("Location", &there), "")]);
        let found = create(&desk.client(), &ticket()).await;
        assert_eq!(found.label(), label, "{found:?}");
        assert!(words(&found).contains("elsewhere to 127.0.0.1"), "{found:?}");
    }
    desk.says("GET tickets/", [with(302, ("Location", &format!("http://{}/", other.address)), "")]);
    assert!(in_time(desk.client().find(TAG)).await.is_err());
    assert_eq!(other.heads(), 0);
}

#[tokio::test]
async fn the_fence_is_asked_last_and_stops_the_content() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [created()]);
    let fault = Fault {
        stage: Stage::Fence,
        reply: Reply { reply: "not ours any more".to_owned(), ..Reply::default() },
        about_us: false,
    };
    let asked = AtomicUsize::new(0);
    let shut = || {
        asked.fetch_add(1, Ordering::SeqCst);
        Err(fault.clone())
    };
    let client = desk.client();
    let with_file = NewTicket {
        files: vec![TicketFile {
            name: "a".to_owned(),
            content_type: "text/plain".to_owned(),
            content: FileContent::Bytes(Bytes::from_static(b"a")),
        }],
        ..ticket()
    };
    for ticket in [ticket(), with_file] {
        assert_eq!(in_time(client.create(&ticket, &shut)).await, Creation::AboutUs(fault.clone()));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(desk.asked("POST").len(), 0, "no request came whole");

    // Whatever stops the creation before, the fence is not asked; and it is asked once for each that is sent.
    let refused = NewTicket { category: "Gone".to_owned(), ..ticket() };
    in_time(client.create(&refused, &shut)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let open = || {
        asked.fetch_add(1, Ordering::SeqCst);
        go()
    };
    assert_eq!(in_time(client.create(&ticket(), &open)).await.label(), "created");
    assert_eq!((asked.load(Ordering::SeqCst), desk.asked("POST").len()), (3, 1));
}

#[tokio::test]
async fn a_creation_that_is_dropped_before_the_fence_sent_nothing() {
    let desk = Desk::start().await;
    desk.says("GET categories/", [Say::Silence]);
    let client = desk.client();
    let ticket = ticket();
    let dropped = tokio::time::timeout(Duration::from_millis(200), client.create(&ticket, &go)).await;
    assert!(dropped.is_err());
    assert_eq!(desk.asked("POST").len(), 0);
}
