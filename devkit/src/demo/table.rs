//! A table whose columns are as wide as what stands in them. Pure.

/// Lines of an aligned table: headings, a rule, the rows; two blanks between columns, none at the end of a line.
pub(super) fn aligned<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let cells: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let rule: [String; N] = widths.map(|width| "-".repeat(width));
    let mut lines = vec![line(headings), line(rule.each_ref().map(String::as_str))];
    lines.extend(rows.iter().map(|row| line(row.each_ref().map(String::as_str))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "received"], ["äöü long", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(
            aligned(["who", "status"], &rows),
            ["who       status", "--------  --------", "a         received", "äöü long"]
        );
    }
}
