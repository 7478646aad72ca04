//! PROCESSING: transcribe, ask for each sample, assess, send back. Before each paid call it is asked whether somebody still waits.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::steps::{Untaken, digest_of};
use super::works::{told, try_failed};
use super::{GraderTools, MOST_LOST, REST};
use crate::db::DbError;
use crate::gateway::judge::{Cause, JudgeError};
use crate::grading::core::assess::{Assessed, Rules, Sample, Work as Graded, assess};
use crate::grading::core::confidence::count_words;
use crate::grading::core::message::{Ask, ErrorType, Grade, Payload, Request, Said, cut_transcript};
use crate::grading::core::skill::Task;
use crate::grading::grader::kept;
use crate::grading::grader::question::{Composed, Question, Unaskable};
use crate::grading::grader::texts::{ANSWER_TOKENS, version};
use crate::grading::job::decide::Failed;
use crate::grading::job::store::{Step, StepKind, Wanted};
use crate::grading::job::table::{Command, Job, State};
use crate::grading::journal;
use crate::grading::metrics::{CALLS, CallOutcome};
use crate::grading::queue::is_the_messages;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::scrub::scrub;

/// Time until another look whether there are tokens.
const SPENT: Duration = Duration::from_secs(300);
/// Draws of a nonce that does not stand in the work.
const DRAWS: usize = 8;
/// Bytes of a token, at least.
const BYTES_OF_A_TOKEN: u64 = 3;
/// Prefix of a model that is a scripted stand-in.
pub const SCRIPTED: &str = "devkit-scripted-";

/// The work of a job that is worked on.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Its tools.
    pub tools: GraderTools,
}

impl Work for Pipeline {
    type Of = Job;

    fn run<'a>(&'a self, row: &'a Row<Job>) -> BoxFuture<'a, Ending<Job>> {
        async move {
            if row.claims.saturating_sub(row.columns.returned) > MOST_LOST {
                return try_failed(row, &failed(ErrorType::Poison, "poison", false));
            }
            self.graded(row).await.unwrap_or_else(|ending| ending)
        }
        .boxed()
    }
}

/// A text to be graded, spoken or written.
struct Heard {
    text: String,
    /// Whether it is what somebody said.
    is_transcript: bool,
    no_speech: bool,
    seconds: Option<u32>,
    task: Option<Task>,
    part: Option<u8>,
}

impl Pipeline {
    async fn graded(&self, row: &Row<Job>) -> Result<Ending<Job>, Ending<Job>> {
        let grade = request(row)?;
        let grading = &self.tools.grading;
        if !grading.may_send {
            return Err(try_failed(row, &failed(ErrorType::Model, "not_sent", false)));
        }
        if grading.judges.is_empty() {
            return Err(try_failed(row, &failed(ErrorType::Model, "no_judge", false)));
        }
        let heard = self.heard(row, &grade).await?;
        let prompt = version(grade.skill);
        let digest = digest_of(&[
            grade.skill.label(),
            &grade.rubric,
            &prompt,
            &grade.question.prompt,
            &heard.text,
            &grading.models,
        ]);
        let mut samples = Vec::new();
        if !heard.no_speech {
            samples = self.samples(row, &grade, &heard, &hex::encode(digest)).await?;
        }
        let calibrated = self.calibrated(row, &grade, &samples, &prompt).await?;
        let work = Graded {
            word_count: count_words(&heard.text),
            task: heard.task,
            prompt: grade.question.prompt.clone(),
            known: grade.question.known.clone(),
            no_speech: heard.no_speech,
            // The models say so, each for itself.
            injection: false,
            pronunciation: None,
            text: heard.text.clone(),
        };
        let rules = Rules {
            bands: grading.bands,
            thresholds: grading.thresholds,
            spot_check: grading.spot_check,
            calibrated,
            prompt_version: prompt,
            rubric_version: grade.rubric.clone(),
            digest,
        };
        match assess(grade.skill, &work, &samples, &rules) {
            Ok(assessed) => Ok(completed(row, assessed, &heard)),
            Err(unfit) => {
                tracing::error!(job = %row.id, "job {}: {unfit}", row.id);
                Err(try_failed(row, &failed(ErrorType::Model, "unfit", false)))
            }
        }
    }

