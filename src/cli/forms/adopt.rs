//! `forms adopt FORM`.

use super::{Office, refused, told};
use crate::cli::{CliError, Exit};
use crate::ops::rng::Rng;

/// Arguments of `forms adopt`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form
    #[arg(value_name = "FORM")]
    form: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Makes what the tables have the form's first version.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let id = Rng::from_system().uuid();
    let (loaded, judged) = office
        .versions
        .adopt(&args.form, id, &office.by)
        .await
        .map_err(|error| refused(error, &args.form))?;
    let name = format!("{}@{}", args.form, loaded.number);
    let done = "what the tables have is this version; from now on the form changes by `forms load`, `publish` and `promote` alone";
    told(args.json, &judged, &name, done)
}
