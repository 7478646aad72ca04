//! A loader that goes on writing what it has, beside somebody who promotes: rows are one version's, never a mixture.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use maple_router::forms::commands::{CommandError, Judged};

use crate::harness::{Scene, form, zoe};

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
    let (over, until) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(seconds()));
    let promoter = async {
        let (mut moved, mut current) = (0_u64, first.id);
        while Instant::now() < until {
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
        let (mut passed, mut refused) = (0_u64, 0_u64);
        while !over.load(Ordering::Relaxed) {
            for form in [&one, &two] {
                match scene.loader(form).await {
                    Ok(()) => passed += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        (passed, refused)
    };
    let eyes = scene.db.client_as("forms_app").await.expect("forms_app");
    let onlooker = async {
        let mut looks = 0_u64;
        while !over.load(Ordering::Relaxed) {
            let sql = "SELECT string_agg(DISTINCT t.body_text, ',') AS texts, count(*) AS n,
                         (SELECT v.number FROM content.current c JOIN content.versions v ON v.id = c.version_id) AS number
                       FROM actions a JOIN templates t ON t.id = a.template_id WHERE a.form_id = 'f'";
            let row = eyes.query_one(sql, &[]).await.expect("answered");
            let (texts, n, number): (String, i64, i32) = (row.get(0), row.get(1), row.get(2));
            let expected = if number == 1 { "one" } else { "two" };
            assert_eq!((texts.as_str(), n), (expected, 2), "a mixed row, at version {number}");
            looks += 1;
        }
        looks
    };
    let (moved, (passed, refused), looks) = tokio::join!(promoter, loader, onlooker);
    println!(
        "promoted {moved} times; the loader passed {passed} times and was refused {refused} times; {looks} looks"
    );
    assert!(moved > 0 && passed > 0 && refused > 0 && looks > 0, "everybody had a turn");
}
