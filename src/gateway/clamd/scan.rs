//! One scan: the bytes are pushed as they come, and the verdict is asked for at the end.
//!
//! Whoever feeds it reads an object for other reasons as well, so trouble with clamd stops nobody: what comes afterwards is
//! taken and forgotten, and the verdict says why there is none. Dropping it, or a write of it, ends the connection; clamd then
//! forgets the stream. Invariant: the closing chunk is written only when exactly the announced bytes were.

use std::mem;
use std::time::Duration;

use super::classify::{NoAnswer, Verdict, verdict};
use super::connection::{Connection, Stopped};

/// Bytes of a chunk at most: a write is given up when the socket takes none of them for a while.
const CHUNK: usize = 256 * 1024;

/// A scan that goes on.
#[derive(Debug)]
#[must_use = "without finish() there is no verdict"]
pub struct Scan {
    state: State,
    left: u64,
    patience: Duration,
}

#[derive(Debug)]
enum State {
    Open(Connection),
    Over(Verdict),
}

impl Scan {
    /// Begins the command on a connection; `left` bytes will come.
    pub(super) async fn begin(opened: Result<Connection, NoAnswer>, left: u64, patience: Duration) -> Self {
        let state = match opened {
            Ok(connection) => send(connection, &[b"zINSTREAM\0"]).await,
            Err(why) => State::Over(why.into()),
        };
        Self { state, left, patience }
    }

    /// Sends the next bytes; forgets them where the scan is over. A call that is dropped before its end ends the scan.
    pub async fn write(&mut self, bytes: &[u8]) {
        // An empty chunk would close the stream.
        for chunk in bytes.chunks(CHUNK) {
            // Whatever becomes of this call, no half chunk is followed by another.
            let state = mem::replace(&mut self.state, State::Over(NoAnswer::Incomplete.into()));
            let State::Open(connection) = state else {
                self.state = state;
                return;
            };
            let Ok(length) = u32::try_from(chunk.len()) else { return };
            let Some(left) = self.left.checked_sub(length.into()) else { return };
            self.left = left;
            self.state = send(connection, &[&length.to_be_bytes(), chunk]).await;
        }
    }

    /// Whether the verdict is known already, and more bytes would be forgotten.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Closes the stream and waits for the verdict, at most for the configured time.
    pub async fn finish(self) -> Verdict {
        let connection = match self.state {
            State::Over(verdict) => return verdict,
            State::Open(_) if self.left > 0 => return NoAnswer::Incomplete.into(),
            State::Open(connection) => connection,
        };
        match send(connection, &[&[0; 4]]).await {
            State::Over(verdict) => verdict,
            State::Open(connection) => verdict(&connection.answer(self.patience).await),
        }
    }
}

/// Writes the parts; where clamd does not take them, the scan is over.
async fn send(mut connection: Connection, parts: &[&[u8]]) -> State {
    for part in parts {
        match connection.write(part).await {
            Ok(()) => {}
            Err(Stopped::Stalled(patience)) => return State::Over(NoAnswer::Stalled(patience).into()),
            Err(Stopped::Answered) => return State::Over(verdict(&connection.last_words().await)),
        }
    }
    State::Open(connection)
}
