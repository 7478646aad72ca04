//! The relay's log in a file: written by rsyslog, or by Postfix itself (`maillog_file`).
//!
//! The file is read through its inode, so that a rotation loses nothing: the renamed file is read to its end, then those
//! rotated away after it, then the new one. The same is done when all that happened while the daemon was down. Only lines
//! compressed or removed in between are lost, and then the answer says so. If we die, reading resumes at the position kept
//! last: lines repeat, none is missed. Never writes, locks or waits for the log's writer.

mod packed;
mod position;

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use self::packed::{Source, packed_by};
use self::position::{Position, Sibling, siblings, written};
use super::line::Reader;
use super::trouble;
use crate::ports::{LogBatch, LogEntry, LogLine, RelayLog, RelayLogError};

/// Lines that were understood, in one answer.
const LINES: usize = 2_000;
/// Bytes looked at for one answer.
const BYTES: u64 = 32 << 20;
/// Bytes read at once; the rest of a longer line is skipped.
const CHUNK: usize = 256 << 10;
/// Pauses between two looks at a file that does not grow.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Entry for lines that cannot be read any more.
const LOST: LogLine = LogLine { at: None, entry: LogEntry::Lost { suppressed: None } };

/// A file that is followed.
pub struct FileLog {
    path: PathBuf,
    lines: Reader,
    /// Position up to which everything was answered.
    position: String,
    /// Absent at the beginning, and after a dropped reading: then it is made anew from the position.
    tail: Option<Tail>,
}

impl FileLog {
    /// Follows `path` from `position`, or from its present end where that is empty. Opens nothing yet.
    #[must_use]
    pub fn new(path: &Path, syslog_name: &str, position: &str) -> Self {
        Self {
            path: path.to_owned(),
            lines: Reader::new(syslog_name),
            position: position.to_owned(),
            tail: None,
        }
    }

    /// One reading, off the threads that must not wait.
    async fn step(&mut self) -> Result<LogBatch, RelayLogError> {
        let mut tail = match self.tail.take() {
            Some(tail) => tail,
            None => Tail::new(&self.path, self.lines.clone(), &self.position),
        };
        let stepped = tokio::task::spawn_blocking(move || {
            let batch = tail.step();
            (tail, batch)
        });
        let (tail, batch) =
            stepped.await.map_err(|error| RelayLogError(format!("{}: {error}", self.path.display())))?;
        self.position = tail.position();
        self.tail = Some(tail);
        batch
    }
}

impl RelayLog for FileLog {
    fn read(&mut self, patience: Duration) -> BoxFuture<'_, Result<LogBatch, RelayLogError>> {
        async move {
            let (mut waited, mut pause) = (Duration::ZERO, SHORTEST);
            loop {
                let batch = self.step().await?;
                if !batch.lines.is_empty() || batch.gap.is_some() || !batch.caught_up || waited >= patience {
                    return Ok(batch);
                }
                let rest = pause.min(patience - waited);
                tokio::time::sleep(rest).await;
                waited += rest;
                pause = (pause * 2).min(LONGEST);
            }
        }
        .boxed()
    }
}

/// Counts the lines that were understood at the end of the log, of up to `bytes`. Blocking.
pub(super) fn lately(path: &Path, syslog_name: &str, bytes: u64) -> Result<usize, RelayLogError> {
    let lines = Reader::new(syslog_name);
    let beside = siblings(path).map_err(|error| trouble::file(path, &error))?;
    let earlier =
        beside.iter().rev().map(|sibling| sibling.path.as_path()).find(|path| packed_by(path).is_none());
    let (mut understood, mut left) = (0, bytes);
    for (n, path) in std::iter::once(path).chain(earlier).enumerate() {
        let (mut file, meta) = match Source::open(path) {
            Ok(opened) => opened,
            Err(error) if n == 0 => return Err(trouble::file(path, &error)),
            Err(_) => break,
        };
        let mut tail = vec![0; usize::try_from(meta.len().min(left)).unwrap_or_default()];
        let from = meta.len() - tail.len() as u64;
        let had = file.read_at(&mut tail, from).map_err(|error| trouble::file(path, &error))?;
        understood +=
            tail[..had].split(|byte| *byte == b'\n').filter(|line| lines.text(line).is_some()).count();
        left -= had as u64;
    }
    Ok(understood)
}

/// The reading itself: blocking, and never waiting.
struct Tail {
    path: PathBuf,
    lines: Reader,
    /// Position of the next reading; `None`: the present end of the log.
    position: Option<Position>,
    open: Option<Source>,
    buffer: Vec<u8>,
    gap: Option<String>,
}

impl Tail {
    fn new(path: &Path, lines: Reader, position: &str) -> Self {
        let mut gap = None;
        let position = match serde_json::from_str::<Position>(position) {
            Ok(position) if position.file == path => Some(position),
            Ok(position) => {
                gap =
                    Some(format!("{} was followed before, not {}", position.file.display(), path.display()));
                None
            }
            Err(_) => {
                if !position.is_empty() {
                    gap = Some(format!("the position kept is none of {}", path.display()));
                }
                None
            }
        };
        Self { path: path.to_owned(), lines, position, open: None, buffer: Vec::new(), gap }
    }

