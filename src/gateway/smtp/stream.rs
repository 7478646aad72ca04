//! The bytes under a dialogue: nothing is written out of step, and how much has been written is known.
//!
//! Nothing is written while unasked words wait: a reader that took them for the next reply would stay one behind. Words
//! that come just then show in the replies after them ([`super::connection`]). If we die in the middle, the relay sees the
//! connection end, never half a decision. A stream never tries again; after any trouble it must be dropped.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

use super::replies::{NotSmtp, Replies, Said};
use super::reply::join;

/// Why nothing more is read or written.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The relay said this before it was asked.
    Early(Said),
    /// The relay began to say something before it was asked. Half a line is never quoted: it may be half an address.
    Unfinished,
    /// The relay's bytes are no reply.
    NotSmtp,
    /// The relay closed the connection.
    Closed,
    Lost(io::Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Early(said) => {
                let text = join(said.code, said.lines());
                write!(f, "connection dropped: the relay spoke out of turn: {} {text}", said.code)
            }
            Self::Unfinished => write!(f, "connection dropped: the relay spoke out of turn"),
            Self::NotSmtp => write!(f, "connection dropped: the relay's answer is not SMTP"),
            Self::Closed => write!(f, "connection lost: the relay closed it"),
            Self::Lost(error) => write!(f, "connection lost: {error}"),
        }
    }
}

impl From<NotSmtp> for Trouble {
    fn from(NotSmtp: NotSmtp) -> Self {
        Self::NotSmtp
    }
}

/// Why bytes were not written.
#[derive(Debug)]
pub(super) enum Unwritten<No> {
    /// The question before the write was answered with no.
    Forbidden(No),
    Trouble(Trouble),
}

impl<No> From<Trouble> for Unwritten<No> {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// A TCP connection and the replies read from it (module header).
#[derive(Debug)]
pub(super) struct Stream {
    tcp: TcpStream,
    replies: Replies,
}

impl Stream {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, replies: Replies::default() }
    }

    /// The next reply.
    pub(super) async fn reply(&mut self) -> Result<Said, Trouble> {
        loop {
            if let Some(said) = self.replies.next()? {
                return Ok(said);
            }
            poll_fn(|cx| self.poll_fill(cx)).await?;
        }
    }

    /// Writes commands, as one write where the system takes them as one.
    pub(super) async fn write(&mut self, commands: &[u8]) -> Result<(), Trouble> {
        let mut written = poll_fn(|cx| {
            self.check_order(cx)?;
            self.poll_write(cx, commands)
        })
        .await?;
        // The rest without looking for words: the first command may be answered before the last is written.
        while written < commands.len() {
            written += poll_fn(|cx| self.poll_write(cx, &commands[written..])).await?;
        }
        Ok(())
    }

    /// Writes as many of these bytes as the system takes at once; returns how many.
    ///
    /// `may` is asked each time they really can be written, immediately before. Where it refuses, or where there is
    /// trouble, not a byte has been written.
    pub(super) async fn write_some<No>(
        &mut self,
        bytes: &[u8],
        mut may: impl FnMut() -> Result<(), No>,
    ) -> Result<usize, Unwritten<No>> {
        poll_fn(|cx| {
            self.check_order(cx)?;
            ready!(self.tcp.poll_write_ready(cx)).map_err(Trouble::Lost)?;
            may().map_err(Unwritten::Forbidden)?;
            Poll::Ready(Ok(ready!(self.poll_write(cx, bytes))?))
        })
        .await
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Trouble>> {
        Poll::Ready(match ready!(Pin::new(&mut self.tcp).poll_write(cx, bytes)) {
            Ok(0) => Err(Trouble::Closed),
            Ok(written) => Ok(written),
            Err(error) => Err(Trouble::Lost(error)),
        })
    }

    /// Reads the bytes that are there.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Trouble>> {
        let mut space = [0_u8; 2048];
        let mut buf = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut buf)).map_err(Trouble::Lost)?;
        if buf.filled().is_empty() {
            return Poll::Ready(Err(Trouble::Closed));
        }
        self.replies.push(buf.filled());
        Poll::Ready(Ok(()))
    }

    /// Fails when the relay has sent words unasked, or has gone.
    fn check_order(&mut self, cx: &mut Context<'_>) -> Result<(), Trouble> {
        if self.replies.is_empty()
            && let Poll::Ready(filled) = self.poll_fill(cx)
        {
            filled?;
        }
        if self.replies.is_empty() {
            return Ok(());
        }
        Err(self.replies.next()?.map_or(Trouble::Unfinished, Trouble::Early))
    }
}
