//! Templates that ask for more memory than a mail can need: each is refused, and the process lives.
//!
//! A child of its own renders each (this test binary again, asked for this very test) under an address limit of the
//! kernel, which aborts a process that allocates too much.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use maple_router::routing::compose::ComposeFault;

use crate::fixtures::{Case, field};

/// Set for a child, which renders what it reads: `text`, or `html` for a text that is escaped.
const KIND: &str = "COMPOSE_HUNGRY_KIND";
/// Address space of a child, in KiB. A child that renders a small text takes about 100 MiB of it.
const LIMIT_KIB: u32 = 512 * 1024;
/// Exit code of a child whose template was refused; a mail that was made ends it with 0, a crash by a signal.
const REFUSED: i32 = 43;

fn in_child(source: &str, kind: &str) -> Output {
    let me = std::env::current_exe().expect("this test binary");
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {LIMIT_KIB} && exec \"$0\" \"$@\""))
        .arg(me)
        .args(["--exact", "hungry::child", "--nocapture", "--test-threads=1"])
        .env(KIND, kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(source.as_bytes()).expect("the child reads");
    drop(input);
    child.wait_with_output().expect("a child")
}

/// A child's work; asked for without a template, it has nothing to render, and says so by its name alone.
#[test]
fn child() {
    let Ok(kind) = std::env::var(KIND) else { return };
    let mut source = String::new();
    std::io::stdin().read_to_string(&mut source).expect("a text");
    let text = Some(source.as_str());
    let mut case =
        if kind == "html" { Case::template(None, None, text) } else { Case::template(None, text, None) };
    case.fields = vec![field("name", "Ann Lee", 1), field("long", &"words, and more\n".repeat(4_000), 2)];
    match case.composed() {
        Ok(composed) => assert!(composed.message.shown().len() < 8 << 20),
        Err(fault) => {
            assert!(matches!(fault, ComposeFault::Unrenderable { .. }), "{fault}");
            eprintln!("{fault}");
            std::process::exit(REFUSED);
        }
    }
}

