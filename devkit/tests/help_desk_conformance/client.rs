//! A plain HTTP client that knows the API's paths and nothing else.

use std::time::Duration;

use devkit::help_desk::{HelpDesk, HelpDeskOptions};
use reqwest::{RequestBuilder, Response, redirect};
use serde_json::{Map, Value, json};

/// For what a busy machine does at last.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A help desk and somebody who has its credentials.
pub(crate) struct World {
    pub(crate) desk: HelpDesk,
    http: reqwest::Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(HelpDeskOptions::default()).await
    }

    pub(crate) async fn with(options: HelpDeskOptions) -> Self {
        let desk = HelpDesk::start(options).await.expect("a help desk");
        // No connection is used twice: each request meets a new one, and a broken one is never tried again.
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .build()
            .expect("a client");
        Self { desk, http }
    }

    /// GET with credentials.
    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.signed(self.http.get(format!("{}{path}", self.desk.api_url())))
    }

    /// POST with credentials.
    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.signed(self.http.post(format!("{}{path}", self.desk.api_url())))
    }

    /// Any request, without credentials.
    pub(crate) fn plain(&self, method: &str, path: &str) -> RequestBuilder {
        let method = method.parse().expect("a method");
        self.http.request(method, format!("{}{path}", self.desk.base_url()))
    }

    fn signed(&self, request: RequestBuilder) -> RequestBuilder {
        request.basic_auth(self.desk.api_key(), Some(self.desk.auth_code()))
    }

    /// Asks for a ticket with this tag.
    pub(crate) fn creating(&self, tag: &str) -> RequestBuilder {
        self.post("tickets/").json(&ticket(json!({"tags": tag})))
    }

    /// Makes a ticket; its number.
    pub(crate) async fn create(&self, tag: &str) -> u64 {
        let (status, body) = said(self.creating(tag).send().await.expect("an answer")).await;
        assert_eq!(status, 200, "{body}");
        body["id"].as_u64().expect("a number")
    }

    /// Searches; status and body.
    pub(crate) async fn search(&self, q: &str) -> (u16, Value) {
        let query = [("status", "_all"), ("q", q)];
        let url = reqwest::Url::parse_with_params(&format!("{}tickets/", self.desk.api_url()), query)
            .expect("a URL");
        said(self.signed(self.http.get(url)).send().await.expect("an answer")).await
    }

    /// The numbers of the tickets with this tag, as a search finds them.
    pub(crate) async fn found(&self, tag: &str) -> Vec<u64> {
        let (status, body) = self.search(&format!("tag:\"{tag}\"")).await;
        assert_eq!(status, 200, "{body}");
        body["data"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|row| row["id"].as_u64().expect("a number"))
            .collect()
    }
}

/// A good ticket, changed.
pub(crate) fn ticket(changes: Value) -> Value {
    let good = json!({
        "category": 1, "subject": "A question", "text": "How?", "name": "Ada", "email": "ada@example.org",
    });
    let (Value::Object(mut fields), Value::Object(changes)) = (good, changes) else {
        unreachable!("objects")
    };
    fields.extend(changes);
    Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
}

/// Status and body of an answer that is JSON.
pub(crate) async fn said(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.expect("a whole body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
