//! How deep brackets are nested, seen in the text before the engine reads it. Pure.
//!
//! The engine reads each `[` and `{` twice, once as a comprehension, and so takes twice as long for each level (seen: sixteen, half
//! a second; thirty, all memory). Its timer runs only once it is asked.

use super::away::Away;

/// Deepest nesting of brackets. Policies have four or five.
const DEEPEST: usize = 12;

/// Where the text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Code,
    Comment,
    Quoted,
    Raw,
}

/// Refuses a text whose brackets are nested deeper than may be.
///
/// # Errors
/// [`Away::Refused`], with the line.
pub(super) fn bounded(file: &str, text: &str) -> Result<(), Away> {
    let (mut state, mut depth, mut line) = (In::Code, 0_usize, 1_usize);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        state = match (state, c) {
            (In::Code, '"') => In::Quoted,
            (In::Code, '`') => In::Raw,
            (In::Code, '#') => In::Comment,
            (In::Comment | In::Quoted, '\n') | (In::Quoted, '"') | (In::Raw, '`') => In::Code,
            (In::Quoted, '\\') => {
                chars.next();
                state
            }
            (In::Code, '[' | '{') => {
                depth += 1;
                state
            }
            (In::Code, ']' | '}') => {
                depth = depth.saturating_sub(1);
                state
            }
            _ => state,
        };
        if depth > DEEPEST {
            let what = format!("brackets are nested deeper than {DEEPEST}");
            return Err(Away::Refused { at: format!("{file}:{line}"), what });
        }
    }
    Ok(())
}
