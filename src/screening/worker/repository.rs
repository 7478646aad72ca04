//! A repository as a submission names it, fetched, and kept as far as rules and judge need it.
//!
//! Kept are the manifest of all files and one mebibyte of bytes, texts first. What is not kept is unreadable to the rules, never clean.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::config::ScreeningForm;
use crate::gateway::git::{Content as Found, Git, GitError, Mode as Kind, Snapshot, Source, SourceFault};
use crate::screening::store::results::KeptSnapshot;
use crate::screening::tier1::{File, Mode, Tree};

/// Bytes that are kept of a snapshot.
const KEPT: usize = 1 << 20;

/// A file of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    path: String,
    mode: String,
    size: u64,
    /// All bytes, in base64; absent where they are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
}

/// A repository that was fetched.
pub(super) struct Fetched {
    pub(super) snapshot: KeptSnapshot,
    /// The trusted owner that it lies with.
    pub(super) owner: Option<String>,
}

/// Fetches what the fields name.
pub(super) async fn fetch(
    git: &Git,
    form: &ScreeningForm,
    fields: &[(String, String)],
) -> Result<Fetched, GitError> {
    let value = |name: &str| {
        let given = fields.iter().filter(|(key, _)| key == name).map(|(_, value)| value.trim());
        let mut given = given.filter(|value| !value.is_empty());
        let first = given.next().map(str::to_owned);
        // Whoever reads the submission would see the other one, which nobody looked at.
        if given.any(|other| Some(other) != first.as_deref()) {
            Err(SourceFault::Ambiguous)
        } else {
            Ok(first)
        }
    };
    let (reference, path) = (value(&form.reference_field)?, value(&form.path_field)?);
    let address = value(&form.url_field)?.unwrap_or_default();
    let source = Source::parse(&address, reference, path).map_err(SourceFault::from)?;
    let snapshot = git.fetch(&source).await?;
    // Proof of origin: the address is a trusted owner's, and its host has just given what it names.
    let owner = if git.trusts(&source.url) { owner(&source.url) } else { None };
    let path = source.path.clone().unwrap_or_default();
    Ok(Fetched { snapshot: kept(&source.url, &path, &snapshot), owner })
}

/// The owner's name, in lower case: the first segment of an address that was read already.
fn owner(url: &Url) -> Option<String> {
    url.path_segments()?.next().filter(|name| !name.is_empty()).map(str::to_ascii_lowercase)
}

fn kept(url: &Url, path: &str, snapshot: &Snapshot) -> KeptSnapshot {
    let mut left = KEPT;
    let mut keep = vec![false; snapshot.files.len()];
    for texts in [true, false] {
        for (at, file) in snapshot.files.iter().enumerate() {
            let Some(bytes) = file.bytes() else { continue };
            let fits = bytes.len() <= left && std::str::from_utf8(bytes).is_ok() == texts;
            if fits && !keep[at] {
                keep[at] = true;
                left -= bytes.len();
            }
        }
    }
    let entries = snapshot.files.iter().zip(&keep).map(|(file, keep)| Entry {
        path: file.path.clone(),
        mode: file.mode.octal().to_owned(),
        size: file.content.size(),
        bytes: file.bytes().filter(|_| *keep).map(|bytes| data_encoding::BASE64.encode(bytes)),
    });
    let declared = snapshot.files.iter().filter(|file| is_description(&file.path)).find_map(|file| {
        let Found::Whole { bytes, .. } = &file.content else { return None };
        declared(std::str::from_utf8(bytes).ok()?)
    });
    let manifest: Vec<Entry> = entries.collect();
    KeptSnapshot {
        url: url.as_str().trim_end_matches('/').trim_end_matches(".git").to_owned(),
        path: path.to_owned(),
        reference: snapshot.reference.clone(),
        commit: snapshot.commit.clone(),
        content: hex::encode(snapshot.digest),
        files: u32::try_from(manifest.len()).unwrap_or(u32::MAX),
        bytes: snapshot.total,
        declared,
        manifest: serde_json::to_value(manifest).unwrap_or_default(),
    }
}

fn is_description(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"))
}

/// The `version` of a description's front matter, where it is three numbers.
fn declared(text: &str) -> Option<String> {
    let front = text.strip_prefix("---")?.split("\n---").next()?;
    let line = front.lines().find_map(|line| line.trim().strip_prefix("version:"))?;
    let version = line.trim().trim_matches(|quote| quote == '"' || quote == '\'').trim_start_matches('v');
    let parts: Vec<&str> = version.split('.').collect();
    let number = |part: &&str| (1..=9).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    (parts.len() == 3 && parts.iter().all(number)).then(|| version.to_owned())
}

/// The tree that rules look at, and how many of its files are not kept. `Err`: the manifest is none of ours.
pub(super) fn tree(snapshot: &KeptSnapshot) -> Result<(Tree, u32), ()> {
    let entries: Vec<Entry> = serde_json::from_value(snapshot.manifest.clone()).map_err(drop)?;
    let (mut files, mut missing) = (Vec::with_capacity(entries.len()), 0);
    for entry in entries {
        let mode = match entry.mode.as_str() {
            mode if mode == Kind::Executable.octal() => Mode::Executable,
            mode if mode == Kind::Symlink.octal() => Mode::Symlink,
            _ => Mode::Regular,
        };
        let Some(encoded) = entry.bytes else {
            missing += 1;
            continue;
        };
        let bytes = data_encoding::BASE64.decode(encoded.as_bytes()).map_err(drop)?;
        files.push(File { path: entry.path, mode, bytes: Bytes::from(bytes) });
    }
    Ok((Tree { files }, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers_of_the_front_matter() {
        for (text, expected) in [
            ("---\nname: x\nversion: 1.2.3\n---\nbody", Some("1.2.3")),
            ("---\nversion: \"v2.0.10\"\n---\n", Some("2.0.10")),
            ("---\nname: x\n---\nversion: 1.2.3\n", None),
            ("---\nversion: 1.2\n---\n", None),
            ("---\nversion: 1.2.3-beta\n---\n", None),
            ("version: 1.2.3\n", None),
            ("---\nversion: 12345678901.0.0\n---\n", None),
        ] {
            assert_eq!(declared(text).as_deref(), expected, "{text}");
        }
    }
}
