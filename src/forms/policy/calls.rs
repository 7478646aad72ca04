//! What a policy may not do at all, seen in its tree before it is asked. Pure.
//!
//! The engine sees a rule that needs itself, but not a function that calls itself: that one ends the whole process, as its stack
//! overflows (seen), and so does a range of which nobody has the memory (seen). A function is known by the last part of its name,
//! wherever it is defined, so two of the same name count as one: rather one policy too many is refused than one too few.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::answer::one_line;
use super::away::Away;

/// Most rules of a bundle, all their bodies counted: the engine's stack is as deep as one of them naming the next.
const MOST_RULES: usize = 512;

/// Built-in functions that are there and may not be called, and why.
const NEVER: [(&str, &str); 3] = [
    (
        "rand.intn",
        "rand.intn answers differently each time, and the same version must have the same decision",
    ),
    ("numbers.range", "numbers.range makes the whole range at once, and a long one takes all memory"),
    (
        "numbers.range_step",
        "numbers.range_step makes the whole range at once, and a long one takes all memory",
    ),
];

/// Who calls whom: functions by the last part of their names.
#[derive(Debug, Default)]
struct Calls {
    from: BTreeMap<String, BTreeSet<String>>,
    defined: BTreeMap<String, String>,
    rules: usize,
}

/// Looks at the trees of all files, as the engine writes them in JSON.
///
/// # Errors
/// [`Away::Refused`]; also where the tree is not understood, since what is not seen may be anything.
pub(super) fn looked_at(trees: &str) -> Result<(), Away> {
    let trees: Value =
        serde_json::from_str(trees).map_err(|_| refused("its rules", "they are nested too deeply"))?;
    let mut calls = Calls::default();
    for tree in trees.as_array().into_iter().flatten() {
        calls.file(tree)?;
    }
    if calls.rules > MOST_RULES {
        let what = format!("there are {} of them, and {MOST_RULES} are the most", calls.rules);
        return Err(refused("its rules", &what));
    }
    calls.circle()
}

impl Calls {
    fn file(&mut self, tree: &Value) -> Result<(), Away> {
        let file = tree["source"]["file"].as_str().unwrap_or_default();
        let text = tree["source"]["contents"].as_str().unwrap_or_default();
        for import in tree["ast"]["imports"].as_array().into_iter().flatten() {
            if let (Some(alias), Some(path)) = (spanned(text, &import["as"]), path(&import["refr"])) {
                self.add(alias, last(&path));
            }
        }
        let Some(rules) = tree["ast"]["rules"].as_array() else {
            return Err(refused(file, "its tree is not understood"));
        };
        self.rules += rules.len();
        for rule in rules {
            let head = &rule["Spec"]["head"]["Func"];
            let name = path(&head["refr"]);
            if !head.is_null() && name.is_none() {
                return Err(refused(&place(file, head), "the name of this function is not understood"));
            }
            let name = name.as_deref().map(last);
            if let Some(name) = name {
                self.defined.entry(name.to_owned()).or_insert_with(|| place(file, head));
            }
            self.walk(file, name, rule)?;
        }
        Ok(())
    }

    /// Everything below `node`, which is part of the function `within`, or of no function.
    fn walk(&mut self, file: &str, within: Option<&str>, node: &Value) -> Result<(), Away> {
        match node {
            Value::Array(nodes) => nodes.iter().try_for_each(|node| self.walk(file, within, node)),
            Value::Object(members) => members.iter().try_for_each(|(key, node)| {
                match key.as_str() {
                    "Call" => self.call(file, within, node)?,
                    // Whoever is replaced in an expression calls whatever stands for it, in all that is called from there.
                    "with_mods" => node.as_array().into_iter().flatten().for_each(|with| {
                        if let (Some(replaced), Some(by)) = (path(&with["refr"]), path(&with["as"])) {
                            self.add(last(&replaced), last(&by));
                        }
                    }),
                    _ => {}
                }
                self.walk(file, within, node)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn call(&mut self, file: &str, within: Option<&str>, call: &Value) -> Result<(), Away> {
        let at = || place(file, call);
        let Some(called) = path(&call["fcn"]) else {
            return Err(refused(&at(), "what is called here is not understood"));
        };
        if let Some((_, why)) = NEVER.iter().find(|(name, _)| *name == called) {
            return Err(refused(&at(), why));
        }
        if let Some(within) = within {
            self.add(within, last(&called));
        }
        Ok(())
    }

    fn add(&mut self, caller: &str, called: &str) {
        self.from.entry(caller.to_owned()).or_default().insert(called.to_owned());
    }

    /// Refuses a function that is reached from itself.
    fn circle(&self) -> Result<(), Away> {
        for (function, at) in &self.defined {
            let mut seen = BTreeSet::new();
            let mut next = vec![function];
            while let Some(caller) = next.pop() {
                for name in self.from.get(caller).into_iter().flatten() {
                    if name == function {
                        return Err(refused(
                            at,
                            &format!("the function {function} may call itself without end"),
                        ));
                    }
                    if seen.insert(name) {
                        next.push(name);
                    }
                }
            }
        }
        Ok(())
    }
}

fn refused(at: &str, what: &str) -> Away {
    Away::Refused { at: one_line(at), what: one_line(what) }
}

fn place(file: &str, node: &Value) -> String {
    format!("{file}:{}:{}", node["span"]["line"], node["span"]["col"])
}

fn spanned<'a>(text: &'a str, span: &Value) -> Option<&'a str> {
    let end = |key: &str| span[key].as_u64().and_then(|at| usize::try_from(at).ok());
    text.get(end("start")?..end("end")?)
}

/// The dotted name that an expression is, where it is one.
fn path(node: &Value) -> Option<String> {
    if let Some(name) = node["Var"]["value"].as_str() {
        return Some(name.to_owned());
    }
    let (dot, bracket) = (&node["RefDot"], &node["RefBrack"]);
    let (before, name) = if dot.is_null() {
        (&bracket["refr"], bracket["index"]["String"]["value"].as_str()?)
    } else {
        (&dot["refr"], dot["field"][1].as_str()?)
    };
    Some(format!("{}.{name}", path(before)?))
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
