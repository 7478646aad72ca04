//! The page of the service's status: counted once for all who ask at once, and never older than ten seconds.

use std::time::Duration;

use super::scene::{self, PLAIN};

#[tokio::test]
async fn it_is_counted_anew_after_ten_seconds_and_says_when() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "vera").await;
    let failed = |page: &str| {
        let row = page.split("status=failed").nth(1).expect("a row").split("class=\"num\">").nth(1);
        row.and_then(|rest| rest.split('<').next()).expect("a count").to_owned()
    };
    let (status, page) = desk.page("/status", &cookie).await;
    assert_eq!((status, &*failed(&page)), (200, "0"), "{page}");
    bench.refused(PLAIN).await;
    bench.clock.advance(Duration::from_secs(9));
    let (_, page) = desk.page("/status", &cookie).await;
    assert_eq!(failed(&page), "0", "as it was counted");
    assert!(page.contains("Counted <time datetime="), "it says when: {page}");
    bench.clock.advance(Duration::from_secs(1));
    let (_, page) = desk.page("/status", &cookie).await;
    assert_eq!(failed(&page), "1", "counted anew");
}
