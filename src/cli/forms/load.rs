//! `forms load FILE`.

use std::path::PathBuf;

use serde_json::json;

use super::{Office, refused};
use crate::cli::{CliError, Exit, output};
use crate::forms::definition::Definition;
use crate::forms::store::Source;
use crate::ops::rng::Rng;

/// Arguments of `forms load`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form's file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only look for faults, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Makes a draft of the file.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let shown = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| CliError::new(Exit::Usage, anyhow::anyhow!("{shown}: {error}")))?;
    let definition = Definition::from_yaml(&text).map_err(|faults| {
        let list: String = faults.0.iter().map(|fault| format!("\n  - {fault}")).collect();
        CliError::new(Exit::FoundWanting, anyhow::anyhow!("{shown} is not a form's definition:{list}"))
    })?;
    let form = &definition.id;
    if args.dry_run {
        output::either(args.json, &json!({"form": form, "valid": true}), || {
            format!("{shown}: a definition of form {form}\n")
        })?;
        return Ok(Exit::Done);
    }
    let id = Rng::from_system().uuid();
    let loaded = office.versions.load(&definition, Source::Yaml, id, &office.by).await;
    let loaded = loaded.map_err(|error| refused(error, form))?;
    let name = format!("{form}@{}", loaded.number);
    let document = json!({
        "version": name, "id": loaded.id, "number": loaded.number, "digest": loaded.digest, "state": loaded.state, "new": loaded.is_new,
    });
    output::either(args.json, &document, || {
        let digest = &loaded.digest[..12];
        if loaded.is_new {
            format!(
                "{name}: a draft, digest {digest}\n  next: maple-router forms diff {name}\n        \
                 maple-router forms publish {name} --expect {digest}\n"
            )
        } else {
            format!("{name} has this content already, and is {}; digest {digest}\n", loaded.state)
        }
    })?;
    Ok(Exit::Done)
}
