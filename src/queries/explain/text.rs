//! The page as text: fits a screen of 24 lines of 100 for a normal submission, is as wide as the terminal
//! otherwise, and can be read half asleep.
//!
//! Pure. Text of others (form names, recipients, file names, a relay's words, actors) is put on one line and
//! stripped of control and direction characters before it gets here or here: none reaches the terminal.

use super::files::FilePart;
use crate::queries::explain::events::EventPart;
use crate::queries::explain::{DeliveryPart, Page, RelayPart};
use crate::queries::layout::{Palette, span, wrapped};
use crate::queries::timeline::clean;
use crate::routing::explain::{at, said};
use crate::routing::submission::text::{bounded, one_line};
use crate::routing::submission::version::FormVersion;
use crate::routing::table::Status;
use jiff::Timestamp;

/// Columns of the page where results do not go to a terminal.
pub(crate) const WIDTH: usize = 100;
/// Columns of the names at the left.
const LABEL: usize = 10;
/// Entries shown of each list; the rest is counted.
const MOST: usize = 10;
/// Lines of a screen: the history takes those that everything else leaves, from [`LEAST_HISTORY`] entries to [`MOST`].
const SCREEN: usize = 24;
/// Entries of the history that are always shown.
const LEAST_HISTORY: usize = 2;
/// Events shown.
const MOST_EVENTS: usize = 2;

/// The page.
pub(crate) fn page(page: &Page, palette: Palette, width: usize) -> String {
    let mut out = Lines { text: String::new(), width };
    let name = match &page.form_name {
        Some(name) if *name != page.form_id => format!(" \"{}\"", bounded(one_line(name), 40)),
        Some(_) | None => String::new(),
    };
    let status = page.status.label().to_uppercase();
    let reason = page.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let status = format!("{status}{reason}");
    let painted = match page.status {
        Status::Routed => palette.green(&status),
        Status::Failed => palette.red(&status),
        Status::Received | Status::Processing | Status::Purged => palette.yellow(&status),
    };
    out.raw(&format!("{}  {painted}", page.id));
    out.row("form", &format!("{}{name}{}", clean(&page.form_id, 50), version(page)));
    if let Some(note) = &page.version_note {
        out.row("version", note);
    }
    out.row("time", &times(page));
    match page.status {
        Status::Received | Status::Processing => out.row("ready", &readiness(page)),
        Status::Routed | Status::Failed => out.row("files", &files(page)),
        Status::Purged => {}
    }
    unclean(&mut out, page);
    for waits in page.files.iter().flatten().filter_map(FilePart::waits).take(MOST) {
        out.row("scan", &clean(&waits, 400));
    }
    if page.status != Status::Purged {
        out.row("attempts", &attempts(page));
    }
    plan(&mut out, page);
    deliveries(&mut out, page, palette);
    events(&mut out, page);
    let end = end(page, width);
    history(&mut out, page, end.lines());
    out.text.push_str(&end.text);
    out.text
}

/// Why it is so, what follows, and what to do.
fn end(page: &Page, width: usize) -> Lines {
    let mut out = Lines { text: String::new(), width };
    out.row("why", &clean(&page.explanation.why, 600));
    out.row("next", &clean(&page.explanation.next.what, 400));
    if let Some(when) = page.explanation.next.when {
        out.row("when", &format!("{} ({})", at(when), away(page.now, when)));
    }
    let mut name = "do";
    for remedy in &page.explanation.remedy {
        if let Some(question) = remedy.question {
            out.row(std::mem::take(&mut name), question);
        }
        let line = one_line(&remedy.line);
        match remedy.verb {
            // A command is copied from here: never broken, never shortened.
            Some(_) => out.raw(&format!("{:LABEL$}{line}", std::mem::take(&mut name))),
            None => out.row(std::mem::take(&mut name), &line),
        }
    }
    out
}

struct Lines {
    text: String,
    width: usize,
}

impl Lines {
    fn lines(&self) -> usize {
        self.text.lines().count()
    }

