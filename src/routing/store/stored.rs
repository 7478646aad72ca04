//! A stored ledger as the driver hands it over, before anybody believes it.
//!
//! jsonb admits what a parser may refuse: numbers beyond a double, nesting without end. Reading such a document must not end
//! its batch (protocol §2), so here that is a value and not an error.

use std::error::Error;

use serde_json::Value;
use tokio_postgres::types::{FromSql, Type, accepts};

use crate::routing::submission::ledger::{Ledger, LedgerFault};

/// `submissions.routing_result` as it was read.
#[derive(Debug)]
pub(super) enum Stored {
    /// JSON of whatever shape.
    Read(Value),
    /// jsonb that our parser refuses.
    Unreadable {
        /// The document as PostgreSQL prints it.
        text: String,
        /// The parser's error; quotes nothing of the document.
        why: String,
    },
}

impl Stored {
    /// The ledger, or why it is not believed.
    pub(super) fn ledger(&self) -> Result<Ledger, LedgerFault> {
        match self {
            Self::Read(value) => Ledger::read(value),
            Self::Unreadable { why, .. } => Err(LedgerFault::Damaged(why.clone())),
        }
    }

    /// The document, or why it cannot be parsed.
    pub(super) fn parsed(self) -> Result<Value, String> {
        match self {
            Self::Read(value) => Ok(value),
            Self::Unreadable { why, .. } => Err(why),
        }
    }

    /// The document, to be kept where the ledger is replaced; as text where it cannot be kept as it was.
    pub(super) fn original(&self) -> Value {
        match self {
            Self::Read(value) => value.clone(),
            Self::Unreadable { text, .. } => Value::String(text.clone()),
        }
    }
}

impl<'a> FromSql<'a> for Stored {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match Value::from_sql(ty, raw) {
            Ok(value) => Self::Read(value),
            Err(error) => {
                // Binary jsonb is its text behind one byte of version.
                let text = if *ty == Type::JSONB { raw.get(1..).unwrap_or_default() } else { raw };
                Self::Unreadable {
                    text: String::from_utf8_lossy(text).into_owned(),
                    why: format!("it cannot be parsed: {error}"),
                }
            }
        })
    }

    accepts!(JSON, JSONB);
}
