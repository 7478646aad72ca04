//! Lists and their pages: every entry once, whatever happens meanwhile.

use std::collections::BTreeSet;

use maple_router::grey_queue::decide::{Ask, Verb};
use maple_router::grey_queue::store::{Cursor, Filter, Order, Whose};
use maple_router::grey_queue::table::State;
use serde_json::json;
use uuid::Uuid;

use crate::harness::Bench;

/// Walks a list in small pages, and does something after each.
async fn walk(bench: &Bench, filter: &Filter, mut between: impl AsyncFnMut(&Bench)) -> Vec<Uuid> {
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = bench.store.list(filter, 7, cursor.as_ref()).await.expect("a page");
        seen.extend(page.items.iter().map(|entry| entry.id));
        let Some(next) = page.next_cursor else { return seen };
        cursor = Some(next.parse::<Cursor>().expect("a cursor"));
        between(bench).await;
    }
}

#[tokio::test]
async fn a_walk_shows_each_entry_once_while_others_come_and_go() {
    let bench = Bench::new().await;
    let mut there = BTreeSet::new();
    for _ in 0..40 {
        there.insert(bench.pending().await.id);
    }
    for order in Order::ALL {
        let filter = Filter { order: Some(*order), ..Filter::default() };
        let seen = walk(&bench, &filter, async |bench| {
            bench.pending().await;
        })
        .await;
        let once: BTreeSet<Uuid> = seen.iter().copied().collect();
        assert_eq!(once.len(), seen.len(), "{order}: none twice");
        assert!(there.is_subset(&once), "{order}: none left out");
    }
}

/// Entries of three priorities and of none, opened in turns.
async fn of_priorities(bench: &Bench, each: usize) -> Vec<(usize, Uuid)> {
    let mut all = Vec::new();
    for turn in 0..each * 4 {
        let rank = (turn * 3) % 4;
        all.push((rank, prioritized(bench, rank).await));
    }
    // Of one priority the older comes first, and they were opened in this order.
    all.sort_by_key(|(rank, _)| *rank);
    all
}

/// An entry of queue `grading` with the priority of this rank; the last rank has none.
async fn prioritized(bench: &Bench, rank: usize) -> Uuid {
    let entry = bench.pending().await;
    let detail = ["Critical", "High", "Medium"].get(rank).map_or(json!({}), |word| json!({"priority": word}));
    let set = "UPDATE router.grey_queue SET queue = 'grading', detail = $2 WHERE id = $1";
    bench.eyes.execute(set, &[&entry.id, &detail]).await.expect("a priority");
    entry.id
}

#[tokio::test]
async fn grading_goes_by_priority_then_age_and_nothing_else_does() {
    let bench = Bench::new().await;
    let expected: Vec<Uuid> = of_priorities(&bench, 5).await.into_iter().map(|(_, id)| id).collect();
    bench.pending().await;
    let grading = Filter { queue: Some("grading".to_owned()), ..Filter::default() };
    assert_eq!(walk(&bench, &grading, async |_| ()).await, expected);
    let by_age = Filter { order: Some(Order::Oldest), ..grading.clone() };
    let mut aged = Vec::new();
    for id in walk(&bench, &by_age, async |_| ()).await {
        aged.push(bench.entry(id).await.opened_at);
    }
    assert!(aged.is_sorted() && aged.len() == expected.len(), "by age, if that is asked for");
    let all = walk(&bench, &Filter::default(), async |_| ()).await;
    assert_ne!(all[..expected.len()], expected, "a list of all queues goes by age");
    let all_by_priority = Filter { order: Some(Order::Priority), ..Filter::default() };
    assert_eq!(
        walk(&bench, &all_by_priority, async |_| ()).await[..expected.len() - 5],
        expected[..expected.len() - 5]
    );
}

