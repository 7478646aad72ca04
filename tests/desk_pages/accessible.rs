//! Every sample page before axe (WCAG 2.2 AA and its best practices), light and dark (there its rules about colours), wide and
//! 320 px narrow, in a real Chromium, under the desk's policy. And nothing is wider than a telephone.

use serde_json::Value;

use crate::browser::{Served, Server, said, sample_files, serve};
use crate::hostile::long_word;
use crate::samples;

const AXE: &str = include_str!("../axe/axe.min.js");

/// Frames each page at each width, runs axe in it, collects what it finds.
const JUDGE: &str = r#"
const pages = JSON.parse(document.getElementById("pages").textContent);
const judges = document.getElementById("pages").hasAttribute("data-judge");
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const colours = ["color-contrast", "link-in-text-block"];
const results = [];
const widths = JSON.parse(document.getElementById("pages").dataset.widths);
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
for (const name of pages) {
  for (const width of widths) {
    const frame = document.createElement("iframe");
    frame.width = width;
    frame.height = 6000;
    await new Promise((loaded) => { frame.onload = loaded; frame.src = `/sample/${name}`; document.body.append(frame); });
    const inside = frame.contentDocument;
    // Whatever is folded is judged as well.
    for (const folded of inside.querySelectorAll("details")) folded.open = true;
    const root = inside.documentElement;
    const measured = { name, width, sideways: root.scrollWidth - root.clientWidth };
    if (!judges) {
      results.push(measured);
      frame.remove();
      continue;
    }
    const script = inside.createElement("script");
    await new Promise((loaded) => { script.onload = loaded; script.src = "/test/axe.js"; inside.head.append(script); });
    // In the dark colours are others, and nothing else is.
    const only = dark ? { type: "rule", values: colours } : { type: "tag", values: tags };
    const found = await frame.contentWindow.axe.run(inside, {
      runOnly: only,
      rules: dark ? {} : { "target-size": { enabled: true } },
      iframes: false,
    });
    const told = (all) => all.map((rule) => [rule.id, rule.nodes.map((node) => node.html.slice(0, 200))]);
    results.push({
      ...measured, passes: found.passes.length, violations: told(found.violations), incomplete: told(found.incomplete),
      dark: frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches,
    });
    frame.remove();
  }
}
document.title = "said:" + JSON.stringify(results);
"#;

/// Widths of a desk and of a telephone.
const WIDTHS: [u32; 2] = [1280, 320];

