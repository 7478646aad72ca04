//! The mails and tickets that a submission would cause, as they would go to the relay and to the help desk, and what they alone
//! would not say.
//!
//! Reads only: nothing is claimed, written or sent. The links in them are real, and making them is the reader's access to a
//! file: whoever shows them knows to whom, and has that recorded ([`Rendering::links`]). For the eyes of people who may
//! read submissions: recipients and field values are shown.

mod ticket;

use std::collections::HashSet;

use serde::Serialize;
use uuid::Uuid;

pub(crate) use self::ticket::Ticket;
use super::Reader;
use crate::db::DbError;
use crate::routing::store::view::Scan;
use crate::routing::submission::ledger::LedgerFault;
use crate::routing::table::Status;
pub(crate) use crate::routing::worker::prepare::Preparer;
use crate::routing::worker::prepare::{RenderError, RenderScope, Rendered, RenderedMail};

/// The mails and tickets of a submission.
#[derive(Debug)]
pub(crate) struct Rendering {
    /// The submission's form.
    pub(crate) form_id: String,
    /// The mails and tickets, in the order of the plan.
    pub(crate) shown: Vec<Shown>,
    /// Working links that one of them has.
    pub(crate) links: usize,
    /// What they alone would not say, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// What one action would send (interfaces page, `render`). Its `Debug` shows no address and no text.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Shown {
    Mail(Mail),
    Ticket(Box<Ticket>),
}

/// One mail. Its `Debug` shows no address and no text.
#[derive(Serialize)]
pub(crate) struct Mail {
    pub(crate) action_order: i32,
    pub(crate) recipients: Vec<String>,
    pub(crate) message_id: String,
    /// The message as it goes to the relay.
    pub(crate) eml: String,
    /// Some delivery of the mail is still to be sent.
    pub(crate) open: bool,
    /// Names that its templates ask for and that have no value.
    pub(crate) missing: Vec<String>,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRendering {
    #[error(transparent)]
    Database(#[from] DbError),
    /// No submission has this id.
    #[error("there is no submission {0} that this database role can see")]
    Unknown(Uuid),
    #[error("{0} is purged: its contents were removed")]
    Purged(Uuid),
    /// What was sent is not known.
    #[error("{0}")]
    Ledger(LedgerFault, Uuid),
    /// The form has an action that this version does not know, and no plan is pinned.
    #[error("the form's actions are not understood: {0}")]
    Form(String),
    #[error(transparent)]
    Mail(RenderError),
}

impl From<RenderError> for NoRendering {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Database(error) => Self::Database(error),
            RenderError::Gone(_)
            | RenderError::NoSuchAction { .. }
            | RenderError::Unsigned(_)
            | RenderError::Unmakeable(_) => Self::Mail(error),
        }
    }
}

/// The mails and tickets of a submission as they would be sent now; of `action` alone where one is given. `preparer` makes and signs as the
/// daemon does.
pub(crate) async fn rendering(
    reader: &Reader,
    preparer: &Preparer,
    id: Uuid,
    action: Option<i32>,
) -> Result<Rendering, NoRendering> {
    let view = reader.view().look(id).await?.ok_or(NoRendering::Unknown(id))?;
    if view.status == Status::Purged {
        return Err(NoRendering::Purged(id));
    }
    let ledger = view.ledger.map_err(|fault| NoRendering::Ledger(fault, id))?;
    let current = match view.current {
        Ok(current) => current,
        Err(_) if !ledger.plan.is_empty() => Vec::new(),
        Err(why) => return Err(NoRendering::Form(why)),
    };
    let linkable: HashSet<Uuid> =
        view.attachments.iter().filter(|scan| scan.is_clean()).map(|scan| scan.id).collect();
    let scope = RenderScope {
        id,
        ledger: &ledger,
        current: &current,
        action_order: action,
        linkable: &linkable,
        expansion: (&reader.config).into(),
    };
    let rendered = preparer.render(&scope).await?;
    let links = rendered.iter().map(Rendered::links).max().unwrap_or(0);
    let shown: Vec<Shown> = rendered.into_iter().map(Shown::from).collect();
    let notes = notes(&shown, &view.attachments);
    Ok(Rendering { form_id: view.form_id, shown, links, notes })
}

