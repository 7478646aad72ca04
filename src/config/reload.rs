//! The part of a configuration that can take effect in a running daemon: pure.
//!
//! The result must be valid as a whole, because keys that cannot change stay beside those that can: a rule between
//! two keys of which one has to wait for a restart makes both wait.

use std::collections::BTreeSet;

use super::Config;
use super::validate::{self, Problem};

/// Keys that take effect without a restart: nothing has to be connected anew for them.
pub const LIVE: [&str; 34] = [
    "bounces.keep",
    "desk.users",
    "forms.allowed_signers",
    "forms.policy_dir",
    "forms.require_signatures",
    "happyfox.max_per_minute",
    "log.level",
    "mail.allowed_destination_domains",
    "mail.forms",
    "mail.inline_max_total",
    "mail.inline_types",
    "mail.reply_to_fields",
    "mail.time_zone",
    "routing.due_grace",
    "routing.in_doubt",
    "routing.max_in_flight",
    "routing.orphan_after",
    "routing.republish",
    "routing.stuck_after",
    "routing.sweep",
    "routing.sweep_interval",
    "routing.unready_alert_after",
    "scan.rescan_after",
    "signed_url.ttl",
    "smtp.max_per_minute",
    "uploads.bytes_per_owner",
    "uploads.dedupe",
    "uploads.forms",
    "uploads.max_file",
    "uploads.session_ttl",
    "uploads.sessions_per_owner",
    "uploads.types",
    "uploads.unattached_ttl",
    "uploads.url_ttl",
];

/// Result of a reload.
#[derive(Debug, Clone, PartialEq)]
pub struct Reload {
    /// The configuration in force from now on.
    pub config: Config,
    /// Keys that changed.
    pub applied: BTreeSet<String>,
    /// Keys that are written differently and wait for a restart.
    pub waiting: BTreeSet<String>,
}

/// Lays the live keys of `read` over `running`.
///
/// # Errors
/// Problems that remain until the daemon is restarted.
pub fn merge(running: &Config, read: &Config) -> Result<Reload, Vec<Problem>> {
    let (applied, waiting): (BTreeSet<String>, BTreeSet<String>) =
        validate::differences(running, read).into_iter().partition(|key| LIVE.contains(&key.as_str()));
    let mut merged = serde_json::to_value(running).unwrap_or_default();
    let fresh = serde_json::to_value(read).unwrap_or_default();
    for key in &applied {
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        merged[section][name] = fresh[section][name].clone();
    }
    let mut config: Config =
        serde_json::from_value(merged).unwrap_or_else(|_: serde_json::Error| running.clone());
    // Values of the environment are no keys of ours.
    config.surroundings = running.surroundings.clone();
    let problems = validate::problems(&config);
    if problems.is_empty() { Ok(Reload { config, applied, waiting }) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::InDoubt;
    use crate::config::validate::tests::sound;

    #[test]
    fn what_can_change_changes_and_the_rest_is_named() {
        let running = sound();
        let mut read = running.clone();
        read.routing.in_doubt = InDoubt::Hold;
        read.smtp.max_per_minute = Some(60);
        read.routing.sweep_interval = Duration::from_secs(30);
        read.routing.max_attempts = 6;
        read.mail.from = "other@example.org".to_owned();
        let Reload { config, applied, waiting } = merge(&running, &read).expect("it holds together");
        assert_eq!(applied.len(), 3, "{applied:?}");
        assert_eq!(waiting.into_iter().collect::<Vec<_>>(), ["mail.from", "routing.max_attempts"]);
        let mut expected = running.clone();
        expected.routing.in_doubt = InDoubt::Hold;
        expected.smtp.max_per_minute = Some(60);
        expected.routing.sweep_interval = Duration::from_secs(30);
        assert_eq!(config, expected);
        assert_eq!(merge(&config, &read).expect("again").applied, BTreeSet::new(), "nothing more to apply");
    }

    #[test]
    fn what_only_holds_together_after_a_restart_waits_for_it() {
        let running = sound();
        let mut read = running.clone();
        // Sound by itself; with the fence that runs, a live claim would count as stuck.
        read.routing.fence_after = Duration::from_secs(280);
        read.smtp.dot_timeout = Duration::from_secs(60);
        read.routing.stuck_after = Duration::from_secs(400);
        assert!(validate::problems(&read).is_empty(), "{:?}", validate::problems(&read));
        assert!(merge(&running, &read).is_err());
    }

    #[test]
    fn every_live_key_is_a_key() {
        let every = serde_json::to_value(sound()).expect("JSON");
        for key in LIVE {
            let (section, name) = key.split_once('.').expect("section.key");
            assert!(every[section].get(name).is_some(), "{key}");
        }
    }
}
