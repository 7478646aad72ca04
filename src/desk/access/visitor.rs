//! Who asks: the value that every handler behind the login has.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::user::Role;
use crate::desk::problem::Problem;
use crate::grey_queue::decide::GRADING_QUEUE;
use crate::kernel::words;

words! {
    /// How somebody has proved who they are.
    By {
        /// A browser's cookie, after a login link.
        Session = "session",
        /// A bearer token, which counts for the API alone.
        Token = "token",
        /// A header that the proxy signed.
        Assertion = "assertion",
    }
}

/// Whoever asks, known from the configuration in force. A handler behind the login takes it as an argument; the middleware
/// has made it before, and has refused everybody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// The name in `[desk.users]`.
    pub user: String,
    /// What this request may do: the user's present role, or less where the credential was made for less.
    pub role: Role,
    /// The proof.
    pub by: By,
}

impl Visitor {
    /// Refuses whoever has a lower role.
    ///
    /// # Errors
    /// [`Problem`] 403 `role`.
    pub fn must(&self, at_least: Role) -> Result<(), Problem> {
        if self.role >= at_least { Ok(()) } else { Err(Problem::role(at_least, self.role)) }
    }

    /// Refuses whoever decides about nothing. That an instructor decides about one queue alone is seen to by the routes and by the decision.
    ///
    /// # Errors
    /// [`Problem`] 403 `role`.
    pub fn must_decide(&self) -> Result<(), Problem> {
        if self.role == Role::Instructor { Ok(()) } else { self.must(Role::Reviewer) }
    }

    /// The one queue that this visitor sees; absent: every one.
    #[must_use]
    pub fn only_queue(&self) -> Option<&'static str> {
        match self.role {
            Role::Instructor => Some(GRADING_QUEUE),
            Role::Viewer | Role::Reviewer | Role::Security | Role::Admin => None,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::not_logged_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_what_those_below_it_may() {
        for (at, role) in Role::ALL.iter().enumerate() {
            let visitor = Visitor { user: "alice".to_owned(), role: *role, by: By::Session };
            for (needed_at, needed) in Role::ALL.iter().enumerate() {
                assert_eq!(visitor.must(*needed).is_ok(), needed_at <= at, "{role} {needed}");
            }
        }
    }
}
