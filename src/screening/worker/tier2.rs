//! TIER2_SCANNING: the judge. A valid verdict decides, with the bars; without one a person does, after the time for which it is waited.
//!
//! A judge that is away shuts the gate: no attempt is spent, and one question at a time tries whether it is back. An answer that is none is
//! asked for again a few times. Valid answers are kept before they count: the same question is never paid for twice.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{MOST_TRIES, Tools, array, database, millis, poisoned};
use crate::config::{ScreeningJudge, Send};
use crate::gateway::judge::{Cause, Judge, JudgeError};
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::ops::dependency::Dependency;
use crate::ops::gate::{Gate, Shut};
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::screening::journal::{self, EventName};
use crate::screening::judge::budget::{Budget, Spent, estimate};
use crate::screening::judge::calibration::is_scripted;
use crate::screening::judge::decide::{Decision, First, decide};
use crate::screening::judge::faults::Faults;
use crate::screening::judge::prompt::{Composed, Question, Unaskable, version};
use crate::screening::judge::redact::{Kind, redact};
use crate::screening::judge::verdict::{Code, Concern, Score, Severity, Verdict};
use crate::screening::run::{Bar, Profile};
use crate::screening::store::Submitted;
use crate::screening::store::results::{Asked, KeptVerdict, ScanResult, ScanVerdict};
use crate::screening::table::{Command, JobType, Screening, State};
use crate::screening::tier1::Content;

/// The judge as a reason of the gate.
pub const JUDGE: Dependency = Dependency::new("breaker_judge");
/// Pauses for which a run waits whose question was refused.
const REFUSED: u32 = 10;
/// Time until another look whether there are tokens.
const SPENT: Duration = Duration::from_secs(900);
/// Draws of a nonce that does not stand in the content.
const DRAWS: usize = 8;

/// The judge, and what is known of it.
#[derive(Debug)]
pub struct Judging {
    /// The client.
    pub judge: Judge,
    /// The model that is asked for.
    pub model: String,
    /// Tokens a day.
    pub budget: Budget,
    /// What leaves the host.
    pub send: Send,
    /// Whether a scripted stand-in may approve.
    pub allow_scripted: bool,
    /// Questions at once.
    pub slots: usize,
    /// Time for which it is not asked while it is away.
    pub pause: Duration,
    /// Shut while it is away.
    pub gate: Gate,
    away: Notify,
    faults: Mutex<Faults>,
}

impl Judging {
    /// The judge as configured.
    #[must_use]
    pub fn new(judge: Judge, config: &ScreeningJudge) -> Self {
        Self {
            judge,
            model: config.model.clone(),
            budget: Budget::of(config),
            send: config.send,
            allow_scripted: config.allow_scripted,
            slots: config.slots,
            pause: config.pause,
            gate: Gate::new(),
            away: Notify::new(),
            faults: Mutex::default(),
        }
    }

    /// Half-opens the gate when the judge has been left alone for a while.
    pub(super) async fn probe(&self, clock: &dyn Clock, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            stop.run_until_cancelled(self.away.notified()).await;
            stop.run_until_cancelled(clock.sleep(self.pause)).await;
            if !self.gate.is_open() {
                self.gate.half_open(Shut::Breaker(JUDGE));
            }
        }
    }

    fn is_away(&self, error: JudgeError) {
        const THEN: &str = "runs wait for it, and go to people after screening.patience (rb-014)";
        match error {
            _ if !self.gate.is_open() => {}
            JudgeError::Refused { .. } => crate::journal!(error, EventName::JudgeRefuses, "{error}; {THEN}"),
            JudgeError::Unavailable { .. } | JudgeError::TooLarge | JudgeError::Invalid(_) => {
                crate::journal!(warn, EventName::JudgeAway, "{error}; {THEN}");
            }
        }
        self.gate.close(Shut::Breaker(JUDGE));
        self.away.notify_one();
    }

    /// Whether the judge fails at this run alone.
    fn fails_at(&self, run: Uuid) -> bool {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).failed(run)
    }

    fn answered(&self, run: Uuid) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).answered(run);
        self.is_back();
    }

    fn is_back(&self) {
        if !self.gate.reasons().is_empty() {
            crate::journal!(info, EventName::JudgeBack, "the judge answers again: what waits is asked about");
        }
        self.gate.open(Shut::Breaker(JUDGE));
    }
}

