//! A log file that is rotated, copied, emptied and removed while it is followed, and while nobody follows it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use maple_router::gateway::relay_log::file::FileLog;
use maple_router::ports::{LogBatch, LogEntry, RelayLog};

use crate::harness::{id, removed};

/// A directory with a log, and its follower.
struct Desk {
    dir: tempfile::TempDir,
    log: FileLog,
    position: String,
    /// Messages that were read of.
    read: Vec<u32>,
    gaps: Vec<String>,
    /// Positions that say that lines are missing there.
    lost: usize,
    /// Messages of batches taken one by one.
    all: Vec<u32>,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let log = FileLog::new(&dir.path().join("mail.log"), "postfix", "");
        Self {
            dir,
            log,
            position: String::new(),
            read: Vec::new(),
            gaps: Vec::new(),
            lost: 0,
            all: Vec::new(),
        }
    }

    /// The same, with an empty file that is followed from its beginning.
    async fn following() -> Self {
        let mut desk = Self::new();
        desk.append("");
        desk.catch_up().await;
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn append(&self, text: &str) {
        self.append_to("mail.log", text);
    }

    fn append_to(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path(name)).expect("a log");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn write(&self, messages: std::ops::Range<u32>) {
        messages.for_each(|n| self.append(&removed(n)));
    }

    /// Rotates as logrotate does with `create`; earlier files move on by one.
    fn rotate(&self) {
        self.rename_away();
        File::create(self.path("mail.log")).expect("a log");
    }

    fn rename_away(&self) {
        self.shift();
        fs::rename(self.path("mail.log"), self.path("mail.log.1")).expect("renamed");
    }

    /// Rotates as logrotate does with `copytruncate`.
    fn copy_and_empty(&self) {
        self.shift();
        fs::copy(self.path("mail.log"), self.path("mail.log.1")).expect("copied");
        OpenOptions::new()
            .write(true)
            .open(self.path("mail.log"))
            .and_then(|file| file.set_len(0))
            .expect("emptied");
    }

    fn shift(&self) {
        for n in (1..9).rev() {
            let (from, to) = (format!("mail.log.{n}"), format!("mail.log.{}", n + 1));
            if self.path(&from).exists() {
                fs::rename(self.path(&from), self.path(&to)).expect("renamed");
            }
        }
        // A file's time tells which came first: the clock of a file system may stand still for some milliseconds.
        std::thread::sleep(Duration::from_millis(15));
    }

    /// Compresses as logrotate's `compress` does, and `postfix logrotate`.
    fn compress(&self, name: &str) {
        let packed = Command::new("gzip").arg(self.path(name)).status().expect("gzip");
        assert!(packed.success());
    }

    /// The same, by somebody unknown: another file with the same time.
    fn close(&self, name: &str) {
        let (from, to) = (self.path(name), self.path(&format!("{name}.Z")));
        let time = from.metadata().and_then(|meta| meta.modified()).expect("a time");
        let packed = File::create(&to).expect("a file");
        packed.set_modified(time).expect("the same time");
        fs::remove_file(from).expect("removed");
    }

    /// The daemon ends and comes back.
    fn restart(&mut self) {
        self.log = FileLog::new(&self.path("mail.log"), "postfix", &self.position);
    }

    async fn batch(&mut self) -> LogBatch {
        let batch = self.log.read(Duration::ZERO).await.expect("a batch");
        self.position.clone_from(&batch.position);
        batch
    }

    async fn catch_up(&mut self) {
        loop {
            let batch = self.batch().await;
            self.read.extend(messages(&batch));
            self.lost += batch.lines.len() - messages(&batch).count();
            self.gaps.extend(batch.gap);
            if batch.caught_up {
                return;
            }
        }
    }

    /// Takes one batch; returns whether it was the last.
    async fn batch_taken(&mut self) -> bool {
        let batch = self.batch().await;
        assert_eq!(batch.gap, None);
        self.all.extend(messages(&batch));
        batch.caught_up
    }

    /// Checks the messages read since the last check: once each, in order.
    async fn expect(&mut self, messages: std::ops::Range<u32>) {
        self.catch_up().await;
        assert_eq!(std::mem::take(&mut self.read), messages.collect::<Vec<_>>());
        assert_eq!(std::mem::take(&mut self.gaps), Vec::<String>::new());
        assert_eq!(self.lost, 0);
    }

    async fn expect_gap(&mut self, messages: std::ops::Range<u32>, word: &str) {
        self.catch_up().await;
        assert_eq!(std::mem::take(&mut self.read), messages.collect::<Vec<_>>());
        let gaps = std::mem::take(&mut self.gaps);
        assert!(gaps.len() == 1 && gaps[0].contains(word), "{gaps:?}");
        assert!(std::mem::take(&mut self.lost) > 0, "it stands among the lines as well");
    }
}

