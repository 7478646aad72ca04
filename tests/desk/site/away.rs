//! The database is away, or has no queue: pages say so, and what was typed is not lost.

use devkit::postgres::{CuttingProxy, Variant};
use maple_router::config::DeskAuth;
use maple_router::desk::site::templates;

use super::scene::{self, PLAIN, hidden, read};
use crate::harness::{Bench, location};

#[tokio::test]
async fn without_its_tables_the_page_says_what_to_do() {
    let mut bench = Bench::with(Variant { router: false, ..Variant::default() }).await;
    bench.templates = templates(DeskAuth::Link);
    bench.config.mail.from = "Forms <forms@example.org>".to_owned();
    let desk = scene::open(&bench).await;
    let cookie = format!("__Host-desk={}", "A".repeat(43));
    let (status, page) = desk.page("/queue", &cookie).await;
    assert_eq!(status, 503);
    assert!(
        page.contains("not set up for the desk") && page.contains("maple-router migrate --router"),
        "{page}"
    );
}

#[tokio::test]
async fn what_was_typed_while_the_database_was_away_is_sent_again() {
    let mut bench = scene::bench().await;
    bench.form(PLAIN).await;
    let submission = bench.refused(PLAIN).await;
    let (entry, _) = bench.entry(submission).await;
    let wire = CuttingProxy::start(&bench.db).await.expect("a wire");
    bench.reach(wire.url_as("forms_app"));
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    let path = format!("/entries/{entry}");
    let (_, page) = desk.page(&path, &cookie).await;
    let dismiss = format!("{path}/dismiss");
    let (version, key) = (hidden(&page, &dismiss, "version"), hidden(&page, &dismiss, "idempotency_key"));
    wire.sever(true);
    let fields = [("version", version.as_str()), ("idempotency_key", &key), ("reason", "typed with care")];
    let (status, away) = read(desk.send(&dismiss, &cookie, &fields).await).await;
    assert_eq!(status, 503, "{away}");
    assert!(away.contains("The database does not answer") && away.contains("typed with care"), "{away}");
    let (again, same) = (hidden(&away, &dismiss, "version"), hidden(&away, &dismiss, "idempotency_key"));
    assert_eq!((again.as_str(), same.as_str()), (version.as_str(), key.as_str()));
    let (status, queue) = desk.page("/queue?cause=failed", &cookie).await;
    assert_eq!(status, 503);
    assert!(queue.contains("href=\"/queue?cause=failed\">Try again"), "{queue}");
    wire.sever(false);
    let fields = [("version", again.as_str()), ("idempotency_key", &same), ("reason", "typed with care")];
    let mut sent = desk.send(&dismiss, &cookie, &fields).await;
    for _ in 0..20 {
        if sent.status() == 303 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        sent = desk.send(&dismiss, &cookie, &fields).await;
    }
    assert_eq!(location(&sent), format!("{path}?done=dismiss"));
    assert_eq!(bench.state(entry).await.0, "Dismissed");
}
