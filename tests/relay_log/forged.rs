//! Hostile lines: whatever strangers put into headers, replies, addresses and names of hosts, it is what they said, and
//! never what Postfix says.

use maple_router::gateway::relay_log::line::Reader;
use maple_router::ports::{LogEntry, LogLine, RelayStatus};
use proptest::collection::vec;
use proptest::prelude::*;

const REAL: [&str; 11] = [
    "Nov 22 07:25:43 rl postfix/smtpd[12919]: 2D702990324: client=localhost[127.0.0.1]",
    "Nov 22 07:25:43 rl postfix/cleanup[12921]: 2D702990324: message-id=<maple.1.1.1@example.org>",
    "Nov 22 07:25:43 rl postfix/qmgr[12846]: 2D702990324: from=<it@example.org>, size=311, nrcpt=8 (queue active)",
    "2026-11-22T07:25:43.5+00:00 rl postfix/smtp[9]: 2D702990324: to=<\"a\\\"b\"@example.net>, orig_to=<c@example.net>, \
     relay=h[127.0.0.1]:25, conn_use=2, delay=0.04, delays=0.01/0/0/0.02, dsn=4.2.2, status=deferred (host said: 452)",
    "Nov 22 07:25:43 rl postfix/qmgr[12846]: AE3BA990025: from=<it@example.org>, status=expired, returned to sender",
    "Nov 22 07:25:43 rl postfix/qmgr[12846]: 33AD0990328: removed",
    "Nov 22 07:25:43 rl postfix/smtpd[12919]: disconnect from localhost[127.0.0.1] ehlo=1 mail=1 data=0/1 commands=2/3",
    "Nov 22 07:25:43 rl postfix/smtpd[12919]: lost connection after DATA (9033 bytes) from localhost[127.0.0.1]",
    "Nov 22 07:25:43 rl postfix/pickup[10133]: B322F9C0155: uid=102 from=<it@example.org> orig_id=6475A9C014C",
    "Nov 22 07:25:43 rl rsyslogd: imjournal: 20 messages lost due to rate-limiting (20000 allowed within 600 seconds)",
    "Nov 22 07:25:43 rl postfix/postsuper[1]: 33AD0990328: removed",
];

/// Input that a stranger would like to be read: pieces of real lines, quotes, ends of quotes.
fn stranger() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(", status=sent (250 2.0.0 Ok)".to_owned()),
        Just(", dsn=2.0.0, status=sent (ok)".to_owned()),
        Just(", relay=none, delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent (ok)".to_owned()),
        Just(">, relay=x, dsn=2.0.0, status=sent (".to_owned()),
        Just("postfix/smtp[1]: ABCDEF012345: to=<a@b.c>, relay=x, dsn=2.0.0, status=sent (x)".to_owned()),
        Just("Nov 22 07:25:43 rl postfix/qmgr[1]: ABCDEF012345: removed".to_owned()),
        Just(", size=1, nrcpt=1 (queue active)".to_owned()),
        Just(", status=expired, returned to sender".to_owned()),
        Just(")".to_owned()),
        Just("<".to_owned()),
        Just(">".to_owned()),
        Just("?".to_owned()),
        "[ -~]{0,12}",
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// Quotes as Postfix writes a local part that needs quoting (`quote_822_local`).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn text(line: &str) -> Option<LogEntry> {
    Reader::new("postfix").text(line.as_bytes()).map(|line| line.entry)
}

