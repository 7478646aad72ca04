//! Bucket and rows, side by side: objects that no row names, rows whose object is missing, objects that are not the ones that were proven.
//!
//! Reads only, and reports: what is unknown is never deleted by a program. Both are read in the order of their names' bytes, page by
//! page, so that memory stays flat. Each difference is looked at once more before it is told, because both go on changing meanwhile.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;
use uuid::Uuid;

use super::store::RetentionStore;
use super::store::swept::RowOfObject;
use crate::db::DbError;
use crate::gateway::objects::store::{Listed, ObjectName, ObjectStore, StoreError};

/// Rows of a page, and unknown objects that are looked up at once.
const PAGE: usize = 1000;

/// A difference. Names of objects may say what people wrote: they are for whoever asks, and logged nowhere.
#[derive(Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "difference", rename_all = "snake_case")]
pub enum Difference {
    /// No row names the object.
    Unknown {
        /// Its bucket.
        bucket: String,
        /// Its name.
        object: String,
        /// Its length in bytes.
        length: u64,
    },
    /// A blob that is needed, or waits to be collected, has no object.
    Missing {
        /// The blob.
        blob: Uuid,
    },
    /// Another object has the name of the one that was proven.
    Replaced {
        /// The blob.
        blob: Uuid,
    },
}

/// What was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Compared {
    /// Objects in the buckets.
    pub objects: u64,
    /// Rows of blobs.
    pub rows: u64,
    /// Objects that no row names.
    pub unknown: u64,
    /// Blobs without their object.
    pub missing: u64,
    /// Blobs with another object.
    pub replaced: u64,
}

/// Why a reconciliation ended early.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What compares.
#[derive(Debug, Clone)]
pub struct Reconciler {
    /// The rows.
    pub store: RetentionStore,
    /// The objects.
    pub objects: Arc<ObjectStore>,
}

/// What the two fronts say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Both have it; whether it is the object of the row.
    Both(bool),
    /// Only the bucket has it.
    Object,
    /// Only the rows have it.
    Row,
}

/// Compares the fronts of both lists; nothing: both are at their end. Pure.
fn step(listed: Option<&Listed>, row: Option<&RowOfObject>) -> Option<Step> {
    match (listed, row) {
        (None, None) => None,
        (Some(_), None) => Some(Step::Object),
        (None, Some(_)) => Some(Step::Row),
        (Some(listed), Some(row)) => Some(match listed.name.as_bytes().cmp(row.object.as_bytes()) {
            Ordering::Less => Step::Object,
            Ordering::Greater => Step::Row,
            Ordering::Equal => {
                Step::Both(row.generation.is_none_or(|generation| generation == listed.generation))
            }
        }),
    }
}

impl Reconciler {
    /// Compares a bucket with the rows; `report` hears each difference, `progress` the counts after each page.
    ///
    /// # Errors
    /// [`ReconcileError`]; differences reported by then are true.
    pub async fn bucket(
        &self,
        bucket: &str,
        compared: &mut Compared,
        mut report: impl FnMut(Difference) + Send,
        progress: impl Fn(&Compared) + Send + Sync,
    ) -> Result<(), ReconcileError> {
        let mut listed = Listing { of: self, bucket, page: VecDeque::new(), next: None, is_over: false };
        let mut rows =
            Rows { of: self, bucket, page: VecDeque::new(), behind: String::new(), is_over: false };
        let mut unknown: Vec<Listed> = Vec::new();
        loop {
            if listed.fill().await? | rows.fill().await? {
                progress(compared);
            }
            let Some(step) = step(listed.page.front(), rows.page.front()) else { break };
            let row = if step == Step::Object { None } else { rows.page.pop_front() };
            let object = if step == Step::Row { None } else { listed.page.pop_front() };
            compared.objects += u64::from(object.is_some());
            compared.rows += u64::from(row.is_some());
            match (step, row) {
                (Step::Object, _) => unknown.extend(object),
                (Step::Both(false) | Step::Row, Some(row)) if row.is_wanted => {
                    self.row(bucket, &row, compared, &mut report).await?;
                }
                (Step::Both(_) | Step::Row, _) => {}
            }
            if unknown.len() >= PAGE {
                self.unknown(bucket, std::mem::take(&mut unknown), compared, &mut report).await?;
            }
        }
        self.unknown(bucket, unknown, compared, &mut report).await?;
        progress(compared);
        Ok(())
    }