    /// The text: as it was written, or as it is transcribed.
    async fn heard(&self, row: &Row<Job>, grade: &Grade) -> Result<Heard, Ending<Job>> {
        match &grade.payload {
            Payload::Text { text, task, .. } => Ok(Heard {
                text: text.clone(),
                is_transcript: false,
                no_speech: false,
                seconds: None,
                task: Some(*task),
                part: None,
            }),
            Payload::Audio { url, part, .. } => {
                let step = self.transcribed(row, url).await?;
                let text = step.output.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
                let no_speech =
                    step.output.get("no_speech").and_then(Value::as_bool).unwrap_or(text.is_empty());
                let seconds = step.output.get("seconds").and_then(Value::as_u64);
                Ok(Heard {
                    text,
                    is_transcript: true,
                    no_speech,
                    seconds: seconds.and_then(|seconds| u32::try_from(seconds).ok()),
                    task: None,
                    part: Some(*part),
                })
            }
        }
    }

    async fn transcribed(&self, row: &Row<Job>, url: &str) -> Result<Step, Ending<Job>> {
        let (store, grading) = (&self.tools.store, &self.tools.grading);
        let Some(transcriber) = &grading.transcriber else {
            return Err(try_failed(row, &failed(ErrorType::Transcription, "no_transcriber", false)));
        };
        // Of one job, its recording is one: its link is another at each attempt.
        let digest = hex::encode(digest_of(&[
            "transcribe",
            transcriber.model(),
            &row.columns.submission_id.to_string(),
        ]));
        let kind = StepKind::Transcribe;
        let known = store.steps(row.id, kind, &digest).await.map_err(|error| database(row, &error))?;
        if let Some((_, step)) = known.into_iter().next() {
            return Ok(step);
        }
        if let Some(step) = store.same_step(&digest, kind, 1).await.map_err(|error| database(row, &error))? {
            return self.keep(row, (kind, 1), &digest, &step, true).await;
        }
        self.wanted(row).await?;
        let audio =
            transcriber.fetch(url).await.map_err(|error| untaken(row, grading.unheard(row.id, &error)))?;
        let heard = transcriber
            .transcribe(&audio)
            .await
            .map_err(|error| untaken(row, grading.unheard(row.id, &error)))?;
        grading.answered(row.id, StepKind::Transcribe);
        let transcript = heard.transcript;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 15 minutes, read as such"
        )]
        let seconds = transcript.duration.round() as u64;
        let step = Step {
            output: json!({
                "text": transcript.text, "language": transcript.language, "seconds": seconds, "no_speech": transcript.no_speech,
            }),
            model: transcriber.model().to_owned(),
            tokens: 0,
            took_ms: millis(heard.took),
        };
        self.keep(row, (kind, 1), &digest, &step, false).await
    }

    async fn samples(
        &self,
        row: &Row<Job>,
        grade: &Grade,
        heard: &Heard,
        digest: &str,
    ) -> Result<Vec<Sample>, Ending<Job>> {
        let (store, grading) = (&self.tools.store, &self.tools.grading);
        let kind = StepKind::Sample;
        let known = store.steps(row.id, kind, digest).await.map_err(|error| database(row, &error))?;
        let mut samples = Vec::new();
        for number in 1..=grading.samples {
            let own = known.iter().find(|(of, _)| *of == number).map(|(_, step)| step.clone());
            let step = match own {
                Some(step) => step,
                None => {
                    let same =
                        store.same_step(digest, kind, number).await.map_err(|error| database(row, &error))?;
                    let copied = same.is_some();
                    let step = match same {
                        Some(step) => step,
                        None => self.asked(row, grade, heard, number).await?,
                    };
                    self.keep(row, (kind, number), digest, &step, copied).await?
                }
            };
            let Some(sample) = kept::read(&step.output) else {
                return Err(try_failed(row, &failed(ErrorType::Model, "unreadable", false)));
            };
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Keeps a step before it counts. One that the database refuses fails its try: asked again, it would be paid for at every look.
    async fn keep(
        &self,
        row: &Row<Job>,
        of: (StepKind, u32),
        digest: &str,
        step: &Step,
        copied: bool,
    ) -> Result<Step, Ending<Job>> {
        let error = match self.tools.store.record_step(row.id, of, digest, step, copied).await {
            Ok(stands) => {
                if copied {
                    CALLS.add((of.0, CallOutcome::Copied), 1);
                }
                return Ok(stands);
            }
            Err(error) if is_the_messages(&error) => error,
            Err(error) => return Err(database(row, &error)),
        };
        // The state alone: what the database says may repeat what was answered.
        let state = error.sqlstate().unwrap_or("shape");
        tracing::error!(job = %row.id, state, "job {}: the answer of {} cannot be kept ({state})", row.id, step.model);
        let kind = match of.0 {
            StepKind::Transcribe => ErrorType::Transcription,
            StepKind::Sample => ErrorType::Model,
        };
        Err(try_failed(row, &failed(kind, "unkept", false)))
    }

    /// One paid call.
    async fn asked(
        &self,
        row: &Row<Job>,
        grade: &Grade,
        heard: &Heard,
        number: u32,
    ) -> Result<Step, Ending<Job>> {
        let (store, grading) = (&self.tools.store, &self.tools.grading);
        let composed = self.composed(row, grade, heard)?;
        let estimate = u64::try_from(composed.bytes()).unwrap_or(u64::MAX).div_ceil(BYTES_OF_A_TOKEN)
            + u64::from(ANSWER_TOKENS);
        let spent = store.spent().await.map_err(|error| database(row, &error))?;
        if spent.saturating_add(estimate) > grading.tokens_per_day {
            journal::job_waits(row, "the tokens of this day are spent; see [grading.judge]");
            return Err(Ending::After(SPENT));
        }
        self.wanted(row).await?;
        let turn =
            usize::try_from(number.saturating_sub(1)).unwrap_or_default() % grading.judges.len().max(1);
        let Some(judge) = grading.judges.get(turn) else {
            return Err(try_failed(row, &failed(ErrorType::Model, "no_judge", false)));
        };
        let answer = judge.ask(&composed).await;
        if let Err(
            JudgeError::Unavailable { cause: Cause::Timeout | Cause::Broken, .. } | JudgeError::Invalid(_),
        ) = &answer
        {
            // It may have read all of it, and is paid for that.
            store.spend(estimate).await.map_err(|error| database(row, &error))?;
        }
        let answer = answer.map_err(|error| untaken(row, grading.unanswered(row.id, &error)))?;
        grading.answered(row.id, StepKind::Sample);
        let tokens = answer
            .prompt_tokens
            .unwrap_or(estimate)
            .saturating_add(answer.completion_tokens.unwrap_or_default());
        Ok(Step {
            output: kept::written(&answer.verdict),
            model: answer.model,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            took_ms: millis(answer.took),
        })
    }

    fn composed(&self, row: &Row<Job>, grade: &Grade, heard: &Heard) -> Result<Composed, Ending<Job>> {
        let mut last = Unaskable::Nonce;
        for _ in 0..DRAWS {
            let word: u128 = self.tools.rng.with(rand::RngExt::random);
            let question = Question {
                skill: grade.skill,
                task: heard.task,
                part: heard.part,
                seconds: heard.seconds,
                rubric: String::new(),
                prompt: grade.question.prompt.clone(),
                work: heard.text.clone(),
                nonce: format!("{word:032x}"),
            };
            match question.compose() {
                Ok(composed) => return Ok(composed),
                Err(again @ (Unaskable::Nonce | Unaskable::NonceInContent)) => last = again,
                Err(fault @ (Unaskable::TooLarge | Unaskable::Keyed | Unaskable::Empty)) => {
                    last = fault;
                    break;
                }
            }
        }
        let code = match last {
            Unaskable::TooLarge => "too_large",
            Unaskable::Keyed => "keyed",
            Unaskable::Empty => "empty",
            Unaskable::Nonce | Unaskable::NonceInContent => "nonce",
        };
        Err(try_failed(row, &failed(ErrorType::InvalidInput, code, false)))
    }

    /// Whether the models that answered may grade without a person.
    async fn calibrated(
        &self,
        row: &Row<Job>,
        grade: &Grade,
        samples: &[Sample],
        prompt: &str,
    ) -> Result<bool, Ending<Job>> {
        let grading = &self.tools.grading;
        if samples.iter().any(|sample| sample.model.starts_with(SCRIPTED)) && !grading.allow_scripted {
            return Ok(false);
        }
        let tried = self.tools.store.suffices(grade.skill, &grading.models, prompt, &grade.rubric).await;
        tried.map_err(|error| database(row, &error))
    }

    /// Before each paid call: whether somebody still waits for the job, and it is ours.
    async fn wanted(&self, row: &Row<Job>) -> Result<(), Ending<Job>> {
        let Some(token) = row.token else { return Err(Ending::AtOnce) };
        match self.tools.store.wanted(row.id, token).await {
            Ok(Some(Wanted::Wanted)) => Ok(()),
            Ok(Some(Wanted::Cancelled)) => {
                Err(try_failed(row, &failed(ErrorType::Cancelled, "cancelled", false)))
            }
            Ok(Some(Wanted::Late)) => Err(try_failed(row, &failed(ErrorType::Timeout, "late", false))),
            // The lease is another's.
            Ok(None) => Err(Ending::AtOnce),
            Err(error) => Err(database(row, &error)),
        }
    }
}

/// The request of a job; one that was emptied, or cannot be read any more, is no job.
fn request(row: &Row<Job>) -> Result<Grade, Ending<Job>> {
    let gone = || try_failed(row, &failed(ErrorType::InvalidInput, "emptied", false));
    let document = row.columns.payload.as_ref().ok_or_else(gone)?;
    let bytes = serde_json::to_vec(document).map_err(|_| gone())?;
    match Request::parse(&bytes) {
        Ok(Request { ask: Ask::Grade(grade), .. }) => Ok(*grade),
        Ok(_) | Err(_) => Err(gone()),
    }
}

fn completed(row: &Row<Job>, assessed: Assessed, heard: &Heard) -> Ending<Job> {
    let result = assessed.result;
    let metadata = json!({
        "score": result.overall_score, "band": result.band, "confidence": result.confidence, "review": result.review_required,
        "samples": assessed.overall.len(),
    });
    let transcript = heard.is_transcript.then(|| cut_transcript(&heard.text).to_owned());
    let said = Said::Completed { result: Box::new(result), transcript };
    told(row, Command::Complete, State::Completed, said, json!({"metadata": metadata}))
        .unwrap_or_else(|| try_failed(row, &failed(ErrorType::Model, "unsendable", false)))
}

fn failed(kind: ErrorType, code: &str, retryable: bool) -> Failed {
    Failed { kind, code: code.to_owned(), retryable, retry_after: None }
}

fn untaken(row: &Row<Job>, untaken: Untaken) -> Ending<Job> {
    match untaken {
        Untaken::Away(pause) => Ending::After(pause),
        Untaken::Failed(failed) => try_failed(row, &failed),
    }
}

/// The database did not do what was asked: nothing is known, and nothing follows.
fn database(row: &Row<Job>, error: &DbError) -> Ending<Job> {
    journal::job_waits(row, &scrub(&error.to_string()));
    Ending::After(REST)
}

fn millis(took: Duration) -> u32 {
    u32::try_from(took.as_millis()).unwrap_or(u32::MAX)
}
