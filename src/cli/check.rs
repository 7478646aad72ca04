//! `check`: one line for each thing the daemon needs, with the remedy where something is wrong.
//!
//! Independent parts are asked side by side, each for a limited time, so that an answer comes within about 20 s
//! whatever is down. The line of the cause fails; lines that could not be tried for it say so and warn. Changes
//! nothing; with `--send` it posts to Slack and mails. Never prints a secret, only where it was read from.

mod bounces;
mod help_desk;
mod mail;
mod settings;
mod slack;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde::Serialize;

use super::layout::wrapped;
use super::output::{self, Palette};
use super::{CliError, Context, Exit};
use crate::config::{Config, SourceKind};
use crate::daemon;
use crate::db::contract::{self, Check, Look};
use crate::gateway::{pubsub, signed_url};
use crate::ops::clock::SystemClock;
use crate::parts::{self, PartError};
use crate::ports::{CheckLevel, CheckLine};

const OF_PUBSUB: [&str; 2] = ["subscription", "dead_letter"];
const OF_THE_SIGNER: [&str; 2] = ["signing", "link"];

/// Limit of one part.
const LIMIT: Duration = Duration::from_secs(18);
/// Limit of one part where something is sent.
const LIMIT_SENDING: Duration = Duration::from_secs(90);
/// Limits of the trial signature, shorter than the daemon's.
const SIGNING: signed_url::RetryPolicy = signed_url::RetryPolicy {
    timeout: Duration::from_secs(3),
    attempts: 2,
    backoff_min: Duration::from_millis(100),
    backoff_max: Duration::from_millis(200),
};

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Only what `run` would refuse to start with, without asking anybody: 0, or 78
    #[arg(long, conflicts_with = "send")]
    config_only: bool,
    /// Also post to Slack, and mail to the sender's own address
    #[arg(long)]
    send: bool,
}

/// The report: `{ok, lines}` (interfaces page, `check`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// No line failed.
    pub ok: bool,
    /// Lines in the order of the interfaces page; `config` has one for each of its faults.
    pub lines: Vec<CheckLine>,
}

impl CheckReport {
    /// Puts lines in order and sums them up.
    #[must_use]
    pub fn new(mut lines: Vec<CheckLine>) -> Self {
        let checks = daemon::checks();
        lines.sort_by_key(|line| checks.iter().position(|check| check.line == line.name));
        Self { ok: lines.iter().all(|line| line.level != CheckLevel::Fail), lines }
    }

    /// Exit code: 0, warnings included, or 1; a failed `config` line is 78.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let config_failed =
            self.lines.iter().any(|line| line.name == "config" && line.level == CheckLevel::Fail);
        match (self.ok, config_failed) {
            (true, _) => Exit::Done,
            (false, true) => Exit::BadConfig,
            (false, false) => Exit::FoundWanting,
        }
    }

    /// The text for people: names aligned, remedies below their lines.
    fn text(&self, palette: Palette, columns: Option<usize>) -> String {
        let width = self.lines.iter().map(|line| line.name.len()).max().unwrap_or_default();
        let mut text = String::new();
        let mut counts = [0_usize; 3];
        for line in &self.lines {
            let sign = match line.level {
                CheckLevel::Ok => palette.green("✓"),
                CheckLevel::Warn => palette.yellow("!"),
                CheckLevel::Fail => palette.red("✗"),
            };
            counts[line.level as usize] += 1;
            let mut put = |first: String, said: &str| {
                for line in wrapped(&first, width + 6, said, columns.unwrap_or(usize::MAX)) {
                    text.push_str(&line);
                    text.push('\n');
                }
            };
            put(format!("{sign} {:width$}  ", line.name), &line.detail);
            if let Some(remedy) = &line.remedy {
                put(format!("  {:width$}  → ", ""), remedy);
            }
        }
        let [ok, warned, failed] = counts;
        text.push_str(&format!("{ok} ok, {warned} to look at, {failed} failed\n"));
        text
    }
}

