//! Journals as journald writes them (made by systemd-journal-remote), shortened, replaced, full of others' lines.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use maple_router::gateway::relay_log::journal::JournalLog;
use maple_router::ports::{LogBatch, LogEntry, RelayLog};

use crate::harness::id;

const REMOTE: &str = "/lib/systemd/systemd-journal-remote";
const UNIT: &str = "postfix@-.service";

/// A line of the journal.
#[derive(Clone)]
struct Line {
    unit: &'static str,
    identifier: &'static str,
    uid: u32,
    message: Vec<u8>,
}

fn line(n: u32) -> Line {
    let message = format!("{}: removed", id(n)).into_bytes();
    Line { unit: UNIT, identifier: "postfix/qmgr", uid: 102, message }
}

/// A directory of journals, and its follower.
struct Desk {
    dir: tempfile::TempDir,
    log: JournalLog,
    position: String,
    read: Vec<u32>,
    gaps: Vec<String>,
    /// Gaps: how many lines were read before each; and how many were suppressed.
    lost: Vec<(usize, Option<u64>)>,
    /// Time of the next line, in milliseconds.
    now: u64,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let log = JournalLog::new(UNIT, "postfix", Some(dir.path()), "");
        Self {
            dir,
            log,
            position: String::new(),
            read: Vec::new(),
            gaps: Vec::new(),
            lost: Vec::new(),
            now: 1_000,
        }
    }

    fn journal(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A notice as journald writes it when it has suppressed lines: its word alone is `_TRANSPORT`.
    fn notice(&mut self, transport: &str, message: &str) {
        self.now += 1;
        let now = self.now;
        let (realtime, monotonic) = (1_795_332_343_000_000 + now * 1_000, now * 1_000);
        let entry = format!(
            "__REALTIME_TIMESTAMP={realtime}\n__MONOTONIC_TIMESTAMP={monotonic}\n_BOOT_ID={:032x}\n_SYSTEMD_UNIT=x.service\n\
             _TRANSPORT={transport}\nMESSAGE_ID=a596d6fe7bfa4994828e72309e95d61e\nSYSLOG_IDENTIFIER=systemd-journald\n\
             PRIORITY=5\nMESSAGE={message}\n\n",
            7
        );
        record(&self.journal("a.journal"), entry.as_bytes());
    }

    fn write(&mut self, name: &str, lines: impl IntoIterator<Item = Line>) {
        let mut export = Vec::new();
        for line in lines {
            self.now += 1;
            let now = self.now;
            let (realtime, monotonic) = (1_795_332_343_000_000 + now * 1_000, now * 1_000);
            export.extend_from_slice(
                format!(
                    "__REALTIME_TIMESTAMP={realtime}\n__MONOTONIC_TIMESTAMP={monotonic}\n_BOOT_ID={:032x}\n_SYSTEMD_UNIT={}\n\
                     SYSLOG_IDENTIFIER={}\nSYSLOG_PID=77\n_PID=77\n_UID={}\nPRIORITY=6\nMESSAGE\n",
                    7, line.unit, line.identifier, line.uid
                )
                .as_bytes(),
            );
            export.extend_from_slice(&(line.message.len() as u64).to_le_bytes());
            export.extend_from_slice(&line.message);
            export.extend_from_slice(b"\n\n");
        }
        record(&self.journal(name), &export);
    }

    fn restart(&mut self) {
        self.log = JournalLog::new(UNIT, "postfix", Some(self.dir.path()), &self.position);
    }

    async fn batch(&mut self) -> LogBatch {
        let batch = self.log.read(Duration::ZERO).await.expect("a batch");
        self.take(&batch);
        batch
    }

    fn take(&mut self, batch: &LogBatch) {
        self.position.clone_from(&batch.position);
        self.gaps.extend(batch.gap.clone());
        for line in &batch.lines {
            if let LogEntry::Lost { suppressed } = &line.entry {
                self.lost.push((self.read.len(), *suppressed));
                continue;
            }
            let (LogEntry::Removed { id } | LogEntry::Expired { id, .. }) = &line.entry else {
                panic!("{line:?}")
            };
            self.read.push(id[1..].parse().expect("a number"));
        }
    }

    async fn expect(&mut self, messages: std::ops::Range<u32>) {
        while !self.batch().await.caught_up {}
        assert_eq!(std::mem::take(&mut self.read), messages.collect::<Vec<_>>());
        assert_eq!(std::mem::take(&mut self.gaps), Vec::<String>::new());
    }

    async fn expect_gap(&mut self, messages: std::ops::Range<u32>, word: &str) {
        while !self.batch().await.caught_up {}
        assert_eq!(std::mem::take(&mut self.read), messages.collect::<Vec<_>>());
        let gaps = std::mem::take(&mut self.gaps);
        assert!(gaps.len() == 1 && gaps[0].contains(word), "{gaps:?}");
        assert_eq!(std::mem::take(&mut self.lost), [(0, None)], "before everything that was read since");
    }
}

