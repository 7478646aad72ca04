//! `check`: one line for each thing the daemon needs, with what to do where it is not as it should be.
//!
//! Changes nothing; with `--send` it posts to Slack. A configuration that cannot be used ends the check with code 78,
//! after all of its faults have been told. Never prints a secret, only where it was read from.

use std::time::Duration;

use serde::Serialize;

use super::output::{self, Palette};
use super::{CliError, Context, Exit};
use crate::config::secret::{Found, SecretError};
use crate::config::validate;
use crate::config::{Config, ConfigError, Loaded, SignerKind};
use crate::ports::{CheckLevel, CheckLine};

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Also post to Slack and send a mail
    #[arg(long)]
    send: bool,
}

/// What was found: `{ok, lines}` (interfaces page, `check`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// No line failed.
    pub ok: bool,
    /// A line each, in the order they were checked.
    pub lines: Vec<CheckLine>,
}

impl CheckReport {
    /// Sums lines up.
    #[must_use]
    pub fn new(lines: Vec<CheckLine>) -> Self {
        Self { ok: lines.iter().all(|line| line.level != CheckLevel::Fail), lines }
    }

    /// 0, warnings included, or 1; a failed `config` line is 78.
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

    /// The form for people: names aligned, remedies below their lines.
    fn text(&self, palette: Palette) -> String {
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
            text.push_str(&format!("{sign} {:width$}  {}\n", line.name, line.detail));
            if let Some(remedy) = &line.remedy {
                text.push_str(&format!("  {:width$}  → {remedy}\n", ""));
            }
        }
        let [ok, warned, failed] = counts;
        text.push_str(&format!("{ok} ok, {warned} to look at, {failed} failed\n"));
        text
    }
}

/// Checks and prints.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let report = CheckReport::new(lines(ctx, &args).await);
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report.text(Palette::of_stdout()))?;
    }
    Ok(report.exit())
}

/// Every line, in order. What depends on a usable configuration is left out when there is none.
async fn lines(ctx: &Context, args: &Args) -> Vec<CheckLine> {
    let (mut lines, loaded) = config_lines(Config::load(ctx.config_path.as_deref(), &ctx.env));
    let Some(loaded) = loaded else { return lines };
    let config = &loaded.config;
    lines.extend(secret_lines(config));
    lines.push(slack_line(config, args.send).await);
    lines
}

/// `config`: a line for each fault, or one that says what was read.
fn config_lines(loaded: Result<Loaded, ConfigError>) -> (Vec<CheckLine>, Option<Loaded>) {
    const REMEDY: &str = "mend it and run `maple-router check` again";
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(ConfigError::Faults { faults }) => {
            let lines =
                faults.iter().map(|fault| CheckLine::fail("config", fault.to_string(), REMEDY)).collect();
            return (lines, None);
        }
        Err(
            error @ (ConfigError::Missing { .. }
            | ConfigError::Unreadable { .. }
            | ConfigError::Syntax { .. }
            | ConfigError::Invalid { .. }),
        ) => return (vec![CheckLine::fail("config", error.to_string(), REMEDY)], None),
    };
    let said = |keys: &[(String, String)], rule: &str| {
        let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("{}: {rule}", keys.join(", "))
    };
    let problems = validate::problems(&loaded.config);
    if !problems.is_empty() {
        let fails = problems.into_iter().map(|p| CheckLine::fail("config", said(&p.keys, &p.rule), p.remedy));
        return (fails.collect(), None);
    }
    let read = match &loaded.file {
        Some(file) => {
            format!("{}, {} keys set, every rule between them holds", file.display(), loaded.sources.len())
        }
        None => format!(
            "no file; {} keys set by the environment, every rule between them holds",
            loaded.sources.len()
        ),
    };
    let mut lines = vec![CheckLine::ok("config", read)];
    let warnings = validate::warnings(&loaded.config);
    lines.extend(warnings.into_iter().map(|p| CheckLine::warn("config", said(&p.keys, &p.rule), p.remedy)));
    (lines, Some(loaded))
}

