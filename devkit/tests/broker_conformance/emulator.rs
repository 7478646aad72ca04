//! Google's emulator as a child process. It dies with its handle; a test that is killed leaves it to the system.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Names a command that takes a port and runs the emulator on it in the foreground.
pub(crate) const VARIABLE: &str = "MAPLE_PUBSUB_EMULATOR";
/// The Google Cloud CLI's path for it.
const INSTALLED: &str = "/usr/lib/google-cloud-sdk/platform/pubsub-emulator";

/// A running emulator.
pub(crate) struct Emulator {
    endpoint: String,
    /// Killed on drop.
    _process: Child,
}

impl Emulator {
    /// `None` only where the machine has none; an emulator that is here and does not start is an error.
    pub(crate) async fn start_if_here() -> Result<Option<Self>> {
        let command = match env::var_os(VARIABLE) {
            Some(command) => PathBuf::from(command),
            None if Path::new(INSTALLED).exists() => {
                Path::new(env!("CARGO_MANIFEST_DIR")).join("emulator/run")
            }
            None => return Ok(None),
        };
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let mut process = Command::new(&command)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", command.display()))?;
        for _ in 0..300 {
            if let Some(status) = process.try_wait()? {
                bail!(
                    "`{} {port}` ended with {status} instead of serving; run it by hand to see why",
                    command.display()
                );
            }
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Ok(Some(Self { endpoint: format!("http://127.0.0.1:{port}"), _process: process }));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{} did not open port {port} within 30 s", command.display())
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }
}