impl Shown {
    /// What a reader of the real mail or ticket would find missing in it.
    pub(crate) fn gap(&self) -> Option<String> {
        let (order, missing, noun) = match self {
            Self::Mail(mail) => (mail.action_order, &mail.missing, "mail"),
            Self::Ticket(ticket) => (ticket.action_order, &ticket.missing, "ticket"),
        };
        let names = missing.join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "action {order}: its templates ask for what this submission does not have: {names}; the {noun} says \
                 [missing: …] there"
            )
        })
    }

    /// What it alone would not say.
    fn note(&self) -> Option<String> {
        match self {
            Self::Mail(mail) if !mail.open => {
                let order = mail.action_order;
                Some(format!("action {order}: nothing of it is open; this is its mail all the same"))
            }
            Self::Ticket(ticket) if !ticket.open => {
                let order = ticket.action_order;
                Some(format!("action {order}: nothing of it is open; this is its ticket all the same"))
            }
            Self::Mail(_) | Self::Ticket(_) => None,
        }
    }
}

impl From<Rendered> for Shown {
    fn from(rendered: Rendered) -> Self {
        match rendered {
            Rendered::Mail(mail) => Self::Mail(mail.into()),
            Rendered::Ticket(ticket) => Self::Ticket(Box::new(ticket.into())),
        }
    }
}

impl Mail {
    /// The mail's recipients, or nobody.
    pub(crate) fn to(&self) -> String {
        if self.recipients.is_empty() { "nobody".to_owned() } else { self.recipients.join(", ") }
    }
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mail")
            .field("action_order", &self.action_order)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

impl From<RenderedMail> for Mail {
    fn from(mail: RenderedMail) -> Self {
        Self {
            action_order: mail.action_order,
            recipients: mail.recipients,
            message_id: mail.message_id,
            // ASCII by construction.
            eml: String::from_utf8_lossy(&mail.message).into_owned(),
            open: mail.open,
            missing: mail.missing,
        }
    }
}

fn notes(shown: &[Shown], attachments: &[Scan]) -> Vec<String> {
    let mut notes = Vec::new();
    if shown.is_empty() {
        notes.push("nothing: the form has no action that is carried out by mail, or by a help desk of this configuration".to_owned());
    }
    notes.extend(shown.iter().filter_map(Shown::note));
    for shown in shown {
        if let Shown::Mail(mail) = shown
            && mail.recipients.is_empty()
        {
            notes.push(format!("action {}: no usable recipient; it would be refused", mail.action_order));
        }
    }
    let left_out = attachments.iter().filter(|scan| !scan.is_clean()).count();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of {} attachments not clean: left out here, and nothing is sent before all of them are",
            attachments.len()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(open: bool, recipients: &[&str], missing: &[&str]) -> Shown {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Shown::Mail(Mail {
            action_order: 2,
            recipients: words(recipients),
            message_id: "<m@x.test>".to_owned(),
            eml: "Subject: private\r\n".to_owned(),
            open,
            missing: words(missing),
        })
    }

    #[test]
    fn notes_say_what_a_mail_alone_would_not() {
        let scan =
            |status: &str| Scan { id: Uuid::nil(), file_name: None, clamav_status: Some(status.to_owned()) };
        assert_eq!(notes(&[mail(true, &["a@x.test"], &[])], &[scan("clean")]), Vec::<String>::new());
        let said = notes(&[mail(false, &[], &[])], &[scan("clean"), scan("pending"), scan("infected")]);
        assert_eq!(
            said,
            [
                "action 2: nothing of it is open; this is its mail all the same",
                "action 2: no usable recipient; it would be refused",
                "2 of 3 attachments not clean: left out here, and nothing is sent before all of them are",
            ]
        );
        assert_eq!(
            notes(&[], &[]),
            [
                "nothing: the form has no action that is carried out by mail, or by a help desk of this configuration"
            ]
        );
    }

    #[test]
    fn a_gap_is_named_and_a_mail_is_never_logged() {
        let gap = mail(true, &["a@x.test"], &["topic", "name"]);
        let said = gap.gap().expect("a gap");
        assert!(
            said.starts_with(
                "action 2: its templates ask for what this submission does not have: topic, name;"
            )
        );
        assert_eq!(mail(true, &["a@x.test"], &[]).gap(), None);
        let debug = format!("{gap:?}");
        assert!(!debug.contains("a@x.test") && !debug.contains("private"), "{debug}");
        let to = |shown: &Shown| match shown {
            Shown::Mail(mail) => mail.to(),
            Shown::Ticket(_) => panic!("a mail"),
        };
        assert_eq!((to(&gap).as_str(), to(&mail(true, &[], &[])).as_str()), ("a@x.test", "nobody"));
    }
}
