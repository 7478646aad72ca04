//! What operators see: journal, metrics, HTTP endpoints, systemd, alerts.

/// A closed set of words that dashboards, alerts and searches rely on: an enum, so that nothing else can be said.
macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// Every member.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word itself.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The member with this word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.as_str() == text)
            }
        }
    };
}

pub mod alerting;
pub mod breaker;
pub mod canary;
pub mod chance;
pub mod clock;
pub mod gate;
pub mod http;
pub mod incident;
pub mod json_log;
pub mod live;
pub mod log_rate;
pub mod metrics;
pub mod set_aside;
pub mod state_dir;
pub mod status_line;
pub mod supervised;
pub mod systemd;
pub mod tally;
pub mod telemetry;
pub mod watchdog;
