//! Bodies: the interim text, the list of fields, or the pinned template; each followed by the attachment links.
//!
//! Invariant: the interim body holds no field value, whatever the action. It is what goes out until an operator sets
//! `mail.body = "template"`, and it must be safe for every form.

use super::links::{html_block, readable_time, text_block};
use super::template::{Part, Variables};
use super::{ComposeFault, ComposeInput};
use crate::config::MailBody;
use crate::routing::plan::ActionType;
use crate::routing::text::{lines, one_line};

/// The body in the forms in which it is sent.
#[derive(Debug)]
pub(super) struct Bodies {
    /// Plain text, always there.
    pub(super) text: String,
    /// HTML, where the template has one.
    pub(super) html: Option<String>,
}

/// The bodies of this action's mail.
pub(super) fn bodies(input: &ComposeInput<'_>, variables: &Variables<'_>) -> Result<Bodies, ComposeFault> {
    let (text, html) = match (input.mail.body, input.action.action_type) {
        (_, ActionType::HappyfoxTemplate) => return Err(ComposeFault::not_mail(input)),
        (MailBody::Interim, ActionType::EmailTemplate | ActionType::EmailRaw) => (interim(input), None),
        (MailBody::Template, ActionType::EmailRaw) => (field_list(input), None),
        (MailBody::Template, ActionType::EmailTemplate) => from_template(input, variables)?,
    };
    let zone = input.mail.time_zone;
    let mut text = lines(&text).trim_end().to_owned();
    text.push('\n');
    text.push_str(&text_block(input.attachments, zone));
    let html = html.map(|html| with_block(&lines(&html), &html_block(input.attachments, zone)));
    Ok(Bodies { text, html })
}

fn interim(input: &ComposeInput<'_>) -> String {
    format!(
        "A new submission of the form \"{}\" has been received; details to follow.\n\n{}",
        input.form_name(),
        facts(input)
    )
}

/// What every text body may say about a submission.
fn facts(input: &ComposeInput<'_>) -> String {
    format!(
        "Submission: {}\nForm:       {}\nReceived:   {}\n",
        input.submission.id,
        input.form_name(),
        readable_time(input.submission.created_at, input.mail.time_zone)
    )
}

/// The fields in their order. Values are indented, so that none can pass for a line of ours.
fn field_list(input: &ComposeInput<'_>) -> String {
    let mut text = format!("A new submission of the form \"{}\".\n\n{}", input.form_name(), facts(input));
    for field in input.ordered_fields() {
        text.push_str(&format!("\n{}:\n", one_line(&field.key)));
        for line in lines(&field.value).trim_end().split('\n') {
            text.push_str(format!("  {line}").trim_end());
            text.push('\n');
        }
    }
    text
}

/// Text and HTML of the pinned template. The text part is always there: where the template has HTML only, it says so.
fn from_template(
    input: &ComposeInput<'_>,
    variables: &Variables<'_>,
) -> Result<(String, Option<String>), ComposeFault> {
    let Some(texts) = &input.action.template else {
        return Err(ComposeFault::template_missing(input));
    };
    let render = |part, source: &Option<String>, name: &str| {
        let Some(source) = source.as_deref().filter(|source| !source.trim().is_empty()) else {
            return Ok(None);
        };
        variables.render(part, source).map(Some).map_err(|fault| {
            let what = format!("the {name} of template {}", input.template_name());
            ComposeFault::unrenderable(input, what, &fault)
        })
    };
    let text = render(Part::BodyText, &texts.body_text, "body_text")?;
    let html = render(Part::BodyHtml, &texts.body_html, "body_html")?;
    match (text, html) {
        (Some(text), html) => Ok((text, html)),
        (None, Some(html)) => {
            Ok((format!("{}\nThe details are in the HTML part of this message.\n", facts(input)), Some(html)))
        }
        (None, None) => Err(ComposeFault::template_empty(input)),
    }
}

/// The block before the end of the document's body, else at the end of the text.
fn with_block(html: &str, block: &str) -> String {
    let end = html.to_ascii_lowercase().rfind("</body").unwrap_or(html.len());
    let (before, after) = html.split_at(end);
    format!("{before}{block}{after}")
}
