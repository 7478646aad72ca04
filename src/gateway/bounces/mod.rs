//! Mails that came back: the Maildir they are delivered into, and what they say. Whether one may be believed is asked
//! elsewhere.

mod fields;
mod inspect;
mod maildir;
mod report;

pub use inspect::inspect;
pub use maildir::{Found, Look, Maildir, MaildirError, Pruned};
pub use report::read;
