//! Commands that are written together (RFC 2920): what it saves, and that no answer is taken for another's.

use std::time::Duration;

use devkit::smtp::{Act, Rule, SmtpOptions, SmtpServer, Stage as At};
use maple_router::gateway::smtp::Envelope;

use crate::harness::{
    MESSAGE, Manner, SHORT, addresses, connections, free, hasty, in_either_manner, relay, relay_with, send,
    settings, short_message, shorts, text,
};

in_either_manner!(
    a_dialogue_has_no_more_round_trips_than_it_must,
    nothing_is_written_before_its_turn,
    a_refused_sender_costs_no_connection,
    a_fence_that_falls_while_data_is_granted_stops_a_short_message_too,
);

const ASTRAY: &str = "deferred data us";

async fn a_dialogue_has_no_more_round_trips_than_it_must(manner: Manner) {
    let server = relay_with(manner).await;
    let connections = connections(settings(&server));
    assert_eq!(shorts(&send(&connections, &["a@y.test"]).await), ["accepted"]);
    let before = server.counters().rounds;
    for _ in 0..10 {
        assert_eq!(shorts(&send(&connections, &["a@y.test", "b@y.test", "c@y.test"]).await), ["accepted"; 3]);
    }
    // Together: the group, the message. One by one: MAIL, three RCPTs, DATA, the message. One more is waited for.
    let each = if manner == Manner::Together { 2 } else { 6 };
    let rounds = server.counters().rounds - before;
    assert!((each * 10 - 1..=each * 10 + 1).contains(&rounds), "{rounds} rounds for ten mails");
    assert_eq!(server.counters().connections, 1);
}

async fn nothing_is_written_before_its_turn(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Rcpt).to("@gone.test").reply("550 5.1.2 no such domain"));
    // A client that does not wait is there before the answer.
    for at in [At::Banner, At::Ehlo, At::Mail, At::Rcpt, At::Data, At::Rset, At::Quit] {
        server.rule(Rule::at(at).delay(Duration::from_millis(50)).times(2));
    }
    let connections = connections(settings(&server));
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    assert_eq!(shorts(&send(&connections, &["a@gone.test"]).await), ["refused rcpt 550"]);
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    connections.close().await;
    let counters = server.counters();
    assert_eq!((counters.ahead, counters.connections, counters.mails, counters.quits), (0, 1, 2, 1));
}

async fn a_refused_sender_costs_no_connection(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Mail).reply("550 5.1.8 who are you?").times(2));
    let connections = connections(settings(&server));
    for expected in ["deferred mail 550 us", "deferred mail 550 us", "accepted"] {
        assert_eq!(shorts(&send(&connections, &["a@y.test", "b@y.test"]).await), [expected; 2]);
    }
    let counters = server.counters();
    assert_eq!((counters.connections, counters.dots), (1, 1));
}

async fn a_fence_that_falls_while_data_is_granted_stops_a_short_message_too(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Data).delay(SHORT));
    let recipients = addresses(&["b@y.test"]);
    let message = short_message();
    let mail = Envelope { from: "a@x.test", recipients: &recipients, message: &message };
    let connections = connections(settings(&server));
    let started = std::time::Instant::now();
    let falls = || if started.elapsed() >= SHORT { Err("too late".to_owned()) } else { Ok(()) };
    assert_eq!(shorts(&connections.acquire().await.send(&mail, &falls).await), ["deferred fence"]);
    assert_eq!(shorts(&connections.acquire().await.send(&mail, &free).await), ["accepted"]);
    let counters = server.counters();
    assert_eq!((counters.dots, counters.connections), (1, 2));
}

#[tokio::test]
async fn a_message_to_nobody_is_not_ended_with_a_dot() {
    let server = relay().await;
    // The relay refuses the only recipient, keeps him all the same, and grants DATA: a dot would be an empty mail to him.
    server.rule(Rule::at(At::Rcpt).times(1).act(Act::Bytes(b"550 5.1.1 no such user\r\n".to_vec())));
    let connections = connections(settings(&server));
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["refused rcpt 550"]);
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    let counters = server.counters();
    assert_eq!((counters.dots, counters.mails, counters.connections), (1, 1, 2));
    assert_eq!(server.mails()[0].raw, MESSAGE);
}

