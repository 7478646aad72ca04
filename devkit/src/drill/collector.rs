//! The collector's identity in the drill: a service account and a role that the daemon has not.

use std::path::Path;

use anyhow::Result;

use crate::google::{GoogleFake, Right};
use crate::uploading::CONTENT;

/// The collector's account.
pub(super) const ACCOUNT: &str = "maple-collector@demo.iam.gserviceaccount.com";

/// Makes the account with its key, and settings by which it and the role behind `url` are found.
///
/// # Errors
/// No key can be made or written.
pub(super) fn settings(google: &GoogleFake, dir: &Path, url: &str) -> Result<String> {
    google.add_account(ACCOUNT)?;
    google.grant(ACCOUNT, CONTENT, &Right::ALL);
    let key = dir.join("gc-key.json");
    google.write_key_file_of(ACCOUNT, &key)?;
    Ok(format!("[retention]\ncollector_url = \"{url}\"\nkey_file = \"{}\"\n", key.display()))
}
