//! The relay gateway against a scripted SMTP server: every stage, refused, deferred, broken off and silent.
#![expect(clippy::disallowed_methods, reason = "these tests run against real sockets in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use devkit::smtp::{Act, Keep, Rule, SmtpOptions, SmtpServer, Stage as At};
use maple_router::gateway::smtp::{Envelope, Lane, Lanes, SmtpSettings, greet, inspect};
use maple_router::ports::{CheckLevel, Clock, Outcome, Stage};

const MESSAGE: &[u8] =
    b"From: a@x.test\r\nMessage-ID: <1@x.test>\r\nX-Submission-ID: s-1\r\n\r\nHello\r\n.dot\r\n..\r\n";
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a deaf relay is waited for here.
const SHORT: Duration = Duration::from_millis(400);

#[derive(Debug)]
struct TestClock {
    start: Instant,
    ahead_ms: AtomicU64,
}

impl TestClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), ahead_ms: AtomicU64::new(0) })
    }

    fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> Instant {
        self.start + self.start.elapsed() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn sleep(&self, pause: Duration) -> futures::future::BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(pause))
    }
}

async fn relay() -> SmtpServer {
    SmtpServer::start(SmtpOptions::default()).await.expect("a free port on 127.0.0.1")
}

fn settings(server: &SmtpServer) -> SmtpSettings {
    SmtpSettings {
        host: "127.0.0.1".to_owned(),
        port: server.port(),
        lanes: 1,
        hello_name: "maple.test".to_owned(),
        connect_timeout: PATIENCE,
        command_timeout: PATIENCE,
        dot_timeout: PATIENCE,
        delivery_deadline: 4 * PATIENCE,
        max_per_minute: None,
    }
}

fn hasty(server: &SmtpServer) -> SmtpSettings {
    SmtpSettings { command_timeout: SHORT, dot_timeout: SHORT, ..settings(server) }
}

fn lanes(settings: SmtpSettings) -> Lanes {
    Lanes::new(settings, TestClock::new())
}

fn addresses(all: &[&str]) -> Vec<String> {
    all.iter().map(|&address| address.to_owned()).collect()
}

/// More than the sockets on the way can hold.
fn long_message() -> Vec<u8> {
    let mut message = b"Subject: long\r\n\r\n".to_vec();
    message.extend(b"All work and no play makes a long mail.\r\n".repeat(200_000));
    message
}

fn free() -> Result<(), String> {
    Ok(())
}

async fn send_on(lane: &mut Lane, recipients: &[&str]) -> Vec<Outcome> {
    let recipients = addresses(recipients);
    let mail = Envelope { from: "a@x.test", recipients: &recipients, message: MESSAGE };
    let outcomes = lane.send(&mail, &free).await;
    assert_eq!(outcomes.len(), recipients.len());
    outcomes
}

async fn send(lanes: &Lanes, recipients: &[&str]) -> Vec<Outcome> {
    send_on(&mut lanes.acquire().await, recipients).await
}

/// `deferred rcpt 451 us`: enough of an outcome to compare.
fn short(outcome: &Outcome) -> String {
    let fault = match outcome {
        Outcome::Accepted { queue_id, .. } => {
            return format!("accepted{}", if queue_id.is_some() { "" } else { " without id" });
        }
        Outcome::Refused(fault) | Outcome::Deferred(fault) | Outcome::Unknown(fault) => fault,
        Outcome::NotImplemented => return "not implemented".to_owned(),
    };
    let code = fault.reply.code.map(|code| format!(" {code}")).unwrap_or_default();
    let us = if fault.about_us { " us" } else { "" };
    format!("{} {:?}{code}{us}", outcome.label(), fault.stage).to_lowercase()
}

fn shorts(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().map(short).collect()
}

fn text(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Accepted { reply, .. } => &reply.reply,
        Outcome::Refused(fault) | Outcome::Deferred(fault) | Outcome::Unknown(fault) => &fault.reply.reply,
        Outcome::NotImplemented => "",
    }
}

