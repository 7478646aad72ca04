//! The policy by which forms are published in the drill: the shipped one.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// The policy that is shipped.
pub(super) const POLICY: &str = include_str!("../../../contrib/policy/publish.rego");
/// The directory of the policy, in the stage's own.
pub(super) const DIR: &str = "policy";
/// Settings by which the policy is found, which is written beside.
///
/// # Errors
/// A file cannot be written.
pub(super) fn settings(dir: &Path, publisher: &str) -> Result<String> {
    let policy = dir.join(DIR);
    fs::create_dir_all(&policy)?;
    fs::write(policy.join("publish.rego"), POLICY)?;
    Ok(format!("[forms]\npolicy_dir = \"{}\"\npublisher_url = \"{publisher}\"\n", policy.display()))
}
