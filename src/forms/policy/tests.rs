//! Policies as people write them, good and bad: what each is taken for.

mod contrib;
mod files;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

const HEAD: &str = "package maple.publish\n";
/// A healthy policy in two lines, to spoil or to add to.
const HEALTHY: &str = "default allow := false\nallow if { input.good == true; count(deny) == 0 }\n";

fn canaries() -> Canaries {
    Canaries { good: json!({"good": true}), bad: json!({"good": false}) }
}

fn bundle(files: &[(&str, &str)]) -> Bundle {
    let bytes = |(name, text): &(&str, &str)| ((*name).to_owned(), text.as_bytes().to_vec());
    Bundle::of("/policies", files.iter().map(bytes).collect::<BTreeMap<_, _>>()).expect("a bundle")
}

fn compiled(rules: &str) -> Result<Policy, Away> {
    Policy::of(&bundle(&[("p.rego", &format!("{HEAD}{rules}"))]), LIMIT)
}

fn tried(rules: &str) -> Result<Proven, Away> {
    compiled(rules)?.proven(&canaries())
}

fn proven(rules: &str) -> Proven {
    tried(&format!("{HEALTHY}{rules}")).expect("proven")
}

#[test]
fn a_decision_names_reasons_sorted_and_its_bundle() {
    let rules = "deny contains \"b\" if input.b\ndeny contains \"a\\n  of two lines\" if input.a\n";
    let policy = proven(rules);
    let decided = policy.decide(&json!({"good": true, "a": 1, "b": 2})).expect("a decision");
    assert_eq!(decided.reasons, ["a of two lines", "b"]);
    assert!(!decided.allowed, "a reason denies");
    assert_eq!(decided.policy, policy.digest());
    let decided = policy.decide(&json!({"good": true})).expect("a decision");
    assert!(decided.allowed && decided.reasons.is_empty(), "{decided:?}");
    let decided = policy.decide(&json!({"good": 1})).expect("a decision");
    assert!(!decided.allowed && decided.reasons.is_empty(), "denied by default: {decided:?}");
}

#[test]
fn one_reason_denies_what_allow_allows() {
    let policy =
        tried("default allow := false\nallow if input.good == true\ndeny contains \"late\" if input.late");
    let decided = policy.expect("proven").decide(&json!({"good": true, "late": true})).expect("a decision");
    assert_eq!((decided.allowed, decided.reasons), (false, vec!["late".to_owned()]));
}

#[test]
fn reasons_are_bounded() {
    let policy = proven("deny contains sprintf(\"%v %s\", [n, input.long]) if some n in input.numbers");
    let input =
        json!({"good": true, "numbers": (100..200).collect::<Vec<_>>(), "long": "\u{e9}".repeat(400)});
    let decided = policy.decide(&input).expect("a decision");
    assert_eq!(decided.reasons.len(), 50);
    for (reason, number) in decided.reasons.iter().zip(100..) {
        assert_eq!(reason.chars().count(), 300);
        assert!(reason.starts_with(&format!("{number} \u{e9}")) && reason.ends_with('\u{2026}'), "{reason}");
    }
}

#[test]
fn a_policy_without_reasons_decides() {
    let policy = tried("default allow := false\nallow if input.good == true").expect("proven");
    let decided = policy.decide(&json!({"good": true})).expect("a decision");
    assert!(decided.allowed && decided.reasons.is_empty(), "{decided:?}");
}

#[test]
fn reasons_may_be_an_array() {
    let policy = proven("deny := [\"b\", \"a\", \"b\"] if input.odd\nelse := []");
    let decided = policy.decide(&json!({"good": true, "odd": true})).expect("a decision");
    assert_eq!(decided.reasons, ["a", "b"]);
}

#[test]
fn the_same_document_has_the_same_decision_also_at_once() {
    let policy = proven("deny contains sprintf(\"%v\", [x]) if some x in input.xs");
    let input = json!({"good": true, "xs": [3, 1, {"b": 1, "a": [2]}, "x", null]});
    let first = policy.decide(&input).expect("a decision");
    assert_eq!(first.reasons.len(), 5);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| assert_eq!(policy.decide(&input).as_ref(), Ok(&first))));
        }
    });
}

