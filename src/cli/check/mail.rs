//! Line `relay`: whether the relay greets us; with `--send`, whether it takes a mail.
//!
//! The mail is composed and sent as the daemon's are, over a connection, from and to `mail.from`. It belongs to no
//! submission: its id is drawn and stands in no table. If we die in the middle, a test mail may arrive that nobody expects.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::config::{Config, MailBody};
use crate::gateway::smtp::{Connections, Envelope, SmtpSettings, inspect};
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::ports::{CheckLevel, CheckLine, Message, Outcome};
use crate::routing::compose::{ComposeInput, MailSettings, SubmissionFacts, compose};
use crate::routing::delivery::sender::TRIAL;
use crate::routing::submission::destination;
use crate::routing::submission::plan::{ActionType, PlannedAction, TemplateTexts};
use crate::routing::worker::prepare::MailRules;
use crate::scrub::scrub;

const NAME: &str = "relay";
/// Text in the mail instead of the form's id.
const FORM: &str = "maple-router-check";
/// Limits of the relay's steps, shorter than the daemon's: a person waits at the terminal.
const CONNECT: Duration = Duration::from_secs(5);
const COMMAND: Duration = Duration::from_secs(6);
const MAIL: Duration = Duration::from_secs(30);

/// Greets the relay, and sends a mail where `send` says so.
pub(super) async fn line(config: &Config, send: bool) -> CheckLine {
    let mut settings = SmtpSettings::from(&config.smtp);
    settings.connect_timeout = settings.connect_timeout.min(CONNECT);
    settings.command_timeout = settings.command_timeout.min(COMMAND);
    settings.delivery_deadline = settings.delivery_deadline.min(MAIL);
    settings.dot_timeout = settings.dot_timeout.min(MAIL);
    let greeted = inspect(&settings).await;
    if !send || greeted.level != CheckLevel::Ok {
        return greeted;
    }
    match mail(config, settings).await {
        Ok(said) => CheckLine::ok(NAME, format!("{}; {said}", greeted.detail)),
        Err(said) => CheckLine::fail(
            NAME,
            format!("{}; {said}", greeted.detail),
            "look at the relay's log; does it take mail from [mail] from?",
        ),
    }
}

/// Sends the test mail; returns the result in words.
async fn mail(config: &Config, settings: SmtpSettings) -> Result<String, String> {
    let rules = MailRules::new(config)?;
    let recipients = vec![rules.from.address.clone()];
    let message = test_mail(&rules, &settings.hello_name)?;
    let connections = Connections::new(settings, Arc::new(SystemClock));
    let mut connection = connections.acquire().await;
    let envelope = Envelope { from: &rules.sender(TRIAL), recipients: &recipients, message: &message };
    let outcomes = connection.send(&envelope, &|| Ok(())).await;
    drop(connection);
    connections.close().await;
    match outcomes.into_iter().next() {
        Some(Outcome::Accepted { reply, queue_id }) => {
            let named = queue_id.map(|id| format!(" as {id}")).unwrap_or_default();
            let code = reply.code.map(|code| format!(" ({code})")).unwrap_or_default();
            Ok(format!("it took the test mail to mail.from{named}{code}"))
        }
        Some(Outcome::Refused(fault) | Outcome::Deferred(fault)) => {
            let code = fault.reply.code.map(|code| format!("{code} ")).unwrap_or_default();
            Err(format!("it did not take the test mail: {code}{}", scrub(&fault.reply.reply)))
        }
        Some(Outcome::Unknown(fault)) => {
            Err(format!("the test mail may or may not have been taken: {}", scrub(&fault.reply.reply)))
        }
        Some(Outcome::Created { .. } | Outcome::NotImplemented) | None => {
            Err("the test mail was not sent".to_owned())
        }
    }
}

/// The mail itself, with a Message-ID of its own each time.
#[expect(clippy::disallowed_methods, reason = "only the Date of a test mail; the database may well be down")]
fn test_mail(rules: &MailRules, host: &str) -> Result<Message, String> {
    let action = PlannedAction {
        action_order: 1,
        action_type: ActionType::EmailTemplate,
        template_id: Some(FORM.to_owned()),
        template: Some(TemplateTexts {
            subject: Some("maple-router check: this is a test".to_owned()),
            body_text: Some(format!(
                "{{% raw %}}Somebody ran `maple-router check --send` on {host}.\n\
                 This mail took the way that routed mails take. There is nothing to do.\n{{% endraw %}}"
            )),
            body_html: None,
        }),
        destination: rules.from.address.clone(),
        subject_template: None,
        happyfox_category: None,
    };
    let at = Timestamp::now();
    let composed = compose(&ComposeInput {
        submission: SubmissionFacts { id: Rng::from_system().uuid(), created_at: at, form_id: FORM },
        form_name: None,
        fields: &[],
        grade: None,
        action: &action,
        generation: 0,
        attachments: &[],
        files: &[],
        mail: MailSettings {
            from: &rules.from,
            body: MailBody::Template,
            time_zone: &rules.now().time_zone,
            recipients: &destination::parse(&action.destination, 1, 1),
            reply_to_fields: &[],
        },
        date: at,
    });
    composed
        .map(|composed| composed.message)
        .map_err(|fault| format!("the test mail cannot be made: {fault}"))
}
