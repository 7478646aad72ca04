//! The report of a back-fill: tickets by form and category, objections by form and action, what is left and why.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::super::super::layout::{Side, Table};
use super::super::super::{CliError, Exit, output};
use crate::ports::{Fault, Stage};
use crate::routing::submission::text::{bounded, one_line};
use crate::routing::worker::prepare::Foreseen;

/// Ids shown of those that are left for the same reason; `--json` has all.
const SHOWN: usize = 10;
/// Longest form or category in a table, in characters.
const LONGEST: usize = 40;

/// The report; it has neither a field's value nor an address.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Submissions with a deferred ticket.
    matched: usize,
    /// Submissions that are open again.
    pub(super) submissions: usize,
    /// Tickets that are open; in a dry run, those that would be.
    tickets: usize,
    categories: Vec<Category>,
    objections: Vec<Objection>,
    left: Vec<Left>,
    /// Submissions that were not looked at.
    pub(super) remaining: usize,
    /// Somebody ended it.
    pub(super) interrupted: bool,
    /// Nothing was changed.
    dry_run: bool,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Category {
    form: String,
    /// Absent where the action names none.
    category: Option<String>,
    tickets: usize,
    refused: usize,
}

/// Tickets of one action that would be refused for the same reason.
#[derive(Debug, Serialize)]
struct Objection {
    form: String,
    action_order: i32,
    stage: Stage,
    why: String,
    count: usize,
    /// One of the submissions.
    sample: Uuid,
}

#[derive(Debug, Serialize)]
struct Left {
    id: Uuid,
    why: String,
}

/// The submission that is spoken of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) id: Uuid,
    pub(super) form: &'a str,
}

impl Report {
    /// A report of `matched` submissions, none looked at yet.
    pub(super) fn new(matched: usize, dry_run: bool) -> Self {
        Self {
            matched,
            submissions: 0,
            tickets: 0,
            categories: Vec::new(),
            objections: Vec::new(),
            left: Vec::new(),
            remaining: matched,
            interrupted: false,
            dry_run,
            warnings: Vec::new(),
        }
    }

    /// Adds a submission that stays as it is.
    pub(super) fn leave(&mut self, id: Uuid, why: impl Into<String>) {
        self.left.push(Left { id, why: why.into() });
    }

    /// Adds a ticket, which is open where nothing is said against it.
    pub(super) fn ticket(&mut self, subject: Subject<'_>, foreseen: &Foreseen, against: &[Fault]) {
        let (form, category) = (subject.form, &foreseen.category);
        let same = |known: &&mut Category| known.form == form && known.category == *category;
        let counts = match self.categories.iter_mut().find(same) {
            Some(known) => known,
            None => {
                let (form, category) = (form.to_owned(), category.clone());
                self.categories.push(Category { form, category, tickets: 0, refused: 0 });
                let last = self.categories.len() - 1;
                &mut self.categories[last]
            }
        };
        if against.is_empty() {
            counts.tickets += 1;
            self.tickets += 1;
        } else {
            counts.refused += 1;
        }
        for fault in against {
            self.object(subject, foreseen.action_order, fault);
        }
    }