#[test]
fn a_syntax_error_names_file_line_and_column() {
    let good = format!("{HEAD}{HEALTHY}");
    let bad = format!("{HEAD}\nhelp if {{ input.x == }}\n");
    let error = Policy::of(&bundle(&[("a.rego", &good), ("b.rego", &bad)]), LIMIT).expect_err("no Rego");
    let message = error.to_string();
    assert!(message.starts_with("the policy does not compile: b.rego:3:"), "{message}");
    assert!(!message.contains('\n') && error.remedy().contains("policy test"), "{message}");
    let Away::Syntax { at, what } = compiled("allow if { input.x == nobody }").expect_err("unsafe") else {
        panic!("another kind");
    };
    assert_eq!((at.as_str(), what.as_str()), ("p.rego:2:23", "use of undefined variable `nobody` is unsafe"));
}

#[test]
fn what_is_no_clear_answer_is_away() {
    let odd = |found: &'static str| Away::NotBoolean { found };
    let reasons = |found: &str| Away::NotReasons { found: found.to_owned() };
    for (rules, expected) in [
        ("help := 1", Away::Undefined),
        ("allow if input.nothing", Away::Undefined),
        ("allow := \"true\"", odd("a string")),
        ("allow := 1", odd("a number")),
        ("allow := null", odd("null")),
        ("allow contains \"x\"", odd("a set or array")),
        ("allow.publish := true", odd("an object")),
        ("allow := true\ndeny contains 3", reasons("has a number")),
        ("allow := false\ndeny contains [\"a\"]", reasons("has a set or array")),
        ("allow := true\ndeny := \"no\"", reasons("is a string")),
        ("allow := true\ndeny := false", reasons("is a boolean")),
        ("allow := true\ndeny[\"no\"] := true", reasons("is an object")),
    ] {
        assert_eq!(tried(rules).expect_err(rules), expected, "{rules}");
    }
    let elsewhere =
        bundle(&[("p.rego", "package publish\ndefault allow := false\nallow if input.good == true")]);
    let policy = Policy::of(&elsewhere, LIMIT).expect("it compiles");
    assert_eq!(policy.proven(&canaries()).expect_err("another package"), Away::Undefined);
}

