//! `gc reconcile`: buckets and rows, side by side. Reports what differs, and deletes nothing.

use serde_json::json;

use super::Office;
use crate::cli::{CliError, Exit, output, setup};
use crate::retention::reconcile::{Compared, Difference, ReconcileError, Reconciler};
use crate::routing::submission::text::one_line;

/// Differences of a kind that are shown to people.
const SHOWN: u64 = 20;

/// Arguments of `gc reconcile`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// This bucket only [default: every one that rows name]
    #[arg(long, value_name = "BUCKET")]
    bucket: Option<String>,
    /// One JSON object for each difference, and the counts at the end
    #[arg(long)]
    json: bool,
}

/// Compares.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let reconciler = Reconciler { store: office.store.clone(), objects: office.objects()? };
    let buckets = match &args.bucket {
        Some(bucket) => vec![bucket.clone()],
        None => {
            let mut named = office.store.buckets().await.map_err(setup::database)?;
            let own = &office.config.uploads.bucket;
            if !own.is_empty() && !named.contains(own) {
                named.push(own.clone());
            }
            named
        }
    };
    let mut compared = Compared::default();
    let mut shown: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    let mut trouble = None;
    for bucket in &buckets {
        let report = |difference: Difference| {
            if args.json {
                trouble = trouble.take().or(output::json_line(&difference).err());
                return;
            }
            let (kind, line) = words(&difference);
            let count = shown.entry(kind).or_default();
            *count += 1;
            if *count <= SHOWN {
                trouble = trouble.take().or(output::text(&line).err());
            }
        };
        let done = reconciler.bucket(bucket, &mut compared, report, |_| {}).await;
        done.map_err(|error| failed(bucket, error))?;
    }
    if let Some(error) = trouble {
        return Err(error);
    }
    let Compared { objects, rows, unknown, missing, replaced } = compared;
    if args.json {
        output::json_line(&json!({"buckets": buckets, "compared": compared}))?;
    } else {
        output::text(&format!(
            "{objects} objects in {} buckets, {rows} rows: {unknown} objects that no row names, {missing} rows without their object, \
             {replaced} with another one",
            buckets.len()
        ))?;
    }
    Ok(if unknown + missing + replaced == 0 { Exit::Done } else { Exit::FoundWanting })
}

fn words(difference: &Difference) -> (&'static str, String) {
    match difference {
        Difference::Unknown { bucket, object, length } => (
            "unknown",
            format!("no row names gs://{}/{} ({length} bytes)", one_line(bucket), one_line(object)),
        ),
        Difference::Missing { blob } => ("missing", format!("the object of blob {blob} is missing")),
        Difference::Replaced { blob } => ("replaced", format!("another object has the name of blob {blob}")),
    }
}

fn failed(bucket: &str, error: ReconcileError) -> CliError {
    match error {
        ReconcileError::Database(error) => setup::database(error),
        ReconcileError::Store(error) => {
            CliError::new(Exit::Unavailable, anyhow::anyhow!(error).context(format!("bucket {bucket}")))
                .remedy("maple-router check tells what the collector's account may (line collector)")
        }
    }
}