/// One bad moment at every stage: the outcome, how many mails exist at the relay, and that the next send is whole.
async fn bad_moment(rule: Rule, expected: &str, mails: u64, name: &str) {
    let server = relay().await;
    server.rule(rule.times(1));
    let lanes = lanes(hasty(&server));
    let found = shorts(&send(&lanes, &["b@y.test"]).await);
    assert_eq!(found, [expected], "{name}");
    assert_eq!(server.counters().mails, mails, "{name}");
    let next = shorts(&send(&lanes, &["c@y.test"]).await);
    assert_eq!(next, ["accepted"], "the send after: {name}");
    let last = server.mails().last().cloned().expect("the next mail at the relay");
    assert_eq!(
        (last.recipients.as_slice(), last.raw.as_slice()),
        (&addresses(&["c@y.test"])[..], MESSAGE),
        "{name}"
    );
}

#[tokio::test]
async fn refusals_at_every_stage() {
    for (at, reply, expected) in [
        (At::Banner, "554 5.7.1 no", "deferred banner 554 us"),
        (At::Banner, "450 4.3.2 later", "deferred banner 450 us"),
        (At::Ehlo, "550 5.7.1 no", "deferred ehlo 550 us"),
        (At::Ehlo, "450 4.3.0 later", "deferred ehlo 450 us"),
        (At::Mail, "550 5.7.1 no", "deferred mail 550 us"),
        (At::Mail, "452 4.3.1 disk full", "deferred mail 452 us"),
        (At::Mail, "552 5.3.4 too big", "refused mail 552"),
        (At::Rcpt, "550 5.1.1 unknown", "refused rcpt 550"),
        (At::Rcpt, "451 4.2.0 greylisted", "deferred rcpt 451"),
        (At::Rcpt, "554 5.7.1 <b@y.test>: Relay access denied", "deferred rcpt 554 us"),
        (At::Data, "554 5.6.0 no", "refused data 554"),
        (At::Data, "451 4.3.0 later", "deferred data 451"),
        (At::Data, "250 2.0.0 what?", "deferred data 250 us"),
        (At::Dot, "554 5.7.1 spam", "refused dot 554"),
        (At::Dot, "451 4.3.0 queue file write error", "deferred dot 451"),
        (At::Dot, "552 5.3.4 too big", "refused dot 552"),
    ] {
        bad_moment(Rule::at(at).reply(reply), expected, 0, &format!("{at:?} {reply}")).await;
    }
}

#[tokio::test]
async fn closing_replies_at_every_stage() {
    for (at, expected) in [
        (At::Banner, "deferred banner 421 us"),
        (At::Ehlo, "deferred ehlo 421 us"),
        (At::Mail, "deferred mail 421 us"),
        (At::Rcpt, "deferred rcpt 421 us"),
        (At::Data, "deferred data 421 us"),
        (At::Dot, "deferred dot 421 us"),
    ] {
        let rule = Rule::at(at).act(Act::ReplyThenClose("421 4.3.2 shutting down".to_owned()));
        bad_moment(rule, expected, 0, &format!("421 at {at:?}")).await;
    }
}

#[tokio::test]
async fn disconnects_at_every_stage() {
    for (at, expected, mails) in [
        (At::Banner, "deferred banner us", 0),
        (At::Ehlo, "deferred ehlo us", 0),
        (At::Mail, "deferred mail us", 0),
        (At::Rcpt, "deferred rcpt us", 0),
        (At::Data, "deferred data us", 0),
        (At::Dot, "unknown dot us", 0),
        (At::AfterDot, "unknown dot us", 1),
    ] {
        bad_moment(Rule::at(at).disconnect(), expected, mails, &format!("disconnect at {at:?}")).await;
    }
}

