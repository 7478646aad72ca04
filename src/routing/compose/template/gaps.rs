//! Names that a template gives out and that have no value: a gap that readers see, never a silent blank.

use minijinja::{State, Value};

use crate::routing::text::{bounded, one_line};

/// Longest name shown, in characters.
const MAX_NAME: usize = 80;

/// The names that had no value, each once, in the order in which they were asked for. Kept with the state of one rendering.
#[derive(Debug, Default)]
pub(super) struct Missing(pub(super) Vec<String>);

/// What readers see in the place of a name that has no value; told of in [`Missing`].
pub(super) fn gap(state: &mut State<'_, '_>, name: &str) -> Value {
    let name = bounded(one_line(name), MAX_NAME);
    let shown = format!("[missing: {name}]");
    let missing = state.get_or_insert_extension(Missing::default());
    if !missing.0.contains(&name) {
        missing.0.push(name);
    }
    Value::from(shown)
}
