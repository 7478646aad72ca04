//! Printed names without a value: a gap that readers see, never a silent blank.

use minijinja::{State, Value};

use crate::routing::submission::text::{bounded, one_line};

/// Longest name shown, in characters.
const MAX_NAME: usize = 80;

/// The names without a value, each once, in the order of their printing. Kept with the state of one rendering.
#[derive(Debug, Default)]
pub(super) struct Missing(pub(super) Vec<String>);

/// Text that readers see for a name without a value; the name is added to [`Missing`].
pub(super) fn gap(state: &mut State<'_, '_>, name: &str) -> Value {
    let name = bounded(one_line(name), MAX_NAME);
    let shown = format!("[missing: {name}]");
    let missing = state.get_or_insert_extension(Missing::default());
    if !missing.0.contains(&name) {
        missing.0.push(name);
    }
    Value::from(shown)
}
