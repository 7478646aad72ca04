//! The mutants under `tests/mutants/` are still what they say: every patch applies, names a rule of the protocol, and names
//! tests that exist. Whether these tests go red is for `make mutants` to see, which takes longer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rules that must have a mutant.
const RULES: [&str; 28] = [
    "alert",
    "audit in the transaction",
    "budget",
    "contract",
    "desk",
    "doubt",
    "due times",
    "facts merge",
    "fence",
    "forms",
    "grading",
    "jobs",
    "lock before the decision",
    "only the table",
    "orphan pass",
    "pin",
    "readiness at the begin",
    "readiness at the claim",
    "refund",
    "retention",
    "review",
    "rows set aside",
    "screening",
    "session",
    "spool",
    "tickets",
    "uploads",
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

    /// The tests that must go red, by their paths.
    fn red(&self) -> Vec<&str> {
        self.header("Red").split("test(=").skip(1).filter_map(|rest| rest.split(')').next()).collect()
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

/// Modules that stand in no file of their own: `mod tests {`, and those that a macro makes of the variants of a test.
const INLINE: [&str; 5] = ["tests", "pubsub", "postgres", "together", "one_by_one"];

/// Source files below a folder, by their module paths.
fn modules(folder: &Path) -> BTreeMap<String, String> {
    fn walk(folder: &Path, above: &[String], found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let module = if ["lib", "main", "mod", "model"].contains(&&*stem) {
                above.to_vec()
            } else {
                [above, &[stem]].concat()
            };
            if path.is_dir() {
                walk(&path, &module, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.insert(module.join("::"), fs::read_to_string(&path).expect("a source file"));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, &[], &mut found);
    found
}

/// The sources of what a header says is tested.
fn tested(red: &str) -> BTreeMap<String, String> {
    let after = |flag: &str| red.split(flag).nth(1)?.split_whitespace().next();
    match (after("--test "), after("-p ")) {
        (_, Some(package)) => modules(&here().join(package.replace("maple-router-", "tests/"))),
        (Some(test), None) if here().join("tests").join(test).is_dir() => {
            modules(&here().join("tests").join(test))
        }
        (Some(test), None) => {
            let file = here().join(format!("tests/{test}.rs"));
            BTreeMap::from([(String::new(), fs::read_to_string(file).expect("the test's file"))])
        }
        (None, None) => modules(&here().join("src")),
    }
}

#[test]
fn every_named_test_exists_where_it_is_named() {
    for mutant in mutants() {
        let red = mutant.header("Red");
        let (sources, named) = (tested(red), mutant.red());
        assert!(!named.is_empty(), "{}: names no test", mutant.path.display());
        for name in named {
            let mut module: Vec<&str> = name.split("::").collect();
            let function = format!("fn {}(", module.pop().unwrap_or_default());
            let is_there = |module: &[&str]| {
                sources.get(&module.join("::")).is_some_and(|text| text.contains(&function))
            };
            let inline = module.last().is_some_and(|last| INLINE.contains(last));
            assert!(
                is_there(&module) || inline && is_there(&module[..module.len() - 1]),
                "{}: there is no {name}",
                mutant.path.display()
            );
        }
    }
}
