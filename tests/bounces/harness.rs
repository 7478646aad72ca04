//! Samples, as other people's servers write them, and a Maildir to put them into.

use std::fs;
use std::path::{Path, PathBuf};

use maple_router::routing::delivery::sender::ReturnAddress;
use maple_router::routing::submission::message_id::{Origin, message_id};
use uuid::Uuid;

/// `[bounces] address` of these tests.
pub(crate) const ADDRESS: &str = "maple-bounces@bounces.maple.test";
/// Signing key of their tokens.
pub(crate) const SECRET: &str = "5d1f0c6b0f3f4f3c9a7e2d1c0b9a8f7e";
/// Some mail.
pub(crate) const ORIGIN: Origin =
    Origin { submission: Uuid::from_u128(0xf0a9_d36e_423d_4d16), action_order: 1, generation: 0 };

/// Knows the tokens.
pub(crate) fn ours() -> ReturnAddress {
    ReturnAddress::new(ADDRESS, SECRET).expect("a secret")
}

/// A sample as it would come back for the mail made from `origin`; lines end as on the wire.
pub(crate) fn sample(name: &str, origin: Origin) -> String {
    raw(name)
        .replace("MESSAGE-ID", &message_id(origin, "gpus-it-security@greenpeace.org"))
        .replace("SENDER", &ours().sender(origin))
        .replace('\n', "\r\n")
}

/// A sample as it is kept.
pub(crate) fn raw(name: &str) -> String {
    let path = samples().join(format!("{name}.eml"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of all samples.
pub(crate) fn names() -> Vec<String> {
    let entries = fs::read_dir(samples()).expect("samples");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    names
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bounces/samples")
}

/// Puts a mail where a delivering program puts it.
pub(crate) fn deliver(maildir: &Path, name: &str, mail: &str) {
    for below in ["tmp", "new"] {
        fs::create_dir_all(maildir.join(below)).expect("a directory");
    }
    let unfinished = maildir.join("tmp").join(name);
    fs::write(&unfinished, mail).expect("written");
    fs::rename(unfinished, maildir.join("new").join(name)).expect("delivered");
}

/// Names in a directory of the Maildir, in order.
pub(crate) fn list(maildir: &Path, below: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(maildir.join(below)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
