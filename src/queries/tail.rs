//! Submissions as they end, each reported once.
//!
//! Reads only. Recent reports are remembered, so that an end that commits late is reported as well and none twice;
//! only ends within [`BACK`] are kept.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::db::DbError;
use crate::routing::store::ends::{AuditRow, Cursor, End, Ends, Ways};

/// Longest age of a transaction that may still commit: longer than the longest of ours.
const BACK: SignedDuration = SignedDuration::from_secs(30);
/// Rows of a page.
const PAGE: i64 = 500;

/// Start of the next look, and the ends already reported in its range.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Ends before this time are not reported.
    begin: Timestamp,
    /// Time of the latest end seen.
    latest: Timestamp,
    row: BTreeSet<End>,
    /// Position in the audit log up to which everything is over.
    after: i64,
    /// Later positions in the log that were seen, by when the row was written.
    cursors: BTreeMap<i64, Timestamp>,
}

impl Follower {
    pub(crate) fn new(begin: Cursor) -> Self {
        let Cursor { at, audit } = begin;
        Self { begin: at, latest: at, row: BTreeSet::new(), after: audit, cursors: BTreeMap::new() }
    }

    /// Ends since the last look.
    pub(crate) async fn look(&mut self, ends: &Ends, ways: Ways) -> Result<Vec<End>, DbError> {
        let (mut since, mut after, mut new) = (self.again_from(), self.after, Vec::new());
        let full = |read: usize| read >= usize::try_from(PAGE).unwrap_or(usize::MAX);
        loop {
            let (found, more) = if ways.audited && !ways.indexed {
                let page = ends.trail(after, PAGE).await?;
                after = page.last().map_or(after, |row| row.cursor);
                let more = full(page.len());
                (self.of_the_trail(page), more)
            } else {
                let page = ends.rows(since, PAGE).await?;
                since = page.last().map_or(since, |end| end.at);
                let (read, found) = (page.len(), self.of_the_rows(page));
                // A page without news is the last one.
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

    /// Unreported ends of a page of rows.
    fn of_the_rows(&mut self, page: Vec<End>) -> Vec<End> {
        let new: Vec<End> = page.into_iter().filter(|end| self.row.insert(end.clone())).collect();
        self.latest = new.iter().map(|end| end.at).fold(self.latest, Timestamp::max);
        new
    }

    /// Unreported ends of a page of the audit trail.
    fn of_the_trail(&mut self, page: Vec<AuditRow>) -> Vec<End> {
        let mut new = Vec::new();
        for AuditRow { cursor, at, end } in page {
            self.latest = self.latest.max(at);
            if self.cursors.insert(cursor, at).is_none() {
                new.extend(end);
            }
        }
        new
    }

    /// Drops ends before which nothing can be written any more.
    fn forget(&mut self) {
        let old = self.again_from();
        self.row.retain(|end| end.at >= old);
        while let Some(first) = self.cursors.first_entry().filter(|first| *first.get() < old) {
            self.after = self.after.max(*first.key());
            first.remove();
        }
    }

    /// Time from which rows are looked at again.
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
        Follower::new(Cursor { at: at(0), audit: 7 })
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
        assert_eq!((follower.row.len(), follower.again_from()), (1, at(20)));
    }

    #[test]
    fn the_trail_is_read_again_from_what_may_still_be_written() {
        let row = |cursor, second, end| AuditRow { cursor, at: at(second), end };
        let mut follower = follower();
        let page = vec![row(8, 5, None), row(10, 6, Some(end(1, 6)))];
        assert_eq!(follower.of_the_trail(page.clone()), [end(1, 6)]);
        follower.forget();
        assert_eq!(follower.after, 7);
        let page = [page, vec![row(9, 5, Some(end(2, 5)))]].concat();
        assert_eq!(follower.of_the_trail(page), [end(2, 5)], "it was late");
        follower.of_the_trail(vec![row(11, 60, None)]);
        follower.forget();
        assert_eq!((follower.after, follower.cursors.len()), (10, 1));
    }
}
