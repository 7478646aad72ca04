//! Alerts: failures, notices and incidents become messages that Slack confirms (protocol, "Sweep", "Outages"; P7).
//!
//! Pure: [`groups`] (when), [`message`] (what), [`channel`] (whether Slack may be tried). Shell: [`sender`] (one message and
//! its confirmation), [`alerter`] (the task), [`notice`] (the handle for callers that need a confirmation).

pub mod alerter;
pub mod channel;
pub mod groups;
pub mod message;
pub mod notice;
pub mod sender;

pub use alerter::{Alerter, AlerterParts};
pub use groups::AlertIntervals;
pub use message::Letterhead;
pub use notice::{Alerts, Notice};
pub use sender::{AlertSender, PassError};
