//! The policy of publishing: what must be true of a form version beyond the built-in checks, as Rego files of `[forms] policy_dir`.
//!
//! Read in this order: `document` (what is asked about), `reading` and `bundle` (the files), `nesting` and `calls` (what a policy
//! may not do at all), `engine` (compiled and asked), `answer` (what its words mean), `proven` (decisions), `away` (why there is none).
//!
//! **No decision is made by a policy that was not tried**: a [`Bundle`] becomes a [`Policy`], and only a policy that denied the bad
//! canary and an empty document and allowed the good one becomes [`Proven`], which decides. Deny rules alone allow whatever is
//! missing (seen), and such a policy looks healthy until the first bad form. Everything but a clear answer is [`Away`], never a
//! denial, and the caller fails closed: nothing is published, routing goes on. Invariant: pure but for `reading` and the engine's
//! timer; nothing here writes, so whoever dies in the middle has only to ask again.
//!
//! # The contract
//!
//! A policy is package `maple.publish`. It is asked for two rules:
//!
//! | rule | type | meaning |
//! | --- | --- | --- |
//! | `allow` | boolean | undefined or of any other type: the policy is away |
//! | `deny` | set or array of strings, may be undefined | reasons, for the form's owner; one is enough to deny |
//!
//! A version is allowed where `allow` is true **and** `deny` is empty. `input` is one [`Document`]; every key is always there, an
//! absent value is `null`, and `v` changes when a key goes or changes its meaning (new keys may come):
//!
//! ```json
//! {
//!   "v": 1,
//!   "command": "publish",
//!   "form": {"id": "contact", "name": "Contact"},
//!   "version": {"number": 3, "digest": "9f86…", "source": "contact.yaml", "author": "ada"},
//!   "actions": [{
//!     "action_order": 1, "action_type": "email", "template_id": "receipt",
//!     "destinations": [{"address": "Team@example.org", "local": "Team", "domain": "example.org"}],
//!     "happyfox_category": null, "subject_template": null
//!   }],
//!   "actor": "grace",
//!   "templates": [{"id": "receipt", "subject": "…", "body_text": "…", "body_html": "…", "used_by": [1]}],
//!   "assets": [{"name": "logo.png", "content_type": "image/png", "length": 1234, "verdict": "clean"}],
//!   "settings": {},
//!   "samples": [{"name": "usual"}],
//!   "limits": {"allowed_destination_domains": ["example.org"]},
//!   "changes": {"actions": {"added": 0, "removed": 0, "changed": 1}, "templates": ["receipt"]},
//!   "shared_templates": [{"template_id": "receipt", "form_id": "membership"}],
//!   "signatures": [{"signer": "grace@example.org", "key": "SHA256:…"}]
//! }
//! ```
//!
//! A policy has neither clock, chance, network nor files: the engine is built without them, and `calls` refuses what is left. It is
//! trusted as the configuration is; what is guarded against is a slip of whoever writes it, and whatever a form may contain.

pub mod answer;
pub mod away;
pub mod bundle;
mod calls;
pub mod document;
mod engine;
mod nesting;
pub mod proven;
pub mod reading;

use std::path::Path;
use std::time::Duration;

pub use answer::Decision;
pub use away::Away;
pub use bundle::Bundle;
pub use document::Document;
pub use proven::{Canaries, Policy, Proven};

/// Longest time that one question may take. A decision of a usual policy takes less than a millisecond.
pub const LIMIT: Duration = Duration::from_secs(1);

/// The policy of `directory`, tried. Blocks: it reads files and evaluates three documents.
///
/// # Errors
/// [`Away`].
pub fn load(directory: &Path, limit: Duration, canaries: &Canaries) -> Result<Proven, Away> {
    Policy::of(&reading::read(directory)?, limit)?.proven(canaries)
}

#[cfg(test)]
mod tests;
