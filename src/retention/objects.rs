//! What a run asks of the store: an object's generation, and its deletion by that generation. No name is logged.

use futures::StreamExt as _;
use uuid::Uuid;

use super::store::Object;
use super::store::swept::Gone;
use crate::gateway::objects::store::{Deletion, ObjectName, ObjectStore, StoreError};

/// Calls at once.
const AT_ONCE: usize = 16;
/// The generation of what was not there: a deletion by it hits nothing that comes later.
const NONE: i64 = 0;

/// What the store said of one object.
pub type Said<T> = (Uuid, Result<T, StoreError>);

/// The generations of objects, as they stand; 0 where there is none.
pub async fn generations(store: &ObjectStore, objects: Vec<Object>) -> Vec<Said<i64>> {
    let look = |object: Object| async move {
        let looked = async {
            let name = ObjectName::new(object.bucket, object.object)?;
            Ok(store.stat(&name).await?.map_or(NONE, |stat| stat.generation))
        };
        (object.blob, looked.await)
    };
    futures::stream::iter(objects).map(look).buffer_unordered(AT_ONCE).collect().await
}

/// Deletes objects by their generations. What is absent is missing; whether an earlier question of ours was the reason is told by how
/// often it was asked for.
pub async fn deletions(store: &ObjectStore, objects: Vec<Object>) -> Vec<Said<Gone>> {
    let delete = |object: Object| async move {
        let deleted = async {
            let generation = object.generation.unwrap_or(NONE);
            let name = ObjectName::new(object.bucket, object.object)?;
            match store.delete(&name, Some(generation)).await {
                Ok(Deletion::Done) => Ok(Gone::Deleted),
                Ok(Deletion::Absent) => Ok(Gone::Missing),
                Err(StoreError::Changed) => Ok(Gone::Replaced),
                Err(error) => Err(error),
            }
        };
        (object.blob, deleted.await)
    };
    futures::stream::iter(objects).map(delete).buffer_unordered(AT_ONCE).collect().await
}