    fn raw(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A name and its value, wrapped under itself.
    fn row(&mut self, name: &str, value: &str) {
        self.painted(name, value, LABEL, str::to_owned);
    }

    /// A list's entry: a line where the page is wide, cut at its right; else its continuation is indented.
    fn entry(&mut self, name: &str, value: &str) {
        if self.width >= WIDTH {
            let line = bounded(format!("{name:LABEL$}{value}"), self.width);
            return self.raw(&line);
        }
        self.painted(name, value, LABEL + 4, str::to_owned);
    }

    fn painted(&mut self, name: &str, value: &str, indent: usize, paint: impl Fn(&str) -> String) {
        for line in wrapped(&format!("{name:LABEL$}"), indent, value, self.width) {
            self.raw(&paint(&line));
        }
    }
}

/// ` version 3 (digest 1a2b3c4d5e6f)`, of the plan; empty where it is of none.
fn version(page: &Page) -> String {
    let said =
        |version: &FormVersion| format!(" version {} (digest {})", version.number, version.short_digest());
    match (&page.version, &page.current_version) {
        (Some(pinned), _) => said(pinned),
        (None, Some(current)) if !page.plan_pinned && !page.status.is_terminal() => {
            format!("{}, not pinned yet", said(&current.version))
        }
        (None, _) => String::new(),
    }
}

fn times(page: &Page) -> String {
    let end = page.kept.as_ref().map_or(page.retention_expires_at, |kept| kept.ends_at);
    let kept = end.map(|end| format!(", kept until {}", at(end))).unwrap_or_default();
    format!(
        "submitted {} ({}), changed {}{kept}",
        at(page.created_at),
        away(page.now, page.created_at),
        away(page.now, page.updated_at),
    )
}

fn readiness(page: &Page) -> String {
    format!("{}; {}", page.readiness.state.replace('_', " "), files(page))
}

fn files(page: &Page) -> String {
    let part = &page.readiness;
    let all = part.attachments.len();
    if all == 0 {
        return "no attachments".to_owned();
    }
    let mut facts = vec![if all == 1 { "1 attachment".to_owned() } else { format!("{all} attachments") }];
    let infected = part.attachments.iter().filter(|scan| scan.is_infected()).count();
    let pending = part.attachments.iter().filter(|scan| !scan.is_clean()).count() - infected;
    for (count, word) in [(pending, "to be scanned"), (infected, "infected")] {
        if count > 0 {
            facts.push(format!("{count} {word}"));
        }
    }
    if pending + infected == 0 {
        facts.push("all clean".to_owned());
    }
    facts.join(", ")
}

fn attempts(page: &Page) -> String {
    let mut text = format!("{} of {}", page.attempts, page.max_attempts);
    if let Some(claim) = &page.claim {
        text.push_str(&format!(
            ", claimed by {} {}, at the latest until {}",
            clean(&claim.worker, 40),
            away(page.now, claim.at),
            at(claim.deadline)
        ));
    }
    if page.ledger_fault.is_some() {
        text = "not known: the ledger cannot be read".to_owned();
    }
    text
}

fn plan(out: &mut Lines, page: &Page) {
    if page.plan.is_empty() {
        if !page.status.is_terminal() && page.ledger_fault.is_none() {
            out.row("plan", "none: the form has no actions that this version understands");
        }
        return;
    }
    let from = if page.plan_pinned { "" } else { " (as the form is now; not pinned yet)" };
    for (n, action) in page.plan.iter().take(MOST).enumerate() {
        let template =
            action.template_id.as_deref().map(|id| format!(" {}", clean(id, 30))).unwrap_or_default();
        let generation =
            if action.generation > 0 { format!(" generation {}", action.generation) } else { String::new() };
        // Once there are deliveries they name the recipients.
        let to = if page.deliveries.is_empty() {
            format!(" to {}", clean(&action.destination, 200))
        } else {
            String::new()
        };
        let line =
            format!("{} {}{template}{generation}{from}{to}", action.action_order, action.action_type.label());
        out.entry(if n == 0 { "plan" } else { "" }, &line);
    }
    more(out, page.plan.len());
}

fn deliveries(out: &mut Lines, page: &Page, palette: Palette) {
    // Failures come first: readers look for them.
    let mut shown: Vec<&DeliveryPart> = page.deliveries.iter().collect();
    shown.sort_by_key(|delivery| match (delivery.state, tracking(delivery)) {
        ("failed", _) | (_, "bounced" | "expired") => 0,
        ("open", _) | (_, "deferred") => 1,
        _ => 2,
    });
    for (n, delivery) in shown.iter().take(MOST).enumerate() {
        let (first, further) = delivery_lines(delivery, page.now);
        let name = if n == 0 { "delivery" } else { "" };
        out.painted(name, &first, LABEL + 4, |line| match (delivery.state, tracking(delivery)) {
            ("failed", _) | (_, "bounced" | "expired") => palette.red(line),
            ("open", _) | (_, "deferred") => palette.yellow(line),
            _ => line.to_owned(),
        });
        for line in further {
            out.entry("", &format!("  {line}"));
        }
    }
    more(out, shown.len());
}

/// `1 a@example.org  accepted, 250 2.0.0, queue id 4XYZ`, and the Message-ID or the reply; or the ticket's page and tag.
fn delivery_lines(delivery: &DeliveryPart, now: Timestamp) -> (String, Vec<String>) {
    let rest = delivery.key.split_once('|').map_or("", |(_, rest)| rest);
    let recipient = match (&delivery.recipient, &delivery.unusable, rest) {
        _ if delivery.ticket.is_some() => "help desk".to_owned(),
        (Some(address), _, _) => clean(address, 60),
        (None, Some(raw), _) => format!("\"{}\" (no address)", clean(raw, 40)),
        (None, None, "") => "(no recipient)".to_owned(),
        (None, None, "!none") => "(no recipient named)".to_owned(),
        (None, None, "!limit") => "(too many recipients)".to_owned(),
        (None, None, other) => format!("(unusable address {})", clean(other.trim_start_matches('!'), 10)),
    };
    let mut facts = vec![delivery.state.replace('_', " ")];
    if delivery.in_doubt {
        facts.push("in doubt".to_owned());
    }
    if delivery.state == "accepted" {
        let code: Vec<String> =
            delivery.code.map(|code| code.to_string()).into_iter().chain(delivery.enhanced.clone()).collect();
        match tracking(delivery) {
            "" => facts.push(clean(&code.join(" "), 20)),
            "unheard" => facts.push("nothing reported of it after the relay yet".to_owned()),
            status => facts.push(status.to_owned()),
        }
        facts.extend(delivery.queue_id.as_deref().map(|id| format!("queue id {}", clean(id, 30))));
        let made = delivery.ticket.as_ref().and_then(|ticket| ticket.made.as_ref());
        facts.extend(made.map(|made| format!("ticket {}", clean(&made.display_id, 40))));
    }
    for also in delivery.ticket.iter().flat_map(|ticket| &ticket.also).take(MOST) {
        facts.push(format!("also made as {}", clean(&also.display_id, 40)));
    }
    for (is, word) in [(delivery.doubted, "was in doubt"), (delivery.late, "recorded late")] {
        if is {
            facts.push(word.to_owned());
        }
    }
    if delivery.duplicates > 0 {
        facts.push(format!("accepted {} times", delivery.duplicates + 1));
    }
    facts.retain(|fact| !fact.is_empty());
    let first = format!("{} {recipient}  {}", delivery.action_order, facts.join(", "));
    if let Some(line) = delivery.relay.as_ref().and_then(|relay| relay_line(relay, now)) {
        return (first, vec![line]);
    }
    let mut further = Vec::new();
    let second = match (&delivery.error, &delivery.message_id) {
        (Some(error), _) if delivery.state != "accepted" => said(error.stage, &error.reply),
        (_, Some(message_id)) => clean(message_id, 120),
        (Some(_) | None, None) => String::new(),
    };
    further.extend(Some(second).filter(|line| !line.is_empty()));
    if let Some(ticket) = &delivery.ticket {
        further.extend(ticket.made.iter().chain(&ticket.also).filter_map(|made| made.url.clone()).take(MOST));
        further.push(format!("tag {}", ticket.tag));
    }
    (first, further)
}

/// State of the mail after the relay's acceptance; empty where the log is not followed.
fn tracking(delivery: &DeliveryPart) -> &'static str {
    delivery.relay.as_ref().map_or("", |relay| relay.status)
}

