//! Commands that need a booted system stand in `booted.list`, one a line, for the container's test to run. The list
//! and the runbooks name the same commands.

use std::collections::BTreeSet;
use std::fs;

use crate::commands::{Place, at, root};

/// `BLESS=1` writes it anew.
const LIST: &str = "tests/runbooks/booted.list";

#[test]
fn the_list_for_the_booted_container_has_every_command_that_needs_one() {
    let commands = at(Place::Booted);
    let path = root().join(LIST);
    if std::env::var_os("BLESS").is_some() {
        let head =
            "# Commands of runbooks that need a booted system, each with the file that names it first.\n";
        let lines: String = commands.iter().map(|(command, file)| format!("{file}\t{command}\n")).collect();
        fs::write(&path, format!("{head}{lines}")).expect("written");
    }
    let list = fs::read_to_string(&path).expect("the list");
    let listed: BTreeSet<&str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once('\t')?.1))
        .collect();
    let named: BTreeSet<&str> = commands.keys().map(String::as_str).collect();
    let missing: Vec<_> = named.difference(&listed).collect();
    let too_many: Vec<_> = listed.difference(&named).collect();
    assert!(
        missing.is_empty() && too_many.is_empty(),
        "{LIST} (BLESS=1 writes it): missing {missing:#?}, too many {too_many:#?}"
    );
}
