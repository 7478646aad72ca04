//! What people and servers wrote, in every place where a page shows it: it stays text.

use std::collections::BTreeSet;

use crate::dom::{Element, parse};
use crate::samples::{self, Sample};

/// In every hostile text, so that it can be found again.
const MARK: &str = "k1ngf1sher";

/// Texts that have broken pages elsewhere.
fn payloads() -> Vec<String> {
    [
        "\"><img src=x onerror=alert(1)>",
        "'><svg/onload=alert(1)>",
        "</script><script>alert(1)</script>",
        "</title></textarea></style></pre></select></option></iframe><b>bold</b>",
        "javascript:alert(1)",
        "//evil.example/",
        "\" autofocus onfocus=alert(1) x=\"",
        "' style='position:fixed",
        "` onmouseover=alert(1) `",
        "&lt;b&gt; &#60;b&#62; &amp;amp;",
        "<!-- --!> <![CDATA[ ]]> <?php ?>",
        "{{ 7*7 }} {% raw %} ${7*7}",
        "\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}",
        "nul \0 escape \u{1b}[31m bell \u{7} c1 \u{9b}",
        "two\r\nlines\u{2028}three",
    ]
    .iter()
    .map(|payload| format!("{payload}{MARK}"))
    .collect()
}

/// A word that no line has room for.
pub(crate) fn long_word() -> String {
    "w".repeat(2_000) + MARK
}

/// The page's elements without their texts and values: what only the template may decide.
fn skeleton(html: &str) -> Vec<(String, Vec<String>)> {
    let names = |element: Element| {
        let attributes = element.attributes.into_iter().map(|(name, _)| name).collect();
        (element.tag, attributes)
    };
    parse(html).0.into_iter().map(names).collect()
}

fn of(text: &str) -> Vec<Sample> {
    samples::all(&|_| text.to_owned())
}

#[test]
fn hostile_text_adds_no_element_and_no_attribute() {
    let harmless: Vec<_> = of(MARK).iter().map(|page| skeleton(&page.html)).collect();
    for payload in payloads().into_iter().chain([long_word()]) {
        for (page, expected) in of(&payload).iter().zip(&harmless) {
            let short: String = payload.chars().take(40).collect();
            assert_eq!(&skeleton(&page.html), expected, "{}: {short}", page.name);
        }
    }
    for payload in payloads() {
        let rows = samples::rows(&|_| payload.clone()).to_string();
        let expected = samples::rows(&|_| MARK.to_owned()).to_string();
        let table = |rows: String| format!("<table><tbody>{rows}</tbody></table>");
        assert_eq!(skeleton(&table(rows)), skeleton(&table(expected)));
    }
}

