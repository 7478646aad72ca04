//! The engine's filters, each within the [budget](super::budget): the input is weighed, the growth by a number or a
//! product is taken before it is made, and the output is weighed and is no longer lazy.

use std::sync::LazyLock;

use minijinja::functions::Function;
use minijinja::value::{FunctionArgs, FunctionResult, Kwargs, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, context, filters, functions};

use super::budget::{PLACEHOLDER, length, take, weigh};
use super::gaps::gap;

/// Weighs a value and gives it back. A template cannot write this name, nor the next two, in a tag.
pub(super) const BOUNDED: &str = "()";
/// `*`
pub(super) const TIMES: &str = "*";
/// Shows a name that has no value.
pub(super) const GAP: &str = "[]";

/// The engine's operators, where one is needed on weighed values.
static OPERATORS: LazyLock<Environment<'static>> = LazyLock::new(Environment::empty);

/// Replaces all filters of the engine by bounded ones.
pub(super) fn install(engine: &mut Environment<'static>) {
    engine.add_filter(BOUNDED, |state: &mut State<'_, '_>, value: Value| bounded(state, value));
    engine.add_filter(TIMES, times);
    engine.add_filter(GAP, gap);
    let mut put = Installer(engine);
    put.filter(&["safe"], filters::safe);
    put.filter(&["escape", "e"], filters::escape);
    put.filter(&["lower"], filters::lower);
    put.filter(&["upper"], filters::upper);
    put.filter(&["title"], filters::title);
    put.filter(&["capitalize"], filters::capitalize);
    put.filter(&["replace"], filters::replace);
    put.filter(&["length", "count"], filters::length);
    put.filter(&["dictsort"], filters::dictsort);
    put.filter(&["items"], filters::items);
    put.filter(&["reverse"], filters::reverse);
    put.filter(&["trim"], filters::trim);
    put.filter(&["join"], filters::join);
    put.filter(&["split"], filters::split);
    put.filter(&["lines"], filters::lines);
    put.filter(&["default", "d"], filters::default);
    put.filter(&["round"], filters::round);
    put.filter(&["abs"], filters::abs);
    put.filter(&["int"], filters::int);
    put.filter(&["float"], filters::float);
    put.filter(&["attr"], filters::attr);
    put.filter(&["first"], filters::first);
    put.filter(&["last"], filters::last);
    put.filter(&["min"], filters::min);
    put.filter(&["max"], filters::max);
    put.filter(&["sort"], filters::sort);
    put.filter(&["list"], filters::list);
    put.filter(&["string"], filters::string);
    put.filter(&["bool"], filters::bool);
    put.filter(&["batch"], filters::batch);
    put.filter(&["slice"], filters::slice);
    put.filter(&["sum"], filters::sum);
    put.filter(&["indent"], filters::indent);
    put.filter(&["select"], filters::select);
    put.filter(&["reject"], filters::reject);
    put.filter(&["selectattr"], filters::selectattr);
    put.filter(&["rejectattr"], filters::rejectattr);
    put.filter(&["map"], filters::map);
    put.filter(&["groupby"], filters::groupby);
    put.filter(&["unique"], filters::unique);
    put.filter(&["chain"], filters::chain);
    put.filter(&["zip"], filters::zip);
    put.filter(&["pprint"], filters::pprint);
    put.filter(&["format"], filters::format);
    let dict = Value::from_function(functions::dict);
    engine.add_function("dict", move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        within("dict", &dict, state, &args.into_values())
    });
}

struct Installer<'e>(&'e mut Environment<'static>);

impl Installer<'_> {
    fn filter<F, Rv, Args>(&mut self, names: &[&'static str], filter: F)
    where
        F: Function<Rv, Args>,
        Rv: FunctionResult,
        Args: for<'a> FunctionArgs<'a>,
    {
        let filter = Value::from_function(filter);
        for name in names.iter().copied() {
            let filter = filter.clone();
            self.0.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
                within(name, &filter, state, &args.into_values())
            });
        }
    }
}

/// Calls the engine's own filter within the budget.
fn within(name: &str, own: &Value, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let mut weight: u64 = 0;
    for arg in args {
        weight = weight.saturating_add(weigh(state, arg)?);
    }
    take(state, growth(name, args, weight))?;
    let made = own.call(state, args)?;
    bounded(state, made)
}

/// Weighs a value. A lazy one becomes a list, so that none is ever made of another without an end.
fn bounded(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    weigh(state, &value)?;
    if value.kind() == ValueKind::Iterable { Ok(value.try_iter()?.collect()) } else { Ok(value) }
}

