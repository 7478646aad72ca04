//! Line `policy`: whether the policy would be believed if somebody published now.
//!
//! Asks, and changes nothing.

use futures::FutureExt as _;

use super::commands::Policies as _;
use super::policies::PolicyDir;
use crate::config::Config;
use crate::db::contract::{Check, Look};
use crate::ports::CheckLine;

const NAME: &str = "policy";
/// Line `policy`.
pub(super) const POLICY: Check =
    Check { line: NAME, order: 155, look: Look::Outside(|config| async { line(config) }.boxed()) };

fn line(config: &Config) -> CheckLine {
    let directory = config.forms.policy_dir.clone();
    if directory.is_none() {
        return CheckLine::ok(NAME, "none (forms.policy_dir): no version of a form is published");
    }
    match PolicyDir::new(directory).policy() {
        Ok(policy) => {
            let digest = hex::encode(policy.digest());
            let digest = digest.get(..12).unwrap_or(&digest);
            CheckLine::ok(NAME, format!("{digest}: it denies the bad canary and allows the good one"))
        }
        Err(away) => CheckLine::fail(NAME, format!("nothing can be published: {away}"), away.remedy()),
    }
}
