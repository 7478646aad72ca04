//! The self-test: whether clamd finds what everything of its kind must find.
//!
//! The test file of EICAR is put together when it is used, from halves that are written backwards: whole, it would make
//! scanners take this file, or the program, for an infected one.

use super::classify::{NoAnswer, Verdict};

const FIRST: &[u8; 34] = br"-RACIE$}7)CC7)^P(45XZP\4[PA@%P!O5X";
const SECOND: &[u8; 34] = b"*H+H$!ELIF-TSET-SURIVITNA-DRADNATS";

/// The test file: 68 bytes.
pub(super) fn test_file() -> Vec<u8> {
    FIRST.iter().rev().chain(SECOND.iter().rev()).copied().collect()
}

/// Why clamd is not to be believed, though it may answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelfTestFault {
    /// clamd finds nothing in the test file: its OK means nothing.
    #[error("clamd does not find the EICAR test file; look at its databases and its log, then restart it")]
    Missed,
    /// There was no verdict.
    #[error("clamd cannot scan the EICAR test file: {0}")]
    Unscanned(NoAnswer),
}

/// The result of the self-test: the signature's name.
pub(super) fn judged(verdict: Verdict) -> Result<String, SelfTestFault> {
    match verdict {
        Verdict::Infected { signature } => Ok(signature),
        Verdict::Clean | Verdict::Unscannable { .. } => Err(SelfTestFault::Missed),
        Verdict::Unscanned { why } => Err(SelfTestFault::Unscanned(why)),
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_test_file_is_the_published_one() {
        // The published SHA-256 of the 68 bytes.
        let expected = "275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f";
        assert_eq!(hex::encode(Sha256::digest(test_file())), expected);
    }

    #[test]
    fn only_a_find_passes() {
        assert_eq!(judged(Verdict::Infected { signature: "Eicar".to_owned() }), Ok("Eicar".to_owned()));
        assert_eq!(judged(Verdict::Clean), Err(SelfTestFault::Missed));
        assert_eq!(judged(Verdict::Unscannable { why: "x".to_owned() }), Err(SelfTestFault::Missed));
        assert_eq!(judged(NoAnswer::Closed.into()), Err(SelfTestFault::Unscanned(NoAnswer::Closed)));
    }
}
