//! `forms promote VERSION`, `forms rollback FORM`.

use super::{Office, refused, told};
use crate::cli::{CliError, Exit, setup};

/// Arguments of `forms promote`.
#[derive(Debug, clap::Args)]
pub(super) struct Promote {
    /// FORM for its newest version, or FORM@NUMBER
    #[arg(value_name = "VERSION")]
    version: String,
    /// Number of the version that the form follows, as it was seen; 0 where it is not managed [default: whatever it follows]
    #[arg(long, value_name = "NUMBER")]
    expect: Option<u32>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `forms rollback`.
#[derive(Debug, clap::Args)]
pub(super) struct Rollback {
    /// The form
    #[arg(value_name = "FORM")]
    form: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Makes the form follow a version.
pub(super) async fn promote(office: &Office, args: &Promote) -> Result<Exit, CliError> {
    let row = office.version(&args.version).await?;
    let (name, form) = (Office::name(&row), &row.columns.form_id);
    let store = &office.versions.store;
    let expected = match args.expect {
        Some(0) => None,
        Some(number) => {
            let expected = store.by_number(form, number).await.map_err(setup::database)?;
            Some(expected.ok_or_else(|| {
                CliError::new(Exit::Usage, anyhow::anyhow!("form {form} has no version {number}"))
            })?)
            .map(|row| row.id)
        }
        None => store.current(form).await.map_err(setup::database)?.map(|current| current.version),
    };
    let judged = office.versions.promote(row.id, expected, args.reason.as_deref(), &office.by).await;
    let judged = judged.map_err(|error| refused(error, form))?;
    let done = "the form follows it from now on; what is on its way keeps the version it began with";
    told(args.json, &judged, &name, done)
}

/// Makes the form follow the version before.
pub(super) async fn rollback(office: &Office, args: &Rollback) -> Result<Exit, CliError> {
    let (version, judged) = office
        .versions
        .rollback(&args.form, None, &office.by)
        .await
        .map_err(|error| refused(error, &args.form))?;
    let row = office.versions.store.by_id(version).await.map_err(setup::database)?;
    let name = row.as_ref().map_or_else(|| args.form.clone(), Office::name);
    told(args.json, &judged, &name, "the form follows it again")
}
