//! A table of lines, each written by a real Postfix 3.7.11 (hosts and addresses are those of examples).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_router::gateway::relay_log::line::Reader;
use maple_router::ports::{LogEntry, RelayStatus};

use crate::harness::{Short, short, short_text};

/// Identifier, message, what it says.
type Row = (&'static str, &'static str, Option<Short<'static>>);

fn recipient(
    id: &'static str,
    to: &'static str,
    original: Option<&'static str>,
    status: RelayStatus,
    dsn: &'static str,
    relay: Option<&'static str>,
    text: &'static str,
) -> Option<Short<'static>> {
    Some(Short::Recipient { id, to, original, status, dsn, relay, text })
}

const HOST: Option<&str> = Some("127.0.0.1[127.0.0.1]:22526");
const LOCAL: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
const SAID: &str = "250 2.0.0 Ok: queued as 12345";

#[test]
fn real_lines_say_what_postfix_meant() {
    use RelayStatus::{Bounced, Deferred, Delivered};
    let rows: Vec<Row> = vec![
        ("postfix/smtpd", "connect from localhost[127.0.0.1]", Some(Short::Began(7))),
        ("postfix/submission/smtpd", "connect from localhost[127.0.0.1]", Some(Short::Began(7))),
        (
            "postfix/smtpd",
            "2D702990324: client=localhost[127.0.0.1]",
            Some(Short::Received("2D702990324", 7, LOCAL)),
        ),
        (
            "postfix/smtpd",
            "4jXLPQ2qBrz1SZ4X: client=localhost[127.0.0.1]",
            Some(Short::Received("4jXLPQ2qBrz1SZ4X", 7, LOCAL)),
        ),
        (
            "postfix/smtpd",
            "2D702990324: client=localhost[127.0.0.1], sasl_method=PLAIN, sasl_username=it@example.org",
            Some(Short::Received("2D702990324", 7, LOCAL)),
        ),
        // Lines with smtpd_client_port_logging; and clients that are not this host.
        (
            "postfix/smtpd",
            "655009C0170: client=localhost[127.0.0.1]:48004",
            Some(Short::Received("655009C0170", 7, LOCAL)),
        ),
        (
            "postfix/smtpd",
            "655009C0170: client=localhost[::1]",
            Some(Short::Received("655009C0170", 7, Some(IpAddr::V6(Ipv6Addr::LOCALHOST)))),
        ),
        (
            "postfix/smtpd",
            "655009C0170: client=unknown[::ffff:192.0.2.7], orig_client=localhost[127.0.0.1]",
            Some(Short::Received("655009C0170", 7, Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))))),
        ),
        (
            "postfix/smtpd",
            "655009C0170: client=x[1] [127.0.0.1]",
            Some(Short::Received("655009C0170", 7, None)),
        ),
        (
            "postfix/smtpd",
            "655009C0170: client=localhost[unix:x]",
            Some(Short::Received("655009C0170", 7, None)),
        ),
        (
            "postfix/smtpd",
            "lost connection after DATA (39 bytes) from localhost[127.0.0.1]",
            Some(Short::Cut(7)),
        ),
        ("postfix/smtpd", "timeout after DATA (28 bytes) from localhost[127.0.0.1]", Some(Short::Cut(7))),
        // Behind the dot, or between two mails: whether one was taken, this does not say.
        ("postfix/smtpd", "timeout after END-OF-MESSAGE from localhost[127.0.0.1]", None),
        ("postfix/smtpd", "lost connection after BDAT (20 bytes) from localhost[127.0.0.1]", None),
        ("postfix/smtpd", "lost connection after DATA from localhost[127.0.0.1]", None),
        (
            "postfix/smtpd",
            "disconnect from localhost[127.0.0.1] ehlo=1 mail=1 rcpt=1 data=0/1 commands=3/4",
            Some(Short::Ended(7, Some((0, false)))),
        ),
        (
            "postfix/smtpd",
            "disconnect from localhost[127.0.0.1] ehlo=1 mail=3 rcpt=3 data=2/3 commands=9/10",
            Some(Short::Ended(7, Some((2, false)))),
        ),
        (
            "postfix/smtpd",
            "disconnect from localhost[127.0.0.1]:47990 ehlo=1 mail=1 rcpt=1 data=0/1 quit=1 commands=4/5",
            Some(Short::Ended(7, Some((0, true)))),
        ),
        ("postfix/smtpd", "disconnect from localhost[127.0.0.1]", Some(Short::Ended(7, None))),
        (
            "postfix/smtpd",
            "disconnect from localhost[127.0.0.1] ehlo=1 data=0/1",
            Some(Short::Ended(7, None)),
        ),
        (
            "postfix/smtpd",
            "disconnect from localhost[127.0.0.1] ehlo=1 data=x commands=1",
            Some(Short::Ended(7, None)),
        ),
        (
            "postfix/smtpd",
            "NOQUEUE: reject: RCPT from localhost[127.0.0.1]: 550 5.1.2 <x@err.example.org>: Recipient address rejected: no \
             such; from=<it@example.org> to=<x@err.example.org> proto=ESMTP helo=<client.example.org>",
            None,
        ),
        (
            "postfix/cleanup",
            "15BF59903D0: message-id=<maple.cut@example.org>",
            Some(Short::MessageId("15BF59903D0", "<maple.cut@example.org>")),
        ),
        (
            "postfix/submission/cleanup",
            "4jXLPQ3FXPz1SZ4Y: message-id=<maple.1.1.1@example.org>",
            Some(Short::MessageId("4jXLPQ3FXPz1SZ4Y", "<maple.1.1.1@example.org>")),
        ),
        // A folded header: the line's newline is written as `?`.
        (
            "postfix/cleanup",
            "0D4909903CE: message-id=<x>? postfix/smtp[1]: 3F9A1200B6: to=<a@b.c>, relay=none, delay=1, delays=1/0/0/0, \
             dsn=5.0.0, status=bounced (x)",
            None,
        ),
        ("postfix/cleanup", "13A10990221: message-id=<no space> status=sent, resent=yes (x", None),
        (
            "postfix/qmgr",
            "2D702990324: from=<it@example.org>, size=311, nrcpt=8 (queue active)",
            Some(Short::Active("2D702990324", "it@example.org", 8)),
        ),
        (
            "postfix/qmgr",
            "1196F9903CF: from=<>, size=2283, nrcpt=1 (queue active)",
            Some(Short::Active("1196F9903CF", "", 1)),
        ),
        ("postfix/qmgr", "33AD0990328: removed", Some(Short::Removed("33AD0990328"))),
        (
            "postfix/qmgr",
            "AE3BA990025: from=<it@example.org>, status=expired, returned to sender",
            Some(Short::Expired("AE3BA990025")),
        ),
        (
            "postfix/qmgr",
            "2D702990324: from=<it@example.org>, status=force-expired, returned to sender",
            Some(Short::Expired("2D702990324")),
        ),
        (
            "postfix/smtp",
            "2D702990324: to=<full@example.net>, relay=127.0.0.1[127.0.0.1]:22526, delay=0.04, delays=0.01/0/0/0.02, \
             dsn=4.2.2, status=deferred (host 127.0.0.1[127.0.0.1] said: 452 4.2.2 mailbox full (in reply to RCPT TO \
             command))",
            recipient(
                "2D702990324",
                "full@example.net",
                None,
                Deferred,
                "4.2.2",
                HOST,
                "host 127.0.0.1[127.0.0.1] said: 452 4.2.2 mailbox full (in reply to RCPT TO command)",
            ),
        ),
        // The host that was spoken to pretends.
        (
            "postfix/smtp",
            "2D702990324: to=<grey@example.net>, relay=127.0.0.1[127.0.0.1]:22526, delay=0.04, delays=0.01/0/0/0.02, \
             dsn=4.2.0, status=deferred (host 127.0.0.1[127.0.0.1] said: 450 4.2.0 greylisted), dsn=2.0.0, status=sent \
             (250 ok (in reply to RCPT TO command))",
            recipient(
                "2D702990324",
                "grey@example.net",
                None,
                Deferred,
                "4.2.0",
                HOST,
                "host 127.0.0.1[127.0.0.1] said: 450 4.2.0 greylisted), dsn=2.0.0, status=sent (250 ok (in reply to RCPT \
                 TO command)",
            ),
        ),
        (
            "postfix/smtp",
            "2D702990324: to=<nobody@example.net>, relay=127.0.0.1[127.0.0.1]:22526, delay=0.12, delays=0.01/0/0/0.1, \
             dsn=5.1.1, status=bounced (host 127.0.0.1[127.0.0.1] said: 550 5.1.1 <nobody@example.net>: no such user, \
             status=sent (250 2.0.0 Ok: queued as FAKE) (in reply to RCPT TO command))",
            recipient(
                "2D702990324",
                "nobody@example.net",
                None,
                Bounced,
                "5.1.1",
                HOST,
                "host 127.0.0.1[127.0.0.1] said: 550 5.1.1 <nobody@example.net>: no such user, status=sent (250 2.0.0 Ok: \
                 queued as FAKE) (in reply to RCPT TO command)",
            ),
        ),
        // A recipient that pretends.
        (
            "postfix/smtp",
            "2D702990324: to=<\"a>, relay=x, dsn=2.0.0, status=sent (ok)\"@example.net>, \
             relay=127.0.0.1[127.0.0.1]:22526, delay=0.12, delays=0.01/0/0/0.1, dsn=5.0.0, status=bounced (no)",
            recipient(
                "2D702990324",
                "\"a>, relay=x, dsn=2.0.0, status=sent (ok)\"@example.net",
                None,
                Bounced,
                "5.0.0",
                HOST,
                "no",
            ),
        ),
        (
            "postfix/smtp",
            "149699903CD: to=<\"back\\\\sl\\\"q\"@example.net>, relay=127.0.0.1[127.0.0.1]:22526, delay=0.15, \
             delays=0/0.14/0/0, dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as 12345)",
            recipient("149699903CD", "\"back\\\\sl\\\"q\"@example.net", None, Delivered, "2.0.0", HOST, SAID),
        ),
        (
            "postfix/smtp",
            "2D702990324: to=<real@example.net>, orig_to=<alias@example.net>, relay=127.0.0.1[127.0.0.1]:22526, \
             delay=0.12, delays=0.01/0/0/0.1, dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as 12345)",
            recipient(
                "2D702990324",
                "real@example.net",
                Some("alias@example.net"),
                Delivered,
                "2.0.0",
                HOST,
                SAID,
            ),
        ),
        (
            "postfix/relay/smtp",
            "4A14899032D: to=<it@example.org>, relay=127.0.0.1[127.0.0.1]:22526, conn_use=2, delay=0.1, \
             delays=0.01/0.08/0/0, dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as 12345)",
            recipient("4A14899032D", "it@example.org", None, Delivered, "2.0.0", HOST, SAID),
        ),
        (
            "postfix/smtp",
            "E1B8A990242: to=<x@dead.example.org>, relay=none, delay=0.19, delays=0/0.19/0/0, dsn=4.4.1, status=deferred \
             (connect to 127.0.0.1[127.0.0.1]:1: Connection refused)",
            recipient(
                "E1B8A990242",
                "x@dead.example.org",
                None,
                Deferred,
                "4.4.1",
                None,
                "connect to 127.0.0.1[127.0.0.1]:1: Connection refused",
            ),
        ),
        ("postfix/smtp", "connect to 127.0.0.1[127.0.0.1]:1: Connection refused", None),
        ("postfix/smtp", "4A14899032D: breaking line > 998 bytes with <CR><LF>SPACE", None),
        (
            "postfix/smtp",
            "E1084990231: to=<x@tls.example.org>, relay=127.0.0.1[127.0.0.1]:22528, delay=0.21, delays=0/0.18/0.02/0, \
             dsn=4.7.4, status=deferred (TLS is required, but was not offered by host 127.0.0.1[127.0.0.1])",
            recipient(
                "E1084990231",
                "x@tls.example.org",
                None,
                Deferred,
                "4.7.4",
                Some("127.0.0.1[127.0.0.1]:22528"),
                "TLS is required, but was not offered by host 127.0.0.1[127.0.0.1]",
            ),
        ),
        (
            "postfix/lmtp",
            "45F5F99032C: to=<x@lm.example.org>, relay=127.0.0.1[127.0.0.1]:22527, delay=0.12, delays=0.02/0.09/0.01/0, \
             dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as 12345)",
            recipient(
                "45F5F99032C",
                "x@lm.example.org",
                None,
                Delivered,
                "2.0.0",
                Some("127.0.0.1[127.0.0.1]:22527"),
                SAID,
            ),
        ),
        (
            "postfix/local",
            "E2602990291: to=<nobody@local.example.org>, relay=local, delay=0.03, delays=0/0.03/0/0, dsn=2.0.0, \
             status=sent (delivered to mailbox)",
            recipient(
                "E2602990291",
                "nobody@local.example.org",
                None,
                Delivered,
                "2.0.0",
                Some("local"),
                "delivered to mailbox",
            ),
        ),
        // On its way under another queue id.
        (
            "postfix/local",
            "4jXLPQ3m1dz1SZ4l: to=<ali@local.example.org>, relay=local, delay=0.01, delays=0/0.01/0/0, dsn=2.0.0, \
             status=sent (forwarded as 4jXLPQ3qSfz1SZ4r)",
            Some(Short::Forwarded("4jXLPQ3m1dz1SZ4l", "ali@local.example.org", "4jXLPQ3qSfz1SZ4r")),
        ),
        (
            "postfix/virtual",
            "E2602990291: to=<x@virt.example.org>, relay=virtual, delay=0.08, delays=0/0.07/0/0.01, dsn=2.0.0, \
             status=sent (delivered to maildir)",
            recipient(
                "E2602990291",
                "x@virt.example.org",
                None,
                Delivered,
                "2.0.0",
                Some("virtual"),
                "delivered to maildir",
            ),
        ),
        (
            "postfix/discard",
            "DF2F2990202: to=<x@dis.example.org>, relay=none, delay=0.09, delays=0/0.09/0/0, dsn=2.0.0, status=sent \
             (thrown)",
            recipient("DF2F2990202", "x@dis.example.org", None, Delivered, "2.0.0", None, "thrown"),
        ),
        (
            "postfix/pipe",
            "E0124990221: to=<x@pipe.example.org>, relay=pi, delay=0.14, delays=0/0.02/0/0.11, dsn=5.3.0, status=bounced \
             (Command died with status 2: \"/bin/sh\". Command output: 67\": 1: Syntax error )",
            recipient(
                "E0124990221",
                "x@pipe.example.org",
                None,
                Bounced,
                "5.3.0",
                Some("pi"),
                "Command died with status 2: \"/bin/sh\". Command output: 67\": 1: Syntax error ",
            ),
        ),
        // `soft_bounce = yes`: it stays in the queue.
        (
            "postfix/pipe",
            "4jXLPQ3Vtdz1SZ4X: to=<x@pipe.example.org>, relay=pi, delay=0.16, delays=0/0.02/0/0.14, dsn=4.3.0, \
             status=SOFTBOUNCE (Command died)",
            recipient(
                "4jXLPQ3Vtdz1SZ4X",
                "x@pipe.example.org",
                None,
                Deferred,
                "4.3.0",
                Some("pi"),
                "Command died",
            ),
        ),
        (
            "postfix/error",
            "083A5990149: to=<ok@example.net>, relay=none, delay=0.08, delays=0.07/0.01/0/0.01, dsn=4.3.0, \
             status=deferred (address resolver failure)",
            recipient(
                "083A5990149",
                "ok@example.net",
                None,
                Deferred,
                "4.3.0",
                None,
                "address resolver failure",
            ),
        ),
        ("postfix/bounce", "2D702990324: sender non-delivery notification: 4A14899032D", None),
        (
            "postfix/pickup",
            "3C456990215: uid=0 from=<it@example.org>",
            Some(Short::PickedUp("3C456990215", None)),
        ),
        (
            "postfix/pickup",
            "B322F9C0155: uid=102 from=<it@example.org> orig_id=6475A9C014C",
            Some(Short::PickedUp("B322F9C0155", Some("6475A9C014C"))),
        ),
        (
            "postfix/pickup",
            "B322F9C0155: uid=0 from=<\"x> orig_id=6475A9C014C\"@example.org>",
            Some(Short::PickedUp("B322F9C0155", None)),
        ),
        ("postfix/postsuper", "33AD0990328: removed", Some(Short::Expired("33AD0990328"))),
        ("postfix/postsuper", "Deleted: 1 message", None),
        ("postfix/postsuper", "E1084990231: placed on hold", None),
        ("postfix/postsuper", "E1084990231: released from hold", None),
        ("postfix/postsuper", "E1084990231: requeued", Some(Short::Removed("E1084990231"))),
        // The queue manager follows.
        ("postfix/postsuper", "E1B8A990242: expired", None),
        ("postfix/scache", "statistics: max simultaneous domains=1 addresses=1 connection=1", None),
        ("postfix/trivial-rewrite", "warning: transport_maps lookup failure", None),
        ("postfix/master", "reload -- version 3.7.11, configuration /etc/postfix", None),
    ];
    let reader = Reader::new("postfix");
    for (identifier, message, expected) in &rows {
        let entry = reader.message(identifier.as_bytes(), Some(7), message.as_bytes());
        assert_eq!(entry.as_ref().map(short), *expected, "{identifier}: {message}");
        // The same in a file, in each of the two forms.
        for stamp in [
            "Nov 22 07:02:21 host",
            "Nov  2 07:02:21 mail.example.org",
            "2026-11-22T07:02:21.123456+01:00 host",
        ] {
            let line = format!("{stamp} {identifier}[7]: {message}");
            let read = reader.text(line.as_bytes());
            assert_eq!(read.as_ref().map(|line| short(&line.entry)), *expected, "{line}");
            let at = read.and_then(|line| line.at).map(|at| at.to_string());
            let expected_at =
                (expected.is_some() && stamp.starts_with('2')).then_some("2026-11-22T06:02:21.123456Z");
            assert_eq!(at.as_deref(), expected_at, "only a stamp with year and zone tells a time: {line}");
        }
    }
}

