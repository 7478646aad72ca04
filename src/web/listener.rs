//! A surface's listener: a thread and a runtime of its own, so that a request that hangs there holds up nobody else.
//!
//! A surface that cannot be opened (no secret, an address that is taken) is an incident, and tried again every half minute; the
//! daemon goes on. One that panics is begun anew. A stop is done within two seconds, whatever streams are open. If we die,
//! nothing is owed.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::accept;
use super::name::Name;
use crate::kernel::tasks::{Task, Tasks};
use crate::ops::incident::{Incident, IncidentKey, Incidents};
use crate::ports::Clock;

/// Longest stop.
const STOP: Duration = Duration::from_secs(2);
/// Pause between two tries.
const AGAIN: Duration = Duration::from_secs(30);
/// Time for what runs beside the requests to end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What a listener opens.
pub trait Surface: Send + Sync + 'static {
    /// How it is called.
    const NAME: Name;
    /// The incident while it cannot be opened.
    const UNAVAILABLE: IncidentKey;

    /// What has to be there before it answers: secrets, keys.
    type Ready: Send;

    /// The address that it is configured to listen on; without one it is never opened.
    fn address(&self) -> Option<String>;

    /// Connections at once. A stream keeps its own for as long as it lives, so that a surface with streams has room for all of them and for whoever
    /// asks beside them.
    fn connections(&self) -> usize {
        accept::CONNECTIONS
    }

    /// Makes what has to be there. Asked again half a minute after it failed, before the address is taken.
    ///
    /// # Errors
    /// [`Closed`]: what is missing, and what to do.
    fn ready(&self) -> impl Future<Output = Result<Self::Ready, Closed>> + Send;

    /// Makes what answers at the address `at`, which is taken now, and starts what runs `beside` the requests. Both end with
    /// `stop`. Whoever keeps a journal says here that the surface answers.
    fn router(
        &self,
        ready: Self::Ready,
        at: SocketAddr,
        beside: &mut Tasks,
        stop: &CancellationToken,
    ) -> Router;

    /// Says in the journal that it is not open.
    fn closed(&self, why: &Closed);

    /// Gives back what it alone has, after the last answer.
    fn ended(&self) {}
}

/// Why a surface cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// What is wrong.
    pub what: String,
    /// The command that leads on.
    pub command: &'static str,
    /// What to do.
    pub advice: String,
}

/// What a surface shares with the rest of the daemon.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The clock of the pauses.
    pub clock: Arc<dyn Clock>,
    /// Where a surface that cannot be opened is told of.
    pub incidents: Incidents,
}

/// A running surface. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Listener {
    name: Name,
    stop: CancellationToken,
    listening: watch::Receiver<Option<SocketAddr>>,
    ended: oneshot::Receiver<()>,
}

impl Listener {
    /// Starts the surface's thread, which opens it and keeps at it until `stop`.
    ///
    /// # Errors
    /// No thread or no runtime.
    pub fn start<S: Surface>(surface: S, shared: Shared, stop: &CancellationToken) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (surface, stop) = (Arc::new(surface), stop.child_token());
        let (tell, listening) = watch::channel(None);
        let (last, ended) = oneshot::channel();
        let stopping = stop.clone();
        let keep_open = {
            let stopping = stopping.clone();
            move |_| keep_open(Arc::clone(&surface), shared.clone(), tell.clone(), stopping.clone())
        };
        std::thread::Builder::new().name(S::NAME.short.to_owned()).spawn(move || {
            runtime.block_on(async {
                let task = Task::again(S::NAME.within, keep_open);
                stopping.cancelled().await;
                task.stop(STOP).await;
            });
            // What does not end is not waited for: a resolver's thread may hang.
            runtime.shutdown_background();
            drop(last);
        })?;
        Ok(Self { name: S::NAME, stop, listening, ended })
    }

    /// Resolves with the address once the surface answers there.
    pub async fn listening(&mut self) -> Option<SocketAddr> {
        self.listening.wait_for(Option::is_some).await.ok().and_then(|address| *address)
    }

    /// Ends the surface: open requests are answered, streams end. Never longer than two seconds.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(STOP, &mut self.ended).await.is_err() {
            tracing::warn!("{} did not end in time: its open requests are cut off", self.name);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Keeps the surface open until `stop`.
