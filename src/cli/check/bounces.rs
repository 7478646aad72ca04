//! Line `bounces`: whether returned mails would be read, and whether some wait for a person.
//!
//! The relay is asked whether it takes mail for the return address, as a returning server would; nothing is sent.

use std::time::Duration;

use super::not_tried;
use crate::config::Config;
use crate::gateway::bounces::{Maildir, inspect};
use crate::gateway::smtp::{SmtpSettings, takes_returns_to};
use crate::ops::clock::since_epoch;
use crate::ports::{CheckLevel, CheckLine};
use crate::routing::delivery::sender::TRIAL;
use crate::routing::worker::prepare::MailRules;
use crate::scrub::scrub;

const NAME: &str = "bounces";
/// Limit of the relay's steps, shorter than the daemon's: a person waits at the terminal.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks into the Maildir, and asks the relay.
pub(super) async fn line(config: &Config) -> CheckLine {
    if config.bounces.address.is_none() {
        return CheckLine::ok(NAME, "off: bounces.address is not set, mails come back to mail.from");
    }
    let Ok(rules) = MailRules::new(config) else {
        return not_tried(NAME, "what it needs cannot be used", "config");
    };
    let looked = inspect(&Maildir::new(&config.bounces.maildir), &config.state.dir, since_epoch()).await;
    if looked.level == CheckLevel::Fail {
        return looked;
    }
    let mut settings = SmtpSettings::from(&config.smtp);
    settings.connect_timeout = settings.connect_timeout.min(PATIENCE);
    settings.command_timeout = settings.command_timeout.min(PATIENCE);
    match takes_returns_to(&settings, &rules.sender(TRIAL)).await {
        // Line `relay` reports a relay that does not answer.
        Ok(()) => looked,
        Err(fault) if fault.reply.code.is_none() => looked,
        Err(fault) => CheckLine::warn(
            NAME,
            format!(
                "{} does not take mail that comes back to bounces.address: {} {}",
                settings.relay(),
                fault.reply.code.unwrap_or_default(),
                scrub(&fault.reply.reply)
            ),
            "runbooks/install.md, \"Returned mails\": recipient_delimiter = +, and a mailbox for the address",
        ),
    }
}
