//! What a form's definition would send, composed as the routing composes it: the [`Composer`] of form versions.
//!
//! Pure: a sample is no submission, its files are behind no link, and nothing is read or sent.

use jiff::Timestamp;
use uuid::Uuid;

use crate::config::{Config, MailBody};
use crate::forms::definition::{Action, Definition, Sample};
use crate::forms::preview::{Composer, Preview};
use crate::routing::compose::{
    Attachment, ComposeInput, Field, MailSettings, Place, SubmissionFacts, compose, compose_ticket,
};
use crate::routing::submission::destination::{self, Target, TargetKind};
use crate::routing::submission::plan::{ActionType, PlannedAction, TemplateTexts};
use crate::routing::worker::prepare::MailRules;

/// Time of receipt of every sample, so that a preview is the same whenever it is made.
const RECEIVED: Timestamp = Timestamp::constant(1_767_254_400, 0);

/// Composes by the configuration's rules.
#[derive(Debug)]
pub(crate) struct Compositor {
    rules: MailRules,
    max_recipients: usize,
}

impl Compositor {
    /// The composer of a validated configuration.
    ///
    /// # Errors
    /// The key that is wrong, and how.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { rules: MailRules::new(config)?, max_recipients: config.mail.max_recipients })
    }

    fn targets(&self, action: &Action) -> Vec<Target> {
        destination::parse(&action.destination, action.order, self.max_recipients)
    }
}

impl Composer for Compositor {
    fn recipients(&self, action: &Action) -> Vec<Result<String, String>> {
        let target = |target: Target| match target.kind {
            TargetKind::Usable { address, .. } => Ok(address),
            TargetKind::Unusable { why, .. } => Err(why),
            TargetKind::None => Err("the action names no recipient".to_owned()),
            TargetKind::OverLimit { count } => {
                Err(format!("the action names {count} recipients, more than mail.max_recipients"))
            }
        };
        self.targets(action).into_iter().map(target).collect()
    }

    fn allows(&self, address: &str) -> bool {
        destination::allowed(address, &self.rules.now().allowed_domains)
    }

    fn preview(&self, form: &Definition, action: &Action, sample: &Sample) -> Result<Preview, String> {
        let sent = self.composed(form, action, sample, self.rules.body)?;
        if self.rules.body == MailBody::Template {
            return Ok(sent);
        }
        // Mails do not show their templates' bodies yet; they are tried all the same, for the day they do.
        let tried = self.composed(form, action, sample, MailBody::Template)?;
        Ok(Preview { missing: tried.missing, ..sent })
    }
}

impl Compositor {
    fn composed(
        &self,
        form: &Definition,
        action: &Action,
        sample: &Sample,
        body: MailBody,
    ) -> Result<Preview, String> {
        let planned = planned(form, action, body)?;
        // A mail without a template has none of the template's bodies, whatever the configuration says.
        let body = if planned.template.is_some() { body } else { self.rules.body };
        let fields: Vec<Field> = (0_i32..)
            .zip(&sample.fields)
            .map(|(position, (key, value))| Field { key: key.clone(), value: value.clone(), position })
            .collect();
        let attachments: Vec<Attachment> = sample
            .attachments
            .iter()
            .map(|name| Attachment {
                file_name: name.clone(),
                size_bytes: None,
                content_type: None,
                place: Place::Inside,
            })
            .collect();
        let (rules, targets) = (self.rules.now(), self.targets(action));
        let input = ComposeInput {
            submission: SubmissionFacts { id: Uuid::nil(), created_at: RECEIVED, form_id: &form.id },
            form_name: Some(&form.name),
            fields: &fields,
            action: &planned,
            generation: 0,
            attachments: &attachments,
            files: &[],
            mail: MailSettings {
                from: &self.rules.from,
                body,
                time_zone: &rules.time_zone,
                recipients: &targets,
                reply_to_fields: &rules.reply_to_fields,
            },
            date: RECEIVED,
        };
        if planned.action_type.is_email() {
            // The message as it would go: what cannot be built is found here, too.
            compose(&input).map_err(|fault| fault.to_string())?;
        }
        // The custom fields of a ticket are the configuration's, not the version's.
        let texts = compose_ticket(&input, &[].into(), &[].into()).map_err(|fault| fault.to_string())?;
        Ok(Preview { subject: texts.subject, text: texts.text, html: texts.html, missing: texts.missing })
    }
}

/// The action as it would be pinned.
fn planned(form: &Definition, action: &Action, body: MailBody) -> Result<PlannedAction, String> {
    let action_type =
        ActionType::parse(&action.kind).ok_or_else(|| format!("unknown type {:?}", action.kind))?;
    let with_bodies = body == MailBody::Template;
    let template =
        action.template.as_ref().and_then(|id| form.templates.get(id)).map(|texts| TemplateTexts {
            subject: Some(texts.subject.clone()),
            body_text: with_bodies.then(|| texts.body_text.clone()),
            body_html: with_bodies.then(|| texts.body_html.clone()),
        });
    Ok(PlannedAction {
        action_order: action.order,
        action_type,
        template_id: action.template.clone(),
        template,
        destination: action.destination.clone(),
        subject_template: action.subject.clone(),
        happyfox_category: action.category.clone(),
    })
}