    fn object(&mut self, subject: Subject<'_>, action_order: i32, fault: &Fault) {
        let why = &fault.reply.reply;
        let same = |known: &&mut Objection| {
            known.form == subject.form && known.action_order == action_order && known.why == *why
        };
        match self.objections.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None => self.objections.push(Objection {
                form: subject.form.to_owned(),
                action_order,
                stage: fault.stage,
                why: why.clone(),
                count: 1,
                sample: subject.id,
            }),
        }
    }

    /// Whoever chooses by filters expects some to be done, and all of them to be looked at.
    pub(super) fn exit(&self) -> Exit {
        let all = self.left.is_empty() && self.objections.is_empty();
        if self.remaining == 0 && (all || self.tickets > 0) { Exit::Done } else { Exit::FoundWanting }
    }

    /// Prints the report.
    pub(super) fn tell(&mut self, json: bool) -> Result<(), CliError> {
        self.categories.sort_by(|a, b| (&a.form, &a.category).cmp(&(&b.form, &b.category)));
        self.objections
            .sort_by(|a, b| (&a.form, a.action_order, &a.why).cmp(&(&b.form, b.action_order, &b.why)));
        if json {
            return output::json(self);
        }
        for warning in &self.warnings {
            output::note(&format!("warning: {warning}"))?;
        }
        if !self.categories.is_empty() {
            output::text(&self.table().text(output::columns()))?;
        }
        output::page(&self.words())
    }

    fn table(&self) -> Table {
        let tickets = if self.dry_run { "would be made" } else { "opened" };
        let refused = if self.dry_run { "would be refused" } else { "left" };
        let mut table = Table::new(&[
            ("form", Side::Left),
            ("category", Side::Left),
            (tickets, Side::Right),
            (refused, Side::Right),
        ]);
        let shown = |text: &str| bounded(one_line(text), LONGEST);
        for one in &self.categories {
            let category = one.category.as_deref().map_or_else(|| "none".to_owned(), shown);
            table.row(vec![shown(&one.form), category, one.tickets.to_string(), one.refused.to_string()]);
        }
        table
    }

    fn words(&self) -> String {
        let mut text = String::new();
        for Objection { form, action_order, why, count, sample, .. } in &self.objections {
            let form = bounded(one_line(form), LONGEST);
            text.push_str(&format!(
                "would be refused: form {form}, action {action_order}: {why} ({count}, e.g. {sample})\n"
            ));
        }
        if self.objections.iter().any(|one| matches!(one.stage, Stage::Category | Stage::Template)) {
            text.push_str(
                "a category and the texts are those of the pinned plan: where they are wrong, correct the form's YAML, load it, then \
                 `maple-router replay ID --replan --reason TEXT`\n",
            );
        }
        let mut reasons: BTreeMap<&str, Vec<Uuid>> = BTreeMap::new();
        for Left { id, why } in &self.left {
            reasons.entry(why).or_default().push(*id);
        }
        for (why, ids) in reasons {
            let mut named: Vec<String> = ids.iter().take(SHOWN).map(Uuid::to_string).collect();
            if ids.len() > SHOWN {
                named.push(format!("and {} more (--json)", ids.len() - SHOWN));
            }
            text.push_str(&format!("left as they are ({}): {why}: {}\n", ids.len(), named.join(", ")));
        }
        let refused: usize = self.categories.iter().map(|one| one.refused).sum();
        let opened = if self.dry_run { "would be made" } else { "opened" };
        text.push_str(&format!(
            "{} with deferred tickets: {} {opened}, {refused} would be refused, {} left\n",
            counted(self.matched, "submission"),
            counted(self.tickets, "ticket"),
            counted(self.left.len(), "submission")
        ));
        if self.remaining > 0 {
            let why = if self.interrupted { "interrupted" } else { "ended early" };
            text.push_str(&format!(
                "{why}: {} of {} submissions were not looked at; the same command goes on with them\n",
                self.remaining, self.matched
            ));
        }
        text
    }
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Reply;

    fn fault(why: &str) -> Fault {
        let reply = Reply { reply: why.to_owned(), ..Reply::default() };
        Fault { stage: Stage::Category, reply, about_us: false }
    }

    #[test]
    fn the_report_counts_by_category_and_names_one_for_each_objection() {
        let mut report = Report::new(6, true);
        let of = |order, category: &str| Foreseen {
            action_order: order,
            category: Some(category.to_owned()),
            ticket: Err(fault("")),
        };
        for id in 1..=3 {
            let subject = Subject { id: Uuid::from_u128(id), form: "f" };
            report.ticket(subject, &of(1, "General"), &[]);
            report.ticket(subject, &of(2, "Gone"), &[fault("it does not exist")]);
            report.remaining -= 1;
        }
        report.leave(Uuid::from_u128(4), "somebody has it");
        report.leave(Uuid::from_u128(5), "somebody has it");
        report.remaining -= 2;
        assert_eq!(
            report.table().text(None),
            "form  category  would be made  would be refused\nf     General               3                 0\nf     Gone                  0                 3\n"
        );
        let words = report.words();
        let expected = [
            "would be refused: form f, action 2: it does not exist (3, e.g. 00000000-0000-0000-0000-000000000001)",
            "replay ID --replan",
            "left as they are (2): somebody has it: 00000000-0000-0000-0000-000000000004, 00000000-0000-0000-0000-000000000005",
            "6 submissions with deferred tickets: 3 tickets would be made, 3 would be refused, 2 submissions left",
            "ended early: 1 of 6 submissions were not looked at",
        ];
        for line in expected {
            assert!(words.contains(line), "{line}: {words}");
        }
        assert_eq!(report.exit(), Exit::FoundWanting, "one was not looked at");
        report.remaining = 0;
        assert_eq!(report.exit(), Exit::Done);
        let mut nothing = Report::new(1, false);
        nothing.remaining = 0;
        assert_eq!(nothing.exit(), Exit::Done);
        nothing.leave(Uuid::nil(), "why");
        assert_eq!(nothing.exit(), Exit::FoundWanting);
    }
}
