//! The policy by which forms are published in the drill: the shipped one.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// The policy that is shipped.
pub(super) const POLICY: &str = include_str!("../../../contrib/policy/publish.rego");
/// The directory of the policy, in the stage's own.
const DIR: &str = "policy";
/// Settings by which the policy is found, which is written beside.
///
/// # Errors
/// A file cannot be written.
pub(super) fn settings(dir: &Path, publisher: &str) -> Result<String> {
    fs::create_dir_all(dir.join(DIR))?;
    write(dir, POLICY)?;
    let policy = dir.join(DIR);
    Ok(format!("[forms]\npolicy_dir = \"{}\"\npublisher_url = \"{publisher}\"\n", policy.display()))
}

/// Writes the policy's file.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(dir: &Path, text: &str) -> Result<()> {
    Ok(fs::write(dir.join(DIR).join("publish.rego"), text)?)
}