/// The work of a run that is judged.
#[derive(Debug, Clone)]
pub struct Tier2 {
    /// What it needs.
    pub tools: Tools,
}

impl Work for Tier2 {
    type Of = Screening;

    fn run<'a>(&'a self, row: &'a Row<Screening>) -> BoxFuture<'a, Ending<Screening>> {
        async move {
            if let Some(poisoned) = poisoned(row) {
                return poisoned;
            }
            self.judged(row).await.unwrap_or_else(|ending| ending)
        }
        .boxed()
    }
}

impl Tier2 {
    async fn judged(&self, row: &Row<Screening>) -> Result<Ending<Screening>, Ending<Screening>> {
        let submitted = self.tools.submitted(row).await?;
        let store = &self.tools.store;
        let failing = |error| database(row, &error);
        if let Some(known) = store.first_result(row.id, JobType::Tier2Scan).await.map_err(failing)? {
            return Ok(ending(&known));
        }
        let Some(judging) = self.tools.judge.clone() else { return Ok(unavailable("no_judge")) };
        let blocks = self.blocks(&judging, row, &submitted).await?;
        let findings = store.findings(row.id).await.map_err(failing)?;
        let (profile, content) = (row.columns.profile, row.columns.content.as_deref().unwrap_or_default());
        let (prompt, ruleset) = (version(profile), row.columns.ruleset.as_deref().unwrap_or_default());
        let asked = Asked { content, model: &judging.model, prompt: &prompt, ruleset };
        let mut known = store.same_verdicts(&asked).await.map_err(failing)?.into_iter();
        let mut took = Duration::ZERO;
        let mut models = Vec::new();
        let mut next = async |nth: i32| -> Result<Verdict, Ending<Screening>> {
            let kept = match known.next() {
                Some(kept) => {
                    // The run's own record of what it was judged by; it cost nothing.
                    let copy = KeptVerdict { tokens: (0, 0), took_ms: 0, ..kept.clone() };
                    let job = (row.columns.attempt, nth);
                    store.record_verdict(row.id, job, &asked, &copy).await.map_err(failing)?;
                    kept
                }
                None => {
                    let asking = Asking { work: self, judging: &judging, row, asked: &asked, nth };
                    asking.ask(&blocks, &findings, &mut took).await?
                }
            };
            models.push(kept.model.clone());
            verdict_of(&kept).ok_or_else(|| unavailable("unreadable"))
        };
        let answers = match First::of(next(1).await?) {
            First::Enough(answers) => answers,
            First::Again(pending) => pending.with(next(2).await?),
        };
        let mut calibrated = true;
        for model in &models {
            let allowed = judging.allow_scripted || !is_scripted(model);
            calibrated &= allowed && store.approves(profile, model, &prompt).await.map_err(failing)?;
        }
        // A bar of a newer version is one all the same.
        let known = |bar: &String| Bar::parse(bar).unwrap_or(Bar::ReviewFinding);
        let bars: Vec<Bar> = row.columns.bars.iter().map(known).collect();
        let decided = decide(&answers, &bars, calibrated);
        let labels: Vec<&str> = decided.bars.iter().map(|bar| bar.label()).collect();
        let concerns: usize =
            answers.verdicts().map(|verdict| verdict.concerns.len()).max().unwrap_or_default();
        let result = ScanResult {
            content: content.to_owned(),
            ruleset: ruleset.to_owned(),
            verdict: match decided.decision {
                Decision::Approve => ScanVerdict::Pass,
                Decision::Concerns => ScanVerdict::Concerns,
                Decision::Reject => ScanVerdict::Fail,
            },
            score: Some(decided.score.get()),
            detail: json!({"bars": labels, "concerns": concerns, "model": models.first(), "took_ms": millis(took)}),
        };
        let job = (JobType::Tier2Scan, row.columns.attempt);
        let stands = store.record(row.id, job, &result, &[]).await.map_err(failing)?;
        Ok(ending(&stands))
    }

