//! `git http-backend` as the CGI program that it is (RFC 3875): one process a request, its output streamed.

use std::io;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use super::GIT;

/// Bytes of an answer that are sent at once.
const PIECE: usize = 32 << 10;

/// A request for the program.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: &'a str,
    /// Path below the root.
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: Bytes,
}

/// Lets git answer.
pub(super) async fn run(root: &Path, call: Call<'_>) -> Result<Response> {
    let header =
        |name: &str| call.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut child = Command::new(GIT)
        .arg("http-backend")
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", root)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GATEWAY_INTERFACE", "CGI/1.1")
        .env("SERVER_PROTOCOL", "HTTP/1.1")
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("REQUEST_METHOD", call.method)
        .env("PATH_INFO", call.path)
        .env("QUERY_STRING", call.query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", call.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting git http-backend: is Debian's package git installed?")?;
    let mut stdin = child.stdin.take().context("no pipe")?;
    let mut stdout = BufReader::with_capacity(PIECE, child.stdout.take().context("no pipe")?);
    let body = call.body;
    tokio::spawn(async move {
        // Where git does not read it, it has said why.
        drop(stdin.write_all(&body).await);
    });
    let mut response = head(&mut stdout).await?;
    let rest = stream::unfold((stdout, child), async |(mut stdout, child)| {
        let mut piece = vec![0; PIECE];
        match stdout.read(&mut piece).await {
            Ok(0) => None,
            Ok(had) => {
                piece.truncate(had);
                Some((io::Result::Ok(piece), (stdout, child)))
            }
            Err(error) => Some((Err(error), (stdout, child))),
        }
    });
    *response.body_mut() = Body::from_stream(rest);
    Ok(response)
}

/// The header fields of the program's answer; `Status` is the status.
async fn head(stdout: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Result<Response> {
    let mut response = Response::new(Body::empty());
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).await? == 0 {
            bail!("git http-backend said nothing");
        }
        let line = line.trim_end();
        let Some((name, value)) = line.split_once(':') else {
            if line.is_empty() {
                return Ok(response);
            }
            bail!("git http-backend said no header field");
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            *response.status_mut() = StatusCode::from_bytes(code.as_bytes())?;
        } else if !name.eq_ignore_ascii_case(header::CONTENT_LENGTH.as_str()) {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            response.headers_mut().append(name, HeaderValue::from_str(value)?);
        }
    }
}
