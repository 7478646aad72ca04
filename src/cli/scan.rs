//! `scan`: whether the scanner finds what it must, and files that are to be scanned again.

use serde_json::json;
use uuid::Uuid;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit, output, uploads};
use crate::gateway::clamd::{Clamd, ClamdSettings, Database};

/// Files that one call makes due.
const MOST: usize = 100_000;

/// Arguments of `scan`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["self_test", "stale", "id"])))]
pub(super) struct Args {
    /// Send the scanner its test file, which must be found
    #[arg(long)]
    self_test: bool,
    /// Have every file scanned again whose verdict is older than scan.rescan_after
    #[arg(long)]
    stale: bool,
    /// Have the file of this upload scanned again
    #[arg(value_name = "UPLOAD_ID")]
    id: Option<Uuid>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Tests the scanner, or makes files due.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.id {
        Some(id) => again(ctx, id, args.json).await,
        None if args.stale => stale(ctx, args.json).await,
        None => self_test(ctx, args.json).await,
    }
}

async fn self_test(ctx: &Context, json: bool) -> Result<Exit, CliError> {
    let config = ctx.config()?.config;
    let Some(settings) = ClamdSettings::new(&config.scan) else {
        return Err(CliError::new(Exit::BadConfig, anyhow::anyhow!("no scanner is configured"))
            .remedy("scan.socket in the configuration names clamd's socket"));
    };
    let (clamd, socket) = (Clamd::new(settings.clone()), settings.socket.to_string());
    let away = |what: String| {
        CliError::new(Exit::FoundWanting, anyhow::anyhow!("{what}")).remedy(
            "systemctl status clamav-daemon; where a reload of signatures has failed, restart it (rb-011)",
        )
    };
    let signature = clamd.self_test().await.map_err(|fault| away(fault.to_string()))?;
    let version = clamd.version().await.map_err(|fault| away(fault.to_string()))?;
    let database = match &version.database {
        Database::Official { number, date } => format!("official signatures {number} of {}", date.date()),
        Database::None => "local signatures only".to_owned(),
        Database::Broken => return Err(away(format!("the scanner at {socket} has lost its signatures"))),
    };
    let document =
        json!({"socket": socket, "engine": version.engine, "database": database, "found": signature});
    let line = format!(
        "the scanner at {socket} finds its test file as {signature}: ClamAV {}, {database}\n",
        version.engine
    );
    output::either(json, &document, || line)?;
    Ok(Exit::Done)
}

async fn stale(ctx: &Context, json: bool) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let age = setup.config.scan.rescan_after;
    let due = uploads::store(&setup).scan_stale(age, MOST).await.map_err(setup::database)?;
    let more = due == MOST as u64;
    let line = format!(
        "{due} files are scanned again by a daemon: their verdicts are older than {}{}\n",
        humantime::format_duration(age),
        if more { "; there may be more, repeat it" } else { "" }
    );
    output::either(json, &json!({"due": due, "more": more}), || line)?;
    Ok(Exit::Done)
}

async fn again(ctx: &Context, id: Uuid, json: bool) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let store = uploads::store(&setup);
    let seen = store.get(id).await.map_err(setup::database)?.ok_or_else(|| uploads::unknown(id))?;
    let Some(blob) = seen.row.columns.blob_id else {
        return Err(CliError::new(
            Exit::FoundWanting,
            anyhow::anyhow!("upload {id} is {}: there is no file to scan", seen.row.state),
        )
        .remedy(format!("maple-router uploads show {id}")));
    };
    if !store.scan_again(blob).await.map_err(setup::database)? {
        return Err(CliError::new(
            Exit::FoundWanting,
            anyhow::anyhow!("the file of upload {id} was removed"),
        ));
    }
    output::either(json, &json!({"upload": id, "blob": blob}), || {
        format!("the file of upload {id} (blob {blob}) is scanned again by a daemon\n")
    })?;
    Ok(Exit::Done)
}