#[tokio::test]
async fn silence_at_every_stage() {
    for (at, expected, mails) in [
        (At::Banner, "deferred banner us", 0),
        (At::Ehlo, "deferred ehlo us", 0),
        (At::Mail, "deferred mail us", 0),
        (At::Rcpt, "deferred rcpt us", 0),
        (At::Data, "deferred data us", 0),
        (At::Dot, "unknown dot us", 0),
        (At::AfterDot, "unknown dot us", 1),
    ] {
        bad_moment(Rule::at(at).silence(), expected, mails, &format!("silence at {at:?}")).await;
    }
}

#[tokio::test]
async fn garbage_at_every_stage() {
    for (at, expected, mails) in [
        (At::Banner, "deferred banner us", 0),
        (At::Ehlo, "deferred ehlo us", 0),
        (At::Mail, "deferred mail us", 0),
        (At::Rcpt, "deferred rcpt us", 0),
        (At::Data, "deferred data us", 0),
        (At::AfterDot, "unknown dot us", 1),
    ] {
        let rule = Rule::at(at).act(Act::Bytes(b"\x16\x03\x01 not smtp\r\n".to_vec()));
        bad_moment(rule, expected, mails, &format!("garbage at {at:?}")).await;
    }
}

#[tokio::test]
async fn odd_but_clear_acceptances_are_accepted() {
    for (bytes, expected) in [
        (&b"250\r\n"[..], "accepted without id"),
        (b"250 2.0.0 Ok: queued as 4ABCDEF\n", "accepted"),
        (b"250-2.0.0 multi\r\n250 2.0.0 Ok: queued as 4ABCDEF\r\n", "accepted"),
        (b"250 2.0.0 f\xfcr dich: queued as 4ABCDEF\r\n", "accepted"),
    ] {
        bad_moment(Rule::at(At::AfterDot).act(Act::Bytes(bytes.to_vec())), expected, 1, "odd 250").await;
    }
}

#[tokio::test]
async fn one_connection_serves_many_sends() {
    let server = relay().await;
    let lanes = lanes(settings(&server));
    for _ in 0..20 {
        assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    }
    let counters = server.counters();
    assert_eq!((counters.connections, counters.mails, counters.rsets), (1, 20, 0));
    lanes.close().await;
    assert_eq!(server.counters().quits, 1);
}

#[tokio::test]
async fn the_relay_gets_exactly_the_message() {
    let server = relay().await;
    assert_eq!(shorts(&send(&lanes(settings(&server)), &["b@y.test"]).await), ["accepted"]);
    let mail = server.mails().pop().unwrap();
    assert_eq!(mail.raw, MESSAGE);
    assert_eq!(mail.from, "a@x.test");
    assert_eq!((mail.message_id.as_deref(), mail.submission_id.as_deref()), (Some("1@x.test"), Some("s-1")));
}

