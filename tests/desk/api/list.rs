//! Lists, their pages and their filters.

use std::collections::BTreeMap;

use serde_json::json;

use super::bench::Api;

#[tokio::test]
async fn pages_show_a_thousand_entries_once_each_while_others_come_and_go() {
    let api = Api::new().await;
    let all = api.many(1_000).await;
    let mut shown: BTreeMap<String, usize> = BTreeMap::new();
    let (mut path, mut pages) = ("/api/grey-queue?limit=37".to_owned(), 0);
    loop {
        let page = api.get("vera", &path).await;
        assert_eq!(page.status, 200);
        let items = page.body["items"].as_array().expect("items").clone();
        assert!(items.len() <= 37 && items.iter().all(|item| item.get("evidence").is_none()));
        for item in &items {
            *shown.entry(item["id"].as_str().expect("an id").to_owned()).or_default() += 1;
        }
        // The first of the page is closed, so that whatever counted rows would jump over one; another is opened.
        let close = "UPDATE router.grey_queue SET state = 'Dismissed' WHERE id = $1";
        let first: uuid::Uuid = items[0]["id"].as_str().expect("an id").parse().expect("an id");
        api.bench.eyes.execute(close, &[&first]).await.expect("closed");
        api.pending().await;
        pages += 1;
        match page.body["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/grey-queue?limit=37&cursor={cursor}"),
            None => break,
        }
        assert!(pages < 100, "it does not end");
    }
    for one in &all {
        assert_eq!(shown.get(&one.id.to_string()), Some(&1), "{one:?}");
    }
    assert!(shown.values().all(|times| *times == 1), "none comes twice");
}

#[tokio::test]
async fn each_filter_chooses_what_it_says() {
    let api = Api::new().await;
    let waiting = api.pending().await;
    let mine = api.reviewed("rita").await;
    let bens = api.reviewed("ben").await;
    let closed = api.pending().await;
    api.done("rita", closed, "dismiss", json!({"reason": "spam"})).await;
    let old = api.many(1).await[0];
    let infected = api.many(1).await[0];
    let sql = "UPDATE router.grey_queue SET cause = 'infected', reason = 'infected', queue = 'security', form_id = 'g'
               WHERE id = $1 RETURNING subject_id";
    let subject: uuid::Uuid = api.bench.eyes.query_one(sql, &[&infected.id]).await.expect("infected").get(0);
    for (query, mut expected) in [
        ("", vec![old, infected, waiting, mine, bens]),
        ("?state=Pending", vec![old, infected, waiting]),
        ("?state=Pending,UnderReview", vec![old, infected, waiting, mine, bens]),
        ("?state=UnderReview&state=Dismissed", vec![mine, bens, closed]),
        ("?state=all", vec![old, infected, waiting, mine, bens, closed]),
        ("?state=Dismissed", vec![closed]),
        ("?assignee=me", vec![mine]),
        ("?assignee=ben", vec![bens]),
        ("?assignee=none", vec![old, infected, waiting]),
        ("?cause=infected", vec![infected]),
        ("?reason=infected", vec![infected]),
        ("?queue=security", vec![infected]),
        ("?form=g", vec![infected]),
        ("?form=%C3%A4%27%22%3B--", vec![]),
        (&format!("?subject={subject}"), vec![infected]),
        ("?older_than=30m", vec![old, infected]),
        ("?older_than=99999w", vec![]),
        ("?cause=bounced", vec![]),
    ] {
        let page = api.get("rita", &format!("/api/grey-queue{query}")).await;
        assert_eq!(page.status, 200, "{query}: {page:?}");
        let items = page.body["items"].as_array().expect("items").iter();
        let mut ids: Vec<String> = items.map(|item| item["id"].as_str().expect("an id").to_owned()).collect();
        ids.sort();
        expected.sort_by_key(|seen| seen.id);
        let expected: Vec<String> = expected.iter().map(|seen| seen.id.to_string()).collect();
        assert_eq!(ids, expected, "{query}");
    }
    let newest = api.get("rita", "/api/grey-queue?order=newest&limit=1").await;
    assert_eq!(newest.body["items"][0]["id"], bens.id.to_string());
}

#[tokio::test]
async fn the_summary_counts_what_is_open() {
    let api = Api::new().await;
    api.pending().await;
    api.pending().await;
    api.reviewed("rita").await;
    let summary = api.get("vera", "/api/grey-queue/summary").await;
    assert_eq!(summary.body["open"], 3);
    let items = summary.body["items"].as_array().expect("items");
    let of = |state: &str| items.iter().find(|item| item["state"] == state).expect(state);
    assert_eq!((&of("Pending")["count"], &of("UnderReview")["count"]), (&json!(2), &json!(1)));
    assert_eq!((&of("Pending")["queue"], &of("Pending")["cause"]), (&json!("operations"), &json!("failed")));
}
