//! The collector's identity for the demo and the drill: a service account and a role that the daemon has not.

use std::path::Path;

use anyhow::Result;

use crate::google::{GoogleFake, Right};

/// The collector's account.
pub(crate) const ACCOUNT: &str = "maple-collector@demo.iam.gserviceaccount.com";

/// Makes the account with its key and its rights in `buckets`, and settings by which it and the role behind `url` are found.
///
/// # Errors
/// No key can be made or written.
pub(crate) fn settings(google: &GoogleFake, dir: &Path, url: &str, buckets: &[&str]) -> Result<String> {
    google.add_account(ACCOUNT)?;
    for bucket in buckets {
        google.grant(ACCOUNT, bucket, &Right::ALL);
    }
    let key = dir.join("gc-key.json");
    google.write_key_file_of(ACCOUNT, &key)?;
    Ok(format!("[retention]\ncollector_url = \"{url}\"\nkey_file = \"{}\"\n", key.display()))
}
