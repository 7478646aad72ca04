//! Which file of a crate imports which, read from the paths in its code. A path that leads through a re-export belongs to the
//! file that owns the item, so that a circle cannot hide behind `pub use`.

use std::collections::{BTreeMap, BTreeSet};

/// `["postgres", "cluster"]` for `postgres/cluster.rs`; empty for the root of the crate.
pub(crate) type Module = Vec<String>;
/// Imports of each importer.
pub(crate) type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// One imported path, and the name it has afterwards.
struct Import {
    path: Vec<String>,
    name: String,
}

/// The module of a file, by its path relative to the crate's folder of sources.
pub(crate) fn module(file: &str) -> Module {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" { Module::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// The imports between files. A name that a file takes from a module it lies in (`super::Options`) is no import: a
/// module's own file is the door of what lies in it, and knows it all.
pub(crate) fn between_files(files: &BTreeMap<Module, String>) -> Imports {
    let mut imports = Imports::new();
    for (importer, code) in files {
        let paths = used(code).into_iter().map(|(_, import)| import.path).chain(named(code));
        let owners = paths.filter_map(|path| owner(files, importer, &path));
        let declared = code.lines().filter_map(declaration).map(|child| below(importer, child));
        let imported = owners.chain(declared.filter(|child| files.contains_key(child)));
        imports.insert(importer.clone(), imported.filter(|file| !importer.starts_with(file)).collect());
    }
    imports
}

/// The same between the modules at the root of the crate, each with all that lies in it.
pub(crate) fn between_rooms(files: &Imports) -> Imports {
    let mut rooms = Imports::new();
    for (importer, imported) in files {
        let Some(room) = importer.first() else { continue };
        let others = imported.iter().filter_map(|file| file.first()).filter(|other| *other != room);
        rooms.entry(vec![room.clone()]).or_default().extend(others.map(|other| vec![other.clone()]));
    }
    rooms
}

/// The imports from which imports lead back to where they began, one a line.
pub(crate) fn circles(imports: &Imports) -> Vec<String> {
    let imported: BTreeSet<&Module> = imports.values().flatten().collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imported.into_iter().map(|file| (file, reached_from(imports, file))).collect();
    let all = imports.iter().flat_map(|(importer, files)| files.iter().map(move |file| (importer, file)));
    all.filter(|(importer, file)| reached[file].contains(importer))
        .map(|(importer, file)| format!("{} imports {}", importer.join("::"), file.join("::")))
        .collect()
}

/// The files to which imports lead from one, itself among them.
fn reached_from<'a>(imports: &'a Imports, file: &'a Module) -> BTreeSet<&'a Module> {
    let (mut reached, mut next) = (BTreeSet::from([file]), vec![file]);
    while let Some(from) = next.pop() {
        next.extend(imports.get(from).into_iter().flatten().filter(|to| reached.insert(to)));
    }
    reached
}

/// The file that owns what a path names; `None` where it leads out of the crate.
fn owner(files: &BTreeMap<Module, String>, from: &Module, path: &[String]) -> Option<Module> {
    let mut at = from.clone();
    let mut rest = path;
    match rest.split_first()? {
        (first, after) if first == "crate" => {
            at.clear();
            rest = after;
        }
        (first, after) if first == "self" => rest = after,
        (first, _) if first == "super" => {
            while let Some((_, after)) = rest.split_first().filter(|(first, _)| *first == "super") {
                at.pop()?;
                rest = after;
            }
        }
        (first, _) if files.contains_key(&below(from, first)) => {}
        _ => return None,
    }
    while let Some((next, after)) = rest.split_first() {
        if files.contains_key(&below(&at, next)) {
            at.push(next.clone());
            rest = after;
            continue;
        }
        let exported = used(&files[&at]).into_iter().find(|(public, import)| *public && import.name == *next);
        return match exported {
            Some((_, import)) => owner(files, &at, &import.path).or(Some(at)),
            None => Some(at),
        };
    }
    Some(at)
}

fn below(module: &Module, child: &str) -> Module {
    module.iter().cloned().chain([child.to_owned()]).collect()
}

/// `cluster` of `pub(super) mod cluster;`.
fn declaration(line: &str) -> Option<&str> {
    let (before, name) = line.trim().strip_suffix(';')?.split_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

/// Imports by the `use` items of a file, and whether each passes its name on.
fn used(code: &str) -> Vec<(bool, Import)> {
    let mut all = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let begins = line.trim_start();
        let public =
            begins.starts_with("pub") && begins.split(" use ").next().is_some_and(|v| !v.contains(' '));
        if (begins.starts_with("use ") || public && begins.contains(" use ")) && code[at..].contains(';') {
            let item = code[at..].split(';').next().unwrap_or_default();
            let tree = item.split_once("use ").map_or("", |(_, tree)| tree);
            let mut imports = Vec::new();
            expand(&[], tree, &mut imports);
            all.extend(imports.into_iter().map(|import| (public, import)));
        }
        at += line.len();
    }
    all
}

/// `a::{b, c::{self, D as E}}` as paths.
fn expand(before: &[String], tree: &str, imports: &mut Vec<Import>) {
    let tree = tree.trim();
    let segments = |path: &str| -> Vec<String> {
        let own = path.split("::").map(str::trim).filter(|segment| !segment.is_empty() && *segment != "*");
        before.iter().cloned().chain(own.map(str::to_owned)).collect()
    };
    if let Some((head, group)) = tree.split_once('{') {
        let (head, group) = (segments(head), group.trim_end().trim_end_matches('}'));
        let (mut depth, mut begin) = (0, 0);
        for (at, letter) in group.char_indices().chain([(group.len(), ',')]) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth <= 0 || at == group.len() => {
                    expand(&head, &group[begin..at], imports);
                    begin = at + 1;
                }
                _ => {}
            }
        }
    } else if !tree.is_empty() {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
        let mut path = segments(path);
        if path.len() > 1 {
            path.pop_if(|last| last == "self");
        }
        let name = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
        imports.push(Import { path, name });
    }
}

