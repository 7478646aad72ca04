//! The relay's bytes, as they come, made into replies (RFC 5321 §4.2): several lines to one, bounded in number and
//! length, UTF-8 or not.
//!
//! Pure: bytes in, replies out; how the bytes were cut on their way makes no difference. Memory is bounded whatever
//! comes. The parser never guesses: a line that is no reply line ends the dialogue.

use memchr::memchr;

use super::reply::drop_half_a_word;

/// A reply line longer than this is cut, between words; RFC 5321 §4.5.3.1.5 allows 512.
const LONGEST_LINE: usize = 900;
/// More bytes than this without a line end are not SMTP.
const LONGEST_UNREAD: usize = 16 * 1024;
/// More lines than this in one reply are not SMTP; Postfix's EHLO has about a dozen.
const MOST_LINES: usize = 100;

/// A whole reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// Three digits, the first from 2 to 5.
    pub(super) code: u16,
    /// The text after the code, line by line; joined by `\n`.
    text: String,
}

impl Said {
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split('\n')
    }
}

/// The bytes are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotSmtp;

/// Bytes received and not yet read. Kept with the connection, so that the buffer is allocated once.
#[derive(Debug, Default)]
pub(super) struct Replies {
    inbox: Vec<u8>,
    /// Bytes of the inbox that have been read.
    read: usize,
    /// A reply of several lines, and how many of them are here.
    unfinished: Option<(Said, usize)>,
}

impl Replies {
    /// Takes received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// The next whole reply, as soon as it is here.
    pub(super) fn next(&mut self) -> Result<Option<Said>, NotSmtp> {
        while let Some(end) = memchr(b'\n', &self.inbox[self.read..]) {
            let line = &self.inbox[self.read..self.read + end];
            if line.len() > LONGEST_UNREAD {
                return Err(NotSmtp);
            }
            let Line { code, is_last, text } = Line::read(line).ok_or(NotSmtp)?;
            self.read += end + 1;
            match &mut self.unfinished {
                None => self.unfinished = Some((Said { code, text }, 1)),
                Some((said, lines)) => {
                    if said.code != code || *lines >= MOST_LINES {
                        return Err(NotSmtp);
                    }
                    *lines += 1;
                    said.text.push('\n');
                    said.text.push_str(&text);
                }
            }
            if is_last {
                self.forget_what_is_read();
                return Ok(self.unfinished.take().map(|(said, _)| said));
            }
        }
        self.forget_what_is_read();
        if self.inbox.len() > LONGEST_UNREAD { Err(NotSmtp) } else { Ok(None) }
    }

    /// Says that every byte received has been taken, half lines included.
    pub(super) fn is_empty(&self) -> bool {
        self.unfinished.is_none() && self.inbox.len() == self.read
    }

    fn forget_what_is_read(&mut self) {
        self.inbox.drain(..self.read);
        self.read = 0;
    }
}

/// One line of a reply.
struct Line {
    code: u16,
    is_last: bool,
    text: String,
}

impl Line {
    /// `250-text`, `250 text`, `250`; with or without CR.
    fn read(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii_end();
        let (digits, rest) = line.split_at_checked(3)?;
        let fits = matches!(digits[0], b'2'..=b'5') && digits.iter().all(u8::is_ascii_digit);
        let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'.min(*digit)));
        let is_last = match rest.first() {
            None | Some(b' ') => true,
            Some(b'-') => false,
            Some(_) => return None,
        };
        fits.then(|| Self { code, is_last, text: text_of(rest.get(1..).unwrap_or_default()) })
    }
}

