//! An object is read once: SHA-256, CRC-32C, length, type and the scanner's verdict come from the same bytes.
//!
//! Nothing is kept of what is read but the first bytes. The scanner is fed while the store answers; one that is slow slows the
//! reading down, and one that is away costs the verdict alone.

use sha2::{Digest as _, Sha256};

use super::decide::Found;
use super::metrics::SCANS;
use super::scanner::Scanner;
use super::store::Verdict;
use crate::gateway::clamd;
use crate::gateway::objects::store::{ObjectName, ObjectStore, StoreError};
use crate::gateway::objects::{may_be, type_of};

/// First bytes that are kept: what a type is told by.
const FIRST: usize = 8 * 1024;

/// What the scanner says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The verdict.
    pub verdict: Verdict,
    /// Its name for what it found, or why it cannot or did not judge.
    pub signature: Option<String>,
    /// What it is.
    pub scanner: Option<String>,
}

impl Said {
    fn of(verdict: clamd::Verdict, scanner: &str) -> Self {
        let (verdict, signature) = match verdict {
            clamd::Verdict::Clean => (Verdict::Clean, None),
            clamd::Verdict::Infected { signature } => (Verdict::Infected, Some(signature)),
            clamd::Verdict::Unscannable { why } => (Verdict::Unscannable, Some(why)),
            clamd::Verdict::Unscanned { why } => (Verdict::Unscanned, Some(why.to_string())),
        };
        Self { verdict, signature, scanner: Some(scanner.to_owned()) }
    }

    /// What is said where no scanner is believed.
    fn nothing() -> Self {
        let signature = Some("no scanner is believed at the moment".to_owned());
        Self { verdict: Verdict::Unscanned, signature, scanner: None }
    }
}

/// Reads one generation of an object of `length` bytes.
///
/// # Errors
/// [`StoreError`]: nothing is known of the bytes.
pub async fn read(
    objects: &ObjectStore,
    scanner: &Scanner,
    name: &ObjectName,
    generation: i64,
    (length, declared): (u64, &str),
) -> Result<(Found, Said), StoreError> {
    let mut reading = objects.read(name, generation, 0).await?;
    let trusted = scanner.trusted();
    let mut scan = match &trusted {
        Some((clamd, _)) => Some(clamd.begin(length).await),
        None => None,
    };
    let (mut had, mut crc32c, mut sha256, mut first) = (0_u64, 0, Sha256::new(), Vec::new());
    while let Some(chunk) = reading.chunk().await? {
        had += chunk.len() as u64;
        first.extend_from_slice(&chunk[..chunk.len().min(FIRST - first.len())]);
        crc32c = crc32c::crc32c_append(crc32c, &chunk);
        sha256.update(&chunk);
        if let Some(scan) = &mut scan {
            scan.write(&chunk).await;
        }
    }
    let said = match (scan, trusted) {
        (Some(scan), Some((_, named))) => Said::of(scan.finish().await, &named),
        _ => Said::nothing(),
    };
    SCANS.add(said.verdict, 1);
    let shown_type = type_of(&first);
    let found = Found {
        length: had,
        sha256: hex::encode(sha256.finalize()),
        crc32c,
        shown_type,
        type_fits: may_be(declared, shown_type),
    };
    Ok((found, said))
}
