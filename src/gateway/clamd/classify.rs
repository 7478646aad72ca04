//! The one classifier of clamd's answers: what became of a scan.
//!
//! Pure. Nothing but exactly `stream: OK` is clean: after every byte was sent, in an answer that ended as clamd ends it, on a
//! connection that it closed with nothing unread. All else is unscanned, which is retried, unless clamd names what it found.

use std::fmt;
use std::time::Duration;

/// Longest answer that is read, in bytes.
pub(super) const LONGEST: usize = 4 * 1024;
/// Characters kept of a signature's name, and of clamd's words.
const KEPT: usize = 200;
/// Answers end with it, since commands begin with `z`.
pub(super) const END: u8 = 0;

/// Result of a scan. Only [`Verdict::Clean`] lets content through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every byte was scanned, and nothing found.
    Clean,
    /// Something was found.
    Infected {
        /// Name of the signature: printable ASCII, 200 characters at most.
        signature: String,
    },
    /// clamd says that it cannot look inside; asking again changes nothing.
    Unscannable {
        /// Name of the heuristic, as a signature's.
        why: String,
    },
    /// There is no verdict; it may be asked for again.
    Unscanned {
        /// Cause.
        why: NoAnswer,
    },
}

impl Verdict {
    /// Label of the verdict, for metrics and logs.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Infected { .. } => "infected",
            Self::Unscannable { .. } => "unscannable",
            Self::Unscanned { .. } => "unscanned",
        }
    }
}

impl From<NoAnswer> for Verdict {
    fn from(why: NoAnswer) -> Self {
        Self::Unscanned { why }
    }
}

/// Why clamd did not do what it was asked. Nothing of what was sent is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// No connection was made; in words, with the address.
    #[error("{0}")]
    Away(String),
    /// clamd closed the connection, and had said nothing whole.
    #[error("clamd closed the connection without an answer; see its log")]
    Closed,
    /// The connection broke, or clamd closed it before it had read everything.
    #[error("the connection to clamd broke before the answer was certain; see its log")]
    Lost,
    /// clamd took no bytes for this long.
    #[error("clamd took no bytes for {}; is it overloaded or stopped?", humantime::format_duration(*.0))]
    Stalled(Duration),
    /// clamd said nothing for this long after all was sent.
    #[error("clamd gave no answer within {}; is it overloaded or stopped?", humantime::format_duration(*.0))]
    Silent(Duration),
    /// clamd says that it failed; its words, printable ASCII, 200 characters at most.
    #[error("clamd answers \"{0}\"; see its log")]
    Failed(String),
    /// More was sent than clamd takes.
    #[error("clamd takes fewer bytes than the file has: raise StreamMaxLength in clamd.conf")]
    TooLarge,
    /// A verdict came before everything was sent: it is about less than the file.
    #[error("clamd gave a verdict on what it had not read; is it clamd that listens there?")]
    Early,
    /// The answer is none of clamd's.
    #[error("what listens there does not answer as clamd does")]
    NotClamd,
    /// Fewer or more bytes came than were announced, or a write was given up.
    #[error("the file was not sent to clamd as announced")]
    Incomplete,
}

impl NoAnswer {
    /// Label of the cause, for metrics and logs.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Away(_) => "away",
            Self::Closed => "closed",
            Self::Lost => "lost",
            Self::Stalled(_) => "stalled",
            Self::Silent(_) => "silent",
            Self::Failed(_) => "failed",
            Self::TooLarge => "too_large",
            Self::Early => "early",
            Self::NotClamd => "not_clamd",
            Self::Incomplete => "incomplete",
        }
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// clamd closed the connection, with nothing of ours unread.
    Closed,
    /// The connection broke: clamd died, or closed it with bytes of ours unread.
    Broken,
    /// Nothing more came for this long.
    Silence(Duration),
    /// More came than is read.
    TooLong,
}

/// An answer, as much of it as there was.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Heard {
    /// Its bytes.
    pub(super) said: Vec<u8>,
    /// How it ended.
    pub(super) ending: Ending,
    /// Whether all had been sent before its first byte came.
    pub(super) all_sent: bool,
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = clean(&self.said);
        f.debug_struct("Heard").field("said", &said).field("ending", &self.ending).finish_non_exhaustive()
    }
}

/// The verdict of a scan.
#[must_use]
pub(super) fn verdict(heard: &Heard) -> Verdict {
    match found(heard) {
        Ok(verdict) => verdict,
        Err(why) => Verdict::Unscanned { why },
    }
}

fn found(heard: &Heard) -> Result<Verdict, NoAnswer> {
    let line = line(heard)?;
    let about_stream = line.strip_prefix(b"stream: ");
    let named = about_stream.and_then(|rest| rest.strip_suffix(b" FOUND")).filter(|name| !name.is_empty());
    let verdict = match (line, named) {
        (b"stream: OK", _) => Verdict::Clean,
        (_, Some(name)) => {
            let signature = clean(name);
            if is_obstacle(&signature) {
                Verdict::Unscannable { why: signature }
            } else {
                Verdict::Infected { signature }
            }
        }
        (_, None) => return Err(NoAnswer::NotClamd),
    };
    // A verdict counts only where clamd has read all of it: closing with bytes unread breaks the connection.
    if heard.all_sent { proper_end(heard).map(|()| verdict) } else { Err(NoAnswer::Early) }
}

