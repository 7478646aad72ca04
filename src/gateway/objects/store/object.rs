//! Objects: looked at, copied inside the store, deleted. Each by the generation that is meant, so that nothing which came
//! later is hit.

use reqwest::Method;
use serde_json::json;

use super::call::Call;
use super::fault::StoreError;
use super::said::{Resource, Round, Stat};
use super::{ObjectName, ObjectStore, garbled, parsed};

/// Most rounds of a copy: far more than the largest object needs.
const ROUNDS: usize = 10_000;

/// What a deletion met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The object was there, and is gone.
    Done,
    /// There was nothing: somebody was first, perhaps an earlier call of ours whose answer was lost.
    Absent,
}

impl ObjectStore {
    /// What is known of an object; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::MissingOrForbidden`] where there is none and we may not list the bucket.
    pub async fn stat(&self, name: &ObjectName) -> Result<Option<Stat>, StoreError> {
        let call = Call::Stat;
        let url = self.json([name.bucket(), "o", name.object()], &[]);
        match self.answer(call, self.request(Method::GET, url)).await {
            Ok(body) => parsed::<Resource>(call, &body)?.stat().map(Some).ok_or_else(|| garbled(call)),
            Err(StoreError::Gone) => Ok(None),
            Err(error) => Err(self.settled(name.bucket(), error).await),
        }
    }

    /// Copies one generation to a name that has no object; what the copy is. No byte comes by here. Between two locations or
    /// classes the store needs several rounds.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Exists`] where the destination is there, perhaps because an earlier copy's answer was
    /// lost: [`ObjectStore::stat`] of both says whether it is this one. [`StoreError::Gone`] where that generation is not
    /// there.
    pub async fn rewrite(
        &self,
        from: &ObjectName,
        from_generation: i64,
        to: &ObjectName,
    ) -> Result<Stat, StoreError> {
        let call = Call::Rewrite;
        let generation = from_generation.to_string();
        let path = [from.bucket(), "o", from.object(), "rewriteTo", "b", to.bucket(), "o", to.object()];
        let mut token: Option<String> = None;
        for _ in 0..ROUNDS {
            let mut query = vec![
                ("sourceGeneration", generation.as_str()),
                ("ifSourceGenerationMatch", &generation),
                ("ifGenerationMatch", "0"),
            ];
            query.extend(token.as_deref().map(|token| ("rewriteToken", token)));
            // An empty resource: type and labels are the source's.
            let request = self.request(Method::POST, self.json(path, &query)).json(&json!({}));
            let body = match self.answer(call, request).await {
                Ok(body) => body,
                Err(error) => return Err(self.settled(from.bucket(), error).await),
            };
            let round: Round = parsed(call, &body)?;
            if round.done {
                return round.resource.and_then(|copy| copy.stat()).ok_or_else(|| garbled(call));
            }
            token = Some(round.rewrite_token.ok_or_else(|| garbled(call))?);
        }
        Err(garbled(call))
    }

    /// Deletes an object, where one is named only that generation; done also where there is none.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Changed`] where the object is of another generation, [`StoreError::MissingOrForbidden`]
    /// where there is none and we may not list the bucket.
    pub async fn delete(&self, name: &ObjectName, generation: Option<i64>) -> Result<Deletion, StoreError> {
        let generation = generation.map(|generation| generation.to_string());
        let query = generation.as_deref().map(|generation| ("ifGenerationMatch", generation));
        let url = self.json([name.bucket(), "o", name.object()], query.as_slice());
        match self.answer(Call::Delete, self.request(Method::DELETE, url)).await {
            Ok(_) => Ok(Deletion::Done),
            Err(StoreError::Gone) => Ok(Deletion::Absent),
            Err(error) => Err(self.settled(name.bucket(), error).await),
        }
    }
}
