//! `desk init`: the secret. A file exists as a whole or not at all, and is never overwritten unless a rotation is asked for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rand::RngExt;
use serde::Serialize;

use super::super::{CliError, Context, Exit, operator, output};
use crate::config::Config;
use crate::config::secret::{DESK_SECRET, OPERATOR_CREDENTIALS};
use crate::journal;
use crate::ops::rng::Rng;
use crate::ops::state_dir::open_for_owner;
use crate::ops::telemetry::EventName;

/// Arguments of `desk init`.
#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// Replace the secret: everybody is logged out, and no token counts any more
    #[arg(long)]
    rotate: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    path: PathBuf,
    rotated: bool,
}

/// Makes the secret.
pub(super) fn run(ctx: &Context, args: &Init) -> Result<Exit, CliError> {
    let config = ctx.read_config()?.config;
    let path = place(&config);
    let secret: [u8; 32] = Rng::from_system().with(RngExt::random);
    let content = format!("{}\n", hex::encode(secret));
    let made = put(&path, &content, args.rotate).map_err(|source| {
        let problem = anyhow::anyhow!("cannot write {}: {source}", path.display());
        CliError::new(Exit::FoundWanting, problem).remedy(
            "run it with sudo, and see that the directory is there; or name another file in desk.secret_file",
        )
    })?;
    let Some(rotated) = made else {
        let problem = anyhow::anyhow!("{} is there already, and stays as it is", path.display());
        return Err(CliError::new(Exit::FoundWanting, problem)
            .remedy("--rotate replaces it: everybody is logged out, and no token counts any more"));
    };
    let actor = operator::actor(&ctx.env);
    journal!(warn, EventName::Override, verb = "desk init", actor, rotated, "{actor} made the desk's secret");
    let report = Report { path, rotated };
    output::either(args.json, &report, || text_of(&report))?;
    Ok(Exit::Done)
}

/// Where the secret is looked for afterwards.
fn place(config: &Config) -> PathBuf {
    let directory =
        || config.surroundings.credentials_directory.clone().unwrap_or_else(|| OPERATOR_CREDENTIALS.into());
    config.desk.secret_file.clone().unwrap_or_else(|| directory().join(DESK_SECRET))
}

/// Writes a file that nobody else may read. Returns whether there was one before; nothing where it stays.
fn put(path: &Path, content: &str, replace: bool) -> io::Result<Option<bool>> {
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = directory.join(format!(".{DESK_SECRET}.{}.tmp", std::process::id()));
    let mut file = open_for_owner(&unfinished, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    // Unlike a rename, a link does not replace a file.
    let linked = fs::hard_link(&unfinished, path);
    let made = match linked {
        Ok(()) => Ok(Some(false)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && replace => {
            fs::rename(&unfinished, path).map(|()| Some(true))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    };
    if !matches!(made, Ok(Some(true))) {
        fs::remove_file(&unfinished)?;
    }
    File::open(directory)?.sync_all()?;
    made
}

fn text_of(Report { path, rotated }: &Report) -> String {
    let path = path.display();
    if *rotated {
        return format!(
            "replaced: {path} (0600)\nnext: sudo systemctl restart maple-router; everybody logs in anew, and programs need new \
             tokens"
        );
    }
    format!(
        "made: {path} (0600)\nnext: sudo systemctl restart maple-router, then sudo maple-router desk login NAME"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_whole_private_and_never_overwritten_by_mistake() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("desk-secret");
        let there = || fs::read_to_string(&path).expect("there");
        assert_eq!(put(&path, "one\n", false).expect("written"), Some(false));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(put(&path, "two\n", false).expect("asked"), None);
        assert_eq!(there(), "one\n");
        assert_eq!(put(&path, "three\n", true).expect("written"), Some(true));
        assert_eq!(there(), "three\n");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing else is left");
        assert!(put(&dir.path().join("nowhere/desk-secret"), "x\n", false).is_err());
    }
}
