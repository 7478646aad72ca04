//! What uploads need beside a stage: the two buckets as rb-011 sets them up, with the daemon's rights and no more, Debian's clamd, and
//! the backend's key. Its `settings` are laid over a stage's configuration.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::Result;

use crate::clamd::{Clamd, ClamdOptions};
use crate::google::{Bucket, Cors, GoogleFake, Lifecycle, Right};
use crate::port::free_port;
use crate::stage::Stage;

/// Bucket of what is being brought.
pub const STAGING: &str = "maple-staging";
/// Bucket of what was proven.
pub const CONTENT: &str = "maple-content";
/// Rights that the daemon needs in [`STAGING`].
pub const OF_STAGING: [Right; 5] = [Right::Create, Right::Get, Right::Delete, Right::List, Right::Inspect];
/// Rights that the daemon needs in [`CONTENT`].
pub const OF_CONTENT: [Right; 3] = [Right::Create, Right::Get, Right::Inspect];

/// The parts, running.
#[derive(Debug)]
pub struct Uploading {
    /// The scanner.
    pub clamd: Clamd,
    /// Port of the API.
    pub port: u16,
    /// Sections of the configuration.
    pub settings: String,
}

impl Uploading {
    /// Starts what a stage lacks, and sets the buckets up in its store.
    ///
    /// # Errors
    /// clamd does not start, or the key cannot be written.
    pub async fn beside(stage: &Stage) -> Result<Self> {
        let (clamd, port) = (Clamd::start(ClamdOptions::default()).await?, free_port()?);
        let origin = format!("http://127.0.0.1:{port}");
        declare(&stage.google, &origin);
        grant(&stage.google);
        let key = stage.dir().join("uploads-key");
        fs::write(&key, "0123456789abcdef0123456789abcdef\n")?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let settings = format!(
            "[scan]\nsocket = \"{}\"\n[uploads]\nlisten = \"127.0.0.1:{port}\"\norigin = \"{origin}\"\nkey_file = \"{}\"\n\
             bucket = \"{CONTENT}\"\nstaging_bucket = \"{STAGING}\"\n",
            clamd.socket().display(),
            key.display()
        );
        Ok(Self { clamd, port, settings })
    }
}

/// Declares both buckets, open to pages of `origin`.
pub fn declare(google: &GoogleFake, origin: &str) {
    let lifecycle = vec![Lifecycle::Delete(2), Lifecycle::AbortUploads(1)];
    let cors = vec![Cors::uploads_from(origin)];
    google.declare_bucket(
        STAGING,
        Bucket { soft_delete: Duration::ZERO, lifecycle, cors, ..Bucket::default() },
    );
    google.declare_bucket(CONTENT, Bucket::default());
}

/// Gives the metadata server's account what it needs, and no more.
pub fn grant(google: &GoogleFake) {
    let account = google.service_account_email().to_owned();
    google.grant(&account, STAGING, &OF_STAGING);
    google.grant(&account, CONTENT, &OF_CONTENT);
}
