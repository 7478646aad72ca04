//! The journal's export format, read as a stream: fields `NAME=value`, or the name alone, the value's length (64
//! bits, little endian), the value and a newline; an empty line ends an entry. Pure, and bounded: only the
//! beginning of a value is kept, and nothing of other fields.

use super::super::line::LOOKED_AT;

/// Longest name or cursor.
const NAME: usize = 256;

/// Fields kept of an entry.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) cursor: Vec<u8>,
    realtime: Vec<u8>,
    pub(super) message: Vec<u8>,
    pub(super) identifier: Vec<u8>,
    syslog_pid: Vec<u8>,
    pid: Vec<u8>,
}

impl Entry {
    fn field(&mut self, name: &[u8]) -> Option<&mut Vec<u8>> {
        match name {
            b"__CURSOR" => Some(&mut self.cursor),
            b"__REALTIME_TIMESTAMP" => Some(&mut self.realtime),
            b"MESSAGE" => Some(&mut self.message),
            b"SYSLOG_IDENTIFIER" => Some(&mut self.identifier),
            b"SYSLOG_PID" => Some(&mut self.syslog_pid),
            b"_PID" => Some(&mut self.pid),
            _ => None,
        }
    }

    /// The process that wrote the entry, as it says itself; else as the kernel knows it.
    pub(super) fn pid(&self) -> Option<u32> {
        number(&self.syslog_pid).or_else(|| number(&self.pid))
    }

    /// Microseconds since the epoch.
    pub(super) fn realtime(&self) -> Option<i64> {
        number(&self.realtime)
    }

    fn clear(&mut self) {
        let Self { cursor, realtime, message, identifier, syslog_pid, pid } = self;
        [cursor, realtime, message, identifier, syslog_pid, pid].into_iter().for_each(Vec::clear);
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Position in the stream.
#[derive(Debug, Clone, Copy)]
enum Within {
    /// A line of text, or a name.
    Line,
    /// Bytes read of a length, and its value by now.
    Length(u32, u64),
    /// Bytes left of a value.
    Value(u64),
    /// The newline after a value.
    Newline,
}

/// Parser of the stream.
#[derive(Debug)]
pub(super) struct Export {
    within: Within,
    /// Beginning of the line or name by now.
    line: Vec<u8>,
    /// Fields kept of the entry by now.
    entry: Entry,
    /// The entry has a field.
    started: bool,
}

impl Export {
    pub(super) fn new() -> Self {
        Self { within: Within::Line, line: Vec::new(), entry: Entry::default(), started: false }
    }

    /// The entry that ended last, until the next byte is taken.
    pub(super) fn last(&self) -> &Entry {
        &self.entry
    }

    /// Takes `bytes` up to the end of the next entry; returns how many, and whether one ended.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        if !self.started {
            self.entry.clear();
        }
        let mut at = 0;
        while at < bytes.len() {
            match self.within {
                Within::Line => {
                    let rest = &bytes[at..];
                    let end = memchr::memchr(b'\n', rest);
                    let piece = &rest[..end.unwrap_or(rest.len())];
                    let room = (LOOKED_AT + NAME).saturating_sub(self.line.len());
                    self.line.extend_from_slice(&piece[..piece.len().min(room)]);
                    at += piece.len() + usize::from(end.is_some());
                    if end.is_some() && self.end_of_line() {
                        return (at, true);
                    }
                }
                Within::Length(had, length) => {
                    let length = length | u64::from(bytes[at]) << (8 * had);
                    at += 1;
                    self.within = match (had, length) {
                        (7, 0) => Within::Newline,
                        (7, length) => Within::Value(length),
                        _ => Within::Length(had + 1, length),
                    };
                }
                Within::Value(left) => {
                    let rest = &bytes[at..];
                    let had = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if let Some(field) = self.entry.field(&self.line) {
                        let room = LOOKED_AT.saturating_sub(field.len());
                        field.extend_from_slice(&rest[..had.min(room)]);
                    }
                    at += had;
                    let left = left - had as u64;
                    self.within = if left == 0 { Within::Newline } else { Within::Value(left) };
                }
                Within::Newline => {
                    at += 1;
                    self.line.clear();
                    self.within = Within::Line;
                }
            }
        }
        (at, false)
    }

