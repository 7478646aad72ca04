//! A service manager's end: the socket a daemon notifies, and what came over it, in its order.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use devkit::stage::{Router, Stage, StageOptions};

/// Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

pub(crate) async fn stage() -> Stage {
    Stage::start(StageOptions::default()).await.expect("a stage")
}

/// Receives what one daemon says.
pub(crate) struct Systemd {
    socket: std::path::PathBuf,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Systemd {
    pub(crate) fn on(stage: &Stage) -> Self {
        let socket = stage.dir().join("notify");
        let receiver = UnixDatagram::bind(&socket).expect("a socket");
        let messages = Arc::new(Mutex::new(Vec::new()));
        let inbox = Arc::clone(&messages);
        // Ends with the test's process.
        std::thread::spawn(move || {
            let mut buffer = vec![0; 8192];
            while let Ok(length) = receiver.recv(&mut buffer) {
                let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
                inbox.lock().unwrap_or_else(PoisonError::into_inner).push(said);
            }
        });
        Self { socket, messages }
    }

    /// Environment of a unit's process.
    pub(crate) fn variables(&self, watchdog: Option<Duration>) -> Vec<(&'static str, String)> {
        let mut variables = vec![("NOTIFY_SOCKET", self.socket.display().to_string())];
        variables.extend(watchdog.map(|limit| ("WATCHDOG_USEC", limit.as_micros().to_string())));
        variables
    }

    /// Every message received, in order.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of messages so far.
    pub(crate) fn count(&self) -> usize {
        self.messages().len()
    }

    /// Number of times the router reported itself alive.
    pub(crate) fn alive(&self) -> usize {
        self.messages().iter().filter(|said| has(said, "WATCHDOG=1")).count()
    }

    /// Waits for a message with a line that starts so, from message `from` on; returns its index.
    pub(crate) async fn receives(&self, from: usize, line: &str, router: &Router) -> usize {
        for _ in 0..PATIENCE.as_millis() / 20 {
            if let Some(place) = self.messages().iter().skip(from).position(|said| has(said, line)) {
                return from + place;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{line:?} was not received from message {from} on: {:#?}\n{}", self.messages(), router.log());
    }
}

/// Whether a message has a line that starts so.
pub(crate) fn has(said: &str, line: &str) -> bool {
    said.lines().any(|other| other.starts_with(line))
}

/// Waits until the router's log says so.
pub(crate) async fn logged(router: &Router, words: &str) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        if router.log().contains(words) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{words:?} is not in the log:\n{}", router.log());
}
