//! A server that says and does what a test wants, where a client expects clamd: on a loopback port, each connection by the
//! same script. What came is kept, content without the lengths of its chunks.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{self, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One step of a script. At its end the connection is closed; with bytes unread that is a reset.
#[derive(Debug, Clone)]
pub enum Step {
    /// Reads the command, to its end.
    Command,
    /// Reads chunks until this many bytes of content have come.
    Content(usize),
    /// Reads chunks to the closing one.
    All,
    /// Says this.
    Say(Vec<u8>),
    /// Says this, a byte at a time, with pauses.
    Dribble(Vec<u8>, Duration),
    /// Does nothing for this long.
    Pause(Duration),
    /// Does nothing until the client closes its end, and reads nothing until the server is dropped.
    Hang,
    /// Breaks the connection.
    Reset,
}

impl Step {
    /// Says this line, ended as clamd ends it.
    #[must_use]
    pub fn say(line: &str) -> Self {
        Self::Say(format!("{line}\0").into_bytes())
    }
}

/// What came on one connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Came {
    /// The command, without its end.
    pub command: String,
    /// The content.
    pub content: Vec<u8>,
    /// Lengths of its chunks, the closing one included.
    pub chunks: Vec<u32>,
}

impl fmt::Debug for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.content.len();
        f.debug_struct("Came")
            .field("command", &self.command)
            .field("content", &length)
            .finish_non_exhaustive()
    }
}

/// A running server; dropping it ends it and its connections.
#[derive(Debug)]
pub struct ScriptedClamd {
    address: SocketAddr,
    came: Arc<Mutex<Vec<Came>>>,
    task: JoinHandle<()>,
}

impl ScriptedClamd {
    /// Starts one.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start(script: Vec<Step>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let came = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&came);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let number = {
                    let mut kept = lock(&kept);
                    kept.push(Came::default());
                    kept.len() - 1
                };
                connections.spawn(play(socket, script.clone(), Arc::clone(&kept), number));
            }
        });
        Ok(Self { address, came, task })
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came so far, by connection.
    #[must_use]
    pub fn came(&self) -> Vec<Came> {
        lock(&self.came).clone()
    }
}

impl Drop for ScriptedClamd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(came: &Mutex<Vec<Came>>) -> std::sync::MutexGuard<'_, Vec<Came>> {
    came.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn play(mut socket: TcpStream, script: Vec<Step>, came: Arc<Mutex<Vec<Came>>>, number: usize) {
    for step in script {
        if take(&mut socket, step, &came, number).await.is_err() {
            // The client has gone.
            return;
        }
    }
}

async fn take(socket: &mut TcpStream, step: Step, came: &Mutex<Vec<Came>>, number: usize) -> io::Result<()> {
    match step {
        Step::Command => loop {
            match socket.read_u8().await? {
                0 => return Ok(()),
                byte => lock(came)[number].command.push(byte.into()),
            }
        },
        Step::Content(wanted) => {
            while lock(came)[number].content.len() < wanted {
                chunk(socket, came, number).await?;
            }
            Ok(())
        }
        Step::All => loop {
            if chunk(socket, came, number).await? == 0 {
                return Ok(());
            }
        },
        Step::Say(words) => socket.write_all(&words).await,
        Step::Dribble(words, pause) => {
            for byte in words {
                socket.write_all(&[byte]).await?;
                tokio::time::sleep(pause).await;
            }
            Ok(())
        }
        Step::Pause(pause) => {
            tokio::time::sleep(pause).await;
            Ok(())
        }
        Step::Hang => std::future::pending().await,
        Step::Reset => {
            socket.set_zero_linger()?;
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

async fn chunk(socket: &mut TcpStream, came: &Mutex<Vec<Came>>, number: usize) -> io::Result<u32> {
    let length = socket.read_u32().await?;
    let mut bytes = vec![0; length as usize];
    socket.read_exact(&mut bytes).await?;
    let mut came = lock(came);
    came[number].content.extend(bytes);
    came[number].chunks.push(length);
    Ok(length)
}