    fn position(&self) -> String {
        self.position.as_ref().and_then(|position| serde_json::to_string(position).ok()).unwrap_or_default()
    }

    /// Reads on; the answer's position is this tail's afterwards.
    fn step(&mut self) -> Result<LogBatch, RelayLogError> {
        let mut batch = LogBatch::default();
        let mut looked_at = 0;
        // Another file is already written to: this one is complete.
        let mut complete = false;
        let (mut file, mut position) = self.find()?;
        if self.gap.is_some() {
            batch.lines.push(LOST);
        }
        loop {
            let at_end = self.pour(&mut file, &mut position, complete, &mut looked_at, &mut batch)?;
            if !at_end {
                break;
            }
            if complete {
                let known = self.gap.clone();
                if let Some((next, beginning)) = self.after(&position)? {
                    if self.gap != known {
                        batch.lines.push(LOST);
                    }
                    (file, position, complete) = (next, beginning, false);
                    continue;
                }
            } else if self.is_left_behind(&position)? {
                complete = true;
                continue;
            }
            batch.caught_up = true;
            break;
        }
        (self.open, self.position) = (Some(file), Some(position));
        batch.position = self.position();
        batch.gap = self.gap.take();
        Ok(batch)
    }

    /// Reads `file` from `position` to its end: true, or to the limit of one answer: false.
    fn pour(
        &mut self,
        file: &mut Source,
        position: &mut Position,
        complete: bool,
        looked_at: &mut u64,
        batch: &mut LogBatch,
    ) -> Result<bool, RelayLogError> {
        self.buffer.resize(CHUNK, 0);
        loop {
            // Taken before the read: bytes written in between are seen the next time.
            let meta = file.metadata().map_err(|error| self.io(&error))?;
            let had = match file.read_at(&mut self.buffer, position.offset) {
                Ok(had) => had,
                Err(error) if file.is_packed() => {
                    self.lost(format!("a packed file of the log is damaged ({error})"));
                    batch.lines.push(LOST);
                    0
                }
                Err(error) => return Err(self.io(&error)),
            };
            let mut rest = &self.buffer[..had];
            while let Some(end) = memchr::memchr(b'\n', rest) {
                if position.inside {
                    position.inside = false;
                } else {
                    batch.lines.extend(self.lines.text(&rest[..end]));
                }
                position.offset += end as u64 + 1;
                rest = &rest[end + 1..];
                if batch.lines.len() >= LINES {
                    break;
                }
            }
            let full = batch.lines.len() >= LINES;
            let at_end = !full && had < CHUNK;
            if !full && (rest.len() == CHUNK || (at_end && complete && !rest.is_empty())) {
                // Longer than a chunk, or the last line of a file that has no writer any more.
                if !position.inside {
                    batch.lines.extend(self.lines.text(rest));
                }
                position.inside = !complete || rest.len() == CHUNK;
                position.offset += rest.len() as u64;
                rest = &[];
            }
            match position.learn(file) {
                Err(error) if !file.is_packed() => return Err(self.io(&error)),
                Ok(()) | Err(_) => {}
            }
            (position.written, position.at_end) = (written(&meta), at_end && rest.is_empty());
            *looked_at += had as u64;
            if at_end {
                return Ok(true);
            }
            if full || *looked_at >= BYTES {
                return Ok(false);
            }
        }
    }

    /// The file to read, and the position. An open file stays open, whatever its present name.
    fn find(&mut self) -> Result<(Source, Position), RelayLogError> {
        let Some(position) = self.position.clone() else { return self.start() };
        if position.is_before_everything() {
            let (file, meta) = self.open(&self.path)?;
            return Ok((file, Position::beginning(&self.path, &meta)));
        }
        if let Some(mut file) = self.open.take() {
            // A packed file has no writer.
            if file.is_packed() {
                return Ok((file, position));
            }
            let meta = file.metadata().map_err(|error| self.io(&error))?;
            if position.fits(&mut file, &meta).map_err(|error| self.io(&error))? {
                return Ok((file, position));
            }
        }
        self.recover(&position)
    }

    /// The present end of the log: earlier lines were never asked for.
    fn start(&mut self) -> Result<(Source, Position), RelayLogError> {
        let (mut file, meta) = match self.open(&self.path) {
            Ok(opened) => opened,
            Err(error) => {
                if !self.path.exists() {
                    // Everything in the coming file is news.
                    self.position = Some(Position::before_everything(&self.path));
                }
                return Err(error);
            }
        };
        let mut position = Position::beginning(&self.path, &meta);
        let mut tail = vec![0; CHUNK];
        let from = meta.len().saturating_sub(CHUNK as u64);
        let had = file.read_at(&mut tail, from).map_err(|error| self.io(&error))?;
        // A line that is being written is news.
        let (end, inside) = match memchr::memrchr(b'\n', &tail[..had]) {
            Some(newline) => (from + newline as u64 + 1, false),
            None => (from, from > 0),
        };
        (position.offset, position.inside) = (end, inside);
        position.learn(&mut file).map_err(|error| self.io(&error))?;
        Ok((file, position))
    }

