//! A bare repository, filled by git's plumbing: also with what git's porcelain refuses to make.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail};

/// Debian's own git.
pub const GIT: &str = "/usr/bin/git";

/// A bare repository on this host.
#[derive(Debug, Clone)]
pub struct Repository {
    dir: PathBuf,
}

impl Repository {
    pub(super) fn make(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let repository = Self::at(dir);
        repository.git(&["init", "--quiet", "--bare", "--initial-branch=main", "."], b"")?;
        Ok(repository)
    }

    pub(super) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs git here: its standard output.
    ///
    /// # Errors
    /// git cannot be started, or fails.
    pub fn git(&self, args: &[&str], input: &[u8]) -> Result<String> {
        let output = self.run(args, |mut stdin| stdin.write_all(input))?;
        Ok(String::from_utf8(output)?.trim_end().to_owned())
    }

    fn run(
        &self,
        args: &[&str],
        write: impl FnOnce(std::process::ChildStdin) -> std::io::Result<()> + Send,
    ) -> Result<Vec<u8>> {
        let mut command = Command::new(GIT);
        command
            .args(args)
            .current_dir(&self.dir)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("HOME", &self.dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "Sample")))
            .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "sample@example.org")))
            .envs(["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, "1700000000 +0000")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("starting git: is Debian's package git installed?")?;
        let stdin = child.stdin.take().context("no pipe")?;
        // Written beside the reading: git says something for each tree of a batch.
        let (written, output) = thread::scope(|scope| {
            let writer = scope.spawn(|| write(stdin));
            (writer.join(), child.wait_with_output())
        });
        let output = output?;
        if !output.status.success() {
            bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        match written {
            Ok(written) => written?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(output.stdout)
    }

    /// Writes a blob; its id.
    ///
    /// # Errors
    /// git fails.
    pub fn blob(&self, bytes: &[u8]) -> Result<String> {
        self.git(&["hash-object", "-w", "--stdin"], bytes)
    }

    /// Writes a blob of so many zeros, of which a pack needs a thousandth; its id.
    ///
    /// # Errors
    /// git fails.
    pub fn zeros(&self, head: &str, size: usize) -> Result<String> {
        let piece = vec![0; 1 << 20];
        let args =
            ["-c", "core.bigFileThreshold=1m", "-c", "core.compression=1", "hash-object", "-w", "--stdin"];
        let output = self.run(&args, |mut stdin| {
            stdin.write_all(head.as_bytes())?;
            let mut left = size;
            while left > 0 {
                let now = left.min(piece.len());
                stdin.write_all(&piece[..now])?;
                left -= now;
            }
            Ok(())
        })?;
        Ok(String::from_utf8(output)?.trim_end().to_owned())
    }

    /// Packs all objects, so that the host need not pack them for each client.
    ///
    /// # Errors
    /// git fails.
    pub fn pack(&self) -> Result<()> {
        let args = ["-c", "core.bigFileThreshold=1m", "-c", "pack.window=0", "repack", "-adq"];
        self.git(&args, b"").map(drop)
    }

    /// Writes a tree of `(mode, id, name)`, which git sorts; its id. An object need not exist.
    ///
    /// # Errors
    /// git fails.
    pub fn tree<'a>(&self, entries: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Result<String> {
        let mut lines = Vec::new();
        for (mode, id, name) in entries {
            let kind = match mode {
                "040000" => "tree",
                "160000" => "commit",
                _ => "blob",
            };
            lines.extend_from_slice(format!("{mode} {kind} {id}\t{name}\0").as_bytes());
        }
        self.git(&["mktree", "-z", "--missing"], &lines)
    }

    /// Writes a tree byte by byte, as it comes, whatever git thinks of it; its id.
    ///
    /// # Errors
    /// git fails, or an id is none.
    pub fn raw_tree(&self, entries: &[(&str, &str, &str)]) -> Result<String> {
        let mut bytes = Vec::new();
        for (mode, id, name) in entries {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            for at in (0..id.len()).step_by(2) {
                bytes.push(u8::from_str_radix(id.get(at..at + 2).context("an id")?, 16)?);
            }
        }
        self.raw("tree", &bytes)
    }

    /// Writes an object of this kind, whatever git thinks of it; its id.
    ///
    /// # Errors
    /// git fails.
    pub fn raw(&self, kind: &str, bytes: &[u8]) -> Result<String> {
        self.git(&["hash-object", "-t", kind, "-w", "--stdin", "--literally"], bytes)
    }

    /// Writes a commit without parents; its id.
    ///
    /// # Errors
    /// git fails.
    pub fn commit(&self, tree: &str) -> Result<String> {
        self.git(&["commit-tree", "-m", "sample", tree], b"")
    }

    /// Points a reference to an object.
    ///
    /// # Errors
    /// git fails.
    pub fn set(&self, reference: &str, id: &str) -> Result<()> {
        self.git(&["update-ref", reference, id], b"").map(drop)
    }

    /// Publishes a tree as `main`; the commit's id.
    ///
    /// # Errors
    /// git fails.
    pub fn publish(&self, tree: &str) -> Result<String> {
        let commit = self.commit(tree)?;
        self.set("refs/heads/main", &commit)?;
        Ok(commit)
    }

    /// Publishes files as `main`, folders by the slashes in their names; the commit's id.
    ///
    /// # Errors
    /// git fails.
    pub fn publish_files(&self, files: &[(&str, &[u8])]) -> Result<String> {
        let mut stream = b"commit refs/heads/main\ncommitter Sample <sample@example.org> 1700000000 +0000\n\
            data 6\nsample\n"
            .to_vec();
        for (path, bytes) in files {
            stream.extend_from_slice(format!("M 100644 inline {path}\ndata {}\n", bytes.len()).as_bytes());
            stream.extend_from_slice(bytes);
            stream.push(b'\n');
        }
        self.git(&["fast-import", "--quiet", "--force"], &stream)?;
        self.git(&["rev-parse", "refs/heads/main"], b"")
    }
}
