//! Somebody at the desk, as a browser is.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};

use crate::stage::Stage;

/// Longest answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A person who is logged in.
pub(super) struct Visitor {
    client: Client,
    origin: String,
    pub(super) cookie: String,
}

/// The name of a user of the desk.
pub(super) fn name(number: usize) -> String {
    format!("person-{number}")
}

/// A client that finds the desk, whose name no resolver knows.
pub(super) fn client(port: u16) -> Result<(Client, String)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let client = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .timeout(PATIENCE)
        .resolve("desk.localhost", address)
        .build()?;
    Ok((client, format!("http://desk.localhost:{port}")))
}

impl Visitor {
    /// Spends a link that the host made.
    pub(super) async fn log_in(
        stage: &Stage,
        binary: &Path,
        config: &Path,
        port: u16,
        number: usize,
    ) -> Result<Self> {
        let (client, origin) = client(port)?;
        let said = stage.ask(binary, config, &["desk", "login", &name(number)]).await?;
        let link = said.out.split_whitespace().find(|word| word.starts_with("http"));
        let link = link.with_context(|| format!("no link in {said:?}"))?;
        let answer = client
            .post(link)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded")
            .body("to=%2Fqueue")
            .send()
            .await?;
        ensure!(answer.status().is_redirection(), "login: {}", answer.status());
        let cookie = answer.headers().get(SET_COOKIE).context("no session")?.to_str()?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(Self { client, origin, cookie })
    }

    /// Asks for a page.
    pub(super) async fn get(&self, path: &str) -> Result<Response> {
        let request = self.client.get(format!("{}{path}", self.origin)).header(COOKIE, &self.cookie);
        Ok(request.header("accept", "text/html").send().await?)
    }
}