/// The answer to a command without content: its line, where that ended as clamd ends it.
pub(super) fn reply(heard: &Heard) -> Result<&[u8], NoAnswer> {
    let line = line(heard)?;
    proper_end(heard)?;
    Ok(line)
}

fn proper_end(heard: &Heard) -> Result<(), NoAnswer> {
    match heard.ending {
        Ending::Closed => Ok(()),
        Ending::Broken => Err(NoAnswer::Lost),
        Ending::Silence(patience) => Err(NoAnswer::Silent(patience)),
        Ending::TooLong => Err(NoAnswer::NotClamd),
    }
}

/// The one line of an answer. What clamd says of a failure counts however the connection ended.
fn line(heard: &Heard) -> Result<&[u8], NoAnswer> {
    let mut lines = heard.said.splitn(2, |byte| *byte == END);
    match (lines.next().unwrap_or_default(), lines.next()) {
        (line, Some([])) => match failure(line) {
            Some(why) => Err(why),
            None => Ok(line),
        },
        // Two answers to one question.
        (_, Some(_)) => Err(NoAnswer::NotClamd),
        (half, None) => Err(match heard.ending {
            Ending::Closed if half.is_empty() => NoAnswer::Closed,
            Ending::Closed | Ending::TooLong => NoAnswer::NotClamd,
            Ending::Broken => NoAnswer::Lost,
            Ending::Silence(patience) => NoAnswer::Silent(patience),
        }),
    }
}

/// What clamd says where it has no verdict.
fn failure(line: &[u8]) -> Option<NoAnswer> {
    if line == b"INSTREAM size limit exceeded. ERROR" {
        return Some(NoAnswer::TooLarge);
    }
    // The second is said to a client that pauses for too long.
    let failed = line.ends_with(b" ERROR") || line == b"ERROR" || line.ends_with(b"TIMED OUT");
    failed.then(|| NoAnswer::Failed(clean(line)))
}

/// Names under which clamd says that it did not look at everything: `AlertExceedsMax` and `AlertEncrypted`.
fn is_obstacle(signature: &str) -> bool {
    ["Heuristics.Limits.Exceeded", "Heuristics.Encrypted."].iter().any(|name| signature.starts_with(name))
}

