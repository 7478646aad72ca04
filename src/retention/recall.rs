//! A recall: an object gets a new name, everybody goes by it, and the old one is deleted, so that every mailed link answers 404 while
//! the evidence stays.
//!
//! Each step is recorded before the next: if we die in between, the command again, or the next run of the collector, goes on from there.
//! The copy is made of one generation, to a name that is used once; the old object is deleted by that generation alone.

use std::sync::Arc;

use thiserror::Error;

use super::store::RetentionStore;
use super::store::recalls::{Recall, RecallState};
use crate::db::DbError;
use crate::gateway::objects::store::{ObjectName, ObjectStore, StoreError};

/// What carries recalls out.
#[derive(Debug, Clone)]
pub struct Recaller {
    /// The rows, as the collector's role.
    pub store: RetentionStore,
    /// The objects, as the collector's account.
    pub objects: Arc<ObjectStore>,
}

/// Why a recall is not done.
#[derive(Debug, Error)]
pub enum RecallError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing to copy.
    #[error("its object is not in the store, so that no link to it works: maple-router gc reconcile")]
    NoObject,
    /// Another process is at it.
    #[error("somebody else goes on with it at this moment")]
    Elsewhere,
    /// The new name has another object.
    #[error("the copy is not what was to be copied, and is left as it is: maple-router gc reconcile")]
    NotTheCopy,
}

impl RecallError {
    /// Whether the same command again, or the next run, goes on with it.
    #[must_use]
    pub fn is_tried_again(&self) -> bool {
        match self {
            Self::Database(_) | Self::Store(_) | Self::Elsewhere => true,
            Self::NoObject | Self::NotTheCopy => false,
        }
    }
}

impl Recaller {
    /// Goes on with a recall until it is done. Returns for how many attachments the name changed.
    ///
    /// # Errors
    /// [`RecallError`]: what was recorded stands, and it may be called again.
    pub async fn carry_out(&self, recall: Recall) -> Result<i64, RecallError> {
        let old = ObjectName::new(&recall.bucket, &recall.old_object)?;
        let mut recall = recall;
        let mut moved = 0;
        if recall.state == RecallState::Planned {
            let generation = match recall.old_generation {
                Some(generation) => generation,
                None => match self.objects.stat(&old).await? {
                    Some(stat) => stat.generation,
                    None => return self.void(&recall).await,
                },
            };
            let Some(generation) = self.store.recall_seen(recall.id, generation).await? else {
                return Err(RecallError::Elsewhere);
            };
            let Some(copy) = self.copied(&recall, &old, generation).await? else {
                return self.void(&recall).await;
            };
            moved = self.store.recall_moved(recall.id, copy).await?.ok_or(RecallError::Elsewhere)?;
            recall.old_generation = Some(generation);
        }
        // A name that somebody used again is not ours to delete: the links are dead, what stands there is another object.
        match self.objects.delete(&old, recall.old_generation).await {
            Ok(_) | Err(StoreError::Changed) => {}
            Err(error) => return Err(error.into()),
        }
        self.store.recall_done(&recall).await?;
        Ok(moved)
    }

    /// Ends a recall without anything to copy.
    async fn void(&self, recall: &Recall) -> Result<i64, RecallError> {
        self.store.recall_void(recall.id).await?;
        Err(RecallError::NoObject)
    }

    /// The generation of the copy; nothing: the one that was mailed is not there any more.
    async fn copied(
        &self,
        recall: &Recall,
        old: &ObjectName,
        generation: i64,
    ) -> Result<Option<i64>, RecallError> {
        let new = ObjectName::new(&recall.bucket, &recall.new_object)?;
        match self.objects.rewrite(old, generation, &new).await {
            Ok(copy) => Ok(Some(copy.generation)),
            // An earlier copy, whose answer was lost: it is ours, where its bytes are the same.
            Err(StoreError::Exists) => {
                let (was, is) = (self.objects.stat(old).await?, self.objects.stat(&new).await?);
                match (was, is) {
                    (Some(was), Some(is)) if (was.length, was.crc32c) == (is.length, is.crc32c) => {
                        Ok(Some(is.generation))
                    }
                    _ => Err(RecallError::NotTheCopy),
                }
            }
            Err(StoreError::Gone | StoreError::Changed) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
