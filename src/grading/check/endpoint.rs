//! Lines `grading_judge` and `grading_stt`: whether the endpoints that grade and transcribe answer, take the key, and know the models.
//!
//! The list of models is asked for, which costs nothing. An endpoint that lists none is well if it answers.

use std::time::Duration;

use crate::config::secret::{ReadSecret, SecretError};
use crate::config::{Config, Send};
use crate::gateway::judge::listing::{Catalog, Listing};
use crate::gateway::judge::{Cause, JudgeError, JudgeSettings, JudgeSetupError, base_url};
use crate::grading::worker::pipeline::SCRIPTED;
use crate::ports::CheckLine;

pub(super) const JUDGE: &str = "grading_judge";
pub(super) const STT: &str = "grading_stt";
/// Longest wait for a list: a person waits at the terminal.
const PATIENCE: Duration = Duration::from_secs(10);
const KEY: &str = "rb-015-grading.md, \"The judge\", has the commands for its key";
const ADDRESS: &str = "see to base_url and to the network, or wait until it is back: `journalctl --unit=maple-router-grader.service`, and \
     rb-015-grading.md, \"grading_judge\"";

/// An endpoint, as a section of the configuration has it.
struct Endpoint<'a> {
    line: &'static str,
    section: &'static str,
    /// The credential's name.
    credential: &'static str,
    base_url: Option<&'a str>,
    models: Vec<&'a str>,
    key: Result<Option<ReadSecret>, SecretError>,
    timeout: Duration,
    /// The consequence of having none.
    without: &'static str,
}

/// The endpoint that grades.
pub(super) async fn judge(config: &Config) -> CheckLine {
    let judge = &config.grading.judge;
    let line = Endpoint {
        line: JUDGE,
        section: "grading.judge",
        credential: "grader-key",
        base_url: judge.base_url.as_deref(),
        models: judge.models.iter().map(String::as_str).collect(),
        key: config.grader_key(),
        timeout: judge.timeout,
        without: "of writing and speaking nothing is graded by this host",
    }
    .line()
    .await;
    if line.remedy.is_some() || judge.base_url.is_none() {
        return line;
    }
    if judge.send != Send::Full {
        return CheckLine::warn(
            JUDGE,
            format!("{}; but no work is sent to it, and every grading fails (not_sent)", line.detail),
            "grading.judge.send = \"full\", and systemctl restart maple-router-grader.service (rb-015)",
        );
    }
    if judge.allow_scripted && judge.models.iter().any(|model| model.starts_with(SCRIPTED)) {
        return CheckLine::warn(
            JUDGE,
            format!("{}; a scripted stand-in, which no model is, may grade without a person", line.detail),
            "grading.judge.allow_scripted = false, unless this is a demo or a test (rb-015)",
        );
    }
    line
}

/// The endpoint that transcribes.
pub(super) async fn stt(config: &Config) -> CheckLine {
    let stt = &config.grading.stt;
    Endpoint {
        line: STT,
        section: "grading.stt",
        credential: "stt-key",
        base_url: stt.base_url.as_deref(),
        models: vec![stt.model.as_str()],
        key: config.stt_key(),
        timeout: stt.timeout,
        without: "nothing that is spoken is graded by this host",
    }
    .line()
    .await
}

impl Endpoint<'_> {
    async fn line(self) -> CheckLine {
        let Some(address) = self.base_url.filter(|address| !address.trim().is_empty()) else {
            let detail = format!("none on this host ([{}] base_url): {}", self.section, self.without);
            return CheckLine::ok(self.line, detail);
        };
        let key = match &self.key {
            Ok(found) => found.as_ref().map(|found| found.secret.clone()),
            Err(error) => return CheckLine::fail(self.line, error.to_string(), KEY),
        };
        let has_key = key.is_some();
        let catalog = base_url(address)
            .map_err(|rule| JudgeSetupError::Address { section: self.section, rule })
            .and_then(|base_url| {
                let settings = JudgeSettings {
                    section: self.section,
                    base_url,
                    model: String::new(),
                    timeout: self.timeout.min(PATIENCE),
                };
                Catalog::new(&settings, key)
            });
        let catalog = match catalog {
            Ok(catalog) => catalog,
            Err(error) => {
                let remedy = format!("correct [{}], and see rb-015-grading.md, \"The judge\"", self.section);
                return CheckLine::fail(self.line, error.to_string(), remedy);
            }
        };
        match catalog.ask().await {
            Ok(listing) => self.known(catalog.host(), &listing),
            Err(error) => self.unanswered(catalog.host(), has_key, &error),
        }
    }

    /// The line of an endpoint that answers.
    fn known(&self, host: &str, listing: &Listing) -> CheckLine {
        let names = self.models.join(", ");
        let Listing::Models(listed) = listing else {
            return CheckLine::ok(
                self.line,
                format!("{host} answers, and does not list its models: {names} not tried"),
            );
        };
        let unknown: Vec<&str> =
            self.models.iter().filter(|model| !listed.iter().any(|known| known == *model)).copied().collect();
        if unknown.is_empty() {
            return CheckLine::ok(self.line, format!("{host} answers, and has {names}"));
        }
        // An alias need not be listed: no failure.
        CheckLine::warn(
            self.line,
            format!("{host} answers, and does not list {}", unknown.join(", ")),
            format!(
                "correct the names in [{}], then systemctl restart maple-router-grader.service (rb-015); where they are aliases that it takes \
                 unlisted, leave them",
                self.section
            ),
        )
    }

    /// The line of an endpoint that does not answer, or refuses us.
    fn unanswered(&self, host: &str, has_key: bool, error: &JudgeError) -> CheckLine {
        match error {
            // Working, only not for us at this moment.
            JudgeError::Unavailable { cause: Cause::Throttled, .. } => CheckLine::warn(
                self.line,
                format!("{host} answers, and wants fewer questions (429)"),
                "wait, or have the account's limit raised; tries are not spent by it (rb-015, \"grading_judge\")",
            ),
            JudgeError::Unavailable { cause, .. } => {
                CheckLine::fail(self.line, format!("{host} does not answer ({cause})"), ADDRESS)
            }
            JudgeError::Refused { status: status @ (401 | 403), .. } if !has_key => CheckLine::warn(
                self.line,
                format!(
                    "{host} answers, and wants a key ({status}): none is known here, the grader's own unit may have it"
                ),
                format!(
                    "as root, MAPLE_ROUTER__{}__KEY_FILE=/etc/maple-router/grader/{} maple-router check tries with it (rb-015)",
                    self.section.replace('.', "__").to_uppercase(),
                    self.credential
                ),
            ),
            JudgeError::Refused { status: status @ (401 | 403), .. } => {
                CheckLine::fail(self.line, format!("{host} refuses the key ({status})"), KEY)
            }
            JudgeError::Refused { status, .. } => {
                CheckLine::fail(self.line, format!("{host} refuses us ({status})"), ADDRESS)
            }
            JudgeError::TooLarge | JudgeError::Invalid(_) => CheckLine::fail(
                self.line,
                format!("{host} answers as no such endpoint does: {error}"),
                ADDRESS,
            ),
        }
    }
}
