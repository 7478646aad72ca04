//! `[forms]`: versions of forms, and the policy they are published by.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::s;

section! {
    /// `[forms]`: versions of forms; without a policy nothing is published.
    Forms {
        /// Directory of the policy, files `*.rego`.
        policy_dir: Option<PathBuf> = None,
        /// People whose signatures a version has to have before it is published, promoted or restored.
        require_signatures: u32 = 0,
        /// The list of those who may sign, as `ssh-keygen -Y verify` reads it.
        allowed_signers: Option<PathBuf> = None,
        /// Connection string of the publisher's role, `forms_loader`, for the verbs `forms`; `MAPLE_ROUTER_PUBLISHER_URL` instead
        /// where it has a password.
        publisher_url: Option<String> = None,
        /// Time for which a version that was taken out of use can be restored.
        #[serde(with = "humantime_serde")] keep: Duration = s(90 * 86_400),
    }
}