/// Lines of a probe that Postfix sends to itself (`sendmail -bv`, `reject_unverified_recipient`) are about no mail.
#[test]
fn probes_are_no_deliveries() {
    for status in ["deliverable", "undeliverable", "SENT", "sentx", "hold", ""] {
        let line = format!(
            "Nov 22 07:02:21 h postfix/smtp[7]: 149699903CD: to=<a@example.net>, relay=none, delay=0.1, \
             delays=0/0/0/0, dsn=2.0.0, status={status} (x)"
        );
        assert_eq!(short_text(&line), None, "{line}");
    }
}

/// The log's writer itself says that it has left lines out; in a file that is rsyslog, or journald by way of it.
#[test]
fn notices_of_suppressed_lines_are_read() {
    let cases = [
        (
            "rsyslogd: imuxsock[pid 77]: 120 messages lost due to rate-limiting (200 allowed within 5 seconds)",
            Some(Some(120)),
        ),
        (
            "rsyslogd[9]: imjournal: 7 messages lost due to rate-limiting (20000 allowed within 600 seconds)",
            Some(Some(7)),
        ),
        (
            "rsyslogd: imuxsock from <postfix/smtpd:77>: begin to drop messages due to rate-limiting",
            Some(None),
        ),
        ("systemd-journald[1]: Suppressed 33 messages from postfix@-.service", Some(Some(33))),
        ("systemd-journald[1]: Suppressed 33 messages from cron.service", None),
        ("systemd-journald[1]: Suppressed messages from postfix@-.service", None),
        ("rsyslogd: action 'x' suspended", None),
        ("sshd[1]: messages lost due to rate-limiting", None),
    ];
    for (said, expected) in cases {
        for stamp in ["Nov 22 07:02:21", "2026-11-22T07:02:21.123456+01:00"] {
            let read = Reader::new("postfix").text(format!("{stamp} host {said}").as_bytes());
            assert_eq!(read.as_ref().map(|line| short(&line.entry)), expected.map(Short::Lost), "{said}");
        }
    }
}

