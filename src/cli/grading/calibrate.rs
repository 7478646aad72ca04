//! `grading calibrate`: the configured models are asked about works that people have graded, as the grader would ask them, and what came of it is
//! recorded: models grade without a person only after a trial that they passed.
//!
//! Recorded is the whole or nothing: if we die, or somebody interrupts us, nothing is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::json;

use crate::cli::output::Progress;
use crate::cli::{CliError, Context, Exit, gc, operator, output, role, setup};
use crate::config::Database;
use crate::gateway::judge::JudgeError;
use crate::grading::core::agreement::{Agreement, FEWEST, Pair, agreement};
use crate::grading::core::assess::{Rules, Sample, Work, assess};
use crate::grading::core::confidence::count_words;
use crate::grading::core::score::Score;
use crate::grading::core::skill::{Skill, Task};
use crate::grading::grader::question::Question;
use crate::grading::grader::texts::version;
use crate::grading::job::store::{Calibration, JobStore};
use crate::grading::worker::Grading;
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::parts;
use crate::ports::Clock as _;

/// Largest corpus, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;
/// Tries of a question whose answer says nothing.
const MOST_TRIES: u32 = 4;
/// Pause before a model is asked again, where it does not say how long, and the longest that it may ask for.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// Arguments of `grading calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What is graded: writing, or speaking by its transcripts
    #[arg(long, value_name = "SKILL", value_parser = super::skill)]
    skill: Skill,
    /// Works that people have graded, a JSON object a line: prompt, text, score, and task of writing
    #[arg(long, value_name = "FILE.jsonl")]
    corpus: PathBuf,
    /// Version of the rubric
    #[arg(long, value_name = "VERSION", default_value = "1")]
    rubric: String,
    /// Connection string of the grader's role [default: grading.grader_url]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_GRADER_URL", hide_env_values = true)]
    grader_url: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// A work that a person has graded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    prompt: String,
    text: String,
    score: f64,
    #[serde(default)]
    task: Option<Task>,
}

/// Tries the models.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    if args.skill.is_keyed() {
        let keyed = anyhow::anyhow!("{} is compared with a key: there is nothing to try", args.skill);
        return Err(CliError::new(Exit::Usage, keyed));
    }
    let config = ctx.config()?.config;
    let grading = parts::graders(&config, Arc::new(SystemClock)).map_err(setup::part)?;
    if grading.judges.is_empty() {
        return Err(CliError::new(Exit::BadConfig, anyhow::anyhow!("nobody grades"))
            .remedy("name models in [grading.judge]: base_url and models, and its key in key_file"));
    }
    let items = read(&args.corpus, args.skill)?;
    if items.len() < FEWEST {
        let small = anyhow::anyhow!(
            "{} is too small: it has {} works, and {FEWEST} are the fewest",
            args.corpus.display(),
            items.len()
        );
        return Err(CliError::new(Exit::FoundWanting, small)
            .remedy("add works that people have graded; nobody was asked"));
    }
    let url = args.grader_url.as_deref().filter(|url| !url.trim().is_empty());
    let url = url.or(config.grading.grader_url.as_deref());
    let database = Database { max_connections: 1, ..config.database.clone() };
    let actor = operator::actor(&ctx.env);
    let store = JobStore::new(role::pool(ctx, &config, database, url, "maple-router grading")?, &actor);
    if !store.is_there().await.map_err(setup::database)? {
        let other = anyhow::anyhow!("this database role may not record trials: the grader's does");
        return Err(CliError::new(Exit::BadConfig, other).remedy(
            "name its connection string: grading.grader_url, MAPLE_ROUTER_GRADER_URL, or --grader-url",
        ));
    }
    let trial = Trial { grading, skill: args.skill, rubric: args.rubric.clone(), rng: Rng::from_system() };
    let progress = output::Progress::of(items.len());
    let stop = gc::stopped()?;
    let pairs = stop.run_until_cancelled(trial.pairs(&items, progress)).await;
    progress.end();
    let Some(pairs) = pairs else {
        let stopped = anyhow::anyhow!("it was interrupted: nothing is recorded");
        return Err(CliError::new(Exit::FoundWanting, stopped));
    };
    let (pairs, scripted) = pairs?;
    let found = agreement(&pairs);
    let whole = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let tried = Calibration {
        skill: args.skill,
        models: trial.grading.models.clone(),
        prompt: version(args.skill),
        rubric: args.rubric.clone(),
        items: (whole(items.len()), whole(found.n)),
        qwk: found.qwk.clamp(-1.0, 1.0),
        mae: found.mae,
        ece: found.ece.clamp(0.0, 1.0),
        suffices: found.suffices(items.len()),
    };
    store.record_calibration(&tried, &actor).await.map_err(setup::database)?;
    let document = json!({
        "skill": tried.skill, "models": tried.models, "prompt": tried.prompt, "rubric": tried.rubric, "items": tried.items.0,
        "answered": tried.items.1, "qwk": tried.qwk, "mae": tried.mae, "ece": tried.ece, "suffices": tried.suffices, "scripted": scripted,
    });
    output::either(args.json, &document, || text(&tried, &found, scripted))?;
    Ok(if tried.suffices { Exit::Done } else { Exit::FoundWanting })
}

