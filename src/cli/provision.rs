//! `provision`: topics, subscriptions, dead-letter and retry policy, created or verified; without Pub/Sub there is
//! nothing to do, and an installation that runs it all the same is not stopped by that.
//!
//! May be repeated at any time: finished steps stay done if we die, and the next run goes on from there.

use serde::Serialize;

use super::output::{self, Palette};
use super::{CliError, Context, Exit};
use crate::config::SourceKind;
use crate::gateway::pubsub::admin::{ProvisionError, ProvisionStep, StepState, provision, provision_beside};
use crate::gateway::pubsub::error::Fault;
use crate::grading::link::topics::topics;
use crate::grading::queue::QueueName;
use crate::parts;

/// Arguments of `provision`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only tell what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// The report.
#[derive(Debug, Serialize)]
struct Report {
    /// Everything is as wanted, or would be.
    ok: bool,
    /// Nothing was changed.
    dry_run: bool,
    /// Steps, one for each topic and subscription, in the order in which they were looked at.
    steps: Vec<ProvisionStep>,
}

/// Creates missing topics and subscriptions and verifies existing ones.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let loaded = ctx.config()?;
    let mut steps = match loaded.config.source.kind {
        SourceKind::Pubsub => {
            let settings = parts::pubsub(&loaded.config)?;
            provision(&settings, args.dry_run).await.map_err(refused)?
        }
        SourceKind::Postgres => Vec::new(),
    };
    if let Some(topics) = topics(&loaded.config)? {
        for queue in QueueName::ALL {
            let made = provision_beside(topics.of(*queue), args.dry_run, "keeps messages of grading").await;
            steps.extend(made.map_err(refused)?);
        }
    }
    let report =
        Report { ok: steps.iter().all(|s| s.state != StepState::Differs), dry_run: args.dry_run, steps };
    output::either(args.json, &report, || text(&report, Palette::of_stdout()))?;
    Ok(if report.ok { Exit::Done } else { Exit::FoundWanting })
}

/// Publishing and receiving rights, which the error itself would name, are not enough to provision.
fn refused(error: ProvisionError) -> CliError {
    match &error {
        ProvisionError::Pubsub(cause) if cause.fault == Fault::PermissionDenied => {
            let problem = anyhow::anyhow!("{}", cause.what());
            CliError::new(Exit::FoundWanting, problem).remedy(
                "let an identity with roles/pubsub.editor on the project run `maple-router provision`",
            )
        }
        ProvisionError::Pubsub(_) | ProvisionError::Settings(_) => error.into(),
    }
}

fn text(report: &Report, palette: Palette) -> String {
    if report.steps.is_empty() {
        return "nothing to provision: with source.kind = \"postgres\" there is no Pub/Sub".to_owned();
    }
    let mut text = String::new();
    for step in &report.steps {
        let (sign, word) = match step.state {
            StepState::Exists => (palette.green("✓"), "exists"),
            StepState::Created => (palette.green("✓"), "created"),
            StepState::Changed => (palette.green("✓"), "changed"),
            StepState::WouldCreate => (palette.yellow("!"), "would be created"),
            StepState::WouldChange => (palette.yellow("!"), "would be changed"),
            StepState::Differs => (palette.red("✗"), "differs"),
        };
        text.push_str(&format!("{sign} {}: {word} ({})\n", step.what, step.detail));
    }
    if !report.ok {
        text.push_str(
            "what differs cannot be changed: delete it and run this again, or name another one in [pubsub]\n",
        );
    }
    text
}
