//! A bucket's objects, page by page in the order of their names' bytes. Changes nothing.

use reqwest::Method;
use serde::Deserialize;

use super::call::Call;
use super::fault::StoreError;
use super::{ObjectStore, garbled, parsed};

/// Objects of one page, the most that the API gives.
const PAGE: &str = "1000";
/// What is asked of each: the rest of a resource is ten times as long.
const FIELDS: &str = "nextPageToken,items(name,generation,size)";

/// An object as a list has it. Its name may say what people wrote: it is shown to whoever asks, and logged nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its generation.
    pub generation: i64,
    /// Its length in bytes.
    pub length: u64,
}

/// A page.
#[derive(Clone, PartialEq, Eq)]
pub struct ListedPage {
    /// The objects.
    pub objects: Vec<Listed>,
    /// Where the next page begins; absent: this is the last.
    pub next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    items: Vec<Item>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    generation: String,
    size: String,
}

impl Item {
    fn said(self) -> Option<Listed> {
        let (generation, length) = (self.generation.parse().ok()?, self.size.parse().ok()?);
        Some(Listed { name: self.name, generation, length })
    }
}

impl ObjectStore {
    /// A page of a bucket's objects, from where an earlier one has ended.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list(&self, bucket: &str, from: Option<&str>) -> Result<ListedPage, StoreError> {
        let call = Call::List;
        let mut query = vec![("maxResults", PAGE), ("fields", FIELDS)];
        query.extend(from.map(|from| ("pageToken", from)));
        let url = self.json([bucket, "o"], &query);
        let page: Page = parsed(call, &self.answer(call, self.request(Method::GET, url)).await?)?;
        let objects = page.items.into_iter().map(Item::said).collect::<Option<_>>();
        Ok(ListedPage {
            objects: objects.ok_or_else(|| garbled(call))?,
            next: page.next_page_token.filter(|token| !token.is_empty()),
        })
    }
}
