//! Rendering of pinned templates: visible variables, limits of instructions and of output.
//!
//! | variable | value |
//! | --- | --- |
//! | `submission.id`, `submission.created_at` | the UUID; the time of receipt in the configured zone |
//! | `form.id`, `form.name` | the form; its name falls back to its id |
//! | `fields.KEY`, `fields["a key"]` | the field's value; several values of one key are joined with `, ` |
//! | `grading` | the final grade, as `grading` results are documented (`grading.overallScore`, `grading.band`, …); without one it is not there |
//!
//! A key without a value is a gap that readers see (`[missing: phone]`) where it is printed, and false where it is
//! tested, also where a key is looked up in it: an optional field needs an `if`, or `default`. `fields` iterates in the
//! submission's order. Nothing else is reachable: there is no loader, so `include` and `extends` load nothing, no
//! environment, no file, no clock. A template runs out of fuel rather than of time, and out of its [`budget`] of bytes
//! rather than of memory.

mod budget;
mod filters;
mod gaps;
mod rewrite;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use minijinja::machinery::{CodeGenerator, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};

use super::ComposeInput;
use super::when::readable_time;
use crate::routing::submission::text::{bounded, one_line};

/// Largest number of instructions of one rendering; a loop over a thousand fields takes some ten thousand.
const FUEL: u64 = 500_000;
/// Deepest nesting of macro calls.
const RECURSION: usize = 50;

/// Rendered text of a template; decides about escaping and bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Subject,
    BodyText,
    BodyHtml,
}

impl Part {
    /// Name of the text, as in the `templates` table.
    fn name(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::BodyText => "body_text",
            Self::BodyHtml => "body_html",
        }
    }

    fn escape(self) -> AutoEscape {
        match self {
            Self::Subject | Self::BodyText => AutoEscape::None,
            Self::BodyHtml => AutoEscape::Html,
        }
    }

    /// Largest rendered size in octets.
    fn limit(self) -> usize {
        match self {
            Self::Subject => 64 * 1024,
            Self::BodyText | Self::BodyHtml => 2 * 1024 * 1024,
        }
    }
}

/// Reason why a text could not be rendered; contains no field value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RenderFault {
    /// Line in the template, from 1.
    pub(super) line: Option<usize>,
    /// Description of the fault.
    pub(super) what: String,
}

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_fuel(Some(FUEL));
    engine.set_recursion_limit(RECURSION);
    // `debug()` prints every value at once; a `namespace()` is mutable, so a weighed one could grow.
    engine.remove_global("debug");
    engine.remove_global("namespace");
    filters::install(&mut engine);
    engine.set_formatter(budget::give_out);
    engine
});

/// Variables of one submission's templates; made at the first rendering, since an interim mail needs none.
pub(super) struct Variables<'a> {
    input: &'a ComposeInput<'a>,
    made: OnceCell<Value>,
    /// Names without a value that templates print, each once.
    missing: RefCell<Vec<String>>,
}

impl<'a> Variables<'a> {
    pub(super) fn of(input: &'a ComposeInput<'a>) -> Self {
        Self { input, made: OnceCell::new(), missing: RefCell::default() }
    }

    /// Names without a value that the templates rendered so far print: each is a gap in the mail.
    pub(super) fn missing(self) -> Vec<String> {
        self.missing.into_inner()
    }

    /// Renders a text by itself; `None` where it asks for what the submission does not have.
    pub(super) fn value(&self, part: Part, source: &str) -> Result<Option<String>, RenderFault> {
        let variables = self.made.get_or_init(|| variables(self.input)).clone();
        let (text, gaps) = render(part, source, variables)?;
        Ok(gaps.is_empty().then_some(text))
    }

    /// Renders one text of a template.
    pub(super) fn render(&self, part: Part, source: &str) -> Result<String, RenderFault> {
        let variables = self.made.get_or_init(|| variables(self.input)).clone();
        let (text, gaps) = render(part, source, variables)?;
        let mut missing = self.missing.borrow_mut();
        for name in gaps {
            if !missing.contains(&name) {
                missing.push(name);
            }
        }
        Ok(text)
    }
}

