//! Every command of the runbooks and of the README's table, and where it is run. Nothing is passed over: a command of a
//! program that is not in the table fails the test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Runner of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A shell against a stage with real parts, in `here.rs`.
    Here,
    /// The booted container (`booted.list`): systemd, the journal, dpkg or Postfix's own queue are needed.
    Booted,
    /// Against devkit's broker where it makes or seeks, compared with a table where it grants: no account of Google is
    /// at hand in a test (`gcloud.rs`).
    Gcloud,
    /// The drill itself, which has a target of its own and is part of `make nightly`.
    Drill,
}

/// Programs that runbooks may name.
const PROGRAMS: [(&str, Place); 20] = [
    ("maple-router", Place::Here),
    ("psql", Place::Here),
    ("curl", Place::Here),
    ("ssh-keygen", Place::Here),
    ("gcloud", Place::Gcloud),
    ("apt-get", Place::Booted),
    ("chown", Place::Booted),
    ("df", Place::Booted),
    ("dpkg", Place::Booted),
    ("install", Place::Booted),
    ("journalctl", Place::Booted),
    ("ls", Place::Booted),
    ("openssl", Place::Booted),
    ("postconf", Place::Booted),
    ("postqueue", Place::Booted),
    ("ss", Place::Booted),
    ("systemctl", Place::Booted),
    ("systemd-analyze", Place::Booted),
    ("tar", Place::Booted),
    ("make", Place::Drill),
];

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The runbooks, in order.
pub(crate) fn runbooks() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("runbooks")).expect("runbooks");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    assert!(files.len() >= 9, "{files:?}");
    files
}

/// Every command at this `place`, each once, with the first file that names it.
pub(crate) fn at(place: Place) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in runbooks() {
        let text = fs::read_to_string(&file).expect("a runbook");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        collect(&name, &text, &mut found);
    }
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let (_, table) = readme.split_once("## How to operate").expect("a table of commands");
    let table = table.split("\n## ").next().expect("its end");
    collect("README.md", table, &mut found);
    found.retain(|command, _| place_of(command) == Some(place));
    found
}

fn collect(name: &str, text: &str, found: &mut BTreeMap<String, String>) {
    let mut fence: Option<bool> = None;
    for line in text.lines().map(str::trim) {
        if let Some(language) = line.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(matches!(language, "sh" | "console")) };
        } else if fence == Some(true) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            assert!(
                place_of(line).is_some(),
                "{name}: nobody runs `{line}`: say in commands.rs where it is run"
            );
            found.entry(line.to_owned()).or_insert_with(|| name.to_owned());
        } else if fence.is_none() {
            // In prose only a span that starts with one of our programs and says more than its name is a command.
            for span in line.split('`').skip(1).step_by(2).filter(|span| span.contains(' ')) {
                if place_of(span).is_some() {
                    found.entry(span.to_owned()).or_insert_with(|| name.to_owned());
                }
            }
        }
    }
    assert_eq!(fence, None, "{name}: a block that does not end");
}

fn place_of(command: &str) -> Option<Place> {
    let program = command.split_whitespace().next()?;
    PROGRAMS.iter().find(|(name, _)| *name == program).map(|(_, place)| *place)
}

#[test]
fn a_block_is_read_line_by_line_and_a_stranger_is_refused() {
    let mut found = BTreeMap::new();
    collect("x.md", "a `df -h` and `df`\n```sh\n# why\nls -l\n\n```\n```toml\nx = 1\n```\n", &mut found);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["df -h", "ls -l"]);
    let stranger = std::panic::catch_unwind(|| collect("x.md", "```sh\nrm -rf /\n```", &mut BTreeMap::new()));
    assert!(stranger.is_err());
}
