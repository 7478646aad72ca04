//! Log files as they are read: plain, or packed by logrotate or `postfix logrotate` while the daemon was down.
//!
//! A packed file is unpacked by its own program, as a stream that is never stored; the program is killed with it. A
//! position counts unpacked bytes, so that it stays the same when the file is packed. Blocking.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Endings, and the program that unpacks each; `None`: no program is asked.
const PROGRAMS: [(&str, Option<&str>); 8] = [
    ("gz", Some("gzip")),
    ("xz", Some("xz")),
    ("zst", Some("zstd")),
    ("bz2", Some("bzip2")),
    ("lz4", None),
    ("lzma", None),
    ("Z", None),
    ("zip", None),
];
const CHUNK: usize = 64 << 10;

/// Says whether a file is packed, by its name, and the program that unpacks it.
pub(super) fn packed_by(path: &Path) -> Option<Option<&'static str>> {
    let ending = path.extension()?;
    PROGRAMS.iter().find(|(known, _)| ending == *known).map(|(_, program)| *program)
}

/// A file of the log, opened.
pub(super) enum Source {
    Plain(File),
    Packed(Box<Packed>),
}

impl Source {
    pub(super) fn open(path: &Path) -> io::Result<(Self, Metadata)> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let source = match packed_by(path) {
            None => Self::Plain(file),
            Some(program) => Self::Packed(Box::new(Packed::new(file, meta.clone(), program)?)),
        };
        Ok((source, meta))
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        match self {
            Self::Plain(file) => file.metadata(),
            Self::Packed(packed) => Ok(packed.meta.clone()),
        }
    }

    /// Fills `buffer` from `offset` on; less only at the end.
    pub(super) fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read_at(buffer, offset),
            Self::Packed(packed) => packed.read_at(buffer, offset),
        }
    }
}

/// A packed file, unpacked from its beginning on.
pub(super) struct Packed {
    file: File,
    meta: Metadata,
    program: &'static str,
    child: Child,
    stdout: ChildStdout,
    /// Bytes before `ahead`.
    at: u64,
    /// Bytes unpacked and not given out yet.
    ahead: Vec<u8>,
}

impl Packed {
    fn new(file: File, meta: Metadata, program: Option<&'static str>) -> io::Result<Self> {
        let program = program.ok_or_else(|| io::Error::other("nobody here unpacks it"))?;
        let (child, stdout) = unpack(&file, program)?;
        Ok(Self { file, meta, program, child, stdout, at: 0, ahead: Vec::new() })
    }

    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset < self.at {
            self.stop();
            (self.child, self.stdout) = unpack(&self.file, self.program)?;
            (self.at, self.ahead) = (0, Vec::new());
        }
        let mut chunk = vec![0; CHUNK];
        loop {
            let before = usize::try_from(offset - self.at).unwrap_or(usize::MAX).min(self.ahead.len());
            self.ahead.drain(..before);
            self.at += before as u64;
            if self.at == offset && self.ahead.len() >= buffer.len() {
                break;
            }
            let had = self.stdout.read(&mut chunk)?;
            if had == 0 {
                if !self.child.wait()?.success() {
                    return Err(io::Error::other(format!("{} cannot unpack it", self.program)));
                }
                break;
            }
            self.ahead.extend_from_slice(&chunk[..had]);
        }
        let had = if self.at == offset { self.ahead.len().min(buffer.len()) } else { 0 };
        buffer[..had].copy_from_slice(&self.ahead[..had]);
        Ok(had)
    }

    fn stop(&mut self) {
        // The child may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        self.stop();
    }
}

fn unpack(file: &File, program: &str) -> io::Result<(Child, ChildStdout)> {
    use std::io::Seek;

    let mut input = file.try_clone()?;
    input.rewind()?;
    let mut child = Command::new(program)
        .args(["-d", "-c"])
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    Ok((child, stdout))
}
