//! A real Prometheus on loopback, with the real alert rules in a hurry: it scrapes a real daemon, and says what fires.
//!
//! Windows, `for` and thresholds of age are divided by the same number ([`hasten`]); names, labels and conditions stay as
//! they are shipped. Everything is in a temporary directory; the process dies with the value.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Interval of scrapes and evaluations.
const STEP: Duration = Duration::from_millis(500);
/// Longest time to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Two scrapes must fit into a window, with one that comes late.
const SHORTEST_WINDOW: u64 = 2_000;
/// The address in `scrape.yml`, which the daemons' addresses replace.
const SHIPPED_TARGET: &str = "\"127.0.0.1:9464\"";

/// Directory of the shipped rules and scrape configuration, in this repository.
pub const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../monitoring/prometheus");

/// A running Prometheus. Dropping it kills it.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: String,
    client: reqwest::Client,
    dir: TempDir,
}

/// An alert as Prometheus tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Alert {
    /// `pending` or `firing`.
    pub state: String,
    /// Labels, `alertname` and `severity` among them.
    pub labels: BTreeMap<String, String>,
    /// Annotations: `summary`, `description` and `runbook_url`.
    pub annotations: BTreeMap<String, String>,
}

impl Alert {
    /// The alert's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.labels.get("alertname").map_or("", String::as_str)
    }

    /// Whether the alert would be sent to people.
    #[must_use]
    pub fn is_firing(&self) -> bool {
        self.state == "firing"
    }
}

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct Alerts {
    alerts: Vec<Alert>,
}

#[derive(Deserialize)]
struct Found {
    result: Vec<Sample>,
}

/// One series of an instant query's answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Sample {
    /// The series' labels.
    pub metric: BTreeMap<String, String>,
    value: (f64, String),
}

impl Sample {
    /// The sample's value.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.value.1.parse().unwrap_or(f64::NAN)
    }
}

impl Prometheus {
    /// Starts with the shipped rules and scrape configuration for daemons at `targets` (`host:port`), everything that takes
    /// time `faster` times as fast. 60 makes minutes seconds; more than that leaves windows without samples.
    ///
    /// # Errors
    /// There is no program `prometheus` (`scripts/install-missing monitoring`), or it does not start: the error has its log.
    pub async fn start(targets: &[&str], faster: u32) -> Result<Self> {
        let dir = TempDir::with_prefix("maple-prometheus-")?;
        let shipped = Path::new(MONITORING);
        let rules = std::fs::read_to_string(shipped.join("alerts.yml")).context("the alert rules")?;
        std::fs::write(dir.path().join("alerts.yml"), hasten(&rules, faster))?;
        let scrape =
            std::fs::read_to_string(shipped.join("scrape.yml")).context("the scrape configuration")?;
        let listed: Vec<String> = targets.iter().map(|target| format!("{target:?}")).collect();
        let scrape = scrape.replace(SHIPPED_TARGET, &listed.join(", "));
        let scrape =
            scrape.replace("scrape_interval: 15s", &format!("scrape_interval: {}ms", STEP.as_millis()));
        let scrape = scrape.replace("scrape_timeout: 5s", &format!("scrape_timeout: {}ms", STEP.as_millis()));
        let whole = format!(
            "global: {{evaluation_interval: {}ms}}\nrule_files: [alerts.yml]\n{scrape}",
            STEP.as_millis()
        );
        let config = dir.path().join("prometheus.yml");
        std::fs::write(&config, whole)?;
        let address = format!("127.0.0.1:{}", crate::port::free_port()?);
        let log = std::fs::File::create(dir.path().join("log"))?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("prometheus cannot be started: scripts/install-missing monitoring brings it")?;
        // Loopback is nobody's proxy's business.
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build()?;
        let mut prometheus = Self { child, address, client, dir };
        prometheus.ready().await?;
        Ok(prometheus)
    }

    async fn ready(&mut self) -> Result<()> {
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("prometheus ended with {status}:\n{}", log());
            }
            let asked = self.client.get(format!("http://{}/-/ready", self.address)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("prometheus is not ready after {PATIENCE:?}")
    }

    /// `host:port` of its web interface.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the alerts that are pending or firing now.
    ///
    /// # Errors
    /// Prometheus does not answer.
    pub async fn alerts(&self) -> Result<Vec<Alert>> {
        let asked = self.client.get(format!("http://{}/api/v1/alerts", self.address)).send().await?;
        Ok(asked.json::<Answer<Alerts>>().await?.data.alerts)
    }

