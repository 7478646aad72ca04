//! The subject: the action's template, else the pinned template's, else the form's name, the
//! time of receipt and the beginning of the submission's id, so that no two look alike.
//!
//! The subject is one line of visible text of bounded length, whatever the values of a form's fields: line breaks and
//! controls become spaces, direction marks vanish, so no value can add a header or disguise the text after it.

use super::template::{Part, Variables};
use super::when::short_time;
use super::{ComposeFault, ComposeInput};
use crate::routing::submission::text::{bounded, one_line};

/// Longest subject, in characters; a longer one ends in an ellipsis.
pub const MAX_SUBJECT: usize = 998;

/// Makes the subject of this action's mail.
pub(super) fn subject(input: &ComposeInput<'_>, variables: &Variables<'_>) -> Result<String, ComposeFault> {
    let action = input.action;
    let own = action.subject_template.as_deref().filter(|text| !text.trim().is_empty());
    let pinned = action.template.as_ref().and_then(|template| template.subject.as_deref());
    let (source, whose) = match (own, pinned) {
        (Some(source), _) => (source, Whose::Action),
        (None, Some(source)) => (source, Whose::Template),
        (None, None) => return Ok(fallback(input)),
    };
    let rendered = variables.render(Part::Subject, source).map_err(|fault| {
        let what = match whose {
            Whose::Action => "its subject_template".to_owned(),
            Whose::Template => format!("the subject of template {}", input.template_name()),
        };
        ComposeFault::unrenderable(input, what, &fault)
    })?;
    let subject = bounded(one_line(&rendered), MAX_SUBJECT);
    Ok(if subject.is_empty() { fallback(input) } else { subject })
}

/// Source of the text; named in a fault.
enum Whose {
    Action,
    Template,
}

/// `Incident report: new submission, 4 June 2026, 16:02 (7f0c2b1e)`.
fn fallback(input: &ComposeInput<'_>) -> String {
    let received = short_time(input.submission.created_at, input.mail.time_zone);
    let id = input.submission.id.simple().to_string();
    let short = id.get(..8).unwrap_or(&id);
    bounded(format!("{}: new submission, {received} ({short})", input.form_name()), MAX_SUBJECT)
}
