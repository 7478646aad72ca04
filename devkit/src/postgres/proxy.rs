//! A wire between a client and PostgreSQL that can be cut at the worst moment: a transaction is committed, and its
//! client never hears so.
//!
//! It follows the protocol frame by frame, so that it cuts after the server has said COMMIT and before the client reads
//! it. If it dies, its connections die with it. Never changes what it carries, never cuts what was not asked for.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use super::database::TestDatabase;

/// What a transaction of maple-router says of itself; its name follows.
const NAMED: &str = "application_name = 'maple-router:";

/// A TCP port of 127.0.0.1 that leads to a database, until a named transaction is to be left in the dark.
#[derive(Debug)]
pub struct CuttingProxy {
    port: u16,
    database: String,
    script: Arc<Script>,
    accepting: JoinHandle<()>,
}

impl CuttingProxy {
    /// Listens on a free port and carries every connection to the unix socket of the database's cluster.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(database: &TestDatabase) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let endpoint = database.endpoint();
        let socket = endpoint.socket_dir.join(format!(".s.PGSQL.{}", endpoint.socket_port));
        let script = Arc::<Script>::default();
        let telling = Arc::clone(&script);
        let accepting = tokio::spawn(async move {
            let mut wires = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (socket, script) = (socket.clone(), Arc::clone(&telling));
                // However a wire ends, both of its ends are closed, and each side notices by itself.
                wires.spawn(async move { drop(carry(client, socket, &script).await) });
                while wires.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, database: database.name().to_owned(), script, accepting })
    }

    /// Connection URL of the same database for a role, by way of here. In the clear: what is encrypted cannot be followed.
    #[must_use]
    pub fn url_as(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{}?sslmode=disable", self.port, self.database)
    }

    /// From now on the next COMMIT of a transaction called `name` (as in `db.transaction("record", …)`) stands in the
    /// database while its connection ends without an answer. Once for each call; a transaction that the server rolls
    /// back is answered and does not count.
    pub fn arm(&self, name: &str) {
        self.script.lock().armed.push(name.to_owned());
    }

    /// The transactions that were cut off so far, in order.
    #[must_use]
    pub fn cuts(&self) -> Vec<String> {
        self.script.lock().cuts.clone()
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What is to be cut, and what was.
#[derive(Debug, Default)]
struct Script(Mutex<Plan>);

#[derive(Debug, Default)]
struct Plan {
    armed: Vec<String>,
    cuts: Vec<String>,
}

impl Script {
    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one connection is about.
#[derive(Debug, Default)]
struct Session {
    /// Of the transaction that is running.
    name: String,
    /// Its COMMIT is on its way and was asked for.
    cutting: Option<String>,
}

impl Session {
    /// Takes in a simple query: where a transaction begins it says its name, where it ends it says COMMIT.
    fn heard(&mut self, query: &str, script: &Script) {
        if let Some((_, rest)) = query.split_once(NAMED) {
            rest.split('\'').next().unwrap_or_default().clone_into(&mut self.name);
        }
        if query.trim_end_matches('\0').ends_with("COMMIT") {
            let mut plan = script.lock();
            if let Some(place) = plan.armed.iter().position(|name| *name == self.name) {
                self.cutting = Some(plan.armed.remove(place));
            }
        }
    }
}

async fn carry(client: TcpStream, socket: std::path::PathBuf, script: &Script) -> io::Result<()> {
    client.set_nodelay(true)?;
    let (server_reads, server_writes) = UnixStream::connect(socket).await?.into_split();
    let (client_reads, client_writes) = client.into_split();
    let session = Mutex::new(Session::default());
    tokio::select! {
        ended = to_server(client_reads, server_writes, &session, script) => ended,
        ended = to_client(server_reads, client_writes, &session, script) => ended,
    }
}

async fn to_server(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    session: &Mutex<Session>,
    script: &Script,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    // The first frame has no kind: a start-up, or a request to cancel.
    let mut frame = Vec::new();
    fill(&mut from, &mut frame).await?;
    loop {
        if let [b'Q', _, _, _, _, query @ ..] = frame.as_slice() {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.heard(&String::from_utf8_lossy(query), script);
        }
        to.write_all(&frame).await?;
        frame = vec![from.read_u8().await?];
        fill(&mut from, &mut frame).await?;
    }
}

async fn to_client(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    session: &Mutex<Session>,
    script: &Script,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let mut frame = vec![from.read_u8().await?];
        fill(&mut from, &mut frame).await?;
        {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            let done = frame.starts_with(b"C");
            if done && frame.ends_with(b"COMMIT\0") {
                if let Some(name) = session.cutting.take() {
                    script.lock().cuts.push(name);
                    return Ok(());
                }
            } else if (done && frame.ends_with(b"ROLLBACK\0")) || frame.starts_with(b"E") {
                // Not committed: what was asked for is still to come.
                script.lock().armed.extend(session.cutting.take());
            }
        }
        to.write_all(&frame).await?;
    }
}

/// Appends a frame's length and what it counts.
async fn fill(from: &mut (impl AsyncRead + Unpin), frame: &mut Vec<u8>) -> io::Result<()> {
    let length = from.read_u32().await?;
    frame.extend(length.to_be_bytes());
    let body =
        usize::try_from(length).unwrap_or(usize::MAX).checked_sub(4).ok_or(io::ErrorKind::InvalidData)?;
    let start = frame.len();
    frame.resize(start + body, 0);
    from.read_exact(&mut frame[start..]).await?;
    Ok(())
}
