//! The contract as data: tables, columns, types, enum values; and the actual schema, read from the catalogs.

use std::collections::{BTreeMap, BTreeSet};

use crate::db::error::DbError;
use crate::db::pool::Client;

/// Columns of one table, with the type as `format_type` writes it.
pub(super) type Columns = &'static [(&'static str, &'static str)];

/// Every table and column the daemon relies on (data contract, "What exists").
pub(super) const TABLES: &[(&str, Columns)] = &[
    ("forms", &[("id", "text"), ("name", "text"), ("created_at", TIME), ("updated_at", TIME)]),
    (
        "templates",
        &[
            ("id", "text"),
            ("subject", "text"),
            ("body_text", "text"),
            ("body_html", "text"),
            ("updated_at", TIME),
        ],
    ),
    (
        "actions",
        &[
            ("id", "bigint"),
            ("form_id", "text"),
            ("action_order", "integer"),
            ("action_type", "action_type"),
            ("template_id", "text"),
            ("destination", "text"),
            ("happyfox_category", "text"),
            ("subject_template", "text"),
        ],
    ),
    (
        "submissions",
        &[
            ("id", "uuid"),
            ("form_id", "text"),
            ("status", "submission_status"),
            ("routing_result", "jsonb"),
            ("happyfox_ticket_id", "text"),
            ("happyfox_status", "text"),
            ("retention_expires_at", TIME),
            ("created_at", TIME),
            ("updated_at", TIME),
        ],
    ),
    (
        "submission_fields",
        &[
            ("id", "bigint"),
            ("submission_id", "uuid"),
            ("field_key", "text"),
            ("field_value", "text"),
            ("position", "integer"),
        ],
    ),
    (
        "attachments",
        &[
            ("id", "uuid"),
            ("submission_id", "uuid"),
            ("file_name", "text"),
            ("content_type", "text"),
            ("size_bytes", "bigint"),
            ("sha256", "bytea"),
            ("gcs_bucket", "text"),
            ("gcs_object", "text"),
            ("clamav_status", "clamav_status"),
            ("created_at", TIME),
        ],
    ),
    (
        "audit_log",
        &[
            ("id", "bigint"),
            ("occurred_at", TIME),
            ("actor", "text"),
            ("action", "audit_action"),
            ("submission_id", "uuid"),
            ("form_id", "text"),
            ("detail", "jsonb"),
        ],
    ),
];

/// Values that statements name.
pub(super) const ENUMS: &[(&str, &[&str])] = &[
    ("submission_status", &["received", "processing", "routed", "failed", "purged"]),
    ("action_type", &["happyfox_template", "email_template", "email_raw"]),
    ("clamav_status", &["pending", "clean", "infected"]),
    ("audit_action", &[]), // the values of 011 are a line of their own
];

pub(super) const TIME: &str = "timestamp with time zone";

/// The actual schema, as far as the contract names it.
#[derive(Debug, Default)]
pub(super) struct FoundSchema {
    /// Type by table and column; a table without any entry does not exist.
    pub(super) tables: BTreeMap<String, BTreeMap<String, String>>,
    /// Values by enum; an enum without entry does not exist.
    pub(super) enums: BTreeMap<String, BTreeSet<String>>,
}

impl FoundSchema {
    pub(super) async fn read(client: &Client) -> Result<Self, DbError> {
        let mut found = Self::default();
        let names: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        let sql = "SELECT n.name, a.attname::text, format_type(a.atttypid, NULL)
                   FROM unnest($1::text[]) AS n (name)
                   JOIN pg_attribute a ON a.attrelid = to_regclass(n.name) AND a.attnum > 0 AND NOT a.attisdropped";
        for row in client.query(sql, &[&names]).await? {
            found.tables.entry(row.get(0)).or_default().insert(row.get(1), row.get(2));
        }
        let names: Vec<&str> = ENUMS.iter().map(|(name, _)| *name).collect();
        let sql = "SELECT n.name, e.enumlabel::text FROM unnest($1::text[]) AS n (name)
                   JOIN pg_enum e ON e.enumtypid = to_regtype(n.name)";
        for row in client.query(sql, &[&names]).await? {
            found.enums.entry(row.get(0)).or_default().insert(row.get(1));
        }
        Ok(found)
    }

    pub(super) fn has_table(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }
}
