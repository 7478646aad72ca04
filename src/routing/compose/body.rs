//! Bodies: the interim text, the list of fields, or the pinned template; each followed by the list of attachments.
//!
//! Invariant: the interim body contains no field value, whatever the action. It goes out until an operator sets
//! `mail.body = "template"`, and it must be safe for every form. Bodies of our own are text and HTML of the same
//! content; a template's are those that it has.

use super::attachments::{When, html_block, text_block};
use super::html::Page;

use super::template::{Part, Variables};
use super::when::readable_time;
use super::{ComposeFault, ComposeInput};
use crate::config::MailBody;
use crate::routing::submission::plan::ActionType;
use crate::routing::submission::text::{lines, one_line};

/// Longest HTML of our own, in octets. Longer HTML is left out, so that it costs no mail its delivery.
const MAX_OWN_HTML: usize = 256 * 1024;

/// The body as text and, optionally, HTML.
#[derive(Debug)]
pub(super) struct Bodies {
    /// Plain text, always present.
    pub(super) text: String,
    /// HTML, where the template has one, or the body is our own.
    pub(super) html: Option<String>,
}

/// Makes the bodies of this action's mail or ticket.
pub(super) fn bodies(input: &ComposeInput<'_>, variables: &Variables<'_>) -> Result<Bodies, ComposeFault> {
    let (text, html) = match (input.mail.body, input.action.action_type) {
        (MailBody::Interim, _) => interim(input),
        (MailBody::Template, ActionType::EmailRaw) => field_list(input),
        // A ticket without a template has what was entered.
        (MailBody::Template, ActionType::HappyfoxTemplate) if input.action.template_id.is_none() => {
            field_list(input)
        }
        (MailBody::Template, ActionType::EmailTemplate | ActionType::HappyfoxTemplate) => {
            from_template(input, variables)?
        }
    };
    let when = When { now: input.date, zone: input.mail.time_zone };
    let mut text = lines(&text).trim_end().to_owned();
    text.push('\n');
    text.push_str(&text_block(input.attachments, when));
    let html = html.map(|html| with_block(&lines(&html), &html_block(input.attachments, when)));
    Ok(Bodies { text, html })
}

fn interim(input: &ComposeInput<'_>) -> (String, Option<String>) {
    let text = format!(
        "A new submission of the form \"{}\" has been received; details to follow.",
        input.form_name()
    );
    let mut page = Page::new(&heading(input));
    page.paragraph(&text);
    (format!("{text}\n\n{}", facts(input)), own(page, input))
}

fn heading(input: &ComposeInput<'_>) -> String {
    format!("New submission: {}", input.form_name())
}

/// The facts that every body may show about a submission: terms and their values.
fn terms(input: &ComposeInput<'_>) -> [(&'static str, String); 3] {
    [
        ("Form", input.form_name()),
        ("Received", readable_time(input.submission.created_at, input.mail.time_zone)),
        ("Submission", input.submission.id.to_string()),
    ]
}

fn facts(input: &ComposeInput<'_>) -> String {
    terms(input).iter().map(|(term, meaning)| format!("{:<12}{meaning}\n", format!("{term}:"))).collect()
}

/// The page with the facts at its end; none where that is too long.
fn own(mut page: Page, input: &ComposeInput<'_>) -> Option<String> {
    let terms = terms(input);
    page.terms(terms.iter().map(|(term, meaning)| (*term, meaning.as_str())));
    let html = page.finished();
    (html.len() <= MAX_OWN_HTML).then_some(html)
}

/// The fields in their order. Their values are indented in the text, so that none can pass for a line of ours.
fn field_list(input: &ComposeInput<'_>) -> (String, Option<String>) {
    let fields: Vec<(String, String)> =
        input.ordered_fields().iter().map(|field| (one_line(&field.key), lines(&field.value))).collect();
    let mut text = format!("A new submission of the form \"{}\".\n\n{}", input.form_name(), facts(input));
    for (key, value) in &fields {
        text.push_str(&format!("\n{key}:\n"));
        for line in value.trim_end().split('\n') {
            text.push_str(format!("  {line}").trim_end());
            text.push('\n');
        }
    }
    let mut page = Page::new(&heading(input));
    if !fields.is_empty() {
        page.heading("What was entered");
        page.terms(fields.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    }
    page.heading("About this submission");
    (text, own(page, input))
}

/// Text and HTML of the pinned template. The text is always present: where the template has HTML only, it says so.
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

/// Puts the block before the end of the document's main part, else of its body, else at the end of the text.
fn with_block(html: &str, block: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let end = lower.rfind("</main").or_else(|| lower.rfind("</body")).unwrap_or(html.len());
    let (before, after) = html.split_at(end);
    format!("{before}{block}{after}")
}
