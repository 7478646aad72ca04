//! Content that waits on the disk: a file without a name, gone with its last owner or with the process.
//!
//! Reading has no position of its own, so that one content may be read by several at once. `Debug` shows no byte of it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;

/// Content on the disk. Cheap to clone.
#[derive(Clone)]
pub struct Spooled {
    file: Arc<File>,
    length: u64,
}

impl Spooled {
    /// The content of an open file, as long as it is now.
    ///
    /// # Errors
    /// The system's errors.
    pub fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), length })
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The bytes from `offset` on, `most` of them where there are as many; empty behind the end.
    ///
    /// # Errors
    /// The system's errors; a file that lost bytes is one.
    pub async fn read_at(&self, offset: u64, most: usize) -> io::Result<Bytes> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (file, wanted) = (Arc::clone(&self.file), left.min(most));
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; wanted];
            file.read_exact_at(&mut bytes, offset).map(|()| Bytes::from(bytes))
        });
        read.await.map_err(io::Error::other)?
    }
}

impl PartialEq for Spooled {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.length == other.length
    }
}

impl Eq for Spooled {}

impl fmt::Debug for Spooled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spooled").field("length", &self.length).finish_non_exhaustive()
    }
}
