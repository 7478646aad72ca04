//! Hostile text in everything that a version is made of, and in what is typed: it stays text.

use super::{Office, form, press};
use crate::site::scene::{self, hidden};

const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'&\u{202e}";

/// Fails where the text became more than text.
fn harmless(path: &str, page: &str) {
    let low = page.to_lowercase();
    let ours = low.matches("<script type=\"module\" src=\"/assets/desk.").count();
    assert_eq!(low.matches("<script").count(), ours, "{path} has a script that is not ours: {page}");
    for part in ["<img", "onerror=alert(2)>", "</script><", "\u{202e}"] {
        assert!(!low.contains(part), "{path} has {part:?}: {page}");
    }
    assert!(page.contains("alert(1)"), "{path} shows it as text: {page}");
}

#[tokio::test]
async fn no_text_of_a_version_becomes_a_tag() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    let mut odd = form("one", "team@example.org");
    odd.name = HOSTILE.to_owned();
    odd.actions[0].subject = Some(HOSTILE.to_owned());
    HOSTILE.clone_into(&mut odd.actions[0].destination);
    for template in odd.templates.values_mut() {
        template.body_text = format!("{HOSTILE}\r\n{HOSTILE}");
        template.body_html = HOSTILE.to_owned();
        template.subject = HOSTILE.to_owned();
    }
    odd.samples[0].name = HOSTILE.to_owned();
    odd.samples[0].fields.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    let odd = office.draft(&odd).await;
    let reasons = serde_json::json!([HOSTILE]);
    let said = "SELECT content.refuse($1, 'publish', decode($2, 'hex'), NULL, $3, $4)";
    office.bench.eyes.query(said, &[&odd.id, &odd.digest, &reasons, &HOSTILE]).await.expect("said");
    let moved = "INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
        VALUES ('version', $1, $2, $2, $2, $2, 'admin', $2)";
    office.bench.eyes.execute(moved, &[&odd.id.to_string(), &HOSTILE]).await.expect("moved");
    // A form of that name, as a loader might write it, with a version of its own.
    let named = "INSERT INTO forms (id, name) VALUES ($1, $1)";
    office.bench.eyes.execute(named, &[&HOSTILE]).await.expect("a form");
    let version = "INSERT INTO content.versions (id, form_id, number, digest, source, author)
        VALUES (gen_random_uuid(), $1, 1, decode(repeat('ab', 32), 'hex'), 'yaml', $1)";
    office.bench.eyes.execute(version, &[&HOSTILE]).await.expect("a version");
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, list) = desk.page("/forms", &cookie).await;
    harmless("/forms", &list);
    let link = list.split("href=\"/forms/").skip(1).find(|link| link.contains("script")).expect("a link");
    let own = format!("/forms/{}", link.split('"').next().expect("its end"));
    for path in [
        own.clone(),
        format!("{own}/1"),
        "/forms/f/2".to_owned(),
        "/forms/f/2?from=1&show=recipients".to_owned(),
        "/forms/f/1?from=2&show=recipients".to_owned(),
    ] {
        let (status, page) = desk.page(&path, &cookie).await;
        assert_eq!(status, 200, "{path}: {page}");
        harmless(&path, &page);
    }
    let encoded: String = url::form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    for path in [format!("/forms/f/2?done={encoded}&show={encoded}"), format!("/forms/f/2?from={encoded}")] {
        let (_, page) = desk.page(&path, &cookie).await;
        assert!(!page.contains("<script>alert"), "{page}");
    }
}

#[tokio::test]
async fn a_reason_is_text_wherever_it_is_shown() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    office.published(&form("two", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let path = "/forms/f/2/promote";
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    let stale = hidden(&page, path, "idempotency_key");
    let fields = [
        ("expected", "00000000-0000-0000-0000-000000000001"),
        ("idempotency_key", &*stale),
        ("reason", HOSTILE),
    ];
    let (status, overtaken) = scene::read(desk.send(path, &cookie, &fields).await).await;
    assert_eq!(status, 409);
    harmless("a form that comes back", &overtaken);
    assert_eq!(press(&desk, &cookie, &page, path, HOSTILE).await.status(), 303);
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    harmless("the history", &page);
}