async fn keep_open<S: Surface>(
    surface: Arc<S>,
    shared: Shared,
    listening: watch::Sender<Option<SocketAddr>>,
    stop: CancellationToken,
) {
    let Some(address) = surface.address() else { return };
    loop {
        match open(&*surface, &address).await {
            Ok((ready, listener, at)) => {
                shared.incidents.resolve(S::UNAVAILABLE);
                let mut beside = Tasks::new();
                let router = surface.router(ready, at, &mut beside, &stop);
                listening.send_replace(Some(at));
                accept::serve(&S::NAME, listener, surface.connections(), router, &stop).await;
                beside.stop(LAST_WORDS).await;
                surface.ended();
                return;
            }
            Err(closed) => {
                surface.closed(&closed);
                let Closed { what, command, advice } = closed;
                let what = format!("{} is not open: {what}. Routing goes on.", S::NAME.at_first);
                shared.incidents.raise(Incident::new(S::UNAVAILABLE, what, &[command]).advising(advice));
            }
        }
        if stop.run_until_cancelled(shared.clock.sleep(AGAIN)).await.is_none() {
            return;
        }
    }
}

async fn open<S: Surface>(surface: &S, address: &str) -> Result<(S::Ready, TcpListener, SocketAddr), Closed> {
    let ready = surface.ready().await?;
    let taken = |error: io::Error| Closed {
        what: format!("it cannot listen on {address} ({error})"),
        command: "sudo ss -ltnp",
        advice: format!(
            "stop what has the address, or change {}.listen and restart; it is tried again every half minute",
            S::NAME.short
        ),
    };
    let listener = TcpListener::bind(address).await.map_err(taken)?;
    let at = listener.local_addr().map_err(taken)?;
    Ok((ready, listener, at))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::routing::get;

    use super::*;
    use crate::ops::clock::SystemClock;

    const KEY: IncidentKey = IncidentKey::of_others("yard");

    /// A surface that has its key, or has not.
    struct Yard {
        has_key: bool,
        said: Arc<Mutex<Vec<String>>>,
    }

    impl Surface for Yard {
        const NAME: Name = Name { within: "the yard", at_first: "The yard", short: "yard" };
        const UNAVAILABLE: IncidentKey = KEY;
        type Ready = &'static str;

        fn address(&self) -> Option<String> {
            Some("127.0.0.1:0".to_owned())
        }

        async fn ready(&self) -> Result<&'static str, Closed> {
            let (what, advice) = ("it has no key".to_owned(), "make one".to_owned());
            if self.has_key { Ok("a key") } else { Err(Closed { what, command: "ls", advice }) }
        }

        fn router(&self, ready: &'static str, _: SocketAddr, _: &mut Tasks, _: &CancellationToken) -> Router {
            Router::new().route("/", get(move || async move { ready }))
        }

        fn closed(&self, why: &Closed) {
            self.said.lock().expect("a lock").push(why.what.clone());
        }

        fn ended(&self) {
            self.said.lock().expect("a lock").push("ended".to_owned());
        }
    }

    async fn stopped(listener: Listener) {
        tokio::time::timeout(STOP, listener.stop()).await.expect("at once");
    }

    #[tokio::test]
    async fn a_surface_answers_or_people_are_told_why_it_does_not() {
        let (incidents, mut open) = Incidents::new();
        let shared = Shared { clock: Arc::new(SystemClock), incidents };
        let (stop, said) = (CancellationToken::new(), Arc::default());
        let yard = |has_key| Yard { has_key, said: Arc::clone(&said) };
        let closed = Listener::start(yard(false), shared.clone(), &stop).expect("a thread");
        let told = open.wait_for(|open| open.contains_key(&KEY)).await.expect("told")[&KEY].clone();
        assert_eq!(told.what, "The yard is not open: it has no key. Routing goes on.");
        stopped(closed).await;
        let mut opened = Listener::start(yard(true), shared, &stop).expect("a thread");
        let at = opened.listening().await.expect("an address");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let answer = client.get(format!("http://{at}/")).send().await.expect("an answer");
        assert_eq!(answer.text().await.expect("a body"), "a key");
        drop(open.wait_for(|open| !open.contains_key(&KEY)).await.expect("over"));
        stopped(opened).await;
        assert_eq!(*said.lock().expect("a lock"), ["it has no key", "ended"]);
        assert!(!stop.is_cancelled(), "its stop is its own");
    }
}
