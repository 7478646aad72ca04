//! The demo's part of uploads: two buckets with the daemon's rights and no more, a real clamd, the backend's key, and the sections of
//! a configuration that name them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::clamd::{Clamd, ClamdOptions};
use crate::google::{Bucket, Cors, GoogleFake, Lifecycle, Right};
use crate::port::free_port;

/// Bucket of what is being brought.
const STAGING: &str = "maple-staging";
/// Bucket of files that were proven.
const CONTENT: &str = "maple-content";

/// What makes uploads possible, running.
pub(super) struct Uploads {
    /// Sections of the router's configuration.
    pub(super) settings: String,
    /// Base of the API.
    pub(super) origin: String,
    /// The backend's key.
    pub(super) key: String,
    /// Ends with the value.
    _clamd: Clamd,
}

impl Uploads {
    /// Starts clamd, and makes the rest.
    ///
    /// # Errors
    /// There is no clamd, or no port; says what to do.
    pub(super) async fn open(dir: &Path, google: &GoogleFake) -> Result<Self> {
        let clamd = Clamd::start(ClamdOptions::default()).await?;
        let port = free_port()?;
        let origin = format!("http://127.0.0.1:{port}");
        buckets(google, &origin);
        let (key, file) = (
            format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>()),
            dir.join("uploads-key"),
        );
        fs::write(&file, format!("{key}\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        let settings = format!(
            "[uploads]\nlisten = \"127.0.0.1:{port}\"\norigin = \"{origin}\"\nkey_file = \"{}\"\nbucket = \"{CONTENT}\"\n\
             staging_bucket = \"{STAGING}\"\n{}",
            file.display(),
            clamd.sections()
        );
        Ok(Self { settings, origin, key, _clamd: clamd })
    }
}

/// The buckets as a host's are set up: the daemon writes what was proven once, and cannot remove it.
fn buckets(google: &GoogleFake, origin: &str) {
    let staging = Bucket {
        soft_delete: Duration::ZERO,
        lifecycle: vec![Lifecycle::Delete(2), Lifecycle::AbortUploads(1)],
        cors: vec![Cors::uploads_from(origin)],
        ..Bucket::default()
    };
    google.declare_bucket(STAGING, staging);
    google.declare_bucket(CONTENT, Bucket::default());
    let account = google.service_account_email().to_owned();
    google.grant(&account, STAGING, &[Right::Create, Right::Get, Right::Delete, Right::List]);
    google.grant(&account, CONTENT, &[Right::Create, Right::Get]);
}
