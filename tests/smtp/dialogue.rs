//! The relay's input and its replies' meaning: recipient by recipient, word by word.

use std::time::Duration;

use devkit::smtp::{Act, Rule, SmtpOptions, SmtpServer, Stage as At};
use maple_router::gateway::smtp::Envelope;
use maple_router::ports::{Message, Outcome, Spooled};

use crate::harness::{
    MESSAGE, Manner, PATIENCE, connections, free, hasty, in_either_manner, relay_with, send, settings, short,
    shorts, text,
};

in_either_manner!(
    one_connection_serves_many_sends,
    the_relay_gets_exactly_the_message,
    a_file_that_cannot_be_read_stops_the_message_before_its_dot,
    recipients_are_independent_and_the_queue_id_is_kept,
    without_an_accepted_recipient_there_is_no_data_and_the_connection_is_kept,
    a_421_between_recipients_leaves_decided_ones_decided,
    a_refusal_of_the_message_is_one_of_every_recipient_accepted_before,
    a_relay_that_speaks_out_of_turn_is_never_believed,
    extra_words_after_the_last_reply_cost_the_connection_only,
    an_address_that_needs_smtputf8_is_refused_alone_where_it_is_not_offered,
    an_address_that_would_leave_its_command_never_reaches_the_relay
);

async fn one_connection_serves_many_sends(manner: Manner) {
    let server = relay_with(manner).await;
    let connections = connections(settings(&server));
    for _ in 0..20 {
        assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    }
    let counters = server.counters();
    assert_eq!((counters.connections, counters.mails, counters.rsets), (1, 20, 0));
    connections.close().await;
    assert_eq!(server.counters().quits, 1);
}

async fn the_relay_gets_exactly_the_message(manner: Manner) {
    let server = relay_with(manner).await;
    assert_eq!(shorts(&send(&connections(settings(&server)), &["b@y.test"]).await), ["accepted"]);
    let mail = server.mails().pop().expect("a mail");
    assert_eq!(mail.raw, MESSAGE);
    assert_eq!(mail.from, "a@x.test");
    assert_eq!((mail.message_id.as_deref(), mail.submission_id.as_deref()), (Some("1@x.test"), Some("s-1")));
}

/// The relay has a part of the message by then, and is not at fault: it forgets that.
async fn a_file_that_cannot_be_read_stops_the_message_before_its_dot(manner: Manner) {
    let server = relay_with(manner).await;
    let path = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&path, vec![b'x'; 300_000]).expect("written");
    let file = Spooled::new(path.reopen().expect("open")).expect("spooled");
    let (head, part) = (b"Subject: x\r\n\r\n".to_vec(), b"--b\r\n\r\n".to_vec());
    let message = Message::with_files(head.clone(), vec![(part, file)], b"--b--\r\n".to_vec());
    let recipients = ["b@y.test".to_owned()];
    let mail = Envelope { from: "a@x.test", recipients: &recipients, message: &message };
    let connections = connections(settings(&server));
    assert_eq!(shorts(&connections.acquire().await.send(&mail, &free).await), ["accepted"]);
    let raw = server.mails().pop().expect("a mail").raw.clone();
    assert!(raw.starts_with(&head) && raw.ends_with(b"\r\n--b--\r\n"), "{} bytes", raw.len());
    std::fs::write(&path, b"shorter").expect("written");
    assert_eq!(shorts(&connections.acquire().await.send(&mail, &free).await), ["deferred fence"]);
    assert_eq!(server.counters().dots, 1);
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
}

async fn recipients_are_independent_and_the_queue_id_is_kept(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 <two@y.test>: User unknown"));
    server.rule(Rule::at(At::Rcpt).to("three@y.test").reply_lines(&["451 4.2.0 wait", "451 4.2.0 a bit"]));
    let connections = connections(settings(&server));
    let outcomes = send(&connections, &["one@y.test", "two@y.test", "three@y.test", "four@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["accepted", "refused rcpt 550", "deferred rcpt 451", "accepted"]);
    assert_eq!(text(&outcomes[2]), "wait a bit");
    let mail = server.mails().pop().expect("a mail");
    assert_eq!(mail.recipients, ["one@y.test", "four@y.test"]);
    for i in [0, 3] {
        let Outcome::Accepted { queue_id, reply } = &outcomes[i] else { panic!("{outcomes:?}") };
        assert_eq!(queue_id.as_deref(), Some(mail.queue_id.as_str()));
        assert_eq!((reply.code, reply.enhanced.as_deref()), (Some(250), Some("2.0.0")));
    }
}

async fn without_an_accepted_recipient_there_is_no_data_and_the_connection_is_kept(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Rcpt).to("@gone.test").reply("550 5.1.2 no such domain"));
    let connections = connections(settings(&server));
    let outcomes = send(&connections, &["a@gone.test", "b@gone.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused rcpt 550", "refused rcpt 550"]);
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    let counters = server.counters();
    assert_eq!((counters.rsets, counters.dots, counters.connections), (1, 1, 1));
}

