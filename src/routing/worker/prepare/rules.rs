//! Rules that mails are made by, read from the configuration once, and again where a reload changes some.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::files::InlineRules;
use crate::config::{Attachments, Config, InDoubt, MailBody};
use crate::ops::live::Live;
use crate::routing::delivery::sender::ReturnAddress;
use crate::routing::submission::destination;
use crate::routing::submission::destination::Mailbox;
use crate::routing::submission::message_id::Origin;

/// Rules that mails are made by: parts of the configuration, parsed once.
#[derive(Debug)]
pub struct MailRules {
    /// Sender that the reader sees.
    pub from: Mailbox,
    /// Return address of the mails; absent: bounces go to the sender.
    pub returns: Option<ReturnAddress>,
    /// Body format.
    pub body: MailBody,
    /// Rules that a reload may change.
    pub changing: Live<ChangingRules>,
}

/// The part of the rules that a reload may change.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangingRules {
    /// Zone of the times shown.
    pub time_zone: TimeZone,
    /// Domains that mails may go to; empty: any.
    pub allowed_domains: Vec<String>,
    /// Fields whose address becomes the Reply-To.
    pub reply_to_fields: Vec<String>,
    /// Longest life of a link.
    pub link_ttl: std::time::Duration,
    /// Treatment of deliveries in doubt.
    pub in_doubt: InDoubt,
    /// Files inside.
    pub inline: InlineRules,
}

impl MailRules {
    /// Reads the rules of a validated configuration.
    ///
    /// # Errors
    /// The key that is wrong, and how.
    pub fn new(config: &Config) -> Result<Self, String> {
        let from = destination::parse_mailbox(&config.mail.from)
            .map_err(|why| format!("mail.from is not an address: {why}"))?;
        let returns = return_address(config)?;
        Ok(Self { from, returns, body: config.mail.body, changing: ChangingRules::new(config)?.into() })
    }

    /// Envelope sender of a mail; [`TRIAL`](crate::routing::delivery::sender::TRIAL) is the origin without a submission.
    #[must_use]
    pub fn sender(&self, origin: Origin) -> String {
        self.returns.as_ref().map_or_else(|| self.from.address.clone(), |returns| returns.sender(origin))
    }

    /// The changing rules, as they are now.
    #[must_use]
    pub fn now(&self) -> Arc<ChangingRules> {
        self.changing.get()
    }
}

/// The return address, with `[bounces]` on.
fn return_address(config: &Config) -> Result<Option<ReturnAddress>, String> {
    let Some(address) = &config.bounces.address else { return Ok(None) };
    let secret = config.bounce_secret().map_err(|error| error.to_string())?;
    let secret = secret.ok_or("bounces.secret_file is required with bounces.address")?;
    ReturnAddress::new(address, secret.secret.expose()).map(Some)
}

/// Forms whose mails have files inside.
fn inline_forms(config: &Config) -> Vec<String> {
    let forms = config.mail.forms.iter().filter(|(_, form)| form.attachments == Attachments::Inline);
    forms.map(|(name, _)| name.clone()).collect()
}

impl ChangingRules {
    /// Reads the changing rules of a validated configuration.
    ///
    /// # Errors
    /// The key that is wrong, and how.
    pub fn new(config: &Config) -> Result<Self, String> {
        let time_zone = TimeZone::get(&config.mail.time_zone).map_err(|e| {
            format!("mail.time_zone {:?} is not an IANA time zone: {e}", config.mail.time_zone)
        })?;
        Ok(Self {
            time_zone,
            allowed_domains: config.mail.allowed_destination_domains.clone(),
            reply_to_fields: config.mail.reply_to_fields.clone(),
            link_ttl: config.signed_url.ttl,
            in_doubt: config.routing.in_doubt,
            inline: InlineRules {
                forms: inline_forms(config),
                max_total: config.mail.inline_max_total.as_bytes(),
                types: config.mail.inline_types.clone(),
            },
        })
    }
}
