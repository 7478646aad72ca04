//! The bytes of one generation of an object, piece by piece: never more than a piece of them is here.
//!
//! A connection that breaks, or falls silent, in the middle is made again once, from the byte on that is wanted next and of
//! the same generation. Whether the bytes are those that the store says is for the reader to find, by their CRC-32C.

use std::fmt;

use bytes::Bytes;
use reqwest::{Method, Response, StatusCode, header};
use tokio::time::timeout;

use super::super::Said;
use super::call::Call;
use super::fault::{Absence, Finding, StoreError, classify};
use super::said::Stat;
use super::{ObjectName, ObjectStore, garbled};

/// Number of the generation that comes.
const GENERATION: &str = "x-goog-generation";

/// An object on its way.
pub struct Reading {
    store: ObjectStore,
    name: ObjectName,
    said: Stat,
    at: u64,
    response: Option<Response>,
    is_resumed: bool,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("said", &self.said).field("at", &self.at).finish_non_exhaustive()
    }
}

impl ObjectStore {
    /// Begins to read that generation of an object, from a byte on. Ends with the last byte, or with an error.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Changed`] where the object is of another generation, [`StoreError::Gone`] where there is
    /// none.
    pub async fn read(&self, name: &ObjectName, generation: i64, offset: u64) -> Result<Reading, StoreError> {
        let (said, response) = self.opened(name, generation, offset).await?;
        let (store, name) = (self.clone(), name.clone());
        Ok(Reading { store, name, said, at: offset, response: Some(response), is_resumed: false })
    }

    /// An answer with the bytes from there on, whose head is as it must be.
    async fn opened(
        &self,
        name: &ObjectName,
        generation: i64,
        offset: u64,
    ) -> Result<(Stat, Response), StoreError> {
        let call = Call::Read;
        let pinned = generation.to_string();
        let query = [("alt", "media"), ("ifGenerationMatch", pinned.as_str())];
        let url = self.json([name.bucket(), "o", name.object()], &query);
        // What is stored compressed comes as it is stored.
        let mut request = self.request(Method::GET, url).header(header::ACCEPT_ENCODING, "gzip");
        if offset > 0 {
            request = request.header(header::RANGE, format!("bytes={offset}-"));
        }
        let response = match timeout(self.0.patience.with(call), self.send(call, request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.settled(name.bucket(), error).await),
            Err(_) => return Err(classify(call, &Finding::Nothing(Absence::Silent))),
        };
        let expected = if offset > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let begins = text(header::CONTENT_RANGE.as_str())
            .and_then(|range| range.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok());
        let whole =
            text(header::CONTENT_RANGE.as_str()).and_then(|range| range.rsplit_once('/')?.1.parse().ok());
        let said = Said::of(response.headers());
        // Of a range, `Content-Length` is that of the range.
        let length = if offset > 0 { whole } else { said.length };
        let is_ours = response.status() == expected
            && text(GENERATION).and_then(|number| number.parse().ok()) == Some(generation)
            && (offset == 0 || begins == Some(offset));
        match (length, said.crc32c) {
            (Some(length), Some(crc32c)) if is_ours => Ok((Stat { generation, length, crc32c }, response)),
            _ => Err(garbled(call)),
        }
    }
}

impl Reading {
    /// What the store says of the object: the whole of it, wherever the reading began.
    #[must_use]
    pub fn said(&self) -> Stat {
        self.said
    }

    /// The next piece; `None` after the last byte.
    ///
    /// # Errors
    /// [`StoreError`]: [`StoreError::Away`] where the connection broke for the second time, [`StoreError::Changed`] or
    /// [`StoreError::Gone`] where the object went before it could be read to its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, StoreError> {
        while self.at < self.said.length {
            let how = match &mut self.response {
                None => Absence::Broken,
                Some(response) => match timeout(self.store.0.patience.silence, response.chunk()).await {
                    Ok(Ok(Some(bytes))) => return self.taken(bytes).map(Some),
                    Ok(Ok(None) | Err(_)) => Absence::Broken,
                    Err(_) => Absence::Silent,
                },
            };
            self.response = None;
            if std::mem::replace(&mut self.is_resumed, true) {
                return Err(classify(Call::Read, &Finding::Nothing(how)));
            }
            let (said, response) = self.store.opened(&self.name, self.said.generation, self.at).await?;
            if said != self.said {
                return Err(garbled(Call::Read));
            }
            self.response = Some(response);
        }
        Ok(None)
    }

    fn taken(&mut self, bytes: Bytes) -> Result<Bytes, StoreError> {
        self.at += bytes.len() as u64;
        if self.at > self.said.length { Err(garbled(Call::Read)) } else { Ok(bytes) }
    }
}