/// Of whatever comes meanwhile nothing is promised but that it comes once at most: it may belong before the page that is shown.
#[tokio::test]
async fn a_walk_by_priority_shows_each_entry_once_while_others_come_and_go() {
    let bench = Bench::new().await;
    let expected: Vec<Uuid> = of_priorities(&bench, 8).await.into_iter().map(|(_, id)| id).collect();
    let grading = Filter { queue: Some("grading".to_owned()), ..Filter::default() };
    let mut turn = 0;
    let seen = walk(&bench, &grading, async |bench| {
        turn += 1;
        prioritized(bench, turn % 4).await;
        // One that was shown goes: whatever counted rows would leave one out.
        let gone = "UPDATE router.grey_queue SET state = 'Dismissed' WHERE id = $1";
        bench.eyes.execute(gone, &[&expected[turn]]).await.expect("gone");
    })
    .await;
    let once: BTreeSet<Uuid> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len(), "none twice");
    let there: Vec<Uuid> = seen.into_iter().filter(|id| expected.contains(id)).collect();
    assert_eq!(there, expected, "none left out, and none out of its order");
}

#[tokio::test]
async fn each_filter_chooses_what_it_says() {
    let bench = Bench::new().await;
    let plain = bench.pending().await;
    let annas = bench.in_state(State::UnderReview, "operations", "anna").await;
    let security = bench.in_state(State::Escalated, "security", "sam").await;
    let closed = bench.in_state(State::Dismissed, "operations", "anna").await;
    let list = async |filter: Filter| {
        let page = bench.store.list(&filter, 50, None).await.expect("a list");
        page.items.iter().map(|entry| entry.id).collect::<BTreeSet<_>>()
    };
    let of = |ids: &[&Uuid]| ids.iter().map(|id| **id).collect::<BTreeSet<_>>();
    let none = Filter::default;
    assert_eq!(list(none()).await, of(&[&plain.id, &annas.id, &security.id]), "the open ones");
    assert_eq!(list(Filter { all_states: true, ..none() }).await.len(), 4);
    assert_eq!(list(Filter { states: vec![State::Dismissed], ..none() }).await, of(&[&closed.id]));
    let two = Filter { states: vec![State::Pending, State::Dismissed], ..none() };
    assert_eq!(list(two).await, of(&[&plain.id, &closed.id]));
    assert_eq!(list(Filter { whose: Some(Whose::Of("anna".to_owned())), ..none() }).await, of(&[&annas.id]));
    assert_eq!(list(Filter { whose: Some(Whose::Nobodys), ..none() }).await, of(&[&plain.id]));
    assert_eq!(list(Filter { queue: Some("security".to_owned()), ..none() }).await, of(&[&security.id]));
    assert_eq!(list(Filter { cause: Some("bounced".to_owned()), ..none() }).await, of(&[]));
    assert_eq!(list(Filter { form: Some("f".to_owned()), ..none() }).await.len(), 3);
    assert_eq!(list(Filter::of_subject(closed.subject.id)).await, of(&[&closed.id]));
    assert_eq!(
        list(Filter { older_than: Some(std::time::Duration::from_secs(3600)), ..none() }).await,
        of(&[])
    );
    let before = Filter { as_of: Some(plain.opened_at), ..none() };
    assert_eq!(list(before).await, of(&[&plain.id]), "what was there when somebody looked");
    let depths = bench.store.summary().await.expect("a summary");
    assert_eq!(depths.iter().map(|depth| depth.count).sum::<i64>(), 3);
}

#[tokio::test]
async fn what_changed_is_found_by_its_time() {
    let bench = Bench::new().await;
    let entry = bench.pending().await;
    let (_, now) = bench.store.changed_since(None, 10).await.expect("asked");
    let since = now - jiff::SignedDuration::from_secs(5);
    let (changed, _) = bench.store.changed_since(Some(since), 10).await.expect("asked");
    assert_eq!(changed.iter().map(|one| (one.id, one.version)).collect::<Vec<_>>(), [(entry.id, 1)]);
    bench.done(&entry, &Ask::plain(Verb::Assign), "anna").await;
    let (changed, _) = bench.store.changed_since(Some(since), 10).await.expect("asked");
    assert_eq!(
        changed.last().map(|one| (one.id, one.version, one.state)),
        Some((entry.id, 2, State::UnderReview))
    );
}
