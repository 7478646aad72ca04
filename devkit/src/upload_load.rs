//! How fast a file comes in: the client beside `curl -T` to the same store, the verification with and without the scanner's part, and
//! the daemon's memory; ratios in one run. Asserts nothing but that the bytes arrived.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::clamd::{Clamd, ClamdOptions};
use crate::google::{Bucket, Right};
use crate::port::free_port;
use crate::postgres::Variant;
use crate::stage::{Router, Source, Stage, StageOptions};

const STAGING: &str = "staging";
const CONTENT: &str = "content";
const KEY: &str = "0123456789abcdef0123456789abcdef";

/// One trial.
#[derive(Debug, Clone, Copy)]
struct Trial {
    curl: Duration,
    client: Duration,
    verified: Duration,
    scanned: Duration,
}

/// Runs `rounds` trials of a file of so many MiB.
///
/// # Errors
/// A part does not start, or the file does not arrive as it was.
pub async fn run(binary: &Path, mebibytes: usize, rounds: usize) -> Result<bool> {
    let variant = Variant { router: true, content: true, ..Variant::default() };
    let stage = Stage::start(StageOptions { variant, ..StageOptions::of(Source::Postgres) }).await?;
    let (google, account) = (&stage.google, stage.google.service_account_email().to_owned());
    google.declare_bucket(STAGING, Bucket { soft_delete: Duration::ZERO, ..Bucket::default() });
    google.declare_bucket(CONTENT, Bucket::default());
    google.grant(&account, STAGING, &[Right::Create, Right::Get, Right::Delete, Right::List]);
    google.grant(&account, CONTENT, &[Right::Create, Right::Get]);
    let most = 1 << 30;
    let limits = ClamdOptions {
        stream_max_length: most,
        max_scan_size: most,
        max_file_size: most,
        ..ClamdOptions::default()
    };
    let clamd = Clamd::start(limits).await?;
    let (key, port) = (stage.dir().join("uploads-key"), free_port()?);
    fs::write(&key, KEY)?;
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let extra = format!(
        "[uploads]\nlisten = \"127.0.0.1:{port}\"\norigin = \"http://127.0.0.1:{port}\"\nkey_file = \"{}\"\nbucket = \"{CONTENT}\"\n\
         staging_bucket = \"{STAGING}\"\nmax_file = \"1GiB\"\n[scan]\nsocket = \"{}\"\n",
        key.display(),
        clamd.socket().display()
    );
    let router = stage.router(binary, "one", &extra).await?;
    let config = stage.write_config("client", &stage.config("client", 1, &extra))?;
    let mut trials = Vec::new();
    for round in 0..rounds {
        trials.push(trial(&stage, &router, binary, &config, mebibytes, round).await?);
    }
    let peak = peak(&router)?;
    report(mebibytes, &trials, peak);
    Ok(true)
}

#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
async fn trial(
    stage: &Stage,
    router: &Router,
    binary: &Path,
    config: &Path,
    mebibytes: usize,
    round: usize,
) -> Result<Trial> {
    let file = stage.dir().join("large.txt");
    let content = text(mebibytes << 20, round);
    fs::write(&file, &content)?;
    let token = stage.google.token_of(stage.google.service_account_email());
    let url = format!("{}/{STAGING}/curl-{round}", stage.google.storage_endpoint());
    let began = Instant::now();
    let curl = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "-T"])
        .arg(&file)
        .args(["-H", &format!("Authorization: Bearer {token}"), &url])
        .status()
        .await
        .context("starting curl")?;
    ensure!(curl.success(), "curl ended with {curl}");
    let curl = began.elapsed();
    let verify = async || -> Result<f64> {
        let seconds = router.metric("maple_router_upload_verify_seconds_sum").await?;
        Ok(seconds.unwrap_or_default())
    };
    let before = verify().await?;
    let began = Instant::now();
    let client = Command::new(binary)
        .env_clear()
        .arg("--config")
        .arg(config)
        .args(["upload", "--form", "contact-us", "--owner", "o", "--content-type", "text/plain", "--json"])
        .arg(&file)
        .stdout(Stdio::piped())
        .output()
        .await?;
    let took = began.elapsed();
    let said: Value = serde_json::from_slice(&client.stdout).context("the client's answer")?;
    if said["state"] != "committed" || said["verdict"] != "clean" {
        bail!("the client says {said}");
    }
    let verified = Duration::from_secs_f64(verify().await? - before);
    let scanned = alone(stage, config, &content).await?;
    let eyes = stage.database.superuser().await?;
    let row =
        eyes.query_one("SELECT object FROM content.blobs ORDER BY created_at DESC LIMIT 1", &[]).await?;
    let object: String = row.get(0);
    ensure!(
        stage.google.object_bytes(CONTENT, &object)? == content,
        "the bytes are not those that were sent"
    );
    Ok(Trial { curl, client: took.saturating_sub(verified), verified, scanned })
}

/// The scanner alone, over the same bytes.
#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
async fn alone(stage: &Stage, config: &Path, content: &[u8]) -> Result<Duration> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let text = fs::read_to_string(config)?;
    let socket = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("socket = \"")?.strip_suffix('"'))
        .with_context(|| format!("the scanner's socket in {}", stage.dir().display()))?;
    let mut stream = tokio::net::UnixStream::connect(socket).await?;
    let began = Instant::now();
    stream.write_all(b"zINSTREAM\0").await?;
    for chunk in content.chunks(128 * 1024) {
        stream.write_all(&u32::try_from(chunk.len())?.to_be_bytes()).await?;
        stream.write_all(chunk).await?;
    }
    stream.write_all(&[0; 4]).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    ensure!(said.contains("OK"), "the scanner says {said}");
    Ok(began.elapsed())
}

/// Peak of the daemon's resident memory, in MiB.
fn peak(router: &Router) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", router.pid().context("the daemon runs")?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kibibytes / 1024)
}

fn text(length: usize, round: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 64);
    for line in 0_u64.. {
        if text.len() >= length {
            break;
        }
        text.extend_from_slice(format!("line {line:016x} of round {round} of notes\n").as_bytes());
    }
    text.truncate(length);
    text
}

#[expect(clippy::cast_precision_loss, reason = "sizes and times are small")]
fn report(mebibytes: usize, trials: &[Trial], peak: u64) {
    let median = |of: fn(&Trial) -> Duration| {
        let mut all: Vec<Duration> = trials.iter().map(of).collect();
        all.sort();
        all[all.len() / 2].as_secs_f64()
    };
    let rate = |seconds: f64| mebibytes as f64 / seconds;
    let (curl, client) = (median(|t| t.curl), median(|t| t.client));
    let (verified, scanned) = (median(|t| t.verified), median(|t| t.scanned));
    let own = (verified - scanned).max(0.001);
    let line = format!(
        "{mebibytes} MiB, medians of {}:\n  curl -T {:.0} MiB/s; the client, its digests included {:.0} MiB/s: {:.2} of it\n  \
         verification {:.0} MiB/s, of it the scanner alone {:.0} MiB/s; without it {:.0} MiB/s\n  \
         peak memory of the daemon {peak} MiB",
        trials.len(),
        rate(curl),
        rate(client),
        curl / client,
        rate(verified),
        rate(scanned),
        rate(own),
    );
    crate::program::say(&line);
}
