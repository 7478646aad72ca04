//! The text of an alert, as Slack's mrkdwn.
//!
//! Pure. Foreign text is scrubbed of addresses, put on one line, bounded and escaped, so that nothing in it can mention
//! anybody, make a link or push the command out of sight.

use std::time::Duration;

use super::groups::Say;
use crate::ports::{Runbook, Story};
use crate::scrub::scrub;

/// Longest cause, in characters.
const WHAT_LIMIT: usize = 300;
/// Longest line after the first, in characters.
const LINE_LIMIT: usize = 240;
/// Most lines of each kind.
const LINES: usize = 6;

/// The fixed parts of every alert.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Letterhead {
    /// The host that posts it.
    pub host: String,
    /// The intended channel; a webhook may post elsewhere.
    pub channel: String,
    /// Base address of the runbooks (`slack.runbooks_url`); none: the message names the file on the host.
    pub runbooks: Option<String>,
    /// The dashboard's address (`slack.dashboard_url`).
    pub dashboard: Option<String>,
}

/// The first line of an alert, beside the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headline {
    /// A pile of failures or notices.
    Pile {
        /// Number of them in this message.
        count: usize,
        /// Whether more are left for another message.
        more: bool,
    },
    /// An incident.
    Incident {
        /// First, repeated, or over.
        say: Say,
        /// The incident's duration so far, or in all.
        lasts: Duration,
    },
}

/// Returns the text.
#[must_use]
pub fn text(head: &Letterhead, headline: Headline, story: &Story) -> String {
    let what = shown(&story.what, WHAT_LIMIT);
    let first = match headline {
        Headline::Pile { count, more } => {
            format!(":rotating_light: *{count}{} × {what}*", if more { "+" } else { "" })
        }
        Headline::Incident { say: Say::News, lasts } => {
            format!(":rotating_light: *{what}* (for {})", span(lasts))
        }
        Headline::Incident { say: Say::Still, lasts } => {
            format!(":rotating_light: *still, for {}: {what}*", span(lasts))
        }
        Headline::Incident { say: Say::Over, lasts } => {
            format!(":white_check_mark: *over, after {}: {what}*", span(lasts))
        }
    };
    let mut lines = vec![first];
    if !matches!(headline, Headline::Incident { say: Say::Over, .. }) {
        lines.extend(story.details.iter().take(LINES).map(|line| shown(line, LINE_LIMIT)));
        lines.extend(story.commands.iter().take(LINES).map(|line| format!("→ `{}`", code(line))));
        if !story.runbook.file.is_empty() {
            lines.push(format!("runbook: {}", runbook(head, story.runbook)));
        }
        if let Some(dashboard) = &head.dashboard {
            lines.push(link(dashboard, "dashboard"));
        }
    }
    let origin = format!("maple-router on {} {}", head.host, head.channel);
    lines.push(format!("_{}_", shown(&origin, LINE_LIMIT)));
    lines.join("\n")
}

/// Returns the section as a link where the runbooks have an address, else as a file of the host.
fn runbook(head: &Letterhead, runbook: Runbook) -> String {
    match &head.runbooks {
        Some(base) => {
            let address = format!("{}/{}#{}", base.trim_end_matches('/'), runbook.file, runbook.section);
            link(&address, &format!("{}, section {}", runbook.file, runbook.section))
        }
        None => shown(&runbook.to_string(), LINE_LIMIT),
    }
}

/// Returns Slack's form of a link. Only an address of the configuration gets into one: its validation rejects every
/// character that would end the link early.
fn link(address: &str, words: &str) -> String {
    format!("<{}|{}>", escaped(address), shown(words, LINE_LIMIT))
}

/// Returns the text scrubbed, on one line, bounded, escaped.
fn shown(text: &str, limit: usize) -> String {
    escaped(&bounded(&scrub(&one_line(text)), limit))
}

/// [`shown`], fit for a place between back-ticks.
fn code(text: &str) -> String {
    shown(text, LINE_LIMIT).replace('`', "'")
}

fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns at most `limit` characters, the last of them an ellipsis where text was cut.
fn bounded(text: &str, limit: usize) -> String {
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit - 1).collect();
    format!("{}…", kept.trim_end())
}