#[tokio::test]
async fn recipients_are_independent_and_the_queue_id_is_kept() {
    let server = relay().await;
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 <two@y.test>: User unknown"));
    server.rule(Rule::at(At::Rcpt).to("three@y.test").reply_lines(&["451 4.2.0 wait", "451 4.2.0 a bit"]));
    let lanes = lanes(settings(&server));
    let outcomes = send(&lanes, &["one@y.test", "two@y.test", "three@y.test", "four@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["accepted", "refused rcpt 550", "deferred rcpt 451", "accepted"]);
    assert_eq!(text(&outcomes[2]), "wait a bit");
    let mail = server.mails().pop().unwrap();
    assert_eq!(mail.recipients, ["one@y.test", "four@y.test"]);
    for i in [0, 3] {
        let Outcome::Accepted { queue_id, reply } = &outcomes[i] else { panic!("{outcomes:?}") };
        assert_eq!(queue_id.as_deref(), Some(mail.queue_id.as_str()));
        assert_eq!((reply.code, reply.enhanced.as_deref()), (Some(250), Some("2.0.0")));
    }
}

#[tokio::test]
async fn without_an_accepted_recipient_there_is_no_data_and_the_connection_is_kept() {
    let server = relay().await;
    server.rule(Rule::at(At::Rcpt).to("@gone.test").reply("550 5.1.2 no such domain"));
    let lanes = lanes(settings(&server));
    let outcomes = send(&lanes, &["a@gone.test", "b@gone.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused rcpt 550", "refused rcpt 550"]);
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    let counters = server.counters();
    assert_eq!((counters.rsets, counters.dots, counters.connections), (1, 1, 1));
}

#[tokio::test]
async fn a_421_between_recipients_leaves_decided_ones_decided() {
    let server = relay().await;
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
    server.rule(
        Rule::at(At::Rcpt)
            .to("three@y.test")
            .act(Act::ReplyThenClose("421 4.7.0 too many errors".to_owned())),
    );
    let outcomes =
        send(&lanes(settings(&server)), &["one@y.test", "two@y.test", "three@y.test", "four@y.test"]).await;
    let gone = "deferred rcpt 421 us";
    assert_eq!(shorts(&outcomes), [gone, "refused rcpt 550", gone, gone]);
    assert_eq!(server.counters().dots, 0);
}

#[tokio::test]
async fn a_refusal_of_the_message_is_one_of_every_recipient_accepted_before() {
    let server = relay().await;
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("451 4.2.0 wait"));
    server.rule(Rule::at(At::Dot).reply("554 5.7.1 content rejected"));
    let outcomes = send(&lanes(settings(&server)), &["one@y.test", "two@y.test", "three@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused dot 554", "deferred rcpt 451", "refused dot 554"]);
}

#[tokio::test]
async fn a_cancelled_send_does_not_poison_the_next() {
    let server = relay().await;
    server.rule(Rule::at(At::AfterDot).delay(PATIENCE).times(1));
    server.rule(Rule::at(At::Rcpt).to("bad@y.test").reply("550 5.1.1 unknown"));
    let lanes = lanes(settings(&server));
    let mut lane = lanes.acquire().await;
    let cancelled = tokio::time::timeout(SHORT, send_on(&mut lane, &["first@y.test"])).await;
    assert!(cancelled.is_err(), "the relay was to be slow");
    // On the same lane, and on the next holder's: each hears its own answers.
    assert_eq!(shorts(&send_on(&mut lane, &["bad@y.test"]).await), ["refused rcpt 550"]);
    drop(lane);
    assert_eq!(shorts(&send(&lanes, &["second@y.test"]).await), ["accepted"]);
    let counters = server.counters();
    assert_eq!((counters.connections, counters.transactions), (2, 3));
    assert_eq!(server.mails().pop().unwrap().recipients, ["second@y.test"]);
}

#[tokio::test]
async fn the_fence_is_asked_once_after_the_body_and_its_refusal_stops_the_dot() {
    let server = relay().await;
    // The relay reads nothing of the body for a while, and the body is more than sockets buffer: whoever asks the
    // fence before the body is written asks it too early.
    let pause = Duration::from_millis(500);
    server.rule(Rule::at(At::Body).delay(pause));
    let message = long_message();
    let recipients = addresses(&["b@y.test", "c@y.test"]);
    let mail = Envelope { from: "a@x.test", recipients: &recipients, message: &message };
    let lanes = lanes(settings(&server));

    let started = Instant::now();
    let asked = AtomicU64::new(0);
    let refuse = || {
        asked.fetch_add(1, Ordering::SeqCst);
        assert!(started.elapsed() >= pause, "asked before the body was written");
        Err("the claim is too old".to_owned())
    };
    let outcomes = lanes.acquire().await.send(&mail, &refuse).await;
    assert_eq!(shorts(&outcomes), ["deferred fence", "deferred fence"]);
    assert_eq!(text(&outcomes[0]), "the claim is too old");
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let outcomes = lanes.acquire().await.send(&mail, &free).await;
    assert_eq!(shorts(&outcomes), ["accepted", "accepted"]);
    let counters = server.counters();
    assert_eq!((counters.mails, counters.dots, counters.connections), (1, 1, 2));
    assert_eq!(server.mails()[0].raw.len(), message.len());
}

#[tokio::test]
async fn a_relay_that_speaks_out_of_turn_is_never_believed() {
    for at in [At::Banner, At::Ehlo, At::Mail, At::Rcpt, At::Data] {
        let server = relay().await;
        let ahead = b"250 2.0.0 Ok: queued as 4FAKE\r\n250 2.0.0 Ok: queued as 4FAKE\r\n".to_vec();
        server.rule(Rule::at(at).act(Act::NormalThenBytes(ahead)));
        let outcomes = send(&lanes(hasty(&server)), &["b@y.test"]).await;
        let found = short(&outcomes[0]);
        assert!(found.starts_with("deferred") && found.ends_with("us"), "{at:?}: {outcomes:?}");
        assert_eq!(server.counters().mails, 0, "{at:?}");
    }
}

#[tokio::test]
async fn extra_words_after_the_last_reply_cost_the_connection_only() {
    let server = relay().await;
    let extra = b"421 4.4.2 idle for too long\r\n".to_vec();
    server.rule(Rule::at(At::AfterDot).act(Act::NormalThenBytes(Vec::new())));
    let lanes = lanes(settings(&server));
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    server.clear_rules();
    server.rule(Rule::at(At::AfterDot).times(1).act(Act::NormalThenBytes(extra)));
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    assert_eq!(server.counters().connections, 2);
}

#[tokio::test]
async fn the_middle_of_a_long_message_is_before_the_dot() {
    let closing = |reply: &str| Rule::at(At::Body).act(Act::ReplyThenClose(reply.to_owned()));
    for (rule, expected) in [
        (closing("552 5.3.4 that is enough"), "refused data 552"),
        (closing("421 4.3.2 shutting down"), "deferred data 421 us"),
        (closing("250 2.0.0 Ok: queued as 4FAKE"), "deferred data us"),
        (Rule::at(At::Body).disconnect(), "deferred data us"),
        // It stops reading; the message is more than sockets buffer.
        (Rule::at(At::Body).delay(2 * PATIENCE), "deferred data us"),
    ] {
        let server = relay().await;
        server.rule(rule.times(1));
        let message = long_message();
        let recipients = addresses(&["b@y.test"]);
        let mail = Envelope { from: "a@x.test", recipients: &recipients, message: &message };
        let lanes = lanes(hasty(&server));
        let outcomes = lanes.acquire().await.send(&mail, &free).await;
        assert_eq!(shorts(&outcomes), [expected]);
        assert_eq!(server.counters().dots, 0, "{expected}");
        assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    }
}

#[tokio::test]
async fn a_connection_the_relay_closed_while_idle_is_replaced_unnoticed() {
    let server = relay().await;
    let lanes = lanes(settings(&server));
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    server.restart().await.unwrap();
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    // A relay that says why before it closes.
    server
        .rule(Rule::at(At::Mail).times(1).act(Act::ReplyThenClose("421 4.4.2 timeout exceeded".to_owned())));
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
    assert_eq!(server.counters().connections, 3);
    // Once is enough: a fresh connection that is closed at MAIL is an outcome.
    server.rule(Rule::at(At::Mail).disconnect());
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["deferred mail us"]);
    assert_eq!(server.counters().connections, 4);
}