    /// Takes a complete line; true where it ends an entry.
    fn end_of_line(&mut self) -> bool {
        if self.line.is_empty() {
            return std::mem::take(&mut self.started);
        }
        self.started = true;
        match memchr::memchr(b'=', &self.line) {
            Some(equals) => {
                if let Some(field) = self.entry.field(&self.line[..equals])
                    && field.is_empty()
                {
                    field.extend_from_slice(&self.line[equals + 1..]);
                }
                self.line.clear();
            }
            // The name of a value that is no line of text.
            None => self.within = Within::Length(0, 0),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Cursor, message and pid of each entry, the stream taken in pieces.
    fn entries(stream: &[u8], piece: usize) -> Vec<(String, Vec<u8>, Option<u32>)> {
        let mut export = Export::new();
        let mut found = Vec::new();
        for mut bytes in stream.chunks(piece) {
            while !bytes.is_empty() {
                let (taken, ended) = export.take(bytes);
                bytes = &bytes[taken..];
                if ended {
                    let entry = export.last();
                    found.push((
                        String::from_utf8_lossy(&entry.cursor).into_owned(),
                        entry.message.clone(),
                        entry.pid(),
                    ));
                }
                let kept = export.line.len() + export.entry.message.len() + export.entry.cursor.len();
                assert!(kept < 3 * (LOOKED_AT + NAME), "{kept} bytes are kept");
            }
        }
        found
    }

    fn binary(name: &str, value: &[u8]) -> Vec<u8> {
        [name.as_bytes(), b"\n", &(value.len() as u64).to_le_bytes(), value, b"\n"].concat()
    }

    #[test]
    fn text_and_other_values_are_told_apart() {
        let stream = [
            b"__CURSOR=one\nMESSAGE=a=b\n_PID=3\nSYSLOG_PID=4\n\n__CURSOR=two\n_PID=3\n".to_vec(),
            binary("MESSAGE", b"x\n\n__CURSOR=forged\n\xff"),
            binary("OTHER", &[b'\n'; 70_000]),
            b"\n\n__CURSOR=three\n".to_vec(),
            binary("MESSAGE", b""),
            b"SYSLOG_PID=none\n\n__CURSOR=cut off\n".to_vec(),
        ]
        .concat();
        for piece in [1, 2, 7, 1_000, 1 << 20] {
            let expected = vec![
                ("one".to_owned(), b"a=b".to_vec(), Some(4)),
                ("two".to_owned(), b"x\n\n__CURSOR=forged\n\xff".to_vec(), Some(3)),
                ("three".to_owned(), Vec::new(), None),
            ];
            assert_eq!(entries(&stream, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn of_a_huge_value_the_beginning_is_kept() {
        let huge = vec![b'y'; 1 << 20];
        let stream = [
            b"__CURSOR=one\n".to_vec(),
            binary("MESSAGE", &huge),
            b"\nMESSAGE=".to_vec(),
            huge,
            b"\n\n".to_vec(),
        ];
        let found = entries(&stream.concat(), 4_096);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(_, message, _)| (LOOKED_AT..=LOOKED_AT + NAME).contains(&message.len())));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_are_too_much(bytes in vec(any::<u8>(), 0..300), piece in 1..40_usize) {
            prop_assert_eq!(entries(&bytes, piece), entries(&bytes, 1_000));
        }

        #[test]
        fn a_message_is_what_it_was(messages in vec(vec(any::<u8>(), 0..60), 0..6), piece in 1..40_usize) {
            let stream: Vec<u8> = messages
                .iter()
                .flat_map(|message| [b"__CURSOR=c\n".to_vec(), binary("MESSAGE", message), b"\n".to_vec()].concat())
                .collect();
            let found: Vec<Vec<u8>> = entries(&stream, piece).into_iter().map(|(_, message, _)| message).collect();
            prop_assert_eq!(found, messages);
        }
    }
}