/// Runs the texts two at a time, and says which did not end as expected.
fn all_end(expected: i32, sources: &[String]) {
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let half = sources.len().div_ceil(2);
        let halves: Vec<_> = sources
            .chunks(half)
            .map(|part| {
                scope.spawn(move || {
                    let mut wrong = Vec::new();
                    for source in part {
                        for kind in ["text", "html"] {
                            let ended = in_child(source, kind);
                            if ended.status.code() != Some(expected) {
                                let shown: String = source.chars().take(120).collect();
                                let said = String::from_utf8_lossy(&ended.stderr).into_owned();
                                let said: String = said.chars().take(400).collect();
                                wrong.push(format!("{kind} {shown}: {} {said}", ended.status));
                            }
                        }
                    }
                    wrong
                })
            })
            .collect();
        halves.into_iter().flat_map(|half| half.join().expect("a half")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// By numbers, by doubling, by capturing, by nesting, by length: every way to ask for much with few steps.
#[test]
fn whoever_asks_for_more_is_refused() {
    let double = |start: &str, step: &str| format!("{{% set x = {start} %}}{}{{{{ x }}}}", step.repeat(40));
    let page = "x".repeat(10_000);
    let mut sources: Vec<String> = [
        // By a number.
        "{{ '%01999999999d'|format(1) }}",
        "{{ '%1999999999s'|format('x') }}",
        "{{ '%.1999999999f'|format(1.5) }}",
        "{{ '%*d'|format(1999999999, 1) }}",
        "{{ '%(a)1999999999d'|format(a=1) }}",
        "{{ 'x'|indent(1999999999, true) }}",
        "{{ 'x'|indent(width=1999999999, first=true) }}",
        "{{ 'x\nx'|indent(1999999999.0) }}",
        "{{ [1]|slice(1999999999) }}",
        "{{ [1]|slice(1999999999, 'x') }}",
        "{{ [1]|batch(1999999999, 'x') }}",
        "{{ [['x']]|map('batch', 1999999999, 'x')|list }}",
        "{{ ['x']|map('indent', 1999999999, true)|list }}",
        "{{ 'x' * 90000000 }}",
        "{{ 90000000 * 'x' }}",
        "{{ (['x'] * 90000000)|list }}",
        "{{ (['x'] * 90000000)|length ~ (['x'] * 90000000)|join }}",
        "{% set x = ['x'] * 90000000 %}{% set y = x[::-1]|list %}{{ y|length }}",
        "{% set x = 'x' * 90000000 %}{% set y = x ~ x %}{% set z = y ~ y %}{% set a = z ~ z %}{{ a|length }}",
        // By a product.
        "{{ fields.long|replace('', fields.long) }}",
        "{{ fields.long|replace('o', fields.long) }}",
        "{{ fields.long|list|join(fields.long) }}",
        "{{ ('%(a)s' * 60000)|format(a=fields.long) }}",
        "{{ ('%1$s' * 60000)|format(fields.long) ~ ('%s' * 2)|format(fields.long) }}",
        "{% set x = range(100000)|map('string')|map('replace', '', fields.long)|list %}{{ x|length }}",
        "{% set x = range(100000)|list %}{% for i in range(50000) %}{{ x|join('xxxxxxxxxx')|length }}{% endfor %}",
        // By nesting calls.
        "{% macro m(s, n) %}{% if n %}{{ m(s ~ s ~ s ~ s ~ s ~ s ~ s ~ s, n - 1) }}{% else %}{{ s }}{% endif %}{% endmacro %}\
         {{ m(fields.long, 8) }}",
        "{% for a in [[[[[1]]]]] recursive %}{{ loop([[[[a]]]]) }}{% endfor %}",
    ]
    .iter()
    .map(|source| (*source).to_owned())
    .collect();
    // By doubling.
    sources.push(double("'x'", "{% set x = x ~ x %}"));
    sources.push(double("'x'", "{% set x = x + x %}"));
    sources.push(double("'x'", "{% set x = x * 2 %}"));
    sources.push(double("'x'", "{% set x = [x, x]|join %}"));
    sources.push(double("'x'", "{% set x = x|replace('x', 'xx') %}"));
    sources.push(double("'x'", "{% set x = '%s%s'|format(x, x) %}"));
    sources.push(double("'x'", "{% set x %}{{ x }}{{ x }}{% endset %}"));
    sources.push(double("[1]", "{% set x = x + x %}"));
    sources.push(double("[1]", "{% set x = x * 2 %}"));
    sources.push(double("[1]", "{% set x = x|chain(x)|list %}"));
    sources.push(double("[1]", "{% set x = [x, x] %}"));
    sources.push(double("[1]", "{% set x = (x, x) %}"));
    sources.push(double("[1]", "{% set x = x|zip(x) %}"));
    sources.push(double("'x'", "{% set x = {'a': x, 'b': x} %}"));
    sources.push(double("'x'", "{% set x = dict(a=x, b=x) %}"));
    sources.push(double("'x'", "{% set x = x|pprint %}{% set x = [x, x]|pprint %}"));
    sources.push(double("'x'", "{% set x = [x, x]|string|escape %}"));
    // By what is written aside, not out.
    sources.push(format!("{{% set x %}}{{% for i in range(90000) %}}{page}{{% endfor %}}{{% endset %}}"));
    sources.push(format!(
        "{{% filter upper %}}{{% for i in range(90000) %}}{page}{{% endfor %}}{{% endfilter %}}"
    ));
    sources.push(format!(
        "{{% macro m() %}}{{% for i in range(90000) %}}{page}{{% endfor %}}{{% endmacro %}}{{% set x = m() %}}"
    ));
    sources
        .push("{% set x %}{% for i in range(90000) %}{{ fields.long }}{% endfor %}{% endset %}".to_owned());
    // By copies that all are kept.
    let copies: String = (0..20_000).map(|at| format!("{{% set x{at} = fields.long[1:] %}}")).collect();
    sources.push(copies);
    // By a constant that is computed before anything runs.
    let constants: String = (0..40).map(|at| format!("{{% set x{at} = 'x' * 90000000 %}}")).collect();
    sources.push(constants);
    sources.push(format!("{{% if false %}}{{{{ {}'x' }}}}{{% endif %}}", "'x' * 9000 ~ ".repeat(9_000)));
    all_end(REFUSED, &sources);
}

/// Depth is memory, too: of the stack, which ends a process at once.
#[test]
fn whoever_nests_too_deep_is_refused() {
    let chain = |first: &str, link: &str| format!("{{{{ {first}{} }}}}", link.repeat(30_000));
    let deep = |step: &str| format!("{{% set x = [1] %}}{}{{{{ x }}}}", step.repeat(20_000));
    let sources = [
        chain("1", " ~ 1"),
        chain("1", " + 1"),
        chain("1", " and 1"),
        chain("1", " < 1"),
        chain("'x'", "|upper"),
        chain("fields", ".x"),
        chain("fields", "[1]"),
        chain("", "not "),
        chain("", "-"),
        chain("1", " if 1 else 1"),
        chain("", "["),
        deep("{% set x = [x] %}"),
        deep("{% set x = {'x': x} %}"),
        deep("{% set x = (x,) %}"),
        deep("{% set x = [x]|slice(1)|list %}"),
        format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(60_000)),
        "{% if 1 %}".repeat(60_000),
    ];
    all_end(REFUSED, &sources);
}

/// Amounts that forms do ask for are still made, and lists that nobody makes deeper may be as long as they like.
#[test]
fn whoever_asks_for_what_mails_need_gets_it() {
    let sources = [
        "{{ '=' * 72 }}\n{{ fields.name ~ ' ' ~ fields.name|upper }}",
        "{% for key, value in fields|items %}{{ key }}: {{ value|indent(4) }}\n{% endfor %}",
        "{% for line in fields.long|lines %}> {{ line }}\n{% endfor %}",
        "{% for row in range(9)|batch(4, 0) %}{{ row|join(', ') }}\n{% endfor %}{{ range(9)|slice(3)|list }}",
        "{{ '%-20s|%05.1f|%3d%%'|format(fields.name, 2.25, 7) }}",
        "{% macro row(k, v) %}{{ k }}={{ v }};{% endmacro %}{% for i in range(500) %}{{ row(i, i * 2) }}{% endfor %}",
        "{% set x %}{{ fields.name }}{% endset %}{{ x|replace('Ann', 'A.') }}{{ fields.long[:20] }}",
        "{% set x = x %}{% set x = ([1, 2] + [3])|list %}{{ x[::-1]|join }}{{ (x|chain([4]))|list }}",
        "{{ fields.long|wordcount if false else fields.long|length }}",
    ];
    let mut sources: Vec<String> = sources.map(ToOwned::to_owned).into();
    // The greatest permitted depth.
    sources.push(format!("{{{{ 1{} }}}}", " ~ 1".repeat(195)));
    sources.push(format!("{{{{ 'x'{} }}}}", "|upper".repeat(195)));
    sources.push(format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(100)));
    sources.push(format!("{}{}", "{% if 1 %}".repeat(140), "{% endif %}".repeat(140)));
    sources.push(format!("{{{{ {}1{} }}}}", "[".repeat(15), "]".repeat(15)));
    all_end(0, &sources);
}