#[tokio::test]
async fn a_relay_that_is_down_defers_and_one_that_is_up_again_is_used() {
    let server = relay().await;
    let lanes = lanes(settings(&server));
    server.stop().await;
    let outcomes = send(&lanes, &["b@y.test", "c@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["deferred connect us", "deferred connect us"]);
    assert!(text(&outcomes[0]).starts_with("connection refused at 127.0.0.1:"), "{outcomes:?}");
    server.restart().await.unwrap();
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
}

#[tokio::test]
async fn localhost_is_tried_at_all_its_addresses() {
    let server = relay().await;
    let lanes = lanes(SmtpSettings { host: "localhost".to_owned(), ..settings(&server) });
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
}

#[tokio::test]
async fn an_address_that_needs_smtputf8_is_refused_alone_where_it_is_not_offered() {
    let plain =
        SmtpServer::start(SmtpOptions { extensions: Vec::new(), ..SmtpOptions::default() }).await.unwrap();
    let lanes_plain = lanes(settings(&plain));
    let outcomes = send(&lanes_plain, &["jörg@y.test", "b@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused rcpt", "accepted"]);
    assert_eq!(shorts(&send(&lanes_plain, &["jörg@y.test"]).await), ["refused rcpt"]);
    assert_eq!(plain.counters().connections, 1);

    let server = relay().await;
    assert_eq!(shorts(&send(&lanes(settings(&server)), &["jörg@y.test"]).await), ["accepted"]);
    assert_eq!(server.mails()[0].recipients, ["jörg@y.test"]);
}

#[tokio::test]
async fn a_message_beyond_the_relays_size_is_refused_before_it_is_sent() {
    let extensions = vec!["SIZE 50".to_owned()];
    let server = SmtpServer::start(SmtpOptions { extensions, ..SmtpOptions::default() }).await.unwrap();
    let outcomes = send(&lanes(settings(&server)), &["b@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused mail 552"]);
    assert_eq!(server.counters().dots, 0);
}

#[tokio::test]
async fn an_address_that_would_leave_its_command_never_reaches_the_relay() {
    let server = relay().await;
    let lanes = lanes(settings(&server));
    let evil = "x@y.test>\r\nRCPT TO:<victim@y.test";
    assert_eq!(shorts(&send(&lanes, &[evil]).await), ["refused address"]);
    assert_eq!(server.counters().connections, 0);
    assert_eq!(shorts(&send(&lanes, &[evil, "b@y.test"]).await), ["refused address", "accepted"]);
    assert_eq!(server.mails()[0].recipients, ["b@y.test"]);
}

#[tokio::test]
async fn the_delivery_deadline_bounds_everything_up_to_the_dot() {
    let server = relay().await;
    server.rule(Rule::at(At::Rcpt).delay(Duration::from_millis(200)));
    let lanes = lanes(SmtpSettings { delivery_deadline: Duration::from_millis(700), ..settings(&server) });
    let many: Vec<String> = (0..20).map(|i| format!("r{i}@y.test")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let started = Instant::now();
    let outcomes = send(&lanes, &many).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(outcomes.iter().all(|outcome| short(outcome) == "deferred rcpt us"), "{outcomes:?}");
    assert_eq!(server.counters().dots, 0);
}

#[tokio::test]
async fn a_process_that_slept_through_its_deadline_writes_no_dot() {
    let server = relay().await;
    let clock = TestClock::new();
    let lanes = Lanes::new(settings(&server), Arc::clone(&clock) as Arc<dyn Clock>);
    server.rule(Rule::at(At::Data).delay(SHORT));
    let asleep = tokio::spawn({
        let clock = Arc::clone(&clock);
        async move {
            tokio::time::sleep(SHORT / 2).await;
            clock.advance(Duration::from_secs(3600));
        }
    });
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["deferred data us"]);
    asleep.await.unwrap();
    assert_eq!(server.counters().dots, 0);
}

#[tokio::test]
async fn a_relay_that_took_too_long_gets_no_dot_and_the_connection_goes() {
    // 40 s for the whole, 10 s for the reply to the dot, so at least 5 s must be left.
    for (gone, expected, dots) in
        [(37, ["refused rcpt 550", "deferred fence us"], 0), (33, ["refused rcpt 550", "accepted"], 1)]
    {
        let server = relay().await;
        let clock = TestClock::new();
        let lanes = Lanes::new(settings(&server), Arc::clone(&clock) as Arc<dyn Clock>);
        server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
        server.rule(Rule::at(At::Data).delay(SHORT).times(1));
        let slow = tokio::spawn({
            let clock = Arc::clone(&clock);
            async move {
                tokio::time::sleep(SHORT / 2).await;
                clock.advance(Duration::from_secs(gone));
            }
        });
        let outcomes = send(&lanes, &["two@y.test", "b@y.test"]).await;
        assert_eq!(shorts(&outcomes), expected, "{gone} s gone");
        slow.await.unwrap();
        assert_eq!(server.counters().dots, dots);
        if dots == 0 {
            assert!(text(&outcomes[1]).starts_with("the relay was too slow"), "{outcomes:?}");
            assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
            assert_eq!(server.counters().connections, 2, "a connection out of step was used again");
        }
    }
}

#[tokio::test]
async fn the_delivery_deadline_bounds_the_reply_to_the_dot_too() {
    let server = relay().await;
    server.rule(Rule::at(At::AfterDot).delay(PATIENCE));
    let whole = Duration::from_secs(3);
    let patient =
        SmtpSettings { delivery_deadline: whole, dot_timeout: Duration::from_secs(4), ..settings(&server) };
    let lanes = lanes(patient);
    let started = Instant::now();
    assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["unknown dot us"]);
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
        let lanes = lanes(SmtpSettings { dot_timeout: Duration::from_millis(500), ..settings(&server) });
        let suspended = tokio::spawn(async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            std::thread::sleep(Duration::from_secs(2));
        });
        let outcomes = send(&lanes, &["b@y.test"]).await;
        suspended.await.unwrap();
        outcomes
    });
    assert_eq!(shorts(&outcomes), ["accepted"]);
    drop(server);
}

