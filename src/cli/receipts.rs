//! `receipts`: what was removed, and the proof that no receipt was changed or taken out. Reads only, as the daemon's role.

use clap::Subcommand;
use serde_json::{Value, json};
use uuid::Uuid;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit, output};
use crate::parts;
use crate::retention::chain::Chain;
use crate::retention::store::RetentionStore;
use crate::routing::submission::text::one_line;

/// Receipts of a page.
const PAGE: usize = 5000;

/// Arguments of `receipts`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Judge the whole chain
    Verify(Verify),
    /// Show the receipts of a submission and of its files, or of a blob
    Show(Show),
}

/// Arguments of `receipts verify`.
#[derive(Debug, clap::Args)]
struct Verify {
    /// A receipt that must be in the chain, as an earlier verification said it: NUMBER:DIGEST
    #[arg(long, value_name = "HEAD")]
    expect: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `receipts show`.
#[derive(Debug, clap::Args)]
struct Show {
    /// A submission or a blob
    #[arg(value_name = "ID")]
    id: Uuid,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let store = parts::retention_store(&setup.config, setup.pool.clone());
    if !store.is_there().await.map_err(setup::database)? {
        return Err(CliError::new(
            Exit::BadConfig,
            anyhow::anyhow!("schema content has no receipts: nothing was ever removed"),
        )
        .remedy("as the owner: maple-router migrate --content"));
    }
    match args.verb {
        Verb::Verify(args) => verify(&store, &args).await,
        Verb::Show(args) => show(&store, &args).await,
    }
}

async fn verify(store: &RetentionStore, args: &Verify) -> Result<Exit, CliError> {
    let expected = args.expect.as_deref().map(read_head).transpose()?;
    let (mut chain, mut met) = (Chain::default(), false);
    loop {
        let page = store.receipts(chain.length, PAGE).await.map_err(setup::database)?;
        if page.is_empty() {
            break;
        }
        for receipt in &page {
            if let Err(broken) = chain.follow(receipt) {
                return Err(CliError::new(Exit::FoundWanting, broken).remedy(
                    "compare with a backup of content.receipts: somebody wrote past the schema's guard (rb-013)",
                ));
            }
            met |= expected.as_ref().is_some_and(|head| *head == (chain.length, chain.head.clone()));
        }
    }
    let Chain { length, head } = &chain;
    if let (Some((number, _)), false) = (&expected, met) {
        let gone = anyhow::anyhow!(
            "receipt {number} is not the one that was expected: the chain was cut off or written anew"
        );
        return Err(CliError::new(Exit::FoundWanting, gone).remedy(
            "compare with a backup of content.receipts: somebody wrote past the schema's guard (rb-013)",
        ));
    }
    output::either(args.json, &json!({"receipts": length, "head": head}), || {
        if *length == 0 {
            return "no receipt yet\n".to_owned();
        }
        format!(
            "{length} receipts, each follows the one before\nkeep this elsewhere, and expect it the next time: {length}:{head}\n"
        )
    })?;
    Ok(Exit::Done)
}

fn read_head(text: &str) -> Result<(i64, String), CliError> {
    let read =
        text.split_once(':').and_then(|(number, digest)| Some((number.parse().ok()?, digest.to_owned())));
    read.ok_or_else(|| {
        CliError::new(Exit::Usage, anyhow::anyhow!("{text:?} is no receipt"))
            .remedy("write NUMBER:DIGEST, as receipts verify prints it")
    })
}

async fn show(store: &RetentionStore, args: &Show) -> Result<Exit, CliError> {
    let mut bodies = of(store, args.id).await?;
    let blobs: Vec<Uuid> = bodies
        .iter()
        .flat_map(|body| body["detail"]["blobs"].as_array().into_iter().flatten())
        .filter_map(|blob| blob.as_str()?.parse().ok())
        .collect();
    let mut waiting = Vec::new();
    for blob in blobs {
        let of_blob = of(store, blob).await?;
        if of_blob.is_empty() {
            waiting.push(blob);
        }
        bodies.extend(of_blob);
    }
    if bodies.is_empty() {
        return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("there is no receipt of {}", args.id))
            .remedy("maple-router explain ID says until when a submission is kept, and why"));
    }
    output::either(args.json, &bodies, || {
        let mut text: String = bodies.iter().map(line).collect();
        for blob in &waiting {
            text.push_str(&format!(
                "blob {blob}: its object is not deleted yet, or another submission needs it\n"
            ));
        }
        text
    })?;
    Ok(if waiting.is_empty() { Exit::Done } else { Exit::FoundWanting })
}

async fn of(store: &RetentionStore, id: Uuid) -> Result<Vec<Value>, CliError> {
    let receipts = store.receipts_of(id).await.map_err(setup::database)?;
    Ok(receipts.iter().filter_map(|receipt| serde_json::from_str(&receipt.body).ok()).collect())
}

fn line(body: &Value) -> String {
    let said = |value: &Value| one_line(value.as_str().unwrap_or_default());
    let detail = &body["detail"];
    let more = match body["kind"].as_str().unwrap_or_default() {
        "purged" | "erased" => format!("{} fields, {} files", detail["fields"], detail["files"]),
        "object_deleted" => match detail["restorable_until"].as_str() {
            Some(until) => format!("the store could bring it back until {}", one_line(until)),
            None => "the store cannot bring it back".to_owned(),
        },
        "object_missing" => "somebody else had removed it".to_owned(),
        "object_replaced" => "another object has its name, and was left".to_owned(),
        "links_revoked" => "its links answer 404".to_owned(),
        _ => String::new(),
    };
    format!(
        "{}  {}  {} {} ({}): {more}\n",
        body["id"],
        said(&body["at"]),
        said(&body["kind"]),
        said(&body["subject"]),
        said(&body["authority"])
    )
}
