//! A wire between a client and PostgreSQL that can be cut at the worst moment: a transaction is committed, and its
//! client never receives the answer. The wire can also stand still there until the test has done what it came for.
//!
//! Cuts follow the protocol frame by frame: after the server has said COMMIT and before the client reads it. If the
//! wire dies, its connections die with it. Bytes are never changed, and connections are cut only on request.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::database::TestDatabase;
use super::traffic::{Traffic, Wire};
use crate::trap::{Fate, Snare, Snares, Trapped};

/// Statement by which a transaction of maple-router names itself; what follows is the rest of the program's name (` forms`, of a verb
/// that connects as another role), a colon, and the transaction's.
const NAMED: &str = "application_name = 'maple-router";

/// Points at which a named transaction (as in `db.transaction("record", …)`) can be made to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trap {
    /// The client has sent its BEGIN; the server has not received it.
    BeginSent(&'static str),
    /// The client has sent its COMMIT; the server has not received it, everything before has happened.
    CommitSent(&'static str),
    /// The server has committed and said so; the client has not received it.
    CommitAnswered(&'static str),
    /// As [`Self::CommitSent`], of a transaction whose statements brought rows; a transaction without any is let through.
    TakenSent(&'static str),
    /// As [`Self::CommitAnswered`], of such a transaction.
    TakenAnswered(&'static str),
}

impl Trap {
    fn is_at(self, place: Place, session: &Session) -> bool {
        let (own, wanted, taken) = match self {
            Self::BeginSent(wanted) => (Place::BeginSent, wanted, false),
            Self::CommitSent(wanted) => (Place::CommitSent, wanted, false),
            Self::CommitAnswered(wanted) => (Place::CommitAnswered, wanted, false),
            Self::TakenSent(wanted) => (Place::CommitSent, wanted, true),
            Self::TakenAnswered(wanted) => (Place::CommitAnswered, wanted, true),
        };
        own == place && wanted == session.name && (session.has_rows || !taken)
    }
}

/// A [`Trap`] without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    BeginSent,
    CommitSent,
    CommitAnswered,
}

/// A TCP port of 127.0.0.1 that leads to a database, until a named transaction is to be left in the dark.
#[derive(Debug)]
pub struct CuttingProxy {
    port: u16,
    database: String,
    script: Arc<Script>,
    severed: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl CuttingProxy {
    /// Listens on a free port and carries every connection to the unix socket of the database's cluster.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(database: &TestDatabase) -> Result<Self> {
        Self::counted(database, &Traffic::default()).await
    }

    /// The same; traffic here is counted there as well, also the server's remaining work for a client that was cut.
    ///
    /// # Errors
    /// No port is free.
    pub async fn counted(database: &TestDatabase, traffic: &Traffic) -> Result<Self> {
        let traffic = traffic.clone();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let endpoint = database.endpoint();
        let socket = endpoint.socket_dir.join(format!(".s.PGSQL.{}", endpoint.socket_port));
        let script = Arc::<Script>::default();
        let telling = Arc::clone(&script);
        let (severed, mut is_severed) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            let mut wires = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    changed = is_severed.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        if *is_severed.borrow() {
                            wires.shutdown().await;
                        }
                        continue;
                    }
                    accepted = listener.accept() => accepted,
                };
                let Ok((client, _)) = accepted else { return };
                if *is_severed.borrow() {
                    continue;
                }
                let (socket, script) = (socket.clone(), Arc::clone(&telling));
                let wire = Wire::new(&traffic);
                // However a wire ends, both of its ends are closed, and each side notices by itself.
                wires.spawn(async move { drop(carry(client, socket, wire, &script).await) });
                while wires.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, database: database.name().to_owned(), script, severed, accepting })
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

    /// The `nth` (1: the next) session to reach this point stands still until it is released, or cut: then its
    /// connection ends, and what was held back never arrives. One catch for each call.
    pub fn trap(&self, trap: Trap, nth: u64) -> Trapped {
        self.script.lock().snares.set(trap, nth)
    }

    /// While severed every connection is broken, in whatever it is doing, and none is let through: the database is gone.
    pub fn sever(&self, severed: bool) {
        self.severed.send_replace(severed);
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

/// Requested cuts, and cuts done.
#[derive(Debug, Default)]
struct Script(Mutex<Plan>);

#[derive(Debug, Default)]
struct Plan {
    armed: Vec<String>,
    cuts: Vec<String>,
    snares: Snares<Trap>,
}

impl Script {
    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the snare for a session that reaches this point, if one is set.
    fn pass(&self, place: Place, session: &Session) -> Option<Snare> {
        self.lock().snares.pass(|trap| trap.is_at(place, session))
    }
}

/// State of one connection.
#[derive(Debug, Default)]
struct Session {
    /// Name of the running transaction.
    name: String,
    /// The transaction's statements have brought rows so far.
    has_rows: bool,
    /// The transaction's COMMIT is on its way and is to be cut.
    cutting: Option<String>,
}

impl Session {
    /// Takes in a simple query: a transaction's BEGIN carries its name, its end is a COMMIT. Returns the snare that
    /// is to stop it, if any.
    fn received(&mut self, query: &str, script: &Script) -> Option<Snare> {
        if let Some((_, rest)) = query.split_once(NAMED) {
            let name = rest.split('\'').next().and_then(|whole| whole.rsplit(':').next());
            name.unwrap_or_default().clone_into(&mut self.name);
            self.has_rows = false;
            return script.pass(Place::BeginSent, self);
        }
        if !query.trim_end_matches('\0').ends_with("COMMIT") {
            return None;
        }
        let mut plan = script.lock();
        if let Some(place) = plan.armed.iter().position(|name| *name == self.name) {
            self.cutting = Some(plan.armed.remove(place));
        }
        drop(plan);
        script.pass(Place::CommitSent, self)
    }
}

/// The server's end of a wire. When the wire ends its words end, too, and the server is listened to until it is gone.
struct Server {
    halves: Option<(OwnedReadHalf, OwnedWriteHalf, Wire)>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some((mut reads, writes, wire)) = self.halves.take() else { return };
        drop(writes);
        wire.left();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                drop(tokio::io::copy(&mut reads, &mut tokio::io::sink()).await);
                drop(wire);
            });
        }
    }
}

