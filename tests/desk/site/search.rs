//! The search for submissions: its pages follow each other without gap or repetition.

use std::collections::BTreeSet;

use super::scene::{self, PLAIN};

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
        let Some(next) = page.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next())
        else {
            break;
        };
        path = next.replace("&#38;", "&").replace("&amp;", "&");
    }
    assert_eq!((seen, pages), (expected, 3));

    let (status, page) = desk.page("/submissions?status=processing", &cookie).await;
    let found: BTreeSet<String> = listed(&page).into_iter().collect();
    assert_eq!((status, found.len()), (200, 43), "one status is a page by itself");
    let (status, page) = desk.page("/submissions?cursor=somewhere", &cookie).await;
    assert_eq!(status, 400, "{page}");
    assert!(page.contains("leave it out to begin at the first page"), "{page}");
}
