//! What a command that was not carried out is told as, and what its form gets back. Pure.

use uuid::Uuid;

use crate::desk::pages::forms::Move;
use crate::desk::pages::frame::Problem as Told;
use crate::desk::problem::{Kind, Problem};
use crate::desk::site::actions::sentence;
use crate::forms::commands::CommandError;
use crate::scrub::scrub;

/// Longest reason, in characters.
const LONGEST: usize = 2_000;

/// What a refused form gives back.
#[derive(Debug, Default)]
pub(super) struct Back {
    /// What was typed.
    pub(super) typed: String,
    /// What is wrong, a sentence each.
    pub(super) problems: Vec<String>,
    /// Whether the reason is at fault.
    pub(super) at_reason: bool,
    /// The version that was seen as current, where another's change came first.
    pub(super) overtaken: Option<Option<Uuid>>,
    /// The form's idempotency key, where it can be sent again under it.
    pub(super) key: Option<String>,
}

impl Back {
    /// Puts what was typed into its form again, and tells what is wrong; what has no form any more is told to be copied.
    pub(super) fn into_form(self, form: Option<&mut Move>) -> Vec<Told> {
        let Self { typed, problems, at_reason, overtaken, key } = self;
        let anchor = form.as_ref().map(|form| form.anchor()).filter(|_| at_reason);
        let mut told: Vec<Told> =
            problems.iter().map(|text| Told { text: text.clone(), field: anchor.clone() }).collect();
        match form {
            Some(form) => {
                form.error = problems.first().filter(|_| at_reason).cloned();
                form.reason = typed;
                form.idempotency_key = key.unwrap_or_else(|| form.idempotency_key.clone());
            }
            None if overtaken.is_none() && !typed.is_empty() => {
                told.push(Told { text: format!("What you typed, to copy: {typed}"), field: None });
            }
            None => {}
        }
        told
    }
}

/// A reason without addresses: it is kept with the version, and in the audit log.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub(super) fn reason(typed: &str, required: bool) -> Result<Option<String>, &'static str> {
    // PostgreSQL's texts have no NUL.
    let text = scrub(typed.replace('\0', "").trim());
    match text.chars().count() {
        0 if required => Err("Say why: it is kept for those who ask later."),
        0 => Ok(None),
        n if n > LONGEST => Err("The reason is too long: it has at most 2,000 characters."),
        _ => Ok(Some(text)),
    }
}

/// The problem of a reason.
pub(super) fn wrong_reason(why: &'static str) -> Problem {
    Problem::guard("reason", why)
}

/// The problem of a version that the checks or the policy refuse.
pub(super) fn not_allowed(reasons: &[String]) -> Problem {
    Problem::new(
        Kind::Guard,
        "The checks or the policy do not allow it; the form follows what it followed.",
        "Mend what the reasons say, load it again, and promote that version.",
    )
    .with("reasons", reasons)
}

/// The problem of a pointer that somebody else moved.
pub(super) fn overtaken() -> Problem {
    Problem::new(
        Kind::VersionConflict,
        "The form follows another version than you saw. Nothing was done.",
        "Look at what it follows now; what you typed is kept on the page.",
    )
}

/// The answer to a command that cannot be carried out, and what its page says. Words of the database are not among it: they may
/// quote rows.
///
/// # Errors
/// [`Problem`]: there is no page to tell it on.
pub(super) fn refused(error: CommandError) -> Result<(Problem, String), Problem> {
    let told = |text: String| {
        let problem = Problem::not_possible(text.clone(), &[]);
        Ok((problem, text))
    };
    match error {
        CommandError::Database(error) => Err(error.into()),
        CommandError::NoForm(_) => Err(super::no_form()),
        CommandError::NoVersion => Err(super::no_version()),
        CommandError::Moved => Ok((overtaken(), String::new())),
        CommandError::NotPossible(refusal) => {
            let legal: Vec<&str> = refusal.legal.iter().map(String::as_str).collect();
            let text = sentence(&refusal.to_string());
            Ok((Problem::not_possible(text.clone(), &legal), text))
        }
        CommandError::Disagrees(_) => told(
            "A template of it is also another form's that follows a version, and that one has other texts for it. Give the template \
             an id of its own, or let both forms have the same texts."
                .to_owned(),
        ),
        CommandError::Unreadable(why) => {
            told(format!("Its content cannot be read by this version of the program: {}.", scrub(&why)))
        }
        error @ (CommandError::NotManaged(_)
        | CommandError::NoPrevious(_)
        | CommandError::Managed(..)
        | CommandError::IsCurrent
        | CommandError::Followed(_)
        | CommandError::TooLate
        | CommandError::SameContent
        | CommandError::NoSigners(_)
        | CommandError::Unsigned(..)
        | CommandError::NoReason
        | CommandError::TooShort
        | CommandError::Digest { .. }
        | CommandError::Faults(_)) => told(sentence(&scrub(&error.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::DbError;

    #[test]
    fn a_reason_has_words_and_no_address() {
        assert_eq!(reason("  bob@example.org asked\0 ", true), Ok(Some("<address> asked".to_owned())));
        assert!(reason(" \n ", true).is_err());
        assert_eq!(reason(" \n ", false), Ok(None));
        assert!(reason(&"x".repeat(2_001), true).is_err());
        assert!(reason(&"x".repeat(2_000), true).is_ok());
    }

    #[test]
    fn words_of_the_database_are_not_told() {
        let hidden = "Key (id)=(bob@example.org)";
        let (problem, text) = refused(CommandError::Disagrees(hidden.to_owned())).expect("a page tells it");
        assert!(!text.contains("Key") && !problem.detail().contains("Key"), "{text}");
        let error =
            DbError::Server { code: "23514".to_owned(), message: hidden.to_owned(), object: String::new() };
        let problem = refused(CommandError::Database(error)).expect_err("no page");
        assert_eq!(problem.kind(), Kind::Internal);
        let (problem, text) = refused(CommandError::NoPrevious("f".to_owned())).expect("a page tells it");
        assert_eq!(problem.kind(), Kind::NotPossible);
        assert!(text.ends_with('.') && text.starts_with("Form"), "{text}");
    }
}
