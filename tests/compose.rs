//! Whole mails, read back by a mail parser that knows nothing of how they were made.

#[path = "compose/accessible.rs"]
mod accessible;
#[path = "compose/fixtures.rs"]
mod fixtures;
#[path = "compose/hungry.rs"]
mod hungry;
#[path = "compose/injection.rs"]
mod injection;
#[path = "compose/reading.rs"]
mod reading;
#[path = "compose/subjects.rs"]
mod subjects;
#[path = "compose/variants.rs"]
mod variants;
