//! The journal as journald gets it: a datagram for each event, names in upper case, priorities of syslog. The socket's
//! path is fixed, so the router runs in a mount namespace of its own, where the path is ours.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::StageOptions;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::UnixDatagram;
use tokio::process::Command;
use uuid::Uuid;

use crate::harness::{PATIENCE, binary, row, stage_of};

type Entry = BTreeMap<String, String>;

/// Reads the native protocol: `NAME=value` lines, or a name, a length and so many bytes.
fn read(mut datagram: &[u8]) -> Entry {
    let mut entry = Entry::new();
    while !datagram.is_empty() {
        let end = datagram.iter().position(|byte| *byte == b'\n').expect("a line");
        let line = std::str::from_utf8(&datagram[..end]).expect("utf-8");
        datagram = &datagram[end + 1..];
        if let Some((name, value)) = line.split_once('=') {
            entry.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let (length, rest) = datagram.split_at(8);
        let length =
            usize::try_from(u64::from_le_bytes(length.try_into().expect("eight bytes"))).expect("a length");
        entry.insert(line.to_owned(), String::from_utf8(rest[..length].to_vec()).expect("utf-8"));
        datagram = &rest[length + 1..];
    }
    entry
}

struct Journal {
    socket: UnixDatagram,
    entries: Vec<Entry>,
}

impl Journal {
    /// Waits for an event, of a submission where one is named.
    async fn event(&mut self, event: &str, id: Option<Uuid>) -> Entry {
        let id = id.map(|id| id.to_string());
        let wanted = |entry: &&Entry| {
            entry.get("EVENT").is_some_and(|name| name == event)
                && id.as_ref().is_none_or(|id| entry.get("SUBMISSION_ID") == Some(id))
        };
        loop {
            if let Some(found) = self.entries.iter().find(wanted) {
                return found.clone();
            }
            let mut datagram = vec![0; 1 << 18];
            let got = tokio::time::timeout(PATIENCE, self.socket.recv(&mut datagram)).await;
            let length =
                got.unwrap_or_else(|_| panic!("no {event}: {:#?}", self.entries)).expect("a datagram");
            // An empty one only asks whether somebody listens.
            if length > 0 {
                self.entries.push(read(&datagram[..length]));
            }
        }
    }
}

#[tokio::test]
async fn journald_gets_upper_case_names_and_syslogs_priorities() {
    let forms = [Form::new("good").mail_to("a@x.test"), Form::new("bad").mail_to("gone@x.test")];
    let stage = stage_of(StageOptions::default(), &forms).await;
    stage.relay.rule(Rule::at(At::Rcpt).to("gone@x.test").reply("550 5.1.1 no such user"));
    let path = stage.dir().join("journal");
    let mut journal = Journal { socket: UnixDatagram::bind(&path).expect("a socket"), entries: Vec::new() };
    let port = devkit::port::free_port().expect("a port");
    let text = stage.config("native", port, "[log]\nformat = \"journald\"\nlevel = \"debug\"");
    let config = stage.write_config("native", &text).expect("a configuration");
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && \
                  ln -s \"$0\" /run/systemd/journal/socket && exec \"$1\" --config \"$2\" run";
    let mut router = Command::new("unshare")
        // A user namespace as well, where mounting needs nobody to be root.
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .args([path.as_path(), binary(), config.as_path()])
        .env("GCE_METADATA_HOST", stage.google.metadata_host())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("a router");
    journal.event("ready", None).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut ids = Vec::new();
    for form in ["good", "bad"] {
        let id = SubmissionSeed::of(form).insert(&backend).await.expect("a row").id;
        stage.publish(id, "finalized").expect("published");
        ids.push(id);
    }
    let (good, bad) = (ids[0], ids[1]);
    for (event, id, priority) in [
        ("started", None, "6"),
        ("ready", None, "6"),
        ("received", Some(good), "7"),
        ("claimed", Some(good), "6"),
        ("begun", Some(good), "7"),
        ("action_accepted", Some(good), "6"),
        ("routed", Some(good), "6"),
        ("action_refused", Some(bad), "4"),
        ("failed", Some(bad), "3"),
    ] {
        let entry = journal.event(event, id).await;
        assert_eq!(entry["PRIORITY"], priority, "{entry:#?}");
    }
    let accepted = journal.event("action_accepted", Some(good)).await;
    let mail = &stage.relay.mails()[0];
    for (name, value) in [
        ("FORM_ID", "good"),
        ("ACTION_ORDER", "1"),
        ("ACTION_TYPE", "email_raw"),
        ("DELIVERY", "1/1"),
        ("ATTEMPT", "1"),
        ("OUTCOME", "accepted"),
        ("SMTP_CODE", "250"),
        ("ENHANCED_CODE", "2.0.0"),
        ("POSTFIX_QUEUE_ID", mail.queue_id.as_str()),
    ] {
        assert_eq!(accepted.get(name).map(String::as_str), Some(value), "{name}: {accepted:#?}");
    }
    assert!(
        accepted["RFC_MESSAGE_ID"].contains(mail.message_id.as_deref().expect("a Message-ID")),
        "{accepted:#?}"
    );
    assert!(accepted["DURATION_MS"].parse::<u64>().is_ok(), "{accepted:#?}");
    let refused = journal.event("action_refused", Some(bad)).await;
    assert_eq!((refused["SMTP_CODE"].as_str(), refused["ENHANCED_CODE"].as_str()), ("550", "5.1.1"));
    assert_eq!(journal.event("failed", Some(bad)).await["REASON"], "refused");
    let pid = i32::try_from(router.id().expect("it runs")).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("sent");
    journal.event("stopped", None).await;
    let ended = tokio::time::timeout(Duration::from_secs(30), router.wait()).await.expect("it ends");
    assert!(ended.expect("it ended").success());
    assert_eq!(row(&stage.database.superuser().await.expect("superuser"), good).await.status, "routed");
    for entry in &journal.entries {
        assert_eq!(entry["SYSLOG_IDENTIFIER"], "maple-router", "{entry:#?}");
        assert!(!entry["MESSAGE"].contains('\n'), "{entry:#?}");
        assert!(entry.keys().all(|name| *name == name.to_ascii_uppercase()), "{entry:#?}");
    }
}