/// One recipient's refusal must never be taken for another's: of a group that is not in step nothing is believed.
#[tokio::test]
async fn of_a_group_that_fell_out_of_step_nobody_is_refused() {
    let extra = || Act::NormalThenBytes(b"250 2.1.5 Ok\r\n".to_vec());
    let unsaid = || Act::Bytes(Vec::new());
    for (name, act, delay, expected) in [
        // 250 250+ 550 354: DATA seems refused, and 354 is left over.
        ("one reply ahead", extra(), Duration::ZERO, ASTRAY),
        // The same, and 354 comes when it is taken for the answer to RSET.
        ("one reply ahead, the rest late", extra(), SHORT, ASTRAY),
        // 550 354: the first seems refused, and RCPT seems to be granted with 354.
        ("one reply behind", unsaid(), Duration::ZERO, "deferred rcpt 354 us"),
    ] {
        let server = relay().await;
        server.rule(Rule::at(At::Rcpt).to("one@y.test").times(1).act(act));
        server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
        server.rule(Rule::at(At::Data).times(1).delay(delay));
        let connections = connections(settings(&server));
        let outcomes = send(&connections, &["one@y.test", "two@y.test"]).await;
        assert_eq!(shorts(&outcomes), [expected; 2], "{name}");
        let again = send(&connections, &["one@y.test", "two@y.test"]).await;
        assert_eq!(shorts(&again), ["accepted", "refused rcpt 550"], "{name}");
        let counters = server.counters();
        assert_eq!((counters.dots, counters.connections), (1, 2), "{name}");
        assert_eq!(server.mails()[0].recipients, ["one@y.test"], "{name}");
    }
}

/// 250 250+ 250 550 250 …: an answer that grants DATA as if it were RCPT came after a refusal that is somebody else's.
#[tokio::test]
async fn a_refusal_before_the_group_fell_out_of_step_is_not_believed_either() {
    let server = relay().await;
    server.rule(Rule::at(At::Mail).times(1).act(Act::NormalThenBytes(b"250 2.1.0 Ok\r\n".to_vec())));
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
    let connections = connections(hasty(&server));
    let all = ["one@y.test", "two@y.test", "three@y.test"];
    let outcomes = send(&connections, &all).await;
    assert_eq!(shorts(&outcomes), ["deferred data 250 us"; 3]);
    assert_eq!(shorts(&send(&connections, &all).await), ["accepted", "refused rcpt 550", "accepted"]);
}

/// 552 250 250 354: the refusal was said to something before, and the answer to MAIL stands behind it.
#[tokio::test]
async fn a_refused_sender_is_not_believed_where_the_group_is_out_of_step() {
    let server = relay().await;
    let early = b"552 5.3.4 too big\r\n250 2.1.0 Ok\r\n".to_vec();
    server.rule(Rule::at(At::Mail).times(1).act(Act::Bytes(early)));
    let connections = connections(settings(&server));
    assert_eq!(shorts(&send(&connections, &["b@y.test", "c@y.test"]).await), [ASTRAY; 2]);
    assert_eq!(shorts(&send(&connections, &["b@y.test", "c@y.test"]).await), ["accepted"; 2]);
    assert_eq!((server.counters().dots, server.counters().connections), (1, 2));
}

