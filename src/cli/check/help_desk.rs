//! Line `happyfox`: whether tickets could be made: credentials, the categories and custom fields that forms name, the clock.
//!
//! There only where `[happyfox]` names a help desk. Nothing is made there.

use std::sync::Arc;

use crate::config::Config;
use crate::db::DbError;
use crate::gateway::happyfox::Directory;
use crate::ops::clock::{SystemClock, since_epoch};
use crate::parts;
use crate::ports::{CheckLine, Unanswered};
use crate::routing::store::contract::{TicketAction, ticket_actions};
use crate::scrub::scrub;

const NAME: &str = "happyfox";
/// Differences of the two clocks, in seconds, that are no trouble.
const SKEW: i64 = 60;

/// Asks the help desk; no line where there is none.
pub(super) async fn line(config: &Config) -> Option<CheckLine> {
    let client = match parts::help_desk(config, Arc::new(SystemClock)) {
        Ok(client) => client?,
        Err(error) => {
            let remedy = "see [happyfox], and the files of its two credentials";
            return Some(CheckLine::fail(NAME, error.to_string(), remedy));
        }
    };
    let probe = match client.probe().await {
        Ok(probe) => probe,
        Err(unanswered) => return Some(silent(&unanswered)),
    };
    let directory = match client.directory().await {
        Ok(directory) => directory,
        Err(unanswered) => return Some(silent(&unanswered)),
    };
    let mut problems = unknown_fields(config, &directory);
    match wanted(config).await {
        Ok(wanted) => problems.extend(wanted.iter().filter_map(|category| unknown(category, &directory))),
        Err(error) => {
            problems.push(format!("what the forms want cannot be read: {}", scrub(&error.to_string())));
        }
    }
    let ours = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
    let ahead = probe.date.map_or(0, |theirs| ours.saturating_sub(theirs.as_second()));
    if ahead.abs() > SKEW {
        problems.push(format!("its clock and this host's differ by {} s", ahead.abs()));
    }
    if !problems.is_empty() {
        let remedy =
            "correct the forms' YAML or [happyfox.forms], or have the help desk's administrator make it so";
        return Some(CheckLine::warn(NAME, problems.join("; "), remedy));
    }
    let left =
        probe.limit_left.map_or_else(String::new, |left| format!(", {left} requests left of its limit"));
    Some(CheckLine::ok(NAME, format!("the help desk answers, with {} categories{left}", probe.categories)))
}

fn silent(unanswered: &Unanswered) -> CheckLine {
    let reply = &unanswered.fault.reply;
    let said = format!("the help desk does not do what it is asked: {}", scrub(&reply.reply));
    CheckLine::fail(
        NAME,
        said,
        match reply.code {
            Some(401 | 403) => {
                "have happyfox-api-key and happyfox-auth-code renewed by an administrator of the account"
            }
            Some(429) => "wait: the account's limit is used up, for ten minutes at most",
            Some(_) | None => {
                "see to happyfox.base_url, to the network, and to the help desk's own status page"
            }
        },
    )
}

async fn wanted(config: &Config) -> Result<Vec<TicketAction>, DbError> {
    let pool =
        parts::pool(config, Arc::new(SystemClock)).map_err(|error| DbError::Shape(error.to_string()))?;
    ticket_actions(&pool.get().await?).await
}

fn unknown(wanted: &TicketAction, directory: &Directory) -> Option<String> {
    let TicketAction { category, form, action_order } = wanted;
    let why = if category.is_empty() {
        "it names no category".to_owned()
    } else {
        scrub(&directory.category(category).err()?.reply.reply)
    };
    Some(format!("form {form}, action {action_order}: {why}"))
}

fn unknown_fields(config: &Config, directory: &Directory) -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, form) in &config.happyfox.forms {
        let tables = [
            ("custom_fields", &form.custom_fields, &directory.ticket_fields),
            ("contact_custom_fields", &form.contact_custom_fields, &directory.contact_fields),
        ];
        for (table, configured, known) in tables {
            let away =
                configured.keys().filter(|id| !id.parse().is_ok_and(|id: u64| known.contains_key(&id)));
            unknown.extend(
                away.map(|id| format!("[happyfox.forms.{name}.{table}] {id}: there is no such field")),
            );
        }
    }
    unknown
}
