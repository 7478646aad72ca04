//! Returned mails: the Maildir they are delivered into, and their content. Another module decides whether to
//! believe one.

mod fields;
mod inspect;
mod maildir;
mod report;

pub use inspect::inspect;
pub use maildir::{Look, Maildir, MaildirError, NewMail, Pruned};
pub use report::read;
