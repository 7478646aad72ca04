//! A large object is read piece by piece: what is read is not kept.

use futures::StreamExt as _;
use tokio::process::Command;

use crate::world::{CONTENT, World, name};

const MIB: u64 = 1 << 20;
/// More than a copy of the object would leave room for.
const MOST_MIB: u64 = 32;

/// In a process of its own: other tests have memory, too.
#[tokio::test]
async fn memory_stays_flat_while_200_mib_are_read() {
    let itself = std::env::current_exe().unwrap();
    let arguments = ["--exact", "memory::reads_200_mib", "--ignored", "--nocapture"];
    let ended = Command::new(itself).args(arguments).kill_on_drop(true).output().await.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by memory_stays_flat_while_200_mib_are_read, in a process of its own"]
async fn reads_200_mib() {
    let world = World::new().await;
    let piece = bytes::Bytes::from(crate::world::bytes(1 << 20, 1));
    let body = futures::stream::iter(0..200).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
    let token = world.google.token_of(world.google.service_account_email());
    let address = format!(
        "{}/upload/storage/v1/b/{CONTENT}/o?uploadType=media&name=large",
        world.google.storage_endpoint()
    );
    let written = world.http.post(address).bearer_auth(token).body(reqwest::Body::wrap_stream(body));
    assert_eq!(written.send().await.unwrap().status(), 200);

    let large = name(CONTENT, "large");
    let stat = world.store.stat(&large).await.unwrap().unwrap();
    assert_eq!(stat.length, 200 * MIB);
    let (before, mut most, mut at, mut crc32c) = (resident(), 0, 0, 0);
    let mut reading = world.store.read(&large, stat.generation, 0).await.unwrap();
    while let Some(bytes) = reading.chunk().await.unwrap() {
        crc32c = crc32c::crc32c_append(crc32c, &bytes);
        if at / (4 * MIB) != (at + bytes.len() as u64) / (4 * MIB) {
            most = most.max(resident());
        }
        at += bytes.len() as u64;
    }
    assert_eq!((at, crc32c), (stat.length, stat.crc32c));
    let grown = most.saturating_sub(before) / 1024;
    println!("grown by {grown} MiB");
    assert!(grown < MOST_MIB, "{before} KiB before, {most} KiB at most");
}

/// `RssAnon` of proc(5), in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse().unwrap()
}
