//! A Slack message as its reader on call uses it: what to paste, and what to read. Pure.

/// The commands, as somebody copies them out of Slack.
#[must_use]
pub fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("→ `")?.strip_suffix('`'));
    lines.map(|line| line.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).collect()
}

/// The runbook's path and section.
#[must_use]
pub fn runbook(text: &str) -> Option<(&str, &str)> {
    text.lines().find_map(|line| line.strip_prefix("runbook: ")?.split_once(", section "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_and_what_is_read() {
        let text = ":rotating_light: *x*\n→ `maple-router explain 7`\n→ `a &amp;&amp; b`\nrunbook: /d/rb.md, section refused\n_x_";
        assert_eq!(commands(text), ["maple-router explain 7", "a && b"]);
        assert_eq!(runbook(text), Some(("/d/rb.md", "refused")));
        assert_eq!((commands("*over*").len(), runbook("*over*")), (0, None));
    }
}
