//! Line `collector`: whether the collector's account may do in the content bucket what a run asks, where this host has that account.
//!
//! Asks, and changes nothing.

use std::time::Duration;

use futures::FutureExt as _;

use crate::config::{Config, SignedUrl, SignerKind};
use crate::db::contract::{Check, Look};
use crate::gateway::objects::store::{ObjectStore, Patience, Permission};
use crate::ports::CheckLine;

const NAME: &str = "collector";
const REMEDY: &str = "rb-013-gc-and-erasure.md, \"The collector's identity\", has the commands";
/// Limits of the store's answers, shorter than a run's: a person waits at the terminal.
const CONNECT: Duration = Duration::from_secs(3);
const CALL: Duration = Duration::from_secs(6);
/// Permissions that a run, a recall and a reconciliation need.
const NEEDED: [Permission; 4] = [Permission::Get, Permission::List, Permission::Delete, Permission::Create];
/// Line `collector`.
pub(super) const COLLECTOR: Check =
    Check { line: NAME, order: 156, look: Look::Outside(|config| line(config).boxed()) };

/// How the collector signs on to the store: by its key where it has one, else as the host's own account.
#[must_use]
pub fn account(config: &Config) -> SignedUrl {
    let own = config.signed_url.clone();
    match config.collector_key_file() {
        Some(key) => SignedUrl { signer: SignerKind::KeyFile, key_file: Some(key), ..own },
        None => own,
    }
}

async fn line(config: &Config) -> CheckLine {
    if config.collector_key_file().is_none() {
        return CheckLine::ok(NAME, "not on this host, or known to its own unit alone (retention.key_file)");
    }
    let bucket = &config.uploads.bucket;
    if bucket.is_empty() {
        return CheckLine::ok(
            NAME,
            "not tried: uploads.bucket is not set, what backends store is theirs to grant",
        );
    }
    let patience = Patience { connect: CONNECT, call: CALL, ..Patience::default() };
    let host = config.surroundings.metadata_host.as_deref();
    let store = match ObjectStore::with_patience(&account(config), host, patience) {
        Ok(store) => store,
        Err(error) => return CheckLine::fail(NAME, error.detail(), error.remedy()),
    };
    match store.permissions(bucket, &Permission::ALL).await {
        Ok(held) => {
            let lacks: Vec<String> =
                NEEDED.iter().filter(|needed| !held.contains(needed)).map(ToString::to_string).collect();
            if lacks.is_empty() {
                return CheckLine::ok(NAME, format!("{bucket}: its account may list, copy and delete"));
            }
            CheckLine::fail(NAME, format!("{bucket}: its account lacks {}", lacks.join(", ")), REMEDY)
        }
        Err(error) => CheckLine::fail(NAME, format!("{bucket}: {error}"), REMEDY),
    }
}
