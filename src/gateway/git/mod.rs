//! Repositories: one snapshot, pinned, through git as a child process.
//!
//! [`Git::fetch`] asks the host which references it names, clones the one that is meant (bare, one commit deep), and reads tree and
//! files from the objects. The commit is always one that the host names in that moment: HEAD, a branch or a tag; an object's id is
//! never asked for. Nothing is checked out: no hook, filter, attribute, submodule or LFS file takes part. Every process has its
//! bounds by prlimit(1), all have one wall clock, and what passes a bound is refused. `classify` alone says what an end of git
//! means.
//!
//! Nothing is kept and nothing repeated: if we die in the middle there is no snapshot, git ends when its pipes or its host do, and a
//! directory is left that [`Git::clear`] removes at the next start. Dropping a fetch kills its processes and removes its directory.
//! No address, name or word of a host or of a repository is in an error, a log or `Debug`.

mod classify;
mod fault;
mod limits;
mod reading;
mod reference;
mod run;
mod snapshot;
mod source;
mod tree;
mod work_dir;

use std::io;
use std::path::PathBuf;
use std::pin::pin;

use tokio::time::sleep;
use url::Url;

pub use fault::{GitError, NetworkFault, OurFault, SourceFault, UrlFault};
pub use limits::Limits;
pub use snapshot::{Content, Entry, Mode, Snapshot};
pub use source::{Owner, Source, TRUSTED_ORGANISATIONS, Trust, owner};

use classify::Step;
use reading::{Objects, Part, record};
use reference::{Advertised, Asked, Found};
use run::Run;
use source::Place;
use tree::{LONGEST_HEAD, Listing, Record};
use work_dir::WorkDir;

/// Longest line of a host's references.
const LONGEST_LINE: usize = 4 << 10;

/// `[screening.git]`, with everything resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSettings {
    /// Hosts that are fetched from, in lower case; of loopback with its port.
    pub hosts: Vec<String>,
    /// Owners that are trusted.
    pub trusted: Vec<Trust>,
    /// For tests: hosts on loopback may have a port and speak http.
    pub allow_insecure_hosts: bool,
    /// Certificates of authorities in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// Directory for what is fetched, of this process alone.
    pub work_dir: PathBuf,
    /// Program git.
    pub git: PathBuf,
    /// Program prlimit, of util-linux.
    pub prlimit: PathBuf,
    /// Bounds of a fetch.
    pub limits: Limits,
}

impl GitSettings {
    /// Settings for github.com and its trusted organisations.
    #[must_use]
    pub fn new(work_dir: PathBuf) -> Self {
        let trust = Trust::default();
        Self {
            hosts: vec![trust.host.clone()],
            trusted: vec![trust],
            allow_insecure_hosts: false,
            ca_file: None,
            work_dir,
            git: PathBuf::from("/usr/bin/git"),
            prlimit: PathBuf::from("/usr/bin/prlimit"),
            limits: Limits::default(),
        }
    }
}

/// What fetches. Cheap to share; connects to nothing before it is asked.
#[derive(Debug, Clone)]
pub struct Git {
    settings: GitSettings,
}

impl Git {
    /// A fetcher with these settings.
    #[must_use]
    pub fn new(settings: GitSettings) -> Self {
        Self { settings }
    }

    /// Removes directories that an earlier process left when it was killed; their number.
    ///
    /// # Errors
    /// One of them cannot be removed, or the directory not be read.
    pub fn clear(&self) -> io::Result<usize> {
        work_dir::clear(&self.settings.work_dir)
    }

    /// Returns whether a repository is a trusted owner's, by its address alone. It says where code lies, not who submits it; it is
    /// worth something only of an address that was then fetched.
    #[must_use]
    pub fn trusts(&self, url: &Url) -> bool {
        self.place(url).is_ok_and(|place| self.settings.trusted.iter().any(|trust| trust.holds(&place.owner)))
    }

    /// Fetches a snapshot.
    ///
    /// # Errors
    /// [`GitError`]; there is nothing left of the attempt.
    pub async fn fetch(&self, source: &Source) -> Result<Snapshot, GitError> {
        let place = self.place(&source.url)?;
        let asked = Asked::read(source.reference.as_deref())?;
        let path = source.path.as_deref().map(source::path).transpose().map_err(SourceFault::from)?;
        let dir = WorkDir::make(&self.settings.work_dir)?;
        let fetch = Fetch { settings: &self.settings, dir: &dir, place: &place, asked: &asked };
        let mut over = pin!(sleep(self.settings.limits.wall));
        let (objects, found) = tokio::select! {
            pinned = fetch.pin() => pinned?,
            () = &mut over => return Err(GitError::Network(NetworkFault::Silent)),
        };
        // No host takes part any more: what takes long now is large.
        tokio::select! {
            snapshot = fetch.read(objects, found, path) => snapshot,
            () = &mut over => Err(SourceFault::TooLarge.into()),
        }
    }