#[tokio::test]
async fn without_a_position_only_what_comes_is_read() {
    let mut desk = Desk::new();
    desk.write(0..10);
    desk.append(&removed(10)[..20]);
    desk.expect(0..0).await;
    desk.append(&removed(10)[20..]);
    desk.write(11..13);
    // The line that was being written is news as a whole.
    desk.expect(10..13).await;
    desk.restart();
    desk.expect(0..0).await;
    desk.write(13..15);
    desk.expect(13..15).await;
}

#[tokio::test]
async fn a_restart_at_any_byte_of_a_line_loses_and_doubles_nothing() {
    let mut desk = Desk::following().await;
    let text: String = (0..3).map(removed).collect();
    let mut whole = 0;
    for (at, byte) in text.bytes().enumerate() {
        desk.append(std::str::from_utf8(&[byte]).expect("ASCII"));
        desk.restart();
        let lines = u32::try_from(text[..=at].matches('\n').count()).expect("few");
        desk.expect(whole..lines).await;
        whole = lines;
    }
    assert_eq!(whole, 3);
}

#[tokio::test]
async fn a_rotation_under_the_reader_loses_nothing() {
    let mut desk = Desk::following().await;
    desk.write(0..5);
    desk.expect(0..5).await;
    desk.write(5..7);
    desk.rename_away();
    // Renamed, and nothing created yet: the writer goes on with the old one.
    desk.append_to("mail.log.1", &removed(7));
    desk.expect(5..8).await;
    desk.append("");
    desk.append_to("mail.log.1", &removed(8));
    desk.expect(8..9).await;
    // The last line of the old one is not ended: the new one is written to, so it is as whole as it will be.
    desk.append_to("mail.log.1", removed(9).trim_end());
    desk.write(10..12);
    desk.expect(9..12).await;
    for round in 0..4 {
        desk.write(12 + 10 * round..17 + 10 * round);
        desk.rotate();
        desk.write(17 + 10 * round..22 + 10 * round);
        desk.expect(12 + 10 * round..22 + 10 * round).await;
    }
}

#[tokio::test]
async fn rotations_while_nobody_looked_lose_nothing() {
    let mut desk = Desk::following().await;
    desk.write(0..5);
    desk.expect(0..5).await;
    desk.write(5..8);
    desk.rotate();
    desk.write(8..10);
    desk.rotate();
    desk.write(10..12);
    desk.rotate();
    desk.restart();
    // The youngest is still empty, three others were started since.
    desk.expect(5..12).await;
    desk.write(12..14);
    desk.restart();
    desk.expect(12..14).await;
    // Down again, one of them compressed that was read to its end.
    desk.rotate();
    desk.write(14..16);
    desk.restart();
    desk.expect(14..16).await;
}

#[tokio::test]
async fn a_rotation_by_date_is_followed_too() {
    let mut desk = Desk::following().await;
    desk.write(0..2);
    desk.expect(0..2).await;
    desk.write(2..3);
    fs::rename(desk.path("mail.log"), desk.path("mail.log-20261122")).expect("renamed");
    std::thread::sleep(Duration::from_millis(15));
    desk.write(3..4);
    desk.restart();
    desk.expect(2..4).await;
}

#[tokio::test]
async fn a_copy_that_was_made_before_the_file_was_emptied_is_read() {
    let mut desk = Desk::following().await;
    desk.write(0..5);
    desk.expect(0..5).await;
    desk.write(5..8);
    desk.copy_and_empty();
    desk.write(8..9);
    desk.expect(5..9).await;
    // Twice while nobody looked, the file longer by now than it was.
    desk.write(9..10);
    desk.copy_and_empty();
    desk.write(10..30);
    desk.copy_and_empty();
    desk.write(30..90);
    desk.restart();
    desk.expect(9..90).await;
}