#[tokio::test]
async fn a_send_can_be_a_task_of_its_own() {
    let server = relay().await;
    let lanes = lanes(settings(&server));
    let task = tokio::spawn(async move { shorts(&send(&lanes, &["b@y.test"]).await) });
    assert_eq!(task.await.unwrap(), ["accepted"]);
}

#[tokio::test]
async fn lanes_bound_what_is_sent_at_once() {
    let server = relay().await;
    let lanes = lanes(SmtpSettings { lanes: 2, ..settings(&server) });
    assert_eq!(lanes.free(), 2);
    let one = lanes.acquire().await;
    let two = lanes.try_acquire().unwrap();
    assert_eq!(lanes.free(), 0);
    assert!(lanes.try_acquire().is_none());
    assert!(tokio::time::timeout(Duration::from_millis(50), lanes.acquire()).await.is_err());
    drop(one);
    drop(two);
    assert_eq!(lanes.free(), 2);

    server.rule(Rule::at(At::Dot).delay(Duration::from_millis(20)));
    let sends = (0..10).map(|_| send(&lanes, &["b@y.test"]));
    for outcomes in futures::future::join_all(sends).await {
        assert_eq!(shorts(&outcomes), ["accepted"]);
    }
    assert_eq!(server.counters().connections, 2);
}

