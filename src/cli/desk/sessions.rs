//! `desk sessions`: what counts at this moment, and its end. Ends one by one: if we die in the middle, the others still count.

use jiff::Timestamp;
use serde::Serialize;

use super::super::{CliError, Context, Exit, operator, output};
use super::{Office, database};
use crate::cli::layout::{Side, Table};
use crate::desk::access::Role;
use crate::desk::access::credential::Kind;
use crate::desk::store::credentials::Listed;
use crate::journal;
use crate::ops::telemetry::EventName;
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;

/// Hex digits of an id that are shown.
const SHOWN: usize = 12;
/// Fewest hex digits that name one.
const FEWEST: usize = 4;

/// Arguments of `desk sessions`.
#[derive(Debug, clap::Args)]
pub(super) struct Sessions {
    /// Only of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// End these: ids as listed, or their beginnings
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = id)]
    end: Vec<String>,
    /// End everything of the user, or everything
    #[arg(long, conflicts_with = "end")]
    end_all: bool,
    /// Only tell what would be ended
    #[arg(long)]
    dry_run: bool,
    /// A JSON array; where something is ended, one object
    #[arg(long)]
    json: bool,
}

fn id(text: &str) -> Result<String, String> {
    let is_id = text.len() >= FEWEST && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_id { Ok(text.to_ascii_lowercase()) } else { Err(format!("an id has at least {FEWEST} hex digits")) }
}

/// A credential as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    id: String,
    kind: Kind,
    user: String,
    /// Whether the configuration still has the user: else it counts for nothing.
    known: bool,
    role_cap: Option<Role>,
    label: String,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    expires_at: Timestamp,
}

#[derive(Debug, Serialize)]
struct Ended {
    matched: usize,
    changed: Vec<String>,
    skipped: Vec<Skipped>,
}

#[derive(Debug, Serialize)]
struct Skipped {
    id: String,
    why: &'static str,
}

/// Lists, or ends.
pub(super) async fn run(ctx: &Context, args: Sessions) -> Result<Exit, CliError> {
    let office = Office::open(ctx)?;
    let all = office.credentials.list().await.map_err(database)?;
    let of_user = |one: &Listed| args.user.as_ref().is_none_or(|user| *user == one.found.user);
    let counts = |one: &Listed| one.found.times.is_alive(one.kind, one.found.now);
    let alive: Vec<Listed> = all.into_iter().filter(|one| of_user(one) && counts(one)).collect();
    if args.end.is_empty() && !args.end_all {
        let shown: Vec<Shown> = alive.iter().map(|one| shown(&office, one)).collect();
        output::either(args.json, &shown, || table(&shown))?;
        return Ok(Exit::Done);
    }
    let chosen = if args.end_all { alive } else { chosen(&args.end, &alive)? };
    end(ctx, &office, &args, &chosen).await
}

fn chosen(ids: &[String], alive: &[Listed]) -> Result<Vec<Listed>, CliError> {
    let mut chosen: Vec<Listed> = Vec::new();
    for id in ids {
        let named: Vec<&Listed> = alive.iter().filter(|one| one.digest.hex().starts_with(id)).collect();
        let problem = match named.as_slice() {
            [one] => {
                if !chosen.contains(one) {
                    chosen.push((*one).clone());
                }
                continue;
            }
            [] => anyhow::anyhow!("nothing that counts has an id that begins with {id}; nothing was ended"),
            several => anyhow::anyhow!("{} ids begin with {id}; nothing was ended", several.len()),
        };
        return Err(
            CliError::new(Exit::FoundWanting, problem).remedy("`maple-router desk sessions` lists them")
        );
    }
    Ok(chosen)
}

async fn end(ctx: &Context, office: &Office, args: &Sessions, chosen: &[Listed]) -> Result<Exit, CliError> {
    let mut ended = Ended { matched: chosen.len(), changed: Vec::new(), skipped: Vec::new() };
    let actor = operator::actor(&ctx.env);
    for one in chosen {
        let id = one.digest.hex();
        if args.dry_run {
            ended.skipped.push(Skipped { id, why: "dry run" });
        } else if office.credentials.end(&one.digest).await.map_err(database)? {
            let (user, kind) = (&one.found.user, one.kind);
            journal!(
                warn,
                EventName::Override,
                verb = "desk sessions",
                actor,
                user,
                "{actor} ended a {kind} of {user}"
            );
            ended.changed.push(id);
        } else {
            ended.skipped.push(Skipped { id, why: "ended meanwhile" });
        }
    }
    output::either(args.json, &ended, || {
        let Ended { matched, changed, skipped } = &ended;
        let mut text = format!("{matched} matched, {} ended, {} skipped\n", changed.len(), skipped.len());
        for Skipped { id, why } in skipped {
            text.push_str(&format!("{}: {why}\n", &id[..SHOWN]));
        }
        text
    })?;
    Ok(Exit::Done)
}

fn shown(office: &Office, one: &Listed) -> Shown {
    let times = one.found.times;
    Shown {
        id: one.digest.hex(),
        kind: one.kind,
        user: one.found.user.clone(),
        known: office.users.named(&one.found.user).is_some(),
        role_cap: one.found.role_cap,
        label: one.label.clone(),
        created_at: times.created_at,
        last_used_at: times.last_used_at,
        expires_at: times.expires_at,
    }
}

fn table(all: &[Shown]) -> String {
    if all.is_empty() {
        return "nobody is logged in, and no link or token counts".to_owned();
    }
    let names = ["id", "kind", "user", "role", "made", "used", "ends", "for"];
    let mut table = Table::new(&names.map(|name| (name, Side::Left)));
    for one in all {
        let user =
            if one.known { one.user.clone() } else { format!("{} (no user any more)", one_line(&one.user)) };
        table.row(vec![
            one.id[..SHOWN].to_owned(),
            one.kind.label().to_owned(),
            user,
            one.role_cap.map_or_else(|| "own".to_owned(), |role| format!("at most {role}")),
            at(one.created_at),
            one.last_used_at.map(at).unwrap_or_default(),
            at(one.expires_at),
            one_line(&one.label),
        ]);
    }
    table.text(output::columns())
}
