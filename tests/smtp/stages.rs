//! One bad moment at every stage of a dialogue: refused, deferred, closed, silent, garbage.

use devkit::smtp::{Act, Rule, Stage as At};

use crate::harness::{
    MESSAGE, Manner, addresses, connections, hasty, in_either_manner, relay_with, send, shorts,
};

in_either_manner!(
    refusals_at_every_stage,
    closing_replies_at_every_stage,
    disconnects_at_every_stage,
    silence_at_every_stage,
    garbage_at_every_stage,
    odd_but_clear_acceptances_are_accepted
);

/// One bad moment at every stage: the outcome, how many mails exist at the relay, and that the next send is whole.
async fn bad_moment(manner: Manner, rule: Rule, expected: &str, mails: u64, name: &str) {
    let server = relay_with(manner).await;
    server.rule(rule.times(1));
    let connections = connections(hasty(&server));
    let found = shorts(&send(&connections, &["b@y.test"]).await);
    assert_eq!(found, [expected], "{name}");
    assert_eq!(server.counters().mails, mails, "{name}");
    let next = shorts(&send(&connections, &["c@y.test"]).await);
    assert_eq!(next, ["accepted"], "the send after: {name}");
    let last = server.mails().last().cloned().expect("the next mail at the relay");
    assert_eq!(
        (last.recipients.as_slice(), last.raw.as_slice()),
        (&addresses(&["c@y.test"])[..], MESSAGE),
        "{name}"
    );
}

async fn refusals_at_every_stage(manner: Manner) {
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
        bad_moment(manner, Rule::at(at).reply(reply), expected, 0, &format!("{at:?} {reply}")).await;
    }
}

async fn closing_replies_at_every_stage(manner: Manner) {
    for (at, expected) in [
        (At::Banner, "deferred banner 421 us"),
        (At::Ehlo, "deferred ehlo 421 us"),
        (At::Mail, "deferred mail 421 us"),
        (At::Rcpt, "deferred rcpt 421 us"),
        (At::Data, "deferred data 421 us"),
        (At::Dot, "deferred dot 421 us"),
    ] {
        let rule = Rule::at(at).act(Act::ReplyThenClose("421 4.3.2 shutting down".to_owned()));
        bad_moment(manner, rule, expected, 0, &format!("421 at {at:?}")).await;
    }
}

async fn disconnects_at_every_stage(manner: Manner) {
    for (at, expected, mails) in [
        (At::Banner, "deferred banner us", 0),
        (At::Ehlo, "deferred ehlo us", 0),
        (At::Mail, "deferred mail us", 0),
        (At::Rcpt, "deferred rcpt us", 0),
        (At::Data, "deferred data us", 0),
        (At::Dot, "unknown dot us", 0),
        (At::AfterDot, "unknown dot us", 1),
    ] {
        bad_moment(manner, Rule::at(at).disconnect(), expected, mails, &format!("disconnect at {at:?}"))
            .await;
    }
}

async fn silence_at_every_stage(manner: Manner) {
    for (at, expected, mails) in [
        (At::Banner, "deferred banner us", 0),
        (At::Ehlo, "deferred ehlo us", 0),
        (At::Mail, "deferred mail us", 0),
        (At::Rcpt, "deferred rcpt us", 0),
        (At::Data, "deferred data us", 0),
        (At::Dot, "unknown dot us", 0),
        (At::AfterDot, "unknown dot us", 1),
    ] {
        bad_moment(manner, Rule::at(at).silence(), expected, mails, &format!("silence at {at:?}")).await;
    }
}

async fn garbage_at_every_stage(manner: Manner) {
    for (at, expected, mails) in [
        (At::Banner, "deferred banner us", 0),
        (At::Ehlo, "deferred ehlo us", 0),
        (At::Mail, "deferred mail us", 0),
        (At::Rcpt, "deferred rcpt us", 0),
        (At::Data, "deferred data us", 0),
        (At::AfterDot, "unknown dot us", 1),
    ] {
        let rule = Rule::at(at).act(Act::Bytes(b"\x16\x03\x01 not smtp\r\n".to_vec()));
        bad_moment(manner, rule, expected, mails, &format!("garbage at {at:?}")).await;
    }
}

async fn odd_but_clear_acceptances_are_accepted(manner: Manner) {
    for (bytes, expected) in [
        (&b"250\r\n"[..], "accepted without id"),
        (b"250 2.0.0 Ok: queued as 4ABCDEF\n", "accepted"),
        (b"250-2.0.0 multi\r\n250 2.0.0 Ok: queued as 4ABCDEF\r\n", "accepted"),
        (b"250 2.0.0 f\xfcr dich: queued as 4ABCDEF\r\n", "accepted"),
    ] {
        bad_moment(manner, Rule::at(At::AfterDot).act(Act::Bytes(bytes.to_vec())), expected, 1, "odd 250")
            .await;
    }
}
