//! The policy by which the demo's forms are published: the shipped one, and a rule of the demo's own beside it.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// The policy that is shipped.
const POLICY: &str = include_str!("../../../contrib/policy/publish.rego");
/// A rule of the demo's own.
const OURS: &str = "package maple.publish\n\nimport rego.v1\n\ndeny contains message if {\n\tcomplete\n\tsome action in input.actions\n\t\
                    some destination in action.destinations\n\tdestination.domain != \"example.org\"\n\tmessage := sprintf(\"Action %v writes to \
                    %s, and our mail stays within example.org.\", [action.action_order, destination.domain])\n}\n";

/// Writes the policy, and returns the settings by which it is found.
///
/// # Errors
/// A file cannot be written.
pub(super) fn settings(dir: &Path, publisher: &str) -> Result<String> {
    let policy = dir.join("policy");
    fs::create_dir_all(&policy)?;
    fs::write(policy.join("publish.rego"), POLICY)?;
    fs::write(policy.join("ours.rego"), OURS)?;
    Ok(format!("[forms]\npolicy_dir = \"{}\"\npublisher_url = \"{publisher}\"\n", policy.display()))
}
