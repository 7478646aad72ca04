//! Lines `schema` and `audit_values`: does everything exist that statements name?

use super::ContractOptions;
use super::rows::{Columns, ENUMS, FoundSchema, TABLES, TIME};
use crate::ports::CheckLine;

/// The four words of 011.
const AUDIT_WORDS: [&str; 4] = ["submission_routed", "submission_route_failed", "email_sent", "email_failed"];

/// Types that the driver reads and writes alike: length limits do not matter here.
fn same_type(found: &str, expected: &str) -> bool {
    found == expected || (expected == "text" && found == "character varying")
}

pub(super) fn schema(found: &FoundSchema, options: &ContractOptions) -> CheckLine {
    let mut faults = Vec::new();
    for (table, columns) in TABLES {
        let Some(has) = found.tables.get(*table) else {
            faults.push(format!("table {table} is missing"));
            continue;
        };
        let finalized = options.finalized_column.as_deref().filter(|_| *table == "submissions");
        for (column, expected) in expected_columns(columns, finalized) {
            match has.get(column) {
                None => faults.push(format!("column {table}.{column} is missing")),
                Some(other) if !same_type(other, expected) => {
                    faults.push(format!("column {table}.{column} is {other}, not {expected}"));
                }
                Some(_) => {}
            }
        }
    }
    for (name, values) in ENUMS {
        let Some(has) = found.enums.get(*name) else {
            faults.push(format!("enum {name} is missing"));
            continue;
        };
        let missing = values.iter().filter(|value| !has.contains(**value));
        faults.extend(missing.map(|value| format!("enum {name} lacks '{value}'")));
    }
    if faults.is_empty() {
        return CheckLine::ok("schema", format!("{} tables as the contract has them", TABLES.len()));
    }
    CheckLine::fail(
        "schema",
        faults.join("; "),
        "this is not the forms database the contract describes: check database.url and its search_path, or have the \
         backend's schema brought up to date",
    )
}

fn expected_columns(columns: Columns, finalized: Option<&str>) -> impl Iterator<Item = (&str, &'static str)> {
    columns.iter().copied().chain(finalized.map(|column| (column, TIME)))
}

pub(super) fn audit_values(found: &FoundSchema) -> CheckLine {
    let Some(has) = found.enums.get("audit_action") else {
        return CheckLine::warn("audit_values", "not tried: enum audit_action is missing", "see line schema");
    };
    let missing: Vec<&str> = AUDIT_WORDS.into_iter().filter(|word| !has.contains(*word)).collect();
    if missing.is_empty() {
        return CheckLine::ok("audit_values", format!("all four of 011, {} in all", has.len()));
    }
    CheckLine::fail(
        "audit_values",
        format!("enum audit_action lacks {}", missing.join(", ")),
        "as the owner: maple-router migrate --only 011",
    )
}
