//! Probes of the relay, whether it would talk to us: for readiness, the breaker's probe and `check`. Nothing is sent.

use super::SmtpSettings;
use super::classify::{ReplyEffect, classify};
use super::dialogue::Dialogue;
use super::patience::Patience;
use crate::ports::{CheckLine, Fault, Outcome, Stage};
use crate::scrub::scrub;

/// Connects, reads the banner, says EHLO and QUIT; returns the banner's text.
///
/// # Errors
///
/// [`Fault`]: the stage and the reason; always about us.
pub async fn greet(settings: &SmtpSettings) -> Result<String, Fault> {
    let dialogue = open(settings).await?;
    let banner = dialogue.banner.clone();
    dialogue.quit().await;
    Ok(banner)
}

/// Goes as far as a send does before its first recipient: MAIL FROM, then RSET and QUIT.
///
/// # Errors
///
/// [`Fault`]: the stage and the reason; always about us.
pub async fn offer(settings: &SmtpSettings, sender: &str) -> Result<(), Fault> {
    let patience = Patience::new(settings.connect_timeout + 3 * settings.command_timeout);
    let mut dialogue = Dialogue::open(settings, &patience).await?;
    let command = format!("MAIL FROM:<{sender}>");
    let limit = settings.command_timeout;
    let reply = dialogue.ask(Stage::Mail, &command, limit, &patience).await;
    match classify(Stage::Mail, reply) {
        ReplyEffect::Granted => {
            dialogue.ask(Stage::Mail, "RSET", limit, &patience).await;
            dialogue.quit().await;
            Ok(())
        }
        ReplyEffect::Settled {
            outcome: Outcome::Deferred(fault) | Outcome::Refused(fault) | Outcome::Unknown(fault),
            ..
        } => Err(fault),
        // MAIL is never the end of anything.
        ReplyEffect::Settled {
            outcome: Outcome::Accepted { .. } | Outcome::Created { .. } | Outcome::NotImplemented,
            ..
        } => Ok(()),
    }
}

/// Asks whether the relay would take a mail that comes back to `address`: MAIL from nobody, RCPT, then RSET and QUIT.
///
/// # Errors
///
/// [`Fault`]: the stage and the reason.
pub async fn takes_returns_to(settings: &SmtpSettings, address: &str) -> Result<(), Fault> {
    let patience = Patience::new(settings.connect_timeout + 4 * settings.command_timeout);
    let mut dialogue = Dialogue::open(settings, &patience).await?;
    let limit = settings.command_timeout;
    for (stage, command) in
        [(Stage::Mail, "MAIL FROM:<>".to_owned()), (Stage::Rcpt, format!("RCPT TO:<{address}>"))]
    {
        let reply = dialogue.ask(stage, &command, limit, &patience).await;
        if let ReplyEffect::Settled {
            outcome: Outcome::Deferred(fault) | Outcome::Refused(fault) | Outcome::Unknown(fault),
            ..
        } = classify(stage, reply)
        {
            dialogue.quit().await;
            return Err(fault);
        }
    }
    dialogue.ask(Stage::Rcpt, "RSET", limit, &patience).await;
    dialogue.quit().await;
    Ok(())
}

/// The line `relay` of `check`.
pub async fn inspect(settings: &SmtpSettings) -> CheckLine {
    const NAME: &str = "relay";
    let relay = settings.relay();
    let dialogue = match open(settings).await {
        Ok(dialogue) => dialogue,
        Err(fault) => {
            let said = scrub(&fault.reply.reply);
            let code = fault.reply.code.map(|code| format!("{code} ")).unwrap_or_default();
            let detail = if fault.stage == Stage::Connect {
                said
            } else if fault.stage == Stage::Banner {
                format!("{relay} answers, but not with a greeting: {code}{said}")
            } else if fault.stage == Stage::Ehlo {
                format!("{relay} greets, but refuses EHLO {}: {code}{said}", settings.hello_name)
            } else {
                format!("{relay}: {code}{said}")
            };
            return CheckLine::fail(NAME, detail, remedy(&fault, settings));
        }
    };
    let offers = [
        ("PIPELINING", dialogue.offers.pipelining),
        ("SIZE", dialogue.offers.size),
        ("8BITMIME", dialogue.offers.eight_bit),
        ("SMTPUTF8", dialogue.offers.utf8),
    ];
    let offered: Vec<&str> = offers.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect();
    let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
    let detail = format!(
        "{relay} ({}) greets as \"{}\" and offers {offered}",
        dialogue.address,
        scrub(&dialogue.banner)
    );
    dialogue.quit().await;
    CheckLine::ok(NAME, detail)
}

async fn open(settings: &SmtpSettings) -> Result<Dialogue, Fault> {
    let whole = settings.connect_timeout + 2 * settings.command_timeout;
    Dialogue::open(settings, &Patience::new(whole)).await
}

fn remedy(fault: &Fault, settings: &SmtpSettings) -> String {
    let (host, port, stage) = (&settings.host, settings.port, fault.stage);
    let (code, reply) = (fault.reply.code, &fault.reply.reply);
    if stage == Stage::Connect && reply.contains("refused") {
        "is Postfix running? `systemctl status postfix`".to_owned()
    } else if stage == Stage::Connect && reply.contains("name") {
        format!("does [smtp] host = \"{host}\" stand in DNS or /etc/hosts? `getent hosts {host}`")
    } else if stage == Stage::Connect {
        format!(
            "is {host}:{port} the relay, and open to this host? Look at [smtp] host and port, and the firewall"
        )
    } else if stage == Stage::Banner && code.is_none() {
        format!(
            "is {port} the plain SMTP port of the relay (not TLS), and is Postfix healthy? `journalctl -u postfix@-`"
        )
    } else if stage == Stage::Ehlo && code.is_some() {
        "set [smtp] hello_name to a name the relay accepts, and look at its log".to_owned()
    } else {
        "look at the relay's log, and whether it lets this host in (mynetworks)".to_owned()
    }
}
