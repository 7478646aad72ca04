//! The relay's log in the journal, read by `journalctl`.
//!
//! Each reading is a run of its own, from the last line's cursor to the end: so "everything that was there was read" is
//! exact. Between two runs only the journal files' times are looked at (`wakeup`); measured, a run costs some ten to twenty
//! milliseconds of processor. Lines are chosen by the unit, which journald knows from the kernel and nobody can pretend,
//! and by its index: other units' lines cost nothing. `postsuper` is run by hand, so its lines are taken from root wherever
//! they come from. The cursor's own line is read once more: where it is gone, something was removed (`LogBatch::gap`). If
//! we die, reading resumes at the cursor kept last; a dropped run is killed.

mod child;
mod export;
mod wakeup;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::child::{From, Next, Run};
use self::export::Entry;
use self::wakeup::Seen;
use super::line::{Reader, suppressed_by_journald};
use crate::ports::{LogBatch, LogEntry, LogLine, RelayLog, RelayLogError};

/// Lines that were understood, in one answer.
const LINES: usize = 2_000;
/// Bytes looked at for one answer.
const BYTES: u64 = 32 << 20;
/// Pause between two runs, so that a busy journal does not keep a processor busy.
const BREATH: Duration = Duration::from_millis(400);
/// Interval between two looks at the files' times.
const GLANCE: Duration = Duration::from_millis(250);
/// Longest pause after runs in vain in which wake-ups are ignored.
const LONGEST: Duration = Duration::from_secs(2);
/// Looks without a wake-up before a run is made anyway: five seconds.
const GLANCES: u32 = 20;

/// Entry for lines that cannot be read any more.
const LOST: LogLine = LogLine { at: None, entry: LogEntry::Lost { suppressed: None } };

/// Position of a reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Matches that are read of the journal.
    journal: Vec<String>,
    /// Cursor of the last line that was read; absent: there was none, so that everything is new.
    cursor: Option<String>,
}

/// journald's own notice that it has suppressed lines of a unit (`SD_MESSAGE_JOURNAL_DROPPED`); only journald can
/// set `_TRANSPORT`, so that nobody else can say so.
const SUPPRESSED: [&str; 3] = ["+", "_TRANSPORT=driver", "MESSAGE_ID=a596d6fe7bfa4994828e72309e95d61e"];
const JOURNALD: &[u8] = b"systemd-journald";

/// A unit's lines in the journal.
pub struct JournalLog {
    unit: String,
    /// Matches that are read of the journal, besides [`SUPPRESSED`].
    matches: Vec<String>,
    dir: Option<PathBuf>,
    lines: Reader,
    /// Position up to which lines were answered; `None`: the present end.
    position: Option<Position>,
    /// Run that continues after `position`, where the last answer did not read it to its end.
    run: Option<Run>,
    gap: Option<String>,
    /// The last run did not reach the end, so that the next need not wait.
    hurried: bool,
    /// Time in which wake-ups are ignored after a run in vain.
    pause: Duration,
}

impl JournalLog {
    /// Follows `unit` from `position`, or from the journal's present end where that is empty. Starts nothing yet.
    #[must_use]
    pub fn new(unit: &str, syslog_name: &str, dir: Option<&Path>, position: &str) -> Self {
        let unit = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
        let matches = vec![
            format!("_SYSTEMD_UNIT={unit}"),
            "+".to_owned(),
            format!("SYSLOG_IDENTIFIER={syslog_name}/postsuper"),
            "_UID=0".to_owned(),
        ];
        let kept: Option<Position> = serde_json::from_str(position).ok();
        let gap = match &kept {
            Some(position) if position.journal != matches => {
                Some(format!("{} was followed before, not {unit}", position.journal.join(" ")))
            }
            None if !position.is_empty() => Some("the position kept is none of the journal".to_owned()),
            Some(_) | None => None,
        };
        Self {
            position: kept.filter(|_| gap.is_none()),
            unit,
            matches,
            dir: dir.map(Path::to_owned),
            lines: Reader::new(syslog_name),
            run: None,
            gap,
            hurried: true,
            pause: GLANCE,
        }
    }

    fn start(&self, from: From<'_>) -> Result<Run, RelayLogError> {
        let notices = SUPPRESSED.iter().map(|word| (*word).to_owned());
        let matches: Vec<String> = self.matches.iter().cloned().chain(notices).collect();
        Run::start(&matches, self.dir.as_deref(), from)
    }

    /// Counts the understood ones of the last `lines` lines.
    pub(super) async fn lately(&self, lines: u32) -> Result<usize, RelayLogError> {
        let mut run = self.start(From::Last(lines))?;
        let mut understood = 0;
        while let Next::Entry(entry) = run.next().await? {
            understood += usize::from(self.line(entry).is_some());
        }
        Ok(understood)
    }

    /// The present end of the journal.
    async fn find_end(&mut self) -> Result<Position, RelayLogError> {
        let mut run = self.start(From::Last(1))?;
        let mut cursor = None;
        while let Next::Entry(entry) = run.next().await? {
            cursor = Some(text(&entry.cursor));
        }
        Ok(Position { journal: self.matches.clone(), cursor })
    }

