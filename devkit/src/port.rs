//! Loopback ports for programs that must know theirs before they listen.
//!
//! A merely unused port is picked by two at once, now and then: both have it, and one cannot listen. So each process has a
//! block of ports of its own, by a lock on a file that the kernel drops with it, and gives them out in order.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;

use anyhow::{Context as _, Result};

/// Below the ports that the kernel gives to connecting clients: it would take one of these before a server gets to it.
const FIRST: u16 = 15_000;
/// Ports of a process: more than it has servers at once.
const BLOCK: u16 = 200;
const BLOCKS: u16 = 80;

static OURS: Mutex<Option<Block>> = Mutex::new(None);

struct Block {
    first: u16,
    given: u16,
    _ours: File,
}

impl Block {
    fn find() -> Result<Self> {
        let user = fs::metadata("/proc/self")?.uid();
        let dir = std::env::temp_dir().join(format!("maple-router-ports-{user}"));
        fs::create_dir_all(&dir)?;
        for first in (0..BLOCKS).map(|block| FIRST + block * BLOCK) {
            let path = dir.join(first.to_string());
            let ours = File::options()
                .create(true)
                .append(true)
                .open(&path)
                .with_context(|| format!("opening {}", path.display()))?;
            if ours.try_lock().is_ok() {
                return Ok(Self { first, given: 0, _ours: ours });
            }
        }
        anyhow::bail!("{BLOCKS} processes have ports from {FIRST} on ({})", dir.display())
    }

    /// The next of ours that nobody listens on.
    fn free(&mut self) -> Option<u16> {
        let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let after_its_connection = std::iter::repeat_with(|| {
            self.given = (self.given + 1) % BLOCK;
            self.first + self.given
        });
        after_its_connection.take(BLOCK.into()).find(free)
    }
}

/// Returns a loopback port that has no listener, and that no other caller here is given.
///
/// # Errors
/// None can be had.
pub fn free_port() -> Result<u16> {
    let mut ours = OURS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let block = match &mut *ours {
        Some(block) => block,
        none => none.insert(Block::find()?),
    };
    block.free().with_context(|| format!("none of {BLOCK} loopback ports from {} is free", block.first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_given_what_another_was_given_or_listens_on() {
        let mut block = Block::find().expect("a block");
        let (first, second) = (block.free().expect("a port"), block.free().expect("a port"));
        assert_ne!(first, second, "nobody listens on the first yet");
        let _somebody = TcpListener::bind(("127.0.0.1", second + 1)).expect("listening");
        assert_eq!(block.free(), Some(second + 2));
    }

    #[test]
    fn two_processes_have_two_blocks() {
        let (one, two) = (Block::find().expect("a block"), Block::find().expect("a block"));
        assert!(one.first.abs_diff(two.first) >= BLOCK, "{} {}", one.first, two.first);
    }
}
