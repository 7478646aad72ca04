//! A line as somebody types it on the router's host: in a shell, with the programs on the path, and nothing but the
//! configuration given by the environment.
//!
//! If the line hangs it is killed with its value; a line that is not for this machine fails as it would there.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;

use super::{Answer, Stage};

/// No line of a runbook takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

impl Stage {
    /// Runs `line` in `sh`, in the stage's directory, as an operator beside the router that runs with `config` (a file).
    /// `variables` are set as well.
    ///
    /// # Errors
    /// There is no shell, the file cannot be read, or the line does not end.
    pub async fn shell(
        &self,
        binary: &Path,
        config: &Path,
        variables: &[(&str, &str)],
        line: &str,
    ) -> Result<Answer> {
        let text = std::fs::read_to_string(config)?;
        let beside = binary.parent().context("the binary's directory")?.display();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .env_clear()
            .env("PATH", format!("{beside}:{path}:/usr/sbin:/sbin"))
            .env("HOME", self.dir())
            .env("GCE_METADATA_HOST", self.google.metadata_host())
            .envs(environment(&text))
            .envs(variables.iter().copied())
            .current_dir(self.dir())
            .args(["-c", line])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, shell.output()).await;
        Ok(Answer::from(output.with_context(|| format!("it does not end: {line}"))??))
    }
}

/// A stage's configuration as variables: every key under its `MAPLE_ROUTER__SECTION__KEY`, a dot in a section's name being `__` as well. A
/// section that somebody has named (`[desk.users.anna]`) has no variables, and is left out.
#[must_use]
pub fn environment(config: &str) -> Vec<(String, String)> {
    let mut section = Some(String::new());
    let mut variables = Vec::new();
    for line in config.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = (name.matches('.').count() < 2).then(|| name.to_uppercase().replace('.', "__"));
        } else if let Some(section) = &section
            && let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#'))
        {
            let name = format!("MAPLE_ROUTER__{section}__{}", key.trim().to_uppercase());
            variables.push((name, bare(value.trim())));
        }
    }
    variables
}

/// A value as a variable has it: a list separated by commas, one comma for an empty one, because an empty variable is none.
fn bare(value: &str) -> String {
    let unquoted = |value: &str| {
        let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        bare.unwrap_or(value).to_owned()
    };
    let Some(items) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return unquoted(value);
    };
    match items.trim() {
        "" => ",".to_owned(),
        items => items.split(',').map(|item| unquoted(item.trim())).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::environment;

    #[test]
    fn a_list_is_separated_by_commas() {
        let found = environment("[grey_queue]\nauto = []\n[mail]\nfields = [\"a\", \"b\"]\n");
        let expected = [("MAPLE_ROUTER__GREY_QUEUE__AUTO", ","), ("MAPLE_ROUTER__MAIL__FIELDS", "a,b")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn every_key_becomes_a_variable() {
        let found = environment(
            "[slack]\nchannel = \"#a\"\n\n# x = 1\n[desk.users.anna]\nrole = \"admin\"\n[screening.judge]\nslots = 8\n",
        );
        let expected =
            [("MAPLE_ROUTER__SLACK__CHANNEL", "#a"), ("MAPLE_ROUTER__SCREENING__JUDGE__SLOTS", "8")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
