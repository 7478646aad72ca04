//! Start of the relay log's reading on this host: acceptances before it have no reports, and none is missed.
//!
//! Reads one file of the state directory. An unreadable file gives an unknown start.

use jiff::Timestamp;
use serde::Deserialize;

use crate::config::Config;
use crate::ops::state_dir::StateDir;

/// File of the follower's state; the rest of it is not ours.
pub const FILE: &str = "relay_log.json";
/// Largest part of the file that is read, in octets.
const MOST: u64 = 64 << 20;

/// Whether the status of mails after the relay's acceptance is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// `[relay_log] enabled` is false.
    No,
    /// Mails accepted from this instant on are followed.
    Since(Timestamp),
    /// Unknown, for this reason.
    Unknown(String),
}

#[derive(Deserialize)]
struct Kept {
    since: Option<Timestamp>,
}

impl Followed {
    /// Reads the configuration and the state directory of this host.
    pub async fn of(config: &Config) -> Self {
        if !config.relay_log.enabled {
            return Self::No;
        }
        let dir = StateDir::new(&config.state.dir);
        let path = dir.path().join(FILE);
        match dir.read(FILE, MOST).await {
            Ok(Some(content)) => match serde_json::from_slice::<Kept>(&content) {
                Ok(Kept { since: Some(since) }) => Self::Since(since),
                Ok(Kept { since: None }) | Err(_) => {
                    Self::Unknown(format!("{} does not say since when", path.display()))
                }
            },
            Ok(None) => Self::Unknown("no daemon of this host has followed it yet".to_owned()),
            Err(error) => Self::Unknown(format!("{} cannot be read: {error}", path.display())),
        }
    }

    /// Whether a mail accepted at this time would have been reported.
    #[must_use]
    pub fn covers(&self, accepted: Timestamp) -> bool {
        match self {
            Self::Since(since) => accepted >= *since,
            Self::No | Self::Unknown(_) => false,
        }
    }
}
