//! Forms and their versions: what each follows, what a version changes, and an admin's two commands, which go the same way as the
//! command line's ([`Versions`]).
//!
//! Commands and differences are made of the configuration in force, beside the desk's own thread: a policy may take up to a second,
//! and other requests do not wait for it. Addresses are shown to reviewers and above who ask, and never before the access log says
//! so. If we die, nothing is owed: a command is one transaction with the answer that is kept for a repeated form.

pub mod done;
pub(super) mod form;
mod inside;
pub(super) mod list;
pub(super) mod moving;
mod told;
pub(super) mod version;
mod words;

use axum::response::Html;

use super::{Site, html};
use crate::desk::access::Visitor;
use crate::desk::pages::forms::FormsPage;
use crate::desk::problem::{Kind, Problem};
use crate::forms::commands::Versions;
use crate::scrub::scrub;

impl Site {
    /// The commands to versions, with the configuration as it is now.
    fn versions(&self) -> Result<Versions, Problem> {
        (self.parts.versions)(&self.config()).map_err(|why| {
            tracing::error!("the desk cannot make the commands to versions: {}", scrub(&why));
            Problem::internal()
        })
    }

    /// The commands to versions; `None` where the database has no versions.
    async fn versions_there(&self) -> Result<Option<Versions>, Problem> {
        let versions = self.versions()?;
        Ok(versions.store.is_there().await?.then_some(versions))
    }
}

/// The page that says that there are no versions here, and what to do. No error: they are optional.
async fn absent(site: &Site, visitor: &Visitor) -> Result<Html<String>, Problem> {
    let now = site.commands().store.time().await?;
    html(&FormsPage { frame: Site::frame(visitor, now), forms: None })
}

fn not_installed() -> Problem {
    Problem::new(
        Kind::NotInstalled,
        "The database has no versions of forms, or this role may not use them.",
        "As the owner of the tables: maple-router migrate --content; maple-router check tells more.",
    )
}

/// The number in a path; what is none is no version's.
fn number(text: &str) -> Result<u32, Problem> {
    text.parse().map_err(|_| no_version())
}

/// The id in a path. PostgreSQL's texts have no NUL.
fn form_id(text: &str) -> Result<&str, Problem> {
    Some(text).filter(|id| !id.contains('\0')).ok_or_else(no_form)
}

fn no_version() -> Problem {
    Problem::not_found("version of this number")
}

fn no_form() -> Problem {
    Problem::not_found("form of this id")
}
