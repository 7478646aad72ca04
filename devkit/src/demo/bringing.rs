//! Files that are brought before their submission is finalized: a large one in parts, as a browser does it, while the reader watches;
//! a virus by the verb `upload`. Both become attachments in the transaction that finalizes.
//!
//! What is told of a file's progress is the API's own answer, not what we sent.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::scenarios::{Brought, Scenario};
use super::uploads::Uploads;
use super::watch::Labels;
use crate::clamd::eicar;
use crate::stage::Stage;

/// Whoever brings files.
const OWNER: &str = "grace";
/// Length of the large file.
const LARGE: usize = 20 << 20;
/// Time for the proof of a file, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// Exit code of a verb that has found something wanting.
const FOUND_WANTING: i32 = 1;

/// The bytes of a file.
pub(super) fn content(brought: Brought) -> Vec<u8> {
    match brought {
        Brought::InParts => large(),
        Brought::Virus => eicar(),
    }
}

/// Text of 20 MiB, no line of it like another, so that a part in the wrong place is another file.
fn large() -> Vec<u8> {
    let mut text = Vec::with_capacity(LARGE + 64);
    for line in 0_u64.. {
        if text.len() >= LARGE {
            break;
        }
        text.extend_from_slice(format!("{line:>9} What was brought is what is read.\n").as_bytes());
    }
    text.truncate(LARGE);
    text
}

/// SHA-256 in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Whoever brings files: the backend with its key, a browser, and somebody in a shell.
pub(super) struct Bringer<'a> {
    pub(super) stage: &'a Stage,
    pub(super) uploads: &'a Uploads,
    /// `maple-router`, and the configuration of the running one.
    pub(super) binary: &'a Path,
    pub(super) config: PathBuf,
    /// Where an upload's story is known by its id.
    pub(super) labels: Labels,
}

/// Brings the file of a story, telling `say` what the API answers. Returns the upload.
///
/// # Errors
/// The API or the store refuses, or the file does not end as it should.
pub(super) async fn bring(
    by: &Bringer<'_>,
    scenario: &Scenario,
    brought: Brought,
    say: impl Fn(&'static str, String),
) -> Result<Uuid> {
    match brought {
        Brought::InParts => in_parts(by, scenario, &say).await,
        Brought::Virus => by_verb(by, scenario, &say).await,
    }
    .with_context(|| format!("bringing the file of {}", scenario.label))
}

/// As a browser does it, one part after the other.
async fn in_parts(
    by: &Bringer<'_>,
    scenario: &Scenario,
    say: &impl Fn(&'static str, String),
) -> Result<Uuid> {
    let content = content(Brought::InParts);
    let http = Client::builder().no_proxy().build()?;
    let base = format!("{}/v1/uploads", by.uploads.origin);
    let wanted = json!({
        "form_id": scenario.form, "owner": OWNER, "file_name": "minutes.txt", "content_type": "text/plain", "length": content.len(),
    });
    let making =
        http.post(&base).bearer_auth(&by.uploads.key).header("idempotency-key", "minutes-of-the-demo");
    let made = answer(making.json(&wanted)).await?;
    let (id, token) = (text(&made, "id")?, text(&made, "token")?);
    by.labels.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), scenario.label);
    let of = |method, what: &str| http.request(method, format!("{base}/{id}{what}")).bearer_auth(token);
    let shown = answer(of(reqwest::Method::GET, "")).await?;
    let (parts, size) = (number(&shown, "parts")?, number(&shown, "part_size")?);
    say("backend", format!("makes a session for 20 MiB: {parts} parts of {} MiB at most", size >> 20));
    let each: Vec<&[u8]> = content.chunks(size).collect();
    let digests: Vec<String> = each.iter().map(|part| BASE64.encode(*md5::compute(part))).collect();
    let numbers: Vec<usize> = (1..=parts).collect();
    let asked = json!({"numbers": numbers, "md5": digests});
    let links = answer(of(reqwest::Method::POST, "/parts").json(&asked)).await?;
    for (link, (part, digest)) in
        links["parts"].as_array().into_iter().flatten().zip(each.iter().zip(&digests))
    {
        let put = http.put(text(link, "url")?).header("content-md5", digest).body(part.to_vec());
        let status = put.send().await?.status();
        ensure!(status.is_success(), "the store answers {status} to part {}", link["number"]);
        let shown = answer(of(reqwest::Method::GET, "")).await?;
        let there = shown["received"].as_array().map_or(0, Vec::len);
        say("store", format!("part {there} of {parts} received"));
    }
    let said = json!({"sha256": sha256(&content)});
    let said = answer(of(reqwest::Method::POST, "/complete").json(&said)).await?;
    say("browser", format!("says that all of it is there: {}", text(&said, "state")?));
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            let shown = answer(of(reqwest::Method::GET, "?wait=20")).await?;
            if shown["state"] != "pending_commit" {
                return anyhow::Ok(shown);
            }
        }
    });
    let shown = ended.await.context("the upload does not end")??;
    ended_as(&shown, "clean")?;
    say("clamd", "scanned it: clean".to_owned());
    id.parse().context("the upload's id")
}

/// As anybody does it who has the key.
async fn by_verb(by: &Bringer<'_>, scenario: &Scenario, say: &impl Fn(&'static str, String)) -> Result<Uuid> {
    let dir = by.stage.dir().join("brought");
    let path = dir.join("invoice.txt");
    fs::create_dir_all(&dir)?;
    fs::write(&path, content(Brought::Virus))?;
    let line = upload_line(&path, scenario.form);
    say("backend", format!("$ maple-router upload invoice.txt --form {} …", scenario.form));
    let ran = by.stage.ask(by.binary, &by.config, &line.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // No scanner of the host's shall find it.
    fs::remove_dir_all(&dir)?;
    let ran = ran?;
    if ran.code != Some(FOUND_WANTING) {
        bail!("the verb ended with {:?}, expected {FOUND_WANTING}: {}{}", ran.code, ran.out, ran.err);
    }
    let shown = ran.json()?;
    ended_as(&shown, "infected")?;
    say("clamd", "scanned it: infected; it is kept as evidence".to_owned());
    text(&shown, "id")?.parse().context("the upload's id")
}

fn upload_line(path: &Path, form: &str) -> Vec<String> {
    let path = path.display().to_string();
    ["upload", &path, "--form", form, "--owner", OWNER, "--content-type", "text/plain", "--json"]
        .map(str::to_owned)
        .to_vec()
}

fn ended_as(shown: &Value, verdict: &str) -> Result<()> {
    ensure!(shown["state"] == "committed" && shown["verdict"] == verdict, "expected {verdict}: {shown}");
    Ok(())
}

/// The API's answer, where it is none of its problems.
async fn answer(request: RequestBuilder) -> Result<Value> {
    let answer = request.send().await?;
    let status = answer.status();
    let document: Value = answer.json().await.context("an answer of the API")?;
    ensure!(status.is_success(), "the API answers {status}: {document}");
    Ok(document)
}

fn text<'a>(document: &'a Value, name: &str) -> Result<&'a str> {
    document[name].as_str().with_context(|| format!("no {name} in {document}"))
}

fn number(document: &Value, name: &str) -> Result<usize> {
    let number = document[name].as_u64().with_context(|| format!("no {name} in {document}"))?;
    Ok(usize::try_from(number)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_large_file_is_as_long_as_it_is_said_to_be_and_text() {
        let content = content(Brought::InParts);
        assert_eq!(content.len(), 20 << 20);
        assert!(content.is_ascii());
        assert_ne!(content[..8 << 20], content[8 << 20..16 << 20]);
    }
}
