//! Layout of results for their terminal: text wrapped under itself, tables whose columns continue below where the
//! line is too short. Ids, addresses and commands are words, and a word is never broken.
//!
//! Pure.

pub(super) use crate::queries::layout::{chars, span, wrapped};

/// The same text with every line wrapped that is longer than `width`; continuations are indented.
pub(super) fn folded(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut folded = String::with_capacity(text.len());
    for line in text.lines() {
        for part in wrapped("", BELOW, line, width) {
            folded.push_str(&part);
            folded.push('\n');
        }
    }
    folded
}

/// Alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Rows of cells below their names.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

/// Blanks between two columns.
const GAP: usize = 2;
/// Blanks before a continuation.
const BELOW: usize = 4;

impl Table {
    pub(super) fn new(columns: &[(&'static str, Side)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: a cell for each column.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table; without `width` a line a row, however long.
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let head: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let all = || std::iter::once(&head).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|n| all().filter_map(|cells| cells.get(n)).map(|cell| chars(cell)).max().unwrap_or_default())
            .collect();
        let lines = broken(&widths, width.unwrap_or(usize::MAX));
        let mut text = String::new();
        for cells in all() {
            for (n, columns) in lines.iter().enumerate() {
                let indent = if n == 0 { 0 } else { BELOW };
                let below = if lines.len() > 1 { BELOW } else { 0 };
                for line in self.line(cells, columns, &widths, (indent, indent.max(below)), width) {
                    text.push_str(&line);
                    text.push('\n');
                }
            }
        }
        text
    }

    /// The cells of these columns; the last one is wrapped where it is too long.
    fn line(
        &self,
        cells: &[String],
        columns: &[usize],
        widths: &[usize],
        (indent, below): (usize, usize),
        width: Option<usize>,
    ) -> Vec<String> {
        let mut line = " ".repeat(indent);
        for (place, column) in columns.iter().enumerate() {
            let (cell, wide) = (cells.get(*column).map_or("", String::as_str), widths[*column]);
            let pad = " ".repeat(wide.saturating_sub(chars(cell)));
            let is_last = place + 1 == columns.len();
            match (self.columns[*column].1, is_last) {
                (Side::Right, _) => line.push_str(&format!("{pad}{cell}")),
                (Side::Left, true) if cell.is_empty() => {}
                (Side::Left, true) => {
                    return wrapped(&line, below.max(BELOW), cell, width.unwrap_or(usize::MAX));
                }
                (Side::Left, false) => line.push_str(&format!("{cell}{pad}")),
            }
            if !is_last {
                line.push_str(&" ".repeat(GAP));
            }
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() { Vec::new() } else { vec![line] }
    }
}

/// Columns by the line they stand on: as many on each as fit.
fn broken(widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let mut lines: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (column, wide) in widths.iter().enumerate() {
        match lines.last_mut() {
            Some(line) if used + GAP + wide <= width => {
                line.push(column);
                used += GAP + wide;
            }
            Some(_) | None => {
                used = wide + if lines.is_empty() { 0 } else { BELOW };
                lines.push(vec![column]);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";

    fn table() -> Table {
        let mut table = Table::new(&[
            ("id", Side::Left),
            ("form", Side::Left),
            ("n", Side::Right),
            ("deliveries", Side::Left),
        ]);
        table.row(vec![
            ID.to_owned(),
            "contact".to_owned(),
            "1".to_owned(),
            "1 accepted, 1 failed".to_owned(),
        ]);
        table.row(vec![ID.to_owned(), "a longer one".to_owned(), "12".to_owned(), String::new()]);
        table
    }

    #[test]
    fn a_table_is_a_line_a_row_where_there_is_room_and_off_a_terminal() {
        let wide = "id                                    form           n  deliveries\n\
                    6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11  contact        1  1 accepted, 1 failed\n\
                    6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11  a longer one  12\n";
        assert_eq!(table().text(None), wide);
        assert_eq!(table().text(Some(120)), wide);
    }

    #[test]
    fn columns_go_on_below_where_the_line_is_too_short_and_no_word_is_broken() {
        let narrow = "id                                    form           n\n    deliveries\n\
                      6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11  contact        1\n    1 accepted, 1 failed\n\
                      6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11  a longer one  12\n";
        assert_eq!(table().text(Some(60)), narrow);
        for width in 20..130 {
            let text = table().text(Some(width));
            assert_eq!(text.matches(ID).count(), 2, "{width}: {text}");
            let too_long = |line: &&str| line.chars().count() > width.max(ID.len() + BELOW);
            assert_eq!(text.lines().find(too_long), None, "{width}: {text}");
        }
    }

    #[test]
    fn text_is_wrapped_under_itself() {
        assert_eq!(wrapped("why  ", 5, "one two three", 12), ["why  one two", "     three"]);
        assert_eq!(wrapped("", 2, ID, 10), [ID], "a word is never broken");
        assert_eq!(wrapped("  ", 4, &format!("  {ID}"), 20), [format!("    {ID}")], "no line of spaces");
        assert_eq!(folded("one two three\nfour", Some(9)), "one two\n    three\nfour\n");
        assert_eq!(folded("one  two", Some(9)), "one  two\n", "columns stay where they are");
        assert_eq!(
            folded("\u{1b}[31mone\u{1b}[0m two", Some(7)),
            "\u{1b}[31mone\u{1b}[0m two\n",
            "colours are not seen"
        );
        assert_eq!(folded("one two three", None), "one two three");
    }
}