/// Paths that the code names inline, from `crate::` or `super::`; those of groups are `used`.
fn named(code: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let letters = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let path = code[at..].split(|c| !letters(c)).next().unwrap_or_default();
            if !code[at + path.len()..].starts_with('{') {
                all.push(path.split("::").filter(|segment| !segment.is_empty()).map(str::to_owned).collect());
            }
        }
    }
    all
}

#[test]
fn a_circle_is_seen_through_groups_names_and_re_exports() {
    let of = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(file, code)| (module(file), (*code).to_owned())).collect();
        let imports = between_files(&files);
        (circles(&imports), circles(&between_rooms(&imports)))
    };
    let root = ("lib.rs", "pub mod a;\npub mod b;");
    // A module's own file and the files in it are no circle, nor is a file that is imported twice.
    let tree = [
        root,
        ("a.rs", "mod x;\nuse x::X;\npub struct Own;"),
        ("a/x.rs", "use super::Own;"),
        ("b/mod.rs", ""),
    ];
    assert_eq!(of(&tree), (vec![], vec![]));
    let twice = [
        root,
        ("a.rs", "use crate::b;"),
        ("b/mod.rs", "mod x;\nmod y;"),
        ("b/x.rs", "use super::y;"),
        ("b/y.rs", ""),
    ];
    assert_eq!(of(&twice), (vec![], vec![]));
    let grouped =
        [root, ("a.rs", "use crate::{\n    b::{self, B},\n};"), ("b/mod.rs", "fn f() { crate::a::g() }")];
    assert_eq!(of(&grouped).0, ["a imports b", "b imports a"]);
    // Through a re-export, under another name; b/mod.rs itself imports nothing that leads back.
    let passed_on = [
        root,
        ("a.rs", "use crate::b::Renamed;"),
        ("b/mod.rs", "mod x;\nmod y;\npub use x::{X as Renamed, Z};"),
        ("b/x.rs", "use super::y::Y;"),
        ("b/y.rs", "use super::Z;"),
    ];
    assert_eq!(of(&passed_on).0, ["b::x imports b::y", "b::y imports b::x"]);
    // No two files of these rooms import each other, the rooms do.
    let rooms = [
        root,
        ("a.rs", "mod x;\nmod y;"),
        ("a/x.rs", "use crate::b::x::X;"),
        ("a/y.rs", ""),
        ("b/mod.rs", "pub mod x;\npub mod y;"),
        ("b/x.rs", ""),
        ("b/y.rs", "use crate::a::y::Y;"),
    ];
    assert_eq!(of(&rooms), (vec![], vec!["a imports b".to_owned(), "b imports a".to_owned()]));
}