    /// The repository at an address that is read, on a host of the list.
    fn place(&self, url: &Url) -> Result<Place, SourceFault> {
        let place = Place::of(url, self.settings.allow_insecure_hosts)?;
        let listed = self.settings.hosts.iter().any(|host| host.eq_ignore_ascii_case(&place.owner.host));
        if listed { Ok(place) } else { Err(SourceFault::Host) }
    }
}

/// One fetch.
#[derive(Clone, Copy)]
struct Fetch<'a> {
    settings: &'a GitSettings,
    dir: &'a WorkDir,
    place: &'a Place,
    asked: &'a Asked,
}

impl Fetch<'_> {
    /// Fetches the commit that the host names; the objects, and the name.
    async fn pin(&self) -> Result<(Objects, Found), GitError> {
        let before = self.advertised().await?;
        self.clone_one().await?;
        let mut objects = Objects::open(self.settings, self.dir)?;
        let commit = objects.commit().await?;
        if commit == before.commit {
            return Ok((objects, before));
        }
        // It moved in between, or the host gave something else than it names.
        let after = self.advertised().await?;
        if commit == after.commit {
            Ok((objects, after))
        } else {
            Err(GitError::Network(NetworkFault::Moved))
        }
    }

    /// What the host names now for the reference that is meant.
    async fn advertised(&self) -> Result<Found, GitError> {
        let mut args = vec!["ls-remote", "--symref"];
        if *self.asked != Asked::Head {
            args.extend(["--heads", "--tags"]);
        }
        args.extend(["--", &self.place.url]);
        let mut run = Run::start(self.settings, self.dir, Step::Fetch, args)?;
        let (mut advertised, mut line, mut refs) = (Advertised::new(self.asked), Vec::new(), 0);
        loop {
            match record(&mut run.stdout, b'\n', LONGEST_LINE, &mut line).await {
                Part::Record => advertised.line(&line)?,
                Part::End => break,
                Part::TooLong => return Err(SourceFault::Malformed.into()),
            }
            refs += 1;
            if refs > self.settings.limits.refs {
                return Err(SourceFault::TooLarge.into());
            }
        }
        run.finish().await?;
        Ok(advertised.find()?)
    }

    async fn clone_one(&self) -> Result<(), GitError> {
        let mut args =
            vec!["clone", "--quiet", "--bare", "--depth=1", "--no-tags", "--single-branch", "--template="];
        let branch = self.asked.name().map(|name| format!("--branch={name}"));
        args.extend(branch.as_deref());
        args.extend(["--", &self.place.url, "repository"]);
        let run = Run::start(self.settings, self.dir, Step::Fetch, args)?;
        tokio::select! {
            ended = run.finish() => ended,
            () = self.dir.outgrown(self.settings.limits.packs) => Err(SourceFault::TooLarge.into()),
        }
    }

    /// Reads tree and files.
    async fn read(
        &self,
        mut objects: Objects,
        found: Found,
        path: Option<&str>,
    ) -> Result<Snapshot, GitError> {
        let limits = &self.settings.limits;
        let records = self.list(&found.commit, path).await?;
        if records.is_empty() {
            return Err(SourceFault::Missing.into());
        }
        let mut files = Vec::with_capacity(records.len());
        for record in records {
            files.push(objects.entry(record, limits).await?);
        }
        objects.close().await?;
        Ok(Snapshot::new(found.commit, found.reference, files))
    }

    async fn list(&self, commit: &str, path: Option<&str>) -> Result<Vec<Record>, GitError> {
        let mut args = vec!["--git-dir=repository", "ls-tree", "-r", "-z", "-l", "--full-tree", commit];
        if let Some(path) = path {
            args.extend(["--", path]);
        }
        let mut run = Run::start(self.settings, self.dir, Step::Read, args)?;
        let limits = &self.settings.limits;
        let (mut listing, mut bytes) = (Listing::new(limits), Vec::new());
        loop {
            match record(&mut run.stdout, 0, limits.path + LONGEST_HEAD, &mut bytes).await {
                Part::Record => listing.take(&bytes)?,
                Part::End => break,
                Part::TooLong => return Err(SourceFault::TooLarge.into()),
            }
        }
        run.finish().await?;
        Ok(listing.finish()?)
    }
}
