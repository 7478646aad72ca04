//! PENDING: what is to be graded is put into the grader's queue, or compared with its key at once. What cannot be graded is failed, with the
//! reason: a person has it.
//!
//! The request is written by the statement that moves the attempt. If we die before, the lease runs out, and it is made again.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{MainTools, REST};
use crate::gateway::signed_url::SignError;
use crate::grading::core::assess::{Rules, keyed};
use crate::grading::core::confidence::count_words;
use crate::grading::core::key::Key;
use crate::grading::core::message::{self, Ask, Grade, Payload, Request};
use crate::grading::core::review::Thresholds;
use crate::grading::core::skill::Skill;
use crate::grading::journal;
use crate::grading::store::content::{Content, Profile};
use crate::grading::table::{Command, Grading, State};
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::ports::LinkRequest;
use crate::scrub::scrub;
use crate::words;

/// Claims from which nobody came back, after which whatever works on an attempt is taken to die of it.
const MOST_LOST: u32 = 8;
/// Time beyond the deadline for which a link to audio works.
const LINK_BEYOND: Duration = Duration::from_secs(15 * 60);
/// Longest time for which a link may work.
const LONGEST_LINK: Duration = Duration::from_secs(7 * 86_400);

words! {
    /// Why something is not graded.
    Unpublishable {
        /// Its form has no profile any more.
        NoProfile = "no_profile",
        /// The learner has not consented to a model outside this house.
        NoConsent = "no_consent",
        /// Its question has no key, or one that is none.
        NoAnswerKey = "no_answer_key",
        /// There is no text, or no clean recording.
        NoWork = "no_work",
        /// The text or the recording is too long, or something else about it cannot be sent.
        InvalidInput = "invalid_input",
        /// Whoever publishes it does not come back.
        Poison = "poison",
    }
}

/// The work of an attempt that is pending.
#[derive(Debug, Clone)]
pub struct Publish {
    /// Its tools.
    pub tools: MainTools,
}

impl Work for Publish {
    type Of = Grading;

    fn run<'a>(&'a self, row: &'a Row<Grading>) -> BoxFuture<'a, Ending<Grading>> {
        async move {
            if row.claims.saturating_sub(row.columns.returned) > MOST_LOST {
                return failed(Unpublishable::Poison);
            }
            self.published(row).await.unwrap_or_else(|ending| ending)
        }
        .boxed()
    }
}

impl Publish {
    async fn published(&self, row: &Row<Grading>) -> Result<Ending<Grading>, Ending<Grading>> {
        let content = match self.tools.store.content(row.columns.subject).await {
            Ok(Some(content)) => content,
            Ok(None) => return Err(failed(Unpublishable::NoWork)),
            Err(error) => {
                journal::waits(row, &scrub(&error.to_string()));
                return Err(Ending::After(REST));
            }
        };
        // The form may be graded otherwise by now: the attempt stays what it was opened as.
        let profile = content.profile.as_ref().filter(|profile| profile.skill == row.columns.skill);
        let Some(profile) = profile else { return Err(failed(Unpublishable::NoProfile)) };
        match profile.skill {
            Skill::Listening | Skill::Reading => Ok(self.compared(&content, profile)),
            Skill::Writing | Skill::Speaking => {
                if !consented(&content, profile) {
                    return Err(failed(Unpublishable::NoConsent));
                }
                let payload = match profile.skill {
                    Skill::Speaking => self.recording(row, &content, profile).await?,
                    Skill::Writing | Skill::Listening | Skill::Reading => text(&content, profile)?,
                };
                self.requested(row, profile, payload)
            }
        }
    }

