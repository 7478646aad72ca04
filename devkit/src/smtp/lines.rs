//! The text forms of the dialogue: paths in commands, replies of several lines. Pure.

/// `FROM:<a@b> SIZE=1` → (`a@b`, `SIZE=1`).
pub(super) fn path<'a>(argument: &'a str, keyword: &str) -> Option<(String, &'a str)> {
    let given = argument.get(..keyword.len())?;
    if !given.eq_ignore_ascii_case(keyword) {
        return None;
    }
    let rest = argument[keyword.len()..].trim_start().strip_prefix('<')?;
    let (address, parameters) = rest.rsplit_once('>')?;
    Some((address.to_owned(), parameters.trim()))
}

/// Joins complete lines to one reply: all but the last get a dash behind the code.
pub(super) fn multi_line(lines: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        if i + 1 < lines.len() && line.is_char_boundary(3) && line.len() >= 3 {
            let (code, text) = line.split_at(3);
            out.extend_from_slice(code.as_bytes());
            out.push(b'-');
            out.extend_from_slice(text.trim_start().as_bytes());
        } else {
            out.extend_from_slice(line.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{multi_line, path};

    #[test]
    fn paths_are_taken_out_of_their_brackets() {
        for (argument, keyword, expected) in [
            ("FROM:<a@b> SIZE=12 SMTPUTF8", "FROM:", Some(("a@b", "SIZE=12 SMTPUTF8"))),
            ("from:<>", "FROM:", Some(("", ""))),
            ("TO: <\"a>b\"@c>", "TO:", Some(("\"a>b\"@c", ""))),
            ("TO:a@b", "TO:", None),
            ("é", "TO:", None),
        ] {
            let found = path(argument, keyword);
            assert_eq!(found.as_ref().map(|(a, p)| (a.as_str(), *p)), expected, "{argument}");
        }
    }

    #[test]
    fn replies_of_several_lines_have_dashes() {
        let lines = ["250 a".to_owned(), "250 SIZE 5".to_owned(), "250 b".to_owned()];
        assert_eq!(multi_line(&lines), b"250-a\r\n250-SIZE 5\r\n250 b\r\n");
    }
}
