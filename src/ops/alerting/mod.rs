//! Alerts: failures, notices and incidents become messages that Slack confirms (protocol, "Sweep", "Outages"; P7).
//!
//! Pure: [`groups`] (when), [`message`] (what), [`channel`] (whether Slack may be tried). Shell: [`desk`] (one message and
//! its confirmation), [`alerter`] (the task), [`notice`] (the handle for those who must know that people were told).

pub mod alerter;
pub mod channel;
pub mod desk;
pub mod groups;
pub mod message;
pub mod notice;

pub use alerter::{Alerter, AlerterParts};
pub use desk::{Desk, PassError};
pub use groups::Pace;
pub use message::Letterhead;
pub use notice::{Alerts, Notice};
