//! A wire between a client and a relay that stands still at the worst moment: the final dot is on its way, or the
//! reply to it is. For relays that cannot be scripted to wait, as a real Postfix.
//!
//! The wire follows the dialogue line by line and changes nothing. If it dies, its connections die with it.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::trap::{Fate, Snare, Snares, Trapped};

/// Points at which a dialogue can be made to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireTrap {
    /// The client has written the final dot; the relay has everything but the dot.
    DotSent,
    /// The relay has answered the dot; the client has not received the reply.
    DotAnswered,
}

/// A port of 127.0.0.1 that leads to a relay on another.
#[derive(Debug)]
pub struct RelayWire {
    port: u16,
    script: Arc<Script>,
    accepting: JoinHandle<()>,
}

impl RelayWire {
    /// Listens on a free port and carries every connection to 127.0.0.1:`relay`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(relay: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let script = Arc::<Script>::default();
        let telling = Arc::clone(&script);
        let accepting = tokio::spawn(async move {
            let mut wires = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let script = Arc::clone(&telling);
                // However a wire ends, both of its ends are closed, and each side notices by itself.
                wires.spawn(async move { drop(carry(client, relay, &script).await) });
                while wires.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, script, accepting })
    }

    /// Port to connect to, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The `nth` (1: the next) dialogue to reach this point stands still until it is released, or cut: then its
    /// connection ends, and what was held back never arrives. One catch for each call.
    pub fn trap(&self, trap: WireTrap, nth: u64) -> Trapped {
        self.script.lock().set(trap, nth)
    }
}

impl Drop for RelayWire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Debug, Default)]
struct Script(Mutex<Snares<WireTrap>>);

impl Script {
    fn lock(&self) -> MutexGuard<'_, Snares<WireTrap>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, place: WireTrap) -> Option<Snare> {
        self.lock().pass(|trap| *trap == place)
    }
}

/// Progress of one dialogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Commands,
    /// The relay has said 354.
    Message,
    /// The dot is written and not answered.
    Dotted,
}

async fn carry(client: TcpStream, relay: u16, script: &Script) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, relay)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let phase = Mutex::new(Phase::Commands);
    let both = async {
        tokio::join!(
            to_server(client_reads, server_writes, &phase, script),
            to_client(server_reads, client_writes, &phase, script)
        )
    };
    let (requests, replies) = both.await;
    requests.and(replies)
}

async fn to_server(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    phase: &Mutex<Phase>,
    script: &Script,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line).await? == 0 {
            // The client is gone: so is this connection, for the relay.
            return to.shutdown().await;
        }
        let dot = at(phase) == Phase::Message && line == b".\r\n";
        if dot {
            let snare = script.pass(WireTrap::DotSent);
            if let Some(snare) = snare
                && snare.stand().await == Fate::Cut
            {
                return to.shutdown().await;
            }
            *phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Dotted;
        }
        to.write_all(&line).await?;
    }
}

async fn to_client(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    phase: &Mutex<Phase>,
    script: &Script,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line).await? == 0 {
            return to.shutdown().await;
        }
        let now = at(phase);
        if now == Phase::Dotted {
            let snare = script.pass(WireTrap::DotAnswered);
            if let Some(snare) = snare
                && snare.stand().await == Fate::Cut
            {
                return to.shutdown().await;
            }
        }
        let next = if line.starts_with(b"354") { Phase::Message } else { Phase::Commands };
        if now == Phase::Dotted || next == Phase::Message {
            *phase.lock().unwrap_or_else(PoisonError::into_inner) = next;
        }
        to.write_all(&line).await?;
    }
}

fn at(phase: &Mutex<Phase>) -> Phase {
    *phase.lock().unwrap_or_else(PoisonError::into_inner)
}
