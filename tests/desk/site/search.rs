//! The search for submissions: its pages follow each other without gap or repetition.

use std::collections::BTreeSet;

use super::scene::{self, PLAIN};

/// The way from a page to the next.
fn next(page: &str) -> Option<String> {
    let next = page.split("rel=\"next\" href=\"").nth(1)?.split('"').next()?;
    Some(next.replace("&#38;", "&").replace("&amp;", "&"))
}

/// Links of a page to submissions, in their order.
fn listed(page: &str) -> Vec<String> {
    let links = page.split("href=\"/submissions/").skip(1);
    links.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    // Of two statuses, and many changed at the same time: the id tells them apart.
    let rows = "INSERT INTO submissions (form_id, status, updated_at)
        SELECT 'volunteer', CASE WHEN n % 3 = 0 THEN 'processing' ELSE 'routed' END::submission_status,
          now() - make_interval(mins => n / 40)
        FROM generate_series(1, 130) n";
    bench.eyes.execute(rows, &[]).await.expect("submissions");
    let sql = "SELECT id::text FROM submissions ORDER BY updated_at DESC, id DESC";
    let expected: Vec<String> =
        bench.eyes.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect();
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "vera").await;

    let (mut path, mut seen, mut pages) = ("/submissions?form=volunteer".to_owned(), Vec::new(), 0);
    loop {
        let (status, page) = desk.page(&path, &cookie).await;
        assert_eq!(status, 200, "{path}: {page}");
        assert_eq!(page.contains(">First page<"), pages > 0, "{path}");
        pages += 1;
        seen.extend(listed(&page));
        let Some(next) = next(&page) else { break };
        path = next;
    }
    assert_eq!((seen, pages), (expected, 3));

    let (status, page) = desk.page("/submissions?status=processing", &cookie).await;
    let found: BTreeSet<String> = listed(&page).into_iter().collect();
    assert_eq!((status, found.len()), (200, 43), "one status is a page by itself");
    let (status, page) = desk.page("/submissions?cursor=somewhere", &cookie).await;
    assert_eq!(status, 400, "{page}");
    assert!(page.contains("leave it out to begin at the first page"), "{page}");
}

/// A form that has few submissions among many: each page looks at no more than five thousand of a status, and says so.
#[tokio::test]
async fn what_is_seldom_is_looked_for_step_by_step() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let rows = "INSERT INTO forms (id, name) VALUES ('crowd', 'Crowd');
        INSERT INTO submissions (form_id, status, updated_at)
        SELECT 'crowd', 'routed', now() - make_interval(secs => n) FROM generate_series(1, 5100) n;
        INSERT INTO submissions (form_id, status, updated_at)
        SELECT 'volunteer', 'failed', now() - make_interval(secs => n * 1500) FROM generate_series(1, 5) n";
    bench.eyes.batch_execute(rows).await.expect("submissions");
    let sql =
        "SELECT id::text FROM submissions WHERE form_id = 'volunteer' ORDER BY updated_at DESC, id DESC";
    let expected: Vec<String> =
        bench.eyes.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect();
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "vera").await;

    let (_, first) = desk.page("/submissions?form=volunteer", &cookie).await;
    assert!(first.contains("no more of it fits") && first.contains("Look further back"), "{first}");
    let (_, rest) = desk.page(&next(&first).expect("it goes on"), &cookie).await;
    assert_eq!(next(&rest), None, "{rest}");
    assert!(!rest.contains("Looked at all"), "{rest}");
    assert_eq!((listed(&first).as_slice(), listed(&rest).as_slice()), expected.split_at(3));

    let (_, none) = desk.page("/submissions?form=nobody", &cookie).await;
    assert!(none.contains("none of it fits") && !none.contains("No submission fits"), "{none}");
    let (_, none) = desk.page(&next(&none).expect("it goes on"), &cookie).await;
    assert!(none.contains("No submission fits"), "{none}");
}
