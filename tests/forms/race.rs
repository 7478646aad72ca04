//! A loader that goes on writing what it has, beside somebody who promotes: rows are one version's, never a mixture.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use maple_router::forms::commands::{CommandError, Judged};

use crate::harness::{Scene, form, zoe};

/// Longest race that waits for everybody's turn.
const AT_MOST: Duration = Duration::from_secs(50);

/// How long they race; `FORMS_RACE_SECONDS` for the night.
fn seconds() -> u64 {
    std::env::var("FORMS_RACE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_loader_and_a_promoter_race_and_nobody_ever_sees_a_mixed_row() {
    let scene = Scene::new().await;
    // Two templates and two actions, so that a mixture has somewhere to show.
    let of = |text: &str| {
        let mut form = form("f", text);
        let template = form.templates.get("f-mail").cloned().expect("there");
        form.templates.insert("f-other".to_owned(), template);
        let mut action = form.actions[0].clone();
        (action.order, action.template) = (2, Some("f-other".to_owned()));
        form.actions.push(action);
        form
    };
    let (one, two) = (of("one"), of("two"));
    let first = scene.followed(&one).await;
    let second = scene.published(&two).await;
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let (passed, refused, looks) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let promoter = async {
        let (mut moved, mut current) = (0_u64, first.id);
        // On a machine that is busy with other things they go on until everybody has had a turn.
        let has_turns = || [&passed, &refused, &looks].iter().all(|turns| turns.load(Ordering::Relaxed) > 0);
        while began.elapsed() < Duration::from_secs(seconds())
            || (!(moved > 0 && has_turns()) && began.elapsed() < AT_MOST)
        {
            let next = if current == first.id { second.id } else { first.id };
            match scene.publisher.promote(next, Some(current), None, &zoe()).await {
                Ok(Judged::Done) => (moved, current) = (moved + 1, next),
                // The loader's rows and ours were each other's: whoever was second is told, and tries again.
                Ok(Judged::Refused(reasons)) => panic!("{reasons:?}"),
                Err(CommandError::Database(_) | CommandError::Moved | CommandError::Disagrees(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        over.store(true, Ordering::Relaxed);
        moved
    };
    let loader = async {
        while !over.load(Ordering::Relaxed) {
            for form in [&one, &two] {
                let turns = if scene.loader(form).await.is_ok() { &passed } else { &refused };
                turns.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let eyes = scene.db.client_as("forms_app").await.expect("forms_app");
    let onlooker = async {
        while !over.load(Ordering::Relaxed) {
            let sql = "SELECT string_agg(DISTINCT t.body_text, ',') AS texts, count(*) AS n,
                         (SELECT v.number FROM content.current c JOIN content.versions v ON v.id = c.version_id) AS number
                       FROM actions a JOIN templates t ON t.id = a.template_id WHERE a.form_id = 'f'";
            let row = eyes.query_one(sql, &[]).await.expect("answered");
            let (texts, n, number): (String, i64, i32) = (row.get(0), row.get(1), row.get(2));
            let expected = if number == 1 { "one" } else { "two" };
            assert_eq!((texts.as_str(), n), (expected, 2), "a mixed row, at version {number}");
            looks.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (moved, (), ()) = tokio::join!(promoter, loader, onlooker);
    let [passed, refused, looks] = [passed, refused, looks].map(AtomicU64::into_inner);
    println!(
        "promoted {moved} times; the loader passed {passed} times and was refused {refused} times; {looks} looks"
    );
    assert!(moved > 0 && passed > 0 && refused > 0 && looks > 0, "everybody had a turn");
}