    /// Listening and reading: the answers are the fields that bear an item's name.
    fn compared(&self, content: &Content, profile: &Profile) -> Ending<Grading> {
        let key = match profile.answer_key.as_ref().map(Key::parse) {
            Some(Ok(key)) => key,
            Some(Err(fault)) => {
                journal::no_key(&profile.question, &fault.to_string());
                return failed(Unpublishable::NoAnswerKey);
            }
            None => return failed(Unpublishable::NoAnswerKey),
        };
        let answers: BTreeMap<String, String> = content.fields.iter().rev().cloned().collect();
        let marked = key.mark(&answers);
        let rules = Rules {
            bands: self.tools.bands,
            thresholds: Thresholds::default(),
            spot_check: 0,
            calibrated: true,
            prompt_version: String::new(),
            rubric_version: profile.rubric.clone(),
            digest: [0; 32],
        };
        let result = keyed(&marked, &rules);
        let kept = |kind: &str| json!({"kind": kind, "try": 0, "result": result, "digest": result.digest()});
        let metadata = json!({
            "score": result.overall_score, "band": result.band, "correct": marked.correct, "total": marked.total,
        });
        done(
            Command::AutoGraded,
            State::Completed,
            json!({"results": [kept("final")], "confidence": 100, "metadata": metadata}),
        )
    }

    async fn recording(
        &self,
        row: &Row<Grading>,
        content: &Content,
        profile: &Profile,
    ) -> Result<Payload, Ending<Grading>> {
        let audio = content.audio.as_ref().filter(|audio| audio.is_clean);
        let Some(audio) = audio else { return Err(failed(Unpublishable::NoWork)) };
        let Some(signer) = &self.tools.signer else {
            journal::waits(row, "nothing signs links to audio; see [signed_url]");
            return Err(Ending::Again);
        };
        let left = row.columns.deadline.duration_since(content.now);
        let left = Duration::try_from(left).unwrap_or_default();
        let request = LinkRequest {
            bucket: audio.bucket.clone(),
            object: audio.object.clone(),
            file_name: "audio".to_owned(),
            ttl: (left + LINK_BEYOND).min(LONGEST_LINK),
        };
        match signer.sign(&request).await {
            Ok(link) => Ok(Payload::Audio { url: link.url, seconds: None, part: profile.part.unwrap_or(1) }),
            Err(SignError::UnsignableObject { .. }) => Err(failed(Unpublishable::InvalidInput)),
            Err(error) => {
                journal::waits(row, &scrub(&error.to_string()));
                Err(Ending::Again)
            }
        }
    }

    fn requested(
        &self,
        row: &Row<Grading>,
        profile: &Profile,
        payload: Payload,
    ) -> Result<Ending<Grading>, Ending<Grading>> {
        let request = Request {
            request_id: row.id,
            submission_id: row.columns.subject,
            attempt: row.columns.attempt,
            ask: Ask::Grade(Box::new(Grade {
                skill: profile.skill,
                deadline_at: row.columns.deadline,
                rubric: profile.rubric.clone(),
                question: message::Question {
                    id: profile.question.clone(),
                    prompt: profile.prompt.clone(),
                    known: profile.known.clone(),
                },
                payload,
            })),
        };
        let document = request.to_bytes().map_err(|bad| {
            journal::unpublishable(row, &bad.to_string());
            failed(Unpublishable::InvalidInput)
        })?;
        let document: Value =
            serde_json::from_slice(&document).map_err(|_| failed(Unpublishable::InvalidInput))?;
        let columns = json!({
            "message": self.tools.rng.uuid(), "request": document, "metadata": {"attempt": row.columns.attempt},
        });
        Ok(done(Command::RequestPublished, State::Queued, columns))
    }
}

/// Whether the learner consents, where that is asked.
fn consented(content: &Content, profile: &Profile) -> bool {
    let Some(field) = &profile.consent_field else { return true };
    let given = content.field(field).map(|value| value.trim().to_lowercase()).unwrap_or_default();
    ["true", "yes", "on", "1"].contains(&given.as_str())
}

fn text(content: &Content, profile: &Profile) -> Result<Payload, Ending<Grading>> {
    let text = profile.text_field.as_deref().and_then(|field| content.field(field)).unwrap_or_default();
    let (Some(task), false) = (profile.task, text.trim().is_empty()) else {
        return Err(failed(Unpublishable::NoWork));
    };
    Ok(Payload::Text { text: text.to_owned(), word_count: count_words(text), task })
}

fn done(command: Command, to: State, columns: Value) -> Ending<Grading> {
    Ending::Done { command, to: Some(to), columns: Some(columns) }
}

/// A person has it.
fn failed(why: Unpublishable) -> Ending<Grading> {
    done(
        Command::InvalidJob,
        State::Failed,
        json!({"failed_reason": why.label(), "metadata": {"why": why.label()}}),
    )
}
