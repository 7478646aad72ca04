//! Line `policy`: whether the policy and the list of signers would be believed if somebody published now.
//!
//! Asks, and changes nothing.

use futures::FutureExt as _;

use super::policies::{Policies as _, PolicyDir, Signing};
use crate::config::Config;
use crate::db::contract::{Check, Look};
use crate::ports::CheckLine;

const NAME: &str = "policy";
/// What to do about the list of signers.
const SIGNERS: &str = "mend forms.allowed_signers (ssh-keygen(1), ALLOWED SIGNERS)";
/// Line `policy`.
pub(super) const POLICY: Check =
    Check { line: NAME, order: 155, look: Look::Outside(|config| async { line(config) }.boxed()) };

fn line(config: &Config) -> CheckLine {
    let directory = config.forms.policy_dir.clone();
    if directory.is_none() {
        return CheckLine::ok(NAME, "none (forms.policy_dir): no version of a form is published");
    }
    let signing = Signing::new(&config.forms);
    match (PolicyDir::new(directory).policy(), signing.people()) {
        (Ok(policy), Ok(people)) => {
            let digest = hex::encode(policy.digest());
            let digest = digest.get(..12).unwrap_or(&digest);
            let signed = people.map(|people| format!("; {} of {people} people sign", signing.required()));
            let signed = signed.unwrap_or_default();
            CheckLine::ok(NAME, format!("{digest}: it denies the bad canary and allows the good one{signed}"))
        }
        (Ok(_), Err(why)) => CheckLine::fail(NAME, format!("nothing can be published: {why}"), SIGNERS),
        (Err(away), _) => CheckLine::fail(NAME, format!("nothing can be published: {away}"), away.remedy()),
    }
}
