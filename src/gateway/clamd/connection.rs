//! A connection to clamd: bytes out, one answer in. Whoever writes sees at once when clamd speaks meanwhile.
//!
//! Sockets are asked directly, not by what the runtime last heard of them: whether an answer came before the last bytes were
//! written decides whether it counts. If we die in the middle, or it is dropped, clamd sees the connection end and forgets
//! the stream. After any trouble nothing more is written.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::ClamdSettings;
use super::classify::{END, Ending, Heard, LONGEST, NoAnswer};
use crate::config::ScanSocket;

/// Time that clamd has for closing once it has answered, and for its last words once it stopped reading.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    async fn connect(address: &ScanSocket) -> io::Result<Self> {
        match address {
            ScanSocket::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            ScanSocket::Tcp(address) => {
                let socket = TcpStream::connect(address).await?;
                // A chunk and its length are two writes.
                socket.set_nodelay(true)?;
                Ok(Self::Tcp(socket))
            }
        }
    }

    /// The same socket, whose reads ask the system and never block.
    fn direct(&self) -> io::Result<File> {
        let fd = match self {
            Self::Unix(socket) => socket.as_fd().try_clone_to_owned(),
            Self::Tcp(socket) => socket.as_fd().try_clone_to_owned(),
        };
        fd.map(File::from)
    }

    async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let had = match self {
                Self::Unix(socket) => socket.readable().await.and_then(|()| socket.try_read(buffer)),
                Self::Tcp(socket) => socket.readable().await.and_then(|()| socket.try_read(buffer)),
            };
            if !would_block(&had) {
                return had;
            }
        }
    }

    async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match self {
                Self::Unix(socket) => socket.writable().await.and_then(|()| socket.try_write(bytes)),
                Self::Tcp(socket) => socket.writable().await.and_then(|()| socket.try_write(bytes)),
            };
            if !would_block(&written) {
                return written;
            }
        }
    }
}

fn would_block(result: &io::Result<usize>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Why writing stopped. clamd's own words, where it has any, say more: [`Connection::last_words`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// clamd spoke, or closed its end, or the connection broke.
    Answered,
    /// No byte was taken for this long.
    Stalled(Duration),
}

/// A connection on which one command is said.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    direct: File,
    said: Vec<u8>,
    /// How clamd's side ended, where it has.
    ended: Option<Ending>,
    write_timeout: Duration,
}

impl Connection {
    /// Connects to the configured address.
    pub(super) async fn open(settings: &ClamdSettings) -> Result<Self, NoAnswer> {
        let away =
            |why: &str| NoAnswer::Away(format!("clamd cannot be reached at {}: {why}", settings.socket));
        let socket = match timeout(settings.connect_timeout, Socket::connect(&settings.socket)).await {
            Ok(connected) => connected.map_err(|error| away(&error.to_string()))?,
            Err(_) => return Err(away("no connection was made in time")),
        };
        let direct = socket.direct().map_err(|error| away(&error.to_string()))?;
        Ok(Self { socket, direct, said: Vec::new(), ended: None, write_timeout: settings.write_timeout })
    }

    /// Writes all of it, while clamd says nothing.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.look();
        let (patience, mut rest) = (self.write_timeout, bytes);
        let mut buffer = [0; 512];
        while !rest.is_empty() {
            if self.has_answered() {
                return Err(Stopped::Answered);
            }
            match timeout(patience, self.next(rest, &mut buffer)).await {
                Ok(Event::Heard(had)) => self.take(had, &buffer),
                Ok(Event::Written(Ok(written))) if written > 0 => rest = &rest[written..],
                // The reason may stand in what clamd said before.
                Ok(Event::Written(_)) => return Err(Stopped::Answered),
                Err(_) => return Err(Stopped::Stalled(patience)),
            }
        }
        Ok(())
    }

    /// Reads the answer, and waits until clamd has closed its end.
    pub(super) async fn answer(self, patience: Duration) -> Heard {
        self.listen_until_end(patience, true).await
    }

    /// Reads what clamd says where it was not sent everything.
    pub(super) async fn last_words(self) -> Heard {
        self.listen_until_end(LAST_WORDS, false).await
    }

    async fn listen_until_end(mut self, patience: Duration, all_sent: bool) -> Heard {
        let mut ending = self.listen_until(patience, |c| c.said.contains(&END)).await;
        // Whoever was not sent everything may leave its end open: what it said does not become more certain.
        if ending.is_none() && all_sent {
            ending = self.listen_until(LAST_WORDS, |_| false).await;
        }
        Heard { said: self.said, ending: ending.unwrap_or(Ending::Closed), all_sent }
    }

    /// Listens until it is enough; says how the answer ended, where it did.
    async fn listen_until(&mut self, patience: Duration, enough: fn(&Self) -> bool) -> Option<Ending> {
        let listening = timeout(patience, async {
            let mut buffer = [0; 512];
            while self.ended.is_none() && !enough(self) {
                let had = self.socket.read(&mut buffer).await;
                self.take(had, &buffer);
            }
        });
        if listening.await.is_err() { Some(Ending::Silence(patience)) } else { self.ended }
    }

    /// What comes first: words of clamd, or room for ours.
    async fn next(&self, bytes: &[u8], buffer: &mut [u8]) -> Event {
        tokio::select! {
            biased;
            had = self.socket.read(buffer) => Event::Heard(had),
            written = self.socket.write(bytes) => Event::Written(written),
        }
    }

    /// Takes the words that have come by now.
    fn look(&mut self) {
        let mut buffer = [0; 512];
        while self.ended.is_none() {
            let had = self.direct.read(&mut buffer);
            if would_block(&had) {
                return;
            }
            self.take(had, &buffer);
        }
    }

    fn take(&mut self, had: io::Result<usize>, buffer: &[u8]) {
        match had {
            Ok(0) => self.ended = Some(Ending::Closed),
            Ok(had) => {
                self.said.extend_from_slice(&buffer[..had]);
                if self.said.len() > LONGEST {
                    self.ended = Some(Ending::TooLong);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.ended = Some(Ending::Broken),
        }
    }

    fn has_answered(&self) -> bool {
        !self.said.is_empty() || self.ended.is_some()
    }
}

/// Step of a write.
enum Event {
    Heard(io::Result<usize>),
    Written(io::Result<usize>),
}
