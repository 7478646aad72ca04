//! Rendering of pinned templates: what a template may see, how long it may run, how much it may say.
//!
//! | variable | value |
//! | --- | --- |
//! | `submission.id`, `submission.created_at` | the UUID; the time of receipt in the configured zone |
//! | `form.id`, `form.name` | the form; its name falls back to its id |
//! | `fields.KEY`, `fields["a key"]` | the field's value; several values of one key are joined with `, ` |
//!
//! A key that does not exist is empty, also where something is looked up in it, so that an optional field needs no
//! `if`. `fields` iterates in the submission's order. Nothing else is reachable: there is no loader, so `include` and
//! `extends` find nothing, no environment, no file, no clock. A template runs out of fuel rather than of time.
//! Templates come from the forms' own YAML and are trusted that far: one written to exhaust memory still could.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock};

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Environment, UndefinedBehavior, Value, context};

use super::ComposeInput;
use super::links::readable_time;
use crate::routing::text::{bounded, one_line};

/// Instructions one rendering may take; a loop over a thousand fields takes some ten thousand.
const FUEL: u64 = 500_000;
/// Nested calls of macros.
const RECURSION: usize = 50;

/// Which text of a template is rendered, which decides about escaping and bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Subject,
    BodyText,
    BodyHtml,
}

impl Part {
    /// The text's name, as in the `templates` table. The engine escapes by the name's ending.
    fn file_name(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::BodyText => "body_text",
            Self::BodyHtml => "body_html.html",
        }
    }

    /// Octets it may render to.
    fn limit(self) -> usize {
        match self {
            Self::Subject => 64 * 1024,
            Self::BodyText | Self::BodyHtml => 2 * 1024 * 1024,
        }
    }
}

/// Why a text could not be rendered, in words that hold no field value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RenderFault {
    /// Line in the template, from 1.
    pub(super) line: Option<usize>,
    /// What is wrong there.
    pub(super) what: String,
}

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_fuel(Some(FUEL));
    engine.set_recursion_limit(RECURSION);
    // `debug()` prints every value at once; `namespace()` lets a loop double a text until memory ends.
    engine.remove_global("debug");
    engine.remove_global("namespace");
    engine
});

/// What templates of one submission see; made when the first of them asks, since an interim mail asks for nothing.
pub(super) struct Variables<'a> {
    input: &'a ComposeInput<'a>,
    made: OnceCell<Value>,
}

impl<'a> Variables<'a> {
    pub(super) fn of(input: &'a ComposeInput<'a>) -> Self {
        Self { input, made: OnceCell::new() }
    }

    /// Renders one text of a template.
    pub(super) fn render(&self, part: Part, source: &str) -> Result<String, RenderFault> {
        let variables = self.made.get_or_init(|| variables(self.input)).clone();
        render(part, source, variables)
    }
}

fn variables(input: &ComposeInput<'_>) -> Value {
    let submission = context! {
        id => input.submission.id.to_string(),
        created_at => readable_time(input.submission.created_at, input.mail.time_zone),
    };
    let form = context! { id => input.submission.form_id, name => input.form_name() };
    context! { submission, form, fields => Value::from_object(Fields::new(input)) }
}

fn render(part: Part, source: &str, variables: Value) -> Result<String, RenderFault> {
    let mut rendered =
        Bounded { bytes: Vec::with_capacity(source.len()), limit: part.limit(), exceeded: false };
    let template =
        ENGINE.template_from_named_str(part.file_name(), source).map_err(|error| uncompilable(&error))?;
    let outcome = template.render_captured_to(variables, &mut rendered).map(drop);
    if rendered.exceeded {
        let what = format!("it renders to more than {} KiB", part.limit() / 1024);
        return Err(RenderFault { line: None, what });
    }
    match outcome {
        Ok(()) => Ok(String::from_utf8_lossy(&rendered.bytes).into_owned()),
        Err(error) => Err(unrunnable(&error, source)),
    }
}

/// The engine's words about a text that does not compile: they quote the text alone.
fn uncompilable(error: &minijinja::Error) -> RenderFault {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    RenderFault { line: error.line(), what }
}

/// What went wrong in a text that compiles. The engine's detail may quote a value (`include fields.x`,
/// `map(fields.x)`), and faults are logged, so the line of the text is quoted in its place.
fn unrunnable(error: &minijinja::Error, source: &str) -> RenderFault {
    let line = error.line();
    let quoted = line.and_then(|line| source.lines().nth(line.saturating_sub(1))).unwrap_or_default();
    let what = format!("{} in \"{}\"", error.kind(), bounded(one_line(quoted), 120));
    RenderFault { line, what }
}

/// The fields, in their order, one entry a key.
#[derive(Debug)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn new(input: &ComposeInput<'_>) -> Self {
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(input.fields.len());
        let mut joined: Vec<(String, String)> = Vec::with_capacity(input.fields.len());
        for field in input.ordered_fields() {
            match places.get(field.key.as_str()).and_then(|place| joined.get_mut(*place)) {
                Some((_, value)) => {
                    value.push_str(", ");
                    value.push_str(&field.value);
                }
                None => {
                    places.insert(&field.key, joined.len());
                    joined.push((field.key.clone(), field.value.clone()));
                }
            }
        }
        Self(joined.into_iter().map(|(key, value)| (key, Value::from(value))).collect())
    }
}

impl Object for Fields {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let keys: Vec<Value> = self.0.iter().map(|(key, _)| Value::from(key.as_str())).collect();
        Enumerator::Iter(Box::new(keys.into_iter()))
    }
}

/// A buffer that refuses to grow beyond its limit, and so ends the rendering.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    exceeded: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.limit {
            self.exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
