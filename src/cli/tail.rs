//! `tail`: what becomes of all submissions, a line each as they end.
//!
//! Reads only, looking once a second by an index, or by the audit log's key where that may be read; where there is neither, the
//! longer a look takes the rarer it is. What was told lately is remembered, so that an end that commits late is told as well
//! and none twice; no more is kept than what ended within [`BACK`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::desk::{self, Desk};
use super::output::{self, Palette};
use super::watch::passes;
use super::{CliError, Context, Exit};
use crate::db::DbError;
use crate::ops::clock::SystemClock;
use crate::ports::Clock as _;
use crate::routing::explain::at;
use crate::routing::store::ends::{End, Ends, Place, Told, Ways};
use crate::routing::text::{bounded, one_line};

/// Between two looks, at least.
const EVERY: Duration = Duration::from_secs(1);
/// So much longer than a look took is the rest after it.
const RESTS: u32 = 20;
/// A transaction that began so long ago may still commit: longer than the longest of ours.
const BACK: SignedDuration = SignedDuration::from_secs(30);
/// Rows of a page.
const PAGE: i64 = 500;

/// Arguments of `tail`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only of this form
    #[arg(long, value_name = "FORM")]
    pub(super) form: Option<String>,
    /// A JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

/// Follows until it is ended.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let desk = Desk::open(ctx)?;
    let ends = Ends::new(desk.pool());
    let ways = ends.ways().await.map_err(desk::database)?;
    if let Some(unknown) = desk.unknown_form(args.form.as_deref()).await {
        output::note(&format!("warning: {unknown}"))?;
    }
    if !ways.indexed && !ways.audited {
        output::note(
            "warning: there is no index on submissions (status, updated_at), and this role may not read the audit log: each look \
             reads all submissions, so there are few",
        )?;
    }
    let mut follower = Follower::new(ends.begin(ways).await.map_err(desk::database)?);
    if !args.json {
        output::note("following what becomes of submissions from now on; Ctrl-C ends it")?;
    }
    let (clock, mut silent) = (SystemClock, false);
    loop {
        let began = clock.monotonic();
        match follower.look(&ends, ways).await {
            Ok(found) => {
                silent = false;
                for end in found.iter().filter(|end| args.form.is_none() || end.form_id == args.form) {
                    if args.json { output::json_line(end)? } else { output::page(&line(end))? }
                }
            }
            Err(error) if !passes(&error) => return Err(desk::database(error)),
            Err(error) => {
                if !std::mem::replace(&mut silent, true) {
                    output::note(&format!("the database does not answer ({error}): waiting for it"))?;
                }
            }
        }
        let took = clock.monotonic().saturating_duration_since(began);
        tokio::time::sleep(EVERY.max(took * RESTS)).await;
    }
}

fn line(end: &End) -> String {
    let palette = Palette::of_stdout();
    let status = format!("{:<6}", one_line(&end.status));
    let painted = if end.status == "routed" { palette.green(&status) } else { palette.red(&status) };
    let form = end.form_id.as_deref().map(|form| bounded(one_line(form), 40)).unwrap_or_default();
    let attempts = end.attempts.as_deref().map(|n| format!("attempt {}", bounded(one_line(n), 10)));
    let reason = end.reason.as_deref().map(|reason| bounded(one_line(reason), 30));
    let facts: Vec<String> = attempts.into_iter().chain(reason).collect();
    format!("{}  {}  {painted}  {form}  {}", at(end.at), end.id, facts.join(", ")).trim_end().to_owned()
}

/// Where the next look begins, and what was told of what it sees again.
#[derive(Debug)]
struct Follower {
    /// Nothing older is told.
    begin: Timestamp,
    /// The latest that was seen.
    latest: Timestamp,
    told: BTreeSet<End>,
    /// In the audit log everything up to here is over.
    after: i64,
    /// Places in the log beyond that were seen, by when the row was written.
    places: BTreeMap<i64, Timestamp>,
}

impl Follower {
    fn new(begin: Place) -> Self {
        let Place { at, audit } = begin;
        Self { begin: at, latest: at, told: BTreeSet::new(), after: audit, places: BTreeMap::new() }
    }

