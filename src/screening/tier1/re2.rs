//! Expressions as RE2 reads them, since gitleaks' are written for it.

use regex::bytes::{Regex, RegexBuilder};

use super::fault::RulesetError;

/// Size that a compiled expression may have, in bytes.
const SIZE: usize = 10 * 1024 * 1024;

/// Compiles an expression as RE2 would read it: bytes, not characters.
///
/// # Errors
///
/// An expression that does not compile, told with the rule's id.
pub(super) fn compile(rule: &str, expression: &str) -> Result<Regex, RulesetError> {
    RegexBuilder::new(&as_re2(expression))
        .unicode(false)
        .size_limit(SIZE)
        .build()
        .map_err(|error| RulesetError::expression(rule, &error))
}

/// Spaces of RE2's `\s`: without the vertical tab that ours has.
const SPACES: &str = r"\t\n\x0C\r ";
/// All bytes but those.
const NO_SPACES: &str = r"\x00-\x08\x0B\x0E-\x1F\x21-\xFF";

/// The expression as RE2 reads it: braces that count nothing are literal, and the vertical tab is no space.
fn as_re2(expression: &str) -> String {
    let mut written = String::with_capacity(expression.len() + 64);
    let (mut in_class, mut rest) = (false, expression);
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            '\\' => {
                let escaped = rest[1..].chars().next();
                length += escaped.map_or(0, char::len_utf8);
                let spaces = match escaped {
                    Some('s') => SPACES,
                    Some('S') => NO_SPACES,
                    // Braces that belong to the escape.
                    Some('x' | 'p' | 'P') if rest[2..].starts_with('{') => {
                        length = rest.find('}').map_or(rest.len(), |end| end + 1);
                        ""
                    }
                    Some(_) | None => "",
                };
                if !spaces.is_empty() {
                    let (open, close) = if in_class { ("", "") } else { ("[", "]") };
                    written.extend([open, spaces, close]);
                    rest = &rest[length..];
                    continue;
                }
            }
            '[' if !in_class => {
                in_class = true;
                length += usize::from(rest[1..].starts_with('^'));
                // `]` is itself where it comes first.
                length += usize::from(rest[length..].starts_with(']'));
            }
            ']' => in_class = false,
            '{' if !in_class && !is_count(&rest[1..]) => written.push('\\'),
            _ => {}
        }
        written.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    written
}

/// Whether what follows a brace is `n}`, `n,}` or `n,m}`.
fn is_count(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else { return false };
    let (from, to) = inside.split_once(',').unwrap_or((inside, ""));
    !from.is_empty() && from.bytes().chain(to.bytes()).all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_read_as_re2_does() {
        for (expression, expected) in [
            (r"a{2}b{1,}c{3,4}", r"a{2}b{1,}c{3,4}"),
            (r"^\${(?:[A-Z]+)}$", r"^\$\{(?:[A-Z]+)}$"),
            (r"(?:\d+|{\d+})", r"(?:\d+|\{\d+})"),
            (r"[{}]\{\x{41}\p{L}[]{]", r"[{}]\{\x{41}\p{L}[]{]"),
            (r"{", r"\{"),
            (r"a\", r"a\"),
            (r"a\s+[\s,]", r"a[\t\n\x0C\r ]+[\t\n\x0C\r ,]"),
            (r"\\s[\S]", r"\\s[\x00-\x08\x0B\x0E-\x1F\x21-\xFF]"),
        ] {
            assert_eq!(as_re2(expression), expected);
        }
    }
}
