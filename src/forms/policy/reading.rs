//! The bundle, read from its directory. Blocks; callers read rarely, at a command and at a check.
//!
//! A file that cannot be read is an error, never left out: a policy without one of its files allows more. Nothing is locked: who
//! exchanges several files does it by renaming the directory, or a link to it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::away::Away;
use super::bundle::{self, Bundle};

/// Reads the files directly in `directory` that decide; links to files are followed, other kinds of files are passed over.
///
/// # Errors
/// [`Away::Unreadable`], and those of [`Bundle::of`].
pub fn read(directory: &Path) -> Result<Bundle, Away> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(|error| unreadable(directory, &error))? {
        let entry = entry.map_err(|error| unreadable(directory, &error))?;
        let path = entry.path();
        let name = entry.file_name();
        if !bundle::decides(&name.to_string_lossy()) {
            continue;
        }
        let Ok(name) = name.into_string() else {
            return Err(unreadable(&path, &io::Error::other("the name is no UTF-8")));
        };
        // A pipe would be waited for, so kinds are looked at before anything is opened.
        if !fs::metadata(&path).map_err(|error| unreadable(&path, &error))?.is_file() {
            continue;
        }
        files.insert(name, content(&path).map_err(|error| unreadable(&path, &error))?);
        if files.len() > bundle::MOST_FILES {
            break;
        }
    }
    Bundle::of(&directory.display().to_string(), files)
}

/// The bytes, and one more than may be where there are more: the bundle refuses them.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bundle::LONGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Away {
    Away::Unreadable { path: path.display().to_string(), why: error.to_string() }
}