    /// Reads on until the end, or until there are enough lines for one answer.
    async fn step(&mut self) -> Result<LogBatch, RelayLogError> {
        let mut position = match &self.position {
            Some(position) => position.clone(),
            None => {
                let position = self.find_end().await?;
                let gap = self.gap.take();
                let lines = gap.iter().map(|_| LOST).collect();
                let batch = LogBatch { lines, caught_up: true, gap, ..LogBatch::default() };
                return Ok(self.answered(position, batch));
            }
        };
        let mut batch = LogBatch::default();
        if let Some(mut run) = self.run.take() {
            let at_end = self.pour(&mut run, &mut position, &mut batch).await?;
            if !at_end {
                self.run = Some(run);
                return Ok(self.answered(position, batch));
            }
        }
        // The run starts within this call, so its end lies after everything that was there then.
        let sought = position.cursor.clone();
        let from = sought.as_deref().map_or(From::Head, From::Cursor);
        let mut run = self.start(from)?;
        if let Some(sought) = &sought {
            match self.find_cursor(&mut run, sought, &mut position, &mut batch).await {
                Ok(()) => {}
                // The cursor was damaged.
                Err(RelayLogError(why)) if why.contains("seek to cursor") => {
                    self.position = None;
                    self.gap = Some("the cursor kept is none of this journal".to_owned());
                    return Err(RelayLogError(why));
                }
                Err(error) => return Err(error),
            }
        }
        batch.caught_up = self.pour(&mut run, &mut position, &mut batch).await?;
        if !batch.caught_up {
            self.run = Some(run);
        }
        Ok(self.answered(position, batch))
    }

    /// Takes the first entry, which is the one that was read last: or that one is gone.
    async fn find_cursor(
        &self,
        run: &mut Run,
        sought: &str,
        position: &mut Position,
        batch: &mut LogBatch,
    ) -> Result<(), RelayLogError> {
        if let Next::Entry(entry) = run.next().await?
            && !is_same(sought, &text(&entry.cursor))
        {
            batch.gap = Some(
                "the journal does not hold the line that was read last any more: it was shortened (journald.conf: \
                 SystemMaxUse=, MaxRetentionSec=), lost in a reboot (Storage=volatile), or another one is read"
                    .to_owned(),
            );
            position.cursor = Some(text(&entry.cursor));
            batch.lines.push(LOST);
            batch.lines.extend(self.line(entry));
        }
        Ok(())
    }

    /// Takes entries until the end: true, or until there are enough: false.
    async fn pour(
        &self,
        run: &mut Run,
        position: &mut Position,
        batch: &mut LogBatch,
    ) -> Result<bool, RelayLogError> {
        let until = run.bytes + BYTES;
        while batch.lines.len() < LINES && run.bytes < until {
            match run.next().await? {
                Next::Entry(entry) => {
                    batch.lines.extend(self.line(entry));
                    let cursor = position.cursor.get_or_insert_default();
                    cursor.clear();
                    cursor.push_str(&String::from_utf8_lossy(&entry.cursor));
                }
                Next::End => return Ok(true),
            }
        }
        Ok(false)
    }

    fn line(&self, entry: &Entry) -> Option<LogLine> {
        let said = match entry.identifier.as_slice() {
            JOURNALD => self.suppressed(&entry.message)?,
            identifier => self.lines.message(identifier, entry.pid(), &entry.message)?,
        };
        let at = entry.realtime().and_then(|micros| Timestamp::from_microsecond(micros).ok());
        Some(LogLine { at, entry: said })
    }

    /// A notice about this unit stands before the first of its lines that were kept again.
    fn suppressed(&self, message: &[u8]) -> Option<LogEntry> {
        let (count, unit) = suppressed_by_journald(std::str::from_utf8(message).ok()?)?;
        (unit == self.unit).then_some(LogEntry::Lost { suppressed: Some(count) })
    }

    /// Answers `batch`: the next one continues after it.
    fn answered(&mut self, position: Position, mut batch: LogBatch) -> LogBatch {
        batch.position = serde_json::to_string(&position).unwrap_or_default();
        self.position = Some(position);
        self.hurried = !batch.caught_up;
        batch
    }

    async fn look(&self) -> Seen {
        let dir = self.dir.clone();
        tokio::task::spawn_blocking(move || wakeup::look(dir.as_deref())).await.unwrap_or_default()
    }
}

impl RelayLog for JournalLog {
    fn read(&mut self, patience: Duration) -> BoxFuture<'_, Result<LogBatch, RelayLogError>> {
        async move {
            let mut left = patience;
            if !self.hurried && left >= BREATH {
                tokio::time::sleep(BREATH).await;
                left -= BREATH;
            }
            loop {
                let before = self.look().await;
                let batch = self.step().await?;
                if !batch.lines.is_empty() || batch.gap.is_some() || !batch.caught_up {
                    self.pause = GLANCE;
                    return Ok(batch);
                }
                // The wake-up may have come from others' lines.
                let pause = self.pause.min(left);
                self.pause = (self.pause * 2).min(LONGEST);
                tokio::time::sleep(pause).await;
                left -= pause;
                for _ in 0..GLANCES {
                    if left.is_zero() || self.look().await != before {
                        break;
                    }
                    let pause = GLANCE.min(left);
                    tokio::time::sleep(pause).await;
                    left -= pause;
                }
                if left.is_zero() {
                    return Ok(batch);
                }
            }
        }
        .boxed()
    }
}

fn text(cursor: &[u8]) -> String {
    String::from_utf8_lossy(cursor).into_owned()
}

/// Says whether two cursors are of one entry: sequence numbers change when a journal is copied from memory to the disk.
fn is_same(one: &str, other: &str) -> bool {
    let telling = |cursor: &str| {
        let parts = cursor.split(';').filter(|part| !part.starts_with("s=") && !part.starts_with("i="));
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    one == other || telling(one) == telling(other)
}