fn variables(input: &ComposeInput<'_>) -> Value {
    let submission = context! {
        id => input.submission.id.to_string(),
        created_at => readable_time(input.submission.created_at, input.mail.time_zone),
    };
    let form = context! { id => input.submission.form_id, name => input.form_name() };
    // Where there is none the name has no value, as a field that is away: `if grading` is false.
    let grading = input.grade.map_or(Value::UNDEFINED, |grade| value(grade.document()));
    context! { submission, form, fields => Value::from_object(Fields::new(input)), grading }
}

/// A document as templates see it. It is no deeper than its parser allows.
fn value(document: &serde_json::Value) -> Value {
    match document {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(truth) => Value::from(*truth),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from(whole),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::from(number.to_string()),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => Value::from(items.iter().map(value).collect::<Vec<_>>()),
        serde_json::Value::Object(of) => {
            Value::from_pairs(of.iter().map(|(key, of)| (key.as_str(), value(of))))
        }
    }
}

/// Renders a text; returns it with the names in it that have no value.
fn render(part: Part, source: &str, variables: Value) -> Result<(String, Vec<String>), RenderFault> {
    rewrite::parseable(source).map_err(|(line, what)| RenderFault { line: Some(line), what })?;
    let tree = parse(source, part.name(), SyntaxConfig::default()).map_err(|error| uncompilable(&error))?;
    let mut code = CodeGenerator::new(part.name(), source);
    code.compile_stmt(&rewrite::bounded(&tree));
    let (instructions, blocks) = code.finish();
    let mut text = String::with_capacity(source.len());
    let outcome =
        eval(&ENGINE, &instructions, variables, &blocks, &mut make_string_output(&mut text), part.escape());
    let gaps = match outcome {
        Ok((_, mut state)) => {
            state.get_extension_mut::<gaps::Missing>().map(|missing| std::mem::take(&mut missing.0))
        }
        Err(error) => return Err(unrunnable(&error, source)),
    };
    if text.len() > part.limit() {
        let what = format!("it renders to more than {} KiB", part.limit() / 1024);
        return Err(RenderFault { line: None, what });
    }
    Ok((text, gaps.unwrap_or_default()))
}

/// Converts the engine's error on a text that does not compile: it quotes the text alone.
fn uncompilable(error: &minijinja::Error) -> RenderFault {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    RenderFault { line: error.line(), what }
}

/// Converts an error of a text that compiles. The engine's detail may quote a value (`include fields.x`,
/// `map(fields.x)`), and faults are logged, so the line of the text is quoted in its stead.
fn unrunnable(error: &minijinja::Error, source: &str) -> RenderFault {
    let line = error.line();
    if let Some(what) = budget::reported_by(error) {
        return RenderFault { line, what: what.to_owned() };
    }
    let quoted = line.and_then(|line| source.lines().nth(line.saturating_sub(1))).unwrap_or_default();
    let what = format!("{} in \"{}\"", error.kind(), bounded(one_line(quoted), 120));
    RenderFault { line, what }
}

/// The fields, in their order, one entry for each key.
#[derive(Debug)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn new(input: &ComposeInput<'_>) -> Self {
        let mut indexes: HashMap<&str, usize> = HashMap::with_capacity(input.fields.len());
        let mut joined: Vec<(String, String)> = Vec::with_capacity(input.fields.len());
        for field in input.ordered_fields() {
            match indexes.get(field.key.as_str()).and_then(|index| joined.get_mut(*index)) {
                Some((_, value)) => {
                    value.push_str(", ");
                    value.push_str(&field.value);
                }
                None => {
                    indexes.insert(&field.key, joined.len());
                    joined.push((field.key.clone(), field.value.clone()));
                }
            }
        }
        Self(joined.into_iter().map(|(key, value)| (key, Value::from(value))).collect())
    }

    /// Octets of all keys and values.
    fn octets(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
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
