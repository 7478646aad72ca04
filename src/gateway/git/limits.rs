//! Bounds of a fetch; every one of them ends it.

use std::time::Duration;

/// Bounds of one fetch. What passes one is refused; nothing is cut to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the first question to the last byte.
    pub wall: Duration,
    /// Processor time of one process, in seconds; below `wall`, so that a bomb is told from a slow network.
    pub cpu: u64,
    /// Address space of one process, in bytes.
    pub address_space: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes on disk: of one file, and of all together.
    pub packs: u64,
    /// References that the host names.
    pub refs: usize,
    /// Entries of the tree, or of the part that is wanted.
    pub files: usize,
    /// Bytes of a file that is kept whole; of a larger one its head is kept, and it is read for its digest.
    pub file: u64,
    /// Bytes of all files together, unpacked.
    pub total: u64,
    /// Bytes of a path.
    pub path: usize,
    /// Names in a path.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(20),
            cpu: 10,
            address_space: 256 << 20,
            open_files: 64,
            packs: 64 << 20,
            refs: 500_000,
            files: 2_000,
            file: 1 << 20,
            total: 64 << 20,
            path: 1_024,
            depth: 32,
        }
    }
}
