//! The ticket of one action: subject, bodies and custom fields, from the same texts and variables as a mail's.
//!
//! Without a template a ticket has the list of fields, where a mail may have a body at all. Invariant: pure.

use std::collections::BTreeMap;

use super::template::{Part, Variables};
use super::{ComposeFault, ComposeInput, body, subject};
use crate::routing::submission::text::one_line;

/// The texts of a ticket. Not `Debug`: contents of a submission are in them.
#[derive(Clone, PartialEq, Eq)]
pub struct ComposedTicket {
    /// Subject, one line.
    pub subject: String,
    /// Body as text.
    pub text: String,
    /// Body as HTML, where there is one.
    pub html: Option<String>,
    /// Custom fields by id; one whose expression asks for what the submission does not have is left out.
    pub fields: BTreeMap<u64, String>,
    /// Custom fields of the contact, likewise.
    pub contact_fields: BTreeMap<u64, String>,
    /// Names without a value that the templates print.
    pub missing: Vec<String>,
}

/// Expressions of custom fields, by the fields' ids as they are configured.
pub type Expressions = BTreeMap<String, String>;

/// Composes the ticket of one action.
///
/// # Errors
/// A permanent fault of the plan or of an expression; see [`ComposeFault`].
pub fn compose_ticket(
    input: &ComposeInput<'_>,
    fields: &Expressions,
    contact_fields: &Expressions,
) -> Result<ComposedTicket, ComposeFault> {
    let variables = Variables::of(input);
    let subject = subject::subject(input, &variables)?;
    let body::Bodies { text, html } = body::bodies(input, &variables)?;
    let (fields, contact_fields) =
        (values(input, &variables, fields)?, values(input, &variables, contact_fields)?);
    Ok(ComposedTicket { subject, text, html, fields, contact_fields, missing: variables.missing() })
}

fn values(
    input: &ComposeInput<'_>,
    variables: &Variables<'_>,
    expressions: &Expressions,
) -> Result<BTreeMap<u64, String>, ComposeFault> {
    let mut values = BTreeMap::new();
    for (id, expression) in expressions {
        // The configuration was validated: an id is a number.
        let Ok(number) = id.parse() else { continue };
        let source = format!("{{{{ {expression} }}}}");
        let value = variables.value(Part::Subject, &source).map_err(|fault| {
            ComposeFault::unrenderable(input, format!("the expression of custom field {id}"), &fault)
        })?;
        if let Some(value) = value.map(|value| one_line(&value)).filter(|value| !value.is_empty()) {
            values.insert(number, value);
        }
    }
    Ok(values)
}