#[test]
fn an_error_says_where() {
    for (rules, line, says) in [
        ("allow if to_number(input.word) == 1", 2, "could not parse string as number"),
        ("allow if nobody(1)", 2, "could not find function nobody"),
        (
            "allow := true\nallow := false if input.word",
            3,
            "rule conflicts with the following rule: p.rego:2:1",
        ),
        ("allow if help\nhelp if allow", 2, "recursion detected"),
        ("allow if help(1)\nhelp(x) if { x; allow }", 2, "recursion detected"),
        (
            "allow if http.send({\"method\": \"GET\", \"url\": \"https://x.test\"}).status_code == 200",
            2,
            "could not find",
        ),
        ("allow if time.now_ns() > 0", 2, "could not find function time.now_ns"),
        ("allow if opa.runtime().env.HOME", 2, "could not find function opa.runtime"),
    ] {
        let canaries = Canaries { good: json!({"word": "x"}), bad: json!({"word": "x"}) };
        let error = compiled(rules).expect("it compiles").proven(&canaries).expect_err(rules);
        let message = error.to_string();
        assert!(message.starts_with(&format!("the policy failed: p.rego:{line}:")), "{message}");
        assert!(message.contains(says) && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_panic_of_the_engine_is_a_failure_of_the_policy() {
    let error = tried("allow if sprintf(\"%\u{b2}d\", [1]) == \"x\"").expect_err("a width");
    assert!(matches!(&error, Away::Failed { what, .. } if what.contains("panicked")), "{error}");
}

#[test]
fn a_slow_policy_ends_in_time() {
    let every = "n := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n\
        all contains x if { some a in n; some b in n; some c in n; some d in n; some e in n; some f in n; some g in n; \
        x := ((((a + b) + c) + d) + e) + (f * g) }\n";
    for rules in [
        format!("{every}default allow := false\nallow if count(all) > 1000"),
        format!(
            "{every}default allow := false\nallow if input.good == true\ndeny contains \"x\" if count(all) > 1000"
        ),
        // Within a function's call.
        "n := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n\
         f(x) := count([1 | some a in n; some b in n; some c in n; some d in n; some e in n; some g in n; some h in n; \
         ((((((a + b) + c) + d) + e) + g) + h) + x < 0])\n\
         default allow := false\nallow if f(1) == 0"
            .to_owned(),
    ] {
        let limit = Duration::from_millis(200);
        let policy =
            Policy::of(&bundle(&[("p.rego", &format!("{HEAD}{rules}"))]), limit).expect("it compiles");
        #[expect(
            clippy::disallowed_methods,
            reason = "the engine reads the real clock, and this test measures it"
        )]
        let began = Instant::now();
        assert_eq!(policy.proven(&canaries()).expect_err("slow"), Away::Slow { limit });
        let took = began.elapsed();
        assert!(took >= limit && took < limit * 10, "{took:?}");
    }
}

#[test]
fn what_would_end_the_process_is_not_asked() {
    for (rules, line, says) in [
        ("f(x) := f(x + 1)", 2, "the function f may call itself"),
        ("f(x) := g(x)\ng(x) := data.maple.publish.f(x)", 2, "the function f may call itself"),
        (
            "g(x) := y if { y := [z | z := data[\"maple\"].publish.g(x)] }",
            2,
            "the function g may call itself",
        ),
        ("import data.maple.publish.h as other\nh(x) := other(x)", 3, "the function h may call itself"),
        ("k(x) := input.k(x)\nm(x) := k(x)\nn if m(1) == 2 with k as m", 2, "the function k may call itself"),
        ("f(x) := 1 if x == 0\nelse := f(x - 1)", 2, "the function f may call itself"),
        ("\nallow if rand.intn(\"a\", 2) == 1", 3, "rand.intn answers differently"),
        ("help if { every x in numbers.range(1, 3) { x } }", 2, "numbers.range makes the whole range"),
        ("f(x) := numbers.range_step(1, x, 2)", 2, "numbers.range_step makes the whole range"),
    ] {
        let message = compiled(rules).expect_err(rules).to_string();
        assert!(
            message.starts_with(&format!("the policy may not be asked: p.rego:{line}:")),
            "{rules}: {message}"
        );
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn rules_are_as_deep_as_they_may_be_many() {
    let chain = |rules: usize, call: fn(usize) -> String| {
        let mut text = HEALTHY.to_owned() + "f0(x) := x\n";
        for n in 1..rules - 3 {
            text += &format!("f{n}(x) := y if {{ y := {} }}\n", call(n - 1));
        }
        text + &format!("deny contains \"deep\" if {} == true\n", call(rules - 4))
            .replace("(x)", "(input.deep)")
    };
    let call: fn(usize) -> String = |n| format!("f{n}(x)");
    let nested: fn(usize) -> String = |n| format!("[[z | z := {{\"k\": [f{n}(x)]}}.k[0]]][0][0]");
    // Brackets around a call have it evaluated again and again: a few are enough.
    for (rules, call) in [(512, call), (12, nested)] {
        // Rules that are many take their time on a slow machine, which is not what this is about.
        let text = format!("{HEAD}{}", chain(rules, call));
        let patient = Policy::of(&bundle(&[("p.rego", &text)]), Duration::from_secs(30));
        let policy = patient.and_then(|policy| policy.proven(&canaries())).expect("proven");
        let decided = policy.decide(&json!({"good": true, "deep": true})).expect("a decision");
        assert_eq!(decided.reasons, ["deep"]);
    }
    let message = tried(&chain(513, call)).expect_err("too many").to_string();
    assert!(message.contains("there are 513 of them, and 512 are the most"), "{message}");
}

#[test]
fn brackets_that_would_take_all_memory_are_not_read() {
    let nested = |depth: usize| format!("x := \n{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(
        compiled(&nested(13)).expect_err("too deep").to_string(),
        "the policy may not be asked: p.rego:3: brackets are nested deeper than 12"
    );
    assert!(compiled(&"{".repeat(5000)).is_err());
    for fine in [
        nested(12),
        format!("x := \"\\\"{}\"", "[".repeat(20)),
        format!("x := `\n\"{}`", "{".repeat(20)),
        format!("x := 1 # \"{}", "[".repeat(20)),
        "x := [{1}]\n".repeat(20),
        format!("x := {}1{}", "(".repeat(20), ")".repeat(20)),
    ] {
        assert!(compiled(&fine).is_ok(), "{fine}");
    }
    let calls = format!("x := {}1{}", "abs(".repeat(40), ")".repeat(40));
    assert!(
        matches!(compiled(&calls), Err(Away::Syntax { .. } | Away::Refused { .. })),
        "deeper than is read"
    );
}

#[test]
fn deny_rules_that_allow_what_is_missing_are_caught() {
    let seen = "default allow := false\nallow if count(deny) == 0\n\
        deny contains \"bad\" if input.good == false\ndeny contains \"no http\" if contains(input.html, \"http:\")";
    let error = tried(seen).expect_err("an empty document is allowed");
    assert_eq!(error, Away::CanaryAllowed { which: "an empty document" });
    let error = tried("default allow := true").expect_err("all is allowed");
    assert_eq!(error, Away::CanaryAllowed { which: "a form that is bad" });
    assert!(error.to_string().contains("it allows a form that is bad"), "{error}");
    let error = tried("default allow := false\ndeny contains \"never\"").expect_err("nothing is allowed");
    assert_eq!(error, Away::CanaryDenied { reasons: vec!["never".to_owned()] });
    assert!(error.to_string().ends_with("it denies a form that is good: never"), "{error}");
    let error = tried("default allow := false").expect_err("nothing is allowed");
    assert!(error.to_string().ends_with("and gives no reason"), "{error}");
}

#[test]
fn each_reason_to_be_away_has_a_remedy() {
    let text = String::new;
    let reasons = Vec::new();
    for away in [
        Away::Unreadable { path: text(), why: text() },
        Away::Empty { from: text() },
        Away::TooLarge { what: text() },
        Away::Syntax { at: text(), what: text() },
        Away::Refused { at: text(), what: text() },
        Away::Undefined,
        Away::NotBoolean { found: "" },
        Away::NotReasons { found: text() },
        Away::Failed { at: text(), what: text() },
        Away::Slow { limit: LIMIT },
        Away::CanaryAllowed { which: "" },
        Away::CanaryDenied { reasons },
    ] {
        let remedy = away.remedy();
        assert!(remedy.ends_with('.') && !remedy.contains('\n'), "{remedy}");
    }
}

#[test]
fn a_document_has_each_key() {
    let value = contrib::good().value();
    assert_eq!(value["v"], json!(1));
    assert_eq!(value["actions"][1]["template_id"], Value::Null);
    assert!(value["actions"][1].as_object().is_some_and(|action| action.contains_key("template_id")));
    let text = include_str!("mod.rs");
    let block =
        text.split("```json\n").nth(1).and_then(|rest| rest.split("//! ```").next()).expect("the contract");
    let contract: Value = serde_json::from_str(&block.replace("//!", "")).expect("JSON");
    assert_eq!(keys(&contract), keys(&value), "the page and the type say the same");
}

/// Paths of all members, arrays by their first element.
fn keys(value: &Value) -> Vec<String> {
    fn walk(path: &str, value: &Value, found: &mut Vec<String>) {
        if let Some(first) = value.as_array().and_then(|elements| elements.first()) {
            return walk(&format!("{path}[]"), first, found);
        }
        for (key, value) in value.as_object().into_iter().flatten() {
            found.push(format!("{path}.{key}"));
            walk(&format!("{path}.{key}"), value, found);
        }
    }
    let mut found = Vec::new();
    walk("", value, &mut found);
    found.sort();
    found
}