    /// The file that was read last is not open, or was emptied: looks for it, or for its copy.
    fn recover(&mut self, position: &Position) -> Result<(Source, Position), RelayLogError> {
        let beside = siblings(&self.path).map_err(|error| self.io(&error))?;
        // A file last written to before that cannot be it.
        let could_be = |sibling: &&Sibling| !sibling.closed && sibling.written >= position.written;
        let known =
            std::iter::once(&self.path).chain(beside.iter().filter(could_be).map(|sibling| &sibling.path));
        let mut copy = None;
        for path in known {
            let (mut file, meta) = match self.open(path) {
                Ok(opened) => opened,
                // An earlier file that cannot be read may be the one looked for; the followed one must be readable.
                Err(error) if *path == self.path && path.exists() => return Err(error),
                Err(_) => continue,
            };
            let fits = match position.fits(&mut file, &meta) {
                Err(error) if !file.is_packed() => return Err(self.io(&error)),
                fits => fits.unwrap_or(false),
            };
            if fits {
                if position.is_inode(&meta) {
                    return Ok((file, position.clone()));
                }
                // The youngest copy is the longest.
                copy = Some((file, position.within(&meta)));
            }
        }
        if let Some(found) = copy {
            return Ok(found);
        }
        // The file is gone. Nothing is lost if it was read to its end and nothing was written since; its packed
        // form keeps the time of the last line.
        let same = |sibling: &Sibling| sibling.closed && sibling.written == position.written;
        if !(position.at_end && beside.iter().any(same)) {
            self.lost(format!(
                "the file that was read last is neither {} nor beside it any more, or was emptied: what was written to it \
                 since cannot be read",
                self.path.display()
            ));
        }
        match self.after(position)? {
            Some(next) => Ok(next),
            None => Err(trouble::missing(&self.path)),
        }
    }

    /// Says whether another file than this one is written to.
    fn is_left_behind(&self, position: &Position) -> Result<bool, RelayLogError> {
        match self.path.metadata() {
            Ok(meta) if position.is_inode(&meta) => Ok(false),
            Ok(meta) if meta.len() > 0 => Ok(true),
            // While the new file is empty, or not created yet, the writer may still have the old one open; but not
            // if there was one in between.
            Ok(_) => self.is_followed(position),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.is_followed(position),
            Err(error) => Err(self.io(&error)),
        }
    }

    /// Says whether a file beside the followed one was written to after this one.
    fn is_followed(&self, position: &Position) -> Result<bool, RelayLogError> {
        let beside = siblings(&self.path).map_err(|error| self.io(&error))?;
        let later =
            |sibling: &&Sibling| sibling.written > position.written && !sibling.closed && !sibling.empty;
        let is_another =
            |sibling: &Sibling| sibling.path.metadata().is_ok_and(|meta| !position.is_inode(&meta));
        Ok(beside.iter().filter(later).any(is_another))
    }

    /// The file that was started after the one at `position` was left, at its beginning.
    fn after(&mut self, position: &Position) -> Result<Option<(Source, Position)>, RelayLogError> {
        let beside = siblings(&self.path).map_err(|error| self.io(&error))?;
        let later: Vec<_> = beside.iter().filter(|sibling| sibling.written > position.written).collect();
        if let Some(closed) = later.iter().find(|sibling| sibling.closed) {
            self.lost(format!("{} is packed and was not read before", closed.path.display()));
        }
        for sibling in later.iter().filter(|sibling| !sibling.closed) {
            match self.open(&sibling.path) {
                Ok((file, meta)) if !position.is_inode(&meta) => {
                    return Ok(Some((file, Position::beginning(&self.path, &meta))));
                }
                Ok(_) => {}
                Err(error) => self.lost(error.0),
            }
        }
        match self.open(&self.path) {
            Ok((file, meta)) => Ok(Some((file, Position::beginning(&self.path, &meta)))),
            Err(_) if !self.path.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn lost(&mut self, what: String) {
        self.gap = Some(match self.gap.take() {
            Some(gap) if gap != what => format!("{gap}; {what}"),
            Some(gap) => gap,
            None => what,
        });
    }

    fn open(&self, path: &Path) -> Result<(Source, Metadata), RelayLogError> {
        let (file, meta) = Source::open(path).map_err(|error| trouble::file(path, &error))?;
        if !meta.is_file() {
            return Err(RelayLogError(format!("{} is no file; see [relay_log] file", path.display())));
        }
        Ok((file, meta))
    }

    fn io(&self, error: &io::Error) -> RelayLogError {
        trouble::file(&self.path, error)
    }
}
