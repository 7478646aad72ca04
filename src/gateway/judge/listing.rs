//! The list of an API's models (`GET {base_url}/models`): whether an endpoint answers, takes a key and knows a model, asked without a question that
//! has to be paid for.
//!
//! Used by `check` alone. Nothing is repeated, and neither the key nor the server's words are shown.

use std::fmt;

use reqwest::Client;
use reqwest::header::ACCEPT;
use serde::Deserialize;
use url::Url;

use super::{
    JudgeError, JudgeSettings, JudgeSetupError, broken, client, endpoint, is_own_machine, read, sendable,
};
use crate::config::secret::Secret;
use crate::ports::InvalidAnswer;

/// Most that is read of a list, in bytes: some resellers list hundreds of models at length.
const LIST_LIMIT: usize = 4 * 1024 * 1024;

/// An endpoint's answer to the question for its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// The models' names.
    Models(Vec<String>),
    /// The endpoint answers, and lists no models: servers of the same API may leave that out.
    Unlisted,
}

#[derive(Deserialize)]
struct Document {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

/// The client of an endpoint's list. Connects to nothing before it is asked.
pub struct Catalog {
    section: &'static str,
    client: Client,
    url: Url,
    key: Option<Secret>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("host", &self.host()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// The client of the endpoint that `settings` name.
    ///
    /// # Errors
    /// [`JudgeSetupError`].
    pub fn new(settings: &JudgeSettings, key: Option<Secret>) -> Result<Self, JudgeSetupError> {
        let section = settings.section;
        let url = endpoint(settings, "models")?;
        let key = sendable(section, key)?;
        let client = client(section, settings.timeout, is_own_machine(&url))?;
        Ok(Self { section, client, url, key })
    }

    /// The endpoint's host, for people.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Asks once.
    ///
    /// # Errors
    /// [`JudgeError`]: the endpoint is away, or refuses us.
    pub async fn ask(&self) -> Result<Listing, JudgeError> {
        let mut request = self.client.get(self.url.clone()).header(ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let response = request.send().await.map_err(broken)?;
        // Such a status says that the address is not served, not that we may not ask there.
        if [404, 405, 501].contains(&response.status().as_u16()) {
            return Ok(Listing::Unlisted);
        }
        let body = read(response, self.section, LIST_LIMIT).await?;
        let document: Document =
            serde_json::from_slice(&body).map_err(|_| JudgeError::Invalid(InvalidAnswer::Envelope))?;
        Ok(Listing::Models(document.data.into_iter().map(|model| model.id).collect()))
    }
}
