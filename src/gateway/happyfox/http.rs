//! Requests to the help desk over HTTP: credentials, bounds, and the moment at which a creation is begun.
//!
//! The content of a creation waits behind a gate: it is given out when there is a connection and the head is written, and only
//! after the fence was asked. So "was anything begun?" has an exact answer, and a request without its content is not
//! carried out by anybody. No redirect is followed and nothing is repeated, not by the library either. If we die in the
//! middle, the ticket may exist: it has its tag.

use std::io;
use std::pin::pin;

use bytes::Bytes;
use futures::stream;
use jiff::fmt::rfc2822;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Client, RequestBuilder, Response, redirect, retry};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use url::Url;

use super::classify::{Answer, Heard};
use super::payload::{Field, in_form};
use super::{Credentials, HelpDeskError, HelpDeskSettings, waits};
use crate::ports::Fault;

/// Most that is read of the answer to a creation, and of every answer that is no success, in bytes.
const ANSWER_LIMIT: usize = 64 * 1024;
/// Most that is read of a list, in bytes: a field may have thousands of choices, a found ticket repeats its content.
const LIST_LIMIT: usize = 4 * 1024 * 1024;
/// Idle connections that are kept, and for how long: less than servers usually keep theirs.
const KEPT: usize = 4;
const KEPT_FOR: std::time::Duration = std::time::Duration::from_secs(20);
/// Shortest credential that is looked for in answers.
const SHORTEST_CREDENTIAL: usize = 4;
/// Headers that say how many requests are left.
const LEFT: [&str; 2] = ["x-ratelimit-remaining", "ratelimit-remaining"];

/// The connections to one help desk.
pub(super) struct Http {
    client: Client,
    base: Url,
    credentials: Credentials,
}

/// Where the content of a creation waits.
struct Gate {
    /// Resolves when the content is wanted; fails when it will never be.
    wanted: oneshot::Receiver<()>,
    /// Gives it out; dropped, it ends the request.
    give: oneshot::Sender<()>,
}

impl Http {
    /// Prepares a client; connects to nothing.
    pub(super) fn new(settings: &HelpDeskSettings, credentials: Credentials) -> Result<Self, HelpDeskError> {
        let client = Client::builder()
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.read_timeout)
            .timeout(settings.timeout)
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            // One request on a connection at a time: no other's trouble ends this one.
            .http1_only()
            .pool_max_idle_per_host(KEPT)
            .pool_idle_timeout(KEPT_FOR)
            .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| HelpDeskError::Client(error.without_url().to_string()))?;
        Ok(Self { client, base: settings.base_url.clone(), credentials })
    }

    /// Asks for a list below the API's address.
    pub(super) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Heard {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let answered = self.authorized(self.client.get(url)).send().await;
        self.heard(answered, true, LIST_LIMIT).await
    }

    /// Makes a ticket of these fields, of which the first is never empty, and files.
    ///
    /// # Errors
    /// The fence's fault: then nothing of the content was written.
    pub(super) async fn post(
        &self,
        fields: Vec<Field>,
        files: Vec<Part>,
        may_send: &(dyn Fn() -> Result<(), Fault> + Sync),
    ) -> Result<Heard, Fault> {
        let request = self.authorized(self.client.post(self.url("tickets/")));
        let (request, mut gate) =
            if files.is_empty() { document(request, fields) } else { form(request, fields, files) };
        let mut sending = pin!(request.send());
        let wanted = tokio::select! {
            biased;
            // Nothing of the content was asked for: no connection, or an answer to the head alone.
            answered = &mut sending => return Ok(self.heard(answered, false, ANSWER_LIMIT).await),
            wanted = &mut gate.wanted => wanted.is_ok(),
        };
        if wanted {
            may_send()?;
            // Where nobody waits for it any more, the request has ended and says so below.
            gate.give.send(()).ok();
        }
        let answered = sending.await;
        Ok(self.heard(answered, wanted, ANSWER_LIMIT).await)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        let Credentials { api_key, auth_code } = &self.credentials;
        request.basic_auth(api_key.expose(), Some(auth_code.expose())).header(ACCEPT, "application/json")
    }

    async fn heard(&self, answered: Result<Response, reqwest::Error>, begun: bool, limit: usize) -> Heard {
        match answered {
            Ok(response) => Heard::Answer(self.read(response, limit).await),
            Err(error) if begun => Heard::Lost(shown(error)),
            Err(error) => Heard::NotBegun(shown(error)),
        }
    }

    /// Reads an answer, no more of it than its limit. One that breaks off is what was read of it.
    async fn read(&self, mut response: Response, limit: usize) -> Answer {
        let status = response.status();
        let limit = if status.is_success() { limit } else { ANSWER_LIMIT };
        let headers = response.headers().clone();
        let (mut read, mut whole) = (Vec::new(), false);
        while read.len() <= limit {
            match response.chunk().await {
                Ok(Some(chunk)) => read.extend_from_slice(&chunk[..chunk.len().min(limit + 1 - read.len())]),
                Ok(None) => {
                    whole = true;
                    break;
                }
                Err(_) => break,
            }
        }
        read.truncate(limit);
        let body = self.without_credentials(&String::from_utf8_lossy(&read));
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let wait = (status == 429).then(|| waits::asked(text(RETRY_AFTER), text(DATE), &body)).flatten();
        Answer {
            status: status.as_u16(),
            date: text(DATE).and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp()),
            limit_left: left(&headers),
            wait,
            elsewhere: text(LOCATION).and_then(|place| self.host_of(place)),
            body,
            whole,
        }
    }

    fn host_of(&self, place: &str) -> Option<String> {
        self.base.join(place).ok()?.host_str().map(str::to_owned)
    }

    /// A server that repeats what it was sent must not bring a credential into a ledger.
    fn without_credentials(&self, body: &str) -> String {
        let Credentials { api_key, auth_code } = &self.credentials;
        let secrets = [api_key.expose(), auth_code.expose()];
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_CREDENTIAL);
        secrets.fold(body.to_owned(), |body, secret| {
            if body.contains(secret) { body.replace(secret, "<credential>") } else { body }
        })
    }
}