fn record(journal: &Path, export: &[u8]) {
    let mut remote = Command::new(REMOTE)
        .arg("-o")
        .arg(journal)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("systemd-journal-remote (scripts/install-missing delivery)");
    remote.stdin.take().expect("its input").write_all(export).expect("written");
    assert!(remote.wait().expect("its end").success());
}

#[tokio::test]
async fn without_a_position_only_what_comes_is_read() {
    let mut desk = Desk::new();
    desk.write("a.journal", (0..5).map(line));
    desk.expect(0..0).await;
    desk.write("a.journal", (5..8).map(line));
    let batch = desk.batch().await;
    assert_eq!(
        batch.lines[0].at.map(jiff::Timestamp::as_microsecond),
        Some(1_795_332_343_000_000 + 1_006 * 1_000),
        "journald's clock"
    );
    assert!(batch.caught_up);
    desk.read.clear();
    desk.restart();
    desk.expect(0..0).await;
    desk.write("b.journal", (8..10).map(line));
    desk.restart();
    desk.expect(8..10).await;
}

#[tokio::test]
async fn an_empty_journal_is_followed_from_its_first_line() {
    let mut desk = Desk::new();
    desk.write("a.journal", [Line { unit: "cron.service", ..line(0) }]);
    desk.expect(0..0).await;
    desk.restart();
    desk.write("a.journal", (1..3).map(line));
    desk.expect(1..3).await;
}

#[tokio::test]
async fn only_the_units_lines_are_believed() {
    let mut desk = Desk::new();
    desk.expect(0..0).await;
    let by_hand = Line { unit: "session-3.scope", identifier: "postfix/postsuper", uid: 0, ..line(3) };
    desk.write(
        "a.journal",
        [
            Line { unit: "session-3.scope", uid: 1_000, ..line(0) },
            Line { unit: "session-3.scope", uid: 0, ..line(0) },
            Line { unit: "postfix@out.service", ..line(0) },
            line(1),
            Line { identifier: "postfix/pickup", ..line(0) },
            Line { identifier: "postfix-out/qmgr", ..line(0) },
            line(2),
            Line { uid: 1_000, ..by_hand.clone() },
            by_hand,
            line(4),
        ],
    );
    desk.expect(1..5).await;
}

/// journald writes it before the first line that it keeps again, for each unit.
#[tokio::test]
async fn suppressed_lines_are_reported_where_they_are_missing() {
    let mut desk = Desk::new();
    desk.expect(0..0).await;
    desk.write("a.journal", (0..2).map(line));
    desk.notice("driver", &format!("Suppressed 33 messages from {UNIT}"));
    desk.notice("driver", "Suppressed 44 messages from cron.service");
    desk.notice("syslog", &format!("Suppressed 55 messages from {UNIT}"));
    desk.write("a.journal", (2..4).map(line));
    desk.expect(0..4).await;
    assert_eq!(std::mem::take(&mut desk.lost), [(2, Some(33))]);
    desk.notice("driver", &format!("Suppressed 7 messages from {UNIT}"));
    desk.restart();
    desk.expect(0..0).await;
    assert_eq!(desk.lost, [(0, Some(7))], "it has a cursor of its own");
}

#[tokio::test]
async fn a_shortened_journal_is_a_gap() {
    let mut desk = Desk::new();
    desk.write("a.journal", (0..5).map(line));
    desk.expect(0..0).await;
    desk.write("a.journal", (5..8).map(line));
    desk.write("b.journal", (8..10).map(line));
    fs::remove_file(desk.journal("a.journal")).expect("removed");
    desk.expect_gap(8..10, "does not hold").await;
    desk.write("b.journal", (10..12).map(line));
    desk.restart();
    desk.expect(10..12).await;
}

