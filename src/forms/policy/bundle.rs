//! A bundle: the files of a policy, and the digest that each decision names. Pure.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::away::Away;

/// Most files of a bundle.
pub const MOST_FILES: usize = 64;
/// Longest file, in bytes. The tree of a file is a hundred times as large while it is looked at.
pub const LONGEST_FILE: usize = 256 << 10;
/// Most bytes of all files.
pub const MOST_BYTES: usize = 1 << 20;

/// Files that decide, by name. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    files: BTreeMap<String, String>,
    digest: [u8; 32],
}

impl Bundle {
    /// A bundle of what was read `from` somewhere. Of `files`, by name, those count that decide.
    ///
    /// # Errors
    /// [`Away::Empty`], [`Away::TooLarge`], and [`Away::Syntax`] for bytes that are no text.
    pub fn of(from: &str, files: BTreeMap<String, Vec<u8>>) -> Result<Self, Away> {
        let files: BTreeMap<_, _> = files.into_iter().filter(|(name, _)| decides(name)).collect();
        if files.is_empty() {
            return Err(Away::Empty { from: from.to_owned() });
        }
        let digest = digest(&files);
        bounded(&files)?;
        let text = |(name, bytes): (String, Vec<u8>)| match String::from_utf8(bytes) {
            Ok(text) => Ok((name, text)),
            Err(error) => {
                let what = format!("byte {} is no UTF-8", error.utf8_error().valid_up_to() + 1);
                Err(Away::Syntax { at: name, what })
            }
        };
        Ok(Self { files: files.into_iter().map(text).collect::<Result<_, _>>()?, digest })
    }

    /// SHA-256 of the names and bytes of all files that decide: another digest, another policy.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Names and texts, sorted by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }
}

/// Whether a file of this name is part of the policy: tests are for `opa test`, and editors and deployments hide what is half
/// written.
#[must_use]
pub fn decides(name: &str) -> bool {
    !name.starts_with('.') && name.ends_with(".rego") && !name.ends_with("_test.rego")
}

fn bounded(files: &BTreeMap<String, Vec<u8>>) -> Result<(), Away> {
    let too_large = |what| Err(Away::TooLarge { what });
    if files.len() > MOST_FILES {
        return too_large(format!("it has {} files, and {MOST_FILES} are the most", files.len()));
    }
    if let Some((name, _)) = files.iter().find(|(_, bytes)| bytes.len() > LONGEST_FILE) {
        return too_large(format!("{name} has more than {LONGEST_FILE} bytes"));
    }
    let bytes: usize = files.values().map(Vec::len).sum();
    if bytes > MOST_BYTES {
        return too_large(format!("its files have {bytes} bytes together, and {MOST_BYTES} are the most"));
    }
    Ok(())
}

/// Lengths stand before what they measure, so that no two bundles are the same bytes.
fn digest(files: &BTreeMap<String, Vec<u8>>) -> [u8; 32] {
    let mut sum = Sha256::new();
    for (name, bytes) in files {
        for part in [name.as_bytes(), bytes] {
            sum.update((part.len() as u64).to_be_bytes());
            sum.update(part);
        }
    }
    sum.finalize().into()
}