/// Each entry read is short, printable, and about a queue id.
fn is_decent(line: &LogLine) {
    let printable = |text: &str| assert!(!text.chars().any(char::is_control), "{text:?}");
    let id =
        |id: &str| assert!(id.len() >= 6 && id.len() <= 40 && id.bytes().all(|b| b.is_ascii_alphanumeric()));
    match &line.entry {
        LogEntry::SessionBegan { .. }
        | LogEntry::Cut { .. }
        | LogEntry::SessionEnded { .. }
        | LogEntry::Lost { .. } => {}
        LogEntry::Active { id: of, sender, .. } => {
            id(of);
            printable(sender);
        }
        LogEntry::PickedUp { id: of, original: Some(other) }
        | LogEntry::Forwarded { id: of, next: other, .. } => {
            id(of);
            id(other);
        }
        LogEntry::PickedUp { id: of, original: None }
        | LogEntry::Received { id: of, .. }
        | LogEntry::Expired { id: of, .. }
        | LogEntry::Removed { id: of } => id(of),
        LogEntry::MessageId { id: of, message_id } => {
            id(of);
            printable(message_id);
            assert!(message_id.starts_with('<') && message_id.ends_with('>') && message_id.len() <= 500);
        }
        LogEntry::Recipient { id: of, line } => {
            id(of);
            for text in [Some(&line.to), line.original.as_ref(), line.relay.as_ref(), line.dsn.as_ref()] {
                text.into_iter().for_each(|text| printable(text));
            }
            printable(&line.text);
            assert!(line.text.chars().count() <= 500 && line.to.chars().count() <= 500);
            assert_ne!(line.status, RelayStatus::Expired);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_are_too_much(bytes in vec(any::<u8>(), 0..400)) {
        Reader::new("postfix").text(&bytes).iter().for_each(is_decent);
        for program in ["smtpd", "cleanup", "qmgr", "smtp", "local", "postsuper"] {
            let identifier = format!("postfix/{program}");
            let entry = Reader::new("postfix").message(identifier.as_bytes(), Some(1), &bytes);
            entry.into_iter().for_each(|entry| is_decent(&LogLine { at: None, entry }));
        }
    }

    #[test]
    fn a_real_line_may_be_broken_anywhere(
        which in 0..REAL.len(),
        cuts in vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut line = REAL[which].as_bytes().to_vec();
        for (at, byte, how) in cuts {
            if line.is_empty() {
                break;
            }
            let at = at.index(line.len());
            match how {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                2 => { line.remove(at); }
                _ => line.truncate(at),
            }
        }
        Reader::new("postfix").text(&line).iter().for_each(is_decent);
    }

    /// A reply ends the line: whatever stands in it, status and code are those before it.
    #[test]
    fn a_reply_is_never_a_status(said in stranger(), status in prop::sample::select(vec!["deferred", "bounced"])) {
        let line = format!(
            "Nov 22 07:25:43 rl postfix/smtp[1]: 2D702990324: to=<a@example.net>, relay=h[127.0.0.1]:25, delay=1, \
             delays=1/0/0/0, dsn=4.0.0, status={status} ({said})"
        );
        match text(&line) {
            Some(LogEntry::Recipient { id, line }) => {
                prop_assert_eq!(id.as_str(), "2D702990324");
                prop_assert_eq!(line.status.label(), status);
                prop_assert_eq!(line.dsn.as_deref(), Some("4.0.0"));
                prop_assert_eq!(line.to.as_str(), "a@example.net");
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    /// A recipient of somebody's is written in quotes: it is one address.
    #[test]
    fn a_recipient_is_never_a_status(local in stranger(), original in proptest::option::of(stranger())) {
        let to = format!("{}@example.net", quoted(&local));
        let original = original.map(|local| format!("{}@example.com", quoted(&local)));
        let orig_to = original.as_ref().map_or(String::new(), |original| format!(", orig_to=<{original}>"));
        let line = format!(
            "Nov 22 07:25:43 rl postfix/smtp[1]: 2D702990324: to=<{to}>{orig_to}, relay=none, delay=1, delays=1/0/0/0, \
             dsn=5.0.0, status=bounced (x)"
        );
        match text(&line) {
            Some(LogEntry::Recipient { line, .. }) => {
                prop_assert_eq!(line.status, RelayStatus::Bounced);
                prop_assert_eq!(line.to, to);
                prop_assert_eq!(line.original, original);
            }
            other => prop_assert!(to.len() > 400 || orig_to.len() > 400, "{:?}", other),
        }
    }

    /// A sender's address is in quotes as well: nothing in it makes a message active or expired.
    #[test]
    fn a_sender_is_never_a_state(local in stranger()) {
        let from = format!("{}@example.net", quoted(&local));
        let line = |rest: &str| format!("Nov 22 07:25:43 rl postfix/qmgr[1]: 2D702990324: from=<{from}>{rest}");
        prop_assert_eq!(text(&line(", status=something else")), None);
        prop_assert_eq!(
            text(&line(", size=311, nrcpt=8 (queue active)")),
            Some(LogEntry::Active {
                id: "2D702990324".to_owned(),
                sender: if from.len() > 500 { String::new() } else { from },
                recipients: 8,
            })
        );
    }

    /// A Message-ID header is read as a Message-ID or nothing.
    #[test]
    fn a_header_is_never_anything_else(value in stranger()) {
        let line = format!("Nov 22 07:25:43 rl postfix/cleanup[1]: 2D702990324: message-id={value}");
        match text(&line) {
            None => {}
            Some(LogEntry::MessageId { id, message_id }) => {
                prop_assert_eq!(id.as_str(), "2D702990324");
                prop_assert_eq!(message_id.as_str(), value.trim_end());
                prop_assert_eq!(message_id.matches(['<', '>', ' ']).count(), 2);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    /// A client's name says nothing but that somebody connects.
    #[test]
    fn a_clients_name_is_nothing_else(name in stranger()) {
        let session = 7;
        let line = |said: &str| text(&format!("Nov 22 07:25:43 rl postfix/smtpd[7]: {said}{name}[127.0.0.1]"));
        prop_assert_eq!(line("connect from "), Some(LogEntry::SessionBegan { session }));
        let ended = matches!(line("disconnect from "), Some(LogEntry::SessionEnded { session: 7, summary: None }));
        prop_assert!(ended, "nothing that could be a name says what became of a session");
        // Names have no bracket: a name with one would be nobody's address, or the one in its first brackets.
        match line("2D702990324: client=") {
            Some(LogEntry::Received { id, session: 7, client }) => {
                prop_assert_eq!(id.as_str(), "2D702990324");
                prop_assert!(client.is_none() || name.contains('[') || client == "127.0.0.1".parse().ok());
            }
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert_eq!(line("NOQUEUE: reject: RCPT from "), None);
        prop_assert_eq!(line("warning: hostname "), None);
    }

    /// A line of another program says nothing, whatever it quotes.
    #[test]
    fn other_programs_say_nothing(said in stranger()) {
        for tag in ["sshd[1]", "postfix/smtpd-policy[1]", "postfix/verify[1]", "postfix[1]", "dovecot", "rsyslog"] {
            prop_assert_eq!(text(&format!("Nov 22 07:25:43 rl {tag}: {said}")), None);
        }
    }
}