/// 250 250 250+ 550 and the end: whose refusal it is cannot be known any more.
#[tokio::test]
async fn who_was_granted_is_not_refused_by_the_last_word_of_a_connection() {
    let server = relay().await;
    let extra = Act::NormalThenBytes(b"250 2.1.5 Ok\r\n".to_vec());
    server.rule(Rule::at(At::Rcpt).to("one@y.test").times(1).act(extra));
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
    server.rule(Rule::at(At::Data).times(1).disconnect());
    let connections = connections(settings(&server));
    let outcomes = send(&connections, &["one@y.test", "two@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["deferred data 550"; 2]);
    let again = send(&connections, &["one@y.test", "two@y.test"]).await;
    assert_eq!(shorts(&again), ["accepted", "refused rcpt 550"]);
}

/// Command by command an answer too many shows as late: as a grant of DATA that is none.
#[tokio::test]
async fn one_by_one_nobody_is_refused_out_of_step_either() {
    let server = relay_with(Manner::OneByOne).await;
    server.rule(Rule::at(At::Rcpt).to("two@y.test").times(1).act(Act::Bytes(b"550 5.1.1 one\r\n".to_vec())));
    server.rule(Rule::at(At::Data).times(1).act(Act::Bytes(b"250 2.1.5 two\r\n".to_vec())));
    let connections = connections(settings(&server));
    let outcomes = send(&connections, &["one@y.test", "two@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["deferred data 250 us"; 2]);
    assert_eq!(shorts(&send(&connections, &["one@y.test", "two@y.test"]).await), ["accepted"; 2]);
}

/// A connection that ends is not out of step: what was decided before stays decided.
#[tokio::test]
async fn what_was_refused_before_the_connection_ended_stays_refused() {
    for (at, act, expected) in [
        (At::Data, Act::Disconnect, "deferred data us"),
        (At::Data, Act::ReplyThenClose("421 4.3.2 shutting down".to_owned()), "deferred data 421 us"),
        (At::Data, Act::Reply(vec!["451 4.3.0 later".to_owned()]), "deferred data 451"),
    ] {
        let server = relay().await;
        server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
        server.rule(Rule::at(at).times(1).act(act));
        let outcomes = send(&connections(settings(&server)), &["one@y.test", "two@y.test"]).await;
        assert_eq!(shorts(&outcomes), [expected, "refused rcpt 550"]);
    }
    // No recipient is left for DATA, and the connection ends at RSET.
    let server = relay().await;
    server.rule(Rule::at(At::Rcpt).reply("550 5.1.1 unknown"));
    server.rule(Rule::at(At::Rset).disconnect());
    let outcomes = send(&connections(settings(&server)), &["one@y.test", "two@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused rcpt 550"; 2]);
    assert_eq!(text(&outcomes[0]), "unknown");
}

#[tokio::test]
async fn a_group_too_long_for_the_sockets_goes_one_by_one() {
    let server = relay().await;
    let many: Vec<String> = (0..80).map(|i| format!("{}{i}@y.test", "r".repeat(250))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let connections = connections(settings(&server));
    assert_eq!(shorts(&send(&connections, &many).await), ["accepted"; 80]);
    assert!(server.counters().rounds > 80, "{:?}", server.counters());
    assert_eq!(shorts(&send(&connections, &many[..40]).await), ["accepted"; 40]);
    assert!(server.counters().rounds < 90, "{:?}", server.counters());
    assert_eq!(server.counters().connections, 1);
}

/// The behaviour behind the counts `rounds` and `ahead`, and what the real relay does.
#[tokio::test]
async fn the_scripted_relay_sends_away_who_does_not_wait() {
    let mut options = SmtpOptions::default();
    options.extensions.retain(|offered| offered != "PIPELINING");
    let plain = SmtpServer::start(options).await.unwrap();
    let server = relay().await;
    let group = b"MAIL FROM:<a@x.test>\r\nRCPT TO:<b@y.test>\r\n";
    let ahead = [&group[..], b"DATA\r\nSubject: x\r\n\r\n.\r\n"].concat();
    for (server, said, sent_away) in [(&plain, &group[..], 1), (&server, group, 0), (&server, &ahead, 1)] {
        let mut client = devkit::smtp::Client::connect(server.port()).await.unwrap();
        client.command("EHLO client.test").await.unwrap();
        client.say(said).await.unwrap();
        let mut replies = Vec::new();
        for _ in 0..3 {
            match tokio::time::timeout(SHORT, client.reply()).await {
                Ok(Ok(reply)) => replies.push(reply),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        let refused = replies.iter().filter(|reply| reply.starts_with("503")).count();
        assert_eq!(refused, sent_away, "{replies:?}");
    }
    assert_eq!((plain.counters().ahead, server.counters().ahead, server.counters().mails), (1, 1, 0));
}