fn text_of(line: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(line).into_owned();
    if text.len() > LONGEST_LINE {
        text.truncate(text.floor_char_boundary(LONGEST_LINE));
        drop_half_a_word(&mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> (Vec<(u16, String)>, bool) {
        let mut replies = Replies::default();
        let mut all = Vec::new();
        for piece in pieces {
            replies.push(piece);
            loop {
                match replies.next() {
                    Ok(Some(said)) => all.push((said.code, said.lines().collect::<Vec<_>>().join("|"))),
                    Ok(None) => break,
                    Err(NotSmtp) => return (all, true),
                }
                let kept = replies.unfinished.as_ref().map_or(0, |(said, _)| said.text.len());
                assert!(kept <= MOST_LINES * (LONGEST_LINE + 1), "{kept} bytes of one reply");
            }
            assert!(replies.inbox.len() <= LONGEST_UNREAD, "{} bytes wait", replies.inbox.len());
            assert_eq!(replies.read, 0);
        }
        (all, false)
    }

    #[test]
    fn replies_of_every_shape_are_read() {
        for (bytes, expected) in [
            (&b"250 Ok\r\n"[..], &[(250, "Ok")][..]),
            (b"250 Ok\n", &[(250, "Ok")]),
            (b"250\r\n", &[(250, "")]),
            (b"250 \r\n", &[(250, "")]),
            (b"571 no\r\n", &[(571, "no")]),
            (b"250-a\r\n250-\r\n250 b\r\n", &[(250, "a||b")]),
            (b"250 a\r\n354 b\r\n550-c\r\n550", &[(250, "a"), (354, "b")]),
            (b"550 gesch\xfctzt\r\n", &[(550, "gesch\u{fffd}tzt")]),
            ("250 für alle\r\n".as_bytes(), &[(250, "für alle")]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(code, text)| (*code, (*text).to_owned())).collect();
            assert_eq!(read(&[bytes]), (expected, false), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn what_is_no_reply_is_not_read_as_one() {
        let long = [b"250 ".as_slice(), &b"x".repeat(LONGEST_UNREAD)].concat();
        let endless = b"250-x\r\n".repeat(MOST_LINES + 1);
        for bytes in [
            &b"\x16\x03\x01 not smtp\r\n"[..],
            b"\r\n",
            b"25\r\n",
            b"250ok\r\n",
            b"199 a\r\n",
            b"600 a\r\n",
            b"2\xb20 a\r\n",
            b"250-a\r\n550 b\r\n",
            &long,
            &endless,
        ] {
            assert_eq!(read(&[bytes]), (Vec::new(), true), "{}", bytes[..bytes.len().min(20)].escape_ascii());
        }
    }

    #[test]
    fn a_long_line_is_cut_between_words_and_a_long_word_where_a_character_ends() {
        for (word, kept) in [
            ("ü".repeat(1500), "ü".repeat(LONGEST_LINE / 2)),
            (format!("{} <alice@x.test>", "x".repeat(LONGEST_LINE - 6)), "x".repeat(LONGEST_LINE - 6)),
        ] {
            let (found, _) = read(&[format!("550 {word}\r\n").as_bytes()]);
            assert_eq!(found[0].1, kept);
        }
    }

    #[test]
    fn what_nobody_asked_for_is_seen() {
        let mut replies = Replies::default();
        assert!(replies.is_empty());
        for (bytes, code, is_empty) in [
            (&b"250 asked\r\n421 bye\r\n4"[..], Some(250), false),
            (b"", Some(421), false),
            (b"21-more\r\n", None, false),
            (b"421 and", None, false),
            (b" more\r\n", Some(421), true),
        ] {
            replies.push(bytes);
            assert_eq!(replies.next().map(|said| said.map(|said| said.code)), Ok(code));
            assert_eq!(replies.is_empty(), is_empty, "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        /// Lines that are replies or nearly so, and any bytes; cut anywhere.
        #[test]
        fn how_the_bytes_are_cut_makes_no_difference(
            lines in prop::collection::vec(
                prop_oneof![
                    8 => "(250|354|421|550|[0-9]{0,4})[- ]?[a-z.é ]{0,40}\r?\n".prop_map(String::into_bytes),
                    4 => prop::collection::vec(any::<u8>(), 0..60),
                    1 => (0..LONGEST_UNREAD + 99).prop_map(|n| [b"250 ".as_slice(), &b"x".repeat(n)].concat()),
                ],
                0..12,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = lines.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            let whole = read(&[&bytes]);
            prop_assert_eq!(read(&pieces), whole.clone());
            if bytes.len() < 1_000 {
                let singly: Vec<&[u8]> = bytes.chunks(1).collect();
                prop_assert_eq!(read(&singly), whole);
            }
        }
    }
}
