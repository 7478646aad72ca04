//! The relay, spoken to over SMTP (protocol §4).
//!
//! [`Connections`] bounds how much is being sent, [`Connection::send`] carries out one transaction, [`classify()`] alone
//! turns the relay's words into outcomes. The dialogue is our own, so that each recipient has his reply, the fence stands
//! right before the dot, and "was the dot written?" has an exact answer. Where the relay offers PIPELINING, MAIL, the RCPTs
//! and DATA are one write, and a short message with its dot another: two round trips a mail. Invariant: a final dot is
//! written only right after the fence agreed, and a connection is used again only when its last transaction ended in step.
//! STARTTLS and AUTH are not spoken: the relay is the Postfix of this host.

mod classify;
mod connection;
mod connections;
mod dial;
mod dialogue;
mod envelope;
mod patience;
mod probe;
mod replies;
mod reply;
mod shared;
mod stream;
pub mod throttle;
mod transparency;

use std::time::Duration;

pub use classify::{ReplyEffect, StageReply, classify};
pub use connection::Connection;
pub use connections::Connections;
pub use dial::our_addresses;
pub use envelope::Envelope;
pub use probe::{greet, inspect, offer, takes_returns_to};
pub use throttle::Throttle;

use crate::config;

/// `[smtp]`, with everything resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpSettings {
    /// Host of the relay; every address it has is tried.
    pub host: String,
    /// Port of the relay.
    pub port: u16,
    /// Connections at most; at least one.
    pub connections: usize,
    /// Name that EHLO gives: a host name or an address literal.
    pub hello_name: String,
    /// Limit of the TCP connect, all addresses together.
    pub connect_timeout: Duration,
    /// Limit of banner, EHLO, MAIL, each RCPT, DATA; and of the message, as long as none of it moves.
    pub command_timeout: Duration,
    /// Limit from the final dot to its reply, where `delivery_deadline` leaves as much; no dot is written when it
    /// leaves less than half.
    pub dot_timeout: Duration,
    /// Limit of one delivery from connect to the reply to its final dot.
    pub delivery_deadline: Duration,
    /// Messages a minute at most, all connections together.
    pub max_per_minute: Option<u32>,
}

impl SmtpSettings {
    /// `host:port`, for people.
    #[must_use]
    pub fn relay(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl From<&config::Smtp> for SmtpSettings {
    /// Asks the system for this host's name where `hello_name` is not set.
    fn from(smtp: &config::Smtp) -> Self {
        let own = || hostname::get().ok().and_then(|name| name.into_string().ok());
        let hello_name = smtp.hello_name.clone().or_else(own).filter(|name| is_hello_name(name));
        Self {
            host: smtp.host.clone(),
            port: smtp.port,
            connections: smtp.lanes.max(1),
            // RFC 5321 §4.1.4: an address literal where there is no meaningful name.
            hello_name: hello_name.unwrap_or_else(|| "[127.0.0.1]".to_owned()),
            connect_timeout: smtp.connect_timeout,
            command_timeout: smtp.command_timeout,
            dot_timeout: smtp.dot_timeout,
            delivery_deadline: smtp.delivery_deadline,
            max_per_minute: smtp.max_per_minute,
        }
    }
}

fn is_hello_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_name_never_breaks_its_command() {
        for (name, expected) in [
            (Some("mail.example.org"), "mail.example.org"),
            (Some("a\r\nMAIL"), "[127.0.0.1]"),
            (Some(""), "[127.0.0.1]"),
        ] {
            let smtp = config::Smtp { hello_name: name.map(str::to_owned), ..config::Smtp::default() };
            assert_eq!(SmtpSettings::from(&smtp).hello_name, expected);
        }
        assert!(is_hello_name(&SmtpSettings::from(&config::Smtp::default()).hello_name));
    }
}