#[tokio::test]
async fn another_units_position_and_damaged_ones_are_reported_and_the_end_is_followed() {
    let mut desk = Desk::new();
    desk.write("a.journal", (0..5).map(line));
    desk.expect(0..0).await;
    let kept = desk.position.clone();
    desk.position = kept.replace("postfix@-", "postfix@old");
    desk.restart();
    desk.expect_gap(0..0, "postfix@old").await;
    desk.position = "garbage".to_owned();
    desk.restart();
    desk.expect_gap(0..0, "position").await;
    let cursor = kept.find("s=").expect("a cursor");
    desk.position = format!("{}broken\"}}", &kept[..cursor]);
    desk.restart();
    desk.log.read(Duration::ZERO).await.expect_err("no cursor");
    desk.expect_gap(0..0, "cursor").await;
    desk.write("a.journal", (5..6).map(line));
    desk.expect(5..6).await;
}

#[tokio::test]
async fn hostile_messages_are_one_line_each() {
    let mut desk = Desk::new();
    desk.expect(0..0).await;
    let said = |message: &[u8]| Line { message: message.to_vec(), ..line(0) };
    desk.write(
        "a.journal",
        [
            line(1),
            said(b"\xff\xfe\x00\n\n__CURSOR=forged\nMESSAGE=A0000009: removed\n\n"),
            said(&vec![b'x'; 1 << 20]),
            said(&vec![b'\n'; 1 << 18]),
            said(b"A0000009: removed\nA0000009: removed"),
            said(b""),
            line(2),
        ],
    );
    desk.expect(1..3).await;
}

#[tokio::test]
async fn much_is_read_in_batches_and_the_last_one_says_so() {
    let mut desk = Desk::new();
    desk.expect(0..0).await;
    desk.write("a.journal", (0..9_000).map(line));
    let first = desk.batch().await;
    assert!(!first.caught_up && first.lines.len() <= 4_000, "{}", first.lines.len());
    desk.batch().await;
    desk.restart();
    let third = desk.batch().await;
    assert!(!third.caught_up);
    // Written while a run is under way: it ends before, or behind; all of it is read, and only then it is caught up.
    desk.write("a.journal", (9_000..9_010).map(line));
    desk.expect(0..9_010).await;
}

#[tokio::test]
async fn patience_ends_with_the_next_line_or_with_nothing() {
    let mut desk = Desk::new();
    desk.write("a.journal", (0..1).map(line));
    desk.expect(0..0).await;
    let nothing = desk.log.read(Duration::from_millis(700)).await.expect("nothing");
    assert_eq!((nothing.lines.len(), nothing.caught_up), (0, true));
    let dir = desk.dir.path().to_owned();
    let (batch, ()) = tokio::join!(desk.log.read(Duration::from_secs(60)), async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        let mut other = Desk::new();
        other.now = 5_000;
        other.write("x.journal", [line(1)]);
        fs::copy(other.journal("x.journal"), dir.join("x.journal")).expect("copied");
    });
    desk.take(&batch.expect("a batch"));
    assert_eq!(desk.read, [1]);
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_is_killed_and_done_again() {
    let mut desk = Desk::new();
    desk.expect(0..0).await;
    desk.write("a.journal", (0..6_000).map(line));
    for _ in 0..20 {
        let dropped = tokio::time::timeout(Duration::from_millis(1), desk.log.read(Duration::ZERO)).await;
        if let Ok(batch) = dropped {
            desk.take(&batch.expect("a batch"));
        }
    }
    desk.expect(0..6_000).await;
    desk.write("a.journal", (6_000..20_000).map(line));
    assert!(!desk.batch().await.caught_up, "a run is under way");
    assert!(!children().is_empty());
    drop(desk);
    for _ in 0..100 {
        if children().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:?} are left", children());
}

/// Our own children that run journalctl.
fn children() -> Vec<String> {
    let me = std::process::id().to_string();
    let stats = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path().join("stat"));
    stats
        .filter_map(|stat| fs::read_to_string(stat).ok())
        .filter(|stat| {
            let (name, rest) = stat.rsplit_once(')').unwrap_or_default();
            name.ends_with("(journalctl") && rest.split_whitespace().nth(1) == Some(me.as_str())
        })
        .collect()
}

#[tokio::test]
async fn a_journal_that_is_not_there_is_an_error() {
    let mut log = JournalLog::new(UNIT, "postfix", Some(Path::new("/nonexistent/journal")), "");
    let error = log.read(Duration::ZERO).await.expect_err("no journal").to_string();
    assert!(error.contains("journalctl failed") && error.contains("No such file"), "{error}");
}
