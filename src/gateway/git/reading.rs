//! git's output, read in pieces of bounded size: records of a listing, and objects of `cat-file --batch`.

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWriteExt as _};

use super::GitSettings;
use super::classify::Step;
use super::fault::{GitError, SourceFault};
use super::limits::Limits;
use super::run::Run;
use super::snapshot::{Content, Entry, Mode};
use super::tree::Record;
use super::work_dir::WorkDir;

/// Bytes kept of a file that is too large.
const KEPT: usize = 4 << 10;
/// Longest line before an object.
const LONGEST_LINE: usize = 200;

const MALFORMED: GitError = GitError::Source(SourceFault::Malformed);

/// How a record ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// With the byte that ends one.
    Record,
    /// There is none any more; a piece without the byte at its end is no record.
    End,
    /// It is longer than it may be.
    TooLong,
}

/// Reads to the next `end`, which is not kept.
pub(super) async fn record(
    from: &mut (impl AsyncBufRead + Unpin),
    end: u8,
    longest: usize,
    into: &mut Vec<u8>,
) -> Part {
    into.clear();
    loop {
        let Ok(had) = from.fill_buf().await else { return Part::End };
        if had.is_empty() {
            return Part::End;
        }
        let at = had.iter().position(|byte| *byte == end);
        let piece = &had[..at.unwrap_or(had.len())];
        if into.len() + piece.len() > longest {
            return Part::TooLong;
        }
        into.extend_from_slice(piece);
        let taken = piece.len() + usize::from(at.is_some());
        from.consume(taken);
        if at.is_some() {
            return Part::Record;
        }
    }
}

/// The objects of a repository, asked for one by one.
#[derive(Debug)]
pub(super) struct Objects {
    run: Run,
    line: Vec<u8>,
}

impl Objects {
    pub(super) fn open(settings: &GitSettings, dir: &WorkDir) -> Result<Self, GitError> {
        let run = Run::start(settings, dir, Step::Read, ["--git-dir=repository", "cat-file", "--batch"])?;
        Ok(Self { run, line: Vec::new() })
    }

    /// Id of the commit that was fetched.
    pub(super) async fn commit(&mut self) -> Result<String, GitError> {
        let (id, size) = self.ask("HEAD^{commit}", "commit").await?;
        self.content(size, 0).await?;
        Ok(id)
    }

    /// Reads an entry's content.
    pub(super) async fn entry(&mut self, record: Record, limits: &Limits) -> Result<Entry, GitError> {
        let Record { path, mode, id, size } = record;
        if mode == Mode::Submodule {
            return Ok(Entry { path, mode, content: Content::Submodule { commit: id } });
        }
        let (named, has) = self.ask(&id, "blob").await?;
        if named != id || has != size {
            return Err(MALFORMED);
        }
        let whole = size <= limits.file;
        let most = if whole { usize::try_from(size).map_err(|_| MALFORMED)? } else { KEPT };
        let (bytes, sha256) = self.content(size, most).await?;
        let content = if whole {
            Content::Whole { bytes, sha256 }
        } else {
            Content::TooLarge { head: bytes, size, sha256 }
        };
        Ok(Entry { path, mode, content })
    }

    /// Ends well: git has nothing more to say.
    pub(super) async fn close(self) -> Result<(), GitError> {
        self.run.finish().await
    }

    /// Id and size of an object, whose content comes next.
    async fn ask(&mut self, name: &str, kind: &str) -> Result<(String, u64), GitError> {
        let Some(stdin) = &mut self.run.stdin else { return Err(MALFORMED) };
        // Where git is gone, its answer says so.
        drop(stdin.write_all(format!("{name}\n").as_bytes()).await);
        if record(&mut self.run.stdout, b'\n', LONGEST_LINE, &mut self.line).await != Part::Record {
            return Err(MALFORMED);
        }
        let line = str::from_utf8(&self.line).map_err(|_| MALFORMED)?;
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next().map(str::parse), words.next()) {
            (Some(id), Some(of), Some(Ok(size)), None) if of == kind => Ok((id.to_owned(), size)),
            _ => Err(MALFORMED),
        }
    }

    /// The first bytes of a content, and the digest of all of it.
    async fn content(&mut self, size: u64, keep: usize) -> Result<(Bytes, [u8; 32]), GitError> {
        let (mut left, mut kept, mut digest) = (size, BytesMut::with_capacity(keep), Sha256::new());
        while left > 0 {
            let had = self.run.stdout.fill_buf().await.map_err(|_| MALFORMED)?;
            if had.is_empty() {
                return Err(MALFORMED);
            }
            let piece = &had[..had.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            digest.update(piece);
            kept.extend_from_slice(&piece[..piece.len().min(keep - kept.len())]);
            let taken = piece.len();
            self.run.stdout.consume(taken);
            left -= taken as u64;
        }
        match record(&mut self.run.stdout, b'\n', 0, &mut self.line).await {
            Part::Record => Ok((kept.freeze(), digest.finalize().into())),
            Part::End | Part::TooLong => Err(MALFORMED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn records_are_read_in_pieces_and_not_beyond_their_bound() {
        let mut from = tokio::io::BufReader::with_capacity(2, &b"abc\0\0abcd\0x"[..]);
        let mut into = Vec::new();
        assert_eq!(record(&mut from, 0, 3, &mut into).await, Part::Record);
        assert_eq!(into, b"abc");
        assert_eq!(record(&mut from, 0, 3, &mut into).await, Part::Record);
        assert_eq!(into, b"");
        assert_eq!(record(&mut from, 0, 3, &mut into).await, Part::TooLong);
        let mut rest = &b"x"[..];
        assert_eq!(record(&mut rest, 0, 3, &mut into).await, Part::End);
    }
}
