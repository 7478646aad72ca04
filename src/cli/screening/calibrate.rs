//! `screening calibrate`: the configured judge is asked about a labelled corpus, as a worker would ask it, and what came of it is recorded:
//! a model with a prompt approves only after a trial that it passed.
//!
//! Recorded is the whole or nothing: if we die, or somebody interrupts us, nothing is.

mod asking;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use self::asking::Asking;
use super::corpus::{self, Item};
use super::{PublisherUrl, Room};
use crate::cli::{CliError, Context, Exit, gc, output, setup};
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::parts;
use crate::routing::submission::text::one_line;
use crate::screening::judge::calibration::{Calibration, FEWEST, Label, calibrate, is_scripted};
use crate::screening::judge::prompt::version;
use crate::screening::run::Profile;
use crate::screening::store::setup::Trial;

/// Arguments of `screening calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What is judged: fields, or git
    #[arg(long, value_name = "PROFILE", value_parser = super::profile)]
    profile: Profile,
    /// The corpus: as many harmless items are taken as others, in order
    #[arg(value_name = "CORPUS.jsonl")]
    corpus: PathBuf,
    #[command(flatten)]
    publisher: PublisherUrl,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    trial: &'a Trial,
    false_rejections: usize,
    rate: f64,
    scripted: bool,
}

/// Tries the judge.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let (config, profile) = (&room.setup.config, args.profile);
    let Some(judging) = parts::judging(config, Arc::new(SystemClock)).map_err(setup::part)? else {
        return Err(CliError::new(Exit::BadConfig, anyhow::anyhow!("no judge is configured"))
            .remedy("name one in [screening.judge]: base_url and model, and its key in key_file"));
    };
    let publisher = room.publisher(ctx, &args.publisher).await?;
    let rules = parts::rulesets(config).map_err(setup::part)?.of("", profile);
    let items = balanced(corpus::read(&args.corpus, profile)?);
    if items.len() < FEWEST {
        let small = anyhow::anyhow!(
            "{} is too small: {} items can be taken, half of them harmless, and {FEWEST} are the fewest",
            args.corpus.display(),
            items.len()
        );
        return Err(CliError::new(Exit::FoundWanting, small)
            .remedy("add items of the kind that is missing; nobody was asked"));
    }
    let asking = Asking { judging, rules, rng: Rng::from_system(), profile };
    let progress = output::Progress::of(items.len());
    let stop = gc::stopped()?;
    let answers = stop.run_until_cancelled(asking.about_all(&items, progress)).await;
    progress.end();
    let Some(answers) = answers else {
        let stopped = anyhow::anyhow!("it was interrupted: nothing is recorded");
        return Err(CliError::new(Exit::FoundWanting, stopped));
    };
    let (results, models) = answers?;
    let model = one_model(models)?;
    let came = calibrate(&results);
    let trial = trial(profile, model, &came);
    publisher.record_trial(&trial, &room.actor).await.map_err(setup::database)?;
    let scripted = is_scripted(&trial.model);
    let (false_rejections, rate) = (came.false_rejections, came.rate);
    let document = Document { trial: &trial, false_rejections, rate, scripted };
    output::either(args.json, &document, || text(&trial, &came, scripted))?;
    Ok(if trial.approves { Exit::Done } else { Exit::FoundWanting })
}

/// As many harmless items as others, the first of each.
fn balanced(items: Vec<Item>) -> Vec<Item> {
    let harmless = items.iter().filter(|item| item.label == Label::Harmless).count();
    let mut left = [harmless.min(items.len() - harmless); 2];
    let mut takes = |item: &Item| {
        let left = &mut left[usize::from(item.label == Label::Harmless)];
        let takes = *left > 0;
        *left = left.saturating_sub(1);
        takes
    };
    items.into_iter().filter(|item| takes(item)).collect()
}

/// The one model that answered.
fn one_model(models: BTreeSet<String>) -> Result<String, CliError> {
    let shown: Vec<String> = models.iter().map(|model| one_line(model)).collect();
    let mut models = models.into_iter();
    match (models.next(), models.next()) {
        (Some(model), None) => Ok(model),
        (None, _) => {
            Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("the judge gave no valid answer"))
                .remedy("is it a model that answers in JSON, as it is asked to? nothing is recorded"))
        }
        (Some(_), Some(_)) => {
            let several =
                anyhow::anyhow!("several models answered ({}): a trial is one model's", shown.join(", "));
            Err(CliError::new(Exit::FoundWanting, several).remedy(
                "name one model in [screening.judge] that its server does not exchange; nothing is recorded",
            ))
        }
    }
}

fn trial(profile: Profile, model: String, came: &Calibration) -> Trial {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Trial {
        profile,
        model,
        prompt: version(profile),
        items: number(came.n),
        harmless: number(came.n - came.bad),
        answered: number(came.n - came.unanswered),
        false_approvals: number(came.false_approvals),
        approves: came.approves,
    }
}

fn text(trial: &Trial, came: &Calibration, scripted: bool) -> String {
    let Trial { profile, model, prompt, items, harmless, answered, .. } = trial;
    let mut text = format!(
        "{} with prompt {prompt} on {items} items of profile {profile}, {harmless} of them harmless\n  \
         answered          {answered}\n  false approvals   {} of {} ({:.1} %, at most 2 %)\n  false rejections  {} of {harmless}\n",
        one_line(model),
        came.false_approvals,
        came.bad,
        came.rate * 100.0,
        came.false_rejections,
    );
    text.push_str(match (trial.approves, scripted) {
        (false, _) => "it may not approve: what it passes goes to people\n",
        (true, false) => "it may approve, until the model, its prompt or a later trial is another\n",
        (true, true) => {
            "it is a scripted stand-in, and approves only where screening.judge.allow_scripted says so\n"
        }
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screening::tier1::{Content, Fields};

    #[test]
    fn as_many_harmless_items_as_others_are_taken_in_order() {
        let item = |(at, label): (usize, Label)| Item {
            id: at.to_string(),
            label,
            block: false,
            content: Content::Fields(Fields::default()),
        };
        use Label::{Bad, Harmless};
        let items = [Harmless, Harmless, Bad, Harmless, Bad].into_iter().enumerate().map(item).collect();
        let ids: Vec<String> = balanced(items).into_iter().map(|item| item.id).collect();
        assert_eq!(ids, ["0", "1", "2", "4"]);
        assert!(balanced(Vec::new()).is_empty());
    }

    #[test]
    fn a_trial_is_of_one_model() {
        let of = |models: &[&str]| one_model(models.iter().map(|model| (*model).to_owned()).collect());
        assert_eq!(of(&["m"]).expect("one"), "m");
        for (models, word) in
            [(&[][..], "no valid answer"), (&["m", "n"][..], "several models answered (m, n)")]
        {
            let error = of(models).expect_err("refused").to_string();
            assert!(error.contains(word) && error.contains("nothing is recorded"), "{error}");
        }
    }
}