fn judged_by(
    files: Vec<(String, &'static str, String)>,
    names: &[&str],
    dark: bool,
    widths: &[u32],
) -> Vec<Value> {
    looked_at(files, names, dark, &format!(" data-judge data-widths='{widths:?}'"))
}

fn looked_at(
    files: Vec<(String, &'static str, String)>,
    names: &[&str],
    dark: bool,
    judge: &str,
) -> Vec<Value> {
    let script = ("/test/axe.js".to_owned(), "text/javascript", AXE.to_owned());
    let looks = ("/test/judge.js".to_owned(), "text/javascript", JUDGE.to_owned());
    let list = serde_json::to_string(names).expect("names");
    let page = format!(
        "<!doctype html><html lang=en><head><title>judge</title><meta name=color-scheme content=\"light dark\"></head><body>\
         <script type=application/json id=pages{judge}>{list}</script><script type=module src=/test/judge.js></script></body></html>"
    );
    let mut all = files;
    all.extend([script, looks, ("/test/judge".to_owned(), "text/html", page)]);
    let server: Server = serve(Served { files: all, ..Served::default() });
    serde_json::from_str(&said(&server, "/test/judge", dark, 1400)).expect("results")
}

/// Findings that axe leaves to people, and that people have looked at.
fn is_looked_at(rule: &str, node: &str) -> bool {
    match rule {
        // The sandboxed frame of a mail: its document is not ours, and nothing in it can run.
        "frame-tested" => node.starts_with("<iframe sandbox"),
        // A single letter, and text in SVG: `contrast.rs` computes both from the sheet.
        "color-contrast" => node.starts_with("<span class=\"arrow\"") || node.starts_with("<text class="),
        _ => false,
    }
}

fn axe_finds_nothing(dark: bool, width: u32) {
    let names: Vec<&str> = samples::all(&str::to_owned).iter().map(|page| page.name).collect();
    let results = judged_by(sample_files(), &names, dark, &[width]);
    assert_eq!(results.len(), names.len());
    let mut wrong = Vec::new();
    for result in &results {
        assert!(result["passes"].as_u64().expect("a number") >= if dark { 1 } else { 10 }, "{result}");
        assert_eq!(result["dark"], dark, "{result}");
        let open = result["incomplete"].as_array().expect("a list").iter().filter(|finding| {
            let rule = finding[0].as_str().unwrap_or_default();
            let nodes = finding[1].as_array().expect("a list");
            !nodes.iter().all(|node| is_looked_at(rule, node.as_str().unwrap_or_default()))
        });
        let violations = result["violations"].as_array().expect("a list");
        for finding in violations.iter().chain(open) {
            wrong.push(format!("{} at {}: {finding}", result["name"], result["width"]));
        }
        if result["sideways"].as_i64() != Some(0) {
            wrong.push(format!(
                "{} at {}: {} px too wide",
                result["name"], result["width"], result["sideways"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn axe_finds_nothing_on_any_page_in_the_light() {
    axe_finds_nothing(false, WIDTHS[0]);
}

#[test]
fn axe_finds_nothing_on_any_page_on_a_telephone() {
    axe_finds_nothing(false, WIDTHS[1]);
}

#[test]
fn axe_finds_nothing_on_any_page_in_the_dark() {
    axe_finds_nothing(true, WIDTHS[0]);
}

#[test]
fn axe_finds_nothing_on_any_page_on_a_telephone_in_the_dark() {
    axe_finds_nothing(true, WIDTHS[1]);
}

#[test]
fn a_word_of_two_thousand_letters_widens_no_page() {
    let word = long_word();
    let pages = samples::all(&|_| word.clone());
    let names: Vec<&str> = pages.iter().map(|page| page.name).collect();
    let file = |page: &samples::Sample| {
        (format!("/sample/{}", page.name), "text/html; charset=utf-8", page.html.clone())
    };
    let widths = format!(" data-widths='{WIDTHS:?}'");
    let results = looked_at(pages.iter().map(file).collect(), &names, false, &widths);
    assert_eq!(results.len(), 2 * names.len());
    let wide: Vec<&Value> = results.iter().filter(|result| result["sideways"].as_i64() != Some(0)).collect();
    assert!(wide.is_empty(), "{wide:?}");
}

/// The judge judges: what it must find, it finds.
#[test]
fn axe_finds_what_is_wrong() {
    let queue =
        samples::all(&str::to_owned).into_iter().find(|page| page.name == "queue").expect("it is there").html;
    let wide = "<p class=\"lead\">".to_owned()
        + &"<code>w</code>&nbsp;".repeat(400)
        + "</p><pre>"
        + &"w".repeat(400)
        + "</pre>";
    let spoilt = [
        ("html-has-lang", queue.replace(" lang=\"en\"", "")),
        ("select-name", queue.replace("<label for=\"command\">Do</label>", "")),
        ("sideways", queue.replace("<nav class=\"counts\"", &format!("{wide}<nav class=\"counts\""))),
    ];
    let names: Vec<&str> = spoilt.iter().map(|(name, _)| *name).collect();
    let files = spoilt
        .iter()
        .map(|(name, html)| (format!("/sample/{name}"), "text/html; charset=utf-8", html.clone()));
    let results = judged_by(files.collect(), &names, false, &WIDTHS);
    for result in &results {
        let name = result["name"].as_str().expect("a name");
        let found = if name == "sideways" {
            result["sideways"].as_i64().expect("a number") > 0
        } else {
            result["violations"].to_string().contains(name)
        };
        assert!(found, "{result}");
    }
}
