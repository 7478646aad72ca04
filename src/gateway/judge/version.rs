//! The version of a prompt: a changed word is another prompt, which has to be calibrated again. Pure.

use sha2::{Digest as _, Sha256};

/// Hexadecimal digits of a version.
const DIGITS: usize = 12;

/// The first digits of SHA-256 over every text of ours that a judge is sent, each with its length.
#[must_use]
pub fn of(texts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    }
    let mut digits = hex::encode(digest.finalize());
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_told_apart_by_their_lengths_too() {
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
        // Recorded calibrations name versions: the same texts have the same one for ever.
        assert_eq!(of(&["a"]), "3b196fd4907b");
    }
}