    /// Tells those of some objects that no row names now either.
    async fn unknown(
        &self,
        bucket: &str,
        objects: Vec<Listed>,
        compared: &mut Compared,
        report: &mut impl FnMut(Difference),
    ) -> Result<(), ReconcileError> {
        if objects.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = objects.iter().map(|object| object.name.clone()).collect();
        let named = self.store.named(bucket, &names).await?;
        for object in objects.into_iter().filter(|object| !named.contains(&object.name)) {
            // What went meanwhile is no difference any more.
            let name = ObjectName::new(bucket, object.name.as_str())?;
            if self.objects.stat(&name).await?.is_some() {
                compared.unknown += 1;
                report(Difference::Unknown {
                    bucket: bucket.to_owned(),
                    object: object.name,
                    length: object.length,
                });
            }
        }
        Ok(())
    }

    /// Tells a row whose object is missing or another, if that still is so.
    async fn row(
        &self,
        bucket: &str,
        row: &RowOfObject,
        compared: &mut Compared,
        report: &mut impl FnMut(Difference),
    ) -> Result<(), ReconcileError> {
        let stat = self.objects.stat(&ObjectName::new(bucket, row.object.as_str())?).await?;
        let is_replaced = match (stat, row.generation) {
            (None, _) => false,
            (Some(stat), Some(generation)) if stat.generation != generation => true,
            (Some(_), _) => return Ok(()),
        };
        if !self.store.still_has(row.blob, &row.object).await? {
            return Ok(());
        }
        if is_replaced {
            compared.replaced += 1;
            report(Difference::Replaced { blob: row.blob });
        } else {
            compared.missing += 1;
            report(Difference::Missing { blob: row.blob });
        }
        Ok(())
    }
}

/// The bucket's list.
struct Listing<'a> {
    of: &'a Reconciler,
    bucket: &'a str,
    page: VecDeque<Listed>,
    next: Option<String>,
    is_over: bool,
}

impl Listing<'_> {
    /// Reads on where the page is empty. Whether it did.
    async fn fill(&mut self) -> Result<bool, StoreError> {
        let mut read = false;
        while self.page.is_empty() && !self.is_over {
            let page = self.of.objects.list(self.bucket, self.next.as_deref()).await?;
            (self.is_over, self.next) = (page.next.is_none(), page.next);
            self.page.extend(page.objects);
            read = true;
        }
        Ok(read)
    }
}

/// The rows' list.
struct Rows<'a> {
    of: &'a Reconciler,
    bucket: &'a str,
    page: VecDeque<RowOfObject>,
    behind: String,
    is_over: bool,
}

impl Rows<'_> {
    /// Reads on where the page is empty. Whether it did.
    async fn fill(&mut self) -> Result<bool, DbError> {
        if !self.page.is_empty() || self.is_over {
            return Ok(false);
        }
        let page = self.of.store.objects(self.bucket, &self.behind, PAGE).await?;
        self.is_over = page.len() < PAGE;
        if let Some(last) = page.last() {
            self.behind.clone_from(&last.object);
        }
        self.page.extend(page);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_compared_by_the_bytes_of_their_names() {
        let listed = |name: &str| Listed { name: name.to_owned(), generation: 7, length: 1 };
        let row = |object: &str, generation| RowOfObject {
            blob: Uuid::nil(),
            object: object.to_owned(),
            generation,
            is_wanted: true,
        };
        assert_eq!(step(None, None), None);
        assert_eq!(step(Some(&listed("a")), None), Some(Step::Object));
        assert_eq!(step(None, Some(&row("a", None))), Some(Step::Row));
        assert_eq!(step(Some(&listed("a")), Some(&row("b", None))), Some(Step::Object));
        // Upper case comes first, and a letter of two bytes last.
        assert_eq!(step(Some(&listed("a")), Some(&row("B", None))), Some(Step::Row));
        assert_eq!(step(Some(&listed("é")), Some(&row("z", None))), Some(Step::Row));
        assert_eq!(step(Some(&listed("a")), Some(&row("a", None))), Some(Step::Both(true)));
        assert_eq!(step(Some(&listed("a")), Some(&row("a", Some(7)))), Some(Step::Both(true)));
        assert_eq!(step(Some(&listed("a")), Some(&row("a", Some(8)))), Some(Step::Both(false)));
    }
}
