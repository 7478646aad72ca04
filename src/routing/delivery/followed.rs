//! Since when the relay's log is followed on this host: what was accepted before was never heard of, and is not missed.
//!
//! Reads one file of the state directory. What cannot be read is told as not known.

use jiff::Timestamp;
use serde::Deserialize;

use crate::config::Config;
use crate::ops::state_dir::StateDir;

/// What the follower keeps about itself; the rest of it is not ours.
pub const FILE: &str = "relay_log.json";
/// No more of it is read.
const MOST: u64 = 64 << 20;

/// Whether what becomes of mails beyond the relay is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// `[relay_log] enabled` is false.
    No,
    /// Mails accepted since then are followed.
    Since(Timestamp),
    /// It is not known; says why.
    Unknown(String),
}

#[derive(Deserialize)]
struct Kept {
    since: Option<Timestamp>,
}

impl Followed {
    /// As the configuration and the state directory of this host say.
    pub async fn of(config: &Config) -> Self {
        if !config.relay_log.enabled {
            return Self::No;
        }
        let dir = StateDir::new(&config.state.dir);
        let place = dir.path().join(FILE);
        match dir.read(FILE, MOST).await {
            Ok(Some(content)) => match serde_json::from_slice::<Kept>(&content) {
                Ok(Kept { since: Some(since) }) => Self::Since(since),
                Ok(Kept { since: None }) | Err(_) => {
                    Self::Unknown(format!("{} does not say since when", place.display()))
                }
            },
            Ok(None) => Self::Unknown("no daemon of this host has followed it yet".to_owned()),
            Err(error) => Self::Unknown(format!("{} cannot be read: {error}", place.display())),
        }
    }

    /// Whether a mail accepted at this time would have been heard of.
    #[must_use]
    pub fn covers(&self, accepted: Timestamp) -> bool {
        match self {
            Self::Since(since) => accepted >= *since,
            Self::No | Self::Unknown(_) => false,
        }
    }
}