#[test]
fn a_line_belongs_to_the_instance_with_the_same_name() {
    let said = "33AD0990328: removed";
    let cases = [
        ("postfix", "postfix/qmgr", true),
        ("postfix", "postfix-out/qmgr", false),
        ("postfix-out", "postfix-out/qmgr", true),
        ("postfix-out", "postfix/qmgr", false),
        ("postfix", "postfix/x/qmgr", true),
        ("postfix", "postfix/x/y/qmgr", false),
        ("postfix", "postfix//qmgr", false),
        ("postfix", "postfixqmgr", false),
        ("postfix", "xpostfix/qmgr", false),
        ("postfix", "postfix/qmgr ", false),
        ("postfix", "postfix/", false),
        ("postfix", "postfix/Qmgr", false),
        ("postfix", "postfix/oqmgr", true),
        ("postfix", "postfix/nqmgr", true),
        ("mail/out", "mail/out/qmgr", true),
        ("", "postfix/qmgr", false),
    ];
    for (name, identifier, is_it) in cases {
        let reader = Reader::new(name);
        let entry = reader.message(identifier.as_bytes(), Some(1), said.as_bytes());
        assert_eq!(entry.is_some(), is_it, "{name}: {identifier}");
        let line = format!("Nov 22 07:02:21 host {identifier}[1]: {said}");
        assert_eq!(reader.text(line.as_bytes()).is_some(), is_it, "{name}: {line}");
    }
}