/// `deferred since 2026-11-01 10:00:00Z (2h ago): 4.4.1 mx.x.test: timed out`
fn relay_line(relay: &RelayPart, now: Timestamp) -> Option<String> {
    let when = relay.at?;
    let (word, when) = match (relay.status, relay.since) {
        ("deferred", Some(since)) => ("deferred since", since),
        (status, _) => (status, when),
    };
    let said = if relay.said.is_empty() { String::new() } else { format!(": {}", relay.said) };
    Some(format!("{word} {} ({}){said}", at(when), away(now, when)))
}

/// The outbox, where there is one: a line for each event, the youngest first.
fn events(out: &mut Lines, page: &Page) {
    let Some(rows) = &page.events else { return };
    if rows.is_empty() {
        out.row("events", "none in the outbox");
    }
    for (n, row) in rows.iter().take(MOST_EVENTS).enumerate() {
        out.entry(if n == 0 { "events" } else { "" }, &event_line(row, page.now));
        if let Some(error) = row.error.as_deref().filter(|_| row.delivered_at.is_none()) {
            out.entry("", &format!("  {}", clean(error, 80)));
        }
    }
    if rows.len() > MOST_EVENTS {
        out.entry("", &format!("and {} earlier: --json shows all", rows.len() - MOST_EVENTS));
    }
}

