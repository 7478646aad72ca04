//! Deadlines, the fence before the final dot, and sends that are cancelled or suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use devkit::smtp::{Act, Rule, Stage as At};
use maple_router::gateway::smtp::{Connections, Envelope, SmtpSettings};
use maple_router::ports::Clock;

use crate::harness::{
    Manner, PATIENCE, SHORT, TestClock, addresses, connections, free, hasty, in_either_manner, long_message,
    relay, relay_with, send, send_on, settings, short, shorts, text,
};

in_either_manner!(
    a_cancelled_send_does_not_poison_the_next,
    the_fence_is_asked_once_after_the_body_and_its_refusal_stops_the_dot,
    the_middle_of_a_long_message_is_before_the_dot,
    the_delivery_deadline_bounds_everything_up_to_the_dot,
    a_process_that_slept_through_its_deadline_writes_no_dot,
    a_relay_that_took_too_long_gets_no_dot_and_the_connection_goes,
    the_delivery_deadline_bounds_the_reply_to_the_dot_too,
    a_send_can_be_a_task_of_its_own
);

async fn a_cancelled_send_does_not_poison_the_next(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::AfterDot).delay(PATIENCE).times(1));
    server.rule(Rule::at(At::Rcpt).to("bad@y.test").reply("550 5.1.1 unknown"));
    let connections = connections(settings(&server));
    let mut connection = connections.acquire().await;
    let cancelled = tokio::time::timeout(SHORT, send_on(&mut connection, &["first@y.test"])).await;
    assert!(cancelled.is_err(), "the relay was to be slow");
    // On the same connection, and on the next user's: each gets its own answers.
    assert_eq!(shorts(&send_on(&mut connection, &["bad@y.test"]).await), ["refused rcpt 550"]);
    drop(connection);
    assert_eq!(shorts(&send(&connections, &["second@y.test"]).await), ["accepted"]);
    let counters = server.counters();
    assert_eq!((counters.connections, counters.transactions), (2, 3));
    assert_eq!(server.mails().pop().expect("a mail").recipients, ["second@y.test"]);
}

async fn the_fence_is_asked_once_after_the_body_and_its_refusal_stops_the_dot(manner: Manner) {
    let server = relay_with(manner).await;
    // The relay reads nothing of the body for a while, and the body is more than sockets buffer: a fence asked
    // before the body is written is asked too early.
    let pause = Duration::from_millis(500);
    server.rule(Rule::at(At::Body).delay(pause));
    let message = long_message();
    let recipients = addresses(&["b@y.test", "c@y.test"]);
    let mail = Envelope { from: "a@x.test", recipients: &recipients, message: &message };
    let connections = connections(settings(&server));

    let started = Instant::now();
    let asked = AtomicU64::new(0);
    let refuse = || {
        asked.fetch_add(1, Ordering::SeqCst);
        assert!(started.elapsed() >= pause, "asked before the body was written");
        Err("the claim is too old".to_owned())
    };
    let outcomes = connections.acquire().await.send(&mail, &refuse).await;
    assert_eq!(shorts(&outcomes), ["deferred fence", "deferred fence"]);
    assert_eq!(text(&outcomes[0]), "the claim is too old");
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let outcomes = connections.acquire().await.send(&mail, &free).await;
    assert_eq!(shorts(&outcomes), ["accepted", "accepted"]);
    let counters = server.counters();
    assert_eq!((counters.mails, counters.dots, counters.connections), (1, 1, 2));
    assert_eq!(server.mails()[0].raw.len(), 8_200_017);
}

async fn the_middle_of_a_long_message_is_before_the_dot(manner: Manner) {
    let closing = |reply: &str| Rule::at(At::Body).act(Act::ReplyThenClose(reply.to_owned()));
    for (rule, expected) in [
        (closing("552 5.3.4 that is enough"), "refused data 552"),
        (closing("421 4.3.2 shutting down"), "deferred data 421 us"),
        (closing("250 2.0.0 Ok: queued as 4FAKE"), "deferred data us"),
        (Rule::at(At::Body).disconnect(), "deferred data us"),
        // Half a line, which may be half an address; and what is no line of SMTP.
        (Rule::at(At::Body).act(Act::Bytes(b"550 5.1.1 <b@y".to_vec())), "deferred data us"),
        (Rule::at(At::Body).act(Act::Bytes(b"5500 no\r\n".to_vec())), "deferred data us"),
        // The relay stops reading; the message is more than sockets buffer.
        (Rule::at(At::Body).delay(2 * PATIENCE), "deferred data us"),
    ] {
        let server = relay_with(manner).await;
        server.rule(rule.times(1));
        let message = long_message();
        let recipients = addresses(&["b@y.test"]);
        let mail = Envelope { from: "a@x.test", recipients: &recipients, message: &message };
        let connections = connections(hasty(&server));
        let outcomes = connections.acquire().await.send(&mail, &free).await;
        assert_eq!(shorts(&outcomes), [expected]);
        assert_eq!(server.counters().dots, 0, "{expected}");
        assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    }
}

