//! The files that pages load: one style sheet, one script, one icon, all of them in the binary. Pure.
//!
//! A path has a digest of its content, so that a browser may keep a file for ever and never keeps a wrong one.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

const CSS: &[u8] = include_bytes!("assets/desk.css");
const SCRIPT: &[u8] = include_bytes!("assets/desk.js");
const ICON: &[u8] = include_bytes!("assets/favicon.svg");

/// Largest script, in bytes.
pub const SCRIPT_MAX: usize = 8 * 1024;

/// One file: its path, its media type, its content.
struct Asset {
    path: String,
    media_type: &'static str,
    content: &'static [u8],
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let asset = |extension: &str, media_type, content: &'static [u8]| {
        let digest = hex::encode(&Sha256::digest(content)[..8]);
        Asset { path: format!("/assets/desk.{digest}.{extension}"), media_type, content }
    };
    [
        asset("css", "text/css; charset=utf-8", CSS),
        asset("js", "text/javascript; charset=utf-8", SCRIPT),
        asset("svg", "image/svg+xml", ICON),
    ]
});

/// Media type and content of the file at this path; may be kept for ever (`immutable`).
#[must_use]
pub fn find(path: &str) -> Option<(&'static str, &'static [u8])> {
    let found = ASSETS.iter().find(|asset| asset.path == path)?;
    Some((found.media_type, found.content))
}

/// Path of the style sheet.
#[must_use]
pub fn css() -> &'static str {
    &ASSETS[0].path
}

/// Path of the script.
#[must_use]
pub fn script() -> &'static str {
    &ASSETS[1].path
}

/// Path of the icon.
#[must_use]
pub fn icon() -> &'static str {
    &ASSETS[2].path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_found_at_the_path_that_pages_name_and_nowhere_else() {
        for (path, media_type) in
            [(css(), "text/css"), (script(), "text/javascript"), (icon(), "image/svg+xml")]
        {
            let (found, content) = find(path).expect("it is there");
            assert!(found.starts_with(media_type) && !content.is_empty(), "{path}");
        }
        for path in ["/assets/desk.css", "/assets/../desk.css", "", "/assets/desk.0000000000000000.css"] {
            assert!(find(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_script_stays_small() {
        assert!(SCRIPT.len() <= SCRIPT_MAX, "{} bytes", SCRIPT.len());
    }
}