    /// The texts that are judged, without what is personal unless all may leave.
    async fn blocks(
        &self,
        judging: &Judging,
        row: &Row<Screening>,
        submitted: &Submitted,
    ) -> Result<Vec<(String, String)>, Ending<Screening>> {
        let (content, _) = self.tools.content(row, submitted).await?;
        Ok(texts(content, judging.send))
    }
}

/// The texts of a content that the judge is asked about; of fields without what is personal, unless all may leave.
#[must_use]
pub fn texts(content: Content, send: Send) -> Vec<(String, String)> {
    match content {
        Content::Fields(fields) => match send {
            Send::Full => fields.values,
            Send::Tags => redact(&fields.values, Kind::ALL),
        },
        Content::Tree(tree) => {
            let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
            tree.files.iter().filter_map(|file| Some((file.path.clone(), text(&file.bytes)?))).collect()
        }
    }
}

/// Composes a question under a nonce that does not stand in it. `tier1`: rule and place of what the rules found.
///
/// # Errors
/// [`Unaskable`].
pub fn compose(
    profile: Profile,
    blocks: &[(String, String)],
    tier1: &[(String, String)],
    rng: &Rng,
) -> Result<Composed, Unaskable> {
    let mut last = Unaskable::Nonce;
    for _ in 0..DRAWS {
        let word: u128 = rng.with(rand::RngExt::random);
        let nonce = format!("{word:032x}");
        let question = Question { profile, nonce, blocks: blocks.to_vec(), tier1: tier1.to_vec() };
        match question.compose() {
            Ok(composed) => return Ok(composed),
            Err(Unaskable::TooLarge) => return Err(Unaskable::TooLarge),
            Err(nonce @ (Unaskable::Nonce | Unaskable::NonceInContent)) => last = nonce,
        }
    }
    Err(last)
}

/// One question.
struct Asking<'a> {
    work: &'a Tier2,
    judging: &'a Judging,
    row: &'a Row<Screening>,
    asked: &'a Asked<'a>,
    nth: i32,
}

