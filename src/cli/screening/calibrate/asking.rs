//! The questions of a trial: as a worker asks them. An answer that says nothing is asked for again as often; a judge that stays away, or
//! refuses us, ends the trial.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use crate::cli::output::Progress;
use crate::cli::screening::corpus::Item;
use crate::cli::{CliError, Exit};
use crate::gateway::judge::JudgeError;
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::ports::Clock as _;
use crate::screening::judge::calibration::Label;
use crate::screening::judge::decide::First;
use crate::screening::judge::prompt::Composed;
use crate::screening::judge::verdict::{Score, Verdict};
use crate::screening::run::Profile;
use crate::screening::tier1::{Ruleset, Severity, scan};
use crate::screening::worker::{Judging, MOST_TRIES, compose, texts};

/// Pause before the judge is asked again, where it does not say how long.
const PAUSE: Duration = Duration::from_secs(2);
/// Longest pause that a judge may ask for.
const LONGEST: Duration = Duration::from_secs(60);

/// What came of an item: a score where there was a valid answer, and who gave it.
type Answered = (Label, Option<Score>, Vec<String>);

/// Whoever asks.
pub(super) struct Asking {
    pub(super) judging: Judging,
    pub(super) rules: Arc<Ruleset>,
    pub(super) rng: Rng,
    pub(super) profile: Profile,
}

impl Asking {
    /// Asks about each item, as many at once as the judge's slots are. Scores, and the models that gave them.
    pub(super) async fn about_all(
        &self,
        items: &[Item],
        progress: Progress,
    ) -> Result<(Vec<(Label, Option<Score>)>, BTreeSet<String>), CliError> {
        let asking: Vec<_> = items.iter().map(|item| self.about(item)).collect();
        let mut answers = futures::stream::iter(asking).buffer_unordered(self.judging.slots.max(1));
        let (mut results, mut models) = (Vec::with_capacity(items.len()), BTreeSet::new());
        while let Some(answer) = answers.next().await {
            let (label, score, by) = answer?;
            results.push((label, score));
            models.extend(by);
            progress.at(results.len());
        }
        Ok((results, models))
    }

    async fn about(&self, item: &Item) -> Result<Answered, CliError> {
        let Item { label, content, .. } = item;
        let report = scan(content, &self.rules, 1)?;
        // What blocks never comes before the judge.
        let seen = report.findings.iter().filter(|finding| finding.severity != Severity::Block);
        let found: Vec<(String, String)> =
            seen.map(|finding| (finding.rule.to_string(), finding.place.clone())).collect();
        let blocks = texts(content.clone(), self.judging.send);
        let Ok(first) = compose(self.profile, &blocks, &found, &self.rng) else {
            return Ok((*label, None, Vec::new()));
        };
        let Some((verdict, model)) = self.asked(&first).await? else { return Ok((*label, None, Vec::new())) };
        let pending = match First::of(verdict) {
            First::Enough(answers) => return Ok((*label, Some(answers.score()), vec![model])),
            First::Again(pending) => pending,
        };
        let Ok(second) = compose(self.profile, &blocks, &found, &self.rng) else {
            return Ok((*label, None, vec![model]));
        };
        let Some((verdict, other)) = self.asked(&second).await? else {
            return Ok((*label, None, vec![model]));
        };
        Ok((*label, Some(pending.with(verdict).score()), vec![model, other]))
    }

    /// One question, until it is answered; nothing where no answer says anything.
    async fn asked(&self, question: &Composed) -> Result<Option<(Verdict, String)>, CliError> {
        for tried in 1.. {
            match self.judging.judge.ask(question).await {
                Ok(answer) => return Ok(Some((answer.verdict, answer.model))),
                Err(JudgeError::TooLarge) => return Ok(None),
                Err(JudgeError::Invalid(_)) if tried >= MOST_TRIES => return Ok(None),
                Err(JudgeError::Invalid(_)) => {}
                Err(JudgeError::Unavailable { retry_after, .. }) if tried < MOST_TRIES => {
                    SystemClock.sleep(retry_after.unwrap_or(PAUSE).min(LONGEST)).await;
                }
                Err(error @ JudgeError::Unavailable { .. }) => {
                    return Err(CliError::new(Exit::Unavailable, error)
                        .remedy("nothing is recorded; try again when it answers"));
                }
                Err(error @ JudgeError::Refused { .. }) => {
                    return Err(CliError::new(Exit::BadConfig, error).remedy("nothing is recorded"));
                }
            }
        }
        Ok(None)
    }
}
