//! Lines that warn: triggers on `updated_at`, history before the install, forms that route nowhere.

use futures::FutureExt as _;

use crate::db::DbError;
use crate::db::contract::{Check, ContractOptions, Look};
use crate::db::pool::Client;
use crate::ports::CheckLine;

/// Routing's checks of the database beside the contract.
pub const CHECKS: &[Check] = &[
    Check {
        line: "updated_at_trigger",
        order: 60,
        look: Look::Database(|client, _| updated_at_trigger(client).boxed()),
    },
    Check {
        line: "history",
        order: 80,
        look: Look::Database(|client, options| history(client, options).boxed()),
    },
    Check {
        line: "forms",
        order: 180,
        look: Look::Database(|client, options| forms(client, options).boxed()),
    },
];

/// Rows counted at most: a line of `check` is not worth a scan of years.
const COUNT_LIMIT: i64 = 100_000;

/// Names shown at most.
const SHOWN: usize = 10;

async fn updated_at_trigger(client: &Client) -> Result<CheckLine, DbError> {
    // Enabled triggers and rules on UPDATE of submissions. A function's text is searched for an assignment; a function whose
    // text is not SQL (moddatetime and the like) is known by its arguments.
    let sql = r"
        SELECT 'trigger ' || t.tgname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
         WHERE t.tgrelid = to_regclass('submissions') AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
           AND (t.tgtype & 16) <> 0
           AND (p.prosrc ~* 'updated_at\s*(:=|=)' OR p.prosrc ~* 'into\s+(strict\s+)?new\.updated_at'
                OR encode(t.tgargs, 'escape') ~* 'updated_at')
        UNION ALL
        SELECT 'rule ' || r.rulename FROM pg_rewrite r
         WHERE r.ev_class = to_regclass('submissions') AND r.ev_type = '2' AND r.ev_enabled IN ('O', 'A')
           AND pg_get_ruledef(r.oid) ~* 'updated_at'
        ORDER BY 1";
    let found: Vec<String> = client.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect();
    if found.is_empty() {
        return Ok(CheckLine::ok("updated_at_trigger", "nothing but statements sets submissions.updated_at"));
    }
    Ok(CheckLine::warn(
        "updated_at_trigger",
        format!("{} on submissions seems to set updated_at", found.join(", ")),
        "the sweep takes updated_at for a sign of life: writes by others to a stuck row would hide it; have the trigger \
         leave rows in status processing alone",
    ))
}

async fn history(client: &Client, options: &ContractOptions) -> Result<CheckLine, DbError> {
    let Some(not_before) = options.not_before else {
        let sql = "SELECT count(*) FROM (SELECT FROM submissions WHERE status = 'received' LIMIT $1) AS open";
        let open: i64 = client.query_one(sql, &[&COUNT_LIMIT]).await?.get(0);
        return Ok(if open == 0 {
            CheckLine::ok("history", "routing.not_before is not set, and no received submission is waiting")
        } else {
            CheckLine::warn(
                "history",
                format!("routing.not_before is not set: the sweep routes {} waiting", at_most(open)),
                "set routing.not_before to the time of the install, unless all of them are to be routed",
            )
        });
    };
    let sql = "SELECT count(*), count(*) FILTER (WHERE status = 'received')
               FROM (SELECT status FROM submissions WHERE created_at < $1 LIMIT $2) AS old";
    let row = client.query_one(sql, &[&not_before, &COUNT_LIMIT]).await?;
    let (all, open): (i64, i64) = (row.get(0), row.get(1));
    Ok(CheckLine::ok(
        "history",
        format!("{} before {not_before} ({open} of them received), left alone", at_most(all)),
    ))
}

/// `n submissions`, or that there are at least [`COUNT_LIMIT`].
fn at_most(count: i64) -> String {
    if count >= COUNT_LIMIT {
        format!("{COUNT_LIMIT} or more submissions")
    } else {
        format!("{count} submissions")
    }
}

async fn forms(client: &Client, options: &ContractOptions) -> Result<CheckLine, DbError> {
    let sql = "
        SELECT f.id, count(a.form_id), count(*) FILTER (WHERE a.action_type <> 'happyfox_template'),
               count(*) FILTER (WHERE a.action_type = 'email_template' AND a.template_id IS NULL)
        FROM forms f LEFT JOIN actions a ON a.form_id = f.id GROUP BY f.id ORDER BY f.id";
    let rows = client.query(sql, &[]).await?;
    let (mut idle, mut deferred, mut untemplated) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let (form, actions, mails, without_template): (String, i64, i64, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        if actions == 0 {
            idle.push(form.clone());
        } else if mails == 0 && !options.tickets {
            deferred.push(form.clone());
        }
        if without_template > 0 {
            untemplated.push(form);
        }
    }
    let is_away = |(_, form): &&(&str, String)| rows.iter().all(|row| row.get::<_, &str>(0) != form.as_str());
    let nameless: Vec<String> = options
        .form_sections
        .iter()
        .filter(is_away)
        .map(|(table, form)| format!("[{table}.{form}]"))
        .collect();
    let mut problems: Vec<String> = [
        (idle, "without actions, their submissions will fail with no_actions"),
        (deferred, "with HappyFox actions only and no [happyfox], nobody gets anything"),
        (untemplated, "with an email_template action that names no template"),
    ]
    .into_iter()
    .filter(|(forms, _)| !forms.is_empty())
    .map(|(forms, what)| format!("{what}: {}", shown(&forms)))
    .collect();
    let mut remedy = "correct the forms' YAML and reload it".to_owned();
    if !nameless.is_empty() {
        let names_no_form = "in the configuration, for a form that the database does not have";
        problems.push(format!("{}: {}", names_no_form, shown(&nameless)));
        remedy.push_str("; correct the form's id in the section's name, or take the section out");
    }
    if problems.is_empty() {
        return Ok(CheckLine::ok("forms", format!("{} forms, each with something to send", rows.len())));
    }
    Ok(CheckLine::warn("forms", problems.join("; "), remedy))
}

/// An action of a form that wants a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketAction {
    /// The form's id.
    pub form: String,
    /// Order of the action in the form.
    pub action_order: i32,
    /// Id or name of the category, as the form has it; empty where it has none.
    pub category: String,
}

/// The actions that want a ticket, in the order of their forms.
///
/// # Errors
/// [`DbError`].
pub async fn ticket_actions(client: &Client) -> Result<Vec<TicketAction>, DbError> {
    let sql =
        "SELECT a.form_id, a.action_order, COALESCE(trim(a.happyfox_category), '') AS category FROM actions a
        WHERE a.action_type = 'happyfox_template' ORDER BY a.form_id, a.action_order";
    let of = |row: &tokio_postgres::Row| {
        Ok(TicketAction {
            form: row.try_get("form_id")?,
            action_order: row.try_get("action_order")?,
            category: row.try_get("category")?,
        })
    };
    client.query(sql, &[]).await?.iter().map(of).collect()
}

fn shown(names: &[String]) -> String {
    let first = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{first} and {} more", names.len() - SHOWN) } else { first }
}
