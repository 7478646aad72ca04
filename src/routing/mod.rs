//! The mission: one submission from event to settled outcome, as `routing-protocol` numbers the steps.
//!
//! Pure: [`audit_key`], [`blame`], [`cause`], [`event`], [`lag`], [`plan`], [`destination`], [`expand`], [`explain`], [`ledger`], [`link_life`], [`decide`],
//! [`draft`], [`outcome`], [`message_id`], [`pause`], [`presence`], [`replay`], [`settlement`], [`slots`], [`unrecorded`], [`compose`], `text`.
//! Shell: [`receive`], `in_hand`, [`worker`], [`prepare`], [`persist`], [`outages`], [`pauses`], [`claims`],
//! [`spool`], [`sweep`], [`alerts`], [`late_infection`], [`dead_letter`], [`store`], `journal`.

pub mod alerts;
pub mod audit_key;
pub mod blame;
pub mod card;
pub mod cause;
pub mod claims;
pub mod compose;
pub mod dead_letter;
pub mod decide;
pub mod delivery;
pub mod destination;
pub mod draft;
pub mod event;
pub mod expand;
pub mod explain;
mod in_hand;
mod journal;
pub mod lag;
pub mod late_infection;
pub mod ledger;
pub mod link_life;
pub mod message_id;
pub mod outages;
pub mod outcome;
pub mod pause;
pub mod pauses;
pub mod persist;
pub mod plan;
pub mod prepare;
pub mod presence;
pub mod receive;
pub mod replay;
pub mod settlement;
pub mod slots;
pub mod spool;
pub mod store;
pub mod sweep;
pub mod table;
pub(crate) mod text;
pub mod unrecorded;
pub mod worker;