/// Escapes Slack's three characters: the result contains no link, mention or channel.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns `45 s`, `12 min`, `3 h 5 min`, `2 d`.
#[must_use]
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match hours {
        0 if minutes == 0 => format!("{seconds} s"),
        0 => format!("{minutes} min"),
        1..48 if minutes % 60 > 0 => format!("{hours} h {} min", minutes % 60),
        1..48 => format!("{hours} h"),
        _ => format!("{} d", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Runbook;

    fn head() -> Letterhead {
        Letterhead {
            host: "maple-1".to_owned(),
            channel: "#us-soc-alerts".to_owned(),
            ..Letterhead::default()
        }
    }

    fn story() -> Story {
        Story {
            what: "submission failed: a delivery was refused for good (RCPT 550 5.1.1)".to_owned(),
            details: vec![
                "the relay said: <a.user@example.org>: no such user & no <!channel> here".to_owned(),
                "oldest 12 min ago".to_owned(),
            ],
            commands: vec!["maple-router explain 6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11".to_owned()],
            runbook: Runbook { file: "rb-009-routing-failure.md", section: "refused" },
        }
    }

    #[test]
    fn a_pile_says_how_many_why_and_what_to_run() {
        insta::assert_snapshot!(text(&head(), Headline::Pile { count: 500, more: false }, &story()), @r"
        :rotating_light: *500 × submission failed: a delivery was refused for good (RCPT 550 5.1.1)*
        the relay said: &lt;address&gt;: no such user &amp; no &lt;!channel&gt; here
        oldest 12 min ago
        → `maple-router explain 6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11`
        runbook: /usr/share/doc/maple-router/runbooks/rb-009-routing-failure.md, section refused
        _maple-router on maple-1 #us-soc-alerts_
        ");
    }

    #[test]
    fn runbook_and_dashboard_are_links_where_they_have_addresses() {
        let head = Letterhead {
            runbooks: Some("https://wiki.example.org/runbooks/".to_owned()),
            dashboard: Some("https://grafana.example.org/d/maple?var-a=1&orgId=1".to_owned()),
            ..head()
        };
        let notified = text(&head, Headline::Pile { count: 1, more: false }, &story());
        let links: Vec<&str> = notified.lines().filter(|line| line.contains("<http")).collect();
        let section = "https://wiki.example.org/runbooks/rb-009-routing-failure.md#refused";
        let runbook = format!("runbook: <{section}|rb-009-routing-failure.md, section refused>");
        let dashboard = "<https://grafana.example.org/d/maple?var-a=1&amp;orgId=1|dashboard>";
        assert_eq!(links, [runbook.as_str(), dashboard]);
        let over = Headline::Incident { say: Say::Over, lasts: Duration::from_secs(1) };
        assert!(!text(&head, over, &story()).contains("http"), "nothing is to be done any more");
    }

    #[test]
    fn an_incident_says_since_when_and_its_end_only_that() {
        let notified = |say, seconds| {
            text(&head(), Headline::Incident { say, lasts: Duration::from_secs(seconds) }, &story())
        };
        let all = [notified(Say::News, 30), notified(Say::Still, 4 * 3600 + 60), notified(Say::Over, 90)]
            .join("\n\n");
        insta::assert_snapshot!(all, @r"
        :rotating_light: *submission failed: a delivery was refused for good (RCPT 550 5.1.1)* (for 30 s)
        the relay said: &lt;address&gt;: no such user &amp; no &lt;!channel&gt; here
        oldest 12 min ago
        → `maple-router explain 6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11`
        runbook: /usr/share/doc/maple-router/runbooks/rb-009-routing-failure.md, section refused
        _maple-router on maple-1 #us-soc-alerts_

        :rotating_light: *still, for 4 h 1 min: submission failed: a delivery was refused for good (RCPT 550 5.1.1)*
        the relay said: &lt;address&gt;: no such user &amp; no &lt;!channel&gt; here
        oldest 12 min ago
        → `maple-router explain 6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11`
        runbook: /usr/share/doc/maple-router/runbooks/rb-009-routing-failure.md, section refused
        _maple-router on maple-1 #us-soc-alerts_

        :white_check_mark: *over, after 1 min: submission failed: a delivery was refused for good (RCPT 550 5.1.1)*
        _maple-router on maple-1 #us-soc-alerts_
        ");
    }

    #[test]
    fn nothing_from_elsewhere_leaves_its_place() {
        let hostile = "a\nb `rm` <https://x.test|click> @here <!here> \u{7} me@x.test ".repeat(40);
        let story = Story {
            what: hostile.clone(),
            details: vec![hostile.clone(); 40],
            commands: vec![hostile.clone(); 40],
            runbook: Runbook { file: "rb-009-routing-failure.md", section: "refused" },
        };
        let head = Letterhead { host: hostile.clone(), channel: hostile, ..Letterhead::default() };
        let notified = text(&head, Headline::Pile { count: 1, more: true }, &story);
        assert!(notified.starts_with(":rotating_light: *1+ × "), "{notified}");
        assert!(!notified.contains(['<', '>', '@', '\u{7}']) && !notified.contains("me@"), "{notified}");
        assert_eq!(notified.lines().count(), 1 + 2 * LINES + 2, "{notified}");
        assert!(
            notified.lines().filter(|line| line.starts_with('→')).all(|line| line.matches('`').count() == 2)
        );
        // Escaping makes three characters longer.
        assert!(notified.chars().count() < 40_000 / 4, "{}", notified.chars().count());
    }

    #[test]
    fn times_are_told_as_people_do() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h"),
            (3660, "1 h 1 min"),
            (172_799, "47 h 59 min"),
            (172_800, "2 d"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), expected);
        }
    }
}
