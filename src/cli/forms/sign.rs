//! `forms statement VERSION` and `forms sign VERSION FILE`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Office, refused};
use crate::cli::{CliError, Exit, output};
use crate::forms::signing;

/// Arguments of `forms statement`.
#[derive(Debug, clap::Args)]
pub(super) struct Statement {
    /// FORM for its newest version, or FORM@NUMBER
    #[arg(value_name = "VERSION")]
    version: String,
}

/// Arguments of `forms sign`.
#[derive(Debug, clap::Args)]
pub(super) struct Sign {
    /// FORM for its newest version, or FORM@NUMBER
    #[arg(value_name = "VERSION")]
    version: String,
    /// What ssh-keygen -Y sign made of the statement; - reads it from stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints what is signed, and nothing else.
pub(super) async fn statement(office: &Office, args: &Statement) -> Result<Exit, CliError> {
    let row = office.version(&args.version).await?;
    output::text(&signing::statement(&row.columns.form_id, row.columns.number, &row.columns.digest))?;
    Ok(Exit::Done)
}

/// Keeps a signature.
pub(super) async fn sign(office: &Office, args: &Sign) -> Result<Exit, CliError> {
    let row = office.version(&args.version).await?;
    let name = Office::name(&row);
    let signature = read(&args.file)?;
    let signed = office.versions.sign(row.id, &signature, &office.by).await;
    let (signed, is_new) = signed.map_err(|error| refused(error, &name))?;
    let document = json!({"version": name, "signer": signed.signer, "key": signed.key, "new": is_new});
    output::either(args.json, &document, || {
        let kept = if is_new { "is kept" } else { "was kept before" };
        format!("{name}: the signature of {} ({}) {kept}\n", signed.signer, signed.key)
    })?;
    Ok(Exit::Done)
}

/// A signature, or as much of a longer text as shows that it is none.
fn read(file: &Path) -> Result<String, CliError> {
    let unreadable = |error: std::io::Error| {
        CliError::new(Exit::Usage, anyhow::anyhow!("{}: {error}", file.display()))
            .remedy("name what ssh-keygen -Y sign wrote, or - for stdin")
    };
    let most = u64::try_from(signing::LONGEST).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().take(most).read_to_string(&mut text).map_err(unreadable)?;
    } else {
        std::fs::File::open(file)
            .map_err(unreadable)?
            .take(most)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
    }
    Ok(text)
}