#[tokio::test]
async fn a_connection_idle_for_long_is_not_used_again() {
    let server = relay().await;
    let clock = TestClock::new();
    let lanes = Lanes::new(settings(&server), Arc::clone(&clock) as Arc<dyn Clock>);
    for (pause, connections) in [(0, 1), (90, 1), (101, 2)] {
        clock.advance(Duration::from_secs(pause));
        assert_eq!(shorts(&send(&lanes, &["b@y.test"]).await), ["accepted"]);
        assert_eq!(server.counters().connections, connections, "after {pause} s");
    }
}

#[tokio::test]
async fn sends_keep_to_the_pace_across_lanes() {
    let server = relay().await;
    let lanes = lanes(SmtpSettings { lanes: 4, max_per_minute: Some(600), ..settings(&server) });
    let started = Instant::now();
    futures::future::join_all((0..6).map(|_| send(&lanes, &["b@y.test"]))).await;
    assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
    assert_eq!(server.counters().mails, 6);
    // Who waited before Begin does not wait again in the send.
    let mut lane = lanes.acquire().await;
    lane.turn().await;
    let mut other = lanes.acquire().await;
    other.turn().await;
    let started = Instant::now();
    assert_eq!(shorts(&send_on(&mut lane, &["b@y.test"]).await), ["accepted"]);
    assert!(started.elapsed() < Duration::from_millis(95), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_probe_names_what_is_wrong_and_what_to_do() {
    let server = relay().await;
    assert_eq!(greet(&settings(&server)).await.unwrap(), "relay.test ESMTP Postfix");
    let line = inspect(&settings(&server)).await;
    assert_eq!((line.name, line.level), ("relay", CheckLevel::Ok));
    assert!(line.detail.contains("SIZE, 8BITMIME, SMTPUTF8"), "{}", line.detail);
    assert_eq!((server.counters().quits, server.counters().transactions), (2, 0));

    for (rule, detail, remedy) in [
        (Rule::at(At::Banner).reply("554 5.7.1 go away, x@y.test"), "554 go away, <address>", "mynetworks"),
        (Rule::at(At::Banner).silence(), "no greeting within 400ms", "plain SMTP port"),
        (Rule::at(At::Ehlo).reply("550 5.7.1 bad name"), "EHLO maple.test: 550 bad name", "hello_name"),
    ] {
        server.clear_rules();
        server.rule(rule);
        let line = inspect(&hasty(&server)).await;
        assert_eq!(line.level, CheckLevel::Fail);
        assert!(line.detail.contains(detail), "{}", line.detail);
        assert!(line.remedy.as_deref().is_some_and(|text| text.contains(remedy)), "{:?}", line.remedy);
    }

    server.stop().await;
    let line = inspect(&settings(&server)).await;
    assert_eq!(line.level, CheckLevel::Fail);
    assert!(line.detail.starts_with("connection refused at 127.0.0.1:"), "{}", line.detail);
    assert_eq!(line.remedy.as_deref(), Some("is Postfix running? `systemctl status postfix`"));
    assert_eq!(greet(&settings(&server)).await.unwrap_err().stage, Stage::Connect);

    let nowhere = SmtpSettings { host: "no-such-host.invalid".to_owned(), ..settings(&server) };
    let line = inspect(&nowhere).await;
    assert!(line.remedy.as_deref().is_some_and(|text| text.contains("getent hosts")), "{line:?}");
}

/// Nagle's algorithm would hold one lane at about 22 messages a second; the figure is printed, the bound is loose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lane_is_not_slowed_down_by_nagle() {
    let server =
        SmtpServer::start(SmtpOptions { keep: Keep::Digests, ..SmtpOptions::default() }).await.unwrap();
    let lanes = lanes(settings(&server));
    let mut lane = lanes.acquire().await;
    let started = Instant::now();
    const N: u64 = 300;
    for _ in 0..N {
        assert_eq!(shorts(&send_on(&mut lane, &["b@y.test"]).await), ["accepted"]);
    }
    let rate = f64::from(u32::try_from(N).unwrap()) / started.elapsed().as_secs_f64();
    println!("{rate:.0} messages a second on one lane");
    assert!(rate > 50.0, "{rate:.0} messages a second: is TCP_NODELAY off?");
    assert_eq!(server.digests().values().sum::<u64>(), N);
    assert!(server.mails().is_empty());
}

#[tokio::test]
async fn received_mails_are_files_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let options = SmtpOptions { dir: Some(dir.path().join("mails")), ..SmtpOptions::default() };
    let server = SmtpServer::start(options).await.unwrap();
    assert_eq!(shorts(&send(&lanes(settings(&server)), &["b@y.test"]).await), ["accepted"]);
    let mails = server.await_mails(1, PATIENCE).await.unwrap();
    let file = dir.path().join("mails").join(format!("{}.eml", mails[0].queue_id));
    assert_eq!(std::fs::read(file).unwrap(), MESSAGE);
    assert!(server.await_mails(2, Duration::from_millis(20)).await.is_err());
}