impl Asking<'_> {
    async fn ask(
        &self,
        blocks: &[(String, String)],
        findings: &[(String, String)],
        took: &mut Duration,
    ) -> Result<KeptVerdict, Ending<Screening>> {
        let Self { judging, row, .. } = *self;
        let (tools, form) = (&self.work.tools, row.columns.form_id.as_str());
        let composed = compose(row.columns.profile, blocks, findings, &tools.rng);
        let composed = composed.map_err(|unaskable| match unaskable {
            Unaskable::TooLarge => unavailable("too_large"),
            Unaskable::Nonce | Unaskable::NonceInContent => unavailable("nonce"),
        })?;
        let (day, of_form) = tools.store.spent(form).await.map_err(|error| database(row, &error))?;
        if let Err(exhausted) = judging.budget.may(estimate(composed.bytes()), Spent { day, form: of_form }) {
            journal::waits(row, &exhausted.to_string());
            return Err(Ending::After(SPENT));
        }
        let answer = judging.judge.ask(&composed).await;
        if let Err(
            JudgeError::Unavailable { cause: Cause::Timeout | Cause::Broken, .. } | JudgeError::Invalid(_),
        ) = &answer
        {
            // It may have read all of it, and is paid for that.
            let spent = tools.store.spend(form, estimate(composed.bytes())).await;
            spent.map_err(|error| database(row, &error))?;
        }
        match answer {
            Ok(answer) => {
                judging.answered(row.id);
                *took += answer.took;
                let tokens = |counted: Option<u64>, bytes: usize| {
                    let number = counted.unwrap_or_else(|| estimate(bytes));
                    u32::try_from(number).unwrap_or(u32::MAX)
                };
                let kept = KeptVerdict {
                    model: answer.model,
                    score: answer.verdict.score.get(),
                    injection: answer.verdict.injection,
                    concerns: answer.verdict.concerns.iter().map(written).collect(),
                    tokens: (
                        tokens(answer.prompt_tokens, composed.bytes()),
                        tokens(answer.completion_tokens, 0),
                    ),
                    took_ms: u32::try_from(answer.took.as_millis()).unwrap_or(u32::MAX),
                };
                let job = (row.columns.attempt, self.nth);
                let recorded = tools.store.record_verdict(row.id, job, self.asked, &kept).await;
                recorded.map_err(|error| database(row, &error))?;
                Ok(kept)
            }
            Err(JudgeError::Unavailable { .. } | JudgeError::Refused { .. }) if judging.fails_at(row.id) => {
                Err(unavailable("no_answer"))
            }
            Err(error @ JudgeError::Unavailable { retry_after, .. }) => {
                judging.is_away(error);
                Err(Ending::After(retry_after.unwrap_or(judging.pause)))
            }
            Err(error @ JudgeError::Refused { .. }) => {
                judging.is_away(error);
                Err(Ending::After(judging.pause * REFUSED))
            }
            Err(JudgeError::TooLarge) => Err(unavailable("too_large")),
            // It answers, and says nothing: a few more times, then a person.
            Err(error @ JudgeError::Invalid(_)) => {
                judging.is_back();
                journal::waits(row, &error.to_string());
                Err(if row.attempts < MOST_TRIES {
                    Ending::Failed { why: error.to_string(), columns: None }
                } else {
                    unavailable("invalid")
                })
            }
        }
    }
}

/// Without a verdict a person decides; `why` is a word for the event.
fn unavailable(why: &str) -> Ending<Screening> {
    Ending::Done {
        command: Command::Tier2Unavailable,
        to: Some(State::NeedsReview),
        columns: Some(json!({"metadata": {"why": why}})),
    }
}

fn ending(result: &ScanResult) -> Ending<Screening> {
    let (command, to) = match result.verdict {
        ScanVerdict::Pass => (Command::Tier2Pass, State::AutoApproved),
        ScanVerdict::Concerns => (Command::Tier2Concerns, State::NeedsReview),
        ScanVerdict::Fail => (Command::Tier2Fail, State::Rejected),
    };
    let of = |name: &str| result.detail.get(name).cloned().unwrap_or_default();
    let metadata = json!({
        "score": result.score, "model": of("model"), "concerns": of("concerns"), "bars": of("bars"), "duration_ms": of("took_ms"),
    });
    let columns = json!({"score": result.score, "bars": array(&result.bars()), "metadata": metadata});
    Ending::Done { command, to: Some(to), columns: Some(columns) }
}

fn written(concern: &Concern) -> Value {
    json!({
        "code": concern.code, "severity": concern.severity, "place": concern.place, "note": concern.note,
    })
}

/// The verdict as it was kept.
fn verdict_of(kept: &KeptVerdict) -> Option<Verdict> {
    let concern = |value: &Value| {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        Some(Concern {
            code: Code::parse(text("code")?)?,
            severity: Severity::parse(text("severity")?)?,
            place: text("place")?.to_owned(),
            note: text("note")?.to_owned(),
        })
    };
    let concerns = kept.concerns.as_array()?.iter().map(concern).collect::<Option<_>>()?;
    Some(Verdict { score: Score::new(i64::from(kept.score))?, concerns, injection: kept.injection })
}
