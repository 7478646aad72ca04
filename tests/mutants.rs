//! The mutants under `tests/mutants/` are still what they say: every patch applies, names a rule of the protocol, and names
//! tests that exist. Whether these tests turn red is for `make mutants` to see, which takes longer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rules that must have a mutant.
const RULES: [&str; 20] = [
    "alert",
    "audit in the transaction",
    "budget",
    "contract",
    "doubt",
    "due times",
    "facts merge",
    "fence",
    "jobs",
    "lock before the decision",
    "only the table",
    "orphan pass",
    "pin",
    "readiness at the begin",
    "readiness at the claim",
    "refund",
    "rows set aside",
    "session",
    "spool",
    "verdict from the ledger",
];

struct Mutant {
    path: PathBuf,
    text: String,
}

impl Mutant {
    /// A line of the header.
    fn header(&self, name: &str) -> &str {
        let header = self.text.split("diff --git").next().unwrap_or_default();
        let line = header.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("{}: no line `{name}: …` before the diff", self.path.display()))
    }

    /// The functions of the tests that must turn red.
    fn red(&self) -> Vec<&str> {
        let named = self.header("Red").split("test(=").skip(1);
        named.filter_map(|rest| rest.split(')').next()?.rsplit("::").next()).collect()
    }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn mutants() -> Vec<Mutant> {
    let folder = fs::read_dir(here().join("tests/mutants")).expect("tests/mutants");
    let paths = folder.map(|entry| entry.expect("an entry").path());
    paths.map(|path| Mutant { text: fs::read_to_string(&path).expect("a patch"), path }).collect()
}

#[test]
fn every_patch_applies() {
    let mut rotten = Vec::new();
    for mutant in mutants() {
        let applied =
            Command::new("git").args(["apply", "--check"]).arg(&mutant.path).current_dir(here()).output();
        let applied = applied.expect("git");
        if !applied.status.success() {
            rotten.push(format!("{}: {}", mutant.path.display(), String::from_utf8_lossy(&applied.stderr)));
        }
    }
    assert!(rotten.is_empty(), "make these fit what they take away again:\n{}", rotten.join(""));
}

#[test]
fn every_rule_has_a_mutant() {
    let mutants = mutants();
    let rules: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.header("Rule")).collect();
    assert!(mutants.iter().all(|mutant| !mutant.header("Without").is_empty()));
    let without: Vec<_> = RULES.iter().filter(|rule| !rules.contains(**rule)).collect();
    assert!(without.is_empty(), "no mutant takes away: {without:?}");
}

#[test]
fn every_named_test_exists() {
    fn read(folder: &Path, all: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                read(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                *all += &fs::read_to_string(&path).expect("a source file");
            }
        }
    }
    let mut all = String::new();
    read(&here().join("src"), &mut all);
    read(&here().join("tests"), &mut all);
    for mutant in mutants() {
        let red = mutant.red();
        assert!(!red.is_empty(), "{}: names no test", mutant.path.display());
        for name in red {
            assert!(all.contains(&format!("fn {name}(")), "{}: there is no {name}", mutant.path.display());
        }
    }
}