async fn carry(client: TcpStream, socket: std::path::PathBuf, wire: Wire, script: &Script) -> io::Result<()> {
    client.set_nodelay(true)?;
    let (server_reads, server_writes) = UnixStream::connect(socket).await?.into_split();
    let (client_reads, client_writes) = client.into_split();
    let mut server = Server { halves: Some((server_reads, server_writes, wire)) };
    let Some((server_reads, server_writes, wire)) = &mut server.halves else { return Ok(()) };
    let session = Mutex::new(Session::default());
    tokio::select! {
        ended = to_server(client_reads, server_writes, wire, &session, script) => ended,
        ended = to_client(server_reads, client_writes, wire, &session, script) => ended,
    }
}

/// Stands in a trap, if there is one; says whether the wire ends there.
async fn is_cut(snare: Option<Snare>, wire: &Wire) -> bool {
    let Some(snare) = snare else { return false };
    wire.trapped(true);
    let fate = snare.stand().await;
    wire.trapped(false);
    fate == Fate::Cut
}

async fn to_server(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    wire: &Wire,
    session: &Mutex<Session>,
    script: &Script,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    // The first frame has no kind: a start-up, or a request to cancel.
    let mut frame = Vec::new();
    fill(&mut from, &mut frame).await?;
    loop {
        let snare = if let [b'Q', _, _, _, _, query @ ..] = frame.as_slice() {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.received(&String::from_utf8_lossy(query), script)
        } else {
            None
        };
        if is_cut(snare, wire).await {
            return Ok(());
        }
        wire.asked(&frame);
        to.write_all(&frame).await?;
        frame = vec![from.read_u8().await?];
        fill(&mut from, &mut frame).await?;
    }
}

async fn to_client(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    wire: &Wire,
    session: &Mutex<Session>,
    script: &Script,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let mut frame = vec![from.read_u8().await?];
        fill(&mut from, &mut frame).await?;
        let mut snare = None;
        {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.has_rows |= frame.starts_with(b"D");
            let done = frame.starts_with(b"C");
            if done && frame.ends_with(b"COMMIT\0") {
                if let Some(name) = session.cutting.take() {
                    script.lock().cuts.push(name);
                    return Ok(());
                }
                snare = script.pass(Place::CommitAnswered, &session);
            } else if (done && frame.ends_with(b"ROLLBACK\0")) || frame.starts_with(b"E") {
                // Not committed: the requested cut is still to come.
                script.lock().armed.extend(session.cutting.take());
            }
        }
        if is_cut(snare, wire).await {
            return Ok(());
        }
        to.write_all(&frame).await?;
        wire.answered(&frame);
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
