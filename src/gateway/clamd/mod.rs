//! clamd, which says whether an upload is clean.
//!
//! [`Clamd::begin`] opens a stream that is fed while an object is read once; `classify` alone turns clamd's words into a
//! verdict. A connection serves one question. Everything ends: the connect, each write that makes no progress, the wait for an
//! answer. Nothing is repeated here, no scan is refused for want of room (how many go on at once is the caller's matter), and
//! nothing is kept: if we die in the middle, clamd sees the connection end, and there is no verdict. No byte of content and
//! no name of a file is in a log, an error or `Debug`; nothing here knows what an upload is.
//!
//! clamd says OK to what it skips because it is long, unless `AlertExceedsMax` is set, and even then to the end of a file in a
//! zip that is longer than `MaxFileSize` (1.4.6). So no file may be let in that is longer than its `StreamMaxLength`, that must
//! not exceed `MaxScanSize`, and `MaxFileSize` must be no less than that one.

mod classify;
mod connection;
mod scan;
mod self_test;
mod version;

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

pub use classify::{NoAnswer, Verdict};
pub use scan::Scan;
pub use self_test::SelfTestFault;
pub use version::{Database, Version};

use crate::config::{self, ScanSocket};
use classify::reply;
use connection::{Connection, Stopped};

/// Name look-up and connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest pause in which clamd takes nothing of what is sent; it only spools then.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for an answer that needs no scan, and for the self-test's.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that [`Clamd::scan`] reads at once.
const PIECE: usize = 64 * 1024;

/// `[scan]`, with everything resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClamdSettings {
    /// Address of clamd.
    pub socket: ScanSocket,
    /// Limit of name look-up and connect.
    pub connect_timeout: Duration,
    /// Longest pause in which clamd takes no byte.
    pub write_timeout: Duration,
    /// Limit of a verdict, from the last byte on.
    pub timeout: Duration,
}

impl ClamdSettings {
    /// Settings of the configuration; `None` where no socket is named, or where it is none.
    #[must_use]
    pub fn new(scan: &config::Scan) -> Option<Self> {
        let socket = config::scan_socket(scan.socket.as_deref()?).ok()?;
        let (connect_timeout, write_timeout) = (CONNECT_TIMEOUT, WRITE_TIMEOUT);
        Some(Self { socket, connect_timeout, write_timeout, timeout: scan.timeout })
    }
}

/// A client of clamd. Safe to use from many tasks at once; connects to nothing before it is asked.
#[derive(Debug, Clone)]
pub struct Clamd {
    settings: ClamdSettings,
}

impl Clamd {
    /// A client for the clamd at the address of these settings.
    #[must_use]
    pub fn new(settings: ClamdSettings) -> Self {
        Self { settings }
    }

    /// Begins the scan of so many bytes, which are then pushed. Where clamd cannot be reached, the scan is over at once and
    /// its verdict says so.
    pub async fn begin(&self, length: u64) -> Scan {
        self.begin_with(length, self.settings.timeout).await
    }

    async fn begin_with(&self, length: u64, patience: Duration) -> Scan {
        Scan::begin(Connection::open(&self.settings).await, length, patience).await
    }

    /// Scans what a reader gives, which must be so many bytes.
    ///
    /// # Errors
    /// The reader failed; clamd's failures are [`Verdict::Unscanned`].
    pub async fn scan(&self, mut bytes: impl AsyncRead + Unpin, length: u64) -> io::Result<Verdict> {
        let mut scan = self.begin(length).await;
        let mut piece = vec![0; PIECE];
        while !scan.is_over() {
            let had = bytes.read(&mut piece).await?;
            if had == 0 {
                break;
            }
            scan.write(&piece[..had]).await;
        }
        Ok(scan.finish().await)
    }

    /// Asks whether clamd is there. Says nothing of whether it finds anything: [`Self::self_test`].
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn ping(&self) -> Result<(), NoAnswer> {
        let said = self.ask(b"zPING\0").await?;
        if said == b"PONG" { Ok(()) } else { Err(NoAnswer::NotClamd) }
    }

    /// Asks which engine and which signatures clamd has.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn version(&self) -> Result<Version, NoAnswer> {
        version::version(&self.ask(b"zVERSION\0").await?)
    }

    /// Sends the EICAR test file, which must be found; gives the signature's name.
    ///
    /// # Errors
    /// [`SelfTestFault`]: no verdict of this clamd is to be believed.
    pub async fn self_test(&self) -> Result<String, SelfTestFault> {
        let file = self_test::test_file();
        let patience = self.settings.timeout.min(COMMAND_TIMEOUT);
        let mut scan = self.begin_with(file.len() as u64, patience).await;
        scan.write(&file).await;
        self_test::judged(scan.finish().await)
    }

    /// Says a command without content; gives the line of the answer.
    async fn ask(&self, command: &[u8]) -> Result<Vec<u8>, NoAnswer> {
        let mut connection = Connection::open(&self.settings).await?;
        let heard = match connection.write(command).await {
            Ok(()) => connection.answer(self.settings.timeout.min(COMMAND_TIMEOUT)).await,
            Err(Stopped::Answered) => connection.last_words().await,
            Err(Stopped::Stalled(patience)) => return Err(NoAnswer::Stalled(patience)),
        };
        reply(&heard).map(<[u8]>::to_vec)
    }
}
