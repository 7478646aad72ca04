//! Pages of our own: a body's content, as HTML that every reader can use.
//!
//! One heading, terms with their values, links with names; nothing is loaded from elsewhere, nothing runs, nothing
//! reports that a mail was opened. Colours have a contrast of at least 7 : 1 on both backgrounds, and the reader's own
//! choice of a dark one is followed. Invariant: pure, and all foreign text is escaped.

/// Start of the page's head, before its name.
const HEAD: &str = "\
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<style>
:root { color-scheme: light dark; }
body { margin: 0; padding: 24px 16px; background: #ffffff; color: #1b1b1f;
  font: 16px/1.5 -apple-system, \"Segoe UI\", Roboto, \"Helvetica Neue\", Arial, sans-serif; }
main { max-width: 40em; margin: 0 auto; overflow-wrap: anywhere; }
h1 { margin: 0 0 16px; font-size: 24px; line-height: 1.25; }
h2 { margin: 32px 0 8px; font-size: 19px; line-height: 1.25; }
p { margin: 0 0 16px; }
dl { margin: 0; }
dt { margin: 0; color: #45454d; font-size: 14px; }
dd { margin: 0 0 16px; }
ul { margin: 0; padding: 0 0 0 20px; }
li { margin: 0 0 16px; }
a { color: #0a479e; }
.note { color: #45454d; font-size: 14px; }
@media (prefers-color-scheme: dark) {
body { background: #17171a; color: #ececf1; }
dt, .note { color: #c3c3cd; }
a { color: #a8c7ff; }
}
</style>";

/// A page, built from its top.
#[derive(Debug)]
pub(super) struct Page(String);

impl Page {
    /// Starts a page with its name in the title and in its one main heading.
    pub(super) fn new(name: &str) -> Self {
        let name = escaped(name);
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n{HEAD}\n<title>{name}</title>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n"
        ))
    }

    /// Adds a paragraph.
    pub(super) fn paragraph(&mut self, text: &str) {
        self.0.push_str(&format!("<p>{}</p>\n", escaped(text)));
    }

    /// Adds a heading of the second level.
    pub(super) fn heading(&mut self, text: &str) {
        self.0.push_str(&format!("<h2>{}</h2>\n", escaped(text)));
    }

    /// Adds terms with their values, each in as many lines as it has. Their direction is that of their own script.
    pub(super) fn terms<'t>(&mut self, terms: impl IntoIterator<Item = (&'t str, &'t str)>) {
        self.0.push_str("<dl>\n");
        for (term, meaning) in terms {
            let meaning = match meaning.trim_end() {
                "" => "(empty)".to_owned(),
                meaning => escaped(meaning).replace('\n', "<br>\n"),
            };
            self.0.push_str(&format!(
                "<dt dir=\"auto\">{}</dt>\n<dd dir=\"auto\">{meaning}</dd>\n",
                escaped(term)
            ));
        }
        self.0.push_str("</dl>\n");
    }

    /// Ends the page; a block may still be put before its end.
    pub(super) fn finished(mut self) -> String {
        self.0.push_str("</main>\n</body>\n</html>\n");
        self.0
    }
}

/// Escapes text for HTML, in element content and in quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_escaped() {
        assert_eq!(escaped("<a href='x'>&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;");
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let page = Page::new("x").finished();
        for remote in ["http:", "https:", "url(", "@import", "src=", "<script", "<link"] {
            assert!(!page.contains(remote), "{remote}");
        }
    }
}
