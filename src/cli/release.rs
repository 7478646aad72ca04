//! `release`: gives stuck claims back now, however young they are; the sweep would do the same later.
//!
//! A worker that is alive after all loses its claim: mails with a recorded intent are in doubt, and may be delivered twice.
//! The ledger has the required reason. If we die in the middle, released claims stay so; a repeat is harmless.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::bulk::{self, BulkItem};
use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, Filters, announce, operator, output};
use crate::ops::rng::Rng;
use crate::routing::journal;
use crate::routing::store::MISSING;
use crate::routing::store::overrides::Override;
use crate::routing::store::sweep::{Orphan, Released, Retaken, RetakenEnd};
use crate::routing::subject::RELEASE;
use crate::routing::table::Status;

/// Arguments of `release`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission ids, or their beginnings; or choose by filters
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) ids: Vec<IdArg>,
    #[command(flatten)]
    pub(super) filters: Filters,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: String,
    /// Only tell what would be released
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// A submission whose claim was taken back.
#[derive(Debug, Default, Serialize)]
struct Changed {
    id: Uuid,
    /// `received`, or `failed` where nothing is left to try; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    /// Reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Attempts spent now.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// Deliveries put in doubt by the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_doubt: Option<usize>,
}

impl BulkItem for Changed {
    fn id(&self) -> Uuid {
        self.id
    }

    fn words(&self, _dry_run: bool) -> String {
        match (self.status, self.reason, self.in_doubt) {
            (None, _, _) => "would be released".to_owned(),
            (Some(_), Some(reason), _) => format!("failed as {reason}: nothing is left to try"),
            (Some(_), None, Some(0) | None) => "released: it is claimed again".to_owned(),
            (Some(_), None, Some(n)) => format!("released: it is claimed again; deliveries in doubt: {n}"),
        }
    }
}

type Report = bulk::Report<Changed>;

/// Releases the claims.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    if args.reason.trim().is_empty() {
        return Err(CliError::new(
            Exit::Usage,
            anyhow::anyhow!("--reason says nothing: it is kept for those who ask"),
        ));
    }
    let setup = Setup::open(ctx)?;
    let named = !args.ids.is_empty();
    let (ids, warnings) = bulk::chosen(&setup, RELEASE, &args.ids, args.filters, Status::Processing).await?;
    let mut report = Report::new("not released", ids.len(), args.dry_run).warned(warnings);
    let progress = output::Progress::of(ids.len());
    let actor = operator::actor(&ctx.env);
    let note = Override { actor: &actor, verb: RELEASE, reason: Some(&args.reason), more: &json!({}) };
    let (store, rng) = (setup.writing_store()?, Arc::new(Rng::from_system()));
    let mut open = Vec::new();
    for id in ids {
        progress.at(report.done());
        if args.dry_run {
            match setup.view().look(id).await.map_err(setup::database)? {
                None => report.skip(id, MISSING),
                Some(view) if view.status != Status::Processing => {
                    report.skip(id, Released::NotProcessing(view.status).refusal().unwrap_or_default());
                }
                Some(_) => report.changed.push(Changed { id, ..Changed::default() }),
            }
            continue;
        }
        let released = store.reset(id, &rng.uuid().to_string(), note).await.map_err(setup::database)?;
        if let Some(why) = released.refusal() {
            report.skip(id, why);
            continue;
        }
        let Released::Done(retaken) = released else { continue };
        report.changed.push(Changed::of(&retaken));
        journal::overrides::released(&retaken, note);
        if matches!(retaken.end, RetakenEnd::Reset { .. }) {
            open.push(Orphan { id, form_id: retaken.form_id });
        }
    }
    progress.end();
    if !open.is_empty() {
        report.warnings.extend(announce::all(&setup.config, &open).await);
    }
    report.tell(args.json)?;
    Ok(report.exit(named))
}

impl Changed {
    /// The result of a claim that was taken back.
    fn of(retaken: &Retaken) -> Self {
        let id = retaken.id;
        match retaken.end {
            RetakenEnd::Left => Self { id, ..Self::default() },
            RetakenEnd::Failed(reason) => {
                Self { id, status: Some(Status::Failed), reason: Some(reason.label()), ..Self::default() }
            }
            RetakenEnd::Reset { attempts, in_doubt, .. } => Self {
                id,
                status: Some(Status::Received),
                attempts: Some(attempts),
                in_doubt: Some(in_doubt),
                ..Self::default()
            },
        }
    }
}