    /// What has ended since the last look.
    async fn look(&mut self, ends: &Ends, ways: Ways) -> Result<Vec<End>, DbError> {
        let (mut since, mut after, mut new) = (self.again_from(), self.after, Vec::new());
        let full = |read: usize| read >= usize::try_from(PAGE).unwrap_or(usize::MAX);
        loop {
            let (found, more) = if ways.audited && !ways.indexed {
                let page = ends.trail(after, PAGE).await?;
                after = page.last().map_or(after, |row| row.place);
                let more = full(page.len());
                (self.of_the_trail(page), more)
            } else {
                let page = ends.rows(since, PAGE).await?;
                since = page.last().map_or(since, |end| end.at);
                let (read, found) = (page.len(), self.of_the_rows(page));
                // A page that holds nothing new is followed by none.
                let more = full(read) && !found.is_empty();
                (found, more)
            };
            new.extend(found);
            if !more {
                break;
            }
        }
        self.forget();
        Ok(new)
    }

    /// Those that were not told of.
    fn of_the_rows(&mut self, page: Vec<End>) -> Vec<End> {
        let new: Vec<End> = page.into_iter().filter(|end| self.told.insert(end.clone())).collect();
        self.latest = new.iter().map(|end| end.at).fold(self.latest, Timestamp::max);
        new
    }

    /// The same.
    fn of_the_trail(&mut self, page: Vec<Told>) -> Vec<End> {
        let mut new = Vec::new();
        for Told { place, at, end } in page {
            self.latest = self.latest.max(at);
            if self.places.insert(place, at).is_none() {
                new.extend(end);
            }
        }
        new
    }

    /// Drops what nothing can be written before any more.
    fn forget(&mut self) {
        let old = self.again_from();
        self.told.retain(|end| end.at >= old);
        while let Some(first) = self.places.first_entry().filter(|first| *first.get() < old) {
            self.after = self.after.max(*first.key());
            first.remove();
        }
    }

    /// From where rows are looked at again.
    fn again_from(&self) -> Timestamp {
        self.latest.checked_sub(BACK).unwrap_or(Timestamp::MIN).max(self.begin)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn end(n: u128, second: i64) -> End {
        let (status, attempts) = ("routed".to_owned(), Some("1".to_owned()));
        End { at: at(second), id: Uuid::from_u128(n), form_id: None, status, attempts, reason: None }
    }

    fn follower() -> Follower {
        Follower::new(Place { at: at(0), audit: 7 })
    }

    #[test]
    fn what_commits_late_is_told_and_nothing_twice_and_little_is_kept() {
        let mut follower = follower();
        assert_eq!(follower.of_the_rows(vec![end(1, 5), end(2, 6)]).len(), 2);
        follower.forget();
        assert_eq!(follower.again_from(), at(0), "nothing from before it began");
        assert_eq!(follower.of_the_rows(vec![end(3, 4), end(1, 5), end(2, 6)]), [end(3, 4)], "it was late");
        assert_eq!(follower.of_the_rows(vec![end(1, 50)]), [end(1, 50)], "it was replayed, and ended again");
        follower.forget();
        assert_eq!((follower.told.len(), follower.again_from()), (1, at(20)));
    }

    #[test]
    fn the_trail_is_read_again_from_what_may_still_be_written() {
        let row = |place, second, end| Told { place, at: at(second), end };
        let mut follower = follower();
        let page = vec![row(8, 5, None), row(10, 6, Some(end(1, 6)))];
        assert_eq!(follower.of_the_trail(page.clone()), [end(1, 6)]);
        follower.forget();
        assert_eq!(follower.after, 7);
        let page = [page, vec![row(9, 5, Some(end(2, 5)))]].concat();
        assert_eq!(follower.of_the_trail(page), [end(2, 5)], "it was late");
        follower.of_the_trail(vec![row(11, 60, None)]);
        follower.forget();
        assert_eq!((follower.after, follower.places.len()), (10, 1));
    }
}
