//! The stream under an SMTP connection: it knows what has really been written and read, and can refuse the dot.
//!
//! lettre's client offers no hook between the body and the final dot, takes any waiting line for the next reply,
//! and chokes on bytes that are not UTF-8. This stream hands it one well-formed line at a time, refuses to write a
//! command while an unasked line waits, counts the bytes of the final dot, and writes none of them once it is shut.
//! If we die in the middle, the relay sees the connection end; it never sees half a decision.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::ports::Fault;

/// `CR LF . CR LF`, as the client writes it behind the body.
const FINAL_DOT: usize = 5;
/// A reply line longer than this is cut; RFC 5321 §4.5.3.1.5 allows 512, the client under us 1000.
const LONGEST_LINE: usize = 900;
/// Unread bytes without a line end beyond this are not SMTP.
const LONGEST_UNREAD: usize = 16 * 1024;
/// Greeting lines kept.
const MOST_GREETING_LINES: usize = 64;

/// What is going on, as far as the stream must know.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Phase {
    /// Banner and EHLO: lines are kept to read the relay's name and offers from.
    #[default]
    Greeting,
    /// A command and its reply.
    Command,
    /// The message.
    Body,
    /// The final dot and its reply.
    Dot,
    /// Nothing is written any more, and why.
    Shut(Fault),
}

#[derive(Debug, Default)]
struct Known {
    phase: Phase,
    moved: u64,
    spoken: bool,
    dot_bytes: usize,
    ended: bool,
    greeting: Vec<String>,
    early: Option<String>,
}

/// What the lane knows of its stream. Shared with the stream, which is lettre's once the connection stands.
#[derive(Debug, Default)]
pub(super) struct Watch {
    known: Mutex<Known>,
    turned: Notify,
}

impl Watch {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command is about to be given.
    pub(super) fn command(&self) {
        self.known().phase = Phase::Command;
    }

    /// The message is about to be written.
    pub(super) fn body(&self) {
        let mut known = self.known();
        known.phase = Phase::Body;
        known.dot_bytes = 0;
    }

    /// The body is written: the dot may follow, or must not.
    pub(super) fn dot(&self, allowed: Result<(), Fault>) {
        self.known().phase = match allowed {
            Ok(()) => Phase::Dot,
            Err(why) => Phase::Shut(why),
        };
    }

    /// The final dot has left us as a whole: from here on a loss is a doubt.
    pub(super) fn dot_is_out(&self) -> bool {
        self.known().dot_bytes >= FINAL_DOT
    }

    /// Why the dot was not written.
    pub(super) fn shut(&self) -> Option<Fault> {
        match &self.known().phase {
            Phase::Shut(why) => Some(why.clone()),
            Phase::Greeting | Phase::Command | Phase::Body | Phase::Dot => None,
        }
    }

    /// EHLO has been written, so the banner was read.
    pub(super) fn has_spoken(&self) -> bool {
        self.known().spoken
    }

    /// Bytes moved so far, to tell slow from stuck.
    pub(super) fn moved(&self) -> u64 {
        self.known().moved
    }

    /// The relay closed its side.
    pub(super) fn has_ended(&self) -> bool {
        self.known().ended
    }

    /// The line the relay said before it was asked.
    pub(super) fn early(&self) -> Option<String> {
        self.known().early.clone()
    }

    /// Banner and EHLO lines, as read.
    pub(super) fn greeting(&self) -> Vec<String> {
        self.known().greeting.clone()
    }

    /// EHLO or the final dot may just have been written; look which.
    pub(super) async fn turned(&self) {
        self.turned.notified().await;
    }
}

