//! Limit of the bytes that one rendering may make, of every kind: texts, lists, copies, captures.
//!
//! Nothing is given back, so a rendering's memory at any time is a small multiple of the limit at most. A value weighs
//! its whole size when written out, so lists that contain one list twice weigh twice; and its depth can be walked by
//! recursion.

use minijinja::value::{DynObject, ValueKind};
use minijinja::{AutoEscape, Error, ErrorKind, Output, State, Value, escape_formatter};

use super::Fields;

/// Bytes of one rendering. A body is at most 2 MiB; a text that is assembled piece by piece is counted as often as there
/// are pieces.
const BUDGET: u64 = 16 * 1024 * 1024;
/// Deepest nesting of lists.
const DEPTH: usize = 16;
/// Bytes of a value by itself, and of a slot in a list or map.
pub(super) const PLACEHOLDER: u64 = 32;

/// Octets of the longest entity that a character becomes in HTML.
const LONGEST_ESCAPE: u64 = 6;

/// Error of a template over the limit of bytes; contains no value.
const TOO_MUCH: &str = "it takes more memory than a mail can need (16 MiB)";
/// Error of a template that nests too deep.
const TOO_DEEP: &str = "lists within lists, more than 16 deep";

/// Remaining bytes. Kept with the state of one rendering.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
}

/// Takes `bytes` from the rendering's budget.
pub(super) fn take(state: &mut State<'_, '_>, bytes: u64) -> Result<(), Error> {
    of(state).take(bytes)
}

/// Takes the value's weight; returns that weight.
pub(super) fn weigh(state: &mut State<'_, '_>, value: &Value) -> Result<u64, Error> {
    let budget = of(state);
    let before = budget.left;
    budget.weigh(value, 0)?;
    Ok(before - budget.left)
}

/// Prints a value, into the mail or into a capture.
pub(super) fn give_out(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let weight = weigh(state, value)?;
    if matches!(state.auto_escape(), AutoEscape::Html) && !value.is_safe() {
        let escaped = |text: &str| length(text.bytes().filter(|b| b"<>&\"'/".contains(b)).count());
        take(state, value.as_str().map_or(weight, escaped).saturating_mul(LONGEST_ESCAPE))?;
    }
    escape_formatter(out, state, value)
}

/// Our own error text in an error of the engine, where there is one.
pub(super) fn reported_by(error: &Error) -> Option<&'static str> {
    let detail = error.detail()?;
    [TOO_MUCH, TOO_DEEP].into_iter().find(|ours| *ours == detail)
}

fn of<'s>(state: &'s mut State<'_, '_>) -> &'s mut Budget {
    state.get_or_insert_extension(Budget { left: BUDGET })
}

impl Budget {
    fn take(&mut self, bytes: u64) -> Result<(), Error> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::new(ErrorKind::InvalidOperation, TOO_MUCH)),
        }
    }

    fn weigh(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.take(PLACEHOLDER)?;
        if let Some(text) = value.as_str() {
            return self.take(length(text.len()));
        }
        if let Some(fields) = value.downcast_object_ref::<Fields>() {
            return self.take(length(fields.octets()).saturating_add(length(fields.0.len()) * PLACEHOLDER));
        }
        let (ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) = value.kind() else {
            return self.take(value.as_bytes().map_or(0, |bytes| length(bytes.len())));
        };
        if depth == DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, TOO_DEEP));
        }
        if let Some(pairs) = value.as_object().and_then(DynObject::try_iter_pairs) {
            for (key, value) in pairs {
                self.weigh(&key, depth + 1)?;
                self.weigh(&value, depth + 1)?;
            }
            return Ok(());
        }
        for item in value.try_iter()? {
            self.weigh(&item, depth + 1)?;
        }
        Ok(())
    }
}

/// A length as a number of bytes.
pub(super) fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
