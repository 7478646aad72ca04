//! Whole mails, read back by a mail parser that knows nothing of how they were made.

#[path = "compose/fixtures.rs"]
mod fixtures;
#[path = "compose/injection.rs"]
mod injection;
#[path = "compose/subjects.rs"]
mod subjects;
#[path = "compose/variants.rs"]
mod variants;
