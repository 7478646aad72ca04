//! What the browser did behind the page: its console, and every request that it sent or that something kept it from
//! sending. Both are kept from the start on, for all tabs and frames.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Browser, Command, locked};

/// A line of the console.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// `DEBUG`, `INFO`, `WARNING` or `SEVERE`; a violation of CSP and a failed request are `SEVERE`.
    pub level: String,
    /// Address and place of the script, and what it said.
    #[serde(rename = "message")]
    pub text: String,
}

/// A request that a page made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Address, as it was asked for.
    pub url: String,
    /// `GET`, `POST` and so on; `WEBSOCKET` for a socket.
    pub method: String,
    /// Kind of thing: `Document`, `Stylesheet`, `Image`, `Script`, `Fetch`, `EventSource`, `Ping` and so on.
    pub kind: String,
    /// Rule that kept it from being sent (`csp`, `mixed-content` and so on).
    pub blocked: Option<String>,
}

impl Request {
    /// Whether it goes to another origin; what is in the page itself (`data:`, `blob:`, `about:`) or in the browser
    /// (`chrome:`) does not.
    #[must_use]
    pub fn is_foreign_to(&self, origin: &str) -> bool {
        let Ok(url) = url::Url::parse(&self.url) else { return true };
        !matches!(url.scheme(), "data" | "blob" | "about" | "chrome")
            && url.origin().ascii_serialization() != origin
    }
}

/// All that the driver has told so far: it tells everything once.
#[derive(Debug, Default)]
pub(super) struct Log {
    console: Vec<Line>,
    requests: Vec<(String, Request)>,
    blocked: BTreeMap<String, String>,
}

impl Log {
    /// Keeps an event of the DevTools protocol.
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&params["requestId"]);
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let request = Request {
                    url: text(&params["request"]["url"]),
                    method: text(&params["request"]["method"]),
                    kind: text(&params["type"]),
                    blocked: None,
                };
                self.requests.push((id, request));
            }
            "Network.webSocketCreated" => {
                let (url, kind) = (text(&params["url"]), "WebSocket".to_owned());
                self.requests
                    .push((id, Request { url, method: "WEBSOCKET".to_owned(), kind, blocked: None }));
            }
            "Network.loadingFailed" => {
                if let Some(rule) = params["blockedReason"].as_str() {
                    self.blocked.insert(id, rule.to_owned());
                }
            }
            _ => {}
        }
    }

    fn requests(&self) -> Vec<Request> {
        let told = self.requests.iter();
        told.map(|(id, request)| Request { blocked: self.blocked.get(id).cloned(), ..request.clone() })
            .collect()
    }
}

impl Browser {
    /// Lines of the console, oldest first.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn console(&self) -> Result<Vec<Line>> {
        let told: Vec<Line> = serde_json::from_value(self.told("browser").await?)?;
        let mut log = locked(&self.log);
        log.console.extend(told);
        Ok(log.console.clone())
    }

    /// Requests of every page, oldest first. A redirect is one more.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn requests(&self) -> Result<Vec<Request>> {
        let told = self.told("performance").await?;
        let mut log = locked(&self.log);
        for entry in told.as_array().into_iter().flatten() {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap_or_default())?;
            log.note(&message["message"]);
        }
        Ok(log.requests())
    }

    /// Those that were sent to another origin (`http://127.0.0.1:9465`), and not kept from it.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn foreign_requests(&self, origin: &str) -> Result<Vec<Request>> {
        let mut requests = self.requests().await?;
        requests.retain(|request| request.blocked.is_none() && request.is_foreign_to(origin));
        Ok(requests)
    }

    async fn told(&self, log: &str) -> Result<Value> {
        let told = self.client.issue_cmd(Command::post("se/log", json!({"type": log}))).await;
        told.with_context(|| format!("reading the browser's log of {log}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_foreign_by_scheme_host_and_port() {
        let request = |url: &str| Request {
            url: url.to_owned(),
            method: "GET".to_owned(),
            kind: "Image".to_owned(),
            blocked: None,
        };
        let origin = "http://127.0.0.1:9465";
        for own in [
            "http://127.0.0.1:9465/a?b",
            "data:,x",
            "blob:http://127.0.0.1:9465/1",
            "about:blank",
            "chrome://x/",
        ] {
            assert!(!request(own).is_foreign_to(origin), "{own}");
        }
        let foreign = [
            "http://127.0.0.1:9466/",
            "https://127.0.0.1:9465/",
            "http://localhost:9465/",
            "ws://127.0.0.1:9465/",
            "?",
        ];
        for foreign in foreign {
            assert!(request(foreign).is_foreign_to(origin), "{foreign}");
        }
    }
}
