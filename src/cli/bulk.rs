//! Parts shared by all bulk verbs: the chosen submissions, and the report on them (interfaces, "Commands"):
//! matched, changed, skipped with reasons.

use std::collections::BTreeSet;

use serde::Serialize;
use uuid::Uuid;

use super::id::IdArg;
use super::setup::{self, Setup};
use super::{CliError, Exit, Filters, list, output};
use crate::queries;
use crate::routing::table::Status;

/// Result for one item, after its id; `dry_run` where nothing was done.
pub(super) trait BulkItem: Serialize {
    /// The submission, or the record.
    fn id(&self) -> Uuid;
    /// The result in words.
    fn words(&self, dry_run: bool) -> String;
    /// A warning beside the result.
    fn warning(&self) -> Option<&str> {
        None
    }
}

/// Results for all items.
#[derive(Debug, Serialize)]
pub(super) struct Report<C> {
    /// Items named or found, each once.
    pub(super) matched: usize,
    /// Items changed; in a dry run, those that would be.
    pub(super) changed: Vec<C>,
    skipped: Vec<Skipped>,
    /// Nothing was changed.
    pub(super) dry_run: bool,
    /// Warnings about all of them.
    pub(super) warnings: Vec<String>,
    /// Words about the skipped items.
    #[serde(skip)]
    stays: &'static str,
}

/// An item that stays as it is.
#[derive(Debug, Serialize)]
struct Skipped {
    id: Uuid,
    why: String,
}

impl<C: BulkItem> Report<C> {
    /// A report of `matched` items, none done yet.
    pub(super) fn new(stays: &'static str, matched: usize, dry_run: bool) -> Self {
        Self { matched, changed: Vec::new(), skipped: Vec::new(), dry_run, warnings: Vec::new(), stays }
    }

    /// The same report, with warnings about all of them.
    pub(super) fn warned(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Adds an item that stays as it is.
    pub(super) fn skip(&mut self, id: Uuid, why: impl Into<String>) {
        self.skipped.push(Skipped { id, why: why.into() });
    }

    /// Number of items dealt with.
    pub(super) fn done(&self) -> usize {
        self.changed.len() + self.skipped.len()
    }

    /// The result for the only item, or why it stays as it is.
    pub(super) fn only(self) -> Result<C, String> {
        match (self.changed.into_iter().next(), self.skipped.into_iter().next()) {
            (Some(changed), _) => Ok(changed),
            (None, Some(skipped)) => Err(skipped.why),
            (None, None) => Err("nothing became of it".to_owned()),
        }
    }

    /// A person who names items expects all of them to be done; one who chooses by filters expects some.
    pub(super) fn exit(&self, named: bool) -> Exit {
        if self.skipped.is_empty() || !named && !self.changed.is_empty() {
            Exit::Done
        } else {
            Exit::FoundWanting
        }
    }

    /// Prints the report.
    pub(super) fn tell(&self, json: bool) -> Result<(), CliError> {
        if json {
            return output::json(self);
        }
        for warning in &self.warnings {
            output::note(&format!("warning: {warning}"))?;
        }
        let mut text = String::new();
        for changed in &self.changed {
            text.push_str(&format!("{}: {}\n", changed.id(), changed.words(self.dry_run)));
            if let Some(warning) = changed.warning() {
                output::note(&format!("warning: {}: {warning}", changed.id()))?;
            }
        }
        for Skipped { id, why } in &self.skipped {
            text.push_str(&format!("{id}: {}: {why}\n", self.stays));
        }
        let (changed, skipped) = (self.changed.len(), self.skipped.len());
        let would = if self.dry_run { "would be " } else { "" };
        text.push_str(&format!("{} matched, {changed} {would}changed, {skipped} skipped\n", self.matched));
        output::page(&text)
    }
}

/// Each id once, in the order given.
pub(super) fn each_once(ids: Vec<Uuid>) -> Vec<Uuid> {
    let mut seen = BTreeSet::new();
    ids.into_iter().filter(|id| seen.insert(*id)).collect()
}

/// The submissions for `verb`: those named, or those that the filters choose, among `usual` where no status is
/// named; and warnings about the choice.
pub(super) async fn chosen(
    setup: &Setup,
    verb: &str,
    ids: &[IdArg],
    filters: Filters,
    usual: Status,
) -> Result<(Vec<Uuid>, Vec<String>), CliError> {
    match (ids.is_empty(), filters == Filters::default()) {
        (false, true) => return Ok((each_once(setup.submissions(ids).await?), Vec::new())),
        (true, false) => {}
        (false, false) => {
            let both = anyhow::anyhow!("ids and filters together are not understood");
            return Err(
                CliError::new(Exit::Usage, both).remedy("name the submissions, or say which by filters")
            );
        }
        (true, true) => {
            let none = anyhow::anyhow!("nothing says which submissions to {verb}");
            return Err(CliError::new(Exit::Usage, none).remedy(
                "name them, or choose by --status, --form, --reason-code, --bounced, --older-than, --since",
            ));
        }
    }
    let mut warnings: Vec<String> = setup.unknown_form(filters.form.as_deref()).await.into_iter().collect();
    let mut selection = list::selection(filters)?;
    if selection.status.is_empty() {
        selection.status = match usual {
            // A mail lost after the relay's acceptance ended well, as far as its status says.
            Status::Failed if selection.lost => vec![Status::Routed, Status::Failed],
            Status::Received | Status::Processing | Status::Routed | Status::Failed | Status::Purged => {
                vec![usual]
            }
        };
    }
    let limit = selection.limit;
    let (listed, more) = queries::list::lines(setup, selection).await.map_err(setup::database)?;
    if more {
        warnings.push(format!("only the first {limit} are taken: do it again for more, or raise --limit"));
    }
    Ok((listed.iter().map(|line| line.id).collect(), warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize)]
    struct Done(Uuid);

    impl BulkItem for Done {
        fn id(&self) -> Uuid {
            self.0
        }

        fn words(&self, dry_run: bool) -> String {
            if dry_run { "would be".to_owned() } else { "is".to_owned() }
        }
    }

    #[test]
    fn who_names_expects_all_and_who_filters_expects_some() {
        let id = Uuid::from_u128(1);
        let report = |changed: bool, skipped: bool| {
            let mut report = Report::new("left", 2, false);
            if changed {
                report.changed.push(Done(id));
            }
            if skipped {
                report.skip(id, "because");
            }
            report
        };
        for (changed, skipped, named, exit) in [
            (true, false, true, Exit::Done),
            (true, true, true, Exit::FoundWanting),
            (true, true, false, Exit::Done),
            (false, true, false, Exit::FoundWanting),
            (false, false, false, Exit::Done),
        ] {
            assert_eq!(report(changed, skipped).exit(named), exit, "{changed} {skipped} {named}");
        }
        assert_eq!(report(true, true).done(), 2);
        assert_eq!(report(false, true).only().expect_err("skipped"), "because");
        assert_eq!(each_once(vec![id, Uuid::nil(), id]), [id, Uuid::nil()]);
    }
}
