//! Callbacks: what each of them says becomes its attempt's.

use uuid::Uuid;

use super::MainTools;
use crate::db::DbError;
use crate::grading::consume::Intake;
use crate::grading::journal;
use crate::grading::queue::Queue;

impl Intake for MainTools {
    fn queue(&self) -> &Queue {
        &self.callbacks
    }

    async fn take_in(&self, id: Uuid) -> Result<bool, DbError> {
        let taken = self.store.take_callback(&self.callbacks, id, &self.bands).await?;
        if let Some(what) = &taken {
            journal::taken(id, what);
        }
        Ok(taken.is_some())
    }
}
