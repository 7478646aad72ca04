//! Form versions: what a form does is drafted from a file, checked, published unchangeable, and followed by moving a pointer.
//!
//! Read in this order: `table` (the lifecycle), `definition` (a file, read), `content` (its entries and their digest), `checks` (what
//! no policy can allow), `policy/` and `document` (the Rego engine, and what it judges), `diff`, `commands` (what people ask, each a
//! transaction), `store/` (the SQL). What must hold whoever writes is the schema's own: published content does not change, nobody
//! publishes or promotes what was not allowed in that very transaction, and a managed form's rows are its current version's.
//!
//! **The routing knows nothing of versions but a name in its ledger**: it reads the tables it has always read. While the policy is
//! away nothing is published, promoted or restored, and mail goes on.

pub mod card;
mod check;
pub mod checks;
pub mod commands;
pub mod content;
pub mod definition;
pub mod diff;
pub mod document;
pub mod journal;
pub mod metrics;
pub mod policies;
pub mod policy;
pub mod preview;
pub mod signers;
pub mod signing;
pub mod store;
pub mod table;
pub mod watch;