/// Checks and prints.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let lines = if args.config_only { settings::preflight(ctx).await } else { lines(ctx, &args).await };
    let report = CheckReport::new(lines);
    output::either(args.json, &report, || report.text(Palette::of_stdout(), output::columns()))?;
    // Only the configuration was looked at, so nothing else can be at fault.
    Ok(if args.config_only && !report.ok { Exit::BadConfig } else { report.exit() })
}

/// Every line. Without a configuration that can be read there is nothing else to look at.
async fn lines(ctx: &Context, args: &Args) -> Vec<CheckLine> {
    let (mut lines, loaded) = settings::config_lines(Config::load(ctx.config_path.as_deref(), &ctx.env));
    let Some(loaded) = loaded else { return lines };
    let whole = lines.iter().all(|line| line.level != CheckLevel::Fail);
    let config = &loaded.config;
    let sending = if args.send { LIMIT_SENDING } else { LIMIT };
    let outside = daemon::checks().into_iter().filter_map(|check| match check.look {
        Look::Outside(look) => {
            Some(async move { within(LIMIT, &[check.line], look(config).map(|line| vec![line])).await })
        }
        Look::Contract | Look::Database(_) | Look::CommandLine => None,
    });
    let of_the_database = of_the_database();
    let (database, pubsub, relay, outside, bounces, help_desk, signer, slack) = futures::join!(
        within(LIMIT, &of_the_database, database(config, whole)),
        within(LIMIT, &OF_PUBSUB, subscription(config, whole)),
        within(sending, &["relay"], async { vec![mail::line(config, args.send).await] }),
        futures::future::join_all(outside),
        within(LIMIT, &["bounces"], async { vec![bounces::line(config).await] }),
        within(LIMIT, &["happyfox"], async { help_desk::line(config).await.into_iter().collect() }),
        within(LIMIT, &OF_THE_SIGNER, signing(config, whole)),
        within(sending, &["slack"], async { vec![slack::line(config, args.send).await] }),
    );
    lines.extend(settings::state_line(config).await);
    lines.push(settings::secrets_line(&loaded));
    lines.extend(
        [database, pubsub, relay, bounces, help_desk, signer, slack].into_iter().chain(outside).flatten(),
    );
    lines
}

