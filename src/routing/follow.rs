//! Sources of a mail's status after the relay's acceptance: the relay's log, returned mails, and the notices of losses.
//!
//! Reports arrive as [`Seen`](super::delivery::Seen), and [`delivery`](super::delivery) decides on them. If we die,
//! reports not yet recorded are read again.

pub mod doubt;
pub mod extra_tickets;
pub mod follower;
pub mod pending_notices;
pub mod returned;
mod trouble;
