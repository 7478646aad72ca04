//! A message as it is sent after DATA: every line ended by `CR LF`, dots at the head of a line doubled (RFC 5321
//! §4.5.2), the final dot after it.
//!
//! Pure. A lone `LF` or `CR` reads as a line end to some relays and not to others, and could smuggle a second
//! message in; here both are line ends.

use std::mem;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use memchr::memchr2;

use crate::ports::{BASE64_LINE, Message, Piece, Spooled, encoded_length};

/// The final dot, on a line of its own.
pub(super) const DOT: &[u8] = b".\r\n";

/// The transmitted form of one message (module header).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Data {
    /// What goes before the end, in its order.
    lead: Vec<Lead>,
    /// The last bytes, the final dot included.
    end: Vec<u8>,
    /// Value of SIZE: the message with its line ends, before dots were doubled (RFC 1870 §5).
    pub(super) size: u64,
    pub(super) is_ascii: bool,
}

/// A part of a message before its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Bytes as they are transmitted.
    Bytes(Vec<u8>),
    /// A file, whose lines of BASE64 need no transparency: none begins with a dot.
    File(Spooled),
}

impl Data {
    pub(super) fn of(message: &Message) -> Self {
        let mut data = Self { lead: Vec::new(), end: Vec::new(), size: 0, is_ascii: true };
        for piece in message.pieces() {
            match piece {
                Piece::Text(text) => data.add(text),
                Piece::Base64(file) => {
                    data.size += encoded_length(file.length());
                    data.lead.extend([Lead::Bytes(mem::take(&mut data.end)), Lead::File(file.clone())]);
                }
            }
        }
        data.end.extend_from_slice(DOT);
        data
    }

    /// Adds text, which begins at the beginning of a line, and ends there.
    fn add(&mut self, text: &[u8]) {
        self.end.reserve(text.len() + text.len() / 64 + 16);
        let (before, mut doubled) = (self.end.len(), 0);
        let mut rest = text;
        while let Some(first) = rest.first() {
            if *first == b'.' {
                self.end.push(b'.');
                doubled += 1;
            }
            let line = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            self.end.extend_from_slice(&rest[..line]);
            self.end.extend_from_slice(b"\r\n");
            let behind = &rest[line..];
            rest = behind.strip_prefix(b"\r\n").or_else(|| behind.get(1..)).unwrap_or_default();
        }
        self.size += (self.end.len() - before - doubled) as u64;
        self.is_ascii &= text.is_ascii();
    }

    /// What goes before the end.
    pub(super) fn lead(&self) -> &[Lead] {
        &self.lead
    }

    /// The last bytes, the final dot included.
    pub(super) fn end(&self) -> &[u8] {
        &self.end
    }

    /// Offset of the final dot in the end.
    pub(super) fn dot_at(&self) -> usize {
        self.end.len() - DOT.len()
    }
}

/// Lines of BASE64 for bytes of a file; all but the last piece of it is a multiple of a line.
pub(super) fn lines(bytes: &[u8]) -> Vec<u8> {
    let mut lines = String::with_capacity(bytes.len() / BASE64_LINE * 78 + 80);
    for line in bytes.chunks(BASE64_LINE) {
        BASE64.encode_string(line, &mut lines);
        lines.push_str("\r\n");
    }
    lines.into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_end_with_crlf_dots_are_doubled_and_one_stands_alone() {
        for (given, expected, size) in [
            (&b"a\r\nb\r\n"[..], &b"a\r\nb\r\n.\r\n"[..], 6),
            (b"1234", b"1234\r\n.\r\n", 6),
            (b"a\r\n.\r\nb\r\n", b"a\r\n..\r\nb\r\n.\r\n", 9),
            (b".a\r\n..\r\nb.\r\n", b"..a\r\n...\r\nb.\r\n.\r\n", 12),
            (b"a\nb\n", b"a\r\nb\r\n.\r\n", 6),
            (b"a\rb", b"a\r\nb\r\n.\r\n", 6),
            // Sequences that end the data for one relay and not for another, and some that are mistaken for the end.
            (b"a\n.\nb", b"a\r\n..\r\nb\r\n.\r\n", 9),
            (b"a\r.\rb", b"a\r\n..\r\nb\r\n.\r\n", 9),
            (b"a\r\n.\nb", b"a\r\n..\r\nb\r\n.\r\n", 9),
            (b"a\r\n\n.\nb\r", b"a\r\n\r\n..\r\nb\r\n.\r\n", 11),
            (b"a\r\r\nb", b"a\r\n\r\nb\r\n.\r\n", 8),
            (b"\n", b"\r\n.\r\n", 2),
            (b"", b".\r\n", 0),
        ] {
            let found = text(given);
            assert_eq!(found.end().escape_ascii().to_string(), expected.escape_ascii().to_string());
            assert_eq!((found.size, found.dot_at()), (size, expected.len() - 3), "{}", given.escape_ascii());
        }
        assert!(!text("für".as_bytes()).is_ascii && text(b"fuer").is_ascii);
    }

    fn text(message: &[u8]) -> Data {
        Data::of(&Message::text(message.to_vec()))
    }

    /// Each piece is at the beginning of a line: its dots are doubled, and the file between has none.
    #[test]
    fn pieces_are_transmitted_in_their_order() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[b'x'; 58]).expect("written");
        let file = Spooled::new(file).expect("spooled");
        let head = (b".h\r\n".to_vec(), file.clone());
        let data = Data::of(&Message::with_files(b".a\nb".to_vec(), vec![head], b".t\r\n".to_vec()));
        assert_eq!(data.lead(), [Lead::Bytes(b"..a\r\nb\r\n..h\r\n".to_vec()), Lead::File(file)]);
        assert_eq!((data.end(), data.dot_at()), (&b"..t\r\n.\r\n"[..], 5));
        assert_eq!(data.size, 4 + 3 + 4 + 84 + 4);
        let encoded = lines(&[b'x'; 58]);
        assert_eq!(encoded.len(), 84);
        assert!(encoded.ends_with(b"\r\neA==\r\n"), "{}", encoded.escape_ascii());
    }

    proptest! {
        /// A relay's reading gives the message with its line ends made good, and ends where the message ends.
        #[test]
        fn a_relay_reads_what_was_given(given in "[a.\r\n]{0,40}") {
            let data = text(given.as_bytes());
            let text = std::str::from_utf8(data.end()).unwrap();
            prop_assert!(!text.replace("\r\n", "").contains(['\r', '\n']));
            let mut lines: Vec<&str> = text.split_terminator("\r\n").collect();
            prop_assert_eq!(lines.pop(), Some("."));
            prop_assert!(lines.iter().all(|line| *line != "."), "{text:?} ends before its end");
            let read: Vec<&str> = lines.iter().map(|line| line.strip_prefix('.').unwrap_or(line)).collect();
            let meant = given.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(read, meant.split_terminator('\n').collect::<Vec<_>>());
        }
    }
}