/// `outbox row 7 (finalized), written 3m ago: retry wait, tried 3 times, again in 5m`; the error stands below.
fn event_line(row: &EventPart, now: Timestamp) -> String {
    let reason = row.reason.as_deref().map(|reason| format!(" ({})", clean(reason, 20))).unwrap_or_default();
    let mut facts = vec![match row.state {
        "dead_letter" => "given up on".to_owned(),
        state => state.replace('_', " "),
    }];
    facts.extend(row.delivered_at.map(|then| format!("{} later", after(row.written_at, then))));
    facts.extend(row.message_id.as_deref().map(|id| format!("as message {}", clean(id, 30))));
    if row.delivered_at.is_none() && row.tries > 0 {
        facts.push(format!(
            "tried {}",
            if row.tries == 1 { "once".to_owned() } else { format!("{} times", row.tries) }
        ));
    }
    facts.extend(row.due_at.filter(|due| *due > now).map(|due| format!("again {}", away(now, due))));
    let (id, age) = (row.outbox_row, away(now, row.written_at));
    format!("outbox row {id}{reason}, written {age}: {}", facts.join(", "))
}

/// The latest events of the history, as many as the screen has room for; and which part of it cannot be known. `below`: lines
/// that follow.
fn history(out: &mut Lines, page: &Page, below: usize) {
    let mut name = "history";
    let note = usize::from(page.audit_note.is_some());
    let room = SCREEN.saturating_sub(out.lines() + below + note);
    let hidden = if page.timeline.len() <= room.min(MOST) {
        0
    } else {
        // A line says how many are hidden.
        page.timeline.len().saturating_sub(room.saturating_sub(1).clamp(LEAST_HISTORY, MOST))
    };
    for moment in page.timeline.iter().skip(hidden) {
        out.entry(std::mem::take(&mut name), &format!("{} {}", at(moment.at), moment.line()));
    }
    if hidden > 0 {
        out.entry("", &format!("and {hidden} earlier: --json shows all"));
    }
    match page.audit_note {
        Some(note) => out.row(name, note),
        None if page.timeline.is_empty() => out.row(name, "nothing yet"),
        None => {}
    }
}

/// Attachments that are not clean, with the ids that `mark-attachment` takes.
fn unclean(out: &mut Lines, page: &Page) {
    let all = || page.readiness.attachments.iter().filter(|scan| !scan.is_clean());
    for (n, scan) in all().take(MOST).enumerate() {
        let state = clean(scan.clamav_status.as_deref().unwrap_or("not scanned"), 20);
        let file = scan.file_name.as_deref().map(|file| clean(file, 80)).unwrap_or_default();
        out.entry(if n == 0 { "file" } else { "" }, &format!("{} {state} {file}", scan.id));
    }
    more(out, all().count());
}

fn more(out: &mut Lines, all: usize) {
    if all > MOST {
        out.entry("", &format!("and {} more: --json shows all", all - MOST));
    }
}

/// A span: `12m`.
fn after(then: Timestamp, later: Timestamp) -> String {
    span(later.duration_since(then).as_secs().unsigned_abs())
}

/// A distance from now: `3h ago`, `in 12m`, `now`.
fn away(now: Timestamp, then: Timestamp) -> String {
    let seconds = then.duration_since(now).as_secs();
    if seconds == 0 {
        return "now".to_owned();
    }
    let span = span(seconds.unsigned_abs());
    if seconds < 0 { format!("{span} ago") } else { format!("in {span}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_said_in_the_unit_that_matters() {
        let now: Timestamp = "2026-11-01T10:00:00Z".parse().expect("a time");
        for (then, expected) in [
            ("2026-11-01T10:00:00.4Z", "now"),
            ("2026-11-01T09:59:01Z", "59s ago"),
            ("2026-11-01T10:02:00Z", "in 2m"),
            ("2026-11-01T07:30:00Z", "2h ago"),
            ("2026-11-04T10:00:00Z", "in 3d"),
        ] {
            assert_eq!(away(now, then.parse().expect("a time")), expected, "{then}");
        }
    }

    #[test]
    fn long_values_are_wrapped_under_themselves_and_never_wider_than_the_page() {
        let mut out = Lines { text: String::new(), width: WIDTH };
        out.row("why", &"word ".repeat(60));
        out.entry("history", &"words ".repeat(50));
        assert!(out.text.lines().all(|line| line.chars().count() <= WIDTH), "{}", out.text);
        assert!(
            out.text.lines().skip(1).take(2).all(|line| line.starts_with("          word")),
            "{}",
            out.text
        );
    }
}
