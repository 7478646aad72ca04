//! A message as it goes to the relay: text, and files that are encoded while they are read.

use std::fmt;

use super::Spooled;

/// Bytes of a file in one line of BASE64 (RFC 2045 §6.8: 76 characters a line).
pub const BASE64_LINE: usize = 57;
/// Characters of such a line, with its CRLF.
const WRITTEN_LINE: u64 = 78;

/// A piece of a message. Each begins at the beginning of a line.
#[derive(Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text, as it stands.
    Text(Vec<u8>),
    /// A file that becomes lines of BASE64.
    Base64(Spooled),
}

/// A message. The last piece is text.
#[derive(Clone, PartialEq, Eq)]
pub struct Message(Vec<Piece>);

impl Message {
    /// A message without files.
    #[must_use]
    pub fn text(text: Vec<u8>) -> Self {
        Self(vec![Piece::Text(text)])
    }

    /// A message that begins with `head`; each file is led by its part's headers, `tail` is behind the last.
    #[must_use]
    pub fn with_files(head: Vec<u8>, files: Vec<(Vec<u8>, Spooled)>, tail: Vec<u8>) -> Self {
        let mut pieces = vec![Piece::Text(head)];
        for (headers, file) in files {
            pieces.extend([Piece::Text(headers), Piece::Base64(file)]);
        }
        pieces.push(Piece::Text(tail));
        Self(pieces)
    }

    /// The pieces in their order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Number of files inside.
    #[must_use]
    pub fn files(&self) -> usize {
        self.0.iter().filter(|piece| matches!(piece, Piece::Base64(_))).count()
    }

    /// The message for people: each file is a line with its length.
    #[must_use]
    pub fn shown(&self) -> Vec<u8> {
        let mut shown = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => shown.extend_from_slice(text),
                Piece::Base64(file) => {
                    shown.extend_from_slice(format!("({} bytes of a file)\r\n", file.length()).as_bytes());
                }
            }
        }
        shown
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("files", &self.files()).finish_non_exhaustive()
    }
}

/// Characters of a file of so many bytes as BASE64, its line ends included.
#[must_use]
pub fn encoded_length(bytes: u64) -> u64 {
    let line = BASE64_LINE as u64;
    let rest = bytes % line;
    let last = if rest == 0 { 0 } else { rest.div_ceil(3) * 4 + 2 };
    (bytes / line) * WRITTEN_LINE + last
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn an_encoded_length_counts_lines() {
        for (bytes, encoded) in [(0, 0), (1, 6), (3, 6), (4, 10), (57, 78), (58, 84), (114, 156)] {
            assert_eq!(encoded_length(bytes), encoded, "{bytes}");
        }
    }

    #[test]
    fn people_see_the_length_of_a_file() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"s3cret").expect("written");
        let file = Spooled::new(file).expect("spooled");
        let message =
            Message::with_files(b"a\r\n".to_vec(), vec![(b"b\r\n".to_vec(), file)], b"c\r\n".to_vec());
        assert_eq!(message.shown(), b"a\r\nb\r\n(6 bytes of a file)\r\nc\r\n");
        assert_eq!(message.files(), 1);
        assert!(!format!("{message:?}").contains("s3cret"));
    }
}
