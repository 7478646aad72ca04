//! Throttles and pace: nothing goes before the wait that a 429 names, and creations keep their intervals.

use std::time::Duration;

use maple_router::ports::{Clock as _, Creation, Stage};

use crate::harness::{Desk, Leap, TAG, client, create, created, in_time, json, ticket, with, words};

fn wait(creation: &Creation) -> Duration {
    let Creation::Throttled { fault, wait } = creation else { panic!("throttled: {creation:?}") };
    assert!(fault.about_us);
    *wait
}

#[tokio::test]
async fn a_throttle_names_its_wait_in_either_form_and_never_more_than_ten_minutes() {
    let (now, later) = ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:30:00 GMT");
    let both = crate::harness::Say::Answer(
        429,
        vec![("Retry-After", later.to_owned()), ("Date", now.to_owned())],
        "wait 30 seconds".to_owned(),
    );
    for (answer, seconds) in [
        (with(429, ("Retry-After", "30"), ""), 30),
        (json(429, r#"{"error": "Too many requests: wait 540 seconds"}"#), 540),
        (with(429, ("Retry-After", "30"), "wait 540 seconds"), 540),
        (with(429, ("Retry-After", "540"), "wait 30 seconds"), 540),
        (both, 120),
        (with(429, ("Retry-After", "36000"), ""), 600),
        (json(429, "wait ten hours, that is 10 hours"), 600),
        (json(429, ""), 1),
    ] {
        let desk = Desk::start().await;
        desk.says("POST tickets/", [answer, created()]);
        let clock = Leap::new();
        let client = client(&desk.settings(), clock.clone());
        let found = create(&client, &ticket()).await;
        assert_eq!(wait(&found), Duration::from_secs(seconds), "{found:?}");
        assert!(words(&found).contains("throttles us (429)"), "{found:?}");

        // Neither a creation nor a question, a moment before the end.
        let heads = desk.heads();
        clock.advance(Duration::from_secs(seconds) - Duration::from_millis(1));
        let held = create(&client, &ticket()).await;
        assert_eq!(wait(&held), Duration::from_millis(1));
        assert_eq!(held.fault().expect("a fault").stage, Stage::Post);
        let unanswered = in_time(client.find(TAG)).await.expect_err("throttled");
        assert_eq!(unanswered.wait, Some(Duration::from_millis(1)));
        assert!(in_time(client.probe()).await.is_err());
        assert_eq!(desk.heads(), heads, "nothing was sent");
        assert_eq!(client.ready_at(clock.monotonic()), clock.monotonic() + Duration::from_millis(1));
        in_time(client.ready()).await;
        assert_eq!(create(&client, &ticket()).await.label(), "created");
    }
}

#[tokio::test]
async fn throttles_without_a_wait_double_until_there_is_an_answer() {
    let desk = Desk::start().await;
    let clock = Leap::new();
    let client = client(&desk.settings(), clock.clone());
    client.directory().await.expect("three lists");
    for round in 0..2 {
        desk.says("POST tickets/", [json(429, "")]);
        for seconds in [1, 2, 4, 8] {
            let found = create(&client, &ticket()).await;
            assert_eq!(wait(&found), Duration::from_secs(seconds), "{round}");
            clock.advance(Duration::from_secs(seconds));
        }
        desk.says("POST tickets/", [created()]);
        assert_eq!(create(&client, &ticket()).await.label(), "created");
    }
}

#[tokio::test]
async fn a_throttled_list_holds_the_ticket_back() {
    let desk = Desk::start().await;
    desk.says("GET categories/", [with(429, ("Retry-After", "9"), "")]);
    let found = create(&desk.client(), &ticket()).await;
    assert_eq!(wait(&found), Duration::from_secs(9));
    assert_eq!(desk.asked("POST").len(), 0);
}

#[tokio::test]
async fn creations_keep_their_intervals_and_share_them() {
    let desk = Desk::start().await;
    desk.says("POST tickets/", [created()]);
    let clock = Leap::new();
    let client = client(&desk.settings(), clock.clone());
    let ticket = ticket();
    let many = || futures::future::join_all((0..11).map(|_| create(&client, &ticket)));
    assert!(many().await.iter().all(|found| found.label() == "created"));
    assert_eq!(clock.passed(), Duration::from_secs(2), "300 a minute: ten intervals of 200 ms");

    client.set_share(3);
    let before = clock.passed();
    assert!(many().await.iter().all(|found| found.label() == "created"));
    assert_eq!(clock.passed() - before, Duration::from_millis(6_600), "eleven intervals of 600 ms");
    client.set_share(1);
    client.set_max_per_minute(60);
    assert_eq!(client.ready_at(clock.monotonic()), clock.monotonic() + Duration::from_secs(1));
    assert_eq!(desk.asked("POST").len(), 22);
}