/// The fields as one JSON document, behind the gate.
fn document(request: RequestBuilder, fields: Vec<Field>) -> (RequestBuilder, Gate) {
    let content = Value::Object(fields.into_iter().collect::<Map<_, _>>()).to_string();
    let length = content.len();
    let (body, gate) = gated(content.into());
    let request = request.header(CONTENT_TYPE, "application/json").header(CONTENT_LENGTH, length).body(body);
    (request, gate)
}

/// The fields and files as a form. The first field's value is behind the gate, and all others behind it.
fn form(request: RequestBuilder, fields: Vec<Field>, files: Vec<Part>) -> (RequestBuilder, Gate) {
    let mut fields = fields
        .into_iter()
        .flat_map(|(name, value)| in_form(&value).into_iter().map(move |value| (name.clone(), value)));
    let (name, value) = fields.next().unwrap_or_default();
    let length = value.len() as u64;
    let (body, gate) = gated(value.into());
    // As browsers write names, so that whoever reads forms of browsers reads ours.
    let form = Form::new().percent_encode_noop().part(name, Part::stream_with_length(body, length));
    let form = fields.fold(form, |form, (name, value)| form.text(name, value));
    let form = files.into_iter().fold(form, |form, file| form.part("attachments", file));
    (request.multipart(form), gate)
}

/// A body that is given out when its gate says so.
fn gated(content: Bytes) -> (Body, Gate) {
    let (want, wanted) = oneshot::channel();
    let (give, given) = oneshot::channel();
    let content = async move {
        // Whoever gave the request up waits for nothing.
        want.send(()).ok();
        let given: Result<(), oneshot::error::RecvError> = given.await;
        given.map(|()| content).map_err(|_| io::Error::other("the content was not given out"))
    };
    (Body::wrap_stream(stream::once(content)), Gate { wanted, give })
}

fn left(headers: &HeaderMap) -> Option<u64> {
    LEFT.iter().find_map(|name| headers.get(*name)?.to_str().ok()?.trim().parse().ok())
}

/// The cause of a failed request, in words; without the URL, whose query may name a tag.
fn shown(error: reqwest::Error) -> String {
    let error = error.without_url();
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, true) => return "no connection to the help desk was made in time".to_owned(),
        (true, false) => "no connection to the help desk was made",
        (false, true) => return "the help desk did not answer in time".to_owned(),
        (false, false) => "the connection to the help desk broke",
    };
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    format!("{kind}: {cause}")
}
