//! The file: read once for its digest, then part by part.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// A file, read.
#[derive(Debug)]
pub(super) struct Read {
    path: PathBuf,
    /// Its name, as readers will see it.
    pub(super) name: String,
    /// Its length in bytes.
    pub(super) length: u64,
    /// SHA-256 in hexadecimal digits.
    pub(super) sha256: String,
}

impl Read {
    /// Reads the file, called `name` where that is given.
    pub(super) async fn of(path: &Path, name: Option<&str>) -> io::Result<Self> {
        let own = path.file_name().map(|own| own.to_string_lossy().into_owned());
        let name = name.map(str::to_owned).or(own).unwrap_or_default();
        let (mut file, mut sha256, mut length) = (File::open(path).await?, Sha256::new(), 0);
        let mut piece = vec![0; PIECE];
        loop {
            let had = file.read(&mut piece).await?;
            if had == 0 {
                break;
            }
            length += had as u64;
            sha256.update(&piece[..had]);
        }
        Ok(Self { path: path.to_owned(), name, length, sha256: hex::encode(sha256.finalize()) })
    }

    /// The name of the request for a session of this file.
    pub(super) fn key(&self, owner: &str, form: &str, session: u32) -> String {
        let mut all = Sha256::new();
        for text in [owner, form, &self.name, &self.sha256, &session.to_string()] {
            all.update(text.as_bytes());
            all.update([0]);
        }
        format!("file-{}", hex::encode(&all.finalize()[..16]))
    }

    /// The bytes of one part.
    pub(super) async fn part(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path).await?;
        file.seek(SeekFrom::Start(offset)).await?;
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact(&mut bytes).await?;
        Ok(bytes)
    }
}