/// `secrets`: a line for each secret that is read, saying from where.
fn secret_lines(config: &Config) -> Vec<CheckLine> {
    let mut all = vec![config.database_password(), config.slack_webhook(), config.heartbeat_url()];
    if config.signed_url.signer == SignerKind::KeyFile {
        all.push(config.signing_key());
    }
    let lines: Vec<CheckLine> =
        all.into_iter().filter_map(|read| secret_line(read).transpose()).map(merge).collect();
    if lines.is_empty() { vec![CheckLine::ok("secrets", "none is configured, none is read")] } else { lines }
}

fn secret_line(read: Result<Option<Found>, SecretError>) -> Result<Option<CheckLine>, CheckLine> {
    let found = read.map_err(|error| {
        CheckLine::fail("secrets", error.to_string(), "mend the file; the daemon does not start without it")
    })?;
    Ok(found.map(|found| {
        let detail = format!("{} read from {}", found.name, found.path.display());
        if found.world_readable {
            let remedy = format!("chmod 0600 {}", found.path.display());
            CheckLine::warn("secrets", format!("{detail}, which every user of this machine may read"), remedy)
        } else {
            CheckLine::ok("secrets", detail)
        }
    }))
}

fn merge(line: Result<CheckLine, CheckLine>) -> CheckLine {
    line.unwrap_or_else(|line| line)
}

/// `slack`: whether alerts can reach anybody.
async fn slack_line(config: &Config, send: bool) -> CheckLine {
    const NAME: &str = "slack";
    let webhook = match config.slack_webhook() {
        Ok(Some(found)) => found.secret,
        Ok(None) => {
            return CheckLine::warn(
                NAME,
                "no webhook is configured: alerts stay pending and reach nobody",
                "put the incoming webhook's URL into a file and name it in slack.webhook_file, or pass the credential slack-webhook",
            );
        }
        Err(error) => {
            return CheckLine::fail(NAME, error.to_string(), "mend the file named in slack.webhook_file");
        }
    };
    if !is_webhook(webhook.expose()) {
        return CheckLine::fail(
            NAME,
            "what the webhook file holds is no https URL",
            "copy the incoming webhook's whole URL, https://hooks.slack.com/services/…, on one line",
        );
    }
    if !send {
        return CheckLine::ok(NAME, "a webhook is configured; `check --send` posts to it");
    }
    match post(webhook.expose(), &config.slack.channel, config.slack.timeout).await {
        Ok(()) => CheckLine::ok(NAME, "the test message was accepted"),
        Err(detail) => {
            CheckLine::fail(NAME, detail, "see whether the webhook still exists and this host may reach it")
        }
    }
}

/// An https URL with a host; plain http only on this machine, where a test listens.
fn is_webhook(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    let loopback = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && loopback)
}

/// Posts a test message. The error never holds the URL: it is a secret.
async fn post(url: &str, channel: &str, timeout: Duration) -> Result<(), String> {
    let told =
        |error: reqwest::Error| format!("the test message could not be posted: {}", error.without_url());
    let client = reqwest::Client::builder().timeout(timeout).build().map_err(told)?;
    let mut message = serde_json::json!({ "text": "maple-router check: this is a test, nothing is wrong." });
    if !channel.is_empty() {
        message["channel"] = channel.into();
    }
    let answer = client.post(url).json(&message).send().await.map_err(told)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let body: String = answer.text().await.unwrap_or_default().chars().take(100).collect();
    Err(format!("Slack answered {status}: {body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_aligned_and_counts() {
        let report = CheckReport::new(vec![
            CheckLine::ok("config", "fine"),
            CheckLine::warn("rls_attachments", "hidden", "show them"),
            CheckLine::fail("slack", "gone", "renew it"),
        ]);
        assert_eq!(
            report.text(Palette::PLAIN),
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
    fn webhooks_are_https_unless_they_stay_here() {
        for (text, expected) in [
            ("https://hooks.slack.com/services/T/B/x", true),
            ("http://127.0.0.1:9/hook", true),
            ("http://localhost/hook", true),
            ("http://hooks.slack.com/services/T/B/x", false),
            ("hooks.slack.com/services", false),
            ("", false),
        ] {
            assert_eq!(is_webhook(text), expected, "{text}");
        }
    }
}
