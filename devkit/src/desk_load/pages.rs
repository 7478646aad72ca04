//! How long each page takes, one reader after the other.

use anyhow::{Result, ensure};
use tokio_postgres::Client;
use uuid::Uuid;

use super::visit::Visitor;
use crate::program::say;

/// Requests for each page.
const REQUESTS: usize = 100;

/// Asks for every page, and prints half, nineteen of twenty, and the slowest.
pub(super) async fn measure(rows: &Client, people: &[Visitor]) -> Result<()> {
    let sql = "SELECT id, subject_id FROM router.grey_queue WHERE state = 'UnderReview' ORDER BY opened_at OFFSET 50 LIMIT 1";
    let row = rows.query_one(sql, &[]).await?;
    let (entry, submission): (Uuid, Uuid) = (row.get(0), row.get(1));
    let short = &submission.simple().to_string()[..8];
    let cursor = last_page(people).await?;
    say("page                                              p50      p95      max   bytes");
    for path in [
        "/queue".to_owned(),
        cursor,
        "/queue?state=UnderReview".to_owned(),
        "/queue?assignee=me".to_owned(),
        "/queue?form=load3".to_owned(),
        "/queue?cause=failed&order=newest".to_owned(),
        "/queue?state=Resolved".to_owned(),
        "/queue?state=all".to_owned(),
        "/queue?older_than=20d".to_owned(),
        format!("/queue?subject={submission}"),
        format!("/entries/{entry}"),
        "/next".to_owned(),
        "/submissions".to_owned(),
        "/submissions?status=failed&reason=refused".to_owned(),
        "/submissions?form=load3".to_owned(),
        format!("/submissions?id={short}"),
        format!("/submissions/{submission}"),
        "/status".to_owned(),
        "/lifecycles/grey_queue".to_owned(),
        "/api/grey-queue?limit=200".to_owned(),
        "/api/grey-queue/summary".to_owned(),
    ] {
        let (mut took, mut bytes) = (Vec::new(), 0);
        for visitor in people.iter().cycle().take(REQUESTS) {
            let began = super::now();
            let answer = visitor.get(&path).await?;
            let status = answer.status();
            bytes = answer.bytes().await?.len();
            took.push(began.elapsed().as_secs_f64() * 1000.0);
            ensure!(status.is_success() || status.is_redirection(), "{path}: {status}");
        }
        took.sort_by(f64::total_cmp);
        let at = |share: usize| {
            took.get((took.len() * share / 100).min(took.len() - 1)).copied().unwrap_or_default()
        };
        let shown: String = path.chars().take(44).collect();
        say(&format!("{shown:<44} {:>8.1} {:>8.1} {:>8.1} {bytes:>7}", at(50), at(95), at(100)));
    }
    Ok(())
}

/// A page in the middle of the queue, a hundred pages on.
async fn last_page(people: &[Visitor]) -> Result<String> {
    const PAGES: usize = 100;
    let mut path = "/queue".to_owned();
    for visitor in people.iter().cycle().take(PAGES) {
        let page = visitor.get(&path).await?.text().await?;
        let next = page.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
        let Some(next) = next else { break };
        path = next.replace("&#38;", "&").replace("&amp;", "&");
    }
    Ok(path)
}
