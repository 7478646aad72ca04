//! `policy`: tries the policy that forms are published by, on the canaries and on files of forms. Connects to nothing.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::{CliError, Context, Exit, operator, output};
use crate::forms::checks;
use crate::forms::content::{self, Blobs};
use crate::forms::definition::Definition;
use crate::forms::document::{About, document};
use crate::forms::policies::{Policies as _, PolicyDir};
use crate::forms::policy::Away;
use crate::forms::store::Source;
use crate::forms::table::Command;
use crate::queries::preview::Compositor;

/// Arguments of `policy`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say what the policy answers about files of forms; without files, whether it is to be believed
    Test(Test),
}

/// Arguments of `policy test`.
#[derive(Debug, clap::Args)]
struct Test {
    /// Files of forms
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The policy's directory [default: forms.policy_dir]
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(super) fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let Verb::Test(args) = &args.verb;
    let config = ctx.config()?.config;
    let composer =
        Compositor::new(&config).map_err(|why| CliError::new(Exit::BadConfig, anyhow::anyhow!(why)))?;
    let directory = args.policy.clone().or_else(|| config.forms.policy_dir.clone());
    let policy = PolicyDir::new(directory).policy().map_err(away)?;
    let (mut answers, mut exit) = (Vec::new(), Exit::Done);
    let actor = operator::actor(&ctx.env);
    for file in &args.files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| CliError::new(Exit::Usage, anyhow::anyhow!("{}: {error}", file.display())))?;
        let reasons = match Definition::from_yaml(&text) {
            Err(faults) => faults.0,
            Ok(definition) => {
                // Which uploads a form's files are is the database's to say.
                let mut reasons = checks::reasons(&definition, &[], &composer);
                let digest = hex::encode(content::digest(&content::entries(&definition, &Blobs::new())));
                let about = About {
                    command: Command::Publish,
                    number: 1,
                    digest: &digest,
                    source: Source::Yaml,
                    author: &actor,
                    actor: &actor,
                    files: &[],
                    shared: &[],
                    current: None,
                    allowed_domains: &config.mail.allowed_destination_domains,
                    // A file that nobody has loaded has no signatures.
                    signed: &[],
                };
                let decision = policy.decide(&document(&definition, &about, &composer)).map_err(away)?;
                if !decision.allowed && decision.reasons.is_empty() {
                    reasons.push("the policy does not allow it, and gives no reason".to_owned());
                }
                reasons.extend(decision.reasons);
                reasons
            }
        };
        if !reasons.is_empty() {
            exit = Exit::FoundWanting;
        }
        answers.push((file.display().to_string(), reasons));
    }
    let digest = hex::encode(policy.digest());
    let documents: Vec<_> = answers
        .iter()
        .map(|(file, reasons)| json!({"file": file, "allowed": reasons.is_empty(), "reasons": reasons}))
        .collect();
    output::either(args.json, &json!({"policy": digest, "files": documents}), || {
        let mut text = format!(
            "policy {}: it denies the bad canary and allows the good one\n",
            digest.get(..12).unwrap_or(&digest)
        );
        for (file, reasons) in &answers {
            let what = if reasons.is_empty() { "allowed" } else { "refused" };
            text.push_str(&format!("{file}: {what}\n"));
            for reason in reasons {
                text.push_str(&format!("  - {reason}\n"));
            }
        }
        text
    })?;
    Ok(exit)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn away(away: Away) -> CliError {
    let remedy = away.remedy();
    CliError::new(Exit::BadConfig, anyhow::anyhow!("the policy is away: {away}")).remedy(remedy)
}