/// A name or a sentence from outside: printable ASCII, shortened.
fn clean(bytes: &[u8]) -> String {
    let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' };
    bytes.iter().take(KEPT).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(7);

    fn heard(said: &[u8], ending: Ending, all_sent: bool) -> Heard {
        Heard { said: said.to_vec(), ending, all_sent }
    }

    #[test]
    fn nothing_but_exactly_one_answer_is_clean() {
        let clean = heard(b"stream: OK\0", Ending::Closed, true);
        assert_eq!(verdict(&clean), Verdict::Clean);
        for said in [
            &b""[..],
            b"\0",
            b"stream: OK",
            b"stream: OK\n",
            b"stream: OK\n\0",
            b"stream: OK\r\0",
            b"stream: OK \0",
            b" stream: OK\0",
            b"stream:  OK\0",
            b"stream: ok\0",
            b"Stream: OK\0",
            b"OK\0",
            b"stream: \0",
            b"stream: O\0",
            b"stream: NOT OK\0",
            b"stream: x OK\0",
            b"stream: OK OK\0",
            b"\0stream: OK\0",
            b"stream: OK\0\0",
            b"stream: OK\0x",
            b"stream: OK\0stream: OK\0",
            b"stream: OK\0stream: Eicar FOUND\0",
            b"1: stream: OK\0",
            b"stream: FOUND\0",
            b"stream:  FOUND\0",
            b"stream: Eicar found\0",
            b"Eicar FOUND\0",
            b"PONG\0",
            b"UNKNOWN COMMAND\0",
            b"\xff\xfe\0",
            b"HTTP/1.1 200 OK\r\n\r\n",
        ] {
            let verdict = verdict(&heard(said, Ending::Closed, true));
            assert_eq!(verdict.label(), "unscanned", "{said:?}: {verdict:?}");
        }
        for ending in [Ending::Broken, Ending::Silence(PATIENCE), Ending::TooLong] {
            let verdict = verdict(&Heard { ending, ..clean.clone() });
            assert_eq!(verdict.label(), "unscanned", "{ending:?}");
        }
        let early = Heard { all_sent: false, ..clean };
        assert_eq!(verdict(&early), NoAnswer::Early.into());
    }

    #[test]
    fn every_answer_has_one_meaning() {
        use Ending::{Broken, Closed, Silence, TooLong};
        let infected = |name: &str| Verdict::Infected { signature: name.to_owned() };
        let unscannable = |name: &str| Verdict::Unscannable { why: name.to_owned() };
        let failed = |words: &str| Verdict::from(NoAnswer::Failed(words.to_owned()));
        let cases: &[(&[u8], Ending, bool, Verdict)] = &[
            (b"stream: Eicar FOUND\0", Closed, true, infected("Eicar")),
            (b"stream: A.B-1 C.UNOFFICIAL FOUND\0", Closed, true, infected("A.B-1 C.UNOFFICIAL")),
            (b"stream: x\n\x1b\xff\" FOUND\0", Closed, true, infected("x???\"")),
            (b"stream: FOUND FOUND\0", Closed, true, infected("FOUND")),
            (b"stream: OK FOUND\0", Closed, true, infected("OK")),
            (b"stream: Heuristics.OLE2.ContainsMacros FOUND\0", Closed, true, {
                infected("Heuristics.OLE2.ContainsMacros")
            }),
            (b"stream: Heuristics.Limits.Exceeded.MaxScanSize FOUND\0", Closed, true, {
                unscannable("Heuristics.Limits.Exceeded.MaxScanSize")
            }),
            (b"stream: Heuristics.Limits.Exceeded FOUND\0", Closed, true, {
                unscannable("Heuristics.Limits.Exceeded")
            }),
            (b"stream: Heuristics.Encrypted.Zip FOUND\0", Closed, true, {
                unscannable("Heuristics.Encrypted.Zip")
            }),
            (b"stream: My.Heuristics.Encrypted.Zip FOUND\0", Closed, true, {
                infected("My.Heuristics.Encrypted.Zip")
            }),
            (b"stream: Eicar FOUND\0", Closed, false, NoAnswer::Early.into()),
            (b"stream: Eicar FOUND\0", Broken, true, NoAnswer::Lost.into()),
            (b"stream: Eicar FOUND\0", Silence(PATIENCE), true, NoAnswer::Silent(PATIENCE).into()),
            (b"stream: OK\0", Silence(PATIENCE), true, NoAnswer::Silent(PATIENCE).into()),
            (b"stream: OK\0", Silence(PATIENCE), false, NoAnswer::Early.into()),
            (b"stream: OK\0", Broken, true, NoAnswer::Lost.into()),
            (b"INSTREAM size limit exceeded. ERROR\0", Closed, false, NoAnswer::TooLarge.into()),
            (b"INSTREAM size limit exceeded. ERROR\0", Broken, false, NoAnswer::TooLarge.into()),
            (b"INSTREAM size limit exceeded. ERROR\0", Silence(PATIENCE), true, NoAnswer::TooLarge.into()),
            (b"Error writing to temporary file ERROR\0", Closed, true, {
                failed("Error writing to temporary file ERROR")
            }),
            (b"stream: Can't allocate memory ERROR\0", Broken, false, {
                failed("stream: Can't allocate memory ERROR")
            }),
            (b"stream: Eicar FOUND ERROR\0", Closed, true, failed("stream: Eicar FOUND ERROR")),
            (b"stream: OK ERROR\0", Closed, true, failed("stream: OK ERROR")),
            (b"ERROR\0", Closed, true, failed("ERROR")),
            (b"COMMAND READ TIMED OUT\0", Closed, false, failed("COMMAND READ TIMED OUT")),
            (b"x ERROR\0y", Closed, true, NoAnswer::NotClamd.into()),
            (b"", Closed, true, NoAnswer::Closed.into()),
            (b"", Closed, false, NoAnswer::Closed.into()),
            (b"", Broken, true, NoAnswer::Lost.into()),
            (b"", Silence(PATIENCE), true, NoAnswer::Silent(PATIENCE).into()),
            (b"stream: O", Closed, true, NoAnswer::NotClamd.into()),
            (b"stream: O", Broken, true, NoAnswer::Lost.into()),
            (b"stream: O", Silence(PATIENCE), true, NoAnswer::Silent(PATIENCE).into()),
            (&[b'x'; LONGEST], TooLong, true, NoAnswer::NotClamd.into()),
        ];
        for (said, ending, all_sent, expected) in cases {
            let heard = heard(said, *ending, *all_sent);
            assert_eq!(verdict(&heard), *expected, "{heard:?}");
        }
    }

    #[test]
    fn a_name_is_bounded_and_printable() {
        let mut said = b"stream: ".to_vec();
        said.extend([b'\xe4'; 4000]);
        said.extend(b" FOUND\0");
        let Verdict::Infected { signature } = verdict(&heard(&said, Ending::Closed, true)) else {
            panic!("infected")
        };
        assert_eq!(signature, "?".repeat(KEPT));
    }

    #[test]
    fn a_reply_is_a_line_that_was_ended() {
        assert_eq!(reply(&heard(b"PONG\0", Ending::Closed, true)), Ok(&b"PONG"[..]));
        for (said, ending, expected) in [
            (&b"PONG\0"[..], Ending::Broken, NoAnswer::Lost),
            (b"PONG\n", Ending::Closed, NoAnswer::NotClamd),
            (b"PONG\0PONG\0", Ending::Closed, NoAnswer::NotClamd),
            (b"", Ending::Closed, NoAnswer::Closed),
            (b"x ERROR\0", Ending::Closed, NoAnswer::Failed("x ERROR".to_owned())),
        ] {
            assert_eq!(reply(&heard(said, ending, true)), Err(expected), "{said:?}");
        }
    }
}
