//! A flood of the desk: somebody who is logged in and somebody who is not, each over many connections without a pause. It is a
//! process of its own, so that its work is not the relay's.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use reqwest::header::COOKIE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::visit::{self, Visitor};
use crate::program::say;

/// Connections of each of the two.
const CONNECTIONS: usize = 16;

/// A flood that goes on in another process.
pub(super) struct Flood(Child);

impl Flood {
    pub(super) fn start(port: u16, visitor: &Visitor) -> Result<Self> {
        let own = std::env::current_exe()?;
        let mut child = Command::new(own);
        child.args(["--flood", &port.to_string(), "--cookie", &visitor.cookie]);
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        Ok(Self(child.spawn().context("the flood")?))
    }

    /// Ends it, and says what it was answered.
    pub(super) async fn end(mut self) -> Result<String> {
        let mut stdin = self.0.stdin.take().context("its input")?;
        stdin.shutdown().await?;
        drop(stdin);
        let mut said = String::new();
        self.0.stdout.take().context("its output")?.read_to_string(&mut said).await?;
        self.0.wait().await?;
        Ok(said.trim().to_owned())
    }
}

/// Floods until the input ends, and prints how often it was answered.
///
/// # Errors
/// No client can be made.
pub async fn flood(port: u16, cookie: &str) -> Result<()> {
    let (client, origin) = visit::client(port)?;
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    for number in 0..2 * CONNECTIONS {
        let (client, counts, cookie) = (client.clone(), Arc::clone(&counts), cookie.to_owned());
        let url = format!("{origin}/queue");
        tokio::spawn(async move {
            loop {
                let request = client.get(&url).header("accept", "text/html");
                let request = if number % 2 == 0 { request.header(COOKIE, &cookie) } else { request };
                let at = match request.send().await {
                    Ok(answer) if answer.status().is_success() => 0,
                    Ok(_) => 1,
                    Err(_) => 2,
                };
                if let Some(count) = counts.get(at) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let ended =
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
    ended.await??;
    let [pages, refused, lost] = &*counts;
    let all = [pages, refused, lost].map(|count| count.load(Ordering::Relaxed));
    say(&format!("{} pages, {} refused, {} without an answer", all[0], all[1], all[2]));
    Ok(())
}
