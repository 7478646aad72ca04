//! The names in a PromQL expression: enough of its grammar to find every selector with its matchers. Promtool
//! checks the grammar.

/// A metric's name, with what its labels must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) name: String,
    /// Label and the values it may have by this matcher; what a dashboard puts in is left out.
    pub(crate) labels: Vec<(String, Vec<String>)>,
}

/// Every selector of ours in an expression, recording rules included.
pub(crate) fn selectors(expression: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(at) = rest.find("maple_router") {
        let tail = &rest[at..];
        let end =
            tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(tail.len());
        let (name, after) = tail.split_at(end);
        rest = after;
        let mut labels = Vec::new();
        if let Some(inside) = after.strip_prefix('{') {
            let close = closing(inside);
            labels = matchers(&inside[..close]);
            rest = &inside[close..];
        }
        found.push(Selector { name: name.to_owned(), labels });
    }
    found
}

/// Returns the position of the closing brace that is not within quotes.
fn closing(inside: &str) -> usize {
    let mut quoted = false;
    inside
        .char_indices()
        .find(|(_, c)| {
            quoted ^= *c == '"';
            *c == '}' && !quoted
        })
        .map_or(inside.len(), |(at, _)| at)
}

fn matchers(inside: &str) -> Vec<(String, Vec<String>)> {
    inside
        .split(',')
        .filter_map(|matcher| {
            let (label, value) = matcher.split_once('=')?;
            let value = value.trim().trim_start_matches('~').trim().trim_matches('"').replace("([.]0)?", "");
            let values = value.split('|').map(str::to_owned).collect();
            (!value.contains('$')).then(|| (label.trim().trim_end_matches('!').to_owned(), values))
        })
        .collect()
}

#[test]
fn names_and_labels_are_found() {
    let found = selectors(
        "a / sum by (job) (maple_router_x_total{a=\"b|c\", job=~\"$job\"}) > maple_router:late:ratio1h \
         or maple_router_y_bucket{le=~\"30([.]0)?\"}[5m] unless maple_router_z",
    );
    let selector = |name: &str, labels: &[(&str, &[&str])]| Selector {
        name: name.to_owned(),
        labels: labels
            .iter()
            .map(|(label, values)| ((*label).to_owned(), values.iter().map(|v| (*v).to_owned()).collect()))
            .collect(),
    };
    let expected = [
        selector("maple_router_x_total", &[("a", &["b", "c"])]),
        selector("maple_router:late:ratio1h", &[]),
        selector("maple_router_y_bucket", &[("le", &["30"])]),
        selector("maple_router_z", &[]),
    ];
    assert_eq!(found, expected);
}