/// Upper limit of a filter's output, beside a small multiple of its input (of weight `weight`).
fn growth(name: &str, args: &[Value], weight: u64) -> u64 {
    let text = args.first().and_then(Value::as_str);
    let argument = |at: usize| args.get(at).and_then(Value::as_str);
    match name {
        "format" => printed(text.unwrap_or_default(), args, weight),
        "indent" => {
            let lines = text.map_or(0, |text| length(text.split('\n').count()));
            largest(args).unwrap_or(4).saturating_mul(lines + 1)
        }
        "batch" | "slice" => {
            largest(args).unwrap_or(0).saturating_mul(2 * PLACEHOLDER).saturating_add(listed(text))
        }
        "replace" => match (text, argument(1), argument(2)) {
            (Some(text), Some(from), Some(to)) => {
                length(text.matches(from).count()).saturating_mul(length(to.len()))
            }
            // Numbers and lists are written out first: as long as they are heavy, and matched at every position.
            _ => weight.saturating_mul(weight),
        },
        "join" => {
            let items = args.first().and_then(|list| list.try_iter().ok()).map_or(0, Iterator::count);
            length(items).saturating_mul(args.iter().skip(1).map(longest).max().unwrap_or(0))
        }
        "split" => match argument(1) {
            Some(by) => text.map_or(0, |text| length(text.matches(by).count() + 2) * 2 * PLACEHOLDER),
            None => text.map_or(0, |text| length(text.split_whitespace().count() + 1) * 2 * PLACEHOLDER),
        },
        "lines" => text.map_or(0, |text| length(text.lines().count() + 1) * 2 * PLACEHOLDER),
        // Every line of it is indented by four spaces a level.
        "pprint" => weight.saturating_mul(8),
        "safe" | "escape" | "e" | "lower" | "upper" | "title" | "capitalize" | "length" | "count"
        | "trim" | "default" | "d" | "string" | "int" | "float" | "bool" | "first" | "last" | "reverse" => 0,
        // Every filter that takes a list takes a text as the list of its characters.
        _ => listed(text),
    }
}

/// Bytes of a text as a list of its characters.
fn listed(text: Option<&str>) -> u64 {
    text.map_or(0, |text| length(text.chars().count()).saturating_mul(PLACEHOLDER))
}

/// The longest text of an argument, named or not.
fn longest(arg: &Value) -> u64 {
    match Kwargs::try_from(arg.clone()) {
        Ok(named) if arg.is_kwargs() => named
            .args()
            .filter_map(|name| named.peek::<Value>(name).ok())
            .map(|text| longest(&text))
            .max()
            .unwrap_or(0),
        _ => arg.as_str().map_or(PLACEHOLDER, |text| length(text.len())),
    }
}

/// The largest whole number among the arguments of a filter.
fn largest(args: &[Value]) -> Option<u64> {
    let whole = |value: &Value| value.as_str().is_none().then(|| value.as_usize()).flatten().map(length);
    let named = |value: &Value| {
        let named = Kwargs::try_from(value.clone()).ok()?;
        named.args().filter_map(|name| whole(&named.peek::<Value>(name).ok()?)).max()
    };
    args.iter().skip(1).filter_map(|value| if value.is_kwargs() { named(value) } else { whole(value) }).max()
}

/// Upper limit of `format`'s output: of each directive its widths, and the input, as often as there are directives.
fn printed(text: &str, args: &[Value], weight: u64) -> u64 {
    let mut made: u64 = 0;
    for directive in text.split('%').skip(1) {
        let directive = directive
            .strip_prefix('(')
            .and_then(|named| named.split_once(')'))
            .map_or(directive, |(_, rest)| rest);
        let spec = directive
            .split(|c: char| !c.is_ascii_digit() && !"-+ #.*$".contains(c))
            .next()
            .unwrap_or_default();
        for digits in spec.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
            made = made.saturating_add(digits.parse().unwrap_or(u64::MAX));
        }
        if spec.contains('*') {
            made = made.saturating_add(args.iter().skip(1).filter_map(any_width).max().unwrap_or(0));
        }
        // A number is written with some three hundred digits at most.
        made = made.saturating_add(weight).saturating_add(512);
    }
    made
}

/// A number that stands for a width, whatever its sign.
fn any_width(value: &Value) -> Option<u64> {
    value.as_str().is_none().then(|| value.as_i64()).flatten().map(i64::unsigned_abs)
}

/// `left * right`: a text or a list is repeated, every other product is a number.
fn times(state: &mut State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    let repeated = |what: &Value, by: &Value| {
        let many = matches!(what.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable);
        by.as_usize().filter(|_| many).map(length)
    };
    let weight = weigh(state, &left)?.saturating_add(weigh(state, &right)?);
    if let Some(by) = repeated(&left, &right).or_else(|| repeated(&right, &left)) {
        let many = weight.saturating_mul(by);
        take(state, many)?;
    }
    let product = OPERATORS.compile_expression("left * right")?.eval(context! { left, right })?;
    bounded(state, product)
}
