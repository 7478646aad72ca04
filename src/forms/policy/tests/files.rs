//! The directory, and the digest of what is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::bundle::{LONGEST_FILE, MOST_BYTES, MOST_FILES};
use super::super::reading::read;
use super::super::{Away, Bundle, LIMIT, load};
use super::{HEAD, HEALTHY, canaries};

fn digest(files: &[(&str, &str)]) -> String {
    hex::encode(super::bundle(files).digest())
}

fn names(bundle: &Bundle) -> Vec<&str> {
    bundle.files().map(|(name, _)| name).collect()
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let room = tempfile::tempdir().expect("a directory");
    let error = read(&room.path().join("none")).expect_err("nothing there");
    let message = error.to_string();
    assert!(message.contains("/none: No such file or directory"), "{message}");
    fs::write(room.path().join("file"), "").expect("written");
    assert!(matches!(read(&room.path().join("file")), Err(Away::Unreadable { .. })));
}

#[test]
fn an_empty_directory_is_no_policy() {
    let room = tempfile::tempdir().expect("a directory");
    for name in ["README.md", ".hidden.rego", "publish_test.rego", "publish.rego~", "rego"] {
        fs::write(room.path().join(name), "no policy").expect("written");
    }
    fs::create_dir(room.path().join("folder.rego")).expect("a folder");
    let error = read(room.path()).expect_err("no file decides");
    assert_eq!(error, Away::Empty { from: room.path().display().to_string() });
}

#[test]
fn files_and_links_to_files_are_read_and_sorted() {
    let room = tempfile::tempdir().expect("a directory");
    let other = tempfile::tempdir().expect("a directory");
    fs::write(other.path().join("real"), format!("{HEAD}{HEALTHY}")).expect("written");
    symlink(other.path().join("real"), room.path().join("b.rego")).expect("a link");
    fs::write(room.path().join("a.rego"), format!("{HEAD}deny contains \"late\" if input.late\n"))
        .expect("written");
    fs::write(room.path().join("a_test.rego"), "no Rego at all").expect("written");
    let bundle = read(room.path()).expect("a bundle");
    assert_eq!(names(&bundle), ["a.rego", "b.rego"]);
    assert_eq!(load(room.path(), LIMIT, &canaries()).expect("proven").digest(), bundle.digest());
    symlink(other.path().join("gone"), room.path().join("c.rego")).expect("a link");
    let message = read(room.path()).expect_err("a link to nothing").to_string();
    assert!(message.contains("c.rego"), "a file that cannot be read is not left out: {message}");
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    let room = tempfile::tempdir().expect("a directory");
    let file = room.path().join("a.rego");
    fs::write(&file, format!("{HEAD}{HEALTHY}")).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).expect("rights");
    match read(room.path()) {
        Err(Away::Unreadable { path, .. }) => assert!(path.ends_with("a.rego"), "{path}"),
        // Root reads everything.
        other => assert!(other.is_ok(), "{other:?}"),
    }
}

#[test]
fn files_are_bounded() {
    let room = tempfile::tempdir().expect("a directory");
    let long = room.path().join("long.rego");
    fs::write(&long, vec![b'#'; LONGEST_FILE + 1]).expect("written");
    let error = read(room.path()).expect_err("too long");
    assert_eq!(error.to_string(), "the policy is too large: long.rego has more than 262144 bytes");
    fs::write(&long, vec![b'#'; LONGEST_FILE]).expect("written");
    assert!(read(room.path()).is_ok());
    for n in 0..MOST_FILES {
        fs::write(room.path().join(format!("{n}.rego")), "package x").expect("written");
    }
    assert!(matches!(read(room.path()), Err(Away::TooLarge { .. })));
    let whole = vec![b'#'; LONGEST_FILE];
    let files =
        |count: usize| (0..count).map(|n| (format!("{n}.rego"), whole.clone())).collect::<BTreeMap<_, _>>();
    assert!(Bundle::of("", files(MOST_BYTES / LONGEST_FILE)).is_ok());
    assert!(matches!(Bundle::of("", files(MOST_BYTES / LONGEST_FILE + 1)), Err(Away::TooLarge { .. })));
    let error =
        Bundle::of("", BTreeMap::from([("a.rego".to_owned(), vec![b'a', 0xff])])).expect_err("no text");
    assert_eq!(error, Away::Syntax { at: "a.rego".to_owned(), what: "byte 2 is no UTF-8".to_owned() });
}

#[test]
fn each_byte_and_name_is_in_the_digest() {
    let text = format!("{HEAD}{HEALTHY}");
    let mut seen = BTreeSet::from([digest(&[("a.rego", &text)])]);
    for at in 0..text.len() {
        let mut other = text.clone().into_bytes();
        other[at] ^= 1;
        let other = String::from_utf8(other).expect("ASCII");
        assert!(seen.insert(digest(&[("a.rego", &other)])), "byte {at}");
    }
    for files in [
        vec![("b.rego", text.as_str())],
        vec![("a.rego", text.as_str()), ("b.rego", "")],
        vec![("a.rego", ""), ("b.rego", text.as_str())],
        vec![("a.rego", &text[..9]), ("b.rego", &text[9..])],
        vec![("a.rego", &text[..8]), ("b.rego", &text[8..])],
    ] {
        assert!(seen.insert(digest(&files)), "{files:?}");
    }
    let as_is = digest(&[("a.rego", &text)]);
    assert_eq!(digest(&[("a_test.rego", "tests do not decide"), ("a.rego", &text)]), as_is);
}

#[test]
fn a_digest_stays_what_it_was() {
    let expected = "597ea4c0a1bc40e25935115f75cc82f0b5632a8fc188582ef9dd3b28498c638f";
    assert_eq!(
        digest(&[("a.rego", "package a\n"), ("b.rego", "")]),
        expected,
        "decisions that are kept name it"
    );
}
