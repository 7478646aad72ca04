//! The templates and assets as files: what none of them may have.

use std::fs;
use std::path::{Path, PathBuf};

const PAGES: &str = "src/desk/pages";

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGES).join(folder);
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        path.is_file().then(|| (path.clone(), fs::read_to_string(path).expect("a file of text")))
    };
    let all: Vec<_> = fs::read_dir(folder).expect("a folder").filter_map(read).collect();
    assert!(all.len() >= 3);
    all
}

/// Expressions of a template: `{{ … }}`.
fn expressions(template: &str) -> Vec<&str> {
    template.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect()
}

/// No filter at all, so neither `safe` nor an escaper of somebody else's.
#[test]
fn no_template_goes_around_the_escaper() {
    let mut seen = 0;
    for (path, template) in files("templates") {
        assert!(
            path.extension().is_some_and(|extension| extension == "html"),
            "{}: is it escaped?",
            path.display()
        );
        for expression in expressions(&template) {
            seen += 1;
            assert!(!expression.contains('|'), "{}: {expression}", path.display());
        }
        for block in ["filter", "autoescape", "include", "raw"] {
            let found =
                template.contains(&format!("{{% {block}")) || template.contains(&format!("{{%- {block}"));
            assert!(!found, "{}: {block}", path.display());
        }
        assert!(!template.contains("|safe") && !template.contains("| safe"), "{}", path.display());
    }
    assert!(seen > 200, "{seen}");
    for (path, code) in files(".") {
        for derived in code.split("#[template(").skip(1) {
            let arguments = derived.split(')').next().unwrap_or_default();
            assert!(
                arguments.starts_with("path = \"") && !arguments.contains(','),
                "{}: {arguments}",
                path.display()
            );
        }
        for word in ["HtmlSafe", "MaybeSafe", "filters::Safe", "filter_fn"] {
            assert!(!code.contains(word), "{}: {word}", path.display());
        }
    }
    let settings = include_str!("../../askama.toml");
    assert!(settings.contains("path = \"crate::desk::pages::escape::Shown\"\nextensions = [\"html\"]"));
}

/// CSP would forbid it at run time; here it is seen before.
#[test]
fn no_template_has_inline_script_or_style() {
    for (path, template) in files("templates") {
        for word in ["style=", "<style", "javascript:", " on", "http-equiv", "srcdoc"] {
            let found = template.match_indices(word).any(|(at, _)| {
                let rest = &template[at + word.len()..];
                word != " on"
                    || rest.split(|c: char| !c.is_ascii_lowercase()).nth(1).is_some() && handler(rest)
            });
            assert!(!found, "{}: {word}", path.display());
        }
    }
}

/// `click=` of ` onclick=`.
fn handler(rest: &str) -> bool {
    rest.find('=').is_some_and(|end| end > 2 && rest[..end].chars().all(|c| c.is_ascii_lowercase()))
}

#[test]
fn the_script_interrupts_nobody_and_writes_no_markup() {
    let script = include_str!("../../src/desk/pages/assets/desk.js");
    for word in [
        "alert(",
        "confirm(",
        "prompt(",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "localStorage",
    ] {
        assert!(!script.contains(word), "{word}");
    }
    assert!(script.len() <= 8 * 1024, "{} bytes", script.len());
}

#[test]
fn the_sheet_loads_nothing() {
    let sheet = include_str!("../../src/desk/pages/assets/desk.css");
    assert!(!sheet.contains("url(") && !sheet.contains("@import") && !sheet.contains("@font-face"));
}