/// It is shown, as often as harmless text is, and what cannot be seen is replaced by a sign.
#[test]
fn hostile_text_is_shown_and_what_hides_is_not() {
    let count = |page: &Sample| {
        let text = &parse(&page.html).0[0].text;
        // A command has a placeholder for an id that a shell would not take as it is; it may name two versions.
        let named = |at: usize| {
            let words = text.get(at..).unwrap_or_default().split_whitespace().take(6);
            words.filter(|word| word.starts_with(MARK)).count()
        };
        let commands: usize = text.match_indices("maple-router forms ").map(|(at, _)| named(at)).sum();
        text.matches(MARK).count() - commands
    };
    let hidden = |letter: char| {
        letter.is_control() && !matches!(letter, '\n' | '\t')
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let harmless: Vec<usize> = of(MARK).iter().map(count).collect();
    for payload in payloads() {
        for (page, expected) in of(&payload).iter().zip(&harmless) {
            assert_eq!(&count(page), expected, "{}", page.name);
            assert_eq!(page.html.find(hidden), None, "{}", page.name);
        }
    }
}

/// Words of a page that are ours, not a row's.
const OURS: [&str; 19] = [
    "me",
    "/queue",
    "reason",
    "reject",
    "assign-me",
    "start",
    "resolve-remedy",
    "reject-reason",
    "assign-to-assignee",
    "promote",
    "promote-reason",
    "Mail was refused for good",
    "An attachment is infected",
    "An event cannot be read",
    "A work waits for a person's grade",
    "review-grammatical_range",
    "grade",
    "oldest",
    "newest",
];

/// The samples would be no proof if they forgot a field.
#[test]
fn every_text_of_every_view_is_hostile_in_the_samples() {
    for page in of(MARK) {
        // Tables of lifecycles are constants of the program.
        if page.name.starts_with("lifecycle") {
            continue;
        }
        let ours = |text: &&str| !text.is_empty() && !text.contains(MARK) && !OURS.contains(text);
        let harmless: Vec<&str> = page.values.split('"').skip(1).step_by(2).filter(ours).collect();
        assert_eq!(harmless, Vec::<&str>::new(), "{}", page.name);
    }
}

#[test]
fn urls_lead_to_this_desk_and_say_nothing_of_people() {
    for page in payloads().iter().flat_map(|payload| of(payload)) {
        for element in parse(&page.html).0 {
            for name in ["href", "src", "action"] {
                let Some(url) = element.get(name) else { continue };
                // A form that is sent again goes to the path of the request itself, which the router matched.
                if name == "action" && (page.name == "link" || page.name.starts_with("problem")) {
                    continue;
                }
                let local = url.starts_with('/') && !url.starts_with("//") || url.starts_with('#');
                assert!(local && !url.contains(['"', '\'', '<', '>', ' ', '\n']), "{}: {url}", page.name);
                // Only a list's own address has what its reader filtered by, and where its next page begins; a form's has its id.
                let (path, query) = url.split_once('?').unwrap_or((url, ""));
                let list = ["/queue", "/submissions"].contains(&path) || url.contains("?list=");
                let form = path.starts_with("/forms/") && !query.contains(MARK);
                assert!(list || form || !url.contains(MARK), "{}: {url}", page.name);
            }
            for name in ["srcset", "formaction", "ping", "style", "srcdoc", "http-equiv", "data"] {
                assert_eq!(element.get(name), None, "{}: <{}>", page.name, element.tag);
            }
            let inline = element.attributes.iter().find(|(name, _)| name.starts_with("on"));
            assert_eq!(inline, None, "{}", page.name);
        }
    }
    for page in samples::all(&str::to_owned) {
        let elements = parse(&page.html).0;
        let urls =
            elements.iter().flat_map(|element| ["href", "src", "action"].map(|name| element.get(name)));
        assert!(urls.flatten().all(|url| !url.contains('@')), "{}", page.name);
    }
}

#[test]
fn a_title_has_closed_words_and_ids_alone() {
    let harmless = samples::all(&str::to_owned);
    for (page, expected) in of(MARK).iter().zip(&harmless) {
        let title = |page: &Sample| {
            let titles: Vec<String> = parse(&page.html)
                .0
                .into_iter()
                .filter(|element| {
                    element.tag == "title" && element.within.last().is_some_and(|tag| tag == "head")
                })
                .map(|element| element.text)
                .collect();
            assert_eq!(titles.len(), 1, "{}", page.name);
            titles[0].clone()
        };
        assert_eq!(title(page), title(expected));
    }
}

/// A class is one of ours, whatever a row says.
#[test]
fn classes_are_those_of_the_style_sheet() {
    let sheet = include_str!("../../src/desk/pages/assets/desk.css");
    let known: BTreeSet<&str> = sheet
        .split('.')
        .skip(1)
        .map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next().unwrap_or_default())
        .collect();
    let unstyled = ["done"];
    for page in of("a b").into_iter().chain(samples::all(&str::to_owned)) {
        for element in parse(&page.html).0 {
            let Some(classes) = element.get("class") else { continue };
            for class in classes.split(' ') {
                assert!(known.contains(class) || unstyled.contains(&class), "{}: {class}", page.name);
            }
        }
    }
}

#[test]
fn a_page_is_what_its_template_says() {
    for page in samples::all(&str::to_owned) {
        let (elements, errors) = parse(&page.html);
        assert_eq!(errors, Vec::<String>::new(), "{}", page.name);
        let of = |tag: &str| elements.iter().filter(|element| element.tag == tag).collect::<Vec<_>>();
        let scripts = of("script");
        assert!(
            scripts.len() == 1 && scripts[0].get("src").is_some() && scripts[0].text.is_empty(),
            "{}",
            page.name
        );
        assert!(of("style").is_empty() && of("object").is_empty() && of("embed").is_empty(), "{}", page.name);
        let iframes = of("iframe");
        assert!(iframes.iter().all(|frame| frame.get("sandbox") == Some("")), "{}", page.name);
        assert_eq!(
            (of("main").len(), of("h1").len(), of("html")[0].get("lang")),
            (1, 1, Some("en")),
            "{}",
            page.name
        );
        let ids: Vec<&str> = elements.iter().filter_map(|element| element.get("id")).collect();
        assert_eq!(
            ids.iter().collect::<BTreeSet<_>>().len(),
            ids.len(),
            "{}: an id twice: {ids:?}",
            page.name
        );
    }
}