#[test]
fn what_is_not_at_its_place_is_not_read() {
    let lines = [
        "",
        "postfix/qmgr[1]: 33AD0990328: removed",
        "host postfix/qmgr[1]: 33AD0990328: removed",
        "Nov 22 07:02:21 postfix/qmgr[1]: 33AD0990328: removed",
        "Nov 22 07:02:21 host postfix/qmgr[1]:33AD0990328: removed",
        "Nov 22 07:02:21 host postfix/qmgr: 33AD0990328: removed",
        "Nov 22 07:02:21 host postfix/qmgr[]: 33AD0990328: removed",
        "Nov 22 07:02:21 host postfix/qmgr[99999999999]: 33AD0990328: removed",
        "Nov 22 07:02:21 host postfix/qmgr[1]: 33AD0: removed",
        "Nov 22 07:02:21 host postfix/qmgr[1]: 33ad0990328: removed by hand",
        "Nov 22 07:02:21 host postfix/qmgr[1]: NOQUEUE: removed",
        "Nov 22 07:02:21 host postfix/qmgr[1]: warning: 33AD0990328: removed",
        "Nov 22 07:02:21 host su: postfix/qmgr[1]: 33AD0990328: removed",
        "Nov 22 07:02:21 host CRON[2]: (root) CMD (x postfix/qmgr[1]: 33AD0990328: removed)",
        "Nov-22 07:02:21 host postfix/qmgr[1]: 33AD0990328: removed",
        "2026-11-22 07:02:21 host postfix/qmgr[1]: 33AD0990328: removed",
    ];
    for line in lines {
        assert_eq!(short_text(line), None, "{line}");
    }
    assert!(short_text("Nov 22 07:02:21 host postfix/qmgr[1]: 33AD0990328: removed").is_some());
    assert_eq!(
        Reader::new("postfix").message(b"postfix/smtpd", None, b"connect from a[b]"),
        None,
        "a session without a process id is none"
    );
}

#[test]
fn what_was_said_is_kept_short_and_clean() {
    let prefix =
        b"2D702990324: to=<a@example.net>, relay=none, delay=1, delays=1/0/0/0, dsn=5.0.0, status=bounced (";
    let text = |said: &[u8]| {
        let message: Vec<u8> = prefix.iter().chain(said).chain(b")").copied().collect();
        match Reader::new("postfix").message(b"postfix/smtp", Some(1), &message) {
            Some(LogEntry::Recipient { line, .. }) => line.text,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(text(b"caf\xe9 \x01\x1b[31m\ttab\r\n"), "caf\u{fffd} ??[31m?tab??");
    assert_eq!(text("\u{202e}txt\u{2066}\u{200b}\u{85}".as_bytes()), "?txt???");
    assert_eq!(text("äöü".as_bytes()), "äöü");
    for said in ["x".repeat(4_000), "ä".repeat(4_000), "𝄞".repeat(3_000), "x".repeat(1 << 20)] {
        let kept = text(said.as_bytes());
        assert_eq!(kept.chars().count(), 500);
        assert!(said.starts_with(&kept), "cut at a character: {kept}");
    }
    assert_eq!(text(b""), "");
}
