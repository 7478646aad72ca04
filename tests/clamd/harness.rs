//! Clients of a clamd, real or scripted, and content to send.

use std::process::Command;
use std::time::Duration;

use devkit::clamd::{Clamd, ClamdOptions};
use maple_router::config::ScanSocket;
use maple_router::gateway::clamd::{Clamd as Client, ClamdSettings, Verdict};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tempfile::TempDir;

/// Longer than anything takes here, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const EICAR_FOUND: &str = "Maple.Eicar.Test.UNOFFICIAL";
pub(crate) const MARKER_FOUND: &str = "Maple.Marker.Test.UNOFFICIAL";

pub(crate) async fn real() -> Clamd {
    real_with(ClamdOptions::default()).await
}

pub(crate) async fn real_with(options: ClamdOptions) -> Clamd {
    Clamd::start(options).await.expect("clamd")
}

pub(crate) fn client(clamd: &Clamd) -> Client {
    client_of(ScanSocket::Unix(clamd.socket()), PATIENCE)
}

/// A client whose every wait ends after this long.
pub(crate) fn client_of(socket: ScanSocket, patience: Duration) -> Client {
    Client::new(ClamdSettings {
        socket,
        connect_timeout: patience,
        write_timeout: patience,
        timeout: patience,
    })
}

/// Sends it in chunks of this length.
pub(crate) async fn scan_by(client: &Client, content: &[u8], length: usize) -> Verdict {
    let mut scan = client.begin(content.len() as u64).await;
    for piece in content.chunks(length) {
        scan.write(piece).await;
    }
    scan.finish().await
}

pub(crate) async fn scan(client: &Client, content: &[u8]) -> Verdict {
    scan_by(client, content, 64 * 1024).await
}

pub(crate) fn infected(signature: &str) -> Verdict {
    Verdict::Infected { signature: signature.to_owned() }
}

/// Bytes without meaning, the same in every run.
pub(crate) fn random(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(7).fill(&mut bytes[..]);
    bytes
}

/// Runs a program in Python in a directory of its own; gives the file `out` that it leaves there.
pub(crate) fn made_by_python(program: &str, input: &[u8]) -> Vec<u8> {
    let dir = TempDir::new().expect("a directory");
    std::fs::write(dir.path().join("in"), input).expect("written");
    let ran = Command::new("python3").args(["-c", program]).current_dir(dir.path()).output();
    let ran = ran.expect("python3");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::fs::read(dir.path().join("out")).expect("what it made")
}
