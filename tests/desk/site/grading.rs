//! The page of a work that waits for a grade: what it shows to whom, and its form, without JavaScript.

use devkit::postgres::Variant;
use uuid::Uuid;

use super::scene::{self, Fields};
use crate::harness::{Bench, Opened, location};
use crate::works::{self, CRITERIA, GRADERS_WORD, PROMPT};

/// What a learner wrote, as a page must not take it.
const WRITTEN: &str = "Museums </pre><script>alert(1)</script> are good.";
const SHOWN: &str = "Museums &#60;/pre&#62;&#60;script&#62;alert(1)&#60;/script&#62; are good.";

async fn bench(blind: bool) -> Bench {
    let variant = Variant { router: true, grading: true, audit_readable: true, ..Variant::default() };
    let mut bench = scene::bench_of(variant).await;
    works::prepare(&mut bench).await;
    bench.config.grading.blind = blind;
    bench
}

/// Fills the form in as it was shown, and sends it.
async fn send(desk: &Opened, cookie: &str, entry: Uuid, page: &str, scores: &[&str]) -> reqwest::Response {
    let action = format!("/entries/{entry}/review");
    let (version, key) =
        (scene::hidden(page, &action, "version"), scene::hidden(page, &action, "idempotency_key"));
    let names: Vec<String> = CRITERIA.iter().map(|criterion| format!("score_{criterion}")).collect();
    let mut fields: Vec<(&str, &str)> = vec![
        ("version", &version),
        ("idempotency_key", &key),
        ("reason", "I have read it"),
        ("strengths", "Clear.\r\n\r\nShort."),
        ("feedback_task_achievement", "It answers."),
    ];
    fields.extend(names.iter().map(String::as_str).zip(scores.iter().copied()));
    let fields: Fields<'_> = &fields;
    desk.send(&action, cookie, fields).await
}

#[tokio::test]
async fn grading_shows_the_work_to_those_who_grade_and_the_log_says_so() {
    let bench = bench(false).await;
    let (submission, attempt) = bench.work(WRITTEN).await;
    let (entry, _) = bench.entry(attempt).await;
    let desk = scene::open(&bench).await;
    let path = format!("/entries/{entry}");
    let viewer = desk.log_in(&bench, "vera").await;
    let (status, page) = desk.page(&path, &viewer).await;
    assert!(status == 200 && !page.contains("Museums") && !page.contains(GRADERS_WORD), "{page}");
    assert_eq!(bench.shown().await, []);
    for name in ["ines", "rita"] {
        let cookie = desk.log_in(&bench, name).await;
        let (status, page) = desk.page(&path, &cookie).await;
        assert_eq!(status, 200, "{name}: {page}");
        for words in [
            SHOWN,
            PROMPT,
            "The grader&#39;s own word.",
            "rubric",
            "7.5",
            "Record this grade",
            &submission.to_string(),
        ] {
            assert!(page.contains(words), "{name} is not shown {words}: {page}");
        }
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(!page.contains("Resolve on my word") && !page.contains(&format!("{path}/reject")), "{page}");
    }
    assert_eq!(bench.shown().await, ["ines", "rita"].map(|name| (name.to_owned(), "fields".to_owned())));
}

#[tokio::test]
async fn grading_by_the_form_resolves_the_entry_and_tells_the_second_who_was_first() {
    let bench = bench(true).await;
    let (_, attempt) = bench.work(WRITTEN).await;
    let (entry, _) = bench.entry(attempt).await;
    let desk = scene::open(&bench).await;
    let path = format!("/entries/{entry}");
    let (ines, rita) = (desk.log_in(&bench, "ines").await, desk.log_in(&bench, "rita").await);
    let ((_, first), (_, second)) = (desk.page(&path, &ines).await, desk.page(&path, &rita).await);
    assert!(first.contains("after your own") && !first.contains("own word"), "it is blind: {first}");
    // What is missing is said at its field, and what was typed stays.
    let (status, page) =
        scene::read(send(&desk, &ines, entry, &first, &["7.5", "7.0", "6.5", ""]).await).await;
    assert_eq!(status, 422, "{page}");
    for words in [
        "Choose a score by each criterion.",
        "href=\"#review-grammatical_range\"",
        "I have read it",
        "It answers.",
        "<option value=\"6.5\" selected>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let done = send(&desk, &ines, entry, &page, &["7.5", "7.0", "6.5", "7.0"]).await;
    assert_eq!((done.status().as_u16(), location(&done)), (303, format!("{path}?done=review").as_str()));
    assert_eq!(bench.state(entry).await, ("Resolved".to_owned(), Some("ines".to_owned())));
    let (_, after) = desk.page(location(&done), &ines).await;
    for words in
        ["Your grade is recorded", "The final result", "The grader&#39;s result", "It answers.", "Short."]
    {
        assert!(after.contains(words), "{words}: {after}");
    }
    let (status, late) =
        scene::read(send(&desk, &rita, entry, &second, &["3.0", "3.0", "3.0", "3.0"]).await).await;
    assert_eq!(status, 409, "{late}");
    for words in ["Somebody was first", "instructor:ines", "What you typed, to copy", "I have read it"] {
        assert!(late.contains(words), "{words}: {late}");
    }
    assert_eq!(
        bench
            .of_attempt(attempt, "SELECT count(*) FROM assessment.results r WHERE r.request_id = a.id")
            .await,
        "3"
    );
}

#[tokio::test]
async fn grading_is_the_only_queue_of_an_instructors_pages() {
    let bench = bench(false).await;
    bench.form(scene::PLAIN).await;
    let submission = bench.refused(scene::PLAIN).await;
    let (_, attempt) = bench.work(WRITTEN).await;
    let ((other, _), (own, _)) = (bench.entry(submission).await, bench.entry(attempt).await);
    let desk = scene::open(&bench).await;
    let ines = desk.log_in(&bench, "ines").await;
    for list in ["/queue", "/queue?state=all", "/queue?queue=operations"] {
        let (status, page) = desk.page(list, &ines).await;
        assert_eq!(status, 200, "{list}");
        assert!(page.contains(&own.to_string()) && !page.contains(&other.to_string()), "{list}: {page}");
    }
    let rows = desk.page(&format!("/queue/rows?ids={own},{other}"), &ines).await.1;
    assert!(rows.contains(&own.to_string()) && !rows.contains(&other.to_string()), "{rows}");
    assert_eq!(desk.page(&format!("/entries/{other}"), &ines).await.0, 404);
    let next = desk.get("/next", &ines).await;
    assert_eq!(location(&next), format!("/entries/{own}"));
    // What is more urgent is above it, and comes next, though it came later.
    let (urgent, _) = bench.entry(bench.work_of("Give me 10.", "Critical").await).await;
    let page = desk.page("/queue", &ines).await.1;
    let at = |id: Uuid| page.find(&format!("open-{id}")).unwrap_or_else(|| panic!("{id}: {page}"));
    assert!(at(urgent) < at(own) && page.contains("the most urgent first"), "{page}");
    assert_eq!(location(&desk.get("/next", &ines).await), format!("/entries/{urgent}"));
    let page = desk.page("/queue?order=oldest", &ines).await.1;
    let at = |id: Uuid| page.find(&format!("open-{id}")).unwrap_or_else(|| panic!("{id}: {page}"));
    assert!(at(own) < at(urgent), "{page}");
    for elsewhere in ["/submissions", "/status", "/forms", &format!("/submissions/{submission}"), "/live"] {
        assert_eq!(desk.page(elsewhere, &ines).await.0, 403, "{elsewhere}");
    }
}