/// See the module's header.
#[derive(Debug)]
pub(super) struct Wire {
    tcp: TcpStream,
    watch: Arc<Watch>,
    /// As it came.
    inbox: Vec<u8>,
    /// One well-formed line on its way up, and how much of it has gone.
    line: Vec<u8>,
    given: usize,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream) -> (Self, Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        let wire = Self { tcp, watch: Arc::clone(&watch), inbox: Vec::new(), line: Vec::new(), given: 0 };
        (wire, watch)
    }

    /// Reads what is there into the inbox; the number of bytes, 0 at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [0_u8; 2048];
        let mut buf = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut buf))?;
        let n = buf.filled().len();
        self.inbox.extend_from_slice(buf.filled());
        let mut known = self.watch.known();
        known.moved += n as u64;
        known.ended |= n == 0;
        Poll::Ready(Ok(n))
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.inbox.iter().position(|b| *b == b'\n')?;
        let line = tidy(&self.inbox[..end]);
        self.inbox.drain(..=end);
        Some(line)
    }

    /// Fails when the relay has said something it was not asked for, or has gone.
    fn check_turn(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.given >= self.line.len() && self.inbox.is_empty() {
            match self.poll_fill(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(closed()),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(broken)) => return Err(broken),
            }
        }
        let waiting = self.inbox.split(|b| *b == b'\n').next().unwrap_or_default();
        let early = String::from_utf8_lossy(&tidy(waiting)).trim_end().to_owned();
        let error = io::Error::new(io::ErrorKind::InvalidData, format!("it spoke out of turn: {early}"));
        self.watch.known().early = Some(early);
        Err(error)
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the relay closed it")
}

/// One reply line as the client under us can read it: UTF-8, not too long, with a blank behind the code, `CR LF`.
fn tidy(line: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']).to_owned();
    if text.len() > LONGEST_LINE {
        text.truncate(text.floor_char_boundary(LONGEST_LINE));
    }
    if text.len() == 3 {
        text.push(' ');
    }
    text.push_str("\r\n");
    text.into_bytes()
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &mut *self;
        while wire.given >= wire.line.len() {
            if let Some(line) = wire.next_line() {
                let mut known = wire.watch.known();
                if known.phase == Phase::Greeting && known.greeting.len() < MOST_GREETING_LINES {
                    known.greeting.push(String::from_utf8_lossy(&line).trim_end().to_owned());
                }
                drop(known);
                wire.line = line;
                wire.given = 0;
                break;
            }
            if wire.inbox.len() > LONGEST_UNREAD {
                let what = "more than 16 KiB without a line end";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
            }
            if ready!(wire.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let rest = &wire.line[wire.given..];
        let n = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..n]);
        wire.given += n;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wire = &mut *self;
        if wire.watch.shut().is_some() {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "stopped before the dot",
            )));
        }
        wire.check_turn(cx)?;
        let n = ready!(Pin::new(&mut wire.tcp).poll_write(cx, bytes))?;
        let mut known = wire.watch.known();
        known.moved += n as u64;
        known.spoken = true;
        let turned = match known.phase {
            Phase::Greeting => true,
            Phase::Dot => {
                known.dot_bytes += n;
                known.dot_bytes >= FINAL_DOT
            }
            Phase::Command | Phase::Body | Phase::Shut(..) => false,
        };
        drop(known);
        if turned {
            wire.watch.turned.notify_one();
        }
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_made_readable_for_the_client_under_us() {
        for (line, expected) in [
            (&b"250 Ok\r"[..], "250 Ok\r\n"),
            (b"250 Ok", "250 Ok\r\n"),
            (b"250\r", "250 \r\n"),
            (b"550 gesch\xfctzt\r", "550 gesch\u{fffd}tzt\r\n"),
            ("250 für alle\r".as_bytes(), "250 für alle\r\n"),
        ] {
            assert_eq!(String::from_utf8(tidy(line)).unwrap(), expected);
        }
        let long = tidy("550 ".bytes().chain("ü".bytes().cycle().take(3000)).collect::<Vec<_>>().as_slice());
        assert!(long.len() <= LONGEST_LINE + 2 && String::from_utf8(long).unwrap().starts_with("550 üüü"));
    }
}
