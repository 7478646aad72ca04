//! A message as it is sent after DATA: every line ended by `CR LF`, dots at the head of a line doubled (RFC 5321
//! §4.5.2), the final dot after it.
//!
//! Pure. A lone `LF` or `CR` reads as a line end to some relays and not to others, and could smuggle a second
//! message in; here both are line ends.

use memchr::memchr2;

/// The final dot, on a line of its own.
pub(super) const DOT: &[u8] = b".\r\n";

/// The transmitted bytes of one message (module header).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Data {
    bytes: Vec<u8>,
    /// Value of SIZE: the message with its line ends, before dots were doubled (RFC 1870 §5).
    pub(super) size: usize,
    pub(super) is_ascii: bool,
}

impl Data {
    pub(super) fn of(message: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(message.len() + message.len() / 64 + 16);
        let mut doubled = 0;
        let mut rest = message;
        while let Some(first) = rest.first() {
            if *first == b'.' {
                bytes.push(b'.');
                doubled += 1;
            }
            let end = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            bytes.extend_from_slice(&rest[..end]);
            bytes.extend_from_slice(b"\r\n");
            let behind = &rest[end..];
            rest = behind.strip_prefix(b"\r\n").or_else(|| behind.get(1..)).unwrap_or_default();
        }
        let size = bytes.len() - doubled;
        bytes.extend_from_slice(DOT);
        Self { bytes, size, is_ascii: message.is_ascii() }
    }

    /// All bytes, the final dot included.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset of the final dot.
    pub(super) fn dot_at(&self) -> usize {
        self.bytes.len() - DOT.len()
    }
}

#[cfg(test)]
mod tests {
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
            let found = Data::of(given);
            assert_eq!(found.bytes().escape_ascii().to_string(), expected.escape_ascii().to_string());
            assert_eq!((found.size, found.dot_at()), (size, expected.len() - 3), "{}", given.escape_ascii());
        }
        assert!(!Data::of("für".as_bytes()).is_ascii && Data::of(b"fuer").is_ascii);
    }

    proptest! {
        /// A relay's reading gives the message with its line ends made good, and ends where the message ends.
        #[test]
        fn a_relay_reads_what_was_given(given in "[a.\r\n]{0,40}") {
            let data = Data::of(given.as_bytes());
            let text = std::str::from_utf8(data.bytes()).unwrap();
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