/// `asking`, or after `limit` a failure of the first of `names`, the others untried.
async fn within(
    limit: Duration,
    names: &[&'static str],
    asking: impl Future<Output = Vec<CheckLine>>,
) -> Vec<CheckLine> {
    match tokio::time::timeout(limit, asking).await {
        Ok(lines) => lines,
        Err(_) => {
            let detail = format!("no answer within {}", humantime::format_duration(limit));
            let remedy = "see to the network, and whether what answers there is what is meant";
            failed(names, |name| CheckLine::fail(name, detail.clone(), remedy))
        }
    }
}

/// A failure of the first of `names`; the others could not be tried for it.
fn failed(names: &[&'static str], fail: impl Fn(&'static str) -> CheckLine) -> Vec<CheckLine> {
    let Some((first, rest)) = names.split_first() else { return Vec::new() };
    let why = format!("{first} failed");
    std::iter::once(fail(first)).chain(rest.iter().map(|name| not_tried(name, &why, first))).collect()
}

/// A line whose cause another line reports.
fn not_tried(name: &'static str, why: &str, see: &str) -> CheckLine {
    CheckLine::warn(name, format!("not tried: {why}"), format!("see line {see}"))
}

/// Lines of a part that cannot be made: under its own name, unless another line reports the cause.
fn unmade(names: &[&'static str], error: &PartError, config_is_whole: bool) -> Vec<CheckLine> {
    let reported_by =
        |see: &str| names.iter().map(|name| not_tried(name, "what it needs cannot be used", see)).collect();
    if matches!(error, PartError::Secret(_)) {
        return reported_by("secrets");
    }
    if !config_is_whole {
        return reported_by("config");
    }
    if let PartError::Signer(error) = error {
        return failed(names, |name| CheckLine::fail(name, error.detail(), error.remedy()));
    }
    failed(names, |name| CheckLine::fail(name, error.to_string(), "correct it in the configuration"))
}

/// The lines that come from the database.
fn of_the_database() -> Vec<&'static str> {
    let asks = |check: &&Check| matches!(check.look, Look::Contract | Look::Database(_));
    daemon::checks().into_iter().filter(asks).map(|check| check.line).collect()
}

async fn database(config: &Config, config_is_whole: bool) -> Vec<CheckLine> {
    let pool = match parts::pool(config, Arc::new(SystemClock)) {
        Ok(pool) => pool,
        Err(error) => return unmade(&of_the_database(), &error, config_is_whole),
    };
    contract::inspect(&pool, &parts::contract_options(config, daemon::checks())).await
}

async fn subscription(config: &Config, config_is_whole: bool) -> Vec<CheckLine> {
    if config.source.kind == SourceKind::Postgres {
        let unused = |name| CheckLine::ok(name, "not used with source.kind = \"postgres\"");
        return OF_PUBSUB.into_iter().map(unused).collect();
    }
    match parts::pubsub(config) {
        Ok(settings) => pubsub::inspect::inspect(&settings).await,
        Err(error) => unmade(&OF_PUBSUB, &error, config_is_whole),
    }
}

async fn signing(config: &Config, config_is_whole: bool) -> Vec<CheckLine> {
    if config.signed_url.signer == crate::config::SignerKind::KeyFile
        && let Err(error) = config.signing_key()
    {
        return unmade(&OF_THE_SIGNER, &PartError::Secret(error), config_is_whole);
    }
    let (settings, metadata) = (&config.signed_url, config.surroundings.metadata_host.as_deref());
    match signed_url::UrlSigner::with_retry_policy(settings, metadata, SIGNING) {
        Ok(signer) => signed_url::inspect(&signer, settings.probe_object.as_deref(), settings.ttl).await,
        Err(error) => unmade(&OF_THE_SIGNER, &PartError::Signer(error), config_is_whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_aligned_and_counts() {
        let report = CheckReport::new(vec![
            CheckLine::fail("slack", "gone", "renew it"),
            CheckLine::warn("rls_attachments", "hidden", "show them"),
            CheckLine::ok("config", "fine"),
        ]);
        assert_eq!(
            report.text(Palette::PLAIN, None),
            "✓ config           fine\n\
             ! rls_attachments  hidden\n                   → show them\n\
             ✗ slack            gone\n                   → renew it\n\
             1 ok, 1 to look at, 1 failed\n"
        );
    }

    #[test]
    fn the_exit_code_follows_the_worst_line() {
        let ok = CheckLine::ok("config", "");
        let warn = CheckLine::warn("slack", "", "");
        let fail = CheckLine::fail("relay", "", "");
        let bad = CheckLine::fail("config", "", "");
        let cases = [
            (vec![ok.clone()], Exit::Done),
            (vec![ok.clone(), warn.clone()], Exit::Done),
            (vec![ok, warn, fail.clone()], Exit::FoundWanting),
            (vec![bad, fail], Exit::BadConfig),
        ];
        for (lines, exit) in cases {
            assert_eq!(CheckReport::new(lines).exit(), exit);
        }
    }

    #[test]
    fn every_line_has_its_place() {
        let of_the_database = of_the_database();
        let groups = of_the_database.iter().chain(&OF_PUBSUB).chain(&OF_THE_SIGNER);
        for name in groups.chain(&["config", "relay", "relay_log", "bounces", "happyfox", "secrets", "slack"])
        {
            assert_eq!(daemon::checks().iter().filter(|known| known.line == *name).count(), 1, "{name}");
        }
        assert!(daemon::checks().is_sorted_by(|a, b| a.order < b.order), "no two of one order");
    }

    #[tokio::test]
    async fn what_does_not_answer_fails_once_and_in_time() {
        let lines = within(Duration::from_millis(20), &OF_PUBSUB, std::future::pending()).await;
        let levels: Vec<_> = lines.iter().map(|line| (line.name, line.level)).collect();
        assert_eq!(levels, [("subscription", CheckLevel::Fail), ("dead_letter", CheckLevel::Warn)]);
        assert!(lines[0].detail.contains("20ms"), "{lines:?}");
    }
}