async fn the_delivery_deadline_bounds_everything_up_to_the_dot(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Rcpt).delay(Duration::from_millis(200)));
    let connections =
        connections(SmtpSettings { delivery_deadline: Duration::from_millis(700), ..settings(&server) });
    let many: Vec<String> = (0..20).map(|i| format!("r{i}@y.test")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let started = Instant::now();
    let outcomes = send(&connections, &many).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(outcomes.iter().all(|outcome| short(outcome) == "deferred rcpt us"), "{outcomes:?}");
    assert_eq!(server.counters().dots, 0);
}

async fn a_process_that_slept_through_its_deadline_writes_no_dot(manner: Manner) {
    let server = relay_with(manner).await;
    let clock = TestClock::new();
    let connections = Connections::new(settings(&server), Arc::clone(&clock) as Arc<dyn Clock>);
    server.rule(Rule::at(At::Data).delay(SHORT));
    let asleep = tokio::spawn({
        let clock = Arc::clone(&clock);
        async move {
            tokio::time::sleep(SHORT / 2).await;
            clock.advance(Duration::from_secs(3600));
        }
    });
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["deferred data us"]);
    asleep.await.expect("no panic");
    assert_eq!(server.counters().dots, 0);
}

async fn a_relay_that_took_too_long_gets_no_dot_and_the_connection_goes(manner: Manner) {
    // 40 s for the whole, 10 s for the reply to the dot, so at least 5 s must be left.
    for (gone, expected, dots) in
        [(37, ["refused rcpt 550", "deferred fence us"], 0), (33, ["refused rcpt 550", "accepted"], 1)]
    {
        let server = relay_with(manner).await;
        let clock = TestClock::new();
        let connections = Connections::new(settings(&server), Arc::clone(&clock) as Arc<dyn Clock>);
        server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
        server.rule(Rule::at(At::Data).delay(SHORT).times(1));
        let slow = tokio::spawn({
            let clock = Arc::clone(&clock);
            async move {
                tokio::time::sleep(SHORT / 2).await;
                clock.advance(Duration::from_secs(gone));
            }
        });
        let outcomes = send(&connections, &["two@y.test", "b@y.test"]).await;
        assert_eq!(shorts(&outcomes), expected, "{gone} s gone");
        slow.await.expect("no panic");
        assert_eq!(server.counters().dots, dots);
        if dots == 0 {
            assert!(text(&outcomes[1]).starts_with("the relay was too slow"), "{outcomes:?}");
            assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
            assert_eq!(server.counters().connections, 2, "a connection out of step was used again");
        }
    }
}

async fn the_delivery_deadline_bounds_the_reply_to_the_dot_too(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::AfterDot).delay(PATIENCE));
    let whole = Duration::from_secs(3);
    let patient =
        SmtpSettings { delivery_deadline: whole, dot_timeout: Duration::from_secs(4), ..settings(&server) };
    let connections = connections(patient);
    let started = Instant::now();
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["unknown dot us"]);
    let took = started.elapsed();
    assert!(took > whole / 2 && took < whole + Duration::from_millis(500), "{took:?}");
    assert_eq!(server.counters().dots, 1);
}

/// The relay lives on a thread of its own, so that it goes on while this runtime is suspended.
#[test]
fn a_late_timer_reads_what_already_waits_before_it_calls_it_unknown() {
    let elsewhere =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = elsewhere.block_on(relay());
    server.rule(Rule::at(At::AfterDot).delay(Duration::from_millis(700)));
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcomes = here.block_on(async {
        let connections =
            connections(SmtpSettings { dot_timeout: Duration::from_millis(500), ..settings(&server) });
        let suspended = tokio::spawn(async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            std::thread::sleep(Duration::from_secs(2));
        });
        let outcomes = send(&connections, &["b@y.test"]).await;
        suspended.await.unwrap();
        outcomes
    });
    assert_eq!(shorts(&outcomes), ["accepted"]);
    drop(server);
}

async fn a_send_can_be_a_task_of_its_own(manner: Manner) {
    let server = relay_with(manner).await;
    let connections = connections(settings(&server));
    let task = tokio::spawn(async move { shorts(&send(&connections, &["b@y.test"]).await) });
    assert_eq!(task.await.expect("no panic"), ["accepted"]);
}
