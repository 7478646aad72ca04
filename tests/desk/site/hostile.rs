//! Hostile text wherever others write: none of it becomes a tag, on any page.

use reqwest::Method;

use super::scene::{self, Words, hidden, read};

const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'&\u{202e}";

/// Fails where the text became more than text.
fn harmless(path: &str, page: &str) {
    let low = page.to_lowercase();
    let ours = low.matches("<script type=\"module\" src=\"/assets/desk.").count();
    assert_eq!(low.matches("<script").count(), ours, "{path} has a script that is not ours: {page}");
    for part in ["<img", "onerror=alert(2)>", "</script><", "\u{202e}"] {
        assert!(!low.contains(part), "{path} has {part:?}: {page}");
    }
}

#[tokio::test]
async fn no_text_of_others_becomes_a_tag() {
    let bench = scene::bench().await;
    let words = Words { form: HOSTILE, text: HOSTILE };
    bench.form(words).await;
    let submission = bench.refused(words).await;
    let letter = bench.letter(words).await;
    let ((entry, _), (dead, _)) = (bench.entry(submission).await, bench.entry(letter).await);
    let detail =
        "UPDATE router.grey_queue SET detail = jsonb_build_object('domain', $1::text, 'code', $1, $1, $1)";
    bench.eyes.execute(detail, &[&HOSTILE]).await.expect("details");
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "ada").await;
    // What people say at the desk itself.
    let (_, page) = desk.page(&format!("/entries/{entry}"), &cookie).await;
    let start = format!("/entries/{entry}/assign");
    let (version, key) = (hidden(&page, &start, "version"), hidden(&page, &start, "idempotency_key"));
    let fields = [("version", version.as_str()), ("idempotency_key", &key), ("reason", HOSTILE)];
    assert_eq!(desk.send(&start, &cookie, &fields).await.status(), 303);
    let encoded: String = url::form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    for path in [
        "/queue".to_owned(),
        format!(
            "/queue?form={encoded}&cause={encoded}&assignee={encoded}&older_than={encoded}&state={encoded}"
        ),
        format!("/queue/rows?ids={entry},{dead}"),
        format!("/entries/{entry}"),
        format!("/entries/{entry}?show=recipients&done={encoded}"),
        format!("/entries/{dead}?show=payload"),
        "/submissions".to_owned(),
        format!("/submissions?id={encoded}&form={encoded}&status={encoded}"),
        format!("/submissions/{submission}?show=recipients"),
        "/status".to_owned(),
        format!("/lifecycles/{encoded}"),
        format!("/{encoded}"),
    ] {
        let request = desk.ask(Method::GET, &path).header("accept", "text/html").header("cookie", &cookie);
        let answer =
            request.header("user-agent", "<script>alert(1)</script>").send().await.expect("an answer");
        let (_, page) = read(answer).await;
        harmless(&path, &page);
        if path.starts_with("/entries") || path.starts_with("/submissions/") || path == "/queue" {
            assert!(page.contains("alert(1)"), "{path} shows it as text: {page}");
        }
    }
    let (version, twice) = ("1", HOSTILE);
    let answers = [
        desk.send(&format!("/entries/{entry}/reject"), &cookie, &[("version", version), ("reason", twice)])
            .await,
        desk.send(
            &format!("/entries/{entry}/resolve"),
            &cookie,
            &[("version", "2"), ("reason", twice), ("remedy", twice)],
        )
        .await,
        desk.send("/queue/bulk", &cookie, &[("command", twice), ("reason", twice), ("filters", &encoded)])
            .await,
    ];
    for answer in answers {
        let (status, page) = read(answer).await;
        assert!(status >= 400, "{status}");
        assert!(page.contains("alert(1)"), "what was typed stays: {page}");
        harmless("a refused form", &page);
    }
}