fn read(path: &Path, skill: Skill) -> Result<Vec<Item>, CliError> {
    let wrong = |why: String| {
        CliError::new(Exit::Usage, anyhow::anyhow!("{}: {why}", path.display()))
            .remedy("a JSON object a line, with prompt, text, score, and task of writing")
    };
    if std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len() > LARGEST {
        return Err(wrong("the file is larger than 64 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let item: Item =
                serde_json::from_str(line).map_err(|error| wrong(format!("line {}: {error}", at + 1)))?;
            if Score::of_half(item.score).is_none() {
                return Err(wrong(format!("line {}: the score is no multiple of 0.5 from 0 to 10", at + 1)));
            }
            if item.task.is_some() != (skill == Skill::Writing) {
                return Err(wrong(format!("line {}: a task is of writing, and writing has one", at + 1)));
            }
            Ok(item)
        })
        .collect()
}

/// Whoever asks.
struct Trial {
    grading: Grading,
    skill: Skill,
    rubric: String,
    rng: Rng,
}

impl Trial {
    /// Asks about each work, as many at once as the grader would. Pairs of those that were answered, and whether a stand-in did.
    async fn pairs(&self, items: &[Item], progress: Progress) -> Result<(Vec<Pair>, bool), CliError> {
        let asking: Vec<_> = items.iter().map(|item| self.pair(item)).collect();
        let mut answers = futures::stream::iter(asking).buffer_unordered(self.grading.slots.max(1));
        let (mut pairs, mut done, mut scripted) = (Vec::new(), 0, false);
        while let Some(answer) = answers.next().await {
            if let Some((pair, by_stand_in)) = answer? {
                pairs.push(pair);
                scripted |= by_stand_in;
            }
            done += 1;
            progress.at(done);
        }
        Ok((pairs, scripted))
    }

    async fn pair(&self, item: &Item) -> Result<Option<(Pair, bool)>, CliError> {
        let mut samples: Vec<Sample> = Vec::new();
        for number in 0..self.grading.samples {
            let turn = usize::try_from(number).unwrap_or_default() % self.grading.judges.len().max(1);
            match self.sample(item, turn).await? {
                Some(sample) => samples.push(sample),
                None => return Ok(None),
            }
        }
        let work = Work {
            text: item.text.clone(),
            task: item.task,
            prompt: item.prompt.clone(),
            known: Vec::new(),
            word_count: count_words(&item.text),
            no_speech: false,
            injection: false,
            pronunciation: None,
        };
        let rules = Rules {
            bands: self.grading.bands,
            thresholds: self.grading.thresholds,
            spot_check: 0,
            calibrated: true,
            prompt_version: version(self.skill),
            rubric_version: self.rubric.clone(),
            digest: [0; 32],
        };
        let scripted =
            samples.iter().any(|sample| sample.model.starts_with(crate::grading::worker::pipeline::SCRIPTED));
        let (Ok(assessed), Some(score)) =
            (assess(self.skill, &work, &samples, &rules), Score::of_half(item.score))
        else {
            return Ok(None);
        };
        let result = assessed.result;
        let pair = Pair {
            grader: (result.overall_score, result.band, result.confidence),
            person: (score, self.grading.bands.of(score)),
        };
        Ok(Some((pair, scripted)))
    }

    /// One sample, until there is one; nothing where no answer says anything.
    async fn sample(&self, item: &Item, turn: usize) -> Result<Option<Sample>, CliError> {
        let Some(judge) = self.grading.judges.get(turn) else { return Ok(None) };
        for tried in 1..=MOST_TRIES {
            let word: u128 = self.rng.with(rand::RngExt::random);
            let question = Question {
                skill: self.skill,
                task: item.task,
                part: (self.skill == Skill::Speaking).then_some(1),
                seconds: None,
                rubric: String::new(),
                prompt: item.prompt.clone(),
                work: item.text.clone(),
                nonce: format!("{word:032x}"),
            };
            let Ok(composed) = question.compose() else { continue };
            match judge.ask(&composed).await {
                Ok(answer) => return Ok(Some(answer.verdict)),
                Err(JudgeError::TooLarge) => return Ok(None),
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

fn text(tried: &Calibration, found: &Agreement, scripted: bool) -> String {
    let mut text = format!(
        "{} with prompt {} and rubric {} on {} works of {}\n  answered                    {}\n  kappa of bands (quadratic)  {:.3} (at least 0.7)\n  \
         mean difference of scores   {:.2} (at most 0.75)\n  calibration error           {:.3}\n",
        tried.models,
        tried.prompt,
        tried.rubric,
        tried.items.0,
        tried.skill,
        tried.items.1,
        found.qwk,
        found.mae,
        found.ece
    );
    text.push_str(match (tried.suffices, scripted) {
        (false, _) => "they may not grade alone: a person reviews each of their results\n",
        (true, false) => "they may grade alone where they are sure, until models, prompt, rubric or a later trial are others\n",
        (true, true) => "a scripted stand-in answered, which grades alone only where grading.judge.allow_scripted says so\n",
    });
    text
}