    /// Names of what fires now, sorted, each once.
    ///
    /// # Errors
    /// Prometheus does not answer.
    pub async fn firing(&self) -> Result<Vec<String>> {
        let alerts = self.alerts().await?;
        let mut names: Vec<String> =
            alerts.iter().filter(|alert| alert.is_firing()).map(|alert| alert.name().to_owned()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Waits until an alert of this name fires, and gives it.
    ///
    /// # Errors
    /// The alert does not fire in time; the error has the pending and firing ones.
    pub async fn fires(&self, name: &str, patience: Duration) -> Result<Alert> {
        for _ in 0..=patience.as_millis() / STEP.as_millis() {
            let found =
                self.alerts().await?.into_iter().find(|alert| alert.name() == name && alert.is_firing());
            if let Some(alert) = found {
                return Ok(alert);
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("{name} does not fire within {patience:?}; pending or firing: {:?}", self.alerts().await?)
    }

    /// Waits until no alert of this name fires any more.
    ///
    /// # Errors
    /// The alert still fires.
    pub async fn falls_silent(&self, name: &str, patience: Duration) -> Result<()> {
        for _ in 0..=patience.as_millis() / STEP.as_millis() {
            if !self.firing().await?.iter().any(|firing| firing == name) {
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("{name} still fires after {patience:?}")
    }

    /// An instant query.
    ///
    /// # Errors
    /// Prometheus does not answer, or not with a vector.
    pub async fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        let mut url = url::Url::parse(&format!("http://{}/api/v1/query", self.address))?;
        url.query_pairs_mut().append_pair("query", expression);
        let answer = self.client.get(url).send().await?.text().await?;
        let found: Answer<Found> =
            serde_json::from_str(&answer).with_context(|| format!("{expression}: {answer}"))?;
        Ok(found.data.result)
    }
}

/// The rules with every window, `for` and threshold of age (`N * 60`) divided by `faster`. Names, labels and numbers of
/// things stay.
#[must_use]
pub fn hasten(rules: &str, faster: u32) -> String {
    let mut hastened = String::with_capacity(rules.len());
    for line in rules.lines() {
        let line = match line.trim_start().strip_prefix("for: ") {
            Some(pause) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                format!("{indent}for: {}", shorter(pause, faster, 0).unwrap_or_else(|| pause.to_owned()))
            }
            None => ages(&windows(line, faster), faster),
        };
        hastened.push_str(&line);
        hastened.push('\n');
    }
    hastened
}

/// `[15m]`, wherever it stands.
fn windows(line: &str, faster: u32) -> String {
    let mut parts = line.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let inside = part.split_once(']');
        let shorter =
            inside.and_then(|(window, rest)| Some((shorter(window, faster, SHORTEST_WINDOW)?, rest)));
        match shorter {
            Some((window, rest)) => text.push_str(&format!("[{window}]{rest}")),
            None => text.push_str(&format!("[{part}")),
        }
    }
    text
}

/// `> 30 * 60`: minutes.
fn ages(line: &str, faster: u32) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(" * 60") {
        let end = at + " * 60".len();
        let number = rest[..at].ends_with(|c: char| c.is_ascii_digit());
        let whole = !rest[end..].starts_with(|c: char| c.is_ascii_digit() || c == '.');
        text.push_str(&rest[..end]);
        if number && whole {
            text.push_str(&format!(" / {faster}"));
        }
        rest = &rest[end..];
    }
    text.push_str(rest);
    text
}

/// A duration of Prometheus with one unit, in milliseconds and shorter, but not below `least`.
fn shorter(duration: &str, faster: u32, least: u64) -> Option<String> {
    let digits = duration.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = duration.split_at(digits);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    let millis = number.parse::<u64>().ok()? * seconds * 1_000 / u64::from(faster);
    Some(format!("{}ms", millis.max(least)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_time_is_shortened_and_nothing_else() {
        let cases = [
            ("        for: 4h", "        for: 240000ms"),
            ("        for: 2m", "        for: 2000ms"),
            ("expr: sum(increase(x_total[15m])) > 2.5", "expr: sum(increase(x_total[15000ms])) > 2.5"),
            (
                "rate(a{le=~\"30([.]0)?\"}[5m]) / rate(b[3d])",
                "rate(a{le=~\"30([.]0)?\"}[5000ms]) / rate(b[4320000ms])",
            ),
            ("max(min_over_time(x[1m])) > 0", "max(min_over_time(x[2000ms])) > 0"),
            ("time() - x > 60 * 60", "time() - x > 60 * 60 / 60"),
            ("x > 20 * 60", "x > 20 * 60 / 60"),
            ("x > 14.4 * 0.01 and y * 600 > 0", "x > 14.4 * 0.01 and y * 600 > 0"),
            ("labels: { severity: critical, window: 1h }", "labels: { severity: critical, window: 1h }"),
            ("- record: maple_router:late:increase30m", "- record: maple_router:late:increase30m"),
        ];
        for (shipped, hastened) in cases {
            assert_eq!(hasten(shipped, 60), format!("{hastened}\n"));
        }
    }
}
