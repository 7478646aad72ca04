//! Lines of a text: which one an offset is in, and what is in it.

use std::ops::Range;

/// Offsets of the line ends of a text.
pub(super) struct Lines<'t> {
    text: &'t [u8],
    ends: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// Finds the ends.
    pub(super) fn of(text: &'t [u8]) -> Self {
        Self { text, ends: memchr::memchr_iter(b'\n', text).collect() }
    }

    /// Line of an offset, from 1.
    pub(super) fn number(&self, at: usize) -> u32 {
        u32::try_from(self.ends.partition_point(|end| *end < at) + 1).unwrap_or(u32::MAX)
    }

    /// Range of a line, without its end. Empty where there is no such line.
    pub(super) fn range(&self, line: u32) -> Range<usize> {
        let at = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
        let start = match at {
            0 => 0,
            at => self.ends.get(at - 1).map_or(self.text.len(), |end| end + 1),
        };
        let end = self.ends.get(at).copied().unwrap_or(self.text.len());
        start..end.max(start)
    }

    /// The line, of a long one only this many bytes around an offset of it.
    pub(super) fn around(&self, at: usize, most: usize) -> &'t [u8] {
        let line = self.range(self.number(at));
        let start = line.start.max(at.saturating_sub(most));
        let end = line.end.min(at.saturating_add(most)).max(start);
        &self.text[start..end]
    }

    /// A line by its number, cut to so many bytes.
    pub(super) fn text(&self, line: u32, most: usize) -> &'t [u8] {
        let range = self.range(line);
        let end = range.end.min(range.start.saturating_add(most));
        &self.text[range.start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_a_line() {
        let lines = Lines::of(b"one\ntwo\n\nfour");
        let numbers: Vec<_> = [0, 3, 4, 8, 9, 12].map(|at| lines.number(at)).into();
        assert_eq!(numbers, [1, 1, 2, 3, 4, 4]);
        assert_eq!(lines.text(2, 100), b"two");
        assert_eq!(lines.text(3, 100), b"");
        assert_eq!(lines.text(9, 100), b"");
        assert_eq!(lines.around(11, 1), b"ou");
    }
}