async fn a_421_between_recipients_leaves_decided_ones_decided(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("550 5.1.1 unknown"));
    server.rule(
        Rule::at(At::Rcpt)
            .to("three@y.test")
            .act(Act::ReplyThenClose("421 4.7.0 too many errors".to_owned())),
    );
    let outcomes =
        send(&connections(settings(&server)), &["one@y.test", "two@y.test", "three@y.test", "four@y.test"])
            .await;
    let gone = "deferred rcpt 421 us";
    assert_eq!(shorts(&outcomes), [gone, "refused rcpt 550", gone, gone]);
    assert_eq!(server.counters().dots, 0);
}

async fn a_refusal_of_the_message_is_one_of_every_recipient_accepted_before(manner: Manner) {
    let server = relay_with(manner).await;
    server.rule(Rule::at(At::Rcpt).to("two@y.test").reply("451 4.2.0 wait"));
    server.rule(Rule::at(At::Dot).reply("554 5.7.1 content rejected"));
    let outcomes = send(&connections(settings(&server)), &["one@y.test", "two@y.test", "three@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused dot 554", "deferred rcpt 451", "refused dot 554"]);
}

async fn a_relay_that_speaks_out_of_turn_is_never_believed(manner: Manner) {
    for at in [At::Banner, At::Ehlo, At::Mail, At::Rcpt, At::Data] {
        let server = relay_with(manner).await;
        let ahead = b"250 2.0.0 Ok: queued as 4FAKE\r\n250 2.0.0 Ok: queued as 4FAKE\r\n".to_vec();
        server.rule(Rule::at(at).act(Act::NormalThenBytes(ahead)));
        let outcomes = send(&connections(hasty(&server)), &["b@y.test"]).await;
        let found = short(&outcomes[0]);
        assert!(found.starts_with("deferred") && found.ends_with("us"), "{at:?}: {outcomes:?}");
        assert_eq!(server.counters().mails, 0, "{at:?}");
    }
}

async fn extra_words_after_the_last_reply_cost_the_connection_only(manner: Manner) {
    // Taken for the answer to the next MAIL, the second would make every later answer that of the command before.
    for extra in ["421 4.4.2 idle for too long\r\n", "250 2.1.0 Ok\r\n"] {
        let server = relay_with(manner).await;
        server.rule(Rule::at(At::Rcpt).to("gone@y.test").reply("550 5.1.1 unknown"));
        let connections = connections(settings(&server));
        assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
        server.rule(Rule::at(At::AfterDot).times(1).act(Act::NormalThenBytes(extra.into())));
        assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
        let found = shorts(&send(&connections, &["gone@y.test", "b@y.test"]).await);
        assert_eq!(found, ["refused rcpt 550", "accepted"], "{extra:?}");
        assert_eq!(server.counters().connections, 2, "{extra:?}");
    }
}

async fn an_address_that_needs_smtputf8_is_refused_alone_where_it_is_not_offered(manner: Manner) {
    let plain = SmtpServer::start(SmtpOptions { extensions: Vec::new(), ..SmtpOptions::default() })
        .await
        .expect("a relay");
    let connections_plain = connections(settings(&plain));
    let outcomes = send(&connections_plain, &["jörg@y.test", "b@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused rcpt", "accepted"]);
    assert_eq!(shorts(&send(&connections_plain, &["jörg@y.test"]).await), ["refused rcpt"]);
    assert_eq!(plain.counters().connections, 1);

    let server = relay_with(manner).await;
    assert_eq!(shorts(&send(&connections(settings(&server)), &["jörg@y.test"]).await), ["accepted"]);
    assert_eq!(server.mails()[0].recipients, ["jörg@y.test"]);
}

#[tokio::test]
async fn a_message_above_the_relays_size_is_refused_before_it_is_sent() {
    let extensions = vec!["SIZE 50".to_owned()];
    let server = SmtpServer::start(SmtpOptions { extensions, ..SmtpOptions::default() }).await.unwrap();
    let outcomes = send(&connections(settings(&server)), &["b@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["refused mail 552"]);
    assert_eq!(server.counters().dots, 0);
}

async fn an_address_that_would_leave_its_command_never_reaches_the_relay(manner: Manner) {
    let server = relay_with(manner).await;
    let connections = connections(settings(&server));
    let evil = "x@y.test>\r\nRCPT TO:<victim@y.test";
    assert_eq!(shorts(&send(&connections, &[evil]).await), ["refused address"]);
    assert_eq!(server.counters().connections, 0);
    assert_eq!(shorts(&send(&connections, &[evil, "b@y.test"]).await), ["refused address", "accepted"]);
    assert_eq!(server.mails()[0].recipients, ["b@y.test"]);
}

#[tokio::test]
async fn received_mails_are_files_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let options = SmtpOptions { dir: Some(dir.path().join("mails")), ..SmtpOptions::default() };
    let server = SmtpServer::start(options).await.unwrap();
    assert_eq!(shorts(&send(&connections(settings(&server)), &["b@y.test"]).await), ["accepted"]);
    let mails = server.await_mails(1, PATIENCE).await.unwrap();
    let file = dir.path().join("mails").join(format!("{}.eml", mails[0].queue_id));
    assert_eq!(std::fs::read(file).unwrap(), MESSAGE);
    assert!(server.await_mails(2, Duration::from_millis(20)).await.is_err());
}
