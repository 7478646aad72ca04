//! One submission, and the ways in which a test may change it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mail_parser::{Message, MessageParser, MimeHeaders};
use maple_router::config::MailBody;
use maple_router::ports::SignedLink;
use maple_router::routing::compose::{
    Attachment, ComposeFault, ComposeInput, Composed, Enclosed, Field, MailSettings, Place, SubmissionFacts,
    compose,
};
use maple_router::routing::submission::destination::{Mailbox, parse, parse_mailbox};
use maple_router::routing::submission::grading::Grade;
use maple_router::routing::submission::plan::{ActionType, PlannedAction, TemplateTexts};
use uuid::Uuid;

/// Inputs of a mail, owned.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) form_id: String,
    pub(crate) form_name: Option<String>,
    pub(crate) fields: Vec<Field>,
    pub(crate) grade: Option<Grade>,
    pub(crate) action: PlannedAction,
    pub(crate) generation: u32,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) files: Vec<Enclosed>,
    pub(crate) body: MailBody,
    pub(crate) from: Mailbox,
    pub(crate) zone: TimeZone,
    pub(crate) date: Timestamp,
    pub(crate) reply_to_fields: Vec<String>,
}

pub(crate) const ID: Uuid = Uuid::from_u128(0x7f0c_2b1e_5d3a_4c6f_8e9d_0a1b_2c3d_4e5f);

impl Default for Case {
    fn default() -> Self {
        Self {
            form_id: "incident-report".to_owned(),
            form_name: Some("Incident report".to_owned()),
            fields: vec![field("name", "Ann Lee", 1), field("message", "First line\nSecond line", 2)],
            grade: None,
            action: PlannedAction {
                action_order: 1,
                action_type: ActionType::EmailTemplate,
                template_id: Some("t1".to_owned()),
                template: None,
                destination: "it@example.org, \"Lee, Ann\" <ann@example.org>".to_owned(),
                subject_template: None,
                happyfox_category: None,
            },
            generation: 0,
            attachments: Vec::new(),
            files: Vec::new(),
            body: MailBody::Interim,
            from: parse_mailbox("gpus-it-security@greenpeace.org").expect("a sender"),
            zone: TimeZone::UTC,
            date: at("2026-06-04T14:03:27.9Z"),
            reply_to_fields: Vec::new(),
        }
    }
}

impl Case {
    pub(crate) fn template(subject: Option<&str>, text: Option<&str>, html: Option<&str>) -> Self {
        let mut case = Self { body: MailBody::Template, ..Self::default() };
        case.action.template = Some(TemplateTexts {
            subject: subject.map(ToOwned::to_owned),
            body_text: text.map(ToOwned::to_owned),
            body_html: html.map(ToOwned::to_owned),
        });
        case
    }

    pub(crate) fn raw() -> Self {
        let mut case = Self { body: MailBody::Template, ..Self::default() };
        case.action.action_type = ActionType::EmailRaw;
        case.action.template_id = None;
        case
    }

    pub(crate) fn with_subject(template: &str) -> Self {
        let mut case = Self::default();
        case.action.subject_template = Some(template.to_owned());
        case
    }

    pub(crate) fn composed(&self) -> Result<Composed, ComposeFault> {
        compose(&ComposeInput {
            submission: SubmissionFacts {
                id: ID,
                created_at: at("2026-06-04T14:02:00Z"),
                form_id: &self.form_id,
            },
            form_name: self.form_name.as_deref(),
            fields: &self.fields,
            grade: self.grade.as_ref(),
            action: &self.action,
            generation: self.generation,
            attachments: &self.attachments,
            files: &self.files,
            mail: MailSettings {
                from: &self.from,
                body: self.body,
                time_zone: &self.zone,
                recipients: &parse(&self.action.destination, self.action.action_order, 50),
                reply_to_fields: &self.reply_to_fields,
            },
            date: self.date,
        })
    }

    /// The message as text; every octet of it is ASCII.
    pub(crate) fn eml(&self) -> String {
        let composed = self.composed().expect("a mail");
        String::from_utf8(composed.message.shown()).expect("ASCII")
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

pub(crate) fn field(key: &str, value: &str, position: i32) -> Field {
    Field { key: key.to_owned(), value: value.to_owned(), position }
}

pub(crate) fn linked(file_name: &str, url: &str) -> Attachment {
    Attachment {
        file_name: file_name.to_owned(),
        size_bytes: Some(1_449_000),
        content_type: Some("application/pdf".to_owned()),
        place: Place::Linked(SignedLink { url: url.to_owned(), valid_until: at("2026-06-11T14:03:27Z") }),
    }
}

/// A URL of the length and alphabet of a V4 signed one.
pub(crate) fn signed_url(object: &str) -> String {
    format!(
        "https://storage.googleapis.com/bucket/{object}?X-Goog-Algorithm=GOOG4-RSA-SHA256\
         &X-Goog-Credential=sa%40project.iam.gserviceaccount.com%2F20260604%2Fauto%2Fstorage%2Fgoog4_request\
         &X-Goog-Date=20260604T140327Z&X-Goog-Expires=604800&X-Goog-SignedHeaders=host&X-Goog-Signature={}",
        "0123456789abcdef".repeat(32)
    )
}

/// Parses, and checks what holds for every mail we make.
pub(crate) fn read(eml: &str) -> Message<'_> {
    assert!(eml.is_ascii());
    assert_eq!(eml.matches('\n').count(), eml.matches("\r\n").count(), "a bare LF");
    assert_eq!(eml.matches('\r').count(), eml.matches("\r\n").count(), "a bare CR");
    assert!(eml.split("\r\n").all(|line| line.len() <= 998), "a line too long for SMTP");
    MessageParser::default().parse(eml.as_bytes()).expect("a message")
}

/// The names of the top headers, in order.
pub(crate) fn header_names(message: &Message<'_>) -> Vec<String> {
    message.headers().iter().map(|header| header.name().to_owned()).collect()
}

/// The kinds of the parts, in order.
pub(crate) fn parts(message: &Message<'_>) -> Vec<String> {
    let kinds = message.parts.iter().filter_map(|part| part.content_type());
    kinds.map(|kind| format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or_default())).collect()
}

/// The parts of a mail that says the same in text and in HTML.
pub(crate) const ALTERNATIVES: [&str; 4] =
    ["multipart/mixed", "multipart/alternative", "text/plain", "text/html"];

pub(crate) const HEADERS: [&str; 10] = [
    "Date",
    "From",
    "To",
    "Subject",
    "Message-ID",
    "Auto-Submitted",
    "X-Submission-ID",
    "X-Form-ID",
    "MIME-Version",
    "Content-Type",
];
