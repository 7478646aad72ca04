//! A run of screening, as people see it: states, findings and verdicts, in codes, places and scrubbed notes. Reads only; nothing that
//! people entered is among it.

use uuid::Uuid;

use super::Reader;
use crate::db::DbError;
use crate::parts;
pub(crate) use crate::screening::store::views::RunStory;

/// The run of this id; `None` where there is none, or no schema that this role may see.
pub(crate) async fn run(reader: &Reader, id: Uuid) -> Result<Option<RunStory>, DbError> {
    let store = parts::screening_store(&reader.config, reader.pool.clone());
    if !store.is_there().await? {
        return Ok(None);
    }
    store.story(id).await
}
