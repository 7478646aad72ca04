//! A host, a fetcher with small bounds, and the looks at what is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use devkit::git_host::GitHost;
use maple_router::gateway::git::{Git, GitError, GitSettings, Limits, Snapshot, Source, Trust};
use tempfile::TempDir;

/// Bounds that a test passes soon; but for time, which others may take from it.
pub(crate) fn limits() -> Limits {
    Limits {
        wall: Duration::from_secs(60),
        cpu: 10,
        packs: 4 << 20,
        refs: 20_000,
        files: 200,
        file: 64 << 10,
        total: 1 << 20,
        ..Limits::default()
    }
}

/// A host with a client.
pub(crate) struct World {
    pub(crate) host: GitHost,
    pub(crate) work: TempDir,
    programs: TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        let host = GitHost::start().await.expect("a host");
        let dir = || tempfile::tempdir().expect("a directory");
        Self { host, work: dir(), programs: dir() }
    }

    /// A program in git's place.
    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.programs.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        path
    }

    /// Settings for this host alone, over plain HTTP and over TLS.
    pub(crate) fn settings(&self) -> GitSettings {
        let authorities = [self.host.http_authority(), self.host.https_authority()];
        let trusted = authorities.clone().map(|host| Trust { host, owners: vec!["Anthropics".to_owned()] });
        GitSettings {
            hosts: authorities.to_vec(),
            trusted: trusted.to_vec(),
            allow_insecure_hosts: true,
            ca_file: Some(self.host.ca_file()),
            limits: limits(),
            ..GitSettings::new(self.work.path().to_owned())
        }
    }

    pub(crate) fn git(&self) -> Git {
        Git::new(self.settings())
    }

    pub(crate) fn source(&self, name: &str) -> Source {
        Source::parse(&self.host.http_url(name), None, None).expect("a source")
    }

    /// Fetches with the usual settings, and looks at what is left.
    pub(crate) async fn fetch(&self, name: &str) -> Result<Snapshot, GitError> {
        self.fetch_with(&self.git(), &self.source(name)).await
    }

    pub(crate) async fn fetch_with(&self, git: &Git, source: &Source) -> Result<Snapshot, GitError> {
        let fetched = git.fetch(source).await;
        self.assert_clean().await;
        fetched
    }

    /// Fails where a directory or a process of a fetch is left. Killed processes may take a moment.
    pub(crate) async fn assert_clean(&self) {
        assert_eq!(files(self.work.path()), Vec::<PathBuf>::new(), "files are left");
        let mut left = Vec::new();
        for _ in 0..100 {
            left = processes(self.work.path());
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("processes are left: {left:?}");
    }
}

/// Label of an end, and `ok` of a good one.
pub(crate) fn label(fetched: &Result<Snapshot, GitError>) -> &'static str {
    match fetched {
        Ok(_) => "ok",
        Err(error) => error.label(),
    }
}

/// Fails with the whole table where a row differs.
pub(crate) fn assert_table(rows: &[(String, String, String)]) {
    let show = |(name, expected, seen): &(String, String, String)| {
        let mark = if expected == seen { ' ' } else { '!' };
        format!("{mark} {name:32} {expected:24} {seen}")
    };
    let table: Vec<String> = rows.iter().map(show).collect();
    let held = rows.iter().all(|(_, expected, seen)| expected == seen);
    assert!(held, "\n  {:32} {:24} seen\n{}\n", "hostile", "expected", table.join("\n"));
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect()
}

/// Processes of fetches below this directory, which is their home: number and name.
pub(crate) fn processes(work: &Path) -> Vec<(u32, String)> {
    let Ok(work) = work.canonicalize() else { return Vec::new() };
    let home = format!("HOME={}/", work.display());
    let of = |pid: u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let ours = environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(home.as_bytes()));
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        ours.then(|| (pid, name.trim().to_owned()))
    };
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    pids.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?)).collect()
}
