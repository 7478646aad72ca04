//! Prose in Markdown: what is quoted in it, or fenced.

use std::ops::Range;

use crate::screening::tier1::lines::Lines;

/// Spaces that a fence may be indented by.
const INDENT: usize = 12;
/// Bytes before a match in which what hides it may open.
const HIDDEN: usize = 400;
/// Styles that nobody sees.
const UNSEEN: [&[u8]; 10] = [
    b"display:none",
    b"display: none",
    b"visibility:hidden",
    b"visibility: hidden",
    b"font-size:0",
    b"font-size: 0",
    b"color:#fff",
    b"color: #fff",
    b"color:white",
    b"color: white",
];
/// Bytes before a match in which a quote may open.
const BEFORE: usize = 16;

/// Fences of a text.
pub(super) struct Prose<'t> {
    text: &'t [u8],
    fences: Vec<usize>,
}

impl<'t> Prose<'t> {
    /// Finds the fences.
    pub(super) fn of(text: &'t [u8]) -> Self {
        let fences = memchr::memmem::find_iter(text, b"```")
            .filter(|at| {
                let indented = text[..*at].iter().rev().take(INDENT).take_while(|b| **b == b' ').count();
                at.checked_sub(indented + 1).is_none_or(|before| text[before] == b'\n')
            })
            .collect();
        Self { text, fences }
    }

    /// Whether a match stands where a reader of the page does not see it, and a model does.
    pub(super) fn hides(&self, span: &Range<usize>) -> bool {
        let before = &self.text[span.start.saturating_sub(HIDDEN)..span.start];
        let comment = memchr::memmem::rfind(before, b"<!--")
            .is_some_and(|open| memchr::memmem::rfind(before, b"-->").is_none_or(|close| close < open));
        let lower = before.to_ascii_lowercase();
        let styled = UNSEEN
            .iter()
            .filter_map(|style| memchr::memmem::rfind(&lower, style))
            .max()
            .is_some_and(|open| memchr::memmem::rfind(&lower, b"</").is_none_or(|close| close < open));
        comment || styled
    }

    /// Whether a match is in a fence, in a quoted paragraph, or right after a quote.
    pub(super) fn quotes(&self, lines: &Lines<'_>, span: &Range<usize>) -> bool {
        let fenced = self.fences.partition_point(|at| *at < span.start) % 2 == 1;
        let line = lines.around(span.start, 200).trim_ascii_start();
        let before = self.text[span.start.saturating_sub(BEFORE)..span.start].trim_ascii_end();
        let after_quote =
            [&b"\""[..], b"'", b"`", "“".as_bytes(), "‘".as_bytes(), "«".as_bytes(), "„".as_bytes()]
                .iter()
                .any(|quote| before.ends_with(quote));
        fenced || line.starts_with(b">") || line.starts_with(b"|") || after_quote
    }
}

/// Whether a line is about what git leaves out, or an example of settings: no credential is read by it.
pub(super) fn is_about_ignoring(line: &[u8]) -> bool {
    let line = line.to_ascii_lowercase();
    [&b"ignore"[..], b".env.example", b".env.sample", b".env.template", b"never commit", b"not commit"]
        .iter()
        .any(|word| memchr::memmem::find(&line, word).is_some())
}
