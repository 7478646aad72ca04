//! What a form's definition would send, composed as the routing composes it: the [`Composer`] of form versions.
//!
//! Pure: a sample is no submission, its files are behind no link, and nothing is read or sent.

use jiff::Timestamp;
use uuid::Uuid;

use crate::config::{Config, GradingMode as Asked, MailBody};
use crate::forms::definition::{Action, Definition, Sample};
use crate::forms::preview::{Composer, Preview};
use crate::grading::core::band::Band;
use crate::grading::core::result::{CriterionScore, Feedback, GradingMode, GradingResult, VERSION};
use crate::grading::core::score::Score;
use crate::grading::core::skill::{Criterion, Skill};
use crate::routing::compose::{
    Attachment, ComposeInput, Field, MailSettings, Place, SubmissionFacts, compose, compose_ticket,
};
use crate::routing::submission::destination::{self, Target, TargetKind};
use crate::routing::submission::grading::Grade;
use crate::routing::submission::plan::{ActionType, PlannedAction, TemplateTexts};
use crate::routing::worker::prepare::MailRules;

/// Time of receipt of every sample, so that a preview is the same whenever it is made.
const RECEIVED: Timestamp = Timestamp::constant(1_767_254_400, 0);

/// Name of the grade in templates.
const GRADE: &str = "grading";

/// Composes by the configuration's rules.
#[derive(Debug)]
pub(crate) struct Compositor {
    rules: MailRules,
    max_recipients: usize,
    /// The grade of every sample, where the routing asks for grades.
    grade: Option<Grade>,
}

impl Compositor {
    /// The composer of a validated configuration.
    ///
    /// # Errors
    /// The key that is wrong, and how.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        let grade = if config.grading.mode == Asked::On { sample_grade() } else { None };
        Ok(Self { rules: MailRules::new(config)?, max_recipients: config.mail.max_recipients, grade })
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
        let sample = (sample, self.grade.as_ref());
        let sent = self.composed(form, action, sample, self.rules.body)?;
        if self.rules.body == MailBody::Template && self.grade.is_none() {
            return Ok(sent);
        }
        // Mails do not show their templates' bodies yet; they are tried all the same, for the day they do.
        let mut missing = self.composed(form, action, sample, MailBody::Template)?.missing;
        if self.grade.is_some() {
            // A mail may be let go without its grade.
            let tried = self.composed(form, action, (sample.0, None), MailBody::Template)?;
            missing.extend(tried.missing.into_iter().filter(|name| name.starts_with(GRADE)));
            missing.sort();
            missing.dedup();
        }
        Ok(Preview { missing, ..sent })
    }
}

impl Compositor {
    fn composed(
        &self,
        form: &Definition,
        action: &Action,
        (sample, grade): (&Sample, Option<&Grade>),
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
            grade,
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

/// What every sample is graded as: the words say that nobody has.
fn sample_grade() -> Option<Grade> {
    let score = Score::from_tenths(70)?;
    let words = |what: &str| vec![format!("A sample of {what}.")];
    let rated = |criterion: &Criterion| CriterionScore {
        criterion: *criterion,
        score,
        feedback: "A sample of feedback.".to_owned(),
        evidence: words("evidence"),
        estimated: false,
    };
    let result = GradingResult {
        v: VERSION,
        overall_score: score,
        band: Band::B2,
        confidence: 90,
        criteria_scores: Skill::Writing.criteria().iter().map(rated).collect(),
        feedback: Feedback {
            strengths: words("a strength"),
            weaknesses: words("a weakness"),
            suggestions: words("a suggestion"),
        },
        review_required: false,
        review_priority: None,
        grading_mode: GradingMode::Auto,
        audit_flag: false,
        is_late: false,
        indicative: true,
        model: "sample".to_owned(),
        prompt_version: "sample".to_owned(),
        rubric_version: "sample".to_owned(),
    };
    serde_json::to_value(result).ok().and_then(Grade::of)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::definition::Template;

    fn previewed(mode: Asked, text: &str) -> Preview {
        let mut config = Config::default();
        (config.grading.mode, config.mail.body) = (mode, MailBody::Template);
        "it@example.org".clone_into(&mut config.mail.from);
        let mut form = crate::forms::definition::tests::contact();
        let template =
            Template { subject: "s".to_owned(), body_text: text.to_owned(), body_html: String::new() };
        form.templates.insert("contact-mail".to_owned(), template);
        let (action, sample) = (form.actions[0].clone(), form.samples[0].clone());
        Compositor::new(&config).expect("a composer").preview(&form, &action, &sample).expect("a preview")
    }

    #[test]
    fn a_sample_is_graded_where_the_routing_asks_for_grades_and_a_mail_without_one_is_tried() {
        let guarded =
            "{% if grading %}{{ grading.overallScore }} {{ grading.band }}{% else %}none{% endif %}";
        let unguarded = "{{ grading.overallScore }}";
        let misspelt = "{% if grading %}{{ grading.overallscore }}{% endif %}";
        for (mode, text, starts, missing) in [
            (Asked::On, guarded, "7.0 B2", vec![]),
            (Asked::Off, guarded, "none", vec![]),
            (Asked::On, unguarded, "7.0", vec!["grading.overallScore"]),
            (Asked::Off, unguarded, "[missing: ", vec!["grading.overallScore"]),
            (Asked::On, misspelt, "[missing: ", vec!["grading.overallscore"]),
        ] {
            let preview = previewed(mode, text);
            assert!(preview.text.starts_with(starts), "{text}: {}", preview.text);
            assert_eq!(preview.missing, missing, "{text}");
        }
    }
}
