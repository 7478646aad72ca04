//! `test-send`: one mail through the real path.
//!
//! Reads no submission and needs no database. If we die in the middle the relay has the mail or it has not.

use std::sync::Arc;

use super::{CliError, Context, Exit, output};
use crate::gateway::smtp::{Connections, Envelope, SmtpSettings};
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::parts;
use crate::ports::{Fault, Outcome, Stage};
use crate::routing::compose::trial_mail;
use crate::routing::delivery::sender::TRIAL;
use crate::routing::explain::said;
use crate::routing::submission::destination;
use crate::routing::submission::destination::parse_mailbox;
use crate::routing::worker::prepare::MailRules;

/// Arguments of `test-send`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to
    #[arg(value_name = "ADDRESS")]
    pub(super) address: String,
}

/// Sends the mail.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let to = parse_mailbox(&args.address).map_err(|why| {
        CliError::new(Exit::Usage, anyhow::anyhow!("{:?} is not an address: {why}", args.address))
    })?;
    let config = ctx.config()?.config;
    let rules =
        MailRules::new(&config).map_err(|why| CliError::new(Exit::BadConfig, anyhow::anyhow!(why)))?;
    if !destination::allowed(&to.address, &rules.now().allowed_domains) {
        let refused =
            anyhow::anyhow!("the domain of this address is not in mail.allowed_destination_domains");
        return Err(CliError::new(Exit::FoundWanting, refused).remedy("no form could write to it either"));
    }
    let rng = Rng::from_system();
    let domain = rules.from.address.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
    let message_id = format!("<maple-test.{}@{domain}>", rng.uuid().simple());
    let message = trial_mail(&rules.from, &to, &message_id, now(), &parts::host())
        .map_err(|why| CliError::new(Exit::BadConfig, anyhow::anyhow!(why)))?;
    let settings = SmtpSettings::from(&config.smtp);
    let relay = settings.relay();
    let connections = Connections::new(settings, Arc::new(SystemClock));
    let mut connection = connections.acquire().await;
    let envelope = Envelope {
        from: &rules.sender(TRIAL),
        recipients: std::slice::from_ref(&to.address),
        message: &message,
    };
    let outcome = connection.send(&envelope, &|| Ok(())).await.pop();
    drop(connection);
    connections.close().await;
    answer(outcome, &relay, &message_id)
}

fn answer(outcome: Option<Outcome>, relay: &str, message_id: &str) -> Result<Exit, CliError> {
    match outcome {
        Some(Outcome::Accepted { reply, queue_id }) => {
            let queue_id = queue_id.map(|id| format!("\nqueue id    {id}")).unwrap_or_default();
            output::text(&format!(
                "accepted by {relay}: {}{queue_id}\nMessage-ID  {message_id}\n\
                 Whether it arrives is the relay's to say: its log names the queue id.",
                said(Stage::Dot, &reply).trim_start_matches("dot ")
            ))?;
            Ok(Exit::Done)
        }
        Some(Outcome::Refused(fault)) => Err(not_sent(Exit::FoundWanting, "refused by", relay, &fault)
            .remedy("look at the address, and at what the relay's log says")),
        Some(Outcome::Deferred(fault)) if fault.reply.code.is_none_or(|code| code == 421) => {
            Err(not_sent(Exit::Unavailable, "no answer to work with from", relay, &fault)
                .remedy("is Postfix running? `systemctl status postfix`; `maple-router check` tells more"))
        }
        Some(Outcome::Deferred(fault)) => Err(not_sent(Exit::FoundWanting, "not taken by", relay, &fault)
            .remedy("look at the relay's log, and whether it lets this host in (mynetworks)")),
        Some(Outcome::Unknown(fault)) => Err(not_sent(Exit::Unavailable, "in doubt at", relay, &fault)
            .remedy(format!("search the relay's log for {message_id}"))),
        Some(Outcome::Created { .. } | Outcome::NotImplemented) | None => {
            Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("the mail was not sent")))
        }
    }
}

fn not_sent(exit: Exit, how: &str, relay: &str, fault: &Fault) -> CliError {
    CliError::new(exit, anyhow::anyhow!("{how} {relay}: {}", said(fault.stage, &fault.reply)))
}

/// The `Date` of the mail, by this host's clock: nothing is stored or compared.
#[expect(
    clippy::disallowed_methods,
    reason = "only shown to the reader of the mail; no database is asked here"
)]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