#[tokio::test]
async fn what_cannot_be_read_any_more_is_reported() {
    // Emptied without a copy.
    let mut desk = Desk::following().await;
    desk.write(0..5);
    desk.expect(0..5).await;
    File::create(desk.path("mail.log")).expect("emptied");
    desk.write(5..6);
    desk.expect_gap(5..6, "emptied").await;
    desk.write(6..7);
    desk.expect(6..7).await;

    // Removed while nobody looked.
    desk.rename_away();
    desk.write(7..9);
    fs::remove_file(desk.path("mail.log.1")).expect("removed");
    desk.restart();
    desk.expect_gap(7..9, "neither").await;

    // Packed with lines that nobody had read.
    desk.write(9..11);
    desk.rotate();
    desk.write(11..12);
    desk.close("mail.log.1");
    desk.restart();
    desk.expect_gap(11..12, "cannot be read").await;

    // A rotated file in between was packed.
    desk.rotate();
    desk.write(12..13);
    desk.rotate();
    desk.write(13..14);
    desk.close("mail.log.1");
    desk.restart();
    desk.expect_gap(13..14, "mail.log.1.Z").await;

    // Packed when all of it had been read: nothing is missing.
    desk.rotate();
    desk.write(14..15);
    desk.close("mail.log.1");
    desk.restart();
    desk.expect(14..15).await;

    // Damaged.
    desk.write(15..17);
    desk.rotate();
    desk.write(17..18);
    fs::remove_file(desk.path("mail.log.1")).expect("removed");
    fs::write(desk.path("mail.log.1.gz"), b"\x1f\x8bgarbage").expect("written");
    desk.restart();
    desk.expect_gap(17..18, "cannot be read").await;
}

#[tokio::test]
async fn what_was_packed_while_nobody_looked_is_read() {
    let mut desk = Desk::following().await;
    desk.write(0..5);
    desk.expect(0..5).await;
    // The one that was read last, one in between, and the present one.
    desk.write(5..5_000);
    desk.rotate();
    desk.write(5_000..9_000);
    desk.rotate();
    desk.write(9_000..9_001);
    desk.compress("mail.log.1");
    desk.compress("mail.log.2");
    desk.restart();
    // Restarts on the way through.
    while !desk.batch_taken().await {
        desk.restart();
    }
    desk.expect(0..0).await;
    assert_eq!(desk.all, (5..9_001).collect::<Vec<_>>());
    // While one is being packed, it is not read twice.
    desk.write(9_001..9_003);
    desk.rotate();
    desk.write(9_003..9_004);
    fs::write(desk.path("mail.log.1.gz"), b"").expect("begun");
    desk.restart();
    desk.expect(9_001..9_004).await;
}

#[tokio::test]
async fn an_inode_that_came_back_is_another_file() {
    let mut desk = Desk::following().await;
    desk.write(0..5);
    desk.expect(0..5).await;
    // The same inode by emptying the file itself, longer than before: known by its head.
    File::create(desk.path("mail.log")).expect("emptied");
    desk.write(50..70);
    desk.restart();
    desk.expect_gap(50..70, "emptied").await;
}

#[tokio::test]
async fn a_file_that_is_not_there_yet_is_read_from_its_beginning() {
    let mut desk = Desk::new();
    let error = desk.log.read(Duration::ZERO).await.expect_err("no file").to_string();
    assert!(error.contains("there is no file") && error.contains("maillog_file"), "{error}");
    desk.write(0..3);
    desk.expect(0..3).await;
}

#[tokio::test]
async fn a_directory_is_no_log() {
    let mut desk = Desk::new();
    fs::create_dir(desk.path("mail.log")).expect("a directory");
    let error = desk.log.read(Duration::ZERO).await.expect_err("no file").to_string();
    assert!(error.contains("is no file"), "{error}");
}

