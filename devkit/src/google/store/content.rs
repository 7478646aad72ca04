//! Bytes: taken in while they are digested, in memory up to 1 MiB and beyond it in a file without a name, and given out
//! again piece by piece.
//!
//! An object that is assembled of parts, or rewritten, shares the bytes that are there. The files go with the last object
//! that has them, or with the process.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt as _, stream};

use super::digest::Digests;

/// What is kept in memory.
const IN_MEMORY: usize = 1 << 20;
/// A piece of a file on its way out.
const PIECE: u64 = 256 << 10;

/// Bytes that do not change any more.
#[derive(Debug, Clone)]
pub(super) struct Content {
    segments: Arc<[Segment]>,
    length: u64,
}

#[derive(Debug, Clone)]
enum Segment {
    Memory(Bytes),
    File(Arc<File>, u64),
}

impl Segment {
    fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let whole = |n: u64| usize::try_from(n).map_err(io::Error::other);
        match self {
            Self::Memory(bytes) => Ok(bytes.slice(whole(range.start)?..whole(range.end)?)),
            Self::File(file, _) => {
                let mut piece = vec![0; whole(range.end - range.start)?];
                file.read_exact_at(&mut piece, range.start)?;
                Ok(piece.into())
            }
        }
    }
}

impl Content {
    /// All of these, one behind the other.
    pub(super) fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let segments: Arc<[Segment]> =
            parts.into_iter().flat_map(|part| part.segments.iter().cloned()).collect();
        let length = segments.iter().map(Segment::length).sum();
        Self { segments, length }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// A part of the bytes, which must be there.
    pub(super) fn stream(&self, range: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::iter(self.pieces(&range)).then(|(segment, range)| async move {
            match segment {
                Segment::Memory(_) => segment.read(range),
                Segment::File(..) => {
                    let read = tokio::task::spawn_blocking(move || segment.read(range));
                    read.await.map_err(io::Error::other)?
                }
            }
        })
    }

    /// All of them at once.
    pub(super) fn whole(&self) -> io::Result<Vec<u8>> {
        let pieces = self.pieces(&(0..self.length)).into_iter().map(|(segment, range)| segment.read(range));
        pieces.collect::<io::Result<Vec<Bytes>>>().map(|pieces| pieces.concat())
    }

    fn pieces(&self, wanted: &Range<u64>) -> Vec<(Segment, Range<u64>)> {
        let (mut pieces, mut start) = (Vec::new(), 0);
        for segment in self.segments.iter() {
            let end = start + segment.length();
            let (mut at, until) = (wanted.start.max(start), wanted.end.min(end));
            while at < until {
                let next = until.min(at + PIECE);
                pieces.push((segment.clone(), at - start..next - start));
                at = next;
            }
            start = end;
        }
        pieces
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        Self { segments: Arc::new([Segment::Memory(bytes.into())]), length }
    }
}

/// Bytes that are coming in.
#[derive(Default)]
pub(super) struct Intake {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
    crc32c: u32,
    md5: md5::Context,
}

impl std::fmt::Debug for Intake {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Intake").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Intake {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        self.md5.consume(bytes);
        self.length += bytes.len() as u64;
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > IN_MEMORY {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(tempfile::tempfile()?),
            };
            file.write_all(&self.memory)?;
            self.memory.clear();
        }
        Ok(())
    }

    /// Reads a body to its end; how many bytes came is in [`Intake::length`], also where its connection broke.
    pub(super) async fn read(&mut self, body: Body) -> io::Result<()> {
        let mut stream = body.into_data_stream();
        while let Some(bytes) = stream.next().await {
            self.take(&bytes.map_err(io::Error::other)?)?;
        }
        Ok(())
    }

    /// The bytes and their digests.
    pub(super) fn finish(mut self) -> io::Result<(Content, Digests)> {
        let digests = Digests { crc32c: self.crc32c, md5: Some(self.md5.finalize().0) };
        let segment = match self.file.take() {
            None => Segment::Memory(self.memory.into()),
            Some(mut file) => {
                file.write_all(&self.memory)?;
                Segment::File(Arc::new(file), self.length)
            }
        };
        Ok((Content { segments: Arc::new([segment]), length: self.length }, digests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_in_goes_out_again_from_memory_and_from_files() {
        let bytes: Vec<u8> = (0..3_500_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut parts = Vec::new();
        for part in [&bytes[..1000], &bytes[1000..2_000_000], &bytes[2_000_000..]] {
            let mut intake = Intake::default();
            for chunk in part.chunks(300_000) {
                intake.take(chunk).unwrap();
            }
            let (content, digests) = intake.finish().unwrap();
            assert_eq!(digests, Digests::of(part));
            parts.push(content);
        }
        let all = Content::joined(&parts);
        assert_eq!(all.whole().unwrap(), bytes);
        for range in [0..bytes.len(), 990..1010, 1_999_999..2_000_001, 5..5] {
            let pieces: Vec<_> = all.stream(range.start as u64..range.end as u64).collect().await;
            let pieces: Vec<Bytes> = pieces.into_iter().collect::<io::Result<_>>().unwrap();
            assert!(pieces.concat() == bytes[range.clone()], "{range:?}");
        }
    }
}