#[tokio::test]
async fn a_file_of_somebody_elses_names_the_group_that_may_read_it() {
    if nix::unistd::geteuid().is_root() {
        // Root may read every file.
        return;
    }
    let mut desk = Desk::new();
    desk.write(0..1);
    let closed = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o0);
    fs::set_permissions(desk.path("mail.log"), closed).expect("closed");
    let error = desk.log.read(Duration::ZERO).await.expect_err("forbidden").to_string();
    assert!(error.contains("group") && error.contains("SupplementaryGroups="), "{error}");
}

#[tokio::test]
async fn a_position_of_another_file_is_reported_and_the_end_is_followed() {
    let mut desk = Desk::following().await;
    desk.write(0..2);
    desk.expect(0..2).await;
    desk.position = desk.position.replace("mail.log", "maillog");
    desk.restart();
    desk.write(2..3);
    desk.expect_gap(0..0, "was followed before").await;
    desk.position = "garbage".to_owned();
    desk.restart();
    desk.expect_gap(0..0, "position").await;
    desk.write(3..4);
    desk.expect(3..4).await;
}

#[tokio::test]
async fn a_huge_line_is_looked_at_only_at_its_beginning_and_kept_nowhere() {
    let mut desk = Desk::following().await;
    desk.write(0..1);
    // A line of ours cannot be that long; it is a foreign one with the same start.
    desk.append("Nov 22 07:25:43 rl postfix/qmgr[1]: A0000009: removed");
    for _ in 0..40 {
        desk.append(&"x".repeat(100_000));
        desk.restart();
        desk.catch_up().await;
    }
    desk.append(&format!("{}\n", removed(8).trim_end()));
    desk.write(1..2);
    desk.expect(0..2).await;
    // Bytes that are no text, and no newline for a while.
    let mut file = OpenOptions::new().append(true).open(desk.path("mail.log")).expect("a log");
    file.write_all(&vec![0xff; 1 << 20]).expect("written");
    file.write_all(b"\n\n\r\n\0\n").expect("written");
    desk.write(2..3);
    desk.expect(2..3).await;
}

#[tokio::test]
async fn much_is_read_in_batches_and_the_last_one_says_so() {
    let mut desk = Desk::following().await;
    let text: String = (0..10_000).map(removed).collect();
    desk.append(&text);
    let first = desk.batch().await;
    assert!(!first.caught_up && (1..=4_000).contains(&first.lines.len()), "{}", first.lines.len());
    // A batch's contents were answered; a restart goes on behind it.
    desk.restart();
    desk.catch_up().await;
    let rest = u32::try_from(first.lines.len()).expect("few");
    assert_eq!(desk.read, (rest..10_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn patience_ends_with_the_next_line_or_with_nothing() {
    let mut desk = Desk::following().await;
    let path = desk.path("mail.log");
    let writer = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        append(&path, &removed(1));
    };
    let (batch, ()) = tokio::join!(desk.log.read(Duration::from_secs(60)), writer);
    let batch = batch.expect("a batch");
    assert!(batch.caught_up && batch.lines.len() == 1, "{batch:?}");
    let nothing = desk.log.read(Duration::from_millis(120)).await.expect("nothing");
    assert_eq!((nothing.lines.len(), nothing.caught_up), (0, true));
}

#[tokio::test]
async fn a_reading_that_nobody_waited_for_is_done_again() {
    let mut desk = Desk::following().await;
    for n in 0..200 {
        append(&desk.path("mail.log"), &removed(n));
        // Dropped at its first pause: what it read is answered to nobody.
        let dropped = tokio::time::timeout(Duration::ZERO, desk.log.read(Duration::from_secs(60)));
        if let Ok(batch) = dropped.await {
            let batch = batch.expect("a batch");
            desk.read.extend(messages(&batch));
            desk.position = batch.position;
        }
    }
    desk.catch_up().await;
    assert_eq!(desk.read, (0..200).collect::<Vec<_>>());
    assert_eq!(id(7), "A0000007");
}

/// Messages that a batch mentions.
fn messages(batch: &LogBatch) -> impl Iterator<Item = u32> {
    batch.lines.iter().filter_map(|line| {
        if line.entry == (LogEntry::Lost { suppressed: None }) {
            return None;
        }
        let LogEntry::Removed { id } = &line.entry else { panic!("{line:?}") };
        Some(id[1..].parse::<u32>().expect("a number"))
    })
}

fn append(path: &Path, text: &str) {
    OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("written");
}
